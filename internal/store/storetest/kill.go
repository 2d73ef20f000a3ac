package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Environment variables that make a test binary the victim of [Killed].
const victimAt, victimName = "PARLEY_STORETEST_VICTIM_AT", "PARLEY_STORETEST_VICTIM_NAME"

// Main is what TestMain calls in a package that uses [Killed]. open opens the store at a
// location.
func Main(m *testing.M, open func(at string) (seam.Store, error)) {
	if at := os.Getenv(victimAt); at != "" {
		s, err := open(at)
		if err == nil {
			err = victim(s, os.Getenv(victimName))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim appends to six sessions at once, as fast as it can, and prints each
// acknowledged append until it is killed.
func victim(s seam.Store, name string) error {
	failed := make(chan error)
	for hand := range 6 {
		go func() {
			id := parley.SessionID(fmt.Sprintf("%s-%d", name, hand))
			for last := int64(0); ; {
				b := Marked(id, last, 1+int(last)%4, 100+int(last)%3*3000)
				if err := s.Append(context.Background(), User, b); err != nil {
					failed <- err
				}
				last += int64(len(b.Events))
				// A pipe takes one short write whole or not at all.
				if _, err := fmt.Fprintf(os.Stdout, "%s %d\n", id, last); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// Killed runs processes that append to the store at a location, one after another, and
// kills each at a random moment. All acknowledged appends must be stored, and none may
// be torn. After each round, look returns the store to check; it gets the sessions with
// their last events. done may be nil; it is called after the check.
func Killed(t *testing.T, at string, rounds int, look func(round int, told map[parley.SessionID]int64) (s seam.Store, done func())) {
	t.Helper()
	told := map[parley.SessionID]int64{}
	for round := range rounds {
		now := kill(t, at, fmt.Sprint("round", round), 1+rand.IntN(250))
		maps.Copy(told, now)
		if round == rounds-1 {
			now = told // all appends acknowledged so far
		}
		s, done := look(round, now)
		for id, n := range now {
			if last := Whole(t, s, id); last < n {
				t.Errorf("%s: got event %d, and %d was acknowledged", id, last, n)
			}
		}
		if done != nil {
			done()
		}
	}
	if len(told) < rounds {
		t.Errorf("got %d sessions in %d rounds, want each round to store some", len(told), rounds)
	}
}

// kill starts a victim, reads some of its lines and kills it.
func kill(t *testing.T, at, name string, lines int) map[parley.SessionID]int64 {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, self)
	c.Env = append(os.Environ(), victimAt+"="+at, victimName+"="+name)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	told := map[parley.SessionID]int64{}
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			must(t, c.Process.Kill())
		}
		// Lines printed before it died count, too.
		line, err := in.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) || n < lines {
				t.Fatalf("the process ended by itself, or at the end of its time (%v), after %d of %d lines: %v", ctx.Err(), n, lines, err)
			}
			break
		}
		var id parley.SessionID
		var last int64
		if _, err := fmt.Sscan(line, &id, &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		told[id] = last
	}
	_ = c.Wait() // its error is the kill
	return told
}
