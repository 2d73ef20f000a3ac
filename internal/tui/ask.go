package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// ErrLeft is returned by [Terminal.Ask] when the person leaves a question open,
// with Ctrl-D.
var ErrLeft = errors.New("left open")

// Ask shows an interaction to the person at the terminal and returns their answer. It asks
// again until the answer has a valid form; the server may still refuse it. When ctx ends,
// the question is withdrawn and Ask returns the cause. Call it only where CanAsk is true,
// and not concurrently.
//
// Credentials are not shown while they are typed, and are not part of the answer that is printed.
func (t *Terminal) Ask(ctx context.Context, in parley.Interaction) (parley.AnswerInteraction, error) {
	p := prompt{t: t, s: t.Style(t.Err), in: in, given: parley.Credentials{}}
	p.head()
	said, err := p.answer(ctx)
	a := parley.AnswerInteraction{Answer: said}
	if len(p.given) > 0 {
		a.Credentials = p.given
	}
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(t.Err)
		err = ErrLeft
	}
	if err == nil {
		fmt.Fprintln(t.Err, p.s.Dim("  "+Said(in, a.Answer)))
	}
	return a, err
}

// Secret asks for a text that is not shown while it is typed.
func (t *Terminal) Secret(ctx context.Context, label string) (string, error) {
	line, err := prompt{t: t, s: t.Style(t.Err)}.read(ctx, oneLine(label)+" (not shown): ", true)
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(t.Err)
		err = ErrLeft
	}
	return line, err
}

type prompt struct {
	t     *Terminal
	s     Style
	in    parley.Interaction
	given parley.Credentials // with the answer
}

func (p prompt) say(format string, args ...any) {
	fmt.Fprintf(p.t.Err, format+"\n", args...)
}

// read asks for one line.
func (p prompt) read(ctx context.Context, label string, secret bool) (string, error) {
	line, err := p.t.keys.line(ctx, secret, func() { fmt.Fprint(p.t.Err, label) })
	if secret && err == nil {
		fmt.Fprintln(p.t.Err) // the key Enter was not shown either
	}
	return strings.TrimSpace(Plain(line)), err
}

func (p prompt) head() {
	p.say("\n%s", p.s.Bold("? "+oneLine(p.in.Title)))
	for _, line := range Details(p.in) {
		p.say("%s", indent(wrap(line, p.s.Width-2), "  ", "    "))
	}
	if at := p.in.ExpiresAt; !at.IsZero() {
		p.say("%s", p.s.Dim("  Open until "+at.Local().Format("Mon 2 Jan 15:04")+". Ctrl-D leaves it open, Ctrl-C stops the turn."))
	} else {
		p.say("%s", p.s.Dim("  Ctrl-D leaves it open, Ctrl-C stops the turn."))
	}
}

// Details are lines about an interaction, without its title: what it is about and,
// of a call, its input.
func Details(in parley.Interaction) []string {
	var out []string
	if in.Detail != "" {
		out = append(out, Plain(in.Detail))
	}
	if in.Text != "" {
		out = append(out, strings.Split(Plain(in.Text), "\n")...)
	}
	if in.Kind != parley.KindQuestion {
		out = append(out, fields(in)...)
	}
	if len(in.Reaches) > 0 && !strings.Contains(in.Detail+"\n"+in.Text+"\n"+in.Title, strings.Join(in.Reaches, ", ")) {
		out = append(out, "acts on: "+Plain(strings.Join(in.Reaches, ", ")))
	}
	return out
}

// fields are a call's input, a line for each name.
func fields(in parley.Interaction) []string {
	if len(in.Input) == 0 || in.Tool == "" {
		return nil
	}
	out := []string{"tool: " + Plain(in.Tool)}
	var named map[string]json.RawMessage
	if json.Unmarshal(in.Input, &named) != nil {
		return append(out, Plain(string(in.Input)))
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		value := string(named[name])
		var s string
		if json.Unmarshal(named[name], &s) == nil {
			value = s
		}
		out = append(out, oneLine(name+": "+value))
	}
	return out
}

func (p prompt) answer(ctx context.Context) (parley.Answer, error) {
	if p.in.Kind == parley.KindQuestion && slices.Contains(Choices(p.in), parley.ChoiceAnswered) {
		return p.questions(ctx)
	}
	return p.choose(ctx)
}

// questions asks each question of a [parley.KindQuestion].
func (p prompt) questions(ctx context.Context) (parley.Answer, error) {
	a := parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{}}
	skip := slices.Contains(Choices(p.in), parley.ChoiceDeny)
	for n, q := range p.in.Questions {
		if len(p.in.Questions) > 1 {
			p.say("%s", p.s.Bold(fmt.Sprintf("  %d of %d: %s", n+1, len(p.in.Questions), oneLine(q.Question))))
		} else if q.Question != p.in.Title {
			p.say("  %s", oneLine(q.Question))
		}
		var rows [][2]string
		for _, o := range q.Options {
			rows = append(rows, [2]string{o.Label, o.Description})
		}
		p.menu(rows)
		for {
			line, err := p.read(ctx, hintOf(q, skip), false)
			if err != nil {
				return a, err
			}
			if skip && line == "-" {
				return parley.Answer{Choice: parley.ChoiceDeny}, nil
			}
			said, bad := Pick(q, line)
			if bad == nil {
				a.Answers[q.Question] = said
				break
			}
			p.wrong(bad)
		}
	}
	return a, nil
}

func hintOf(q parley.Question, skip bool) string {
	var s string
	switch n := len(q.Options); {
	case n == 0:
		s = "  Your answer"
	case q.MultiSelect:
		s = fmt.Sprintf("  One or more of 1-%d, such as 1,%d, or other words", n, n)
	default:
		s = fmt.Sprintf("  1-%d, or other words", n)
	}
	if skip {
		s += "; - skips it"
	}
	return s + ": "
}

// menu lists what there is to choose from, by number.
func (p prompt) menu(rows [][2]string) {
	wide := 0
	for _, r := range rows {
		wide = max(wide, width(oneLine(r[0])))
	}
	for i, r := range rows {
		label, about := oneLine(r[0]), oneLine(r[1])
		line := fmt.Sprintf("%3d  %s", i+1, label)
		if about != "" {
			line += strings.Repeat(" ", wide-width(label)+2) + p.s.Dim(about)
		}
		p.say("%s", indent(wrap(line, p.s.Width), "", "     "))
	}
}

// edit is offered beside the choices of a call that may be allowed.
const edit = "edit"

// choose asks for one of an interaction's choices.
func (p prompt) choose(ctx context.Context) (parley.Answer, error) {
	choices := Choices(p.in)
	if slices.Contains(choices, parley.ChoiceAllow) && p.in.Kind == parley.KindPermission && len(p.in.Input) > 0 {
		choices = append(slices.Clone(choices), edit)
	}
	var rows [][2]string
	for _, c := range choices {
		rows = append(rows, [2]string{Label(p.in.Kind, c), ""})
	}
	p.menu(rows)
	for {
		line, err := p.read(ctx, fmt.Sprintf("  1-%d: ", len(choices)), false)
		if err != nil {
			return parley.Answer{}, err
		}
		choice, bad := ChoiceOf(p.in, choices, line)
		if bad != nil {
			p.wrong(bad)
			continue
		}
		a := parley.Answer{Choice: choice}
		switch {
		case choice == edit:
			if a, err = p.edited(ctx); err == nil && a.Choice == "" {
				continue
			}
		case choice == parley.ChoiceDeny && p.in.Kind != parley.KindCredential:
			a.Text, err = p.read(ctx, "  Why, for the agent (Enter for no reason): ", false)
		case choice == parley.ChoiceAnswered && p.in.Kind == parley.KindCredential:
			if err = p.credentials(ctx); parley.CodeOf(err) == parley.CodeInvalid || parley.CodeOf(err) == parley.CodeTooLarge {
				p.wrong(err)
				continue
			}
		}
		return a, err
	}
}

// credentials asks for each credential that the interaction names.
func (p prompt) credentials(ctx context.Context) error {
	clear(p.given)
	for _, name := range p.in.Credentials {
		v, err := p.read(ctx, "  "+oneLine(name)+" (not shown): ", true)
		switch {
		case err != nil:
			return err
		case v == "":
			return parley.Errorf(parley.CodeInvalid, "nothing was typed")
		}
		p.given[name] = v
	}
	return p.given.Check()
}

// edited asks for another input of a call. Its Choice is empty when the person
// changed their mind.
func (p prompt) edited(ctx context.Context) (parley.Answer, error) {
	for {
		line, err := p.read(ctx, "  The input as JSON, in one line (Enter to go back): ", false)
		if err != nil || line == "" {
			return parley.Answer{}, err
		}
		raw, bad := Input(line)
		if bad == nil {
			return parley.Answer{Choice: parley.ChoiceAllow, Input: raw}, nil
		}
		p.wrong(bad)
	}
}

// Refused tells the person at the terminal that the server did not take an answer.
func (t *Terminal) Refused(err error) { prompt{t: t, s: t.Style(t.Err)}.wrong(err) }

func (p prompt) wrong(err error) {
	text := err.Error()
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Hint != "" {
		text += "; " + e.Hint
	}
	p.say("  %s", p.s.Red(Plain(text)))
}
