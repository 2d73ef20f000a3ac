package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// didThey matches a question for what a person thinks or did. Some of the verbs go with things,
// too: the API supports it.
var didThey = pattern.New(`^\W*(?:(?i:and|so|but|ok)\W+)?(?i:did|does|has|is|was)\s+((?i:the |our )?)((?i:head of )?[\w.-]+(?: [\w.-]+)?)\s+(?i:(?:also|ever|already|really|actually|still|even|too)\s+)*` +
	`(?i:agree\w*|approv\w*|want\w*|prefer\w*|object\w*|oppos\w*|disagree\w*|veto\w*|endors\w*|(accept\w*|confirm\w*|support\w*|like\w*|reject\w*)|happy|against|in favou?r|(?:ok|okay|fine) with)\b`)

// noParty are words that stand where a person's name may stand.
var noParty = strings.Fields("it this that they he she we you i notion slack page spec doc document message source sources anyone anybody someone somebody nobody both one there")

// crowd are words for everybody, about whom sources say nothing.
var crowd = strings.Fields("team everyone everybody company management")

// party returns the person or office if a question asks what they think or did, or else "". A name
// is an office, or begins with a capital.
func (s *script) party(v view) string {
	m := didThey.FindStringSubmatch(v.Question)
	if m == nil {
		return ""
	}
	name := m[2]
	first, _, _ := strings.Cut(strings.ToLower(name), " ")
	person := office.MatchString(name) || senior.MatchString(name)
	capital := strings.ToLower(name[:1]) != name[:1]
	if slices.Contains(noParty, first) || len(s.mentions(name)) > 0 || !person && (!capital || m[3] != "") || m[1] == "" && !capital {
		return ""
	}
	return strings.ToLower(m[1]) + name
}

// theirs returns the newest record that a person wrote, or else one that names them; nil if there
// is none.
func theirs(name string, w weight) *weighed {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "the "), "our ")
	if slices.Contains(crowd, name) {
		return nil
	}
	for _, x := range w.All {
		if x.User != "" && x.spoken(name) {
			return x
		}
	}
	for _, x := range w.All {
		if holds(x.all(), stems(name)) {
			return x
		}
	}
	return nil
}

// out returns what the question names and the record that holds rejects.
func (s *script) out(w weight) []string {
	var out []string
	if w.Best == nil {
		return nil
	}
	for _, m := range s.mentions(w.Subject.question) {
		if slices.Contains(rejects(w.Best.record), m.name) {
			out = add(out, m.name)
		}
	}
	return out
}

// people returns who wrote the records.
func people(w weight) []string {
	var out []string
	for _, x := range w.All {
		if x.User != "" {
			out = add(out, x.Who())
		}
	}
	return out
}

// aged returns the records whose age a question asks for: those of the sort that it names, or
// the one that holds.
func aged(v view, w weight) []*weighed {
	pages, messages := ofPages(v.Question), ofMessages(v.Question)
	of := slices.DeleteFunc(slices.Clone(w.All), func(x *weighed) bool { return (x.User == "") != pages })
	if pages != messages && len(of) > 0 {
		return of
	}
	return []*weighed{w.Best}
}
