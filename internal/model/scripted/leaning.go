package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// condition matches the clause of a question that says when something would matter.
var condition = pattern.New(`(?i)\b(?:if|in case)\b[^,?]*`)

// conditional makes words of a condition weak, if others remain: somebody who asks whether anybody
// is on call if the server is down asks who is on call.
func conditional(question string, terms []*term) {
	at := condition.FindStringIndex(question)
	if at == nil {
		return
	}
	outside := stems(question[:at[0]] + "." + question[at[1]:])
	named := func(t *term) bool { return !t.weak && !t.carried && holds(outside, t.exact) }
	if !slices.ContainsFunc(terms, named) {
		return
	}
	for _, t := range terms {
		t.weak = t.weak || !holds(outside, t.exact)
	}
}

// whoDid matches what somebody did, in a question for who it was.
var whoDid = pattern.New(`(?i)\bwho (?:else |has |had |have |just |actually |first |really )*(\w+ed)\b`)

// withoutDeed returns the words without the verb of "who pushed it back?", if the word table does
// not know it: it says what somebody did to the subject, and is not one.
func (s *script) withoutDeed(question string, own []string) []string {
	m := whoDid.FindStringSubmatch(question)
	if m == nil || s.group([]string{strings.ToLower(m[1])}) != "" {
		return own
	}
	return slices.DeleteFunc(slices.Clone(own), func(w string) bool { return w == strings.ToLower(m[1]) })
}

// earlier returns the words of the last question that had words of its own.
func (s *script) earlier(v view) []string {
	var last []string
	for _, x := range slices.Backward(v.History) {
		about := s.about(x.Question)
		if len(about) > 0 && !s.leans(x.Question) {
			return about
		}
		if len(last) == 0 {
			last = about
		}
	}
	return last
}

// leaning matches a question that continues the one before.
var leaning = pattern.New(`(?i)^\W*(?:and|or|but|so|what about|how about|what else|why not)\b`)

// ofThat matches a question about what was said before, whatever else it names: "is that
// still true after the launch moved?"
var ofThat = pattern.New(`(?i)^\W*(?:(?:and|so|but|then)\W+)?(?:is|was|are|were|does|did|do|has|have) (?:that|this|it) (?:still|true|right|correct|valid|current|change|changed|hold|holds)\b`)

func (s *script) leans(question string) bool {
	return leaning.MatchString(question) || has(question, "that", "it", "they", "them", "those", "these", "this", "one", "then", "there", "its", "their")
}
