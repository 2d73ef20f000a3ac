package home

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-server/parley"
)

// House is what the page's panel asks of a house. The tools have the same one.
type House interface {
	// Listing is what is known now; an error when nothing ever was.
	Listing(ctx context.Context) (Listing, error)
	// Past is what an entity was.
	Past(ctx context.Context, entity string, from, to time.Time) (History, error)
	// Changes is what is told of the house from now on.
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
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Entities []Entity `json:"entities"`
}

// Entity is one thing in it.
type Entity struct {
	ID          string    `json:"entity_id"`
	Name        string    `json:"name"`
	Domain      string    `json:"domain"`
	DeviceClass string    `json:"device_class,omitempty"`
	State       string    `json:"state"`
	Unit        string    `json:"unit,omitempty"`
	LastChanged time.Time `json:"last_changed,omitzero"`
	Available   bool      `json:"available"`
}

// History is what an entity was: for a number its values, else its states, each
// with when it began, in ms since 1970.
type History struct {
	Points []Point `json:"points"`
	States []State `json:"states"`
}

// Point is a value from a moment on; in JSON a pair.
type Point struct {
	At    int64
	Value float64
}

// State is a state from a moment on; in JSON a pair.
type State struct {
	At    int64
	State string
}

// MarshalJSON implements json.Marshaler.
func (p Point) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{p.At, p.Value}) }

// MarshalJSON implements json.Marshaler.
func (s State) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{s.At, s.State}) }

// EntityOptions are those of [Entities].
type EntityOptions struct {
	House     House
	Principal func(ctx context.Context) (parley.Principal, error)
	Fail      func(w http.ResponseWriter, err error)
	// Open counts a stream, or refuses it. Nil: there is no limit.
	Open func(p parley.Principal) (done func(), err error)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

const (
	maxHours   = 7 * 24
	maxPoints  = 4000 // of one history; more are thinned
	maxReading = 4    // histories that are read from the house at once
)

// Entities serves the panel of entities: GET {base}/entities is the house by
// area, {base}/entities/{entity_id}/history?hours=24 what one was, and
// {base}/entities/stream what changes, as server-sent events, where base is
// /apps/{app}.
func Entities(o EntityOptions) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	reading := make(chan struct{}, maxReading)
	mux := http.NewServeMux()
	handle := func(path string, f func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.Header().Set("Allow", http.MethodGet)
				o.Fail(w, parley.Errorf(parley.CodeInvalid, "entities are only read").WithHint("use GET; tools change things"))
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
		l, err := o.House.Listing(r.Context())
		if err != nil {
			return err
		}
		return write(w, l)
	})
	handle("/apps/{app}/entities/{entity_id}/history", func(w http.ResponseWriter, r *http.Request) error {
		hours, err := hoursOf(r.URL.Query().Get("hours"))
		if err != nil {
			return err
		}
		select {
		case reading <- struct{}{}:
			defer func() { <-reading }()
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
		now := o.Now()
		h, err := o.House.Past(r.Context(), r.PathValue("entity_id"), now.Add(-hours), now)
		if err != nil {
			return err
		}
		h.Points, h.States = thinned(h.Points), h.States[max(0, len(h.States)-maxPoints):]
		if h.Points == nil {
			h.Points = []Point{}
		}
		if h.States == nil {
			h.States = []State{}
		}
		return write(w, h)
	})
	handle("/apps/{app}/entities/stream", o.stream)
	handle("/apps/{app}/entities/", func(_ http.ResponseWriter, r *http.Request) error {
		return parley.Errorf(parley.CodeNotFound, "there is nothing at %s", parley.Cut(r.URL.Path, 200))
	})
	return mux
}

func hoursOf(text string) (time.Duration, error) {
	if text == "" {
		return 24 * time.Hour, nil
	}
	h, err := strconv.ParseFloat(text, 64)
	if err != nil || !(h > 0 && h <= maxHours) { // not a number is neither
		return 0, parley.Errorf(parley.CodeInvalid, "hours has to be a number up to %d", maxHours).WithField("hours")
	}
	return time.Duration(h * float64(time.Hour)), nil
}

func write(w http.ResponseWriter, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return parley.Errorf(parley.CodeInternal, "the answer can not be written: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(raw) // who asked is gone
	return nil
}

// thinned leaves of many points the lowest and the highest of each stretch, so
// that a dip of a moment is still seen.
func thinned(points []Point) []Point {
	if len(points) <= maxPoints {
		return points
	}
	out := make([]Point, 0, maxPoints)
	const stretches = maxPoints / 2
	for i := range stretches {
		part := points[i*len(points)/stretches : (i+1)*len(points)/stretches]
		low, high := part[0], part[0]
		for _, p := range part {
			if p.Value < low.Value {
				low = p
			}
			if p.Value >= high.Value {
				high = p
			}
		}
		if low.At > high.At {
			low, high = high, low
		}
		out = append(out, low)
		if high != low {
			out = append(out, high)
		}
	}
	return out
}
