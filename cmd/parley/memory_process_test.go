package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMemory_of_a_process_falls_after_a_burst: the program holds much less a while after
// a burst of exports than it held then. The collector is off in it, so that nothing but
// the server itself gives memory back.
func TestMemory_of_a_process_falls_after_a_burst(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system does not say what a process holds:", err)
	}
	p := newPlace(t, "GOGC=off")
	s := p.serve()
	id := s.session("chaos")
	s.answered(id, spec)
	idle, peak := s.resident(), int64(0)
	for n := 0; peak < idle+(300<<20); n++ {
		if n == 2000 {
			t.Fatalf("%d exports take only %d MB", n, (peak-idle)>>20)
		}
		s.exported(id)
		peak = max(peak, s.resident())
	}
	// A fifth of what it took at the least: most of the rest is the race detector's, where
	// there is one, which gives nothing back.
	for until := time.Now().Add(within); s.resident() > peak-(peak-idle)/5; <-time.After(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it held %d MB at first and %d MB in the burst, and holds %d MB still", idle>>20, peak>>20, s.resident()>>20)
		}
	}
	t.Logf("at first %d MB, in the burst %d MB, afterwards %d MB", idle>>20, peak>>20, s.resident()>>20)
}

// resident is how many bytes of the process are in memory.
func (s *process) resident() (held int64) {
	s.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), "\nVmRSS:")
	if _, err := fmt.Sscan(after, &held); err != nil {
		s.t.Fatalf("the process's memory: %v\n%s", err, raw)
	}
	return held << 10
}
