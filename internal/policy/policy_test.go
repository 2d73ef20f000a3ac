package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
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
		if got := policy.Like(c.pattern, c.text); got != c.want {
			t.Errorf("like(%q, %q) = %v", c.pattern, c.text, got)
		}
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
			got[mode][name], _ = policy.Judge(&app, &parley.Session{Mode: mode}, wishOf(d, d.Effect, []byte(`{"service":"light.turn_on"}`)))
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
	if got, _ := policy.Judge(&app, &parley.Session{Mode: parley.ModeBypassPermissions}, wishOf(tools["write"], parley.EffectWrite, nil)); got != parley.Ask {
		t.Errorf("a mode that the app does not offer any more: %s", got)
	}
}

// TestGuarded: no rule, grant or mode answers for a person where a file decides what agents are told.
func TestGuarded(t *testing.T) {
	t.Parallel()
	edit := parley.ToolDecl{Name: "Write", Effect: parley.EffectWrite, Edits: true}
	app := parley.App{Policy: parley.Policy{
		Rules: []parley.Rule{{Verdict: parley.Allow, Effect: parley.EffectWrite}, {Verdict: parley.Deny, Tool: "Erase"}},
		Modes: []parley.PermissionMode{parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions},
	}}
	granted := []parley.Rule{{Verdict: parley.Allow, Tool: "Write"}}
	for _, mode := range []parley.PermissionMode{"", parley.ModeAcceptEdits, parley.ModeBypassPermissions} {
		w := wishOf(edit, parley.EffectWrite, nil)
		if got, _ := policy.Judge(&app, &parley.Session{Mode: mode, Rules: granted}, w); got != parley.Allow {
			t.Errorf("%q, any other file: %s", mode, got)
		}
		w.Guarded = true
		if got, why := policy.Judge(&app, &parley.Session{Mode: mode, Rules: granted}, w); got != parley.Confirm || why == "" {
			t.Errorf("%q: %s, %q", mode, got, why)
		}
		w.Decl.Name = "Erase"
		if got, _ := policy.Judge(&app, &parley.Session{Mode: mode, Rules: granted}, w); got != parley.Deny {
			t.Errorf("%q, denied: %s", mode, got)
		}
	}
}

func wishOf(d parley.ToolDecl, effect parley.Effect, input []byte) policy.Wish {
	return policy.Wish{Decl: d, Effect: effect, Subject: d.SubjectOf(input)}
}

// TestGrantedToOneOfTwo: a rule granted for a tool of the app is not about one of the runtime with the same
// name, nor the other way round.
func TestGrantedToOneOfTwo(t *testing.T) {
	t.Parallel()
	ours := parley.ToolDecl{Name: "Bash", Subject: "{command}", Effect: parley.EffectWrite, Safety: "confined to the workspace"}
	theirs := ours
	theirs.Run, theirs.Safety = parley.RunRuntime, ""
	unconfined := ours
	unconfined.Safety = "not confined"
	tools := []parley.ToolDecl{ours, theirs, unconfined}
	app := parley.App{Tools: tools}
	for i, asked := range tools {
		rule := parley.Rule{Verdict: parley.Allow, Tool: "Bash(make)", Run: asked.Run, Safety: asked.Safety}
		s := &parley.Session{Rules: []parley.Rule{rule}}
		for j, d := range tools {
			want := parley.Ask
			if i == j {
				want = parley.Allow
			}
			if got, _ := policy.Judge(&app, s, policy.Wish{Decl: d, Effect: parley.EffectWrite, Subject: "make", Parts: []string{"make"}, Plain: true, Composed: true}); got != want {
				t.Errorf("granted for %q by %q, called is %q by %q: %s", asked.Safety, asked.Run, d.Safety, d.Run, got)
			}
		}
	}
}
