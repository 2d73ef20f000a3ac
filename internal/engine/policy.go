package engine

import (
	"reflect"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/toolbox"
)

// wishOf is a call as policy sees it, with what its tool says that it would act on.
func wishOf(box *toolbox.Box, d parley.ToolDecl, effect parley.Effect, input []byte) policy.Wish {
	w := policy.Wish{Decl: d, Effect: effect, Subject: d.SubjectOf(input)}
	w.Reaches, w.Scoped = box.Reaches(d.Name, input)
	return w
}

// maxReach bounds what one rule names, in bytes: rules are part of the session.
const maxReach = 4 << 10

// granting is the rule that "allow for this session" makes of a call: as narrow
// as its subject, where the tool says what that is, and as what it reaches. There
// is none for a subject that would be read as a pattern, and for a call of which
// nobody knows what it reaches: it would allow more than was asked.
func granting(w policy.Wish, by string) (parley.Rule, bool) {
	d := w.Decl
	r := parley.Rule{Verdict: parley.Allow, Tool: d.Name, Reason: "allowed for this session by " + by, Reaches: w.Reaches}
	if size := len(strings.Join(w.Reaches, ",")); w.Scoped && (size == 0 || size > maxReach) {
		return parley.Rule{}, false
	}
	if d.Subject == "" {
		return r, true
	}
	subject := w.Subject
	if strings.Contains(subject, "*") || strings.HasSuffix(subject, ")") {
		return parley.Rule{}, false
	}
	r.Tool += "(" + subject + ")"
	return r, true
}

// takesBack reports whether c does nothing but take away some of what the session
// allows: the rules that do not stay, or a mode that asks less.
func (s *session) takesBack(c parley.UpdateSession, rules *[]parley.Rule) bool {
	fewer := rules != nil && len(*rules) < len(s.view.Rules)
	asks := c.Mode != nil && *c.Mode == parley.ModeDefault && s.view.Mode != "" && s.view.Mode != parley.ModeDefault
	only := c
	only.Rules, only.Mode, only.ExpectedVersion = nil, nil, 0
	return (fewer || asks) && (rules == nil || fewer) && (c.Mode == nil || asks) && reflect.ValueOf(only).IsZero()
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
