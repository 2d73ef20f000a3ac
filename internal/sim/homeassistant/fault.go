package homeassistant

import (
	"maps"
	"time"
)

// Faults are the current faults of the house, until they are replaced. Those that are numbers
// count down as they happen.
type Faults struct {
	Down         bool          // nothing answers: connections are dropped, the proxy answers with status 502
	Unauthorized bool          // every token is refused; open sockets are closed, as when a token is revoked
	Delay        time.Duration // before each answer, over REST and WebSocket
	Malformed    int           // number of next messages that are cut off in the middle
	DropEvents   int           // number of next state changes that are not sent to anybody
	Denied       bool          // administrators' commands are rejected, as for an ordinary user

	// For the next service calls:
	DropBefore int // the connection is lost and the call never took effect
	DropAfter  int // the call took effect and the connection is lost before the answer
	Fail       int // the integration reports an error
}

// SetFaults replaces all faults. Requests waiting for the old Delay continue at once.
func (h *House) SetFaults(f Faults) {
	h.mu.Lock()
	h.faults = f
	if h.eased != nil {
		close(h.eased)
		h.eased = nil
	}
	h.mu.Unlock()
	if f.Down || f.Unauthorized {
		h.Disconnect()
	}
}

// Faults returns the remaining faults.
func (h *House) Faults() Faults {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults
}

// Disconnect cuts all open sockets without a closing message and returns how many.
func (h *House) Disconnect() int {
	h.mu.Lock()
	cs := make([]*conn, 0, len(h.conns))
	for c := range h.conns {
		cs = append(cs, c)
	}
	h.mu.Unlock()
	for _, c := range cs {
		c.cut()
	}
	return len(cs)
}

// Restart simulates a restart of Core: sockets are cut, the error log is empty, and in-memory
// state starts again. States and history stay.
func (h *House) Restart() {
	h.mu.Lock()
	h.log, h.began = nil, h.now()
	h.mu.Unlock()
	h.Disconnect()
}

// Call identifies a counted call: one service on one entity. Entity is "" for a call without a
// target.
type Call struct{ Service, Entity string }

// Calls returns how often each service took effect on each entity since the house was made.
// Calls that were rejected or never arrived do not count.
func (h *House) Calls() map[Call]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}

// Sockets returns how many clients are connected and logged in.
func (h *House) Sockets() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for c := range h.conns {
		if c.who != nil {
			n++
		}
	}
	return n
}

// SetState simulates a device that reports. An unknown entity is created, as an integration
// would; with a nil a, the attributes stay.
func (h *House) SetState(entity, state string, a map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advance()
	h.report(entity, state, a)
}

// Remove removes an entity from the states and the registry.
func (h *House) Remove(entity string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remove(entity)
}

// Reported returns an entity's current state, or "" if there is none.
func (h *House) Reported(entity string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.entities[entity]; e != nil {
		return e.now().state
	}
	return ""
}

// Logged adds an entry to the error log, with the current time.
func (h *House) Logged(level, logger, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warn(level, logger, message)
}
