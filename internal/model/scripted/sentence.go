package scripted

import (
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// sentence is a sentence of a record's text.
type sentence struct {
	text  string
	stems []string
}

// Kinds of sentences, by the words that people use for them.
var (
	joking  = pattern.New(`(?i)\b(?:april fools?\w*|first of april|1st of april|just kidding|kidding|only joking|joke|lol|haha\w*)\b|[😂🤣😜😉]|[;:]-?[)P](?:\s|$)`)
	wishing = pattern.New(`(?i)\b(?:would be (?:great|nice|cool|good|lovely|helpful|awesome)|would (?:love|like|prefer)|i'd|we'd (?:love|like)|could (?:we|you|someone)|can (?:we|you)|should we|shouldn't we|shall we|why (?:don't|not)|what (?:if|about)|how about|any chance|maybe|perhaps|please add|i (?:wish|hope|suggest|propose|think|like|liked|prefer|used|guess|believe|feel|want)|my (?:suggestion|proposal|idea|wish)|suggestion|proposal|idea:|feature request)\b`)
	// hedged matches what is only thought about: no hedge is a decision.
	hedged   = pattern.New(`(?i)\b(?:might|(?:i|we|they) (?:may|could)|considering|thinking (?:of|about)|looking (?:in|at)to|i(?:'ll| will| am going to|'m going to) (?:\w+ )?(?:compare|evaluate|look into|think about|find out)|nothing is decided|not (?:yet )?decided|undecided|tbd)\b`)
	rumoured = pattern.New(`(?i)\b(?:rumou?rs?|i heard|heard that|apparently|someone said|people say|not sure|no idea)\b`)
	decided  = pattern.New(`(?i)\b(?:decision|decided?|we will|we'll|agreed|approved|confirmed|final|from now on|as of|starting|scrap\w*|instead of|no longer|moved? to|moves to|replac\w+|switch\w*|drop\w*|correction|correct\w*|go with|going with|let's|settled)\b`)
	// changes is wider than changed: it also matches statements about the current state.
	changes = pattern.New(`(?i)\b(?:scrap\w*|instead|no longer|any ?more|chang(?:e|ed|es)|change of plans?|mov(?:e|ed|es|ing)|postpon\w*|delay\w*|push(?:ed|es) (?:back|to)|cancel\w*|updat(?:e|ed|es)|overrid\w*|supersed\w*|forget|revert\w*|actually|now|correct(?:ion|ed)|drop(?:s|ped)?|replac\w*|switch\w*|add(?:ed|s)?|remov\w*|raise[sd]?|lower\w*|extend\w*|shorten\w*|against|from [\w ]{1,20} on)\b`)
	stays   = pattern.New(`(?i)\b(?:stay(?:s|ed)?|remain(?:s|ed)?|still|as before|unchanged|confirm\w*|nothing (?:to|has) change\w*|no change|reminder|same as|keep(?:s)? at)\b`)
	because = pattern.New(`(?i)\b(?:because|since|due to|so that|in order to|to (?:save|avoid|reduce|keep|meet|comply)|reason|owing to|thanks to|too (?:long|slow|expensive|much|many|risky|hard|late|big|complex)|needs? (?:\w+ ){0,3}more|crash\w*|object\w*|fail\w*|broken|insecure|unsafe|cannot|can't|complain\w*|cheaper|faster|safer|easier|costs? (?:us )?(?:too|more)|not allowed|forbid\w*|illegal)\b`)
	negated = pattern.New(`(?i)\b(?:not|no|never|none|without|n't)\b|n't\b`)
)

const (
	statement = ""
	asking    = "a question"
	wish      = "a wish"
	rumour    = "a rumour"
	idea      = "an idea"
	joke      = "a joke"
)

func (x sentence) kind() string {
	switch {
	case wishing.MatchString(x.text) && !strings.Contains(strings.ToLower(x.text), "decision"):
		return wish
	case strings.HasSuffix(strings.TrimRight(x.text, " )\"'"), "?"):
		return asking
	case hedged.MatchString(x.text):
		return idea
	case rumoured.MatchString(x.text):
		return rumour
	}
	return statement
}

func kindOf(r record, focus []sentence) string {
	if joking.MatchString(r.Text) {
		return joke
	}
	kind := ""
	for _, sen := range focus {
		k := sen.kind()
		if k == statement {
			return statement
		}
		if kind == "" || k == wish {
			kind = k
		}
	}
	return kind
}

// openers are introductory words.
var openers = pattern.New(`(?i)^(?:(?:hey|hi|hello)(?: \w+)?[,!] *|(?:decision|reminder|heads up|fyi|update|correction|note|breaking|confirmed|announcement|psa)\b[^:.!?]{0,60}: *)+`)

// plain returns a sentence without its introductory words.
func plain(text string) string {
	text = strings.TrimPrefix(text, "… ")
	if cut := openers.ReplaceAllString(text, ""); cut != "" {
		return upper(cut)
	}
	return text
}

func joined(focus []sentence) string {
	var out []string
	for _, x := range focus {
		out = append(out, x.text)
	}
	return strings.Join(out, " ")
}
