package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/parley-server/parley"
)

func width(s string) int { return ansi.StringWidth(s) }

func oneLine(s string) string { return strings.Join(strings.Fields(Plain(s)), " ") }

// Knows reports whether [Terminal.Ask] can ask an interaction of this kind. A newer server
// may have others; whoever knows them answers by their choices.
func Knows(kind parley.InteractionKind) bool {
	switch kind {
	case parley.KindQuestion, parley.KindPermission, parley.KindConfirmation, parley.KindCredential, parley.KindUnknown, parley.KindClient:
		return true
	}
	return false
}

// Choices returns the choices of an interaction: those that the server lists, or else
// those of its kind.
func Choices(in parley.Interaction) []string {
	if len(in.Choices) > 0 {
		return in.Choices
	}
	switch in.Kind {
	case parley.KindPermission:
		return []string{parley.ChoiceAllow, parley.ChoiceAllowSession, parley.ChoiceDeny}
	case parley.KindConfirmation:
		return []string{parley.ChoiceAllow, parley.ChoiceDeny}
	case parley.KindUnknown:
		return []string{parley.ChoiceHappened, parley.ChoiceDidNot, parley.ChoiceAgain, parley.ChoiceLeave}
	case parley.KindQuestion:
		return []string{parley.ChoiceAnswered, parley.ChoiceDeny}
	}
	return []string{parley.ChoiceDeny}
}

var words = map[string]string{
	parley.ChoiceAllow:        "Allow once",
	parley.ChoiceAllowSession: "Allow for this session",
	parley.ChoiceDeny:         "Deny",
	parley.ChoiceHappened:     "It happened",
	parley.ChoiceDidNot:       "It did not happen",
	parley.ChoiceAgain:        "Do it again",
	parley.ChoiceLeave:        "Leave it unknown",
	parley.ChoiceAnswered:     "Answer",
	parley.ChoiceClaimed:      "Claimed by a client",
	edit:                      "Allow once, with another input",
}

// Label is a choice as a person reads it.
func Label(kind parley.InteractionKind, choice string) string {
	switch {
	case kind == parley.KindConfirmation && choice == parley.ChoiceAllow:
		return "Yes, do it"
	case kind == parley.KindConfirmation && choice == parley.ChoiceDeny:
		return "No"
	case kind == parley.KindQuestion && choice == parley.ChoiceDeny:
		return "Skip it"
	case kind == parley.KindCredential && choice == parley.ChoiceAnswered:
		return "Type it; it is not shown"
	case kind == parley.KindClient && choice == parley.ChoiceDeny:
		return "Go on without it"
	}
	if w, ok := words[choice]; ok {
		return w
	}
	return oneLine(choice)
}

// Said is an answer in a line, without what is secret.
func Said(in parley.Interaction, a parley.Answer) string {
	if a.Choice == parley.ChoiceAnswered && in.Kind == parley.KindQuestion {
		var list []string
		for _, q := range in.Questions {
			list = append(list, oneLine(a.Answers[q.Question]))
		}
		return "Answered: " + strings.Join(list, "; ")
	}
	s := map[string]string{
		parley.ChoiceAllow: "Allowed once", parley.ChoiceAllowSession: "Allowed for this session", parley.ChoiceDeny: "Denied",
		parley.ChoiceHappened: "It happened", parley.ChoiceDidNot: "It did not happen", parley.ChoiceAgain: "To be done again",
		parley.ChoiceLeave: "Left unknown", parley.ChoiceAnswered: "Answered", parley.ChoiceClaimed: "Claimed by a client",
	}[a.Choice]
	switch {
	case in.Kind == parley.KindQuestion && a.Choice == parley.ChoiceDeny:
		s = "Skipped"
	case in.Kind == parley.KindClient && a.Choice == parley.ChoiceDeny:
		s = "Went on without it"
	case in.Kind == parley.KindConfirmation && a.Choice == parley.ChoiceAllow:
		s = "Confirmed"
	case in.Kind == parley.KindConfirmation && a.Choice == parley.ChoiceDeny:
		s = "Not confirmed"
	case s == "":
		s = oneLine(a.Choice)
	}
	if len(a.Input) > 0 {
		s += ", with another input"
	}
	if a.Text != "" && in.Kind != parley.KindCredential {
		s += ": " + oneLine(a.Text)
	}
	return s
}

// ChoiceOf reads a choice: its number among those offered, its name, or yes or no where
// that is clear.
func ChoiceOf(in parley.Interaction, offered []string, typed string) (string, error) {
	word := strings.ToLower(strings.TrimSpace(typed))
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(offered) {
		return offered[n-1], nil
	}
	same := map[string]string{"y": parley.ChoiceAllow, "yes": parley.ChoiceAllow, "n": parley.ChoiceDeny, "no": parley.ChoiceDeny}
	if c, ok := same[word]; ok && slices.Contains(offered, c) {
		return c, nil
	}
	for _, c := range offered {
		if word == strings.ToLower(c) || word == strings.ToLower(Label(in.Kind, c)) {
			return c, nil
		}
	}
	return "", parley.Errorf(parley.CodeInvalid, "%q is not one of the choices", parley.Cut(typed, 60)).WithHint("give a number from 1 to %d", len(offered))
}

// Pick reads the answer to one question: a label or its number, several if that is
// allowed, or other words. Text in double quotes is used as it is.
func Pick(q parley.Question, typed string) (string, error) {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		return "", parley.Errorf(parley.CodeInvalid, "the answer is empty").WithHint("give a number, or write an answer")
	}
	if n := len(typed); n > 2 && typed[0] == '"' && typed[n-1] == '"' {
		return typed[1 : n-1], nil
	}
	if said, ok, bad := one(q, typed); ok || bad != nil && !q.MultiSelect {
		return said, bad
	}
	if !q.MultiSelect {
		return typed, nil
	}
	var list []string
	var wrong error
	numbers := false
	for part := range strings.SplitSeq(typed, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		said, ok, bad := one(q, part)
		numbers = numbers || ok
		if wrong = firstOf(wrong, bad); !ok {
			said = part
		}
		if !slices.Contains(list, said) {
			list = append(list, said)
		}
	}
	if wrong != nil {
		return "", wrong
	}
	if !numbers {
		return typed, nil // a sentence with commas
	}
	return strings.Join(list, ", "), nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// one is the label that a word stands for; bad is a number that no option has.
func one(q parley.Question, word string) (label string, ok bool, bad error) {
	for _, o := range q.Options {
		if strings.EqualFold(word, o.Label) {
			return o.Label, true, nil
		}
	}
	n, err := strconv.Atoi(word)
	switch {
	case err != nil || len(q.Options) == 0:
		return "", false, nil
	case n >= 1 && n <= len(q.Options):
		return q.Options[n-1].Label, true, nil
	}
	return "", false, parley.Errorf(parley.CodeInvalid, "there is no option %d", n).
		WithHint("give a number from 1 to %d; to answer with the number itself, write it in double quotes", len(q.Options))
}

// Input reads another input of a call, which a person has written.
func Input(line string) (json.RawMessage, error) {
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "this is not a JSON object: %w", err).WithField("input").WithHint(`write it like {"name": "value"}`)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(line)); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "this is not a JSON object: %w", err).WithField("input")
	}
	return b.Bytes(), nil
}

// Given is an answer in the arguments of a command.
type Given struct {
	Args  []string // a choice, or an answer to each question
	Text  string   // told to the agent with a choice
	Input string   // JSON: the input of a call that is allowed, in place of the agent's
}

// Parse reads an answer to an interaction. Its errors are [parley.CodeInvalid],
// and their hints say what may be answered.
func Parse(in parley.Interaction, g Given) (parley.Answer, error) {
	a := parley.Answer{Text: g.Text}
	if g.Input != "" {
		raw, err := Input(g.Input)
		if err != nil {
			return a, err
		}
		a.Input = raw
	}
	choices := Choices(in)
	if in.Kind == parley.KindQuestion && slices.Contains(choices, parley.ChoiceAnswered) {
		if len(g.Args) == 1 && g.Args[0] == parley.ChoiceDeny && slices.Contains(choices, parley.ChoiceDeny) {
			a.Choice = parley.ChoiceDeny
			return a, nil
		}
		if len(g.Args) != len(in.Questions) {
			return a, parley.Errorf(parley.CodeInvalid, "there are %d answers for %d questions", len(g.Args), len(in.Questions)).WithHint("%s", Forms(in))
		}
		a.Choice, a.Answers = parley.ChoiceAnswered, map[string]string{}
		for i, q := range in.Questions {
			said, err := Pick(q, g.Args[i])
			if err != nil {
				return a, err
			}
			a.Answers[q.Question] = said
		}
		return a, nil
	}
	if len(g.Args) != 1 {
		return a, parley.Errorf(parley.CodeInvalid, "a %s takes one choice, but %d are given", in.Kind, len(g.Args)).WithHint("%s", Forms(in))
	}
	// A script must name what it allows, because a number may be another choice tomorrow.
	for _, c := range choices {
		if g.Args[0] == c {
			a.Choice = c
			return a, nil
		}
	}
	return a, parley.Errorf(parley.CodeInvalid, "%q is not a choice of this %s", parley.Cut(g.Args[0], 60), in.Kind).WithHint("%s", Forms(in))
}

// Forms says in a sentence how an interaction can be answered.
func Forms(in parley.Interaction) string {
	choices := Choices(in)
	switch answered := slices.Contains(choices, parley.ChoiceAnswered); {
	case !Knows(in.Kind):
		return fmt.Sprintf("this is a %q, which this program is too old to ask; answer with %s, and --text for words", oneLine(string(in.Kind)), orList(choices))
	case in.Kind == parley.KindCredential && answered:
		return "without CHOICE the value is asked for at a terminal and not shown; otherwise give --credential " + strings.Join(in.Credentials, " --credential ") + ", or answer with " + parley.ChoiceDeny
	case in.Kind != parley.KindQuestion || !answered:
		return "answer with " + orList(choices)
	}
	var parts []string
	for _, q := range in.Questions {
		var labels []string
		for _, o := range q.Options {
			labels = append(labels, strconv.Quote(oneLine(o.Label)))
		}
		switch {
		case len(labels) == 0:
			parts = append(parts, "any words")
		case q.MultiSelect:
			parts = append(parts, "one or more of "+strings.Join(labels, ", ")+", joined by commas, or other words")
		default:
			parts = append(parts, orList(labels)+", or other words")
		}
	}
	s := "answer with " + parts[0]
	if len(parts) > 1 {
		s = fmt.Sprintf("give %d answers, one for each question", len(parts))
		for i, p := range parts {
			s += fmt.Sprintf("; %d: %s", i+1, p)
		}
	}
	if slices.Contains(choices, parley.ChoiceDeny) {
		s += "; deny skips it"
	}
	return s
}

func orList(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}
