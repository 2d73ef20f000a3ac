// Package customers answers what people ask about the records of a CRM, and changes them, by rules:
// it lists, filters, counts, compares and finds leads, companies, projects and notes, and proposes
// to create, change and delete them.
//
// [Answer] is a function of a turn. It knows the API only from skills, which it reads with the tool
// Skill, and calls nothing but api_request: every fact of an answer comes from a result. A change is
// proposed by calling; whether it is made is decided by a person, outside. What it cannot do it says.
package customers

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
	Added    []string   // what was said while the turn went on
	Earlier  []Exchange // the session's earlier exchanges, oldest first
	Results  []Result   // of the calls of this turn
	Tools    []string   // that may be called
	Skills   []string   // that may be read
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

const (
	maxRequest = 8 << 10
	maxEarlier = 12
	shown      = 10 // records of a list
	noted      = 5  // notes of a record
)

// turn is a Turn in progress.
type turn struct {
	Turn
	wants  []Call // the calls that are to be made
	failed string // why no answer can be had
	known  map[string]*resource
	used   []bool  // which results of writes were taken
	since  int     // the last of them: what was read before may have changed; -1: none
	page   *record // what the user's page shows
}

// record is a record of a result.
type record map[string]any

func (r record) text(name string) string { s, _ := r[name].(string); return s }

// Answer returns the reply for a turn.
func Answer(t Turn) Reply {
	u := &turn{Turn: t, known: map[string]*resource{}, used: make([]bool, len(t.Results)), since: -1}
	u.Earlier = u.Earlier[max(0, len(u.Earlier)-maxEarlier):]
	if len(t.Question) > maxRequest {
		return Reply{Say: "That is too long for me: I am a script, and read requests of up to 8 KB."}
	}
	u.Earlier = slices.Clone(u.Earlier)
	for i, x := range u.Earlier {
		u.Earlier[i].Question, _ = onPage(x.Question)
	}
	if t.Foreign {
		return Reply{Say: dialog.EnglishOnly}
	}
	var said []string
	for _, question := range append([]string{t.Question}, t.Added...) {
		var page *record
		if u.Question, page = onPage(question); page != nil {
			u.page = page
		}
		say, ok := u.answer(tidy(u.Question))
		switch {
		case u.failed != "":
			say, u.failed = u.failed, ""
		case !ok:
			return u.calling()
		}
		said = append(said, say)
		u.Earlier = append(u.Earlier, Exchange{Question: u.Question, Answer: say}) // what is said next may follow it
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
	return Reply{Calls: u.wants}
}

var pageShows = pattern.New(`(?s)\n+What the user's page shows, as data:\n(\{.*\})\s*$`)

// onPage separates a message from what the page of its sender shows.
func onPage(message string) (question string, page *record) {
	m := pageShows.FindStringSubmatchIndex(message)
	if m == nil {
		return message, nil
	}
	var r record
	if json.Unmarshal([]byte(message[m[2]:m[3]]), &r) == nil && anID.MatchString(r.text("id")) {
		page = &r
	}
	return message[:m[0]], page
}

// do returns the results of calls, or makes them. ok is false while results are missing; what the
// caller returns then is not used.
func (u *turn) do(calls ...Call) (found []Result, ok bool) {
	var missing []Call
	for _, c := range calls {
		i := u.made(c)
		if i < 0 {
			missing = append(missing, c)
			continue
		}
		if u.used[i] = true; !reads(c) {
			u.since = i
		}
		found = append(found, u.Results[i])
	}
	if len(missing) > 0 {
		u.wants = missing
		return nil, false
	}
	return found, true
}

// made is the result of a call, or -1. A read stands for all that ask the same, a write for one.
func (u *turn) made(c Call) int {
	for i, r := range u.Results {
		fresh := c.Tool != "api_request" || i > u.since
		if r.Tool == c.Tool && (reads(c) && fresh || !reads(c) && !u.used[i]) && alike(r.Input, c.Input) {
			return i
		}
	}
	return -1
}

func reads(c Call) bool { return c.Tool != "api_request" || c.Input["method"] == "GET" }

func alike(a, b map[string]any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// learned returns what the skills of resources say. ok is false until they are read.
func (u *turn) learned(names ...string) bool {
	var calls []Call
	var left []string
	for _, name := range names {
		if u.known[name] != nil || slices.Contains(left, name) {
			continue
		}
		if !slices.Contains(u.Skills, name) {
			u.failed = "I have no skill for " + name + " here, so I cannot say anything about them."
			return false
		}
		left = append(left, name)
		calls = append(calls, Call{Tool: "Skill", Input: map[string]any{"skill": name}})
	}
	results, ok := u.do(calls...)
	if !ok {
		return false
	}
	for i, r := range results {
		if r.Failed {
			u.failed = "I could not read how to work with " + left[i] + ": " + oneLine(r.Output)
			return false
		}
		u.known[left[i]] = learn(left[i], r.Output)
	}
	return true
}

func get(path string, query map[string]any) Call {
	in := map[string]any{"method": "GET", "path": path}
	if len(query) > 0 {
		in["query"] = query
	}
	return Call{Tool: "api_request", Input: in}
}

// fetch reads from the API. ok is false while the answers are missing, or if there is none.
func (u *turn) fetch(calls ...Call) (answers []record, ok bool) {
	results, ok := u.do(calls...)
	if !ok {
		return nil, false
	}
	for _, r := range results {
		var a record
		if r.Failed || json.NewDecoder(strings.NewReader(r.Output)).Decode(&a) != nil {
			u.failed = "The CRM did not answer as it should: " + oneLine(r.Output)
			return nil, false
		}
		answers = append(answers, a)
	}
	return answers, true
}

func (r record) items() (list []record) {
	items, _ := r["items"].([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			list = append(list, m)
		}
	}
	return list
}

func (r record) number(name string) int {
	n, _ := r[name].(float64)
	return int(n)
}

var spaces = pattern.New(`\s+`)

func oneLine(s string) string {
	s = strings.TrimSpace(spaces.ReplaceAllString(s, " "))
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + " …"
	}
	return s
}

var (
	polite = pattern.New(`(?i)^(?:(?:(?:no|nope|wait|stop|actually|instead|rather|sorry|cancel|not that)[,.!:;]+\s+)|(?:please|hey|hello|hi|ok|okay|so|now|well|also|could you|can you|would you|will you|i want you to|i would like to|i'd like to|i want to|i need to|let's|just|kindly)\b[,!:]?\s+)+`)
	ending = pattern.New(`(?i)[\s,]*(?:\b(?:please|pls|thanks|thank you|for me|right now|at the moment|currently|so far|by now|do we have|do i have|are there|have we got|there are|instead|after all|again)\b)?[\s.!?,;]*$`)
	quotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", "'", "’", "'", "\u00a0", " ")
)

// tidy removes politeness and spaces.
func tidy(text string) string {
	text = polite.ReplaceAllString(strings.TrimSpace(quotes.Replace(text)), "")
	return spaces.ReplaceAllString(strings.TrimSpace(text), " ")
}

// bare is a text without what ends a sentence.
func bare(text string) string {
	for {
		next := strings.TrimSpace(ending.ReplaceAllString(text, ""))
		if next == text || next == "" {
			return strings.TrimRight(text, " .!?,;")
		}
		text = next
	}
}
