package engine

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
)

// In the middle of a call, a tool's server may ask for a reply of the app's model. A human is
// asked first, by a question that has everything the model would read. Then the runtime makes the
// model call, as it makes those of its agents. What is shown, what the model reads and what the
// log has are the same, so a secret of this server that the other one sends is in none of them.

const (
	// maxSampling limits what a server asks of a model, in bytes: a person has to read it.
	maxSampling = 32 << 10
	// maxSampled limits the reply, in tokens. A longer one is cut off, and the server is told so.
	maxSampled          = 4096
	maxSamplingMessages = 100
	maxSamplingHints    = 10
)

// sample implements Sample of [seam.Run]. turn is the context of the turn, with which no model
// call goes on, while a call with effects does.
func (a *asking) sample(ctx, turn context.Context, sample seam.Sampler, q parley.Sampling) (parley.Sampled, error) {
	q.Call = a.d.Call.Call
	q, err := a.h.presentable(q)
	if err != nil {
		return parley.Sampled{}, err
	}
	s := a.h.State()
	if s.Turn == nil {
		return parley.Sampled{}, errNotHere
	}
	if got, ok := s.Turn.SampledFor(q.Call, q.Key); ok {
		return got, nil
	}
	if !s.MayStillSample(q.Server) {
		if !policy.Attended(a.h.r.app, s.Turn.Request) {
			return parley.Sampled{}, parley.Errorf(parley.CodeForbidden, "there is nobody to ask whether it may have a reply of the model")
		}
		in := samplingQuestion(a.d.Call.Name, q)
		answer, err := a.ask(ctx, in)
		if err != nil {
			return parley.Sampled{}, err
		}
		if said := sampled(in, answer); said != parley.SamplingOnce && said != parley.SamplingSession {
			return parley.Sampled{}, parley.Errorf(parley.CodeForbidden, "%s", sentence("the user did not allow it", strings.TrimSpace(answer.Text+" "+said)))
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(turn, func() { cancel(context.Cause(turn)) })()
	return sample(ctx, a.d.Call, q)
}

// presentable checks what a server asks, and takes out secrets and what nobody would see.
func (h *host) presentable(q parley.Sampling) (parley.Sampling, error) {
	size, err := len(q.System)+len(q.Server)+len(q.Key), error(nil)
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			size += len(p.Text)
			if p.Type != parley.PartText {
				err = parley.Errorf(parley.CodeInvalid, "a message has a part that is not text")
			}
		}
		if strings.TrimSpace(m.Text()) == "" || m.Role != parley.RoleUser && m.Role != parley.RoleAssistant {
			err = parley.Errorf(parley.CodeInvalid, "a message has no text, or is neither of the user nor of the assistant")
		}
	}
	for _, hint := range q.Hints {
		size += len(hint)
	}
	switch {
	case err != nil:
		return q, err
	case q.Key == "" || q.Server == "":
		return q, parley.Errorf(parley.CodeInternal, "a request for the model has no key or no server")
	case len(q.Messages) == 0 || len(q.Messages) > maxSamplingMessages || q.Messages[0].Role != parley.RoleUser || q.Messages[len(q.Messages)-1].Role != parley.RoleUser:
		return q, parley.Errorf(parley.CodeInvalid, "there have to be from 1 to %d messages, the first and the last of them of the user", maxSamplingMessages)
	case size > maxSampling:
		return q, parley.Errorf(parley.CodeTooLarge, "the instructions and messages have %d bytes, and may have %d", size, maxSampling)
	case q.MaxTokens <= 0:
		return q, parley.Errorf(parley.CodeInvalid, "the reply may have %d tokens, and needs at least 1", q.MaxTokens)
	}
	q.MaxTokens = min(q.MaxTokens, maxSampled)
	q.Hints = q.Hints[:min(len(q.Hints), maxSamplingHints)]
	clean := func(text string) string {
		text = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\t' || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				return r
			}
			return -1
		}, strings.ToValidUTF8(text, "\ufffd"))
		text, _ = h.s.e.o.Log.RedactTextOf(h.s.id, text)
		return text
	}
	q.System = clean(q.System)
	messages := make([]parley.Message, len(q.Messages))
	for i, m := range q.Messages {
		messages[i] = parley.Text(m.Role, clean(m.Text()))
	}
	q.Messages = messages
	return q, nil
}

// samplingQuestion asks a human whether a server may have a reply of the model.
func samplingQuestion(tool string, q parley.Sampling) parley.Interaction {
	var b strings.Builder
	fmt.Fprintf(&b, "To go on with %s, the server %s wants the app's model to reply to what follows. It is sent to the model and counts like a step of this turn. "+
		"The reply, of at most %d tokens, goes to the server %s.\n", tool, q.Server, q.MaxTokens, q.Server)
	quoted := func(title, text string) {
		b.WriteString("\n" + title + ":\n")
		for line := range strings.Lines(text) {
			b.WriteString("> " + line)
		}
		if !strings.HasSuffix(text, "\n") {
			b.WriteString("\n")
		}
	}
	if q.System != "" {
		quoted("Instructions", q.System)
	}
	for _, m := range q.Messages {
		title := "As the user"
		if m.Role == parley.RoleAssistant {
			title = "As the model, earlier"
		}
		quoted(title, m.Text())
	}
	return parley.Interaction{
		Kind: parley.KindQuestion, Key: q.Key, Sampling: q.Server, Title: fmt.Sprintf("%s asks for a reply from the model", q.Server), Text: b.String(),
		Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny},
		Questions: []parley.Question{{Header: "Allow", Question: fmt.Sprintf("May %s have the model's reply?", q.Server), Options: []parley.Option{
			{Label: parley.SamplingOnce, Description: "only to what is above"},
			{Label: parley.SamplingSession, Description: "also to what it asks later, which you will not be shown first"},
		}}},
	}
}

// sampled is what a human said to such a question; "" if they declined.
func sampled(in parley.Interaction, answer parley.Answer) string {
	if answer.Choice != parley.ChoiceAnswered || len(in.Questions) == 0 {
		return ""
	}
	return answer.Answers[in.Questions[0].Question]
}
