package home

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/wire"
)

// House is the part of a house that the page's panel uses. It is the house that the tools use.
type House interface {
	// Listing returns the current state. It fails if the state was never read.
	Listing(ctx context.Context) (Listing, error)
	// Past returns an entity's history, thinned to what a chart can show.
	Past(ctx context.Context, entity string, from, to time.Time) (History, error)
	// Changes passes on changes in the house from now on.
	Changes() *Feed
}

// Listing is a house by area. Entities without an area are in one without a name.
type Listing struct {
	Connected bool      `json:"connected"`
	IndexedAt time.Time `json:"indexed_at"`
	AgeMS     int64     `json:"age_ms"`
	Areas     []Area    `json:"areas"`
}

// Area is a room.
type Area struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Entities []HouseEntity `json:"entities"`
}

// HouseEntity is one entity of an area.
type HouseEntity struct {
	ID          string    `json:"entity_id"`
	Name        string    `json:"name"`
	Domain      string    `json:"domain"`
	DeviceClass string    `json:"device_class,omitempty"`
	State       string    `json:"state"`
	Unit        string    `json:"unit,omitempty"`
	LastChanged time.Time `json:"last_changed,omitzero"`
	Available   bool      `json:"available"`
}

// History is an entity's history. A numeric entity has values, others have states, each with the
// time at which it began. Times are in ms since 1970.
type History struct {
	ID          string  `json:"entity_id"`
	Name        string  `json:"name"`
	Unit        string  `json:"unit,omitempty"`
	DeviceClass string  `json:"device_class,omitempty"`
	From        int64   `json:"from"`
	To          int64   `json:"to"`
	Zone        string  `json:"zone"` // the time zone of the house
	Points      []Point `json:"points"`
	States      []State `json:"states"`
	Marks       []Mark  `json:"marks"`
	Thinned     bool    `json:"thinned,omitempty"` // values were left out
}

// Point is a value from a time on, or a gap. In JSON it is a pair.
type Point struct {
	At    int64
	Value float64
	None  bool
}

// State is a state from a time on. In JSON it is a pair.
type State struct {
	At    int64
	State string
}

// Mark is a moment that stands out.
type Mark struct {
	At    int64  `json:"at"`
	State string `json:"state"`
}

// MarshalJSON implements json.Marshaler.
func (p Point) MarshalJSON() ([]byte, error) {
	if p.None {
		return json.Marshal([2]any{p.At, nil})
	}
	return json.Marshal([2]any{p.At, p.Value})
}

// MarshalJSON implements json.Marshaler.
func (s State) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{s.At, s.State}) }

// EntityOptions are those of [Entities].
type EntityOptions struct {
	House     House
	Principal func(ctx context.Context) (parley.Principal, error)
	Fail      func(w http.ResponseWriter, err error)
	// Open counts a stream, or refuses it. Nil: there is no limit.
	Open func(ctx context.Context, p parley.Principal) (done func(), err error)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

const (
	maxHours   = 31 * 24
	maxReading = 4  // histories that are read from the house at once
	maxQueued  = 32 // histories of one user that may wait: more than a page shows
)

// The approximate size of an answer in bytes: a house of 2,000 entities, and the points of a
// history.
const (
	heldListing = 512 << 10
	heldPast    = 128 << 10
)

// Entities serves the panel of entities below {base} = /apps/{app}. GET {base}/entities is the
// house by area. GET {base}/entities/{entity_id}/history is an entity's history, either of the last
// hours (hours=24), or between the RFC 3339 times from= and to=. GET {base}/entities/stream sends
// what changes, as server-sent events.
func Entities(o EntityOptions) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	reading := &fair.Turns{Slots: maxReading, Each: maxReading, Queued: maxQueued}
	mux := http.NewServeMux()
	handle := func(path string, f func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.Header().Set("Allow", http.MethodGet)
				o.Fail(w, parley.Errorf(parley.CodeInvalid, "entities can only be read").WithHint("use GET; only tools change things"))
				return
			}
			if _, err := o.Principal(r.Context()); err != nil {
				o.Fail(w, err)
				return
			}
			if err := f(w, r); err != nil {
				o.Fail(w, err)
			}
		})
	}
	handle("/apps/{app}/entities", func(w http.ResponseWriter, r *http.Request) error {
		if err := wire.Reserve(r.Context(), heldListing); err != nil {
			return err
		}
		l, err := o.House.Listing(r.Context())
		if err != nil {
			return err
		}
		return write(w, l)
	})
	handle("/apps/{app}/entities/{entity_id}/history", func(w http.ResponseWriter, r *http.Request) error {
		from, to, err := window(r.URL.Query(), o.Now())
		if err != nil {
			return err
		}
		if err := wire.Reserve(r.Context(), heldPast); err != nil {
			return err
		}
		who, err := o.Principal(r.Context())
		if err != nil {
			return err
		}
		leave, err := reading.Enter(r.Context(), who)
		if errors.Is(err, fair.ErrFull) {
			return parley.Errorf(parley.CodeRateLimited, "%d histories of yours are waiting already, which is the limit", maxQueued).
				WithHint("ask for some after the others").WithRetry(time.Second)
		}
		if err != nil {
			return err
		}
		h, err := func() (History, error) {
			defer leave() // before writing, so that a client that reads slowly delays no other
			return o.House.Past(r.Context(), r.PathValue("entity_id"), from, to)
		}()
		if err != nil {
			return err
		}
		return write(w, h)
	})
	handle("/apps/{app}/entities/stream", o.stream)
	handle("/apps/{app}/entities/", func(_ http.ResponseWriter, r *http.Request) error {
		return parley.Errorf(parley.CodeNotFound, "there is nothing at %s", parley.Cut(r.URL.Path, 200))
	})
	return mux
}

// window is the period that a query asks for.
func window(q url.Values, now time.Time) (from, to time.Time, err error) {
	if !q.Has("from") && !q.Has("to") {
		h, err := hoursOf(q.Get("hours"))
		return now.Add(-h), now, err
	}
	if q.Has("hours") {
		return from, to, parley.Errorf(parley.CodeInvalid, "hours cannot be combined with from and to").WithField("hours").WithHint("omit hours, or omit from and to")
	}
	var at [2]time.Time
	for i, name := range []string{"from", "to"} {
		if at[i], err = time.Parse(time.RFC3339Nano, q.Get(name)); err != nil {
			return from, to, parley.Errorf(parley.CodeInvalid, "%s has to be a time", name).WithField(name).WithHint("write 2026-11-20T22:30:00Z")
		}
	}
	if from, to = at[0], at[1]; !from.Before(to) || to.Sub(from) > maxHours*time.Hour {
		return from, to, parley.Errorf(parley.CodeInvalid, "to has to be after from, by at most %d hours", maxHours).WithField("to")
	}
	return from, to, nil
}

func hoursOf(text string) (time.Duration, error) {
	if text == "" {
		return 24 * time.Hour, nil
	}
	h, err := strconv.ParseFloat(text, 64)
	if err != nil || !(h > 0 && h <= maxHours) { // also refuses NaN
		return 0, parley.Errorf(parley.CodeInvalid, "hours has to be a number up to %d", maxHours).WithField("hours")
	}
	return time.Duration(h * float64(time.Hour)), nil
}

func write(w http.ResponseWriter, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return parley.Errorf(parley.CodeInternal, "the answer cannot be written: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(raw) // on an error the client has left
	return nil
}
