package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// maxParts is how many questions in one are answered by themselves.
const maxParts = 3

// andAsks is where a further question begins in a sentence.
var andAsks = pattern.New(`(?i)(?:,? and |[?;] *(?:and )?)((?:(?:until|till|since|from|by|at|in|on|for|to) )?(?:who|what|when|where|why|how|which|whose|whom)\b|(?:is|are|was|were|do|does|did|can|has|have|will|may|must|should) (?:it|they|he|she|i|we|you|the|our|my|there|that|this|these|those|a|an|any|anybody|anyone|somebody|someone)\b)`)

// betweens matches a text whose next "and" belongs to its "between".
var betweens = pattern.New(`(?i)\bbetween\b[^,;?]*$`)

// asksFirst is how the first of several begins.
var asksFirst = pattern.New(`(?i)^\W*(?:(?:and|so|but|hey|hi|please|ok|okay|tell me)\W+)*(?:(?:until|till|since|from|by|at|in|on|for|to) )?(?:who|what|when|where|why|how|which|whose|is|are|was|were|do|does|did|can|has|have|should|may|must)\b`)

// partMark begins what is said to each of several questions in one, where an agent
// hands it to another.
const partMark = "Question: "

// questions are those of a text, each by itself: "where does it run and what is it
// written in?" A text with one question is left as it is.
func (s *script) questions(text string) []string {
	if !asksFirst.MatchString(text) || len(s.about(text)) == 0 {
		return []string{text}
	}
	var out []string
	from := 0
	for _, m := range andAsks.FindAllStringSubmatchIndex(text, maxParts-1) {
		first := text[from:m[0]]
		if betweens.MatchString(first) && strings.HasPrefix(strings.ToLower(text[m[0]:]), " and ") {
			continue // "between what Notion says and what Slack says"
		}
		if len(s.about(first)) > 0 {
			out = append(out, strings.TrimSpace(first)+"?")
			from = m[2]
		}
	}
	// A last part without a subject of its own is about that of the part before it.
	if last := strings.TrimSpace(text[from:]); len(tokens(last)) > 1 {
		return append(out, last)
	}
	return []string{text}
}

// parts are the views of the questions in one, each with what was handed over for it. A
// later one may lean on one before.
func (s *script) parts(v view) []view {
	qs := s.questions(v.Question)
	if len(qs) == 1 || v.Handed == nil {
		return []view{v}
	}
	texts := map[string]string{}
	for _, section := range strings.Split("\n"+v.Handed.Text, "\n"+partMark)[1:] {
		q, rest, _ := strings.Cut(section, "\n")
		texts[q] = rest
	}
	var out []view
	for _, q := range qs {
		p, h := v, *v.Handed
		h.Why, h.Text = "", texts[q]
		p.Question, p.Handed, p.memo = q, &h, &memo{}
		p.History = slices.Clone(v.History)
		for _, before := range out {
			p.History = append(p.History, exchange{Question: before.Question})
		}
		out = append(out, p)
	}
	return out
}
