// Package homeassistant simulates a house with Home Assistant, over REST and WebSocket, for
// tests and for the offline demo.
//
//	house := homeassistant.New(homeassistant.Options{Token: "long-lived"})
//	defer house.Close()
//	srv := httptest.NewServer(house)
//
// A [House] is an http.Handler. It has floors, areas, devices and some hundred entities, sensors
// with days of history, automations, scripts, scenes and an error log. All of it follows from
// the seed, the clock and the [Story]: the same three give the same house, and another story
// gives other data, so that a program that only pretends to look at the house fails. Services
// take effect: they change states, emit events, and are counted.
//
// With a supervisor token it also answers at the paths of the Supervisor's proxy, /core/api and
// /core/websocket.
//
// [House.SetFaults], [House.Disconnect] and [House.Restart] simulate failures of the real one.
// Nothing happens by itself: the house looks at its clock when it is asked something.
// [House.Run] keeps it alive between requests. The house starts no goroutine that outlives the
// request it serves; Close ends the open sockets and waits for them.
//
// Not simulated: logging in with a browser (the tokens are given), templates beyond the
// functions that read states, the event stream over HTTP, camera pictures, creating and deleting
// areas, floors, labels, zones and backups, and everything that manages add-ons: supervisor/api
// is an unknown command, also behind the Supervisor. What the real one would reject is rejected
// in the same words.
//
// All methods are safe for concurrent use.
package homeassistant

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Version is the Home Assistant release that the house reports.
const Version = "2026.11.2"

// Options describe a house. The zero value is a house with the default story that nobody can log
// in to.
type Options struct {
	Token           string           // token of Ana, an administrator; "": none
	LimitedToken    string           // token of a guest, who is not an administrator
	SupervisorToken string           // token for /core/api and /core/websocket, as at the Supervisor's proxy
	Now             func() time.Time // nil: time.Now
	Seed            uint64           // seed of everything that looks random
	Story           Story            // what happened last night; "": StoryVoltageDip
	Days            int              // days of history before the house was made; 0: 3, at most 14
	TimeZone        string           // the house's time zone; "" or an unknown one: UTC
	LogFile         bool             // whether /api/error_log exists; on most installations it does not
}

// House is one simulated installation.
type House struct {
	o        Options
	mux      *http.ServeMux
	services map[string]map[string]*service

	life   context.Context // ended by Close
	end    context.CancelFunc
	socket sync.WaitGroup // one per accepted connection

	zone *time.Location

	mu       sync.Mutex
	rnd      *rand.Rand
	made     time.Time // end of the generated history
	advanced time.Time
	began    time.Time // start of this run of "Core"
	entities map[string]*entity
	order    []string // entity ids, sorted
	devices  []*device
	areas    []*area
	moments  []moment // logbook entries other than state changes
	log      []*logEntry
	conns    map[*conn]bool
	faults   Faults
	eased    chan struct{} // closed when the faults are replaced
	calls    map[Call]int
	ids      uint64
	tokens   map[string]string // made by auth/long_lived_access_token: token to user
	notes    int               // persistent notifications so far
	todo     []todoItem
	labels   map[string][]string // ids of the items with each label
}

// Limits on what can grow.
const (
	maxBody    = 1 << 20 // bytes of a REST request
	maxMessage = 4 << 20 // bytes of a WebSocket message from a client, as in the real one
	maxQueue   = 1024    // messages queued for a client before it is disconnected, as in the real one
	maxConns   = 256
	maxRecords = 20_000 // records of one entity
	maxMoments = 20_000
	maxLog     = 50 // entries in the error log, as in the real one
	maxExtra   = 1000
)

// New makes a house, with its history up to now.
func New(o Options) *House {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Days <= 0 {
		o.Days = 3
	}
	o.Days = min(o.Days, 14)
	if o.TimeZone == "" {
		o.TimeZone = "UTC"
	}
	if o.Story == "" {
		o.Story = StoryVoltageDip
	}
	h := &House{o: o, services: services(), conns: map[*conn]bool{}, calls: map[Call]int{}, tokens: map[string]string{}, labels: map[string][]string{}}
	h.zone = time.UTC
	if z, err := time.LoadLocation(o.TimeZone); err == nil {
		h.zone = z
	}
	h.life, h.end = context.WithCancel(context.Background())
	h.mu.Lock()
	h.build()
	h.mu.Unlock()
	h.routes()
	return h
}

// Afternoon returns a time zone in which it is shortly after two o'clock at a given moment. So a
// house there is at the same hour whenever a test runs, and until half past four nobody in it
// turns anything on or off by habit.
func Afternoon(now time.Time) string {
	ahead := 14 - now.UTC().Hour() // from -9 to 14; there are zones from -12 to 14
	if ahead == 0 {
		return "Etc/UTC"
	}
	return fmt.Sprintf("Etc/GMT%+d", -ahead) // the signs of these zone names are inverted
}

// SetStory changes what happened last night: all history, states and errors are generated again,
// as if it had always been so. Open sockets receive the state changes; registries stay.
func (h *House) SetStory(s Story) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.entities
	h.o.Story = s
	h.build()
	for id, e := range h.entities {
		if was := old[id]; was != nil {
			e.given, e.area = was.given, was.area
		}
	}
	for _, id := range h.order {
		before, after := old[id], h.entities[id]
		if before != nil && before.now().state != after.now().state {
			b, a := before.now(), after.now()
			h.emitChange(id, &b, &a)
		}
	}
}

// Story returns the current story.
func (h *House) Story() Story {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.o.Story
}

// Run keeps the house alive until ctx ends: sensors report, and clients hear of it, without a
// request. The caller waits for it.
func (h *House) Run(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.life.Done():
			return
		case <-t.C:
			h.Advance()
		}
	}
}

// Advance makes everything happen that is due by the clock.
func (h *House) Advance() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advance()
}

// Close ends all sockets and waits until their handlers have returned. Later requests are
// answered as by a server that is stopping.
func (h *House) Close() {
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	h.Disconnect()
	h.socket.Wait()
}

func (h *House) now() time.Time { return h.o.Now().UTC() }

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// newID makes a unique id in the form of a ULID.
func (h *House) newID(at time.Time) string {
	h.ids++
	var b [26]byte
	ms := uint64(at.UnixMilli())
	for i := 9; i >= 0; i-- {
		b[i] = crockford[ms&31]
		ms >>= 5
	}
	n := mix(h.o.Seed ^ h.ids)
	for i := 25; i >= 18; i-- {
		b[i] = crockford[h.ids>>(5*(25-i))&31]
	}
	for i := 17; i >= 10; i-- {
		b[i] = crockford[n&31]
		n >>= 5
	}
	return string(b[:])
}

// mix is splitmix64: a number that looks random for each number.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hash(s string) uint64 {
	v := uint64(14695981039346656037)
	for i := range len(s) {
		v = (v ^ uint64(s[i])) * 1099511628211
	}
	return mix(v)
}

func hex32(s string) string { return fmt.Sprintf("%016x%016x", hash(s), hash("2"+s)) }
