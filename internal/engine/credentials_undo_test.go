package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

// TestUndoneCredentials: a command that fails takes its credentials back. What a tool of the turn
// has had redacted meanwhile, without the session's lock, stays redacted.
func TestUndoneCredentials(t *testing.T) {
	t.Parallel()
	var hidden []string
	c := credentials{hide: func(_ parley.SessionID, values []string) { hidden = slices.Clone(values) }}
	ana, now := parley.Principal{User: "ana"}, time.Unix(0, 0)
	put := func(given parley.Credentials) (undo func()) {
		undo, err := c.put(ana, "s", "t", given, now)
		if err != nil {
			t.Fatal(err)
		}
		return undo
	}
	put(parley.Credentials{"A": "the first value"})
	undo := put(parley.Credentials{"A": "another value", "B": "one more value"})
	if err := c.conceal(ana, "s", "t", []string{"what a tool hides"}, now); err != nil {
		t.Fatal(err)
	}
	undo()
	if want := []string{"the first value", "what a tool hides"}; !slices.Equal(hidden, want) {
		t.Errorf("hidden are %q, want %q", hidden, want)
	}
	put(parley.Credentials{"B": "yet another"})()
	c.drop("s", "t")
	if c.bytes != 0 || len(c.users) != 0 || len(c.of) != 0 || len(hidden) != 0 {
		t.Errorf("left are %d bytes, %v, %v, %q", c.bytes, c.users, c.of, hidden)
	}
}

// TestTooManyCredentials: a refusal says which limit was reached: the names of one turn, or the
// memory of a user's turns.
func TestTooManyCredentials(t *testing.T) {
	t.Parallel()
	ana, now := parley.Principal{User: "ana"}, time.Now()
	for _, tc := range []struct {
		turn  func(i int) parley.TurnID
		value string
		want  string
	}{
		{func(int) parley.TurnID { return "t" }, "a value of its own", "the turn would hold 65 credentials; it may hold 64"},
		{func(i int) parley.TurnID { return parley.TurnID(fmt.Sprint(i)) }, strings.Repeat("v", maxHeldOf/20), "the memory for credentials is full"},
	} {
		c := credentials{hide: func(parley.SessionID, []string) {}}
		var err error
		for i := 0; err == nil; i++ {
			_, err = c.put(ana, "s", tc.turn(i), parley.Credentials{fmt.Sprint("C", i): tc.value}, now)
		}
		if parley.CodeOf(err) != parley.CodeBusy || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}
