package engine

import (
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/toolbox"
)

// wish is a call as policy sees it.
type wish struct {
	decl    parley.ToolDecl
	effect  parley.Effect
	subject string
	scoped  bool     // what it reaches counts, too
	reaches []string // of a scoped call; none: nobody knows
}

func wishOf(d parley.ToolDecl, effect parley.Effect, input []byte) wish {
	return wish{decl: d, effect: effect, subject: d.SubjectOf(input)}
}

// reaching is the wish with what its tool says that the call would act on.
func (w wish) reaching(box *toolbox.Box, input []byte) wish {
	w.reaches, w.scoped = box.Reaches(w.decl.Name, input)
	return w
}

// judge says what policy makes of a call, and why. The strictest matching rule
// of app and session holds; a rule granted for the session allows what would
// have been asked, but never what is denied.
func judge(app *parley.App, s *parley.Session, w wish) (parley.Verdict, string) {
	verdict, reason, matched := parley.Allow, "", false
	look := func(rules []parley.Rule) {
		for _, r := range rules {
			if !matches(r, w) {
				continue
			}
			v := r.Verdict
			if v != parley.Allow && v != parley.Ask {
				v = parley.Deny // a misspelt verdict must not open a door
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
	if !matched && w.effect != parley.EffectRead {
		verdict = parley.Ask
	}
	mode := s.Mode
	if !app.Policy.Offers(mode) { // chosen when the app still offered it
		mode = parley.ModeDefault
	}
	if mode == parley.ModePlan && w.effect != parley.EffectRead {
		return parley.Deny, "the session is in plan mode: nothing is changed"
	}
	if why := barred(app.Policy, s.Policy, w); why != "" {
		return parley.Deny, why
	}
	if verdict == parley.Ask {
		for _, r := range s.Rules {
			if r.Verdict == parley.Allow && matches(r, w) && covers(r, w) {
				return parley.Allow, "allowed for this session"
			}
		}
		if mode == parley.ModeBypassPermissions || mode == parley.ModeAcceptEdits && w.decl.Edits {
			return parley.Allow, ""
		}
	}
	return verdict, reason
}

// barred says why an actuation is not allowed, or "".
func barred(app parley.Policy, session *parley.Policy, w wish) string {
	if !w.decl.Actuation {
		return ""
	}
	listed := func(p parley.Policy) bool {
		return slices.ContainsFunc(p.AllowlistedServices, func(pattern string) bool { return like(pattern, w.subject) })
	}
	switch {
	case app.AllowActuation == nil || !*app.AllowActuation:
		return "actuation is off in this app (policy.allow_actuation)"
	case session != nil && session.AllowActuation != nil && !*session.AllowActuation:
		return "actuation is off in this session (policy.allow_actuation)"
	case !listed(app):
		return w.subject + " is not in the app's list of allowed services (policy.allowlisted_services)"
	case session != nil && session.AllowlistedServices != nil && !listed(*session):
		return w.subject + " is not in the session's list of allowed services (policy.allowlisted_services)"
	}
	return ""
}

func rank(v parley.Verdict) int {
	switch v {
	case parley.Allow:
		return 0
	case parley.Ask:
		return 1
	}
	return 2
}

func matches(r parley.Rule, w wish) bool {
	if r.Effect != "" && r.Effect != w.effect {
		return false
	}
	name, pattern, narrowed := strings.Cut(r.Tool, "(")
	if narrowed && !like(strings.TrimSuffix(pattern, ")"), w.subject) {
		return false
	}
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		return strings.HasPrefix(w.decl.Name, prefix)
	}
	return name == "" || name == w.decl.Name
}

// covers reports whether a rule that was granted for the session is for all that
// the call would act on.
func covers(r parley.Rule, w wish) bool {
	if !w.scoped {
		return true
	}
	return len(w.reaches) > 0 && !slices.ContainsFunc(w.reaches, func(what string) bool { return !slices.Contains(r.Reaches, what) })
}

// like reports whether text fits a pattern in which "*" stands for any
// characters.
func like(pattern, text string) bool {
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

// maxReach bounds what one rule names, in bytes: rules are part of the session.
const maxReach = 4 << 10

// granting is the rule that "allow for this session" makes of a call: as narrow
// as its subject, where the tool says what that is, and as what it reaches. There
// is none for a subject that would be read as a pattern, and for a call of which
// nobody knows what it reaches: it would allow more than was asked.
func granting(w wish, by string) (parley.Rule, bool) {
	d := w.decl
	r := parley.Rule{Verdict: parley.Allow, Tool: d.Name, Reason: "allowed for this session by " + by, Reaches: w.reaches}
	if size := len(strings.Join(w.reaches, ",")); w.scoped && (size == 0 || size > maxReach) {
		return parley.Rule{}, false
	}
	if d.Subject == "" {
		return r, true
	}
	subject := w.subject
	if strings.Contains(subject, "*") || strings.HasSuffix(subject, ")") {
		return parley.Rule{}, false
	}
	r.Tool += "(" + subject + ")"
	return r, true
}

// keeping is what stays of the rules granted for the session. A caller may take
// some away, and adds none: a rule is granted by an answer to what was asked.
// nil leaves them as they are.
func (s *session) keeping(wanted *[]parley.Rule) (*[]parley.Rule, error) {
	if wanted == nil {
		return nil, nil
	}
	for _, w := range *wanted {
		if !slices.ContainsFunc(s.view.Rules, func(r parley.Rule) bool { return r.Same(w) }) {
			return nil, parley.Errorf(parley.CodeInvalid, "the rule for %s was not granted for this session", parley.Cut(w.Tool, 60)).WithField("rules").
				WithHint("rules names those that stay; one more is granted by answering %q", parley.ChoiceAllowSession)
		}
	}
	kept := []parley.Rule{}
	for _, r := range s.view.Rules {
		if slices.ContainsFunc(*wanted, func(w parley.Rule) bool { return r.Same(w) }) {
			kept = append(kept, r)
		}
	}
	return &kept, nil
}
