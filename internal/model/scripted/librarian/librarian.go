// Package librarian answers what people ask of a lake, a git repository of Markdown entities, by rules, with the tools that
// an agent has for it: it searches, reads, follows links, looks at histories and at what is wrong, and proposes changes.
//
// [Answer] is a function of a turn. It reads the request and those before it, and either calls tools or, once their
// results are there, answers. It knows English words for what people do with such pages, and nothing of what is
// in them: every fact of an answer comes from a result, or from an entity that is attached, with its path. What
// it does not find it says. When several pages may be meant, it asks with the options that it found.
package librarian

import (
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
	Earlier  []Exchange               // the session's earlier exchanges, oldest first
	Results  []Result                 // of the calls of this turn
	Tools    []string                 // that may be called
	Withheld func(tool string) string // why one is not among them, as far as the prompt says it; nil: it says nothing
	Attached []Page                   // the entities that are attached to the session, and the files of its messages
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

// Page is an entity that the prompt shows, or a file that its user attached to a message.
type Page struct {
	Path, Title, Text string
	File              bool // it is no entity, and only this text of it is there
}

// turn is a Turn in progress.
type turn struct {
	Turn
	wants []Call // that are still to be made
	note  string // what is said with the first calls
}

const (
	maxRequest = 16 << 10
	maxEarlier = 12
)

const offer = "You can ask what the lake says about something, who wrote it and when, what links to a page, which decisions, customers or projects there are, and what is wrong; " +
	"or have a page made, changed, linked, moved or deleted."

// Answer returns the reply for a turn.
func Answer(t Turn) Reply {
	u := &turn{Turn: t}
	u.Earlier = u.Earlier[max(0, len(u.Earlier)-maxEarlier):]
	switch {
	case len(t.Question) > maxRequest:
		return Reply{Say: "That is too long for me: I am a script, and read requests of up to 16 KB."}
	case t.Foreign:
		return Reply{Say: dialog.EnglishOnly}
	}
	if r, ok := u.planned(); ok {
		return r
	}
	say, ok := u.answer(tidied(t.Question))
	if ok {
		return Reply{Say: say}
	}
	for _, c := range u.wants {
		if !slices.Contains(u.Tools, c.Tool) {
			if why := u.withheld(c.Tool); why != "" && !strings.Contains(why, "plan mode") {
				return Reply{Say: "I cannot do that here: " + why + "."}
			}
			if r, ok := u.plan(); ok {
				return r
			}
			return Reply{Say: "I cannot do that: the tool " + c.Tool + " is not available here."}
		}
	}
	r := Reply{Calls: u.wants}
	if len(u.Results) == 0 {
		if r.Say = u.note; r.Say == "" {
			r.Say = "I look in the lake."
		}
	}
	return r
}

func (u *turn) withheld(tool string) string {
	if u.Withheld == nil {
		return ""
	}
	return u.Withheld(tool)
}

// do returns the results of calls, or has them made. ok is false while results are missing; what the caller
// returns then is not used.
func (u *turn) do(calls ...Call) (found []Result, ok bool) {
	var missing []Call
	for _, c := range calls {
		i := slices.IndexFunc(u.Results, func(r Result) bool { return r.Tool == c.Tool && same(r.Input, c.Input) })
		if i < 0 {
			missing = append(missing, c)
			continue
		}
		found = append(found, u.Results[i])
	}
	if len(missing) > 0 {
		u.wants = missing
		return nil, false
	}
	return found, true
}

func (u *turn) one(tool string, input map[string]any) (Result, bool) {
	list, ok := u.do(Call{Tool: tool, Input: input})
	if !ok {
		return Result{}, false
	}
	return list[0], true
}

func same(a, b map[string]any) bool {
	x, _ := json.Marshal(a) // of texts and numbers
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

var pathIn = pattern.New("`([^`\n]+\\.md)`|(\\S+\\.md) was (?:changed|created)")

// mentioned are the pages that the last answers name, those of the last one first; then what is attached.
func (u *turn) mentioned() (list []string) {
	add := func(path string) {
		if !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	for i, x := range slices.Backward(u.Earlier) {
		if i < len(u.Earlier)-4 {
			break
		}
		for _, m := range pathIn.FindAllStringSubmatch(x.Answer, -1) {
			add(m[1] + m[2])
		}
	}
	for _, p := range u.Attached {
		if !p.File {
			add(p.Path)
		}
	}
	return list
}

var (
	polite = pattern.New(`(?i)^(?:(?:please|hey|hello|hi|ok|okay|so|now|well|and|but|major|could you|can you|would you|will you|i want you to|i would like you to|i'd like you to|i need you to|i want to|i'd like to|i would like to|i need to|let's|just|quickly|kindly|go ahead and|do you know|tell me|remind me)\b[,!:]?\s+)+`)
	ending = pattern.New(`(?i)[\s,]*(?:\b(?:please|pls|thanks|thank you|for me|right now|again|then|at the moment|currently|at present|so far|by now)\b)?[\s.!?,;]*$`)
	quotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", "'", "’", "'", "\u00a0", " ", "\r\n", "\n")
)

// tidied is a request without politeness.
func tidied(text string) string {
	text = strings.TrimSpace(quotes.Replace(text))
	text = strings.TrimSpace(polite.ReplaceAllString(text, ""))
	for {
		next := ending.ReplaceAllString(text, "")
		if next == "" {
			return strings.TrimRight(text, " .!?,;")
		}
		if next == text {
			return text
		}
		text = next
	}
}

var (
	hello  = pattern.New(`(?i)^(?:hi|hello|hey|good (?:morning|evening|afternoon)|moin|hello there)$`)
	thanks = pattern.New(`(?i)^(?:thanks|thank you|thx|great|perfect|nice|good|very good|ok|okay|cool)(?: .{0,20})?$`)
	help   = pattern.New(`(?i)^(?:help|what can you do|what do you do|who are you|what is this|how does this work|what are you)\b`)
)

// answer answers a request.
func (u *turn) answer(q string) (string, bool) {
	switch {
	case q == "":
		return "You said nothing. " + offer, true
	case hello.MatchString(q):
		return "Hello. " + offer, true
	case thanks.MatchString(q):
		return "You are welcome.", true
	case help.MatchString(q):
		return "I am a script in the place of a language model, and work with this lake. " + offer, true
	}
	for _, f := range []func(string) (say string, mine, ok bool){u.command, u.did, u.tags, u.change, u.wrong, u.linksTo, u.historyOf, u.changed, u.oncall, u.contracts, u.todos, u.recent, u.dated, u.person, u.compared, u.listing, u.show, u.property} {
		if say, mine, ok := f(q); mine {
			return say, ok
		}
	}
	return u.question(q)
}
