// Package notebook answers what people ask about their notes, by rules, with the tools that an
// agent has for a folder of Markdown files: it finds, reads and summarises, keeps lists, writes
// and changes notes, looks things up on the web, and posts at LinkedIn.
//
// [Answer] is a function of a turn. It reads the request and those before it, and either calls
// tools or, once their results are there, answers. It knows English words for what people do with
// notes, and nothing of what is in them: every fact of an answer comes from a result, with the
// file that has it.
//
// What it has changed it shows as a diff, from which a later "undo that" takes it back. It does
// not write texts of its own: what it adds, posts or replies is what somebody has said or a note
// has. What a page says to whoever reads it is left out, and said to be.
package notebook

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/pattern"
)

// Turn is a request, with everything known so far.
type Turn struct {
	Question string
	Earlier  []Exchange // the session's earlier exchanges, oldest first
	Results  []Result   // of the calls of this turn
	Tools    []string   // that may be called
	Person   string     // whose notes they are
	Now      time.Time
	Foreign  bool // the request is in another language than English
}

// What a turn is told of a session, and its reply.
type (
	Exchange = dialog.Exchange
	Result   = dialog.Result
	Call     = dialog.Call
	Reply    = dialog.Reply
)

// turn is a Turn in progress.
type turn struct {
	Turn
	used  []bool // which results were taken
	wants []Call // that are still to be made
	note  string // what is said with the first calls
	done  string // what earlier requests of this message were answered
	names *names // of the files, once they are known
	rules []rule
}

// Limits. A request about notes needs no more; a text to write or to post may be as long as the
// tools take.
const (
	maxRequest  = 16 << 10
	maxEarlier  = 12
	maxRequests = 4  // in one message
	maxTouched  = 40 // files changed by one request
)

// Answer returns the reply for a turn.
func Answer(t Turn) Reply {
	u := &turn{Turn: t, used: make([]bool, len(t.Results)), rules: rules()}
	u.Earlier = u.Earlier[max(0, len(u.Earlier)-maxEarlier):]
	if len(t.Question) > maxRequest {
		return Reply{Say: "That is too long for me: I am a script, and read requests of up to 16 KB."}
	}
	if t.Foreign {
		return Reply{Say: dialog.EnglishOnly}
	}
	var said []string
	for _, r := range requests(t.Question) {
		say, ok := u.answer(r)
		if !ok {
			return u.calling()
		}
		said = append(said, say)
		u.done = say
	}
	return Reply{Say: strings.Join(said, "\n\n")}
}

// calling is the reply with the calls that are to be made.
func (u *turn) calling() Reply {
	for _, c := range u.wants {
		if !slices.Contains(u.Tools, c.Tool) {
			return Reply{Say: "I cannot do that: the tool " + c.Tool + " is not available here."}
		}
	}
	r := Reply{Calls: u.wants}
	if len(u.Results) == 0 {
		r.Say = cmp.Or(u.note, "I look into your notes.")
	}
	return r
}

// do returns the results of calls, or makes them. ok is false while results are missing; what the
// caller returns then is not used.
func (u *turn) do(calls ...Call) (found []Result, ok bool) {
	var missing []Call
	for _, c := range calls {
		i := slices.IndexFunc(u.Results, func(r Result) bool { return r.Tool == c.Tool && same(r.Input, c.Input) })
		for i >= 0 && u.used[i] { // the same call was made again
			next := slices.IndexFunc(u.Results[i+1:], func(r Result) bool { return r.Tool == c.Tool && same(r.Input, c.Input) })
			if next < 0 {
				i = -1
				break
			}
			i += next + 1
		}
		if i < 0 {
			missing = append(missing, c)
			continue
		}
		u.used[i] = true
		found = append(found, u.Results[i])
	}
	if len(missing) > 0 {
		u.wants = missing
		return nil, false
	}
	return found, true
}

func (u *turn) one(c Call) (Result, bool) {
	list, ok := u.do(c)
	if !ok {
		return Result{}, false
	}
	return list[0], true
}

func same(a, b map[string]any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// last is the answer that a request may refer to.
func (u *turn) last() string {
	if u.done != "" {
		return u.done
	}
	if n := len(u.Earlier); n > 0 {
		return u.Earlier[n-1].Answer
	}
	return ""
}

var path = pattern.New("`([^`\n]+\\.[A-Za-z0-9]{2,5})`")

// mentioned are the files that the last answers name, those of the last one first.
func (u *turn) mentioned() (list []string) {
	texts := []string{u.done}
	for _, x := range slices.Backward(u.Earlier) {
		texts = append(texts, x.Answer)
	}
	for _, text := range texts[:min(len(texts), 4)] {
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(list, m[1]) {
				list = append(list, m[1])
			}
		}
	}
	return list
}

// request is one thing that is asked for.
type request struct {
	raw  string // as it was written, without politeness before it
	tidy string // also without what stands at its end
}

var (
	polite = pattern.New(`(?i)^(?:(?:please|hey|hello|hi|ok|okay|so|now|well|could you|can you|would you|will you|i want you to|i would like you to|i'd like you to|i need you to|i want to|i'd like to|i would like to|let's|just|quickly|kindly|go ahead and|do me a favou?r and|tell me)\b[,!:]?\s+)+`)
	ending = pattern.New(`(?i)[\s,]*(?:\b(?:please|pls|thanks|thank you|for me|right now|again|then|at the moment|currently|at present|so far|by now)\b)?[\s.!?,;]*$`)
	spaces = pattern.New(`[ \t]+`)
	verb   = pattern.New(`(?i)^(?:please )?(?:add|put|show|summari[sz]e|post|tell|list|open|write|tick|check|remove|create|make a|look up|search|rename|replace|find|save|reply|read|fetch|comment|undo|jot|note|mark|delete)\b`)
	joint  = pattern.New(`(?i)(?:[.;!?]\s+(?:then |and )?|,\s+(?:then|and|and then)\s+|\s+(?:and then|then|and)\s+)`)
	quotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", "'", "’", "'", "\u00a0", " ", "\r\n", "\n")
)

// trimmed makes a request of a text.
func trimmed(text string) request {
	raw := strings.TrimSpace(quotes.Replace(text))
	raw = strings.TrimSpace(polite.ReplaceAllString(raw, ""))
	tidy := strings.TrimRight(raw, " .!?,;")
	for {
		next := strings.TrimSpace(ending.ReplaceAllString(tidy, ""))
		if next == tidy || next == "" {
			break
		}
		tidy = next
	}
	return request{raw, spaces.ReplaceAllString(strings.Join(strings.Fields(tidy), " "), " ")}
}

// requests are those of a message: one, or several that begin with a verb each. After a colon
// stands a text that is to be taken as it is.
func requests(message string) (list []request) {
	text := strings.TrimSpace(quotes.Replace(message))
	free := text
	masked := aURL.ReplaceAllStringFunc(text, func(url string) string { return strings.Repeat("_", len(url)) })
	if i := strings.Index(masked, ":"); i >= 0 {
		free = text[:i]
	}
	start := 0
	for _, m := range joint.FindAllStringIndex(free, -1) {
		if m[0] <= start || len(list) == maxRequests-1 || !verb.MatchString(text[m[1]:]) || !verb.MatchString(polite.ReplaceAllString(text[start:m[0]], "")) && !strings.ContainsAny(text[m[0]:m[1]], ".;!?") {
			continue
		}
		if before := strings.ToLower(text[start:m[0]]); before == "find" || before == "search" { // and replace
			continue
		}
		list = append(list, trimmed(text[start:m[0]]))
		start = m[1]
	}
	list = append(list, trimmed(text[start:]))
	return slices.DeleteFunc(list, func(r request) bool { return r.raw == "" && len(list) > 1 })
}
