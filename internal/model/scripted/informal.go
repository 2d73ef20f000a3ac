package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// informal are spellings of speech, and what they stand for. All are function words: they say
// nothing of what a question is about, and its patterns know only the written form.
var informal = map[string]string{
	"wanna": "want to", "gonna": "going to", "gotta": "got to", "hafta": "have to", "gimme": "give me", "lemme": "let me", "dunno": "do not know",
	"u": "you", "ur": "your", "r": "are", "ya": "you", "ppl": "people", "pls": "please", "plz": "please", "thru": "through", "tho": "though",
	"cos": "because", "cuz": "because", "coz": "because", "shud": "should", "wud": "would", "cud": "could", "wat": "what", "wot": "what",
	"isnt": "isn't", "arent": "aren't", "wasnt": "wasn't", "dont": "don't", "doesnt": "doesn't", "didnt": "didn't", "cant": "can't", "wont": "won't",
	"havent": "haven't", "hasnt": "hasn't", "shouldnt": "shouldn't", "couldnt": "couldn't", "wouldnt": "wouldn't",
	"whats": "what's", "whos": "who's", "wheres": "where's", "whens": "when's", "whys": "why's", "hows": "how's", "thats": "that's", "theres": "there's",
}

var (
	bareWord = pattern.New(`\b[A-Za-z]+\b`)
	shortDid = pattern.New(`(?i)\b(why|how|when|where|what|who)['’]d\b`)
)

// wikis are what people call the pages of Notion.
var wikis = pattern.New(`(?i)\b(?:(?:company|team|internal|project) )?(?:wiki|knowledge base)(?: (page|pages|entry|article|doc|document))?\b`)

// inFull writes the informal words of a question in full.
func inFull(question string) string {
	question = wikis.ReplaceAllString(question, "Notion page")
	question = shortDid.ReplaceAllString(question, "$1 did")
	return bareWord.ReplaceAllStringFunc(question, func(w string) string {
		if full, ok := informal[strings.ToLower(w)]; ok && w != "US" && w != "UR" {
			return full
		}
		return w
	})
}

// mend returns a question in full words, without slips of the fingers in the words by which the
// script's patterns tell what is asked. The words of the sources are not known yet: see heard.
func (s *script) mend(question string) string {
	question = inFull(question)
	return bareWord.ReplaceAllStringFunc(question, func(w string) string {
		low := strings.ToLower(w)
		if len(w) < 5 || w != low || keyword.IsStop(low) || s.known[stem(low)] {
			return w
		}
		for i := 1; i+2 < len(low); i++ {
			if swapped := low[:i] + low[i+1:i+2] + low[i:i+1] + low[i+2:]; keyword.IsStop(swapped) {
				return swapped
			}
		}
		for _, known := range s.sorted {
			if slipped(low, known) && len(low) != len(known) || len(low) > 5 && sounds(low) == sounds(known) {
				return known
			}
		}
		return w
	})
}

// lexicon has the single words of the script that its patterns tell questions by.
type lexicon struct {
	known  map[string]bool // their stems
	sorted []string        // those long enough to be misspelt
}

func (s *script) learn() {
	s.known = map[string]bool{}
	for _, text := range slices.Concat(s.Ignore, s.Weak, s.Ask, s.Refer, s.Fresh) {
		for _, t := range tokens(text) {
			s.known[stem(t.word)] = true
			if len(t.word) > 4 {
				s.sorted = append(s.sorted, t.word)
			}
		}
	}
	slices.Sort(s.sorted)
	s.sorted = slices.Compact(s.sorted)
}
