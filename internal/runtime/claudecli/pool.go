package claudecli

import (
	"context"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
)

// pool holds the processes, one for each session. There are at most Options.Most. When there are as many,
// the one that has been idle for longest ends; when none is idle, turns wait. The next one is of the
// user with the fewest processes, so that nobody's many sessions hold up the others.
type pool struct {
	rt    *Runtime
	slots fair.Turns

	mu     sync.Mutex
	live   map[parley.SessionID]*process
	taken  int // processes that run, start or end
	wanted int // taken, and turns that wait for one
	closed bool
}

// has returns the session's process, or nil.
func (o *pool) has(id parley.SessionID) *process {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[id]
}

// get returns a process that can serve the session. fits reports whether the one that runs can; if
// not, it is ended, and start starts another.
func (o *pool) get(ctx context.Context, id parley.SessionID, who parley.Principal, fits func(*process) bool, start func(leave func()) (*process, error)) (p *process, fresh bool, err error) {
	if p := o.has(id); p != nil {
		if p.hold() && fits(p) {
			return p, false, nil
		}
		p.end()
	}
	leave, err := o.enter(ctx, who)
	if err != nil {
		return nil, false, err
	}
	if p, err = start(leave); err != nil {
		return nil, false, err
	}
	p.hold()
	if err := o.add(p); err != nil {
		p.end()
		return nil, false, err
	}
	return p, true, nil
}

// add remembers a process that has started, unless it has ended or all are to end.
func (o *pool) add(p *process) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-p.gone:
		return errGone
	default:
	}
	if o.closed { // while it started
		return errClosed
	}
	if o.live == nil {
		o.live = map[parley.SessionID]*process{}
	}
	o.live[p.spec.session] = p
	return nil
}

// enter waits until the user may have one more process. leave says that it has ended.
func (o *pool) enter(ctx context.Context, who parley.Principal) (leave func(), err error) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil, errClosed
	}
	o.wanted++
	full := o.wanted > o.rt.opt.Most
	o.mu.Unlock()
	if full {
		o.reap()
	}
	waits, cancel := context.WithTimeout(ctx, o.rt.opt.Wait)
	defer cancel()
	free, err := o.slots.Enter(waits, who)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.taken++
		return sync.OnceFunc(func() {
			o.mu.Lock()
			o.wanted--
			o.taken--
			o.mu.Unlock()
			free()
		}), nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = parley.Errorf(parley.CodeBusy, "all %d Claude processes of this server are busy", o.rt.opt.Most).
			WithHint("try again in a moment; the setting claude.processes allows more").WithRetry(10 * time.Second)
	}
	o.wanted--
	return nil, err
}

// reap ends the process that has been idle for longest, if any is idle.
func (o *pool) reap() {
	o.mu.Lock()
	var oldest *process
	for _, p := range o.live {
		if p.isIdle() && (oldest == nil || p.since().Before(oldest.since())) {
			oldest = p
		}
	}
	retired := oldest != nil && oldest.retire(0)
	o.mu.Unlock()
	if retired { // it stays in live until it has ended: its session's files are its own until then
		o.rt.work.Go(oldest.end)
	}
}

// hold reserves the process for a turn. It returns false if the process is ending.
func (p *process) hold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return false
	}
	p.held = true
	if p.idle != nil {
		p.idle.Stop()
	}
	return true
}

// retire reserves the process for its end, unless it is in use. Background work that no turn has
// followed for longer than most does not count; 0: it always counts.
func (p *process) retire(most time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held || p.turn != nil || p.begun || p.ending || len(p.running()) > 0 && (most == 0 || time.Since(p.used) < most) {
		return false
	}
	p.ending, p.retired = true, true
	return true
}

func (p *process) since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// release says that a turn is done with its process. It ends after a while without another.
func (o *pool) release(p *process) {
	p.mu.Lock()
	p.used, p.held = time.Now(), false
	if p.idle != nil {
		p.idle.Stop()
	}
	idle := o.rt.opt.Idle
	if p.forgets {
		idle = 0
	}
	p.idle = time.AfterFunc(idle, func() { o.expire(p) })
	p.mu.Unlock()
	o.mu.Lock()
	full := o.wanted > o.rt.opt.Most
	o.mu.Unlock()
	if full {
		o.reap()
	}
}

// longestBackground is how long background work keeps a process without any turn.
const longestBackground = 12

// expire ends a process that has been idle for long enough.
func (o *pool) expire(p *process) {
	if !p.retire(longestBackground * o.rt.opt.Idle) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.held && !p.ending {
			p.idle = time.AfterFunc(o.rt.opt.Idle, func() { o.expire(p) })
		}
		return
	}
	p.end()
}

// ended forgets a process that has ended.
func (o *pool) ended(p *process) {
	o.mu.Lock()
	if o.live[p.spec.session] == p {
		delete(o.live, p.spec.session)
	}
	o.mu.Unlock()
	p.leave()
}

// close ends all processes.
func (o *pool) close() {
	o.mu.Lock()
	o.closed = true
	live := o.live
	o.live = nil
	o.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range live {
		all.Go(p.end)
	}
	all.Wait()
}

var errClosed = parley.Errorf(parley.CodeUnavailable, "the server is shutting down").WithHint("try again in a moment").WithRetry(2 * time.Second)

// Processes is how many CLIs run, start or end now.
func (rt *Runtime) Processes() int {
	rt.pool.mu.Lock()
	defer rt.pool.mu.Unlock()
	return rt.pool.taken
}
