package home

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// Change is a state that became another.
type Change struct {
	Entity string
	State  string // "" when the entity is gone
	At     time.Time
}

// Feed passes changes on to the followers of a house. It never waits for them: a follower
// that does not keep up is cut off, and starts again from the whole state.
type Feed struct {
	mu        sync.Mutex
	closed    bool
	followers map[chan Change]bool
}

// maxBehind is how many changes may wait for one follower: a second of a large house that
// is starting.
const maxBehind = 1024

// Observe passes a change on.
func (f *Feed) Observe(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.followers {
		select {
		case ch <- c:
		default:
			f.drop(ch)
		}
	}
}

// Follow returns what changes from now on. The channel is closed when the
// follower falls behind or the feed ends; stop ends it.
func (f *Feed) Follow() (changes <-chan Change, stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan Change, maxBehind)
	if f.closed {
		close(ch)
		return ch, func() {}
	}
	if f.followers == nil {
		f.followers = map[chan Change]bool{}
	}
	f.followers[ch] = true
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(ch)
	}
}

func (f *Feed) drop(ch chan Change) {
	if f.followers[ch] {
		delete(f.followers, ch)
		close(ch)
	}
}

// Close ends the feed for all followers.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for ch := range f.followers {
		f.drop(ch)
	}
}

// frameOf is a frame of the stream: one entity's state, or how current the data is.
type frameOf struct {
	Entity      string     `json:"entity_id,omitempty"`
	State       *string    `json:"state,omitempty"`
	LastChanged *time.Time `json:"last_changed,omitempty"`
	Available   *bool      `json:"available,omitempty"`
	Connected   *bool      `json:"connected,omitempty"`
	AgeMS       *int64     `json:"age_ms,omitempty"`
}

const (
	gatherFor  = 100 * time.Millisecond // changes that come together go together
	lookEvery  = 5 * time.Second        // whether the house is still heard
	sayEvery   = 15 * time.Second       // that it is, so that proxies keep the stream
	writeFor   = 30 * time.Second
	justBefore = 30 * time.Second // a list that was read so long ago missed nothing
)

// stream returns an error only if nothing was written.
func (o EntityOptions) stream(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	if o.Open != nil {
		p, err := o.Principal(ctx)
		if err != nil {
			return err
		}
		done, err := o.Open(ctx, p)
		if err != nil {
			return err
		}
		defer done()
	}
	changes, stop := o.House.Changes().Follow()
	defer stop()
	now, err := o.House.Listing(ctx)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	send := func(frames ...frameOf) bool {
		var b []byte
		for _, f := range frames {
			raw, err := json.Marshal(f)
			if err != nil {
				return false
			}
			b = append(append(append(b, "data: "...), raw...), "\n\n"...)
		}
		_ = rc.SetWriteDeadline(time.Now().Add(writeFor)) // a recorder has none
		if _, err := w.Write(b); err != nil {
			return false
		}
		return rc.Flush() == nil
	}
	fresh := func(l Listing) frameOf { return frameOf{Connected: &l.Connected, AgeMS: &l.AgeMS} }
	first := []frameOf{fresh(now)}
	for _, a := range now.Areas {
		for _, e := range a.Entities {
			if o.Now().Sub(e.LastChanged) < justBefore {
				first = append(first, stateFrame(Change{e.ID, e.State, e.LastChanged}))
			}
		}
	}
	if !send(first...) {
		return nil
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	said, connected := o.Now(), now.Connected
	var due <-chan time.Time
	waiting := map[string]Change{}
	var order []string
	for {
		select {
		case <-ctx.Done():
			return nil
		case c, ok := <-changes:
			if !ok {
				return nil
			}
			if c.State == "" {
				continue
			}
			if _, ok := waiting[c.Entity]; !ok {
				order = append(order, c.Entity)
			}
			waiting[c.Entity] = c
			if due == nil {
				due = time.After(gatherFor)
			}
		case <-due:
			frames := make([]frameOf, 0, len(order))
			for _, id := range order {
				frames = append(frames, stateFrame(waiting[id]))
			}
			due, order = nil, nil
			clear(waiting)
			if !send(frames...) {
				return nil
			}
		case <-look.C:
			l, err := o.House.Listing(ctx)
			if err != nil || l.Connected == connected && o.Now().Sub(said) < sayEvery {
				continue
			}
			said, connected = o.Now(), l.Connected
			if !send(fresh(l)) {
				return nil
			}
		}
	}
}

func stateFrame(c Change) frameOf {
	ok := available(c.State)
	return frameOf{Entity: parley.Cut(c.Entity, 255), State: &c.State, LastChanged: &c.At, Available: &ok}
}

func available(state string) bool { return state != "" && state != "unavailable" }

// NewEntity fills in what follows from the rest.
func NewEntity(e Entity) Entity {
	for i, r := range e.ID {
		if r == '.' {
			e.Domain = e.ID[:i]
			break
		}
	}
	e.Available = available(e.State)
	return e
}
