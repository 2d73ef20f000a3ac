package parley_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

// turnOf is a session whose turn has made n calls, which have ended but for the last.
func turnOf(tb testing.TB, n int) parley.Session {
	tb.Helper()
	var s parley.Session
	add := func(p parley.Payload) {
		e := parley.NewEvent("t", "lead", p)
		e.Session, e.Seq, e.Time = "s", s.Seq+1, time.Unix(s.Seq, 0)
		if err := s.Apply(e); err != nil {
			tb.Fatal(err)
		}
	}
	add(parley.SessionCreated{App: "test", User: "ana"})
	add(parley.TurnStarted{TurnRequest: parley.TurnRequest{Message: parley.Text(parley.RoleUser, "go")}})
	add(parley.AgentStarted{Name: "lead"})
	for i := range n {
		call := callOf(i)
		add(parley.ToolRequested{Call: call, Name: "look", Input: []byte(`{}`)})
		add(parley.ToolStarted{Call: call, Name: "look", Input: []byte(`{}`), Effect: parley.EffectRead, Attempt: 1})
		if i < n-1 {
			add(parley.ToolEnded{Name: "look", ToolResult: parley.ToolResult{Call: call, Outcome: parley.OutcomeOK, Output: "seen"}})
		}
	}
	return s
}

func callOf(i int) parley.CallID { return parley.CallID(fmt.Sprintf("c%05d", i)) }

// oneEvent clones s and ends a call in the clone.
func oneEvent(tb testing.TB, s parley.Session, call parley.CallID) {
	next := s.Clone()
	e := parley.NewEvent("t", "lead", parley.ToolEnded{Name: "look", ToolResult: parley.ToolResult{Call: call, Outcome: parley.OutcomeOK}})
	e.Session, e.Seq = "s", s.Seq+1
	if err := next.Apply(e); err != nil {
		tb.Fatal(err)
	}
}

// TestTurnOfManyCalls counts the bytes that a copy of a turn and one event in it
// allocate: they do not grow with the calls that the turn has made.
func TestTurnOfManyCalls(t *testing.T) {
	cost := func(calls int) uint64 {
		s := turnOf(t, calls)
		const times = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range times {
			oneEvent(t, s, callOf(calls-1-i))
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / times
	}
	few, many := cost(100), cost(1000)
	t.Logf("%d bytes at 100 calls, %d at 1,000", few, many)
	if many > 2*few || many > 16<<10 {
		t.Errorf("an event takes %d bytes in a turn of 100 calls and %d in one of 1,000", few, many)
	}
}

func BenchmarkTurnOfManyCalls(b *testing.B) {
	for _, calls := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			s := turnOf(b, calls)
			b.ReportAllocs()
			for b.Loop() {
				oneEvent(b, s, callOf(calls-1))
			}
		})
	}
}
