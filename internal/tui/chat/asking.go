package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui"
)

// asking is an interaction before the person.
type asking struct {
	in     parley.Interaction
	more   int  // others that wait
	aside  bool // the person left it open
	armed  bool // it has the keyboard
	busy   bool // the answer is on its way
	opened time.Time

	rows   []askRow
	at     int
	scroll int // of what it is about
	over   int // lines of that which do not fit

	question int // of several
	answers  map[string]string
	chosen   map[int]bool // of several options

	typing typing
	ed     *editor
	wrong  string
	given  parley.Credentials
}

type askRow struct {
	choice string
	label  string
	about  string
	typing typing // what has to be typed then
}

// typing is what the person types.
type typing int

const (
	typesNothing typing = iota
	typesOther          // an answer in other words
	typesReason         // why not
	typesInput          // another input, as JSON
	typesSecret         // a credential
)

// quiet is how long no key may have been pressed before a question takes the keyboard: nobody
// answers with what they were writing.
const quiet = 700 * time.Millisecond

// syncAsking shows the first open interaction, and takes away one that is closed.
func (m *model) syncAsking() {
	var open []parley.Interaction
	if m.conv != nil {
		open = m.conv.open
	}
	if a := m.asking; a != nil {
		i := slices.IndexFunc(open, func(in parley.Interaction) bool { return in.ID == a.in.ID })
		if i >= 0 {
			a.more, a.in.Text = len(open)-1, open[i].Text
			return
		}
		m.asking = nil
	}
	if len(open) == 0 {
		return
	}
	first := slices.IndexFunc(open, func(in parley.Interaction) bool { return in.Kind != parley.KindClient })
	aside := first < 0
	m.asking = newAsking(open[max(first, 0)], len(open)-1, m.now)
	m.asking.aside = aside
	m.arm()
}

func newAsking(in parley.Interaction, more int, now time.Time) *asking {
	a := &asking{in: in, more: more, opened: now, answers: map[string]string{}, ed: newEditor(), given: parley.Credentials{}}
	a.list()
	return a
}

// arm gives the keyboard to the question once the person has stopped typing. A message that is half
// written keeps it, for as long as the person thinks: its Enter is not to allow anything.
func (m *model) arm() {
	if a := m.asking; a != nil && !a.armed && m.ed.text == "" && m.now.Sub(m.pressed) > quiet {
		a.armed = true
	}
}

// list makes the rows to choose from.
func (a *asking) list() {
	a.rows, a.at, a.chosen, a.wrong = nil, 0, map[int]bool{}, ""
	a.typing = typesNothing
	a.ed.reset()
	choices := tui.Choices(a.in)
	if a.asksQuestions() {
		q := a.in.Questions[a.question]
		for _, o := range q.Options {
			a.rows = append(a.rows, askRow{choice: parley.ChoiceAnswered, label: oneLine(o.Label), about: oneLine(o.Description)})
		}
		a.rows = append(a.rows, askRow{label: "Other words…", typing: typesOther})
		if slices.Contains(choices, parley.ChoiceDeny) {
			a.rows = append(a.rows, askRow{choice: parley.ChoiceDeny, label: "Skip it"})
		}
		if len(q.Options) == 0 {
			a.typing = typesOther
		}
		return
	}
	for _, c := range choices {
		r := askRow{choice: c, label: tui.Label(a.in.Kind, c)}
		switch {
		case c == parley.ChoiceDeny && a.in.Kind != parley.KindCredential && a.in.Kind != parley.KindClient:
			r.typing = typesReason
		case c == parley.ChoiceAnswered && a.in.Kind == parley.KindCredential:
			r.typing = typesSecret
		}
		a.rows = append(a.rows, r)
	}
	if a.in.Kind == parley.KindPermission && len(a.in.Input) > 0 && slices.Contains(choices, parley.ChoiceAllow) {
		a.rows = append(a.rows, askRow{choice: parley.ChoiceAllow, label: "Allow once, with another input…", typing: typesInput})
	}
}

func (a *asking) asksQuestions() bool {
	return a.in.Kind == parley.KindQuestion && len(a.in.Questions) > 0 && slices.Contains(tui.Choices(a.in), parley.ChoiceAnswered)
}

func (a *asking) many() bool { return a.asksQuestions() && a.in.Questions[a.question].MultiSelect }

// has reports whether the question has the keyboard.
func (a *asking) has() bool { return a.armed && !a.aside && !a.busy }

// paste reports whether the question takes a pasted text.
func (a *asking) paste(m *model, text string) bool {
	if a.typing == typesNothing && !a.words(m) {
		return false
	}
	a.ed.paste(text)
	return true
}

// words goes to where an answer in words is typed, if there is such a place: the answer to a
// question, the reason of a denial, a credential.
func (a *asking) words(m *model) bool {
	for _, t := range []typing{typesSecret, typesOther, typesReason} {
		if i := slices.IndexFunc(a.rows, func(r askRow) bool { return r.typing == t }); i >= 0 {
			a.at = i
			a.pick(m, i)
			return true
		}
	}
	return false
}

// typed is a character that chooses nothing. A slash begins a command. Anything else is the first
// of an answer in words, or of a message if the question takes none.
func (a *asking) typed(m *model, k tea.KeyPressMsg, name string) tea.Cmd {
	if name != "/" && a.words(m) {
		return a.type1(m, k, name)
	}
	a.armed = false
	return m.write(k, name)
}

// key does what a key means to the question.
func (a *asking) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if a.busy {
		if k.Text != "" { // the question is as good as gone
			return m.write(k, name)
		}
		return nil
	}
	if name == "ctrl+c" && a.ed.text == "" {
		return m.interruptOrLeave()
	}
	if a.typing != typesNothing {
		return a.type1(m, k, name)
	}
	switch name {
	case "up", "ctrl+p":
		a.at = max(a.at-1, 0)
	case "down", "ctrl+n", "tab":
		a.at = min(a.at+1, len(a.rows)-1)
	case "space":
		if a.many() && a.rows[a.at].choice == parley.ChoiceAnswered {
			a.chosen[a.at] = !a.chosen[a.at]
		}
	case "enter":
		return a.pick(m, a.at)
	case "esc":
		a.aside = true
		return nil
	case "ctrl+d":
		return m.leave()
	default:
		if len(name) == 1 && name[0] >= '1' && name[0] <= '9' && int(name[0]-'1') < len(a.rows) {
			i := int(name[0] - '1')
			a.at = i
			if a.many() && a.rows[i].choice == parley.ChoiceAnswered {
				a.chosen[i] = !a.chosen[i]
				return nil
			}
			return a.pick(m, i)
		}
		if k.Text != "" {
			return a.typed(m, k, name)
		}
	}
	return nil
}

// pick chooses a row.
func (a *asking) pick(m *model, i int) tea.Cmd {
	a.wrong = ""
	r := a.rows[i]
	if r.typing != typesNothing {
		a.typing = r.typing
		a.ed.reset()
		a.ed.secret = r.typing == typesSecret
		if r.typing == typesInput {
			var b bytes.Buffer
			if json.Indent(&b, a.in.Input, "", "  ") != nil {
				b.Reset()
				b.Write(a.in.Input)
			}
			a.ed.set(clean(b.String()))
		}
		return nil
	}
	if !a.asksQuestions() || r.choice == parley.ChoiceDeny {
		return a.send(m, parley.Answer{Choice: r.choice})
	}
	q := a.in.Questions[a.question]
	if !q.MultiSelect {
		return a.say(m, q.Options[i].Label)
	}
	var list []string
	for j, o := range q.Options {
		if a.chosen[j] {
			list = append(list, o.Label)
		}
	}
	if len(list) == 0 { // Enter on an option that nothing was chosen beside means this one
		list = []string{q.Options[i].Label}
	}
	return a.say(m, strings.Join(list, ", "))
}

// say answers a question, and goes to the next one.
func (a *asking) say(m *model, answer string) tea.Cmd {
	a.answers[a.in.Questions[a.question].Question] = answer
	if a.question++; a.question < len(a.in.Questions) {
		a.list()
		return nil
	}
	a.question--
	return a.send(m, parley.Answer{Choice: parley.ChoiceAnswered, Answers: a.answers})
}

// type1 is a key while the person types.
func (a *asking) type1(m *model, k tea.KeyPressMsg, name string) tea.Cmd {
	text := strings.TrimSpace(a.ed.value())
	switch name {
	case "ctrl+c":
		a.ed.reset()
		return nil
	case "esc":
		if a.typing == typesOther && len(a.rows) <= 2 && a.asksQuestions() && len(a.in.Questions[a.question].Options) == 0 {
			a.aside = true
			return nil
		}
		a.typing, a.wrong, a.ed.secret = typesNothing, "", false
		a.ed.reset()
		return nil
	case "shift+enter", "alt+enter", "ctrl+j":
		if a.typing != typesSecret {
			a.ed.insert("\n")
		}
		return nil
	case "ctrl+g":
		if a.typing != typesSecret {
			ext := ".md"
			if a.typing == typesInput {
				ext = ".json"
			}
			return m.external(a.ed.value(), ext, func(_ *model, text string) { a.ed.set(clean(strings.TrimRight(text, "\n"))) })
		}
		return nil
	case "enter":
	default:
		a.ed.key(name, k.Text, m.inputWidth())
		return nil
	}
	switch a.typing {
	case typesOther:
		if text == "" {
			a.wrong = "the answer is empty"
			return nil
		}
		var list []string
		if a.many() {
			for j, o := range a.in.Questions[a.question].Options {
				if a.chosen[j] {
					list = append(list, o.Label)
				}
			}
		}
		return a.say(m, strings.Join(append(list, text), ", "))
	case typesReason:
		return a.send(m, parley.Answer{Choice: parley.ChoiceDeny, Text: text})
	case typesInput:
		raw, err := tui.Input(text)
		if err != nil {
			a.wrong = errText(err)
			return nil
		}
		return a.send(m, parley.Answer{Choice: parley.ChoiceAllow, Input: raw})
	case typesSecret:
		return a.secret(m, text)
	}
	return nil
}

// secret takes in a credential; after the last one they are sent. They are kept no longer.
func (a *asking) secret(m *model, text string) tea.Cmd {
	if text == "" {
		a.wrong = "nothing was typed"
		return nil
	}
	a.given[a.in.Credentials[len(a.given)]] = text
	a.ed.reset()
	if len(a.given) < len(a.in.Credentials) {
		return nil
	}
	if err := a.given.Check(); err != nil {
		a.wrong = errText(err)
		clear(a.given)
		return nil
	}
	return a.send(m, parley.Answer{Choice: parley.ChoiceAnswered})
}

// send sends the answer.
func (a *asking) send(m *model, answer parley.Answer) tea.Cmd {
	a.busy = true
	with := parley.AnswerInteraction{Answer: answer}
	if len(a.given) > 0 {
		with.Credentials = a.given
		a.given = parley.Credentials{}
	}
	id := a.in.ID
	return ask(m, func(ctx context.Context, c *client.Client) (client.Interaction, error) {
		return c.AnswerWith(ctx, id, with)
	},
		func(m *model, _ client.Interaction, err error) tea.Cmd {
			a.busy = false
			switch parley.CodeOf(err) {
			case "":
				return nil // the event takes it away
			case parley.CodeConflict, parley.CodeNotFound:
				m.fail(err) // somebody else was faster, or it expired: the event comes
			default:
				a.wrong = errText(err)
				if a.asksQuestions() {
					a.question = 0
				}
				a.list()
				a.wrong = errText(err)
			}
			return nil
		})
}
