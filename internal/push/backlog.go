package push

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// maxBacklog is how many KiB all that waits for a user's devices may take, or was given up: half of
	// what the store keeps of one kind, so that there is room for what is new. Each device has the same
	// share of it.
	maxBacklog = 2 << 10
	// trimEvery is after how many messages that had to wait a device's share is looked at.
	trimEvery = 256
	// tellEvery is how often it is said that messages were dropped because there was no room.
	tellEvery = time.Minute
)

// waiter is a device for which messages wait.
type waiter struct {
	of parley.Principal
	id parley.DeviceID
}

// putOff counts a message of a device that was put off. It reports whether it is time to look at the
// device's share.
func (s *sending) putOff(id parley.DeviceID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == nil {
		s.off = map[parley.DeviceID]int{}
	}
	s.off[id]++
	if s.off[id] < trimEvery {
		return false
	}
	delete(s.off, id)
	return true
}

// passOver returns the device that a row is for if that is busy, as the row's id says, without
// reading the row: a thousand of them may be in front of what can be sent.
func (s *sending) passOver(of parley.Principal, r seam.Row) parley.DeviceID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to := parley.DeviceID(r.ID[strings.LastIndexByte(r.ID, '-')+1:]); s.busy[to] && s.users[of] > 0 {
		return to
	}
	return ""
}

// passedOver looks at the shares of devices that are slow, where more waits than the last time.
func (p *Push) passedOver(ctx context.Context, passed map[waiter]int) error {
	before := p.sends.passed
	p.sends.passed = passed
	for w, n := range passed {
		if n < before[w]+trimEvery {
			passed[w] = min(n, before[w])
			continue
		}
		if err := p.trim(ctx, w.of, w.id); err != nil {
			return err
		}
	}
	return nil
}

// trim drops the oldest messages of a device that takes more than its share of its user's outbox:
// first what was given up. Otherwise a device that never answers would leave no room for what the
// user's others are to be told.
func (p *Push) trim(ctx context.Context, of parley.Principal, id parley.DeviceID) error {
	all, err := p.store.Rows(ctx, parley.System(), seam.RowQuery{Kind: seam.RowOutbox, User: of.User, Org: of.Org, Limit: -1})
	if err != nil {
		return err
	}
	type waiting struct {
		seam.Row
		at time.Time
	}
	var its []waiting
	held := 0
	for _, r := range all {
		var n notice
		if strings.HasPrefix(r.ID, rowPrefix) && json.Unmarshal(r.Body, &n) == nil && n.Device == id {
			its, held = append(its, waiting{r, n.At}), held+kib(r)
		}
	}
	slices.SortStableFunc(its, func(a, b waiting) int {
		if a.Open != b.Open {
			if a.Open {
				return 1
			}
			return -1
		}
		return a.at.Compare(b.at)
	})
	share, dropped := maxBacklog/max(len(p.Devices(of)), 1), 0
	for _, r := range its {
		if held <= share {
			break
		}
		if err := p.drop(ctx, r.Row); err != nil {
			return err
		}
		held, dropped = held-kib(r.Row), dropped+1
	}
	if dropped > 0 {
		p.dropped(ctx, waiter{of, id}, dropped, fmt.Sprintf("too much was waiting: the oldest %d messages were dropped", dropped))
	}
	return nil
}

// noRoom are the rows of an append for which there was no room.
type noRoom struct {
	of    parley.Principal
	mu    sync.Mutex
	names map[string]bool
}

func (f *noRoom) left(n seam.RowName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names[n.ID] = true
}

// full notes what was dropped because the outbox of its owner is full. It is told later: an append does not wait for it.
func (p *Push) full(f *noRoom) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &p.sends
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range f.names {
		if s.lost == nil {
			s.lost = map[waiter]int{}
		}
		s.lost[waiter{f.of, parley.DeviceID(name[strings.LastIndexByte(name, '-')+1:])}]++
	}
}

// tell says what was dropped since the last time, once in a while.
func (p *Push) tell(ctx context.Context, now time.Time) {
	s := &p.sends
	s.mu.Lock()
	if len(s.lost) == 0 || now.Before(s.tell) {
		if len(s.lost) > 0 {
			s.at(s.tell)
		}
		s.mu.Unlock()
		return
	}
	lost := s.lost
	s.lost, s.tell = nil, now.Add(tellEvery)
	s.mu.Unlock()
	for w, n := range lost {
		p.dropped(ctx, w, n, fmt.Sprintf("the outbox is full: %d messages were dropped", n))
	}
}

// dropped says that messages to a device were dropped.
func (p *Push) dropped(ctx context.Context, w waiter, n int, text string) {
	p.o.Logger.WarnContext(ctx, "messages to a device were dropped", "device", w.id, "messages", n)
	if p.o.Dropped != nil {
		p.o.Dropped(n)
	}
	p.note(ctx, w.of, w.id, func(d *device) { d.Dropped, d.LastError = d.Dropped+n, text })
}

// kib is what a row counts in the store.
func kib(r seam.Row) int { return (len(r.ID) + len(r.Session) + len(r.Body) + 1023) / 1024 }

// breathe lets some time pass after a look at the store that took long, since each message that arrives
// or is added is a reason for another.
func breathe(ctx context.Context, took time.Duration) {
	if took < 5*time.Millisecond {
		return
	}
	t := time.NewTimer(min(2*took, 2*time.Second))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
