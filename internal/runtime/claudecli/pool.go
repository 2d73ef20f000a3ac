package claudecli

import (
	"context"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// pool holds the processes, one for each session. There are at most Options.Most. When all places
// are taken, the process that has been idle for longest ends; when none is idle, turns wait in the
// order in which they came.
type pool struct {
	rt *Runtime

	mu      sync.Mutex
	live    map[parley.SessionID]*process
	taken   int // places: processes that run, start or end
	waiting []chan struct{}
	closed  bool
}

// has returns the session's process, or nil.
func (o *pool) has(id parley.SessionID) *process {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[id]
}

// get returns a process that can serve the session. fits reports whether the one that runs can; if
// not, it is ended, and start starts another.
func (o *pool) get(ctx context.Context, id parley.SessionID, fits func(*process) bool, start func() (*process, error)) (p *process, fresh bool, err error) {
	if p := o.has(id); p != nil {
		if p.hold() && fits(p) {
			return p, false, nil
		}
		p.end()
	}
	if err := o.place(ctx); err != nil {
		return nil, false, err
	}
	if p, err = start(); err != nil {
		return nil, false, err
	}
	p.hold()
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-p.gone:
		return nil, false, errGone
	default:
	}
	if o.live == nil {
		o.live = map[parley.SessionID]*process{}
	}
	o.live[id] = p
	return p, true, nil
}

// place waits for a place for one more process.
func (o *pool) place(ctx context.Context) error {
	late := time.NewTimer(o.rt.opt.Wait)
	defer late.Stop()
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return errClosed
	}
	if o.taken < o.rt.opt.Most && len(o.waiting) == 0 {
		o.taken++
		o.mu.Unlock()
		return nil
	}
	got := make(chan struct{})
	o.waiting = append(o.waiting, got)
	o.mu.Unlock()
	o.reap()
	select {
	case <-got:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, w := range o.waiting {
		if w == got {
			o.waiting = append(o.waiting[:i:i], o.waiting[i+1:]...)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return parley.Errorf(parley.CodeBusy, "all %d Claude processes of this server are busy", o.rt.opt.Most).
				WithHint("try again in a moment; the setting claude.processes allows more").WithRetry(10 * time.Second)
		}
	}
	return nil // it came at the last moment
}

// free gives a place to who has waited longest.
func (o *pool) free() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) > 0 {
		close(o.waiting[0])
		o.waiting = o.waiting[1:]
		return
	}
	o.taken--
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
	if oldest != nil && oldest.retire(0) {
		delete(o.live, oldest.spec.session)
	} else {
		oldest = nil
	}
	o.mu.Unlock()
	if oldest != nil {
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
	waits := len(o.waiting) > 0
	o.mu.Unlock()
	if waits {
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
	o.free()
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
