package home

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// Change is a new state of an entity.
type Change struct {
	Entity string
	State  string // "" when the entity is gone
	At     time.Time
}

// Feed passes changes on to the followers of a house. It never waits for them: a follower that does
// not keep up is cut off, and begins again with the whole state.
type Feed struct {
	mu        sync.Mutex
	closed    bool
	followers map[chan Change]bool
}

// maxBehind is how many changes may wait for one follower. A large house that is starting makes so
// many in a second.
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

// Follow returns the changes from now on. The channel is closed when the follower falls behind or
// the feed ends. stop ends the following.
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

// frameOf is a message of the stream: one entity's state, or how current the data is.
type frameOf struct {
	Entity      string     `json:"entity_id,omitempty"`
	State       *string    `json:"state,omitempty"`
	LastChanged *time.Time `json:"last_changed,omitempty"`
	Available   *bool      `json:"available,omitempty"`
	Connected   *bool      `json:"connected,omitempty"`
	AgeMS       *int64     `json:"age_ms,omitempty"`
}

const (
	gatherFor  = 100 * time.Millisecond // changes within this time are sent together
	lookEvery  = 5 * time.Second        // how often the connection to the house is checked
	sayEvery   = 15 * time.Second       // how often the stream says that it is up, so that proxies keep it open
	justBefore = 30 * time.Second       // a list that was read at most so long ago needs no new reading
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
	// The stream sends its own signs of life, and a page knows when to reconnect.
	wire.ServeMessages(w, r, o.messages(ctx, now, changes), wire.SSE, wire.Options{Heartbeat: -1, Retry: -1})
	return nil
}

// messages yields what a stream sends: first the present state, then the changes.
func (o EntityOptions) messages(ctx context.Context, now Listing, changes <-chan Change) iter.Seq[[]wire.Message] {
	return func(yield func([]wire.Message) bool) {
		fresh := func(l Listing) wire.Message { return messageOf(frameOf{Connected: &l.Connected, AgeMS: &l.AgeMS}) }
		first := []wire.Message{fresh(now)}
		for _, a := range now.Areas {
			for _, e := range a.Entities {
				if o.Now().Sub(e.LastChanged) < justBefore {
					first = append(first, stateMessage(Change{e.ID, e.State, e.LastChanged}))
				}
			}
		}
		if !yield(first) {
			return
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
				return
			case c, ok := <-changes:
				if !ok {
					return
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
				list := make([]wire.Message, 0, len(order))
				for _, id := range order {
					list = append(list, stateMessage(waiting[id]))
				}
				due, order = nil, nil
				clear(waiting)
				if !yield(list) {
					return
				}
			case <-look.C:
				l, err := o.House.Listing(ctx)
				if err != nil || l.Connected == connected && o.Now().Sub(said) < sayEvery {
					continue
				}
				said, connected = o.Now(), l.Connected
				if !yield([]wire.Message{fresh(l)}) {
					return
				}
			}
		}
	}
}

func messageOf(f frameOf) wire.Message {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // all its values can be written as JSON
	}
	return wire.Message{Data: raw}
}

func stateMessage(c Change) wire.Message {
	ok := available(c.State)
	return messageOf(frameOf{Entity: parley.Cut(c.Entity, 255), State: &c.State, LastChanged: &c.At, Available: &ok})
}

func available(state string) bool { return state != "" && state != "unavailable" }

// NewEntity sets the fields that follow from the others.
func NewEntity(e HouseEntity) HouseEntity {
	for i, r := range e.ID {
		if r == '.' {
			e.Domain = e.ID[:i]
			break
		}
	}
	e.Available = available(e.State)
	return e
}
