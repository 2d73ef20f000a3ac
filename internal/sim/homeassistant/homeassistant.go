// Package homeassistant is a house that speaks as Home Assistant does, over REST
// and WebSocket, for tests and for the demo that needs no network.
//
//	house := homeassistant.New(homeassistant.Options{Token: "long-lived"})
//	defer house.Close()
//	srv := httptest.NewServer(house)
//
// A [House] is an http.Handler. It has floors, areas, devices and some hundred
// entities, sensors with days of history, automations, scripts, scenes and a
// log of errors. All of it follows from the seed, the clock and the [Story]: the
// same three give the same house, and another story gives other data, so that a
// program that only pretends to look at the house is found out. Services take
// effect: they change states, emit events, and are counted.
//
// With a supervisor token it also answers where the Supervisor's proxy would,
// under /core/api and /core/websocket.
//
// [House.SetFaults], [House.Disconnect] and [House.Restart] make it fail as the
// real one fails. Nothing happens by itself: the house looks at its clock when
// it is asked something, and [House.Run] is for those who want it to live
// between questions. The house starts no goroutine that outlives the request it
// serves; Close ends the open sockets and waits for them.
//
// What is left out: logging in by a browser (the tokens are given), templates
// beyond the functions that read states, the event stream over HTTP, cameras'
// pictures, making and removing areas, floors, labels, zones and backups, and
// everything that manages add-ons: behind the Supervisor, too, supervisor/api is
// an unknown command. What a real one would refuse is refused in the same words.
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

// Version is the release that the house claims to run.
const Version = "2026.11.2"

// Options describe a house. The zero value is a house with the default story
// that lets nobody in.
type Options struct {
	Token           string           // of Ana, who is an administrator; "" lets nobody in by it
	LimitedToken    string           // of a guest, who is none
	SupervisorToken string           // opens /core/api and /core/websocket as the Supervisor's proxy does
	Now             func() time.Time // nil: time.Now
	Seed            uint64           // of all that looks random
	Story           Story            // what happened last night; "": StoryVoltageDip
	Days            int              // of history before the house was made; 0: 3, at most 14
	TimeZone        string           // that it lives in, by whose clock its days go; "" or one that is unknown: UTC
	LogFile         bool             // whether /api/error_log is there; on most installations it is not
}

// House is one simulated installation.
type House struct {
	o        Options
	mux      *http.ServeMux
	services map[string]map[string]*service

	life   context.Context // ends with Close
	end    context.CancelFunc
	socket sync.WaitGroup // one a connection that was accepted

	zone *time.Location

	mu       sync.Mutex
	rnd      *rand.Rand
	made     time.Time // where history ends and life begins
	advanced time.Time
	began    time.Time // of this run of "Core"
	entities map[string]*entity
	order    []string // entity ids, sorted
	devices  []*device
	areas    []*area
	moments  []moment // what the logbook has beside changes of state
	log      []*logEntry
	conns    map[*conn]bool
	faults   Faults
	eased    chan struct{} // closed when other faults are set
	calls    map[Call]int
	ids      uint64
	tokens   map[string]string // made by auth/long_lived_access_token: token to user
	notes    int               // persistent notifications so far
	todo     []todoItem
	labels   map[string][]string // label to what has it, by id
}

// limits of what grows.
const (
	maxBody    = 1 << 20 // of a REST request
	maxMessage = 4 << 20 // of a WebSocket message from a client; the real one has the same
	maxQueue   = 1024    // messages that wait for a client before it is cut off, as in the real one
	maxConns   = 256
	maxRecords = 20_000 // of one entity
	maxMoments = 20_000
	maxLog     = 50 // the real one keeps as many
	maxExtra   = 1000
)

// New makes a house. It does its history up to now at once.
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

// Afternoon names a time zone in which it is two o'clock, and some minutes, at a
// moment. A house there is at the same hour of its day whenever a test runs, and from
// then to half past four nobody in it turns anything on or off by habit.
func Afternoon(now time.Time) string {
	ahead := 14 - now.UTC().Hour() // from -9 to 14; there are zones from -12 to 14
	if ahead == 0 {
		return "Etc/UTC"
	}
	return fmt.Sprintf("Etc/GMT%+d", -ahead) // their signs are the other way round
}

// SetStory makes another night of the past days: all history, states and errors
// are made anew, as if it had always been so. Open sockets are told what changed
// in the states; registries stay as they are.
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

// Story returns what is being told.
func (h *House) Story() Story {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.o.Story
}

// Run lets the house live until ctx ends: sensors report and clients hear of it
// while nobody asks. Its caller waits for it.
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

// Advance lets everything happen that is due by the clock.
func (h *House) Advance() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advance()
}

// Close ends all sockets and waits until their handlers are gone. Requests
// after it are answered as by a server that stops.
func (h *House) Close() {
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	h.Disconnect()
	h.socket.Wait()
}

func (h *House) now() time.Time { return h.o.Now().UTC() }

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// newID makes an id of the form of a ULID that no other thing of the house has.
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
