package scripted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/model/scripted/dialog"
)

// search returns the search words for a list of words and phrases: their roots, because the
// tools find everything that contains a word.
func (s *script) search(words []string) []string {
	var out []string
	for _, w := range words {
		for _, k := range keyword.Of(w) {
			if s.fixed[k] { // Kubernetes is not a plural
				out = add(out, k)
				continue
			}
			out = add(out, root(k))
		}
	}
	return out
}

// maxSearch is the most words of a second search.
const maxSearch = 24

// nearWords returns what to search with if the words of a question found little: other words for
// the same.
func (s *script) nearWords(words, asked []string) []string {
	var out []string
	for _, w := range words {
		st := stems(w)
		if len(st) == 0 {
			continue
		}
		found, n := s.at(st, 0)
		if n < len(st) {
			continue
		}
		for _, m := range found {
			g := s.Groups[m.group]
			for _, k := range s.search(slices.Concat(g.Search, g.Words)) {
				if !slices.ContainsFunc(asked, func(a string) bool { return strings.Contains(k, a) || strings.Contains(a, k) }) && len(k) > 2 {
					out = add(out, k)
				}
			}
		}
	}
	return out[:min(len(out), maxSearch)]
}

// more returns the words of one further search. If the first search left a word of the
// question unfound in a source, it adds other words for it. It also adds names from a
// page that no message mentions, because a message may have replaced them since. A
// source that failed, or that a person refused, is not searched again.
func (s *script) more(v view) []string {
	if !v.memo.asked {
		v.memo.asked, v.memo.more = true, s.further(v)
	}
	return v.memo.more
}

func (s *script) further(v view) []string {
	failed := func(r dialog.Result) bool { return r.Failed }
	if n := len(v.Results); n < 2 || s.surveys(v) || slices.ContainsFunc(v.Results, failed) {
		return nil
	} else if n > 4 {
		return s.last(v)
	}
	sub := s.subject(v)
	found := make([][]record, 2)
	var out, asked []string
	for i, r := range v.Results {
		rs, _ := s.records([]dialog.Result{r})
		found[i%2] = append(found[i%2], rs...)
		if i%2 == 1 {
			asked = append(asked, strings.Fields(fmt.Sprint(r.Input["query"]))...)
		}
	}
	if len(v.Results) > 2 {
		if out = s.pageWords(found, sub, asked); len(out) == 0 {
			return s.last(v)
		}
		return out
	}
	lacking := func(t *term) bool {
		return slices.ContainsFunc(found, func(rs []record) bool {
			return !slices.ContainsFunc(rs, func(r record) bool { return t.in(r.all()) >= byNear })
		})
	}
	if slices.ContainsFunc(sub.strong(), lacking) {
		out = s.nearWords(sub.Words(), asked)
	}
	for i, rs := range found {
		for _, x := range s.direct(rs, sub, false).All {
			candidates := x.names
			if x.User == "" {
				candidates = slices.Concat(x.topics, x.names)
			}
			for _, m := range candidates {
				named := func(r record) bool {
					return slices.ContainsFunc(slices.Concat(r.topics, r.names), func(o mention) bool { return o.name == m.name })
				}
				if slices.ContainsFunc(found[1-i], named) {
					continue
				}
				for _, k := range s.search([]string{m.name}) {
					if m.for_ && !slices.Contains(asked, k) && len(out) < maxSearch {
						out = add(out, k)
					}
				}
			}
		}
	}
	for _, k := range s.pageWords(found, sub, asked) {
		if len(out) < maxSearch {
			out = add(out, k)
		}
	}
	if len(out) == 0 {
		return s.last(v)
	}
	return out
}

// pageWords returns words of a page's title if no message with a statement was found. A
// message that overrides the page may use the title's words instead of the question's.
func (s *script) pageWords(found [][]record, sub subject, asked []string) []string {
	var out []string
	all := s.direct(slices.Concat(found...), sub, false).All
	if slices.ContainsFunc(all, func(x *weighed) bool { return x.Title == "" && x.statement() }) {
		return nil
	}
	for _, x := range all {
		for _, k := range s.search(s.about(x.Title)) {
			if !slices.Contains(asked, k) && len(k) > 3 && len(out) < maxSearch {
				out = add(out, k)
			}
		}
	}
	return out
}

// last returns the words of a search for everything, once, unless the rules are sure of what was
// found, and it is a choice of a kind they know: something newer may say it in other words.
func (s *script) last(v view) []string {
	done := func(r dialog.Result) bool {
		return r.Failed || fmt.Sprint(r.Input["query"]) == strings.Join(s.Survey, " ")
	}
	rs, err := s.records(v.Results)
	if err != nil || slices.ContainsFunc(v.Results, done) {
		return nil
	}
	for _, q := range s.questions(v.Question) {
		part := v
		if q != v.Question {
			part.Question, part.Handed = q, nil
		}
		w := s.answer(part, rs, s.subject(part))
		if w.Best == nil || s.choice(w.Best.record, w.Subject) == "" || w.Kind == kindNearest || w.Kind == kindNewest || !w.Found() || len(w.Subject.Ignored) > 0 || len(w.Absent) > 0 {
			return s.Survey
		}
	}
	return nil
}

// firstSearch returns the words of the first search. A single word is widened. With
// widen, all are: messages are brief and seldom use a specification's words.
func (s *script) firstSearch(v view, widen bool) []string {
	if s.surveys(v) {
		return s.Survey
	}
	sub := s.subject(v)
	words := s.search(sub.Words())
	if len(words) == 0 {
		words = sub.Words()
	}
	if len(sub.Words()) > 1 && !widen {
		return words
	}
	for _, w := range s.Groups[s.group(sub.Words())].Search {
		if !keyword.In(words, w) {
			words = add(words, w)
		}
	}
	return words
}
