package household

import (
	"regexp"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
)

// beyonds are wishes that nothing in a house fulfils. The words for what is wished must not be
// taken for a question about a thing of the same name: plants for the moisture of the soil.
var beyonds = []struct {
	wish *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^(?:remind|wake) (?:me|us|him|her|them|everyone|everybody|[a-z]+)\b|^(?:set|make|add|create|give me|start|put|schedule)\b.*\b(?:reminders?|timers?|alarm clock)\b|^(?:set|put) an alarm\b|^(?:set|put) (?:the|my) alarm (?:for|at)\b|^(?:do not|don't) let (?:me|us) forget\b|^i (?:want|need|would like|'d like) (?:a|to set a) (?:reminder|timer)\b`), "set reminders, timers or alarm clocks"},
	{regexp.MustCompile(`^(?:send|notify|whatsapp|call)\b|^(?:text|email|e-mail|mail|phone|message) (?:me|us|him|her|them|my|the|\S+ (?:that|to|about|and))\b|^(?:leave|write) .*\b(?:message|note|email|mail)\b|^tell (?:him|her|them|my|[a-z]+) (?:that|to)\b`), "send messages or call anybody"},
	{regexp.MustCompile(`^(?:order|book) (?:me|us|some|more|a|an|the|new|\d+|\S+ for)\b|^(?:buy|reserve|pay|purchase)\b`), "order, book or pay anything"},
	{regexp.MustCompile(`^(?:add|put|write|note|delete|remove|take|cross|tick)\b.*\b(?:on|to|from|off|in) (?:the |my |our )?(?:\S+ )?(?:list|calendar)\b`), "change a list or a calendar"},
	{regexp.MustCompile(`^play (?:some |a bit of |any |a |an |me |us |something)\b|^play (?:\S+ ){0,3}(?:music|songs?|by)\b`), "choose what is played"},
}

// recalling matches a request to be told something, which is a question.
var recalling = regexp.MustCompile(`^remind (?:me|us) (?:again )?(?:what|who|whose|how|which|where|why|whether|if|of the (?:temperature|humidity|state|status)|when (?:did|does|do|is|are|was|were|has|have)|when \S+(?: \S+)? (?:left|came|went|was|opened|closed|ran|started))\b`)

// beyond answers a wish that nothing here can fulfil, and a question in another language. For
// anything else it returns "".
func beyond(question string) string {
	if keyword.Foreign(question) {
		return "I understand English only, so I have looked up nothing and changed nothing. Please ask again in English."
	}
	flat := polite.ReplaceAllString(strings.Join(clean(strings.ToLower(strings.ReplaceAll(question, "’", "'"))), " "), "")
	if recalling.MatchString(flat) {
		return ""
	}
	for _, b := range beyonds {
		if b.wish.MatchString(flat) {
			return "Nothing was done: I cannot " + b.what + ". I can say how things are in this house and what happened, and switch or set what is in it, where that is allowed."
		}
	}
	return ""
}
