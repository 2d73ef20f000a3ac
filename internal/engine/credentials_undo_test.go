package engine

import (
	"slices"
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
