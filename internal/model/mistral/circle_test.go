package mistral_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/mistral"
)

// circling is the model behind the three agents of circleApp.
func circling(_ context.Context, r seam.Request) (seam.Reply, error) {
	last := r.Messages[len(r.Messages)-1]
	hand := func(to string, parts ...parley.Part) (seam.Reply, error) {
		return seam.Reply{Parts: append(parts, parley.Part{Type: parley.PartHandoff, Name: to, Text: "because"})}, nil
	}
	switch {
	case r.Agent == "finder" && last.Role == parley.RoleTool:
		return hand("judge")
	case r.Agent == "finder":
		look := func(what string) parley.Part { return call("", "", "look", `{"text":"`+what+`"}`) }
		if strings.Contains(r.Messages[0].Text(), "hasty") {
			return hand("judge", look("hasty"))
		}
		return seam.Reply{Parts: []parley.Part{text("I look."), look("one"), look("two")}}, nil
	case r.Agent == "judge":
		return hand("front", text("It is so. "))
	case strings.Contains(last.Text(), "easy"), strings.Contains(last.Text(), "[handed over by judge]"):
		return seam.Reply{Parts: []parley.Part{text("Answer " + last.Parts[0].Text)}}, nil
	}
	return hand("finder")
}

// ring is the three agents of circleApp in a whole engine.
type ring struct {
	t    *testing.T
	rig  *enginetest.Rig
	sim  *sim.Server
	from int // requests already compared
	seen *seen
}

func newRing(t *testing.T, o sim.Options, change ...func(*parley.App)) *ring {
	t.Helper()
	asked := &seen{}
	o.Brain = brain(func(ctx context.Context, r seam.Request) (seam.Reply, error) {
		asked.note(r)
		return circling(ctx, r)
	})
	s, c := serve(t, o)
	app := enginetest.App(func(a *parley.App) {
		tools := a.Tools
		*a = parley.App{
			Name: "circle", Title: "Circle", Runtime: "loop", Entry: "front", Agents: circleApp().Agents, Tools: tools[:1], Budgets: a.Budgets, Policy: a.Policy,
			Busy: parley.BusySteer, MaxOpenTurns: 1, Resume: a.Resume, Model: hostedInfo.Name,
		}
	})
	for _, f := range change {
		f(&app)
	}
	m := host(t, c, &app, t.TempDir())
	rig := enginetest.New(t, enginetest.Echo, app, func(e *engine.Options) {
		e.Models, e.Runtimes = one{m}, map[string]seam.Runtime{"loop": loop.New(one{m}, loop.Options{})}
	})
	t.Cleanup(rig.Close)
	if err := m.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &ring{t: t, rig: rig, sim: s, from: len(s.Requests()), seen: asked}
}

// session creates a session.
func (r *ring) session() parley.SessionID {
	return r.rig.Session(func(c *parley.CreateSession) { c.App = "circle" }).ID
}

// say sends a message, waits for its turn, and compares the requests that the provider got.
func (r *ring) say(id parley.SessionID, message string, want ...string) parley.TurnInfo {
	r.t.Helper()
	turn := r.rig.Await(r.rig.Send(id, message).ID)
	if turn.Status != parley.StatusCompleted {
		r.t.Errorf("%s: the turn is %s: %+v", message, turn.Status, turn.Error)
	}
	all := asked(r.sim)
	if diff := cmp.Diff(want, all[r.from:]); diff != "" {
		r.t.Errorf("%s: requests (-want +got):\n%s", message, diff)
	}
	r.from = len(all)
	return turn
}

const (
	start   = "start agent message.input"
	results = "append function.result function.result"
	message = "append message.input"
	goOn    = "append"
)

// again is a start that repeats the turns before it.
const again = "start agent message.input message.output message.input"

// round returns the requests of a circle that begins in an existing conversation. The agent
// that sees no history has its own conversation.
func round(first string, turns int) []string {
	last := start
	for range turns - 1 {
		last += " message.output message.input"
	}
	return []string{first, start, results, goOn, last + " message.input"}
}

func TestCircle(t *testing.T) {
	t.Parallel()
	r := newRing(t, sim.Options{})
	id := r.session()
	// One conversation goes through all three agents, as long as none of them has an earlier
	// turn.
	r.say(id, "What is it?", start, goOn, results, goOn, goOn)
	r.say(id, "easy: why?", message)
	// An agent that sees no history does not get the conversation with the history. The agent
	// that sees the whole history gets it again.
	r.say(id, "And then?", round(message, 3)...)
	for _, q := range r.seen.all() {
		if first := q.Messages[0].Parts[0].Text; q.Agent != "front" && strings.Contains(fmt.Sprint(q.Messages), "And then?") != (first == "And then?") {
			t.Errorf("%s was shown %+v", q.Agent, q.Messages)
		}
	}
	if n := r.sim.Conversations(); n != 3 {
		t.Errorf("%d conversations", n)
	}
}

// TestCircle_calls_before_a_handoff: Mistral drops calls before a handoff without a result. The
// next agent gets their results as text.
func TestCircle_calls_before_a_handoff(t *testing.T) {
	t.Parallel()
	r := newRing(t, sim.Options{})
	r.say(r.session(), "hasty: what is it?", start, goOn, message, goOn)
	for _, q := range r.seen.all() {
		if q.Agent == "judge" && !strings.Contains(q.Messages[len(q.Messages)-1].Text(), "[result of look {\"text\":\"hasty\"}]\nseen hasty") {
			t.Errorf("the judge was shown %+v", q.Messages)
		}
	}
}

func TestCircle_a_message_in_between(t *testing.T) {
	t.Parallel()
	r := newRing(t, sim.Options{})
	id := r.session()
	var once sync.Once // two calls run at once
	r.rig.Service.SetGate(func(context.Context, seam.Run) error {
		once.Do(func() {
			if _, err := r.rig.Engine.Send(context.Background(), enginetest.User, id, parley.Send{Message: "hurry"}); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	turn := r.rig.Send(id, "What is it?")
	if got := r.rig.Await(turn.ID); got.Status != parley.StatusCompleted {
		t.Fatalf("the turn is %s: %+v", got.Status, got.Error)
	}
	// The receiving agent does not see it as a separate question.
	for _, q := range r.seen.all() {
		if first := q.Messages[0].Parts[0].Text; first != "What is it?" {
			t.Errorf("%s was shown %+v", q.Agent, q.Messages)
		}
	}
	// The provider requires an assistant message between results and a user message.
	if got := asked(r.sim)[r.from:]; !slices.Contains(got, results+" message.output message.input") {
		t.Errorf("requests: %q", got)
	}
}

func TestCircle_begins_anew(t *testing.T) {
	t.Parallel()
	first := []string{start, goOn, results, goOn, goOn}
	for name, c := range map[string]struct {
		between func(t *testing.T, r *ring, id parley.SessionID) parley.SessionID
		want    []string
	}{
		"a lost conversation": {func(_ *testing.T, r *ring, id parley.SessionID) parley.SessionID {
			r.sim.Forget()
			return id
		}, []string{message, again}},
		"a fork": {func(t *testing.T, r *ring, id parley.SessionID) parley.SessionID {
			f, err := r.rig.Engine.Fork(t.Context(), enginetest.User, id, parley.ForkSession{})
			if err != nil {
				t.Fatal(err)
			}
			return f.ID
		}, []string{again}},
		"a stream that was cut after the message was stored": {func(_ *testing.T, r *ring, id parley.SessionID) parley.SessionID {
			r.sim.Fail(sim.Fault{Path: "/v1/conversations", After: 2, Cut: true})
			return id
		}, []string{message, again}},
		"too much at once": {func(_ *testing.T, r *ring, id parley.SessionID) parley.SessionID {
			r.sim.Fail(sim.Fault{Path: "/v1/conversations", Status: 429})
			return id
		}, []string{message, again}},
		"an agent that somebody deleted": {func(_ *testing.T, r *ring, id parley.SessionID) parley.SessionID {
			for id := range r.sim.Agents() {
				r.sim.DropAgent(id)
			}
			r.sim.Forget()
			return id
		}, []string{
			message, again, "GET", "POST /v1/agents", "POST /v1/agents", "POST /v1/agents", "PATCH", "PATCH", "PATCH", again,
		}},
		"nothing at all": {func(_ *testing.T, _ *ring, id parley.SessionID) parley.SessionID { return id }, []string{message}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, sim.Options{})
			id := r.session()
			r.say(id, "What is it?", first...)
			id = c.between(t, r, id)
			turn := r.rig.Await(r.rig.Send(id, "easy: why?").ID)
			if turn.Status != parley.StatusCompleted || turn.Response.Message != "Answer easy: why?" {
				t.Errorf("the turn is %s: %+v %+v", turn.Status, turn.Response, turn.Error)
			}
			got := asked(r.sim)[r.from:]
			for i, line := range got {
				if strings.Contains(line, "ag_") {
					got[i], _, _ = strings.Cut(line, " ")
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			// Each message was shown once, in every case.
			all := r.seen.all()
			said := 0
			for _, m := range all[len(all)-1].Messages {
				said += strings.Count(m.Text(), "easy: why?")
			}
			if said != 1 {
				t.Errorf("the last request shows the question %d times: %+v", said, all[len(all)-1].Messages)
			}
		})
	}
}

// TestCircle_learns: after one append that did not help, the client does not try it again.
func TestCircle_learns(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]sim.Options{"refused": {StrictHandoffs: true}, "another answers": {SameAgent: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, o)
			r.say(r.session(), "What is it?", start, goOn, start, results, start, start+" message.input")
			r.say(r.session(), "What is it?", start, start, results, start, start+" message.input")
		})
	}
}

// TestHosted_without_its_agent: a request that a stored agent cannot express is sent without
// the agent.
func TestHosted_without_its_agent(t *testing.T) {
	t.Parallel()
	r := newRing(t, sim.Options{}, func(a *parley.App) { a.Budgets.MaxDepth = 0 })
	id := r.rig.Session(func(c *parley.CreateSession) {
		c.App, c.Preferences = "circle", map[string]any{"tone": "brief"}
	}).ID
	r.say(id, "easy: one", "start message.input")
	r.say(id, "easy: two", message)
	all := r.seen.all()
	if q := all[len(all)-1]; !strings.Contains(q.System, `{"tone":"brief"}`) || len(q.Handoffs) != 1 || q.MaxTokens != 8192 {
		t.Errorf("the model was asked %+v", q)
	}
}
