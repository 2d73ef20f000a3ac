package claudecli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// idleHost is a Host whose turn has nothing open.
type idleHost struct{ seam.Host }

func (idleHost) State() *parley.Session    { return &parley.Session{} }
func (idleHost) Commands() <-chan struct{} { return nil }

// stdin takes the lines for a CLI.
type stdin struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *stdin) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *stdin) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// TestStop: a turn that is stopped while a human is asked ends when the CLI says so, not when the question
// fails, which happens at the same moment. Until then the CLI gets no answer about the call.
func TestStop(t *testing.T) {
	t.Parallel()
	errUser := errors.New("the user stopped it")
	for range 20 { // of two things that are ready, follow takes one by chance
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			in := &stdin{}
			p := &process{conn: newConn(in), gone: make(chan struct{})}
			a := &turn{
				rt: New(nil, Options{}), h: idleHost{}, app: &parley.App{}, p: p, ctx: ctx, stop: ctx.Done(), lines: newLines(), calls: newCalls(),
				fails: make(chan error, 1), done: make(chan struct{}),
			}
			asked, withdraw := context.WithCancel(t.Context())
			told := make(chan struct{})
			go func() {
				<-ctx.Done()
				_ = a.undecided(asked, context.Cause(ctx)) // what waited for the answer has noticed the stop first
			}()
			go func() {
				<-ctx.Done()
				a.withhold(asked)
				close(told)
			}()
			ended := make(chan error, 1)
			cancel(errUser)
			a.fail(errUser)
			go func() {
				_, err := a.follow(ctx)
				ended <- err
			}()
			synctest.Wait()
			select {
			case err := <-ended:
				t.Fatal("it ended before the CLI has stopped:", err)
			case <-told:
				t.Fatal("the CLI would be told something of the call")
			default:
			}
			var asks struct {
				Request struct{ Subtype string }
			}
			if err := json.Unmarshal([]byte(in.String()), &asks); err != nil || asks.Request.Subtype != "interrupt" {
				t.Fatalf("the CLI got %q", in.String())
			}
			withdraw()
			a.take(message{Type: "result", Subtype: "error_during_execution", IsError: true, TerminalReason: "aborted_tools"})
			if err := <-ended; !errors.Is(err, errUser) {
				t.Error(err)
			}
			<-told
			close(p.conn.ended)
			a.rt.work.Wait()
		})
	}
}
