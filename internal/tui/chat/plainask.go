package chat

import (
	"os"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

// plainAsking is a question that the next lines answer.
type plainAsking struct {
	in       parley.Interaction
	choices  []string
	question int
	answers  map[string]string
	typing   typing
	given    parley.Credentials
	sent     bool
	show     func() // shows what is typed again; nil: it is shown
}

// nextQuestion asks the first open interaction that a person can answer, if none is asked.
func (p *plain) nextQuestion() {
	if p.asking != nil {
		return
	}
	i := slices.IndexFunc(p.conv.open, func(in parley.Interaction) bool { return in.Kind != parley.KindClient })
	if i < 0 {
		if len(p.conv.open) > 0 {
			p.say("The turn waits until another program runs %s.", oneLine(p.conv.open[0].Tool))
		}
		return
	}
	in := p.conv.open[i]
	a := &plainAsking{in: in, answers: map[string]string{}, given: parley.Credentials{}, choices: tui.Choices(in)}
	p.asking = a
	p.say("It asks (%s): %s", oneLine(string(in.Kind)), oneLine(in.Title))
	for _, line := range tui.Details(in) {
		p.say("%s", line)
	}
	if in.Kind == parley.KindPermission && len(in.Input) > 0 && slices.Contains(a.choices, parley.ChoiceAllow) {
		a.choices = append(slices.Clone(a.choices), "edit")
	}
	a.list(p)
}

func (p *plain) closeAsking() {
	if p.asking != nil {
		p.asking.shown()
		p.asking = nil
	}
}

func (a *plainAsking) asksQuestions() bool {
	return a.in.Kind == parley.KindQuestion && len(a.in.Questions) > 0 && slices.Contains(a.choices, parley.ChoiceAnswered)
}

// list says what there is to choose from.
func (a *plainAsking) list(p *plain) {
	if !a.asksQuestions() {
		for i, c := range a.choices {
			label := tui.Label(a.in.Kind, c)
			if c == "edit" {
				label = "Allow once, with another input"
			}
			p.say("%d. %s", i+1, label)
		}
		return
	}
	q := a.in.Questions[a.question]
	if n := len(a.in.Questions); n > 1 {
		p.say("Question %d of %d: %s", a.question+1, n, oneLine(q.Question))
	} else if oneLine(q.Question) != oneLine(a.in.Title) {
		p.say("%s", oneLine(q.Question))
	}
	for i, o := range q.Options {
		line := oneLine(o.Label)
		if o.Description != "" {
			line += ": " + oneLine(o.Description)
		}
		p.say("%d. %s", i+1, line)
	}
	how := "Write your answer"
	switch {
	case q.MultiSelect && len(q.Options) > 0:
		how = "Write one or more numbers with commas, or other words"
	case len(q.Options) > 0:
		how = "Write a number, or other words"
	}
	if slices.Contains(a.choices, parley.ChoiceDeny) {
		how += "; skip skips it"
	}
	p.say("%s.", how)
}

func (a *plainAsking) prompt() string {
	switch a.typing {
	case typesSecret:
		return oneLine(a.in.Credentials[min(len(a.given), len(a.in.Credentials)-1)]) + " (not shown): "
	case typesReason:
		return "Why, for the agent (Enter for no reason): "
	case typesInput:
		return "The input as JSON, in one line (Enter to go back): "
	}
	return "Answer: "
}

// shown shows what is typed again.
func (a *plainAsking) shown() {
	if a.show != nil {
		a.show()
		a.show = nil
	}
}

// line is what the person wrote.
func (a *plainAsking) line(p *plain, line string) error {
	line = strings.TrimSpace(line)
	switch a.typing {
	case typesSecret:
		if p.person {
			p.prompt = false
			p.say("") // the key Enter was not shown either
		}
		if line == "" {
			p.say("Nothing was typed.")
			return nil
		}
		a.given[a.in.Credentials[len(a.given)]] = line
		if len(a.given) < len(a.in.Credentials) {
			return nil
		}
		a.shown()
		a.typing = typesNothing
		if err := a.given.Check(); err != nil {
			clear(a.given)
			a.list(p)
			return err
		}
		return a.send(p, parley.Answer{Choice: parley.ChoiceAnswered})
	case typesReason:
		return a.send(p, parley.Answer{Choice: parley.ChoiceDeny, Text: line})
	case typesInput:
		if line == "" {
			a.typing = typesNothing
			a.list(p)
			return nil
		}
		raw, err := tui.Input(line)
		if err != nil {
			return err
		}
		return a.send(p, parley.Answer{Choice: parley.ChoiceAllow, Input: raw})
	}
	if a.asksQuestions() {
		return a.answer(p, line)
	}
	choice, err := tui.ChoiceOf(a.in, a.choices, line)
	if err != nil {
		return err
	}
	switch {
	case choice == "edit":
		a.typing = typesInput
		return nil
	case choice == parley.ChoiceDeny && a.in.Kind != parley.KindCredential && a.in.Kind != parley.KindClient && p.person:
		a.typing = typesReason
		return nil
	case choice == parley.ChoiceAnswered && a.in.Kind == parley.KindCredential:
		a.typing = typesSecret
		if f, ok := p.o.In.(*os.File); ok && p.person {
			a.show = tui.Hide(f)
		}
		return nil
	}
	return a.send(p, parley.Answer{Choice: choice})
}

func (a *plainAsking) answer(p *plain, line string) error {
	if word := strings.ToLower(line); (word == "skip" || word == "-") && slices.Contains(a.choices, parley.ChoiceDeny) {
		return a.send(p, parley.Answer{Choice: parley.ChoiceDeny})
	}
	q := a.in.Questions[a.question]
	said, err := tui.Pick(q, line)
	if err != nil {
		return err
	}
	a.answers[q.Question] = said
	if a.question++; a.question < len(a.in.Questions) {
		a.list(p)
		return nil
	}
	a.question = 0
	return a.send(p, parley.Answer{Choice: parley.ChoiceAnswered, Answers: a.answers})
}

func (a *plainAsking) send(p *plain, answer parley.Answer) error {
	with := parley.AnswerInteraction{Answer: answer}
	if len(a.given) > 0 {
		with.Credentials = a.given
		a.given = parley.Credentials{}
	}
	a.typing = typesNothing
	a.sent = true
	err := p.wait(func() error { _, err := p.c.AnswerWith(p.ctx, a.in.ID, with); return err })
	if err == nil {
		p.say("%s.", tui.Said(a.in, answer))
		return nil
	}
	a.sent = false
	if code := parley.CodeOf(err); code == parley.CodeInvalid || code == parley.CodeTooLarge {
		a.list(p)
	}
	return err
}
