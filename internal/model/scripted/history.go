package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/pattern"
)

// validate reports why a provider would reject the messages. Its rules are the strictest of all
// providers': the user begins and the assistant does not end; neighbours have different roles;
// nothing is empty; an assistant's calls and handoffs are followed by one tool message with
// exactly one result for each, and results occur nowhere else; ids are present and unique.
func validate(ms []parley.Message) error {
	if len(ms) == 0 {
		return fmt.Errorf("it is empty")
	}
	if ms[0].Role != parley.RoleUser {
		return fmt.Errorf("it begins with the %s, not the user", ms[0].Role)
	}
	used := map[parley.CallID]bool{}
	var open map[parley.CallID]bool
	for i, m := range ms {
		if i > 0 && ms[i-1].Role == m.Role {
			return fmt.Errorf("messages %d and %d are both the %s's", i-1, i, m.Role)
		}
		if (m.Role == parley.RoleTool) != (len(open) > 0) {
			if len(open) > 0 {
				return fmt.Errorf("message %d follows %d calls without their results", i, len(open))
			}
			return fmt.Errorf("message %d holds results and follows no calls", i)
		}
		next, err := validateParts(m, open, used)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		open = next
	}
	if len(open) > 0 {
		return fmt.Errorf("the last %d calls have no result", len(open))
	}
	if ms[len(ms)-1].Role == parley.RoleAssistant {
		return fmt.Errorf("the last message is the assistant's, but the assistant speaks next")
	}
	return nil
}

// validateParts checks one message and returns its unanswered calls.
func validateParts(m parley.Message, open, used map[parley.CallID]bool) (map[parley.CallID]bool, error) {
	if len(m.Parts) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	calls := map[parley.CallID]bool{}
	said := m.Role != parley.RoleAssistant
	for _, p := range m.Parts {
		var by parley.Role
		switch p.Type {
		case parley.PartText:
			if strings.TrimSpace(p.Text) == "" {
				return nil, fmt.Errorf("a text is blank")
			}
			by = m.Role
			if m.Role == parley.RoleTool {
				by = parley.RoleUser
			}
		case parley.PartImage, parley.PartFile:
			by = parley.RoleUser
		case parley.PartThinking:
			by = parley.RoleAssistant
		case parley.PartToolCall, parley.PartHandoff:
			by = parley.RoleAssistant
			if p.Call == "" || used[p.Call] {
				return nil, fmt.Errorf("the id %q of a call is missing or was used before", p.Call)
			}
			used[p.Call], calls[p.Call] = true, true
		case parley.PartToolResult:
			by = parley.RoleTool
			if !open[p.Call] {
				return nil, fmt.Errorf("the result of %q belongs to no open call", p.Call)
			}
			if strings.TrimSpace(p.Text) == "" && len(p.Input) == 0 {
				return nil, fmt.Errorf("the result of %q is blank", p.Call)
			}
			delete(open, p.Call)
		}
		if by != m.Role {
			return nil, fmt.Errorf("a part of type %q cannot be the %s's", p.Type, m.Role)
		}
		said = said || p.Type != parley.PartThinking
	}
	if m.Role == parley.RoleTool && len(open) > 0 {
		return nil, fmt.Errorf("%d calls have no result", len(open))
	}
	if !said {
		return nil, fmt.Errorf("it is thinking alone")
	}
	return calls, nil
}

// view is a request as the rules of a script see it.
type view struct {
	Agent    string          // the agent that speaks
	Question string          // what the user asked in this turn
	About    string          // what the prompt says about this turn: the time, what is allowed
	Steers   []string        // what the user added while it ran
	Attached []string        // the files and resources of the turn's messages, as the prompt shows them
	History  []exchange      // earlier turns, the oldest first
	Handed   *handed         // what another agent last handed over; nil: the turn came from the user
	Results  []dialog.Result // results of the agent's own calls in this turn
	Replies  int             // number of the agent's replies in this turn
	Foreign  bool            // the question is in another language than English

	depth int   // depth of nested templates
	memo  *memo // computed once for all rules of a reply
}

// withheld is the reason why a tool is not offered, if the prompt gives one.
func (v view) withheld(tool string) string {
	m := pattern.New(`(?m)^- ` + regexp.QuoteMeta(tool) + `: not available \((.*)\)\. `).FindStringSubmatch(v.About)
	if m == nil {
		return ""
	}
	return m[1]
}

type exchange struct {
	Question, Answer string
	Complete         bool // the answer was not cut off
}

type handed struct {
	From, Why string
	Text      string // that agent's text
	Results   []dialog.Result
}

// The loop writes these; see package runtime/loop.
const (
	handedMark = "[handed over by "
	resultMark = "[result of "
	textMark   = "[text of "
	cutMark    = "[Your reply was cut off"
	onMark     = "[Go on.]"
	aboutMark  = "[about this turn]"
	foundMark  = "[tool calls of this turn and what they returned, shortened]"
)

// The runtime of the Claude CLI writes these before the user's words, as package claudecli says: what a
// conversation without earlier turns is told of them, and what a rewind took back.
const (
	restoredMark = "<restored-history>\nThis conversation began earlier."
	wentBackMark = "[The user went back to an earlier point of this conversation."
	putBackMark  = "[The user put files back to what they were at an earlier point."
	stoppedMark  = "[Request interrupted by user" // by the CLI itself
)

// preface returns how many texts stand before the user's words in the first message of a turn. A
// text that only looks like one of them is the last before the marks that follow each question.
func preface(m parley.Message) (n int) {
	for n+1 < len(m.Parts) {
		text, next := m.Parts[n].Text, m.Parts[n+1]
		before := strings.HasPrefix(text, restoredMark) || strings.HasPrefix(text, wentBackMark) || strings.HasPrefix(text, putBackMark) || strings.HasPrefix(text, stoppedMark)
		if !before || strings.HasPrefix(next.Text, aboutMark) || strings.HasPrefix(next.Text, foundMark) {
			break
		}
		n++
	}
	return n
}

// restored reads the earlier turns from what stands before the user's words.
func restored(m parley.Message) (list []exchange) {
	for _, p := range m.Parts[:preface(m)] {
		if !strings.HasPrefix(p.Text, restoredMark) {
			continue
		}
		turns := strings.Split(strings.TrimSuffix(p.Text, "</restored-history>"), "\n[user]\n")
		for _, turn := range turns[1:] {
			question, answer, told := strings.Cut(turn, "\n[you]\n")
			question, _, _ = strings.Cut(question, "\n"+foundMark)
			list = append(list, exchange{Question: strings.TrimSpace(question), Answer: strings.TrimSpace(answer), Complete: told && !strings.Contains(answer, "[the turn ended as ")})
		}
	}
	return list
}

// look finds the current turn in a valid list of messages.
func look(agent string, ms []parley.Message) view {
	v := view{Agent: agent, memo: &memo{}}
	start := 0
	for i, m := range ms {
		if m.Role == parley.RoleUser && (i == 0 || ms[i-1].Role == parley.RoleAssistant && !goesOn(m)) {
			start = i
		}
	}
	for _, m := range ms[:start] {
		switch m.Role {
		case parley.RoleUser:
			v.History = append(append(v.History, restored(m)...), exchange{Question: asked(m)})
		case parley.RoleAssistant:
			if n := len(v.History); n > 0 {
				x := &v.History[n-1]
				x.Answer = m.Text()
				x.Complete = !cut(m) && !strings.HasPrefix(x.Answer, "[no answer")
			}
		}
	}
	calls := map[parley.CallID]parley.Part{}
	first := preface(ms[start])
	v.History = append(v.History, restored(ms[start])...)
	for i, m := range ms[start:] {
		for j, p := range m.Parts {
			switch {
			case i == 0 && j < first:
			case p.Type == parley.PartToolCall:
				calls[p.Call] = p
			case p.Type == parley.PartToolResult:
				if c, ok := calls[p.Call]; ok {
					v.Results = append(v.Results, newResult(p.Name, c.Input, p.Text, p.IsError))
				}
			case m.Role != parley.RoleUser || p.Type != parley.PartText:
			case i == 0 && j == first: // whatever it looks like
				v.Question = p.Text
			case strings.HasPrefix(p.Text, handedMark):
				v.Handed = readHanded(p.Text)
			case strings.HasPrefix(p.Text, cutMark) || p.Text == onMark:
			case strings.HasPrefix(p.Text, aboutMark):
				v.About = p.Text
			case isAttached(p.Text): // it is no word of the user's
				v.Attached = append(v.Attached, p.Text)
			default:
				v.Steers = append(v.Steers, p.Text)
			}
		}
		if m.Role == parley.RoleAssistant && !cut(m) {
			v.Replies++
		}
	}
	return v
}

// maxRead is how many bytes of a text of the conversation the rules read. They look at each
// word many times, so a message of 250 KB took seconds of a processor.
const maxRead = 16 << 10

// maxWord is how many bytes of a word they read. One word of thousands of hyphens would be as many
// words, each of which is compared with each.
const maxWord = 200

// shortWords cuts the words of a text that are longer.
func shortWords(text string) string {
	if !slices.ContainsFunc(strings.Fields(text), func(w string) bool { return len(w) > maxWord }) {
		return text
	}
	var b strings.Builder
	for text != "" {
		space := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
		if space < 0 {
			space = len(text)
		}
		b.WriteString(text[:space])
		text = text[space:]
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end < 0 {
			end = len(text)
		}
		b.WriteString(clip(text[:end], maxWord))
		text = text[end:]
	}
	return b.String()
}

// shorten leaves of each text what the rules read: of a long one, the beginning and the end,
// where the question is.
func (v *view) shorten() {
	short := func(texts ...*string) {
		for _, t := range texts {
			*t = shortWords(*t)
			if len(*t) <= maxRead {
				continue
			}
			end := len(*t) - maxRead/2
			for end < len(*t) && !utf8.RuneStart((*t)[end]) {
				end++
			}
			*t = clip(*t, maxRead/2) + "\n\n" + (*t)[end:]
		}
	}
	short(&v.Question)
	for i := range v.Steers {
		short(&v.Steers[i])
	}
	for i := range v.Attached {
		short(&v.Attached[i])
	}
	for i := range v.History {
		short(&v.History[i].Question, &v.History[i].Answer)
	}
}

// asked returns the user's text in an earlier turn, without the results of tools.
func asked(m parley.Message) string {
	m.Parts = m.Parts[preface(m):]
	for i, p := range m.Parts {
		if i > 0 && (strings.HasPrefix(p.Text, foundMark) || strings.HasPrefix(p.Text, aboutMark)) { // a question is what it is, whatever it looks like
			m.Parts = m.Parts[:i]
			break
		}
	}
	m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p parley.Part) bool { return isAttached(p.Text) })
	return m.Text()
}

// isAttached reports whether a text is a file or a resource that the user attached; see package prompt.
func isAttached(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, "\n"), "[The user attached the ")
}

// goesOn reports whether a user's message only asks to continue the same turn.
func goesOn(m parley.Message) bool {
	first := m.Parts[0].Text
	return strings.HasPrefix(first, cutMark) || first == onMark
}

func cut(m parley.Message) bool {
	for _, p := range m.Parts {
		if p.Cut {
			return true
		}
	}
	return false
}

func newResult(tool string, input json.RawMessage, output string, failed bool) dialog.Result {
	r := dialog.Result{Tool: tool, Output: output, Failed: failed, Input: map[string]any{}}
	_ = json.Unmarshal(input, &r.Input) // an input that is not an object has no fields
	return r
}

// readHanded parses the text that the loop writes at a handoff.
func readHanded(text string) *handed {
	lines := strings.Split(text, "\n")
	h := &handed{From: strings.TrimSuffix(strings.TrimPrefix(lines[0], handedMark), "]")}
	lines = lines[1:]
	if len(lines) > 0 && strings.HasPrefix(lines[0], "reason: ") {
		h.Why = strings.TrimPrefix(lines[0], "reason: ")
		lines = lines[1:]
		for len(lines) > 0 && !strings.HasPrefix(lines[0], resultMark) && lines[0] != textMark+h.From+"]" {
			h.Why, lines = h.Why+"\n"+lines[0], lines[1:]
		}
	}
	for len(lines) > 0 {
		head := lines[0]
		if head == textMark+h.From+"]" {
			h.Text = strings.Join(lines[1:], "\n")
			return h
		}
		lines = lines[1:]
		tool, input, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(head, resultMark), "]"), " ")
		if !strings.HasPrefix(head, resultMark) || !ok {
			continue
		}
		n := 0
		for n < len(lines) && !strings.HasPrefix(lines[n], resultMark) && lines[n] != textMark+h.From+"]" {
			n++
		}
		out := strings.Join(lines[:n], "\n")
		lines = lines[n:]
		h.Results = append(h.Results, newResult(tool, json.RawMessage(input), out, failed(out)))
	}
	return h
}

// failed reports whether a result's text is the loop's notice of a failure.
func failed(out string) bool {
	for _, p := range []string{"Failed: ", "Denied: ", "Cancelled: ", "The call ", "It is unknown whether"} {
		if strings.HasPrefix(out, p) {
			return true
		}
	}
	return false
}
