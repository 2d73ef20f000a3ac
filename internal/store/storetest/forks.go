package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// forked makes session id a fork of from, with the events up to at and one of its own.
func forked(t testing.TB, s seam.Store, from, id parley.SessionID, at int64) {
	t.Helper()
	in := info(ann, id)
	in.Parent = from
	must(t, s.Fork(context.Background(), ann, from, at, seam.Batch{
		Session: id, Create: true, Owner: "node-1", After: at, Events: steered(id, at+1, 1), Index: seam.Index{Session: &in},
	}))
}

// forks checks that forks of forks read the same whichever sessions between them are
// deleted, page by page, and that events no session reads are deleted.
func forks(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "A", 6)
	forked(t, s, "A", "B", 4)
	must(t, s.Append(ctx, ann, seam.Batch{Session: "B", Epoch: 1, After: 5, Events: steered("B", 6, 3)}))
	forked(t, s, "B", "C", 7)
	forked(t, s, "C", "D", 8)
	forked(t, s, "D", "E", 2)
	length := map[parley.SessionID]int{"A": 6, "B": 8, "C": 8, "D": 9, "E": 3}
	check := func(when string) {
		t.Helper()
		for id, n := range length {
			equal(t, fmt.Sprintf("%s: the log of %s", when, id), withoutTurns(readAll(t, s, ann, id)), withoutTurns(steered(id, 1, n)))
			for after := range n {
				page, err := s.Read(ctx, ann, id, int64(after), 2)
				must(t, err)
				equal(t, fmt.Sprintf("%s: a page of %s after %d", when, id, after), withoutTurns(page), withoutTurns(steered(id, 1, n)[after:min(after+2, n)]))
			}
			_, err := s.Read(ctx, bob, id, 0, 0)
			want(t, "bob reads "+string(id), err, parley.CodeNotFound)
		}
	}
	check("all there")
	for _, gone := range []parley.SessionID{"B", "A", "D"} {
		must(t, s.Delete(ctx, ann, gone))
		delete(length, gone)
		_, err := s.Read(ctx, parley.System(), gone, 0, 0)
		want(t, "read of "+string(gone), err, parley.CodeNotFound)
		check("without " + string(gone))
	}
	forked(t, s, "C", "F", 8)
	length["F"] = 9
	check("forked again")
	for _, gone := range []parley.SessionID{"C", "E", "F"} {
		must(t, s.Delete(ctx, ann, gone))
		delete(length, gone)
		check("without " + string(gone))
	}
	if rows, ok := s.(interface{ EventRows() (int, error) }); ok {
		n, err := rows.EventRows()
		if err != nil || n != 0 {
			t.Errorf("got %d rows of events, %v, after everything was deleted", n, err)
		}
	}
}

// withoutTurns leaves out the turn ids, which steered derives from the session's own id.
// A fork has its parent's.
func withoutTurns(events []parley.Event) []parley.Event {
	out := slices.Clone(events)
	for i := range out {
		out[i].Turn = ""
	}
	return out
}

// condensedForks checks that each session loses only the steps that it condensed itself.
func condensedForks(t *testing.T, s seam.Store) {
	ctx := context.Background()
	b := creation(ann, "A", 6)
	for i := range b.Events {
		b.Events[i].Type = "model.replied"
	}
	must(t, s.Append(ctx, ann, b))
	lacks := map[parley.SessionID]int64{}
	check := func(when string) {
		t.Helper()
		for id, to := range lacks {
			for _, e := range readAll(t, s, ann, id) {
				if want := e.Seq <= to && parley.IsStep(e.Type); (e.Data == nil) != want {
					t.Errorf("%s: event %d of %s has data %q, want none: %v", when, e.Seq, id, e.Data, want)
				}
			}
		}
	}
	condense := func(id parley.SessionID, to int64) {
		t.Helper()
		in, err := s.Session(ctx, ann, id)
		must(t, err)
		must(t, s.Append(ctx, ann, seam.Batch{
			Session: id, Epoch: 1, After: in.Version, Condense: to,
			Events: []parley.Event{event(id, in.Version+1, "history.condensed", `{"from":1}`)},
		}))
		lacks[id] = to
		check(fmt.Sprint(id, " condensed to ", to))
	}
	lacks["A"] = 0
	condense("A", 1)
	forked(t, s, "A", "B", 5) // A has condensed the first
	lacks["B"] = 1
	check("forked")
	condense("A", 6)
	forked(t, s, "B", "C", 4)
	lacks["C"] = 1
	condense("C", 2)
	forked(t, s, "A", "D", 3)
	lacks["D"] = 3
	check("forked of what is condensed")
	must(t, s.Delete(ctx, ann, "A"))
	delete(lacks, "A")
	check("without A")
	condense("B", 3)
	must(t, s.Delete(ctx, ann, "B"))
	delete(lacks, "B")
	check("without B")
	if rows, ok := s.(interface{ StepRows() (int, error) }); ok {
		// C reads events 3 and 4. No session reads the others.
		if n, err := rows.StepRows(); err != nil || n != 2 {
			t.Errorf("got %d rows of steps with data, %v, want 2", n, err)
		}
	}
	must(t, s.Delete(ctx, ann, "C"))
	delete(lacks, "C")
	check("without C")
}

// ended returns a turn's row after the event that ended it.
func ended(id parley.TurnID, of parley.SessionID, status parley.TurnStatus, first, last int64) parley.TurnInfo {
	return parley.TurnInfo{
		ID: id, SessionID: of, Status: status, Message: `with "last_seq":7, in it` + "\x00", CreatedAt: at(int(first)), UpdatedAt: at(int(last)), FirstSeq: first, LastSeq: last,
	}
}

// told returns the turns that a session lists, newest first.
func told(t testing.TB, s seam.Store, p parley.Principal, id parley.SessionID) (out []string) {
	t.Helper()
	list, err := s.Turns(context.Background(), p, seam.TurnQuery{Session: id})
	must(t, err)
	for _, in := range list {
		if in.SessionID != id {
			t.Errorf("turn %s of %s claims to belong to %s", in.ID, id, in.SessionID)
		}
		out = append(out, fmt.Sprint(in.ID, " ", in.Status))
	}
	return out
}

// forkedTurns checks that a fork has the turns that ended before the fork point, and its
// own rows of turns that it closes itself. It keeps both whatever happens to the other
// sessions.
func forkedTurns(t *testing.T, s seam.Store) {
	ctx := context.Background()
	b := creation(ann, "A", 6)
	b.Index.Turns = []parley.TurnInfo{
		ended("t1", "A", parley.StatusCompleted, 1, 2), ended("t2", "A", parley.StatusFailed, 3, 4),
		ended("t3", "A", parley.StatusRunning, 5, 5), ended("t4", "A", parley.StatusPending, 2, 2), ended("t5", "A", parley.StatusInterrupted, 3, 3),
	}
	must(t, s.Append(ctx, ann, b))
	fork := func(from, id parley.SessionID, at int64, own ...parley.TurnInfo) {
		t.Helper()
		in := info(ann, id)
		in.Parent = from
		must(t, s.Fork(ctx, ann, from, at, seam.Batch{
			Session: id, Create: true, Owner: "node-1", After: at, Events: steered(id, at+1, 1), Index: seam.Index{Session: &in, Turns: own},
		}))
	}
	lists := map[parley.SessionID][]string{"A": {"t5 interrupted", "t4 pending", "t3 running", "t2 failed", "t1 completed"}}
	check := func(when string) {
		t.Helper()
		for id, want := range lists {
			equal(t, when+": turns of "+string(id), told(t, s, ann, id), want)
			equal(t, when+": turns that bob sees of "+string(id), told(t, s, bob, id), []string(nil))
		}
	}
	fork("A", "B", 5, ended("t3", "B", parley.StatusCancelled, 5, 6))
	lists["B"] = []string{"t3 cancelled", "t2 failed", "t1 completed"}
	fork("A", "C", 3)
	lists["C"] = []string{"t1 completed"}
	fork("B", "D", 6)
	lists["D"] = lists["B"]
	fork("B", "E", 5)
	lists["E"] = []string{"t2 failed", "t1 completed"}
	check("forked")

	must(t, s.Append(ctx, ann, seam.Batch{
		Session: "A", Epoch: 1, After: 6, Events: steered("A", 7, 1), Index: seam.Index{Turns: []parley.TurnInfo{ended("t3", "A", parley.StatusCompleted, 5, 7)}},
	}))
	lists["A"] = []string{"t5 interrupted", "t4 pending", "t3 completed", "t2 failed", "t1 completed"}
	fork("A", "F", 7)
	lists["F"] = []string{"t3 completed", "t2 failed", "t1 completed"}
	check("ended in the parent")
	live, err := s.Turns(ctx, parley.System(), seam.TurnQuery{Statuses: []parley.TurnStatus{parley.StatusPending, parley.StatusInterrupted}})
	must(t, err)
	if len(live) != 2 {
		t.Errorf("got %d live turns, want the 2 of the parent: %+v", len(live), live)
	}

	for _, gone := range []parley.SessionID{"A", "B", "D"} {
		got, err := s.Turn(ctx, ann, "t1")
		must(t, err)
		equal(t, "the turn, found by its id", got, ended("t1", gone, parley.StatusCompleted, 1, 2))
		must(t, s.Delete(ctx, ann, gone))
		delete(lists, gone)
		if gone == "B" {
			must(t, s.Delete(ctx, ann, "C"))
			delete(lists, "C")
		}
		check("without " + string(gone))
	}
	for id := range lists {
		must(t, s.Delete(ctx, ann, id))
	}
	left, err := s.Turns(ctx, parley.System(), seam.TurnQuery{Limit: -1})
	must(t, err)
	equal(t, "turns of sessions that are gone", left, []parley.TurnInfo(nil))
}

// MigratedForks checks that a fork from before forks had rows of turns gets them. reopen
// removes the rows and the column they are found by, closes the store and opens it
// again.
func MigratedForks(t *testing.T, s seam.Store, reopen func(seam.Store) seam.Store) {
	ctx := context.Background()
	b := creation(ann, "A", 6)
	b.Index.Turns = []parley.TurnInfo{ended("t1", "A", parley.StatusCompleted, 1, 2), ended("t2", "A", parley.StatusFailed, 3, 4), ended("t3", "A", parley.StatusRunning, 5, 5)}
	must(t, s.Append(ctx, ann, b))
	forked(t, s, "A", "B", 4)
	must(t, s.Append(ctx, ann, seam.Batch{
		Session: "B", Epoch: 1, After: 5, Events: steered("B", 6, 2), Index: seam.Index{Turns: []parley.TurnInfo{ended("t4", "B", parley.StatusCompleted, 6, 7)}},
	}))
	forked(t, s, "B", "C", 7)
	forked(t, s, "A", "D", 3)
	lists := map[parley.SessionID][]string{
		"A": {"t3 running", "t2 failed", "t1 completed"}, "B": {"t4 completed", "t2 failed", "t1 completed"},
		"C": {"t4 completed", "t2 failed", "t1 completed"}, "D": {"t1 completed"},
	}
	check := func(when string) {
		t.Helper()
		for id, want := range lists {
			equal(t, when+": turns of "+string(id), told(t, s, ann, id), want)
		}
	}
	check("before")
	s = reopen(s)
	check("after the migration")
	forked(t, s, "A", "E", 4)
	lists["E"] = []string{"t2 failed", "t1 completed"}
	check("forked")
}

// question returns an interaction's row after event number last.
func question(id parley.InteractionID, of parley.SessionID, last int64, open bool) seam.InteractionRow {
	row := seam.InteractionRow{Open: open, LastSeq: last, Interaction: parley.Interaction{
		ID: id, Session: of, Kind: parley.KindQuestion, Title: `with "id":"q9", in it` + "\x00", OpenedAt: at(1), ExpiresAt: at(900),
	}}
	if !open {
		row.Answer, row.AnsweredBy = &parley.Answer{Text: "yes"}, "ann"
	}
	return row
}

// whoseQuestions returns the session in which ann finds each interaction, or "".
func whoseQuestions(t testing.TB, s seam.Store, ids ...parley.InteractionID) map[parley.InteractionID]parley.SessionID {
	t.Helper()
	found := map[parley.InteractionID]parley.SessionID{}
	for _, id := range ids {
		row, err := s.Interaction(context.Background(), ann, id)
		if parley.CodeOf(err) != parley.CodeNotFound {
			must(t, err)
		}
		found[id] = row.Session
		if err == nil {
			equal(t, "interaction "+string(id), row, question(id, row.Session, row.LastSeq, row.Open))
		}
		_, err = s.Interaction(context.Background(), bob, id)
		want(t, "bob's look at interaction "+string(id), err, parley.CodeNotFound)
	}
	return found
}

// forkedInteractions checks that a fork has the interactions that were closed before the
// fork point, and its own rows of those that it closes itself. It keeps both whatever
// happens to the other sessions.
func forkedInteractions(t *testing.T, s seam.Store) {
	ctx := context.Background()
	b := creation(ann, "A", 6)
	b.Index.Interactions = []seam.InteractionRow{question("q1", "A", 2, false), question("q2", "A", 4, false), question("q3", "A", 3, true)}
	must(t, s.Append(ctx, ann, b))
	fork := func(from, id parley.SessionID, at int64, own ...seam.InteractionRow) {
		t.Helper()
		in := info(ann, id)
		in.Parent = from
		must(t, s.Fork(ctx, ann, from, at, seam.Batch{
			Session: id, Create: true, Owner: "node-1", After: at, Events: steered(id, at+1, 1), Index: seam.Index{Session: &in, Interactions: own},
		}))
	}
	fork("A", "B", 3, question("q3", "B", 4, false))
	fork("A", "C", 5)
	fork("B", "D", 4)
	fork("B", "E", 3)
	must(t, s.Append(ctx, ann, seam.Batch{Session: "A", Epoch: 1, After: 6, Events: steered("A", 7, 1), Index: seam.Index{
		Interactions: []seam.InteractionRow{question("q3", "A", 7, false)},
	}}))
	type found = map[parley.InteractionID]parley.SessionID
	check := func(when string, want found) {
		t.Helper()
		equal(t, when, whoseQuestions(t, s, "q1", "q2", "q3"), want)
		open, err := s.Interactions(ctx, parley.System(), seam.InteractionQuery{})
		must(t, err)
		if len(open) != 0 {
			t.Errorf("%s: open are %+v", when, open)
		}
	}
	check("forked", found{"q1": "A", "q2": "A", "q3": "A"})
	for _, c := range []struct {
		gone parley.SessionID
		want found
	}{
		{"A", found{"q1": "B", "q2": "C", "q3": "B"}},
		{"B", found{"q1": "C", "q2": "C", "q3": "D"}},
		{"C", found{"q1": "D", "q2": "", "q3": "D"}},
		{"D", found{"q1": "E", "q2": "", "q3": ""}},
		{"E", found{"q1": "", "q2": "", "q3": ""}},
	} {
		must(t, s.Delete(ctx, ann, c.gone))
		check("without "+string(c.gone), c.want)
	}
}

// MigratedQuestions is MigratedForks for interactions. The event that closed one is
// found in the log.
func MigratedQuestions(t *testing.T, s seam.Store, reopen func(seam.Store) seam.Store) {
	ctx := context.Background()
	b := creation(ann, "A", 6)
	b.Events[1] = event("A", 2, "interaction.answered", `{"id":"q1","answer":{"text":"\u0000","input":{"id":"q2"}},"by":"ann"}`)
	b.Events[3] = event("A", 4, "interaction.expired", `{"id":"q2","reason":"late"}`)
	b.Index.Interactions = []seam.InteractionRow{question("q1", "A", 2, false), question("q2", "A", 4, false), question("q3", "A", 5, true)}
	must(t, s.Append(ctx, ann, b))
	imported := creation(ann, "I", 3) // it closes what its log left open, without an event that names it
	imported.Events[2] = event("I", 3, "session.forked", `{"parent":"elsewhere","at":2}`)
	imported.Index.Interactions = []seam.InteractionRow{question("q4", "I", 3, false)}
	must(t, s.Append(ctx, ann, imported))
	forked(t, s, "A", "B", 4)
	forked(t, s, "A", "C", 3)
	forked(t, s, "I", "J", 2)
	forked(t, s, "I", "K", 3)
	s = reopen(s)
	type found = map[parley.InteractionID]parley.SessionID
	for _, c := range []struct {
		gone parley.SessionID
		want found
	}{
		{"I", found{"q1": "A", "q2": "A", "q3": "A", "q4": "K"}},
		{"A", found{"q1": "B", "q2": "B", "q3": "", "q4": "K"}},
		{"B", found{"q1": "C", "q2": "", "q3": "", "q4": "K"}},
	} {
		must(t, s.Delete(ctx, ann, c.gone))
		equal(t, "without "+string(c.gone), whoseQuestions(t, s, "q1", "q2", "q3", "q4"), c.want)
	}
}
