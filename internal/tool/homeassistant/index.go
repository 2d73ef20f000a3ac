package homeassistant

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// Index holds what is known of a house: the current states, and the graph of entities, devices,
// areas and floors. Events keep it current; it is compared with all states after each connect
// and from time to time. It also answers while Home Assistant cannot be reached, and [Index.Age]
// says how old it is.
type Index struct {
	o      Options
	client *client

	mu       sync.RWMutex
	states   map[string]*wireState
	entries  map[string]*wireEntity
	devices  map[string]*wireDevice
	areas    map[string]*wireArea
	floors   map[string]*wireFloor
	services map[string]map[string]json.RawMessage
	config   wireConfig
	zone     *time.Location
	synced   time.Time
	missed   int // changes found by comparing, without an event
	syncing  bool
	waiting  []wireEvent // that arrived during a full read
	overflow bool
	fresh    chan struct{} // closed and replaced when something changes
}

func newIndex(o Options) *Index {
	return &Index{
		o: o, states: map[string]*wireState{}, entries: map[string]*wireEntity{}, devices: map[string]*wireDevice{}, areas: map[string]*wireArea{},
		floors: map[string]*wireFloor{}, services: map[string]map[string]json.RawMessage{}, zone: time.UTC, fresh: make(chan struct{}),
	}
}

// gather is how long registry changes are collected before the registries are read.
const gather = 100 * time.Millisecond

// maxWaiting is the most events that may arrive during a full read. After more, everything is
// read again.
const maxWaiting = 20_000

// keep fills the index from a new connection and keeps it current until the connection ends. It
// subscribes before it reads, so no change is missed in between.
func (x *Index) keep(ctx context.Context, s *socket) {
	x.mu.Lock()
	x.syncing, x.waiting, x.overflow = true, nil, false
	x.mu.Unlock()
	stale := map[string]chan struct{}{}
	changed := make(chan struct{}, 1)
	poke := func(c chan struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	subscribe := func(kind string, on func(json.RawMessage)) error {
		_, err := s.call(ctx, "subscribe_events", map[string]any{"event_type": kind}, on)
		return err
	}
	if err := subscribe("state_changed", x.hear); err != nil {
		s.fail(x.giveUp("subscribe to changes of states", err))
		return
	}
	for _, r := range registries {
		c := make(chan struct{}, 1)
		stale[r] = c
		// Some subscriptions are not open to guests; comparing then finds the changes later.
		_ = subscribe(r+"_registry_updated", func(json.RawMessage) { poke(c); poke(changed) })
	}
	services := make(chan struct{}, 1)
	for _, kind := range []string{"service_registered", "service_removed"} {
		_ = subscribe(kind, func(json.RawMessage) { poke(services); poke(changed) })
	}
	if err := x.read(ctx, s); err != nil {
		s.fail(x.giveUp("read the house", err))
		return
	}
	resync := time.NewTicker(x.o.Resync)
	defer resync.Stop()
	for {
		select {
		case <-s.dead:
			return
		case <-changed:
			// Changes come in bursts, for example when an integration starts.
			crowd := time.NewTimer(gather)
			select {
			case <-crowd.C:
			case <-s.dead:
				crowd.Stop()
				return
			}
			select {
			case <-services:
				x.readRest(ctx, s)
			default:
			}
			for _, r := range registries {
				select {
				case <-stale[r]:
					x.readRegistry(ctx, s, r)
				default:
				}
			}
		case <-resync.C:
			x.mu.Lock()
			x.syncing = true
			x.mu.Unlock()
			if err := x.read(ctx, s); err != nil && ctx.Err() == nil {
				x.release()
				x.o.Logger.Warn("home assistant: the index could not be compared", "reason", err.Error())
			}
		}
	}
}

func (x *Index) giveUp(what string, err error) *parley.Error {
	e := parley.Errorf(parley.CodeOf(err), "Home Assistant accepted the login but did not let us %s: %s", what, err.Error())
	if parley.CodeOf(err) == parley.CodeCancelled || isLost(err) {
		e = errAway("the connection to Home Assistant was lost while the index was filled")
	}
	return e
}

// registries are the parts of the graph, by the names of their commands.
var registries = []string{"area", "floor", "device", "entity"}

// read reads all states and registries, then applies the events that arrived meanwhile.
func (x *Index) read(ctx context.Context, s *socket) error {
	ctx, cancel := context.WithTimeout(ctx, 4*x.o.Timeout) // a large house takes a while
	defer cancel()
	for _, r := range registries {
		x.readRegistry(ctx, s, r)
	}
	x.readRest(ctx, s) // before the states, because the index counts as filled once it has these
	for again := 0; ; again++ {
		raw, err := s.call(ctx, "get_states", nil, nil)
		if err != nil {
			return err
		}
		var all []*wireState
		if err := json.Unmarshal(raw, &all); err != nil {
			return errMalformed(err)
		}
		if x.replace(all) || again == 3 {
			break
		}
	}
	return nil
}

// readRest reads optional data.
func (x *Index) readRest(ctx context.Context, s *socket) {
	fetch := func(kind string, into any) bool {
		raw, err := s.call(ctx, kind, nil, nil)
		return err == nil && json.Unmarshal(raw, into) == nil
	}
	var conf wireConfig
	var services map[string]map[string]json.RawMessage
	hasConf, hasServices := fetch("get_config", &conf), fetch("get_services", &services)
	x.mu.Lock()
	defer x.mu.Unlock()
	if hasConf {
		x.config = conf
		if z, err := time.LoadLocation(conf.TimeZone); err == nil && conf.TimeZone != "" {
			x.zone = z
		}
	}
	if hasServices {
		x.services = services
	}
}

func (x *Index) readRegistry(ctx context.Context, s *socket, which string) {
	raw, err := s.call(ctx, "config/"+which+"_registry/list", nil, nil)
	if err == nil {
		x.mu.Lock()
		switch which {
		case "area":
			err = fill(raw, &x.areas, func(v *wireArea) string { return v.ID })
		case "floor":
			err = fill(raw, &x.floors, func(v *wireFloor) string { return v.ID })
		case "device":
			err = fill(raw, &x.devices, func(v *wireDevice) string { return v.ID })
		case "entity":
			err = fill(raw, &x.entries, func(v *wireEntity) string { return v.ID })
		}
		x.stir()
		x.mu.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		x.o.Logger.Warn("home assistant: a registry could not be read", "registry", which, "reason", clip(err.Error(), 200))
	}
}

func fill[T any](raw json.RawMessage, into *map[string]*T, key func(*T) string) error {
	var all []*T
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	m := make(map[string]*T, len(all))
	for _, v := range all {
		if v != nil {
			m[key(v)] = v
		}
	}
	*into = m
	return nil
}

// stir wakes everyone who waits for a change. x.mu is held.
func (x *Index) stir() {
	close(x.fresh)
	x.fresh = make(chan struct{})
}

// replace sets the index to what was read, reports the differences, and applies the events that
// arrived meanwhile. It returns false if too many arrived.
func (x *Index) replace(all []*wireState) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	states := make(map[string]*wireState, len(all))
	for _, s := range all {
		if s != nil && s.ID != "" {
			states[s.ID] = s
		}
	}
	old := x.states
	first := x.synced.IsZero()
	told := map[string]bool{} // a waiting event will report it
	for _, ev := range x.waiting {
		told[ev.Data.EntityID] = true
	}
	x.states = states
	if !first {
		for id := range union(old, states) {
			was, is := old[id], states[id]
			if told[id] || stateOf(was) == stateOf(is) && (was == nil) == (is == nil) {
				continue
			}
			x.missed++
			at := x.o.Now()
			if is != nil {
				at = is.Changed
			}
			x.report(Change{Entity: id, Old: stateOf(was), New: stateOf(is), At: at, Missed: true})
		}
	}
	waiting, whole := x.waiting, !x.overflow
	x.waiting, x.overflow = nil, false
	for _, ev := range waiting {
		x.apply(ev, old)
	}
	x.synced = time.Now()
	x.syncing = !whole
	x.stir()
	return whole
}

// release applies the events that waited for a read that failed.
func (x *Index) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ev := range x.waiting {
		x.apply(ev, nil)
	}
	x.waiting, x.overflow, x.syncing = nil, false, false
	x.stir()
}

func union[V any](a, b map[string]V) map[string]bool {
	out := make(map[string]bool, len(a))
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

func stateOf(s *wireState) string {
	if s == nil {
		return ""
	}
	return s.State
}

// hear handles an event from the socket.
func (x *Index) hear(raw json.RawMessage) {
	var ev wireEvent
	if json.Unmarshal(raw, &ev) != nil || ev.Data.EntityID == "" {
		return // an event in an unknown form does no harm: comparing finds the change
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.syncing {
		if len(x.waiting) >= maxWaiting {
			x.waiting, x.overflow = nil, true
		}
		x.waiting = append(x.waiting, ev)
		return
	}
	x.apply(ev, nil)
	x.stir()
}

// apply applies one event to the index. before is the index before the last comparison, for
// events that arrived during it. An event older than the indexed state changes nothing. x.mu is
// held.
func (x *Index) apply(ev wireEvent, before map[string]*wireState) {
	id := ev.Data.EntityID
	have := x.states[id]
	was := have
	if before != nil {
		was = before[id]
	}
	switch is := ev.Data.New; {
	case is == nil:
		if have != nil && have.Updated.After(ev.Fired) {
			return
		}
		delete(x.states, id)
	case have != nil && have.Updated.After(is.Updated):
		return
	default:
		is.ID = id
		x.states[id] = is
	}
	if before != nil {
		before[id] = x.states[id]
	}
	if stateOf(was) != stateOf(ev.Data.New) {
		at := ev.Fired
		if ev.Data.New != nil {
			at = ev.Data.New.Changed
		}
		x.report(Change{Entity: id, Old: stateOf(was), New: stateOf(ev.Data.New), At: at})
	}
}

// report passes on a change. x.mu is held, so that changes arrive in order.
func (x *Index) report(c Change) {
	if x.o.Observe != nil {
		x.o.Observe(c)
	}
}
