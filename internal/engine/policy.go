package engine

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/toolbox"
)

// wishOf is a call as policy sees it, including what its tool says it would act on.
func wishOf(box *toolbox.Box, d parley.ToolDecl, effect parley.Effect, input []byte) policy.Wish {
	w := policy.Wish{Decl: d, Effect: effect, Subject: d.SubjectOf(input)}
	if d.Path != "" {
		var file string
		if file, input = reached(d.Path, input); file != "" {
			w.Subject = d.SubjectOf(input)
			w.Guarded = effect != parley.EffectRead && files.Guarded(file)
		}
	}
	w.Reaches, w.Scoped = box.Reaches(d.Name, input)
	p, composed := box.Parts(d.Name, input)
	w.Composed, w.Parts, w.Plain, w.Within, w.Hides = composed, p.List, p.Plain, p.Within, p.Hides
	return w
}

// reached returns the file that an input names, and the input with its path in the one form that
// rules see. "" means that the path cannot be followed; the call will be refused.
func reached(field string, input []byte) (string, []byte) {
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil {
		return "", input
	}
	name, _ := fields[field].(string)
	file, err := files.Clean(name)
	if err != nil {
		return "", input
	}
	fields[field] = file
	clean, err := json.Marshal(fields)
	if err != nil {
		return "", input
	}
	return file, clean
}

// maxReach limits what one rule names, in bytes, because rules are part of the session.
const maxReach = 4 << 10

// granting returns the rule created by "allow for this session". It is as narrow as the
// call's subject, if the tool defines one, and as what the call reaches, and about the tool as it
// is. There is none
// for a subject that would be read as a pattern, or if it is not known what the call
// reaches: such a rule would allow more than was asked.
func granting(w policy.Wish, by string) (parley.Rule, bool) {
	d := w.Decl
	r := parley.Rule{Verdict: parley.Allow, Tool: d.Name, Reason: "allowed for this session by " + by, Reaches: w.Reaches, Run: d.Run, Safety: d.Safety}
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

// takesBack reports whether c only takes permissions away: granted rules, or a mode that
// asks less.
func (s *session) takesBack(c parley.UpdateSession, rules *[]parley.Rule) bool {
	fewer := rules != nil && len(*rules) < len(s.view.Rules)
	asks := c.Mode != nil && *c.Mode == parley.ModeDefault && s.view.Mode != "" && s.view.Mode != parley.ModeDefault
	only := c
	only.Rules, only.Mode, only.ExpectedVersion = nil, nil, 0
	return (fewer || asks) && (rules == nil || fewer) && (c.Mode == nil || asks) && reflect.ValueOf(only).IsZero()
}

// keeping returns the granted rules that stay. A caller may remove rules but not add any:
// rules are granted by answering a question. nil leaves them unchanged.
func (s *session) keeping(wanted *[]parley.Rule) (*[]parley.Rule, error) {
	if wanted == nil {
		return nil, nil
	}
	for _, w := range *wanted {
		if !slices.ContainsFunc(s.view.Rules, func(r parley.Rule) bool { return r.Same(w) }) {
			what := parley.Cut(w.Tool, 60)
			if w.Tool == "" {
				what = "no tool"
			}
			return nil, parley.Errorf(parley.CodeInvalid, "a rule for %s was not granted for this session", what).WithField("rules").
				WithHint("rules lists the granted rules to keep; a rule is granted by answering %q", parley.ChoiceAllowSession)
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
