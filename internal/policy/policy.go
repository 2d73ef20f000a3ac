// Package policy decides what an app and a session let an agent do: for one call, and for
// a tool with any input. It is pure. The engine decides by it; prompts use it so that a
// model is not offered what would be denied.
package policy

import (
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// Wish is a call as policy sees it.
type Wish struct {
	Decl    parley.ToolDecl
	Effect  parley.Effect
	Subject string   // what the call is about, see [parley.ToolDecl]
	Scoped  bool     // what it reaches counts, too
	Reaches []string // what a scoped call reaches; empty: unknown
	// Guarded says that what the call changes decides what agents are told or what runs. Then a
	// person confirms each call, whatever rules and modes say.
	Guarded bool
	// ReadOnly says that the app's file lets nobody change the workspace.
	ReadOnly bool
	// Composed says that the call consists of Parts, each a subject of its own, as the command line of
	// a shell does. Rules with a pattern are about each part, and the strictest verdict on a part
	// counts. Unless the call is Plain, which means that the parts are all that it does, only a rule
	// with exactly the call's subject allows it by a pattern. Within is what the parts do in turn, as far as that
	// is known, for rules that forbid or ask; Hides says that there is more.
	Composed bool
	Plain    bool
	Hides    bool
	Parts    []string
	Within   []string

	whole  string // of a part: the subject of its call
	part   bool
	within bool // it is not a part, but what one does in turn: rules cannot allow it, only forbid it or ask
}

// Judge returns the verdict on a call and the reason. The strictest matching rule of app
// and session wins. A rule granted for the session allows what would have been asked, but
// never what is denied. It is about the tool that the person was asked about, not about another one of its
// name.
func Judge(app *parley.App, s *parley.Session, w Wish) (parley.Verdict, string) {
	if w.Composed && !w.part {
		return judgeParts(app, s, w)
	}
	verdict, reason, matched := parley.Allow, "", false
	look := func(rules []parley.Rule) {
		for _, r := range rules {
			v := verdictOf(r)
			switch {
			case v == parley.Allow && w.within:
				continue
			case matches(r, w):
			case v != parley.Allow && w.part && w.Hides && mayMatch(r, w):
				v, r.Reason = parley.Ask, hidden
			default:
				continue
			}
			if !matched || rank(v) > rank(verdict) {
				verdict, reason = v, r.Reason
			}
			matched = true
		}
	}
	look(app.Policy.Rules)
	if s.Policy != nil {
		look(s.Policy.Rules)
	}
	if !matched && !w.within && w.Effect != parley.EffectRead {
		verdict = parley.Ask
	}
	mode := modeOf(app, s)
	if mode == parley.ModePlan && w.Effect != parley.EffectRead {
		return parley.Deny, inPlan
	}
	if w.Decl.Edits && w.Effect != parley.EffectRead && (s.ReadOnly || w.ReadOnly) {
		return parley.Deny, ReadOnlyReason(s.Parent != "")
	}
	if why := barred(app.Policy, s.Policy, w); why != "" {
		return parley.Deny, why
	}
	if v := afterWeb(app, s, w.Decl); rank(v) > rank(verdict) {
		return v, webSays
	}
	if w.Decl.Confirm && w.Effect != parley.EffectRead && rank(verdict) < rank(parley.Confirm) {
		return parley.Confirm, reason
	}
	if w.Guarded && rank(verdict) < rank(parley.Confirm) {
		return parley.Confirm, guarded
	}
	if verdict == parley.Ask {
		for _, r := range s.Rules {
			if r.Verdict == parley.Allow && r.GrantedFor(w.Decl) && matches(r, w) && covers(r, w) {
				return parley.Allow, "allowed for this session"
			}
		}
		if mode == parley.ModeBypassPermissions || mode == parley.ModeAcceptEdits && w.Decl.Edits {
			return parley.Allow, ""
		}
	}
	return verdict, reason
}

// judgeParts returns the strictest verdict on a part of a call, or on what a part does in turn.
func judgeParts(app *parley.App, s *parley.Session, w Wish) (verdict parley.Verdict, reason string) {
	w.part, w.whole = true, w.Subject
	parts := w.Parts
	if len(parts) == 0 {
		parts, w.Plain, w.Hides = []string{w.whole}, false, true
	}
	for i, p := range slices.Concat(parts, w.Within) {
		w.Subject, w.within = p, i >= len(parts)
		if v, why := Judge(app, s, w); i == 0 || rank(v) > rank(verdict) {
			verdict, reason = v, why
		}
	}
	return verdict, reason
}

const hidden = "what the command runs cannot be told from its words, and a rule is about some commands"

const webSays = "text of strangers, such as a page of the web or a comment, was read in this turn, and may have asked for it"

// afterWeb is the verdict on a call if it would tell somebody outside something and the turn has
// content of the web; else Allow. What has to be asked is confirmed, so that no rule, hook or
// mode answers for the human, bypassPermissions included: they trust the agent, not the authors
// of pages.
func afterWeb(app *parley.App, s *parley.Session, d parley.ToolDecl) parley.Verdict {
	if !d.Outward || s.Turn == nil || !s.Turn.Web {
		return parley.Allow
	}
	switch v := app.Policy.Narrowed(s.Policy).OutwardAfterWeb; v {
	case parley.Allow:
		return parley.Allow
	case "", parley.Ask, parley.Confirm:
		return parley.Confirm
	}
	return parley.Deny
}

// ReadOnly are rules with which an app is judged as in a session whose workspace is
// read-only, for replays, which have none.
func ReadOnly(tools []parley.ToolDecl, reason string) []parley.Rule {
	var rules []parley.Rule
	for _, d := range tools {
		if d.Edits && d.Effect != parley.EffectRead {
			rules = append(rules, parley.Rule{Verdict: parley.Deny, Tool: d.Name, Reason: reason})
		}
	}
	return rules
}

// ReadOnlyReason says why nothing in a workspace is changed. Whoever works in a fork may not know what it has of the session that it is a copy of.
func ReadOnlyReason(fork bool) string {
	const says = "the session's workspace is read-only"
	if fork {
		return says + " because it is a fork; the session that it was forked from can change files"
	}
	return says
}

const guarded = "the file decides what agents are told, or what runs"

const inPlan = "the session is in plan mode: nothing is changed"

// modeOf is the session's mode, if the app still offers it.
func modeOf(app *parley.App, s *parley.Session) parley.PermissionMode {
	if !app.Policy.Offers(s.Mode) {
		return parley.ModeDefault
	}
	return s.Mode
}

// verdictOf treats a misspelt verdict as a denial, so that a typo allows nothing.
func verdictOf(r parley.Rule) parley.Verdict {
	switch r.Verdict {
	case parley.Allow, parley.Ask, parley.Confirm:
		return r.Verdict
	}
	return parley.Deny
}

// barred says why an actuation is not allowed, or "".
func barred(app parley.Policy, session *parley.Policy, w Wish) string {
	if !w.Decl.Actuation {
		return ""
	}
	listed := func(p parley.Policy) bool {
		return slices.ContainsFunc(p.AllowlistedServices, func(pattern string) bool { return Like(pattern, w.Subject) })
	}
	if why := off(app, session); why != "" {
		return why
	}
	switch {
	case !listed(app):
		return w.Subject + " is not in the app's list of allowed services (policy.allowlisted_services)"
	case session != nil && session.AllowlistedServices != nil && !listed(*session):
		return w.Subject + " is not in the session's list of allowed services (policy.allowlisted_services)"
	}
	return ""
}

// off says who has switched all actuation off, or "".
func off(app parley.Policy, session *parley.Policy) string {
	switch {
	case app.AllowActuation == nil || !*app.AllowActuation:
		return "actuation is off in this app (policy.allow_actuation)"
	case session != nil && session.AllowActuation != nil && !*session.AllowActuation:
		return "actuation is off in this session (policy.allow_actuation)"
	}
	return ""
}

func rank(v parley.Verdict) int {
	switch v {
	case parley.Allow:
		return 0
	case parley.Ask:
		return 1
	case parley.Confirm:
		return 2
	}
	return 3
}

// mayMatch reports whether a rule is about some calls of the tool.
func mayMatch(r parley.Rule, w Wish) bool {
	name, _, narrowed := strings.Cut(r.Tool, "(")
	return narrowed && named(name, w.Decl.Name) && (r.Effect == "" || r.Effect == w.Effect)
}

func matches(r parley.Rule, w Wish) bool {
	if r.Effect != "" && r.Effect != w.Effect {
		return false
	}
	name, pattern, narrowed := strings.Cut(r.Tool, "(")
	if pattern = strings.TrimSuffix(pattern, ")"); narrowed && !w.fits(r, pattern) {
		return false
	}
	return named(name, w.Decl.Name)
}

// fits reports whether a rule's pattern is about the call. In a pattern for parts, ":*" at the end stands
// for nothing or further words.
func (w Wish) fits(r parley.Rule, pattern string) bool {
	switch {
	case !w.part:
		return Like(pattern, w.Subject)
	case pattern == w.whole || pattern == "*":
		return true
	case verdictOf(r) == parley.Allow && !w.Plain:
		return false
	}
	if prefix, ok := strings.CutSuffix(pattern, ":*"); ok {
		rest, ok := strings.CutPrefix(w.Subject, prefix)
		return ok && (rest == "" || rest[0] == ' ')
	}
	return Like(pattern, w.Subject)
}

// named reports whether the name in a rule is that of a tool.
func named(name, tool string) bool {
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		return strings.HasPrefix(tool, prefix)
	}
	return name == "" || name == tool
}

// covers reports whether a rule granted for the session applies to everything that the
// call would act on.
func covers(r parley.Rule, w Wish) bool {
	if !w.Scoped {
		return true
	}
	return len(w.Reaches) > 0 && !slices.ContainsFunc(w.Reaches, func(what string) bool { return !slices.Contains(r.Reaches, what) })
}

// Like reports whether text fits a pattern in which "*" stands for any
// characters.
func Like(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	parts := strings.Split(rest, "*")
	for _, p := range parts[:len(parts)-1] {
		at := strings.Index(text, p)
		if at < 0 {
			return false
		}
		text = text[at+len(p):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
