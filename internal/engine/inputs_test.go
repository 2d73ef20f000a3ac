package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

// TestInputsAreBounded: the held inputs are bounded in total, for each user and in time. Nothing
// remains after they are dropped.
func TestInputsAreBounded(t *testing.T) {
	t.Parallel()
	var in inputs
	now := time.Unix(0, 0)
	put := func(user string, n, size int) inputKey {
		k := inputKey{call: parley.CallID(fmt.Sprint(n))}
		in.put(heldInput{inputKey: k, owner: parley.Principal{User: user}, session: parley.SessionID(user), body: make([]byte, size), since: now})
		return k
	}
	for u := range 40 {
		for n := range 12 {
			put(fmt.Sprint("user", u), n, 1<<20)
		}
		if in.bytes > maxInputs || in.users[parley.Principal{User: fmt.Sprint("user", u)}] > maxInputsOf {
			t.Fatalf("%d bytes are held, of one user %d", in.bytes, in.users[parley.Principal{User: fmt.Sprint("user", u)}])
		}
	}
	if in.get("user0", inputKey{call: "0"}, now) != nil {
		t.Error("the oldest is still there")
	}
	last := put("late", 1, 1<<10)
	put("late", 1, 1<<11)
	if got := in.get("late", last, now); len(got) != 1<<11 {
		t.Errorf("%d bytes are held under a key that was put twice", len(got))
	}
	if put("greedy", 1, maxInputsOf); in.get("greedy", inputKey{call: "1"}, now) != nil {
		t.Error("one that is too large is held")
	}
	in.drop("late", func(h *heldInput) bool { return h.call == last.call })
	if in.get("late", last, now) != nil {
		t.Error("the dropped input is still there")
	}
	in.tidy(now.Add(holdInput + time.Second))
	if in.bytes != 0 || in.order.Len() != 0 || len(in.of) != 0 || len(in.users) != 0 {
		t.Errorf("after its time there are %d bytes, %d entries, %d sessions, %d users", in.bytes, in.order.Len(), len(in.of), len(in.users))
	}
}
