package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

func TestLike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"light.*", "light.turn_on", true},
		{"light.*", "lights.turn_on", false},
		{"*.turn_off", "switch.turn_off", true},
		{"*.turn_off", "switch.turn_off_all", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"a*a", "a", false},
		{"*", "", true},
		{"", "", true},
		{"", "x", false},
	} {
		if got := like(c.pattern, c.text); got != c.want {
			t.Errorf("like(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	on := true
	off := false
	service := parley.ToolDecl{Name: "ha_call_service", Effect: parley.EffectWrite, Subject: "{domain}.{service}", Actuation: true}
	light := []byte(`{"domain":"light","service":"turn_on"}`)
	open := parley.Policy{AllowActuation: &on, AllowlistedServices: []string{"light.*"}}
	granted := func(input []byte) []parley.Rule {
		if r, ok := granting(wishOf(service, parley.EffectWrite, input), "ana"); ok {
			return []parley.Rule{r}
		}
		return nil
	}
	with := func(p parley.Policy, rules ...parley.Rule) parley.Policy { p.Rules = rules; return p }
	for name, c := range map[string]struct {
		app     parley.Policy
		session parley.Session
		want    parley.Verdict
		why     string
	}{
		"actuation is off unless it is on":     {parley.Policy{Rules: []parley.Rule{{Verdict: parley.Allow}}}, parley.Session{}, parley.Deny, "off in this app"},
		"off even when permissions are waived": {parley.Policy{}, parley.Session{Mode: parley.ModeBypassPermissions}, parley.Deny, "off in this app"},
		"not on the list":                      {parley.Policy{AllowActuation: &on, AllowlistedServices: []string{"switch.*"}}, parley.Session{}, parley.Deny, "light.turn_on is not in the app's list"},
		"on the list it is asked for":          {open, parley.Session{}, parley.Ask, ""},
		"a rule for its subject allows it":     {with(open, parley.Rule{Verdict: parley.Allow, Tool: "ha_call_service(light.*)"}), parley.Session{}, parley.Allow, ""},
		"a rule for another does not":          {with(open, parley.Rule{Verdict: parley.Allow, Tool: "ha_call_service(switch.*)"}), parley.Session{}, parley.Ask, ""},
		"deny comes first":                     {with(open, parley.Rule{Verdict: parley.Allow}, parley.Rule{Verdict: parley.Deny, Tool: "ha_*(*.turn_on)"}), parley.Session{}, parley.Deny, ""},
		"the session turned it off":            {open, parley.Session{Policy: &parley.Policy{AllowActuation: &off}}, parley.Deny, "off in this session"},
		"the session's list is shorter":        {open, parley.Session{Policy: &parley.Policy{AllowlistedServices: []string{"light.turn_off"}}}, parley.Deny, "session's list"},
		"granted for the session":              {open, parley.Session{Rules: granted(light)}, parley.Allow, ""},
		"granted for another service":          {open, parley.Session{Rules: granted([]byte(`{"domain":"light","service":"toggle"}`))}, parley.Ask, ""},
		"a subject with a star grants nothing": {open, parley.Session{Rules: granted([]byte(`{"domain":"light","service":"*"}`))}, parley.Ask, ""},
		"a star that was granted is no star":   {open, parley.Session{Rules: []parley.Rule{{Verdict: parley.Allow, Tool: "ha_call_service(light.turn_on )"}}}, parley.Ask, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, why := judge(&parley.App{Policy: c.app}, &c.session, wishOf(service, parley.EffectWrite, light))
			if got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("got %s, %q", got, why)
			}
		})
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	on := true
	tools := map[string]parley.ToolDecl{
		"read":   {Name: "look", Effect: parley.EffectRead},
		"edit":   {Name: "edit", Effect: parley.EffectWrite, Edits: true},
		"write":  {Name: "mail", Effect: parley.EffectWrite},
		"act":    {Name: "call", Effect: parley.EffectWrite, Subject: "{service}", Actuation: true},
		"denied": {Name: "rm", Effect: parley.EffectWrite, Edits: true},
	}
	app := parley.App{Policy: parley.Policy{
		Rules:          []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Deny, Tool: "rm"}},
		AllowActuation: &on, AllowlistedServices: []string{"light.*"},
		Modes: []parley.PermissionMode{parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions},
	}}
	type verdicts map[string]parley.Verdict
	got := map[parley.PermissionMode]verdicts{}
	for _, mode := range []parley.PermissionMode{"", parley.ModeDefault, parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions} {
		got[mode] = verdicts{}
		for name, d := range tools {
			got[mode][name], _ = judge(&app, &parley.Session{Mode: mode}, wishOf(d, d.Effect, []byte(`{"service":"light.turn_on"}`)))
		}
	}
	asks := verdicts{"read": parley.Allow, "edit": parley.Ask, "write": parley.Ask, "act": parley.Ask, "denied": parley.Deny}
	want := map[parley.PermissionMode]verdicts{
		"": asks, parley.ModeDefault: asks,
		parley.ModeAcceptEdits:       {"read": parley.Allow, "edit": parley.Allow, "write": parley.Ask, "act": parley.Ask, "denied": parley.Deny},
		parley.ModePlan:              {"read": parley.Allow, "edit": parley.Deny, "write": parley.Deny, "act": parley.Deny, "denied": parley.Deny},
		parley.ModeBypassPermissions: {"read": parley.Allow, "edit": parley.Allow, "write": parley.Allow, "act": parley.Allow, "denied": parley.Deny},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	app.Policy.Modes = nil // the app has changed since the session chose its mode
	if got, _ := judge(&app, &parley.Session{Mode: parley.ModeBypassPermissions}, wishOf(tools["write"], parley.EffectWrite, nil)); got != parley.Ask {
		t.Errorf("a mode that the app does not offer any more: %s", got)
	}
}
