package program

import "testing"

// TestMemory_is_given_back_after_a_burst, once. It is not given back in the middle of a burst,
// or for a small amount.
func TestMemory_is_given_back_after_a_burst(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	var m memory
	for i, look := range []struct {
		allocated, held uint64
		want            bool
	}{
		{20 * mb, 60 * mb, false},    // start
		{700 * mb, 700 * mb, false},  // a burst
		{1400 * mb, 700 * mb, false}, // goes on
		{1401 * mb, 700 * mb, true},  // the burst is over
		{1402 * mb, 300 * mb, false}, // the rest is in use
		{1460 * mb, 310 * mb, false},
		{1470 * mb, 310 * mb, false}, // some work
		{1471 * mb, 310 * mb, true},  // this work is over, too
		{1600 * mb, 90 * mb, false},
		{1601 * mb, 90 * mb, false}, // too little to return
	} {
		got := m.due(look.allocated, look.held)
		if got != look.want {
			t.Errorf("look %d: got %v, want %v", i, got, look.want)
		}
		if got {
			m.freed = look.allocated
		}
	}
}
