package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// instead matches words that say that one thing is chosen over another.
var instead = pattern.New(`(?i)\b(?:instead of|rather than|over|replac\w+|not|no longer|from .* to)\b`)

// head matches the word that names the kind of thing asked for.
var head = pattern.New(`(?i)\b(?:which|what) (\w+)`)

// groupOf returns the group of what the question names, otherwise of its words.
func (s *script) groupOf(sub subject) string {
	if ms := s.mentions(sub.question); len(ms) > 0 {
		return ms[0].group
	}
	if g := s.group(sub.Own); s.chosen[g] { // where it runs is another question than what it is written in
		return g
	}
	return s.group(sub.Words())
}

// otherHead reports whether the question asks for another kind of thing than those of the group:
// "which region", and not who hosts.
func (s *script) otherHead(sub subject, group string) bool {
	m := head.FindStringSubmatch(sub.question)
	if m == nil || group == "" {
		return false
	}
	asked := s.group([]string{strings.ToLower(m[1])})
	return asked != "" && asked != group
}

// choice returns what a record decides for, of the kind that the question asks about, or an
// unknown name that a sentence chooses over another.
func (s *script) choice(r record, sub subject) string {
	group := s.groupOf(sub)
	if s.otherHead(sub, group) {
		return ""
	}
	if group != "" {
		for _, ms := range [][]mention{r.topics, r.titled} {
			for _, m := range ms {
				if m.for_ && m.group == group {
					return m.name
				}
			}
		}
	}
	for _, m := range r.names {
		against := slices.ContainsFunc(r.names, func(o mention) bool {
			from, to := min(m.start, o.start), max(m.end, o.end)
			from = strings.LastIndexAny(r.Text[:from], ".!?;") + 1
			return !o.for_ && !strings.ContainsAny(r.Text[from:to], "!?;") && instead.MatchString(r.Text[from:to])
		})
		asked := slices.ContainsFunc(sub.Words(), func(w string) bool { return slices.Equal(stems(w), stems(m.name)) })
		if m.for_ && against && !asked && !slices.Contains(rejects(r), m.name) {
			return m.name
		}
	}
	return ""
}

// says returns a record's choice, or else its sentences about the question, in quotation marks.
func (s *script) says(x *weighed, sub subject) string {
	if c := s.choice(x.record, sub); c != "" {
		return c
	}
	return `"` + strings.TrimRight(x.Says, ".") + `"`
}
