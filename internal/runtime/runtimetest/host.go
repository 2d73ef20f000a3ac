package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// ErrCrashed is what every method of a Host returns once it has crashed.
var ErrCrashed = errors.New("the host has crashed")

// Host is a [seam.Host] in memory that keeps to the letter of its promises, and
// fails the test when a runtime does not keep to its own. NewHost begins a turn,
// Restart goes on with the log of another host.
type Host struct {
	tb    testing.TB
	world *World
	app   *parley.App
	turn  parley.TurnID
	start time.Time

	mu        sync.Mutex
	log       []parley.Event // committed
	staged    []parley.Event
	state     parley.Session // with what is staged
	commits   int
	ends      []int // the length of the log after each commit
	calls     int
	crashAt   int // the commit that crashes; 0: none
	landed    bool
	dead      bool
	published map[parley.CallID]string
	commands  chan struct{}
}

// NewHost returns a host whose turn has just been staged. Events before the turn
// are the session's past; none means a session that is just created.
func NewHost(tb testing.TB, w *World, app *parley.App, req parley.TurnRequest, past ...parley.Event) *Host {
	h := newHost(tb, w, app)
	if past == nil {
		past = []parley.Event{parley.NewEvent("", "", parley.SessionCreated{
			App: app.Name, User: "local", Memory: app.Memory, Budgets: app.Budgets, Busy: app.Busy, MaxOpenTurns: 1,
		})}
	}
	for _, e := range past {
		h.stage(e)
	}
	h.log, h.staged = h.staged, nil
	first := []parley.Event{parley.NewEvent(h.turn, "", parley.TurnStarted{TurnRequest: req})}
	if req.Call != nil {
		first = append(first, parley.NewEvent(h.turn, "", parley.ToolRequested{Call: req.Call.Call, Name: req.Call.Name, Input: req.Call.Input}))
	}
	for _, e := range first {
		h.stage(e)
	}
	return h
}

func newHost(tb testing.TB, w *World, app *parley.App) *Host {
	return &Host{
		tb: tb, world: w, app: app, turn: "turn", published: map[parley.CallID]string{}, commands: make(chan struct{}, 1),
		start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// CrashAt makes the n-th commit from now crash the host: before it, or, when
// landed, after it took place and before anybody learns of it.
func (h *Host) CrashAt(n int, landed bool) { h.crashAt, h.landed = h.commits+n, landed }

// Log is what is committed.
func (h *Host) Log() []parley.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]parley.Event(nil), h.log...)
}

// Commits counts the appends so far.
func (h *Host) Commits() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commits
}

// Published is the text that was shown of a call.
func (h *Host) Published(call parley.CallID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.published[call]
}

// Steer appends a message from the user in between, as the engine does on a
// steer.
func (h *Host) Steer(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stage(parley.NewEvent(h.turn, "", parley.TurnSteered{Message: parley.Text(parley.RoleUser, text)}))
	h.must(h.commit())
	h.signal()
}

// State implements [seam.Host].
func (h *Host) State() parley.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.Clone()
}

// App implements [seam.Host].
func (h *Host) App() *parley.App { return h.app }

// Turn implements [seam.Host].
func (h *Host) Turn() parley.TurnID { return h.turn }

// Now implements [seam.Host]. Time passes by one second an event.
func (h *Host) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now()
}

func (h *Host) now() time.Time { return h.start.Add(time.Duration(h.state.Seq) * time.Second) }

// NewCall implements [seam.Host]. Ids are not used again after a crash.
func (h *Host) NewCall() parley.CallID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return parley.CallID(fmt.Sprintf("call-%d-%d", len(h.log), h.calls))
}

// Commands implements [seam.Host].
func (h *Host) Commands() <-chan struct{} { return h.commands }

// signal says that a command has changed the state.
func (h *Host) signal() {
	select {
	case h.commands <- struct{}{}:
	default:
	}
}

// Emit implements [seam.Host].
func (h *Host) Emit(ctx context.Context, events ...parley.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.take(events); err != nil {
		return err
	}
	return h.commit()
}

// Stage implements [seam.Host].
func (h *Host) Stage(events ...parley.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.take(events)
}

// Publish implements [seam.Host].
func (h *Host) Publish(d parley.Delta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dead && !h.isOpen(d.Call) {
		h.tb.Errorf("a delta of call %s was shown before its model.started was committed", d.Call)
	}
	if d.Session != h.state.ID || d.Turn != h.turn || d.Agent == "" {
		h.tb.Errorf("the delta %+v does not say where it belongs", d)
	}
	if d.Kind == parley.DeltaText {
		h.published[d.Call] += d.Text
	}
}

// isOpen reports whether the model call is committed and has no end.
func (h *Host) isOpen(call parley.CallID) bool {
	open := false
	for _, e := range h.log {
		switch p := payload(h.tb, e).(type) {
		case parley.ModelStarted:
			open = open || p.Call == call
		case parley.ModelReplied:
			open = open && p.Call != call
		case parley.ModelFailed:
			open = open && p.Call != call
		}
	}
	return open
}

// take stages what a runtime may append.
func (h *Host) take(events []parley.Event) error {
	if h.dead {
		return ErrCrashed
	}
	for _, e := range events {
		p := payload(h.tb, e)
		switch p.(type) {
		case parley.ModelStarted, parley.ModelReplied, parley.ModelFailed, parley.AgentStarted, parley.AgentHandoff,
			parley.AgentEnded, parley.ContextCompacted, parley.ContextTransferred, parley.BudgetReached:
		default:
			return parley.Errorf(parley.CodeForbidden, "a runtime cannot append %s", e.Type)
		}
		if e.Turn != h.turn {
			return parley.Errorf(parley.CodeInvalid, "%s of turn %q in turn %q", e.Type, e.Turn, h.turn)
		}
		h.stage(e)
		if r, ok := p.(parley.ModelReplied); ok {
			for _, part := range r.Parts {
				if part.Type == parley.PartToolCall {
					h.stage(parley.NewEvent(h.turn, e.Agent, parley.ToolRequested{Call: part.Call, Name: part.Name, Input: part.Input}))
				}
			}
		}
	}
	return nil
}

// stage numbers an event and folds it. It goes through JSON, as the log does, so
// that the state is the same live as after a restart.
func (h *Host) stage(e parley.Event) {
	e.Session, e.Seq, e.Time = "session", h.state.Seq+1, h.now()
	e = e.WithData(e.Data)
	h.must(h.state.Apply(e))
	h.staged = append(h.staged, e)
}

func (h *Host) commit() error {
	if h.dead {
		return ErrCrashed
	}
	if len(h.staged) == 0 {
		return nil
	}
	h.commits++
	crash := h.crashAt == h.commits
	if !crash || h.landed {
		h.log = append(h.log, h.staged...)
		h.ends = append(h.ends, len(h.log))
	}
	h.staged = nil
	if crash {
		h.dead = true
		return ErrCrashed
	}
	return nil
}

func (h *Host) must(err error) {
	if err != nil && !errors.Is(err, ErrCrashed) {
		h.tb.Errorf("the host's own event: %v", err)
	}
}

func payload(tb testing.TB, e parley.Event) parley.Payload {
	p, err := e.Payload()
	if err != nil {
		tb.Errorf("event %d %s: %v", e.Seq, e.Type, err)
	}
	return p
}

var _ seam.Host = (*Host)(nil)

// Open implements seam.Host: this world has no artifacts.
func (h *Host) Open(_ context.Context, id parley.ArtifactID) (seam.File, error) {
	return seam.File{}, parley.Errorf(parley.CodeNotFound, "there is no artifact %q", id)
}

// Retrieve implements seam.Host: this world has nothing to look up.
func (h *Host) Retrieve(context.Context, string) ([]parley.Snippet, error) { return nil, nil }
