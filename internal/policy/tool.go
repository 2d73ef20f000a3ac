package policy

import (
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// Attended reports whether a human can be asked about a turn.
func Attended(app *parley.App, r parley.TurnRequest) bool {
	return !app.Policy.Unattended && r.Asks()
}

// Tool returns the verdict on a tool in the open turn of s, whatever the input. Deny means that
// no call of it can run; the reason is returned too. Ask and Confirm mean that a human is asked
// before each call. Allow means that no rule forbids all calls. A rule may still forbid some,
// so [Judge] decides on each call.
func Tool(app *parley.App, s *parley.Session, d parley.ToolDecl) (parley.Verdict, string) {
	effect := d.Effect
	if effect == "" {
		effect = parley.EffectWrite
	}
	mode := modeOf(app, s)
	switch {
	case mode == parley.ModePlan && effect != parley.EffectRead && d.Reads == "":
		return parley.Deny, inPlan
	case s.ReadOnly && d.Edits && effect != parley.EffectRead:
		return parley.Deny, ReadOnlyReason(s.Parent != "")
	case d.Actuation:
		if why := inert(app.Policy, s.Policy); why != "" {
			return parley.Deny, why
		}
	}
	attended := Attended(app, s.Turn.Request)
	if d.Asks && !attended {
		return parley.Deny, "there is nobody to ask"
	}
	rules := app.Policy.Rules
	if s.Policy != nil {
		rules = slices.Concat(rules, s.Policy.Rules)
	}
	verdict, reason, some := parley.Allow, "", false
	for _, r := range rules {
		if r.Effect != "" && r.Effect != effect {
			continue
		}
		name, pattern, narrowed := strings.Cut(r.Tool, "(")
		if !named(name, d.Name) {
			continue
		}
		some = true
		if narrowed && pattern != "*)" {
			continue // applies to some calls only
		}
		if v := verdictOf(r); rank(v) > rank(verdict) {
			verdict, reason = v, r.Reason
		}
	}
	if !some && effect != parley.EffectRead {
		verdict = parley.Ask
	}
	if v := afterWeb(app, s, d); attended && rank(v) > rank(verdict) { // else what is offered would change within the turn
		verdict, reason = v, webSays
	}
	if d.Confirm && effect != parley.EffectRead && rank(verdict) < rank(parley.Confirm) {
		verdict = parley.Confirm
	}
	if verdict == parley.Ask && (mode == parley.ModeBypassPermissions || mode == parley.ModeAcceptEdits && d.Edits) {
		return parley.Allow, ""
	}
	granted := func(r parley.Rule) bool {
		name, _, _ := strings.Cut(r.Tool, "(")
		return r.Verdict == parley.Allow && r.GrantedFor(d) && named(name, d.Name)
	}
	if d.Reads != "" && verdict != parley.Deny {
		return verdict, reason // some calls can run, also where nobody can be asked about the others
	}
	if verdict == parley.Ask && !attended && !slices.ContainsFunc(s.Rules, granted) {
		return parley.Deny, "it needs a human's permission, and there is nobody to ask"
	}
	if verdict == parley.Confirm && !attended {
		return parley.Deny, "each call needs a human's confirmation, and there is nobody to ask"
	}
	return verdict, reason
}

// Exceptions returns the rules of app and session that apply only to some calls of a tool.
// Services are the services that an actuation may call, nil for other tools.
func Exceptions(app *parley.App, s *parley.Session, d parley.ToolDecl) (rules []parley.Rule, services []string) {
	all := app.Policy.Rules
	if s.Policy != nil {
		all = slices.Concat(all, s.Policy.Rules)
	}
	for _, r := range all {
		name, pattern, narrowed := strings.Cut(r.Tool, "(")
		if narrowed && pattern != "*)" && named(name, d.Name) && (r.Effect == "" || r.Effect == d.Effect) {
			rules = append(rules, r)
		}
	}
	if d.Actuation {
		services = app.Policy.Narrowed(s.Policy).AllowlistedServices
	}
	return rules, services
}

// inert says why no actuation at all is allowed, or "".
func inert(app parley.Policy, session *parley.Policy) string {
	if why := off(app, session); why != "" {
		return why
	}
	const empty = "'s list of allowed services is empty (policy.allowlisted_services)"
	switch {
	case len(app.AllowlistedServices) == 0:
		return "the app" + empty
	case len(app.Narrowed(session).AllowlistedServices) == 0:
		return "the session" + empty
	}
	return ""
}
