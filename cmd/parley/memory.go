package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go keeps what a burst has taken for about as long as nothing else collects
// garbage, which on a quiet server is minutes. Who shares the machine wants it
// back before that.
const (
	lookAtMemory = 10 * time.Second
	muchMemory   = 128 << 20 // less is not worth a collection
	muchWork     = 64 << 20  // bytes allocated since memory was given back last
	littleWork   = 8 << 20   // bytes allocated between two looks on a quiet server
)

// giveBack returns memory to the system when a burst is over, until ctx ends.
func giveBack(ctx context.Context) {
	m := memory{}
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

// memory is what was seen at the last look, and when memory was given back last,
// in bytes allocated since the process began.
type memory struct{ seen, freed uint64 }

// due reports whether a burst is over that took much.
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
