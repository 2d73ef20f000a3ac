package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// twoQuestions asks two questions in one call.
var twoQuestions = inquirer{keys: []string{"a", "b"}, asks: []parley.Interaction{
	{Kind: parley.KindQuestion, Title: "A", Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny}},
	{Kind: parley.KindQuestion, Title: "B", Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny}},
}}

// inquiring lets the agents of an app ask two questions in one call, and use put without
// permission.
func inquiring(a *parley.App) {
	def := a.Agents["lead"]
	def.Tools = append(def.Tools, "inquire")
	a.Agents["lead"] = def
	decls, _ := twoQuestions.Tools(ctx)
	a.Tools = append(a.Tools, decls...)
	a.Policy.Rules = append(a.Policy.Rules, parley.Rule{Verdict: parley.Allow, Tool: "put"})
}

// inquirer gives an engine the tool that asks. It holds each put of "put held" until the gate of
// the play is open.
func (h *pairs) inquirer(o *engine.Options, service *enginetest.Service) {
	gone := make(chan struct{})
	h.gone = gone
	service.SetGate(func(ctx context.Context, c seam.Run) error {
		if c.Name != "put" || !strings.Contains(string(c.Input), "put held") {
			return nil
		}
		select {
		case <-*h.gate.Load():
			return nil
		case <-gone:
			return errors.New("the process is gone")
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	box, err := toolbox.New([]seam.Toolset{service, twoQuestions}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		h.t.Fatal(err)
	}
	o.Tools["test"] = box
}

// opens opens the gate of the play.
func (h *pairs) opens() { h.open.Do(func() { close(h.held.gate) }) }

// release opens the gate if the turn is in a put that waits for it.
func (h *pairs) release() {
	if h.inquires && inWrite(h.state().Turn) {
		h.opens()
	}
}

// answerTo is a person's answer to in. The answer to a question contains its title.
func answerTo(in parley.Interaction) parley.Answer {
	a := parley.Answer{Choice: choose(in, parley.ChoiceAllow)}
	if in.Kind == parley.KindQuestion {
		a.Choice, a.Text = parley.ChoiceAnswered, " to "+in.Title
	}
	return a
}

// each checks that no two questions of one call got the same answer.
func (h *pairs) each(log []parley.Event) {
	for _, ev := range log {
		p, err := ev.Payload()
		if p, ok := p.(parley.ToolEnded); err == nil && ok && p.Name == "inquire" && (strings.Count(p.Output, " to A") > 1 || strings.Count(p.Output, " to B") > 1) {
			h.t.Errorf("%s: two questions of a call: %s", h.what, p.Output)
		}
	}
}

// rewind goes back to the last message, or undoes the last rewind. What is open then stays open.
func (h *pairs) rewind(before parley.Session) error {
	c := parley.RewindSession{Key: fmt.Sprint("rewind ", before.Seq)}
	switch last, ok := before.LastRewind(); {
	case ok && (before.Last == nil || last.Seq > before.History[len(before.History)-1].Seq):
		c.Undo = last.Seq
	case before.Turn != nil:
		c.Turn = before.Turn.ID
	case before.Last != nil:
		c.Turn = before.Last.ID
	default:
		return nil
	}
	did, err := h.r.Engine.Rewind(ctx, enginetest.User, h.id, c)
	switch code(err) {
	case "":
		if _, err := h.r.Engine.AwaitRewind(ctx, enginetest.User, h.id, did.ID); err != nil {
			h.t.Errorf("%s: %v", h.what, err)
		}
	case parley.CodeCondensed, parley.CodeInvalid: // a direct call is no message
		return nil
	}
	return err
}

// rests checks that nothing runs after a stop until the next command.
func (h *pairs) rests() {
	h.release()
	h.reports()
	h.until("stopped", func(s parley.Session) bool { return s.Turn == nil || s.Turn.ID != h.cutTurn })
	if s := h.state(); s.Status == parley.Active {
		if _, err := h.r.Engine.Update(ctx, enginetest.User, h.id, parley.UpdateSession{Title: &h.what}); err != nil {
			h.t.Errorf("%s: %v", h.what, err)
		}
	}
	s, log := h.state(), h.r.Log(h.id)
	for _, ev := range log[h.cutAt:] {
		if ev.Type == "turn.started" {
			h.t.Errorf("%s: %s after the stop\n%s", h.what, ev.Type, enginetest.Types(log))
		}
	}
	if len(s.Queue) > 0 && !s.Held {
		h.t.Errorf("%s: the queue is not held\n%s", h.what, enginetest.Types(log))
	}
}

// unheard checks that a queued or refused message has answered no question, and has not ended a
// turn that continues automatically after a crash. before is the state before the message.
func (h *pairs) unheard(before parley.Session) {
	if before.Turn == nil {
		return
	}
	if now := h.state(); before.Turn.Status == parley.StatusWaiting && len(now.Interactions) < len(before.Interactions) {
		h.t.Errorf("%s: a message that waits or is rejected has answered", h.what)
	}
	h.goesOn(before)
}

// heard checks that a message into a waiting turn has declined its open questions, and that no
// message has ended a turn that continues automatically after a crash.
func (h *pairs) heard(before parley.Session, info parley.TurnInfo, err error) {
	if before.Turn == nil || err != nil {
		return
	}
	for _, in := range h.state().Interactions {
		if info.ID == before.Turn.ID && in.Kind != parley.KindClient && slices.ContainsFunc(before.Interactions, func(o parley.Interaction) bool { return o.ID == in.ID }) {
			h.t.Errorf("%s: a message into the turn has left a question open", h.what)
		}
	}
	h.goesOn(before)
}

// goesOn checks that no message has ended a turn that was cut off by a crash and was about to be
// resumed.
func (h *pairs) goesOn(before parley.Session) {
	if times, _ := before.Turn.InVain(); !h.late || times > 0 || before.Turn.Stop != nil {
		return
	}
	log := h.r.Log(h.id)
	for _, ev := range log {
		if ev.Turn == before.Turn.ID && ev.Type == "turn.cancelled" {
			h.t.Errorf("%s: a message has ended a turn that was about to go on\n%s", h.what, enginetest.Types(log))
		}
	}
}

// alone makes two calls without a session. One asks for permission, and nobody answers. The other
// only reads. It waits neither for the first call nor for the session of the play.
func (h *pairs) alone() {
	call := func(tool string) parley.TurnInfo {
		info, err := h.r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: h.app.Name, Name: tool, Input: []byte(`{"text":"alone"}`)})
		if err != nil {
			h.t.Fatalf("%s: a call of %s alone: %v", h.what, tool, err)
		}
		return info
	}
	asks, reads := call("mail"), call("look")
	if got, err := h.r.Engine.Await(ctx, enginetest.User, reads.ID, 20*time.Second); err != nil || got.Status != parley.StatusCompleted {
		h.t.Errorf("%s: beside a call that waits, another is %s, %v", h.what, got.Status, err)
	}
	for _, id := range []parley.SessionID{asks.SessionID, reads.SessionID} {
		if id == h.id {
			h.t.Errorf("%s: a call alone is in the session", h.what)
		}
	}
	if _, err := h.r.Engine.Cancel(ctx, enginetest.User, asks.ID, "enough"); err != nil {
		h.t.Errorf("%s: stop a call alone: %v", h.what, err)
	}
}
