package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// asked puts an open interaction into a session of its own.
func asked(t *testing.T, s seam.Store, p parley.Principal, id string, change func(*seam.InteractionRow)) {
	t.Helper()
	row := seam.InteractionRow{Open: true, Interaction: parley.Interaction{
		ID: parley.InteractionID(id), Session: parley.SessionID("S-" + id), Kind: parley.KindPermission, OpenedAt: start,
	}}
	change(&row)
	b := creation(p, row.Session, 1)
	b.Index.Interactions = []seam.InteractionRow{row}
	must(t, s.Append(context.Background(), p, b))
}

func interactionIDs(t *testing.T, s seam.Store, p parley.Principal, q seam.InteractionQuery) (ids []string) {
	t.Helper()
	got, err := s.Interactions(context.Background(), p, q)
	must(t, err)
	for _, r := range got {
		ids = append(ids, string(r.ID))
	}
	return ids
}

func inbox(t *testing.T, s seam.Store) {
	ctx := context.Background()
	for i := range 7 {
		asked(t, s, ann, fmt.Sprint("i", i), func(r *seam.InteractionRow) {
			r.OpenedAt = at(i / 3) // three share each moment
			if i%2 == 0 {
				r.Kind = parley.KindQuestion
			}
		})
	}
	asked(t, s, bob, "b0", func(*seam.InteractionRow) {})
	page := func(p parley.Principal, after string, ms int) []string {
		t.Helper()
		q := seam.InteractionQuery{After: seam.InteractionMark{ID: parley.InteractionID(after)}, Limit: 3}
		if after != "" {
			q.After.Time, q.After.Session = at(ms), parley.SessionID("S-"+after)
		}
		return interactionIDs(t, s, p, q)
	}
	equal(t, "the first page", page(ann, "", 0), []string{"i0", "i1", "i2"})
	// The last interaction of a page may be answered before the next page is read.
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S-i2", Epoch: 1, After: 1, Index: seam.Index{Interactions: []seam.InteractionRow{
		{Interaction: parley.Interaction{ID: "i2", Session: "S-i2", Kind: parley.KindQuestion, OpenedAt: start}},
	}}}))
	equal(t, "the second page", page(ann, "i2", 0), []string{"i3", "i4", "i5"})
	equal(t, "the last page", page(ann, "i5", 1), []string{"i6"})
	equal(t, "after the last", page(ann, "i6", 2), []string(nil))
	equal(t, "after one that was never there", page(ann, "i5a", 1), []string{"i6"})
	equal(t, "his own after another's", page(bob, "a9", 0), []string{"b0"})
	equal(t, "everybody's after one", page(parley.System(), "i1", 0), []string{"i3", "i4", "i5"})

	for _, c := range []struct {
		p    parley.Principal
		want map[parley.InteractionKind]int
	}{
		{ann, map[parley.InteractionKind]int{parley.KindQuestion: 3, parley.KindPermission: 3}},
		{bob, map[parley.InteractionKind]int{parley.KindPermission: 1}},
		{ann2, map[parley.InteractionKind]int{}},
		{parley.System(), map[parley.InteractionKind]int{parley.KindQuestion: 3, parley.KindPermission: 4}},
	} {
		got, err := s.CountInteractions(ctx, c.p)
		must(t, err)
		equal(t, "open ones of "+c.p.User+c.p.Org, got, c.want)
	}
}

func due(t *testing.T, s seam.Store) {
	ctx := context.Background()
	for id, expires := range map[string]int{"a": 50, "b": 30, "c": 40, "never": 0, "d": 30} {
		asked(t, s, ann, id, func(r *seam.InteractionRow) {
			if expires > 0 {
				r.ExpiresAt = at(expires)
			}
		})
	}
	asked(t, s, bob, "e", func(r *seam.InteractionRow) { r.ExpiresAt = at(10) })
	asked(t, s, ann, "closed", func(r *seam.InteractionRow) { r.ExpiresAt, r.Open = at(5), false })
	for _, c := range []struct {
		name string
		p    parley.Principal
		q    seam.InteractionQuery
		want []string
	}{
		{"none yet", ann, seam.InteractionQuery{Due: at(30)}, nil},
		{"within the millisecond", ann, seam.InteractionQuery{Due: at(30).Add(1)}, []string{"b", "d"}},
		{"some", ann, seam.InteractionQuery{Due: at(45)}, []string{"b", "d", "c"}},
		{"all that ever are", ann, seam.InteractionQuery{Due: at(9999)}, []string{"b", "d", "c", "a"}},
		{"a page", ann, seam.InteractionQuery{Due: at(9999), Limit: 2}, []string{"b", "d"}},
		{"the next page", ann, seam.InteractionQuery{Due: at(9999), Limit: 2, After: seam.InteractionMark{Time: at(30), ID: "d", Session: "S-d"}}, []string{"c", "a"}},
		{"everybody's", parley.System(), seam.InteractionQuery{Due: at(45), Limit: -1}, []string{"e", "b", "d", "c"}},
	} {
		equal(t, c.name, interactionIDs(t, s, c.p, c.q), c.want)
	}
	// A page continues where the one before ended, even if its rows are closed by now.
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S-d", Epoch: 1, After: 1, Index: seam.Index{Interactions: []seam.InteractionRow{
		{Interaction: parley.Interaction{ID: "d", Session: "S-d", Kind: parley.KindPermission, OpenedAt: start, ExpiresAt: at(30)}},
	}}}))
	equal(t, "after one that was closed", interactionIDs(t, s, ann, seam.InteractionQuery{Due: at(9999), After: seam.InteractionMark{Time: at(30), ID: "d", Session: "S-d"}}), []string{"c", "a"})
}

func resting(t *testing.T, s seam.Store) {
	ctx := context.Background()
	turn := func(status parley.TurnStatus) *parley.TurnRef { return &parley.TurnRef{ID: "t", Status: status} }
	for i, in := range []parley.SessionInfo{
		{UpdatedAt: at(50)},
		{UpdatedAt: at(30), StepsSince: at(8)},
		{UpdatedAt: at(30), Turn: turn(parley.StatusInterrupted)},
		{UpdatedAt: at(20), Status: parley.Ended, StepsSince: at(5)},
		{UpdatedAt: at(10), App: "major", StepsSince: at(1)},
		{UpdatedAt: at(10), Waiting: 1, StepsSince: at(1)},
		{UpdatedAt: at(10), Turn: turn(parley.StatusRunning), StepsSince: at(1)},
		{UpdatedAt: at(10), Turn: turn(parley.StatusWaiting), StepsSince: at(1)},
		{UpdatedAt: at(98), Direct: true},
		{UpdatedAt: at(98), Direct: true, Waiting: 1},
	} {
		id := parley.SessionID(fmt.Sprint("S", i))
		b := creation(ann, id, 1)
		row := b.Index.Session
		row.UpdatedAt, row.StepsSince, row.Waiting, row.Turn, row.Direct = in.UpdatedAt, in.StepsSince, in.Waiting, in.Turn, in.Direct
		if in.App != "" {
			row.App = in.App
		}
		if in.Status != "" {
			row.Status = in.Status
		}
		must(t, s.Append(ctx, ann, b))
	}
	create(t, s, bob, "U", 1)
	for _, c := range []struct {
		name string
		p    parley.Principal
		q    seam.RestQuery
		want []string
	}{
		{"active ones", ann, seam.RestQuery{App: "notes", Status: parley.Active, Before: at(99)}, []string{"S1", "S2", "S0", "S8"}},
		{"those of direct calls", ann, seam.RestQuery{App: "notes", Status: parley.Active, Direct: true, Before: at(99)}, []string{"S8"}},
		{"old ones", ann, seam.RestQuery{App: "notes", Status: parley.Active, Before: at(31)}, []string{"S1", "S2"}},
		{"just not old enough", ann, seam.RestQuery{App: "notes", Status: parley.Active, Before: at(30)}, nil},
		{"ended ones", ann, seam.RestQuery{App: "notes", Status: parley.Ended, Before: at(99)}, []string{"S3"}},
		{"with old steps", ann, seam.RestQuery{App: "notes", Before: at(9)}, []string{"S3", "S1"}},
		{"of another app", ann, seam.RestQuery{App: "major", Before: at(9)}, []string{"S4"}},
		{"a page", ann, seam.RestQuery{App: "notes", Status: parley.Active, Before: at(99), Limit: 1}, []string{"S1"}},
		{"the next page", ann, seam.RestQuery{App: "notes", Status: parley.Active, Before: at(99), Limit: 1, After: seam.SessionMark{Time: at(30), ID: "S1"}}, []string{"S2"}},
		{"the next page of steps", ann, seam.RestQuery{App: "notes", Before: at(99), After: seam.SessionMark{Time: at(5), ID: "S3"}}, []string{"S1"}},
		{"everybody's", parley.System(), seam.RestQuery{App: "notes", Status: parley.Active, Before: at(99)}, []string{"U", "S1", "S2", "S0", "S8"}},
		{"an absent app's", ann, seam.RestQuery{App: "absent", Before: at(99)}, nil},
	} {
		got, err := s.Resting(ctx, c.p, c.q)
		must(t, err)
		equal(t, c.name, ids(got), c.want)
	}
	// A session that is used again does not count as unused until it is old again.
	in := info(ann, "S1")
	in.UpdatedAt, in.Turn = at(60), turn(parley.StatusRunning)
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S1", Epoch: 1, After: 1, Index: seam.Index{Session: &in}}))
	got, err := s.Resting(ctx, ann, seam.RestQuery{App: "notes", Status: parley.Active, Before: start.Add(time.Hour)})
	must(t, err)
	equal(t, "while one is used", ids(got), []string{"S2", "S0", "S8"})
}
