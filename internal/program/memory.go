package program

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// After a burst Go keeps the memory until the next garbage collection, which on a quiet
// server takes minutes. Other programs on the machine need it earlier.
const (
	lookAtMemory = 10 * time.Second
	muchMemory   = 128 << 20 // less is not worth a collection
	muchWork     = 64 << 20  // bytes allocated since memory was given back last
	littleWork   = 8 << 20   // bytes allocated between two checks on a quiet server
)

// startOver is when a server has started and has had a moment for its first requests.
const startOver = 2 * time.Second

// giveBack returns memory to the system after the start and after bursts, until ctx ends.
func giveBack(ctx context.Context) {
	m := memory{}
	m.seen, _ = inMemory()
	select {
	case <-ctx.Done():
		return
	case <-time.After(startOver):
		if allocated, _ := inMemory(); allocated-m.seen < littleWork { // otherwise a burst has begun
			debug.FreeOSMemory()
			_ = leaveProgram() // then its pages stay
		}
	}
	tick := time.NewTicker(lookAtMemory)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if m.due(inMemory()) {
				debug.FreeOSMemory()
				m.freed, _ = inMemory()
			}
		}
	}
}

// memory holds the counters of the last check, and of when memory was last returned, in
// bytes allocated since the process began.
type memory struct{ seen, freed uint64 }

// due reports whether a burst that took much memory is over.
func (m *memory) due(allocated, held uint64) bool {
	quiet := allocated-m.seen < littleWork
	m.seen = allocated
	return quiet && held > muchMemory && allocated-m.freed > muchWork
}

// inMemory is how many bytes were allocated since the process began, and how many
// the process holds now.
func inMemory() (allocated, held uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64() - s[2].Value.Uint64()
}
