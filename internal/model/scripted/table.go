package scripted

import (
	"slices"
	"strings"
)

// meaning is a word or phrase of the script's word table.
type meaning struct {
	stems []string
	group string
	kind  string // the kind of the group that it names; "": the group itself
}

// table merges groups and topics into one list, indexed by the first stem, the longest phrase
// first.
func (s *script) table() map[string][]meaning {
	m := map[string][]meaning{}
	add := func(text, group, kind string) {
		if p := stems(text); len(p) > 0 && group != "" {
			m[p[0]] = append(m[p[0]], meaning{p, group, kind})
		}
	}
	for name, g := range s.Groups {
		for _, w := range slices.Concat(g.Words, g.Search) {
			add(w, name, "")
		}
		for _, k := range g.Kinds {
			add(k, name, k)
		}
	}
	for _, t := range s.Topics {
		if t.Word {
			continue
		}
		for _, w := range append([]string{t.Name}, t.Also...) {
			add(w, t.Group, t.Name)
		}
	}
	for _, ms := range m {
		slices.SortFunc(ms, func(a, b meaning) int {
			if d := len(b.stems) - len(a.stems); d != 0 {
				return d
			}
			return strings.Compare(a.group+a.kind, b.group+b.kind)
		})
	}
	return m
}

// at returns all meanings of the longest known phrase that begins at token i.
func (s *script) at(text []string, i int) (found []meaning, n int) {
	for _, m := range s.meanings[text[i]] {
		if len(m.stems) < n {
			break
		}
		if i+len(m.stems) <= len(text) && slices.Equal(text[i:i+len(m.stems)], m.stems) {
			found, n = append(found, m), len(m.stems)
		}
	}
	return found, n
}
