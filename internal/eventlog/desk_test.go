package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// desk is one session with its writer. It writes like an engine, but decides nothing.
type desk struct {
	t     testing.TB
	w     *eventlog.Writer
	r     *eventlog.Reader
	store *mem.Store
	id    parley.SessionID
	seq   int64
}

const turn = parley.TurnID("turn-1")

func newDesk(t testing.TB, o eventlog.Options, secrets ...string) *desk {
	t.Helper()
	d := &desk{t: t, store: mem.New()}
	d.w, d.r = eventlog.New(d.store, redact.New(secrets...), o)
	t.Cleanup(func() {
		if err := d.w.Close(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
	})
	d.open("s1")
	return d
}

// another returns a desk of another session of the same log.
func (d *desk) another(id parley.SessionID) *desk {
	e := &desk{t: d.t, store: d.store, w: d.w, r: d.r}
	e.open(id)
	return e
}

func (d *desk) open(id parley.SessionID) {
	d.t.Helper()
	d.id = id
	b := d.batch(parley.NewEvent("", "", parley.SessionCreated{App: "chaos", User: "local"}))
	b.Create, b.Owner = true, "node"
	b.Index.Session = &parley.SessionInfo{ID: id, App: "chaos", User: "local", Status: parley.Active}
	d.send(b)
}

func (d *desk) batch(events ...parley.Event) seam.Batch {
	b := seam.Batch{Session: d.id, Epoch: 1, After: d.seq}
	for i, e := range events {
		e.Session, e.Seq = d.id, d.seq+1+int64(i)
		e.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		b.Events = append(b.Events, e)
	}
	return b
}

func (d *desk) send(b seam.Batch) []parley.Event {
	d.t.Helper()
	clean := d.w.Redact(b.Events...)
	if err := d.w.Append(context.Background(), parley.Local, b, clean); err != nil {
		d.t.Errorf("Append: %v", err)
		return nil
	}
	d.seq += int64(len(b.Events))
	return clean.Events()
}

// try appends events and returns the error, if any.
func (d *desk) try(ctx context.Context, events ...parley.Event) error {
	b := d.batch(events...)
	return d.w.Append(ctx, parley.Local, b, d.w.Redact(b.Events...))
}

func (d *desk) append(events ...parley.Event) []parley.Event {
	d.t.Helper()
	return d.send(d.batch(events...))
}

func started(call parley.CallID) parley.Event {
	return parley.NewEvent(turn, "lead", parley.ModelStarted{Call: call, Model: "m"})
}

func replied(call parley.CallID, text string) parley.Event {
	return parley.NewEvent(turn, "lead", parley.ModelReplied{Call: call, Model: "m", Parts: parley.Text("", text).Parts})
}

func failed(call parley.CallID, partial string) parley.Event {
	return parley.NewEvent(turn, "lead", parley.ModelFailed{Call: call, Partial: partial})
}

func steered(text string) parley.Event {
	return parley.NewEvent(turn, "", parley.TurnSteered{Message: parley.Text(parley.RoleUser, text)})
}

func (d *desk) say(call parley.CallID, text string) {
	d.w.Publish(parley.Delta{Session: d.id, Turn: turn, Agent: "lead", Call: call, Text: text})
}

// told is a frame as readable text.
func told(f eventlog.Frame) string {
	switch {
	case f.Event != nil:
		return fmt.Sprintf("%d %s", f.Event.Seq, f.Event.Type)
	case f.Reset != nil:
		return fmt.Sprintf("reset %d", f.Reset.After)
	}
	name := "delta"
	if f.Partial {
		name = "partial"
	}
	if f.Delta.Kind != "" {
		name += " " + string(f.Delta.Kind)
	}
	return fmt.Sprintf("%s %s n=%d %q", name, f.Delta.Call, f.Delta.N, f.Delta.Text)
}

// tap follows a session in a goroutine that the test waits for.
type tap struct {
	t      testing.TB
	frames chan eventlog.Frame
	err    chan error
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func (d *desk) follow(after int64) *tap {
	ctx, stop := context.WithCancel(context.Background())
	tp := &tap{t: d.t, frames: make(chan eventlog.Frame), err: make(chan error, 1), stop: stop}
	tp.done.Go(func() {
		defer close(tp.frames)
		for f, err := range d.r.Follow(ctx, parley.Local, d.id, after) {
			if err != nil {
				tp.err <- err
				return
			}
			select {
			case tp.frames <- f:
			case <-ctx.Done():
			}
		}
	})
	d.t.Cleanup(func() { stop(); tp.done.Wait() })
	return tp
}

// until reads frames until one begins like want, and returns the frames read.
func (tp *tap) until(want string) []string {
	tp.t.Helper()
	var got []string
	for {
		select {
		case f, ok := <-tp.frames:
			if !ok {
				tp.t.Fatalf("the follow ended with %v; got %q", <-tp.err, got)
			}
			if got = append(got, told(f)); strings.HasPrefix(got[len(got)-1], want) {
				return got
			}
		case <-time.After(time.Minute):
			tp.t.Fatalf("no frame %q; got %q", want, got)
		}
	}
}

// collect reads frames until event seq.
func (tp *tap) collect(seq int64) []eventlog.Frame {
	tp.t.Helper()
	var got []eventlog.Frame
	for f := range tp.frames {
		if got = append(got, f); f.Event != nil && f.Event.Seq == seq {
			return got
		}
	}
	tp.t.Fatalf("the follow ended with %v", <-tp.err)
	return nil
}
