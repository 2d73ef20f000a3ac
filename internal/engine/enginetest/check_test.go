package enginetest_test

import (
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestCheckLog: nothing of a turn may follow the end of its session, except in a fork.
func TestCheckLog(t *testing.T) {
	t.Parallel()
	begun := []parley.Event{
		parley.NewEvent("", "", parley.SessionCreated{App: "test", User: "ana"}),
		parley.NewEvent("", "", parley.SessionEnded{Status: parley.Ended}),
	}
	turn := parley.NewEvent("t", "", parley.TurnStarted{})
	for name, tc := range map[string]struct {
		log []parley.Event
		bad bool
	}{
		"a turn after the end":           {append(begun[:2:2], turn), true},
		"a turn of a fork after the end": {append(begun[:2:2], parley.NewEvent("", "", parley.SessionForked{Parent: "s"}), turn), false},
	} {
		for i := range tc.log {
			tc.log[i].Session, tc.log[i].Seq, tc.log[i].Time = "s", int64(i)+1, time.Unix(int64(i), 0)
		}
		if err := enginetest.CheckLog(tc.log); (err != nil) != tc.bad {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
