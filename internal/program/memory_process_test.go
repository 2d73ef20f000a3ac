package program_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMemory_of_a_process_falls_after_a_burst: a while after a burst of exports, the program
// holds much less memory than during it. The garbage collector is off, so only the server's own
// code returns memory.
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
	// At least a fifth of the burst's memory is returned. Under the race detector, most of the
	// rest is the detector's own, which it does not return.
	for until := time.Now().Add(within); s.resident() > peak-(peak-idle)/5; <-time.After(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it held %d MB at first and %d MB in the burst, and holds %d MB still", idle>>20, peak>>20, s.resident()>>20)
		}
	}
	t.Logf("at first %d MB, in the burst %d MB, afterwards %d MB", idle>>20, peak>>20, s.resident()>>20)
}

// resident returns the process's resident memory in bytes.
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
