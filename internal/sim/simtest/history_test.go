package simtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/simtest"
	"github.com/parley-server/parley/internal/store/mem"
)

// acts has the actions that a model may take in one call.
var acts = []string{
	"text", "text", "unicode", "nothing", "blank", "thinks", "thinks and looks", "looks", "looks twice", "puts and mails", "mails and the answer is lost",
	"hands over", "hands over with words", "hands over and looks", "pauses", "pauses in silence", "is cut for length", "refuses", "calls what is not there",
	"calls with bad input",
}

// actor is the brain behind all servers. It acts as planned, in order, and then says
// that it is done.
type actor struct {
	mu     sync.Mutex
	plan   []string
	n      int
	paused chan chan struct{} // gets, at each pause, a channel to close to go on
}

func (a *actor) set(plan []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan = plan
}

func (a *actor) next() (act string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	if len(a.plan) == 0 {
		return "", a.n
	}
	act, a.plan = a.plan[0], a.plan[1:]
	return act, a.n
}

func (*actor) Info() seam.ModelInfo { return simtest.Brain(nil).Info() }

func (a *actor) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		act, n := "memory", 0
		if strings.HasPrefix(r.System, "You are ") {
			act, n = a.next()
		}
		parts, stop, err := a.do(ctx, r, act, n)
		for _, p := range parts {
			d := seam.ModelDelta{}
			switch p.Type {
			case parley.PartText:
				d.Text = p.Text
			case parley.PartThinking:
				d.Thinking = p.Text
			}
			if d != (seam.ModelDelta{}) && !yield(d, nil) {
				return
			}
		}
		if strings.HasPrefix(act, "pauses") {
			goOn := make(chan struct{}) // an abandoned call may still be waiting
			select {
			case a.paused <- goOn:
			case <-ctx.Done():
				return
			}
			select {
			case <-goOn:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		yield(seam.ModelDelta{Reply: &seam.Reply{Model: r.Model, Parts: parts, StopReason: stop, Usage: parley.Usage{InputTokens: 10, OutputTokens: 5}}}, nil)
	}
}

func (a *actor) do(_ context.Context, r seam.Request, act string, n int) (parts []parley.Part, stop string, err error) {
	say := func(text string) { parts = append(parts, parley.Part{Type: parley.PartText, Text: text}) }
	think := func() {
		parts = append(parts, parley.Part{Type: parley.PartThinking, Text: fmt.Sprint("I think, ", n)})
	}
	call := func(name, text string) {
		if len(r.Tools) > 0 {
			parts = append(parts, enginetest.Call(name, map[string]string{"text": text}))
		}
	}
	hand := func() {
		if len(r.Handoffs) > 0 {
			parts = append(parts, parley.Part{Type: parley.PartHandoff, Name: r.Handoffs[0].Agent, Text: fmt.Sprint("because of ", n)})
		}
	}
	stop = "end_turn"
	switch act {
	case "memory":
		say("SUMMARY\nThey talked.\n\nFACTS\n- something")
	case "text", "pauses":
		say(fmt.Sprint("I say ", n, "."))
	case "unicode":
		say("Grüße, 世界 👩‍👩‍👧 \u0000\u200b \"quotes\" <tags> \\ \t end")
	case "nothing", "pauses in silence":
	case "blank":
		say(" \n")
	case "thinks":
		think()
		say("So it is.")
	case "thinks and looks":
		think()
		call("look", "thought")
	case "looks":
		say("Let me look.")
		call("look", fmt.Sprint("at ", n))
	case "looks twice":
		call("look", "one")
		call("look", "")
	case "puts and mails":
		call("put", "a letter")
		call("mail", "a letter")
	case "mails and the answer is lost":
		say("I mail it.")
		call("mail", "lost")
	case "hands over":
		hand()
	case "hands over with words":
		say("This is for another. ")
		hand()
	case "hands over and looks":
		call("look", "before")
		hand()
	case "is cut for length":
		say("This is too lo")
		stop = "max_tokens"
	case "refuses":
		err = parley.Errorf(parley.CodeForbidden, "no more")
	case "calls what is not there":
		call("fly", "away")
	case "calls with bad input":
		if len(r.Tools) > 0 {
			parts = append(parts, parley.Part{Type: parley.PartToolCall, Name: "look", Input: json.RawMessage(`{"what":[1,{"a":null}]}`)})
		}
	default:
		say("Done.")
	}
	if stop == "end_turn" && len(parts) > 0 && (parts[len(parts)-1].Type == parley.PartToolCall || parts[len(parts)-1].Type == parley.PartHandoff) {
		stop = "tool_use"
	}
	return parts, stop, err
}

// noted is a model that keeps its requests.
type noted struct {
	seam.Model
	note func(seam.Request)
}

func (n noted) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	n.note(r)
	return n.Model.Stream(ctx, r)
}

// catcher records the request of an adapter, and fails the connection.
type catcher struct{ body []byte }

func (c *catcher) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		c.body = body
	}
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader("{}")), Request: r,
	}, nil
}

// circle is an app of two agents that hand over to each other; one of them thinks and knows the
// session.
func circle() parley.App {
	return enginetest.App(func(a *parley.App) {
		tools := []string{"look", "put", "mail"}
		a.Agents = map[string]parley.AgentDef{
			"lead":   {Name: "lead", Prompt: "You are the lead.", Tools: tools, Handoffs: []string{"helper"}, Effort: "medium"},
			"helper": {Name: "helper", Prompt: "You are the helper.", Tools: tools, Handoffs: []string{"lead"}, History: parley.HistoryNone},
		}
		a.Entry, a.Busy = "lead", parley.BusyReject
	})
}

// step is a turn: the answering model, its actions, what happens at its first pause, and the
// person's answer about a call with an unknown outcome.
type step struct {
	provider int
	plan     []string
	then     string
	told     string
}

// pauses has the events that may happen while a model pauses.
var pauses = []string{"go on", "cancel", "steer", "interrupt", "crash"}

// failing is a testing.T or a rapid.T.
type failing interface {
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// stage has the servers of all providers, with one brain.
type stage struct {
	t     *testing.T
	brain *actor
	rows  []simtest.Provider
	sims  []*simtest.Server
}

func newStage(t *testing.T) *stage {
	st := &stage{t: t, brain: &actor{paused: make(chan chan struct{})}, rows: simtest.Providers()}
	for _, p := range st.rows {
		st.sims = append(st.sims, p.Start(t, st.brain, nil))
	}
	return st
}

// session plays one session, and checks its log and each request of the loop. It returns
// the number of events of each type.
func (st *stage) session(ft failing, memory parley.MemoryOptions, steps []step) map[parley.EventType]int {
	app := circle()
	app.Memory, app.Model = memory, nameOf(st.rows[0], &app)
	var mu sync.Mutex
	var asked []seam.Request
	models := several{}
	for i, p := range st.rows {
		models[nameOf(p, &app)] = noted{adapted(st.t, p, st.sims[i].URL, &app, nil), func(r seam.Request) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r)
		}}
	}
	service := &enginetest.Service{Gate: func(_ context.Context, r seam.Run) error {
		if bytes.Contains(r.Input, []byte("lost")) {
			return errors.New("the connection broke")
		}
		return nil
	}}
	begin := func(store seam.Store) *enginetest.Rig {
		return enginetest.Over(st.t, store, service, enginetest.Echo, app, func(e *engine.Options) {
			e.Models, e.Runtimes = models, map[string]seam.Runtime{"loop": loop.New(models, loop.Options{})}
		})
	}
	w := &world{t: ft, rig: begin(mem.New()), brain: st.brain, begin: begin}
	defer func() { w.rig.Close() }()
	w.id = w.rig.Session().ID
	for n, s := range steps {
		st.brain.set(s.plan)
		w.play(parley.Send{Message: fmt.Sprint("Question ", n), Model: nameOf(st.rows[s.provider], &app)}, s)
	}
	log := w.rig.Log(w.id)
	if err := enginetest.CheckLog(log); err != nil {
		ft.Errorf("the log: %v", err)
	}
	seen := map[parley.EventType]int{}
	for _, e := range log {
		seen[e.Type]++
		pay, err := e.Payload()
		if err != nil {
			ft.Fatalf("%v", err)
		}
		expected := []parley.Code{parley.CodeForbidden, parley.CodeCancelled, "interrupted"}
		if f, ok := pay.(parley.ModelFailed); ok && !slices.Contains(expected, f.Error.Code) && !strings.Contains(f.Error.Message, "cut off") {
			ft.Errorf("event %d: a provider refused what it was sent: %+v", e.Seq, f.Error)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, p := range st.rows {
		if !p.Hosted { // the provider keeps the history and has checked it
			st.written(ft, p, &app, asked)
		}
	}
	return seen
}

// written writes requests with a provider's adapter and checks them against the
// provider's rules.
func (st *stage) written(ft failing, p simtest.Provider, app *parley.App, asked []seam.Request) {
	c := &catcher{}
	m := adapted(st.t, p, "http://provider.invalid", app, &http.Client{Transport: c})
	for _, r := range asked {
		if r.Model != nameOf(p, app) {
			r.Model, r.State = nameOf(p, app), nil
		}
		c.body = nil
		for range m.Stream(context.Background(), r) { //nolint:revive // only the request counts
		}
		if c.body == nil {
			ft.Errorf("%s could not write %+v", p.Name, r)
		} else if err := p.Validate(c.body); err != nil {
			ft.Errorf("%s would refuse it: %v\n%s", p.Name, err, c.body)
		}
	}
}

// TestHistories: whatever a session has been through, and whichever providers answered in it,
// each request of the loop is valid for its provider and would be for every other. A random
// session is played on the real engine over real sockets; each request is also written for every
// other provider and checked against its rules.
func TestHistories(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	one := rapid.Custom(func(rt *rapid.T) step {
		return step{
			provider: rapid.IntRange(0, len(st.rows)-1).Draw(rt, "provider"),
			plan:     rapid.SliceOfN(rapid.SampledFrom(acts), 0, 5).Draw(rt, "plan"),
			then:     rapid.SampledFrom(pauses).Draw(rt, "at a pause"),
			told:     rapid.SampledFrom([]string{parley.ChoiceLeave, parley.ChoiceHappened}).Draw(rt, "what became of it"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		memory := rapid.SampledFrom([]parley.MemoryOptions{{}, {HistoryTokens: 60}, {LastK: 2, SummaryTokens: 200}}).Draw(rt, "memory")
		st.session(rt, memory, rapid.SliceOfN(one, 1, 5).Draw(rt, "turns"))
	})
}

// TestHistories_everything: each action and each event happens to each provider once.
func TestHistories_everything(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	seen := map[parley.EventType]int{}
	for i := range st.rows {
		var steps []step
		for _, act := range acts {
			steps = append(steps, step{provider: i, plan: []string{act, "pauses", "looks"}, then: pauses[len(steps)%len(pauses)], told: parley.ChoiceLeave})
			if len(steps)%5 == 0 { // and back to it
				steps = append(steps, step{provider: (i + len(steps)) % len(st.rows), told: parley.ChoiceLeave})
			}
		}
		for kind, n := range st.session(t, parley.MemoryOptions{LastK: 4, SummaryTokens: 200}, steps) {
			seen[kind] += n
		}
		for kind, n := range st.session(t, parley.MemoryOptions{HistoryTokens: 200}, steps[:8]) {
			seen[kind] += n
		}
	}
	for _, kind := range []parley.EventType{
		"turn.cancelled", "turn.failed", "turn.steered", "turn.resumed", "agent.handoff", "context.transferred", "context.compacted", "memory.updated", "interaction.answered",
	} {
		if seen[kind] == 0 {
			t.Errorf("no session had %s; they had %v", kind, seen)
		}
	}
}

// world is one session and its engine. A crash replaces the engine.
type world struct {
	t     failing
	rig   *enginetest.Rig
	brain *actor
	id    parley.SessionID
	begin func(seam.Store) *enginetest.Rig
}

// play sends a message and follows its turns to their ends. At a pause of the model
// something happens, and unknown outcomes are left open or answered.
func (w *world) play(c parley.Send, s step) {
	turn, then := w.send(c), s.then
	for {
		info, over := w.await(&turn, &then)
		switch {
		case !over: // the engine was replaced
		case info.Status == parley.StatusWaiting:
			for _, in := range info.Interactions {
				if _, err := w.rig.Engine.Answer(context.Background(), enginetest.User, in, parley.AnswerInteraction{Answer: parley.Answer{Choice: s.told}}); err != nil {
					w.t.Fatalf("answer: %v", err)
				}
			}
		case info.Status == parley.StatusInterrupted:
			if _, err := w.rig.Engine.Resume(context.Background(), enginetest.User, info.ID); err != nil {
				w.t.Fatalf("resume: %v", err)
			}
		case !info.Status.Ended():
			w.t.Fatalf("turn %s is %s: %+v", info.ID, info.Status, info.Error)
		case info.ID == turn.ID:
			return
		}
	}
}

// await waits until the turn ends, waits or is interrupted. After a crash, over is
// false.
func (w *world) await(turn *parley.TurnInfo, then *string) (info parley.TurnInfo, over bool) {
	ended := make(chan parley.TurnInfo, 1)
	engine, id := w.rig.Engine, turn.ID
	go func() {
		info, err := engine.Await(context.Background(), enginetest.User, id, time.Minute)
		if err != nil {
			info.Error = &parley.ErrorInfo{Message: err.Error()}
		}
		ended <- info
	}()
	for {
		select {
		case info := <-ended:
			return info, true
		case goOn := <-w.brain.paused:
			happens := *then
			*then = "go on"
			switch happens {
			case "crash":
				w.crash()
				return info, false
			case "cancel":
				if _, err := engine.Cancel(context.Background(), enginetest.User, turn.ID, "enough"); err != nil {
					w.t.Fatalf("cancel: %v", err)
				}
				continue
			case "interrupt":
				*turn = w.send(parley.Send{Message: "No, rather this", Busy: parley.BusyInterrupt})
				continue
			case "steer":
				w.send(parley.Send{Message: "And quickly", Busy: parley.BusySteer})
			}
			close(goOn)
		}
	}
}

// crash ends the engine as the end of its process would, and starts another one on what
// was stored by then.
func (w *world) crash() {
	disk := w.rig.Mem.Clone()
	w.rig.Kill()
	w.rig = w.begin(disk)
	over, err := w.rig.Engine.Recover(context.Background())
	if err != nil {
		w.t.Fatalf("recover: %v", err)
	}
	<-over
}

func (w *world) send(c parley.Send) parley.TurnInfo {
	info, err := w.rig.Engine.Send(context.Background(), enginetest.User, w.id, c)
	if err != nil {
		w.t.Fatalf("send %q: %v", c.Message, err)
	}
	return info
}
