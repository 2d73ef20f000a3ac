package loop

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/parley-server/parley"
)

// largeTurn makes a turn with this many calls. All have ended except for the last four: two of its
// agent and two of a sub-agent.
func largeTurn(tb testing.TB, calls int) *parley.Session {
	tb.Helper()
	es := join(asked(parley.Budgets{}), parley.AgentStarted{Name: "front"})
	const each = 250 // nearly as many as a reply may hold
	for n := 0; n < calls; n += each {
		var parts []parley.Part
		var ends []any
		for i := n; i < min(n+each, calls); i++ {
			call := fmt.Sprintf("k%d", i)
			parts = append(parts, tool(call, "look", fmt.Sprintf(`{"n":%d}`, i)))
			ends = append(ends, ended(call, "seen"))
		}
		es = join(es, says("front", fmt.Sprintf("c%d", n), parts...), ends)
	}
	es = join(es, says("front", "last", tool("w", "Task", `{"description":"x","prompt":"x","subagent_type":"worker"}`), tool("x", "look", `{}`)),
		by("front/worker", parley.AgentStarted{Name: "worker", Parent: "front", Call: "w", Input: "x"}),
		says("front/worker", "sub", tool("y", "look", `{}`), tool("z", "look", `{}`)))
	return fold(tb, es...)
}

// oneRound does what the loop does at each completion, besides the work itself.
func oneRound(tb testing.TB, g given, s *parley.Session) {
	now := s.Clone()
	if got := len(next(g, now)); got != 3 {
		tb.Fatalf("got %d actions, want 3 reads", got)
	}
}

// TestLargeTurns counts the bytes that are allocated each time something in a turn is done. They do
// not grow with the number of calls that the turn has made.
func TestLargeTurns(t *testing.T) {
	g := testGiven(team)
	cost := func(calls int) uint64 {
		s := largeTurn(t, calls)
		const times = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			oneRound(t, g, s)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / times
	}
	few, many := cost(20), cost(2000)
	t.Logf("%d bytes at 20 calls, %d at 2,000", few, many)
	if many > few+few/4 {
		t.Errorf("a round takes %d bytes in a turn of 20 calls and %d in one of 2,000", few, many)
	}
}

// BenchmarkLargeTurns measures the loop's own work whenever something in a turn is done.
func BenchmarkLargeTurns(b *testing.B) {
	g := testGiven(team)
	for _, calls := range []int{20, 200, 2000} {
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			s := largeTurn(b, calls)
			b.ReportAllocs()
			for b.Loop() {
				oneRound(b, g, s)
			}
		})
	}
}
