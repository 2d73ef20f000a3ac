package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

// Answer answers an open interaction; the first answer wins, and the turn goes
// on. The same answer again by the same user returns what it did the first
// time; another is a conflict. Whether it comes in time is decided here, by the
// clock, and not by whether a timer has fired: too late, the interaction is
// closed and the answer refused.
func (e *Engine) Answer(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.AnswerInteraction) (seam.InteractionRow, error) {
	row, err := e.Interaction(ctx, p, id)
	if err != nil {
		return row, err
	}
	s, err := e.acquire(ctx, p, row.Session)
	if err != nil {
		return row, err
	}
	defer s.release()
	at := slices.IndexFunc(s.view.Interactions, func(in parley.Interaction) bool { return in.ID == id })
	if at < 0 {
		row, err = e.Interaction(ctx, p, id)
		if err != nil || row.Answer != nil && row.AnsweredBy == p.User && e.sameAnswer(*row.Answer, c.Answer) {
			return row, err
		}
		what := "has expired"
		if row.Answer != nil {
			what = "was answered by " + row.AnsweredBy + " with " + row.Answer.Choice
		}
		return row, parley.Errorf(parley.CodeConflict, "interaction %s %s", id, what).WithHint("the first answer counts")
	}
	if _, err := e.appOf(s.view.App); err != nil {
		return row, err // who answered now would end a turn that can not go on
	}
	in := s.view.Interactions[at]
	if over, err := s.expire(ctx, in); err != nil {
		return row, err
	} else if over {
		return row, parley.Errorf(parley.CodeConflict, "interaction %s expired at %s", id, in.ExpiresAt.Format(time.RFC3339)).
			WithHint("the turn went on without an answer; send a message to ask again")
	}
	if len(in.Choices) > 0 && !slices.Contains(in.Choices, c.Choice) {
		return row, parley.Errorf(parley.CodeInvalid, "choice is %q", c.Choice).WithField("choice").WithHint("one of %v", in.Choices)
	}
	if err := checkAnswers(in, c.Answer); err != nil {
		return row, err
	}
	events, err := s.answering(p, in, c)
	if err != nil {
		return row, err
	}
	if err := s.commit(ctx, events...); err != nil {
		return row, err
	}
	s.logged("go on after an answer", s.goOn())
	return e.Interaction(ctx, p, id)
}

// maxRules bounds what is granted for a session. The oldest goes first: then it
// is asked for again.
const maxRules = 100

// checkAnswers wants an answer to each question, and to none that was not asked.
func checkAnswers(in parley.Interaction, a parley.Answer) error {
	if utf8.RuneCountInString(a.Text) > parley.MaxAnswer {
		return tooLong("text", parley.MaxAnswer, "characters")
	}
	if in.Kind != parley.KindQuestion || a.Choice != parley.ChoiceAnswered {
		if len(a.Answers) > 0 {
			return parley.Errorf(parley.CodeInvalid, "answers are given with %q", a.Choice).WithField("answers").
				WithHint("they belong to the choice %q of a question", parley.ChoiceAnswered)
		}
		return nil
	}
	for _, q := range in.Questions {
		switch said := a.Answers[q.Question]; {
		case strings.TrimSpace(said) == "":
			return parley.Errorf(parley.CodeInvalid, "there is no answer to %q", q.Question).WithField("answers").
				WithHint("answers holds a text for each question, by the question's own text: a label, or other words")
		case utf8.RuneCountInString(said) > parley.MaxAnswer:
			return tooLong("answers", parley.MaxAnswer, "characters each")
		}
	}
	if len(a.Answers) > len(in.Questions) {
		return parley.Errorf(parley.CodeInvalid, "answers has %d entries for %d questions", len(a.Answers), len(in.Questions)).WithField("answers")
	}
	return nil
}

// sameAnswer reports whether given, now, is what was kept of an answer.
func (e *Engine) sameAnswer(kept, given parley.Answer) bool {
	ev := e.o.Log.Redact(parley.NewEvent("", "", parley.InteractionAnswered{Answer: given})).Events()[0]
	p, err := ev.Payload()
	if err != nil {
		return false
	}
	again, ok := p.(parley.InteractionAnswered)
	return ok && reflect.DeepEqual(kept, again.Answer)
}

// answering is the events of an answer: the answer, the rule that it grants, or
// the call that it asks to make again.
func (s *session) answering(p parley.Principal, in parley.Interaction, c parley.AnswerInteraction) ([]parley.Event, error) {
	if len(c.Input) > 0 {
		if c.Choice != parley.ChoiceAllow && c.Choice != parley.ChoiceAllowSession {
			return nil, parley.Errorf(parley.CodeInvalid, "input is given with %q", c.Choice).WithField("input").WithHint("edit the input only of a call that you allow")
		}
		// What was taken out of what a person saw is not to be put in its place.
		if asked := s.view.Turn.Tool(in.Call); s.e.o.RunRedacted == nil && asked != nil && asked.Redacted && holdsMark(c.Input) {
			return nil, parley.Errorf(parley.CodeInvalid, "the input has %s where a secret was taken out", eventlog.Mark).WithField("input").
				WithHint("write what belongs there, or allow the call as it is: it is made with what was taken out")
		}
		// What was edited is judged like what was asked.
		if bad := s.e.o.Tools[s.view.App].Check(in.Tool, c.Input); bad != nil {
			return nil, bad.WithField("input")
		}
	}
	events := []parley.Event{parley.NewEvent(in.Turn, in.Agent, parley.InteractionAnswered{
		ID: in.ID, Answer: c.Answer, By: p.User, Client: c.Client, Redacted: s.e.o.RunRedacted != nil && len(c.Input) > 0 && holdsMark(c.Input),
	})}
	switch {
	case in.Kind == parley.KindPermission && c.Choice == parley.ChoiceAllowSession:
		box := s.e.o.Tools[s.view.App]
		decl, there := box.Decl(in.Tool)
		if !there {
			break // the call will end so; a rule for no tool would be one for all
		}
		w := wishOf(box, decl, "", in.Input)
		w.Reaches = in.Reaches // as it was shown
		if len(c.Input) > 0 {  // what is allowed is what runs
			w = wishOf(box, decl, "", c.Input)
		}
		if rule, ok := granting(w, p.User); ok {
			old := s.view.Rules
			rules := append(slices.Clone(old[max(0, len(old)-maxRules+1):]), rule)
			events = append(events, parley.NewEvent("", "", parley.SessionUpdated{Rules: &rules, By: p.User}))
		}
	case in.Kind == parley.KindUnknown && c.Choice == parley.ChoiceAgain:
		if old := s.view.Turn.Tool(in.Call); old != nil {
			again := parley.ToolRequested{Call: parley.CallID(s.e.newID()), Name: old.Name, Input: old.Input, Redacted: old.Redacted, Redo: old.Call}
			if old.Redacted {
				now := s.e.now()
				s.e.inputs.put(heldInput{
					inputKey: inputKey{call: again.Call}, owner: s.view.Principal(), session: s.id, turn: in.Turn,
					body: s.e.inputs.get(s.id, keyOf(old), now), since: now,
				})
			}
			events = append(events, parley.NewEvent(in.Turn, in.Agent, again))
		}
	}
	return events, nil
}

// holdsMark reports whether a secret was taken out of a JSON value, or it reads so,
// however it is spelt.
func holdsMark(raw json.RawMessage) bool {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return bytes.Contains(raw, []byte(eventlog.Mark))
	}
	plain, err := json.Marshal(v)
	return err != nil || bytes.Contains(plain, []byte(eventlog.Mark))
}
