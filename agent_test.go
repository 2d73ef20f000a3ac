package parley_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// team is a turn whose agent lead has sub-agents a and b, of which b runs in the
// background.
type team struct {
	t *testing.T
	s parley.Session
}

func newTeam(t *testing.T) *team {
	l := &team{t: t}
	l.add("", parley.SessionCreated{App: "test", User: "ana"})
	l.add("", parley.TurnStarted{TurnRequest: parley.TurnRequest{Message: parley.Text(parley.RoleUser, "go")}})
	l.add("lead", parley.AgentStarted{Name: "lead"})
	l.add("lead/a", parley.AgentStarted{Name: "a", Parent: "lead", Call: "ka", Input: "do a"})
	l.add("lead/b", parley.AgentStarted{Name: "b", Parent: "lead", Call: "kb", Input: "do b", Background: true})
	return l
}

func (l *team) add(agent parley.AgentPath, p parley.Payload) {
	l.t.Helper()
	e := parley.NewEvent("t", agent, p)
	e.Session, e.Seq, e.Time = "s", l.s.Seq+1, time.Unix(l.s.Seq, 0)
	next := l.s.Clone()
	if err := next.Apply(e.WithData(e.Data)); err != nil {
		l.t.Fatal(err)
	}
	l.s = *next
}

func (l *team) asks(agent parley.AgentPath, id parley.InteractionID) {
	l.t.Helper()
	l.add(agent, parley.InteractionOpened{Interaction: parley.Interaction{ID: id, Agent: agent, Kind: parley.KindQuestion}})
}

func (l *team) wants(status parley.TurnStatus, clock bool) {
	l.t.Helper()
	if got := l.s.Turn.Status; got != status {
		l.t.Errorf("after event %d: got status %s, want %s", l.s.Seq, got, status)
	}
	if got := !l.s.Turn.RunningSince.IsZero(); got != clock {
		l.t.Errorf("after event %d: got a running clock %v, want %v", l.s.Seq, got, clock)
	}
}

// TestOneWaitsTheOthersGoOn: a turn waits when none of its agents can go on without a human.
func TestOneWaitsTheOthersGoOn(t *testing.T) {
	t.Parallel()
	l := newTeam(t)
	l.asks("lead/a", "qa")
	l.wants(parley.StatusRunning, true)
	l.asks("lead/b", "qb")
	l.wants(parley.StatusWaiting, false)
	l.add("lead/b", parley.InteractionAnswered{ID: "qb"})
	l.wants(parley.StatusRunning, true)
	l.add("lead/b", parley.AgentEnded{Outcome: parley.OutcomeOK, Result: "b is done"})
	l.wants(parley.StatusWaiting, false)
	l.add("", parley.InteractionExpired{ID: "qa"})
	l.wants(parley.StatusRunning, true)
	if got := l.s.Turn.Waiting; len(got) != 0 {
		t.Errorf("got %v, want nothing asked", got)
	}
}

// TestWhoWaitsForAnAnswer: a call made again is its first caller's, and an answer reaches
// whoever waits for it, whoever has been in charge since.
func TestWhoWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	l := newTeam(t)
	l.add("lead/a", parley.ToolRequested{Call: "first", Name: "mail"})
	l.add("", parley.ToolRequested{Call: "again", Name: "mail", Redo: "first"})
	l.add("", parley.InteractionOpened{Interaction: parley.Interaction{ID: "q", Call: "again", Kind: parley.KindPermission}})
	waiting := func() (who []parley.AgentPath) {
		for _, a := range l.s.Turn.Agents {
			if len(a.Waiting) > 0 {
				who = append(who, a.Path)
			}
		}
		return who
	}
	if got := waiting(); !cmp.Equal(got, []parley.AgentPath{"lead/a"}) {
		t.Errorf("got %v waiting for the permission, want the agent of the first call", got)
	}
	l.add("", parley.InteractionAnswered{ID: "q", Answer: parley.Answer{Choice: parley.ChoiceAllow}})
	l.add("", parley.InteractionOpened{Interaction: parley.Interaction{ID: "p", Kind: parley.KindQuestion}})
	if got := waiting(); !cmp.Equal(got, []parley.AgentPath{"lead"}) {
		t.Errorf("got %v waiting, want the agent in charge", got)
	}
	l.add("lead", parley.AgentHandoff{From: "lead", To: "other", Name: "other"})
	l.add("", parley.InteractionAnswered{ID: "p"})
	if got := waiting(); got != nil {
		t.Errorf("got %v waiting after the answer", got)
	}
}

// TestAgentsFailAlone: what one agent went through is not another's.
func TestAgentsFailAlone(t *testing.T) {
	t.Parallel()
	l := newTeam(t)
	for _, agent := range []parley.AgentPath{"lead/a", "lead/b"} {
		l.add(agent, parley.ModelStarted{Call: parley.CallID("c" + agent), Model: "m"})
	}
	l.add("lead/a", parley.ModelFailed{Call: "clead/a", Fallback: "n", Retry: true})
	l.add("lead/b", parley.ModelFailed{Call: "clead/b", Error: parley.ErrorInfo{Code: parley.CodeModel, Message: "no"}})
	type state struct {
		Failed  bool
		GivenUp []string
	}
	got := map[parley.AgentPath]state{}
	for _, a := range l.s.Turn.Agents {
		got[a.Path] = state{a.Failed != nil, a.GivenUp}
	}
	want := map[parley.AgentPath]state{"lead": {}, "lead/a": {GivenUp: []string{"m"}}, "lead/b": {Failed: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	l.add("lead/a/c", parley.AgentStarted{Name: "c", Parent: "lead/a", Call: "kc"})
	if got := l.s.Turn.Agent("lead/a/c").GivenUp; !cmp.Equal(got, []string{"m"}) {
		t.Errorf("got %v given up by a new sub-agent, want what its parent knows", got)
	}
	if l.s.Answered != nil || l.s.Turn.Spent.Depth != 0 {
		t.Errorf("got %v, depth %d: sub-agents are no handoffs", l.s.Answered, l.s.Turn.Spent.Depth)
	}
	l.add("", parley.TurnInterrupted{})
	l.add("", parley.TurnResumed{})
	for _, a := range l.s.Turn.Agents {
		if a.Failed != nil || a.GivenUp != nil {
			t.Errorf("%s still knows of failures after a resumption", a.Path)
		}
	}
}

// TestEndOfAgents: an agent that ends takes those below it along. Its parent is told of the
// end of one that ran in the background, once.
func TestEndOfAgents(t *testing.T) {
	t.Parallel()
	l := newTeam(t)
	l.add("lead/a/c", parley.AgentStarted{Name: "c", Parent: "lead/a", Call: "kc", Background: true})
	l.add("lead/a/c", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "to c")})
	l.add("lead/gone", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "to nobody")})
	if n := len(l.s.Turn.Agent("lead/a/c").Steers); n != 1 || len(l.s.Turn.Steers) != 1 {
		t.Errorf("got %d messages for c and %d for the agent in charge, want 1 each", n, len(l.s.Turn.Steers))
	}
	l.add("lead/a", parley.AgentEnded{Outcome: parley.OutcomeError, Result: "no"})
	c := l.s.Turn.Agent("lead/a/c")
	if !c.Ended || c.Outcome != parley.OutcomeCancelled {
		t.Errorf("got %+v, want an agent that ended with its parent", c)
	}
	if len(l.s.Turn.Steers) != 2 {
		t.Errorf("got %d messages for the agent in charge, want also what c had not read", len(l.s.Turn.Steers))
	}
	l.add("lead/b", parley.AgentEnded{Outcome: parley.OutcomeOK, Result: "b is done"})
	lead := l.s.Turn.Agent("lead")
	if diff := cmp.Diff([]parley.Item{{Kind: parley.ItemTask, From: "lead/b"}}, lead.Steers); diff != "" {
		t.Errorf("what lead is told (-want +got):\n%s", diff)
	}
	l.add("lead", parley.ModelStarted{Call: "c1"})
	lead = l.s.Turn.Agent("lead")
	if len(lead.Steers)+len(l.s.Turn.Steers) != 0 || len(lead.Items) != 3 {
		t.Errorf("got %+v, want all that was pending in the branch", lead)
	}
}

// TestOpenCalls: the calls that are open are found without looking at the others.
func TestOpenCalls(t *testing.T) {
	t.Parallel()
	l := newTeam(t)
	call := func(id parley.CallID, o parley.Outcome) {
		l.add("lead", parley.ToolRequested{Call: id, Name: "mail"})
		if o != "" {
			l.add("lead", parley.ToolEnded{ToolResult: parley.ToolResult{Call: id, Outcome: o}})
		}
	}
	for i := range 100 {
		call(callOf(i), parley.OutcomeOK)
	}
	call("open", "")
	call("lost", parley.OutcomeUnknown)
	call("done", parley.OutcomeOK)
	open := func() (ids []parley.CallID) {
		for i, c := range l.s.Turn.Tools.Open() {
			if ids = append(ids, c.Call); l.s.Turn.Tool(c.Call) == nil || i < 100 {
				t.Errorf("%s has position %d", c.Call, i)
			}
		}
		return ids
	}
	want := []parley.CallID{"open", "lost"}
	if diff := cmp.Diff(want, open()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	raw, err := l.s.Turn.Tools.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.s.Turn.Tools.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, open()); diff != "" {
		t.Errorf("read from JSON (-want +got):\n%s", diff)
	}
	l.add("lead", parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Agent: "lead", Kind: parley.KindUnknown, Call: "lost"}})
	l.add("lead", parley.InteractionAnswered{ID: "i", Answer: parley.Answer{Choice: parley.ChoiceLeave}})
	if diff := cmp.Diff([]parley.CallID{"open"}, open()); diff != "" {
		t.Errorf("after a decision (-want +got):\n%s", diff)
	}
}

// steps has the agent lead/a take so many steps, each with one call.
func (l *team) steps(n int) {
	l.t.Helper()
	for range n {
		call := parley.CallID(fmt.Sprint("c", l.s.Seq))
		l.add("lead/a", parley.ModelStarted{Call: call})
		l.add("lead/a", parley.ModelReplied{Call: call, Parts: []parley.Part{{Type: parley.PartToolCall, Call: "k" + call, Name: "look"}}})
		l.add("lead/a", parley.ToolRequested{Call: "k" + call, Name: "look"})
		l.add("lead/a", parley.ToolStarted{Call: "k" + call, Name: "look", Effect: parley.EffectRead})
		l.add("lead/a", parley.ToolEnded{Name: "look", ToolResult: parley.ToolResult{Call: "k" + call, Outcome: parley.OutcomeOK, Output: "seen"}})
	}
}

// TestManySteps counts the bytes that are allocated to take in an event: they do not grow with
// the steps that an agent has taken, besides the pointers to its calls.
func TestManySteps(t *testing.T) {
	cost := func(steps int) uint64 {
		l := newTeam(t)
		l.steps(steps)
		const times = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l.steps(times)
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / (5 * times)
	}
	few, many := cost(40), cost(2000)
	t.Logf("%d bytes after 40 steps, %d after 2,000", few, many)
	if many > few+few/3 {
		t.Errorf("an event takes %d bytes after 40 steps and %d after 2,000", few, many)
	}
}

// TestClonesAtOnce: copies of a fold that go on at once keep their own steps.
func TestClonesAtOnce(t *testing.T) {
	t.Parallel()
	from := newTeam(t)
	from.steps(3)
	ends := make([]team, 4)
	var all sync.WaitGroup
	for i := range ends {
		ends[i] = team{t: t, s: *from.s.Clone()}
		all.Go(func() {
			for n := range 9 {
				call := parley.CallID(fmt.Sprint(i, " ", n))
				ends[i].add("lead/a", parley.ModelStarted{Call: call})
				ends[i].add("lead/a", parley.ModelReplied{Call: call})
			}
		})
	}
	all.Wait()
	for i := range ends {
		items := ends[i].s.Turn.Agent("lead/a").Items
		if len(items) != 12 {
			t.Fatalf("copy %d has %d items, want 12", i, len(items))
		}
		for n, it := range items[3:] {
			if want := parley.CallID(fmt.Sprint(i, " ", n)); it.Call != want {
				t.Errorf("item %d of copy %d is of call %q, want %q", n, i, it.Call, want)
			}
		}
	}
	if n := len(from.s.Turn.Agent("lead/a").Items); n != 3 {
		t.Errorf("the original has %d items, want 3", n)
	}
}

// TestOfMemory: an instance keeps the memory however often the turn has tried it, and no agent
// does for its name's sake alone.
func TestOfMemory(t *testing.T) {
	t.Parallel()
	for path, want := range map[parley.AgentPath]bool{
		"memory": true, "lead/memory": true, "lead/memory#2": true, "lead": false, "lead/worker#2": false, "memory/worker": false, "lead/memory2": false, "": false,
	} {
		if got := path.OfMemory(); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}
