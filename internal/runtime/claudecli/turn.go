package claudecli

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
)

// turn is one attempt at a turn: the CLI works, and everything that it does is journaled here.
type turn struct {
	rt    *Runtime
	h     seam.Host
	app   *parley.App
	entry parley.AgentPath
	// attempt is different in each attempt.
	attempt string
	ctx     context.Context //nolint:containedctx // the attempt's: requests of the CLI arrive outside Run's goroutine
	stop    <-chan struct{} // closed when the turn is stopped from outside
	done    chan struct{}   // closed when the attempt is over
	stays   bool            // the process stays for another turn; written before done is closed
	anew    bool            // the conversation must be a new one
	p       *process

	lines   *lines
	calls   *calls
	fails   chan error
	serving sync.WaitGroup
	making  sync.WaitGroup // calls of our tools, and questions
	// reserving is held while a model call is checked against the budgets and begun.
	reserving chan struct{}

	mu     sync.Mutex
	sent   []string // our messages to the CLI that no result has settled
	heard  int      // steering messages that were sent
	afresh bool     // the CLI's conversation does not continue what was stored
	late   map[parley.CallID]*time.Timer
	bound  *parley.BudgetReached
	over   *parley.Error                      // why the turn fails
	broke  *parley.Error                      // why the last model call failed
	again  map[parley.AgentPath][]parley.Item // replies of this turn that the CLI is to get again
	gone   map[parley.CallID]bool             // calls of the turn whose agents cannot go on; written before the CLI works
}

func (t *turn) event(path parley.AgentPath, p parley.Payload) parley.Event {
	return parley.NewEvent(t.h.Turn(), path, p)
}

// note records something that may be lost.
func (t *turn) note(path parley.AgentPath, p parley.Payload) { _ = t.h.Stage(t.event(path, p)) }

func (t *turn) publish(d parley.Delta) { t.h.Publish(d) }

// fail ends the attempt.
func (t *turn) fail(err error) {
	select {
	case t.fails <- err:
	default:
	}
}

// failed remembers why the last model call failed: the CLI's own words are for its own users.
func (t *turn) failed(err *parley.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broke = err
}

// exceeded ends the turn because a budget is reached.
func (t *turn) exceeded(b *parley.BudgetReached, err *parley.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.over, t.bound = err, b
	}
}

// run makes the attempt.
func (t *turn) run(ctx context.Context) (end seam.Ending, err error) {
	t.stop = ctx.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errGone) // what waits for a human stops when the attempt is over
	t.ctx = ctx
	s := t.h.State()
	if s.Turn == nil {
		return end, errGone
	}
	if len(s.Turn.Agents) == 0 {
		if err := t.h.Stage(t.event(t.entry, parley.AgentStarted{Name: string(t.entry)})); err != nil {
			return end, err
		}
	}
	t.entry = firstNonEmpty(s.Turn.Active, t.entry)
	if err := t.settle(ctx); err != nil {
		return end, err
	}
	if ctx.Err() != nil {
		return end, context.Cause(ctx)
	}
	if (t.app.Memory.Retrieve || len(s.Attached) > 0) && !s.Turn.Retrieved {
		found, err := t.h.Retrieve(ctx, s.Turn.Request.Message.Text())
		if err != nil {
			return end, err
		}
		if err := t.h.Stage(t.event(t.entry, found)); err != nil {
			return end, err
		}
	}
	open, err := t.open(ctx)
	if err != nil {
		return end, err
	}
	defer func() {
		t.p.detach()
		t.serving.Wait()
		t.stays = err == nil
		close(t.done)
		if err == nil {
			t.rt.pool.release(t.p)
		}
	}()
	if open.content != nil {
		if err := t.say(open.id, open.content); err != nil {
			return end, err
		}
	}
	if err := t.steer(ctx); err != nil {
		return end, err
	}
	return t.follow(ctx)
}

func firstNonEmpty[T ~string](list ...T) T {
	for _, v := range list {
		if v != "" {
			return v
		}
	}
	return ""
}

// stopWithin is how long the CLI may take to stop after an interrupt. It took 27 ms at most.
const stopWithin = 5 * time.Second

// writtenWithin is how long an interrupt waits for a change of a file that has begun.
const writtenWithin = time.Second

// follow serves the CLI until its turn ends.
func (t *turn) follow(ctx context.Context) (end seam.Ending, err error) {
	stop := t.stop
	var late <-chan time.Time
	for {
		if m, ok := t.lines.next(); ok {
			over, end, err := t.line(ctx, m)
			t.lines.handled()
			if over || err != nil {
				return end, err
			}
			continue
		}
		select {
		case <-t.lines.came:
		case err := <-t.fails:
			if t.stopped() {
				continue // what was cut off fails; the CLI itself stops in an orderly way, so that its conversation does, too
			}
			return t.soFar(), err
		case <-t.p.conn.ended:
			if len(t.lines.came) > 0 {
				continue
			}
			if ctx.Err() != nil {
				return t.soFar(), context.Cause(ctx)
			}
			return end, errGone
		case <-stop:
			stop = nil
			t.halt()
			timer := time.NewTimer(stopWithin)
			defer timer.Stop()
			late = timer.C
		case <-late:
			t.p.kill()
			return t.soFar(), context.Cause(ctx)
		case <-t.h.Commands():
			if err := t.steer(ctx); err != nil {
				return end, err
			}
		}
	}
}

// stopped reports whether the turn is stopped from outside.
func (t *turn) stopped() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}

// halt interrupts the CLI. A change of a file that has begun is over in a moment and is waited for;
// a command in a shell is cut off.
func (t *turn) halt() {
	t.rt.work.Go(func() {
		late := time.NewTimer(writtenWithin)
		defer late.Stop()
		for written := false; !written; {
			news := t.calls.change()
			if !t.writing() {
				break
			}
			select {
			case <-news:
			case <-t.p.gone:
				return
			case <-late.C:
				written = true
			}
		}
		brief, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		_, _ = t.p.conn.ask(brief, map[string]any{"subtype": "interrupt", "cancel_queued": true}) // if it fails, the process is ended
	})
}

// writing reports whether a change of a file is being made.
func (t *turn) writing() bool {
	now := t.h.State().Turn
	if now == nil {
		return false
	}
	for _, c := range now.Tools.Open() {
		if n := nativeIn(t.app, c.Name); c.Status == parley.ToolIsStarted && n != nil && n.edits {
			return true
		}
	}
	return false
}

// soFar is the answer so far.
func (t *turn) soFar() seam.Ending {
	if now := t.h.State().Turn; now != nil {
		return seam.Ending{Response: prompt.Response(now.Answered())}
	}
	return seam.Ending{}
}

// line handles a line of the CLI. over says that the turn has ended.
func (t *turn) line(ctx context.Context, m message) (over bool, end seam.Ending, err error) {
	switch m.Type {
	case "user":
		for _, b := range blocks(m.Message.Content) {
			if b.Type == "tool_result" {
				t.result(b)
			}
		}
	case "system":
		t.system(m)
	case "result":
		return t.ended(ctx, m)
	}
	return false, end, nil
}

// ended handles the end of a turn of the CLI. Ours goes on if there is more that it was told, or if
// agents still work in the background.
func (t *turn) ended(ctx context.Context, m message) (over bool, end seam.Ending, err error) {
	t.mu.Lock()
	settled := append(m.UserUUIDs, m.UserUUID)
	t.sent = slices.DeleteFunc(t.sent, func(id string) bool { return slices.Contains(settled, id) })
	aborted := strings.HasPrefix(m.TerminalReason, "aborted_")
	more := len(t.sent) > 0 || m.Queued > 0
	failed, bound, model, afresh := t.over, t.bound, t.broke, t.afresh
	t.mu.Unlock()
	if ctx.Err() != nil {
		t.lostCalls(stoppedByUser)
		return true, t.soFar(), context.Cause(ctx)
	}
	if failed != nil {
		t.search()
		end = t.soFar()
		end.Failed = failed
		if bound != nil {
			end.Events = []parley.Event{t.event(t.entry, *bound)}
		}
		return true, end, nil
	}
	if now := t.h.State().Turn; m.TerminalReason == blockingLimit && now != nil && now.Compact.Denied() {
		if !afresh {
			t.p.forget()
			return false, end, errAnew
		}
		model = noRoom(now.Compact)
	}
	if !m.IsError && !aborted && (more || t.agentsWork()) {
		return false, end, nil
	}
	t.lostCalls("the turn ended")
	switch {
	case m.IsError || aborted:
		end = t.soFar()
		end.Failed = model
		t.search()
		if end.Failed == nil {
			end.Failed = parley.Errorf(parley.CodeModel, "the Claude CLI ended the turn: %s", parley.Cut(firstNonEmpty(m.TerminalReason, m.Subtype), 100)).WithHint("send the message again")
		}
		return true, end, nil
	default:
		end.Response = t.response(m.Result)
	}
	return true, end, t.keep(ctx)
}

// response is an answer with the citations of the provider's tools.
func (t *turn) response(text string) parley.Response {
	r := prompt.Response(text)
	if now := t.h.State().Turn; now != nil {
		if a := now.Agent(t.entry); a != nil {
			r = prompt.Cited(r, a)
		}
	}
	return r
}

// agentsWork reports whether agents work in the background.
func (t *turn) agentsWork() bool {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	return slices.ContainsFunc(t.p.running(), func(j *job) bool { return j.kind == "local_agent" })
}

// leave ends the process and everything that the attempt is doing.
func (t *turn) leave() {
	if t.p != nil {
		t.p.detach()
		t.p.kill()
		t.search()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, late := range t.late {
		late.Stop()
	}
}
