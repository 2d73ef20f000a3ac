package engine

import (
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	on := true
	off := false
	service := parley.ToolDecl{Name: "ha_call_service", Effect: parley.EffectWrite, Subject: "{domain}.{service}", Actuation: true}
	light := []byte(`{"domain":"light","service":"turn_on"}`)
	open := parley.Policy{AllowActuation: &on, AllowlistedServices: []string{"light.*"}}
	granted := func(input []byte) []parley.Rule {
		if r, ok := granting(calling(service, parley.EffectWrite, input), "ana"); ok {
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
			got, why := policy.Judge(&parley.App{Policy: c.app}, &c.session, calling(service, parley.EffectWrite, light))
			if got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("got %s, %q", got, why)
			}
		})
	}
}

func calling(d parley.ToolDecl, effect parley.Effect, input []byte) policy.Wish {
	return policy.Wish{Decl: d, Effect: effect, Subject: d.SubjectOf(input)}
}
