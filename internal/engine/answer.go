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

// Answer answers an open interaction, and the turn continues. The first answer wins: the
// same answer again by the same user returns the same result, a different one is a
// conflict. Whether an answer is in time is decided here, by the clock, not by whether a
// timer has fired. If it is too late, the interaction is closed and the answer is
// refused.
func (e *Engine) Answer(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.AnswerInteraction) (seam.InteractionRow, error) {
	if err := c.Credentials.Check(); err != nil {
		return seam.InteractionRow{}, err
	}
	row, err := e.Interaction(ctx, p, id)
	if err != nil {
		return row, err
	}
	s, err := e.ready(ctx, p, row.Session)
	if err != nil {
		return row, err
	}
	defer s.release()
	at := slices.IndexFunc(s.view.Interactions, func(in parley.Interaction) bool { return in.ID == id })
	if at < 0 {
		row, err = e.Interaction(ctx, p, id)
		if err != nil {
			return row, err
		}
		if row.Answer != nil && row.AnsweredBy == p.User && e.sameAnswer(row.Session, *row.Answer, c.Answer) {
			return row, s.resupply(ctx, p, row.Turn, c.Credentials, c.Client)
		}
		what := "has expired"
		if row.Answer != nil {
			what = "was answered by " + row.AnsweredBy + " with " + row.Answer.Choice
		}
		return row, parley.Errorf(parley.CodeConflict, "interaction %s %s", id, what).WithHint("the first answer counts")
	}
	if _, err := e.appOf(s.view.App); err != nil {
		return row, err // an answer now would end a turn that cannot go on
	}
	in := s.view.Interactions[at]
	if over, err := s.expire(ctx, in); err != nil {
		return row, err
	} else if over {
		return row, parley.Errorf(parley.CodeConflict, "interaction %s expired at %s", id, in.ExpiresAt.Format(time.RFC3339)).
			WithHint("the turn went on without an answer; send a message to ask again")
	}
	if len(in.Choices) > 0 && !slices.Contains(in.Choices, c.Choice) {
		return row, parley.Errorf(parley.CodeInvalid, "%q is no choice of this %s", c.Choice, in.Kind).WithField("choice").
			WithHint("the choices are %s", strings.Join(in.Choices, ", "))
	}
	if err := checkAnswers(in, c.Answer); err != nil {
		return row, err
	}
	// Put the credentials first, so that they are redacted from the answer too.
	back, err := e.credentials.put(s.view.Principal(), s.id, in.Turn, c.Credentials, e.now())
	if err != nil {
		return row, err
	}
	events, err := s.answering(p, in, c)
	if err == nil {
		err = s.commit(ctx, append(events, s.satisfied(p, c.Client, in.ID)...)...)
	}
	if err != nil {
		if s.doubt == nil {
			back()
		}
		return row, err
	}
	s.logged("go on after an answer", s.goOn())
	return e.Interaction(ctx, p, id)
}

// maxRules limits the rules granted for a session. Beyond it the oldest rule is dropped,
// and its calls are asked for again.
const maxRules = 100

// checkAnswers checks that each question has an answer, and that there are no other
// answers.
func checkAnswers(in parley.Interaction, a parley.Answer) error {
	if utf8.RuneCountInString(a.Text) > parley.MaxAnswer {
		return tooLong("text", parley.MaxAnswer, "characters")
	}
	if in.Kind == parley.KindCredential && a.Choice == parley.ChoiceAnswered && a.Text != "" {
		return parley.Errorf(parley.CodeInvalid, "text must be empty, because it would be stored").WithField("text").
			WithHint("send the values in credentials, by name")
	}
	if in.Kind != parley.KindQuestion || a.Choice != parley.ChoiceAnswered {
		if len(a.Answers) > 0 {
			return parley.Errorf(parley.CodeInvalid, "answers are set, but the choice is %q", a.Choice).WithField("answers").
				WithHint("answers belong to the choice %q of a question", parley.ChoiceAnswered)
		}
		return nil
	}
	for _, q := range in.Questions {
		switch said := a.Answers[q.Question]; {
		case strings.TrimSpace(said) == "":
			return parley.Errorf(parley.CodeInvalid, "there is no answer to %q", q.Question).WithField("answers").
				WithHint("answers maps the text of each question to the chosen label or to free text")
		case utf8.RuneCountInString(said) > parley.MaxAnswer:
			return tooLong("answers", parley.MaxAnswer, "characters each")
		}
	}
	if len(a.Answers) > len(in.Questions) {
		return parley.Errorf(parley.CodeInvalid, "answers has %d entries for %d questions", len(a.Answers), len(in.Questions)).WithField("answers")
	}
	return nil
}

// sameAnswer reports whether given equals the answer that was kept.
func (e *Engine) sameAnswer(id parley.SessionID, kept, given parley.Answer) bool {
	said := parley.NewEvent("", "", parley.InteractionAnswered{Answer: given})
	said.Session = id
	ev := e.o.Log.Redact(said).Events()[0]
	p, err := ev.Payload()
	if err != nil {
		return false
	}
	again, ok := p.(parley.InteractionAnswered)
	return ok && reflect.DeepEqual(kept, again.Answer)
}

// answering returns the events of an answer: the answer itself, the rule it grants, and
// the call it asks to repeat.
func (s *session) answering(p parley.Principal, in parley.Interaction, c parley.AnswerInteraction) ([]parley.Event, error) {
	if in.Kind == parley.KindCredential && c.Choice == parley.ChoiceAnswered && s.e.o.HasCredential == nil {
		for _, name := range in.Credentials {
			if _, ok := s.e.credentials.get(s.id, in.Turn, name); !ok {
				return nil, parley.Errorf(parley.CodeInvalid, "the credential %s has no value", name).WithField("credentials").
					WithHint(`send {"choice": %q, "credentials": {%q: "..."}}`, parley.ChoiceAnswered, name)
			}
		}
	}
	if len(c.Input) > 0 {
		if in.Kind == parley.KindConfirmation {
			return nil, parley.Errorf(parley.CodeInvalid, "input must be empty: a confirmation is for the call as it is").WithField("input").
				WithHint("choose %q and say in text what should be different", parley.ChoiceDeny)
		}
		if c.Choice != parley.ChoiceAllow && c.Choice != parley.ChoiceAllowSession {
			return nil, parley.Errorf(parley.CodeInvalid, "input is set, but the choice is %q", c.Choice).WithField("input").WithHint("input may be edited only when the call is allowed")
		}
		// The placeholder of a removed secret must not become part of an input.
		if asked := s.view.Turn.Tool(in.Call); s.e.o.RunRedacted == nil && asked != nil && asked.Redacted && holdsMark(c.Input) {
			return nil, parley.Errorf(parley.CodeInvalid, "the input contains %s in place of a secret that was removed", eventlog.Mark).WithField("input").
				WithHint("write the real value there, or allow the call unchanged: it then runs with the secret")
		}
		// An edited input is checked like a requested one.
		_, ofRuntime := s.declOf(in.Tool)
		if bad := s.box().Check(in.Tool, c.Input); bad != nil && !ofRuntime {
			return nil, bad.WithField("input")
		}
	}
	events := []parley.Event{parley.NewEvent(in.Turn, in.Agent, parley.InteractionAnswered{
		ID: in.ID, Answer: c.Answer, By: p.User, Client: c.Client, Redacted: s.e.o.RunRedacted != nil && len(c.Input) > 0 && holdsMark(c.Input),
	})}
	switch {
	case in.Kind == parley.KindPermission && c.Choice == parley.ChoiceAllowSession:
		box := s.box()
		decl, there := box.Decl(in.Tool)
		if d, ofRuntime := s.declOf(in.Tool); ofRuntime {
			decl, there = d, true
		}
		if !there {
			break // the call will be refused; a rule without a tool would apply to all tools
		}
		w := wishOf(box, decl, "", s.inside(decl, in.Input))
		w.Reaches = in.Reaches // as it was shown to the person
		if len(c.Input) > 0 {  // the rule covers what actually runs
			w = wishOf(box, decl, "", s.inside(decl, c.Input))
		}
		if rule, ok := granting(w, p.User); ok {
			events = append(events, s.ruled(p, rule))
		}
	case in.Sampling != "" && c.Choice == parley.ChoiceAnswered && sampled(in, c.Answer) == parley.SamplingSession && !s.view.MayStillSample(in.Sampling):
		events = append(events, s.ruled(p, parley.Rule{Verdict: parley.Allow, Tool: parley.SamplingRule(in.Sampling), Reason: "allowed for this session by " + p.User}))
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

// ruled adds a rule to those granted for the session.
func (s *session) ruled(p parley.Principal, rule parley.Rule) parley.Event {
	old := s.view.Rules
	rules := append(slices.Clone(old[max(0, len(old)-maxRules+1):]), rule)
	return parley.NewEvent("", "", parley.SessionUpdated{Rules: &rules, By: p.User})
}

// declOf is the tool of that name of the session's app, if the runtime runs it.
func (s *session) declOf(name string) (parley.ToolDecl, bool) {
	var app *parley.App
	switch {
	case s.run != nil:
		app = s.run.app
	case s.tools != nil:
		app = s.tools.App()
	default:
		now, ok := s.e.scopes.App(s.view.App)
		if !ok {
			return parley.ToolDecl{}, false
		}
		app = now.App()
	}
	if d := runtimeTool(app, name); d != nil {
		return *d, true
	}
	return parley.ToolDecl{}, false
}

// holdsMark reports whether a JSON value contains the placeholder of a removed secret,
// however it is escaped.
func holdsMark(raw json.RawMessage) bool {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return bytes.Contains(raw, []byte(eventlog.Mark))
	}
	plain, err := json.Marshal(v)
	return err != nil || bytes.Contains(plain, []byte(eventlog.Mark))
}
