package scripted

import (
	"slices"

	"github.com/parley-server/parley/internal/keyword"
)

// relevant reports whether a record is about the question. It is core if it has nearly
// as many of the question's words as the best record, or names a choice of the kind that
// is asked about. Any other record is relevant only if it may override a core one: it
// shares a sentence's words, a word of the page's title, or the channel.
func (s *script) relevant(x, top *weighed, sub subject) bool {
	x.core = x.score*3 > top.score*2 && x.pairs >= min(top.pairs, 1) || s.chooses(x, sub) || sub.Narrow() && x.covers >= top.covers && stays.MatchString(x.Text)
	if x.core || alike(x.focus, top.focus) || s.rivals(x, top, sub) {
		return true
	}
	for _, t := range sub.strong() {
		if t.in(x.title) == byWord {
			return true
		}
		if (t.in(top.title) == byWord || x.Channel != "" && x.Channel == top.Channel) && t.in(x.all()) == byWord {
			return true
		}
	}
	return false
}

// rivals reports whether both records name something of the kind of decision that the
// question asks about. Only one of them can hold.
func (s *script) rivals(x, top *weighed, sub subject) bool {
	group := s.groupOf(sub)
	names := func(r record) bool {
		return slices.ContainsFunc(slices.Concat(r.topics, r.titled), func(m mention) bool { return m.group == group })
	}
	return s.chosen[group] && !s.otherHead(sub, group) && names(x.record) && names(top.record)
}

// chooses reports whether a record names something of the kind that the question asks
// about. It is false if the question asks about anything else as well.
func (s *script) chooses(x *weighed, sub subject) bool {
	group := s.groupOf(sub)
	if !s.chosen[group] || s.otherHead(sub, group) {
		return false
	}
	for _, t := range sub.strong() {
		if found, n := s.at(t.exact, 0); n != len(t.exact) || !slices.ContainsFunc(found, func(m meaning) bool { return m.group == group }) {
			return false
		}
	}
	return slices.ContainsFunc(slices.Concat(x.topics, x.titled), func(m mention) bool { return m.group == group })
}

// alike reports whether two texts are about the same thing: they share at least three
// words, and at least half the words of the shorter text.
func alike(a, b []sentence) bool {
	x, y := telling(a), telling(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	same := 0
	for _, w := range x {
		if slices.Contains(y, w) {
			same++
		}
	}
	return same >= 3 && same*2 >= len(x)
}

func telling(focus []sentence) []string {
	var out []string
	for _, sen := range focus {
		for _, w := range sen.stems {
			if !keyword.IsStop(w) {
				out = add(out, w)
			}
		}
	}
	return out
}
