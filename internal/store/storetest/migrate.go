package storetest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Migrated checks that an older store, without the columns for retention, still finds
// everything. reopen removes those columns, closes the store and opens it again.
func Migrated(t *testing.T, s seam.Store, reopen func(seam.Store) seam.Store) {
	ctx := context.Background()
	for i := range 6 {
		id := parley.SessionID(fmt.Sprint("S", i))
		b := creation(ann, id, 1)
		in := b.Index.Session
		in.Title = `a title with "waiting":7, and ,"waiting":8 and \u0000` + "\x00"
		in.UpdatedAt = at(10 * i)
		switch i {
		case 1:
			in.Waiting = 2
		case 2:
			in.Turn = &parley.TurnRef{ID: "t", Status: parley.StatusRunning}
		case 3:
			in.Turn = &parley.TurnRef{ID: "t", Status: parley.StatusInterrupted}
		case 4:
			in.StepsSince = at(7)
		}
		b.Index.Interactions = []seam.InteractionRow{{Open: i != 5, Interaction: parley.Interaction{
			ID: parley.InteractionID(fmt.Sprint("i", i)), Session: id, Kind: parley.KindPermission, OpenedAt: start,
			Input: []byte(`{"expires_at":"tomorrow","kind":"sort of","opened_at":"now","text":"\u0000"}`),
		}}}
		if i%2 == 0 {
			b.Index.Interactions[0].ExpiresAt = at(100 - i)
		}
		must(t, s.Append(ctx, ann, b))
	}
	type found struct {
		Idle, Steps []string
		Due         []string
		Count       map[parley.InteractionKind]int
	}
	look := func(s seam.Store) (f found) {
		idle, err := s.Resting(ctx, ann, seam.RestQuery{App: "notes", Status: parley.Active, Before: start.Add(time.Hour)})
		must(t, err)
		steps, err := s.Resting(ctx, ann, seam.RestQuery{App: "notes", Before: start.Add(time.Hour)})
		must(t, err)
		f.Idle, f.Steps = ids(idle), ids(steps)
		f.Due = interactionIDs(t, s, ann, seam.InteractionQuery{Due: start.Add(time.Hour)})
		f.Count, err = s.CountInteractions(ctx, ann)
		must(t, err)
		return f
	}
	want := found{
		Idle: []string{"S0", "S3", "S4", "S5"}, Steps: []string{"S4"}, Due: []string{"i4", "i2", "i0"},
		Count: map[parley.InteractionKind]int{parley.KindPermission: 5},
	}
	equal(t, "before", look(s), want)
	// A condensed log, and a fork of it with copies of its events.
	log := map[parley.SessionID][]parley.Event{}
	for _, id := range []parley.SessionID{"P", "C"} {
		b := creation(bob, id, 1)
		if id == "C" {
			b.Index.Session.Parent = "P"
		}
		log[id] = b.Events
		must(t, s.Append(ctx, bob, b))
		var steps []parley.Event
		for i := range 4 {
			steps = append(steps, event(id, int64(len(b.Events)+1+i), "model.replied", `{"x":1}`))
		}
		must(t, s.Append(ctx, bob, seam.Batch{Session: id, Epoch: 1, After: int64(len(b.Events)), Events: steps}))
		log[id] = append(log[id], steps...)
	}
	n := int64(len(log["P"]))
	must(t, s.Append(ctx, bob, seam.Batch{Session: "P", Epoch: 1, After: n, Events: steered("P", n+1, 1), Condense: n - 2}))
	log["P"] = readAll(t, s, bob, "P")
	before := dump(t, s)
	s = reopen(s)
	equal(t, "after the migration", look(s), want)
	equal(t, "everything else", dump(t, s), before)
	goesOn(t, s, log, n)
}

// MigratedLists checks that an older store, whose lists have other indexes, has the same
// lists and sums, and keeps them right. reopen makes the old store and opens it.
func MigratedLists(t *testing.T, s seam.Store, reopen func(seam.Store) seam.Store) {
	ctx := context.Background()
	turn := func(status parley.TurnStatus) *parley.TurnRef { return &parley.TurnRef{ID: "t", Status: status} }
	hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour / 2) }
	for i, in := range []parley.SessionInfo{
		{Title: `"status":"waiting" and "waiting":0`},
		{Waiting: 1},
		{Turn: turn(parley.StatusRunning)},
		{Turn: turn(parley.StatusWaiting)},
		{Turn: turn(parley.StatusInterrupted)},
		{Direct: true},
		{Direct: true, Waiting: 1},
		{},
	} {
		for _, p := range people {
			b := creation(p, parley.SessionID(fmt.Sprint(p.User, p.Org, i)), 1+i)
			row := b.Index.Session
			row.Title, row.Waiting, row.Turn, row.Direct = in.Title, in.Waiting, in.Turn, in.Direct
			row.UpdatedAt, row.StepsSince = hour(7-i), hour(i%3)
			must(t, s.Append(ctx, p, b))
		}
	}
	type found struct {
		Listed, All, Idle, Steps, Direct []string
		Held, Everybody                  seam.Held
	}
	look := func(s seam.Store, p parley.Principal) (f found) {
		list := func(in []parley.SessionInfo, err error) []string { must(t, err); return ids(in) }
		f.Listed = list(s.Sessions(ctx, p, seam.SessionQuery{}))
		f.All = list(s.Sessions(ctx, p, seam.SessionQuery{Direct: true}))
		rest := seam.RestQuery{App: "notes", Before: start.Add(100 * time.Hour)}
		f.Steps = list(s.Resting(ctx, p, rest))
		rest.Status = parley.Active
		f.Idle = list(s.Resting(ctx, p, rest))
		rest.Direct = true
		f.Direct = list(s.Resting(ctx, p, rest))
		var err error
		f.Held, err = s.Held(ctx, p, "")
		must(t, err)
		f.Everybody, err = s.Held(ctx, parley.System(), "")
		must(t, err)
		return f
	}
	before, all := map[parley.Principal]found{}, dump(t, s)
	for _, p := range people {
		before[p] = look(s, p)
	}
	equal(t, "listed sessions", len(before[ann].Listed), 6)
	equal(t, "all sessions", len(before[ann].All), 8)
	equal(t, "sessions at rest", len(before[ann].Idle), 4)
	s = reopen(s)
	for _, p := range people {
		equal(t, "after the migration", look(s, p), before[p])
	}
	equal(t, "everything else", dump(t, s), all)
	// Its lists go on: one session runs, one waits, one is asleep again, one is gone.
	for i, change := range map[int]func(*parley.SessionInfo){
		7: func(in *parley.SessionInfo) { in.Turn = turn(parley.StatusRunning) },
		4: func(in *parley.SessionInfo) { in.Waiting = 1 },
		1: func(*parley.SessionInfo) {},
	} {
		id := parley.SessionID(fmt.Sprint("annacme", i))
		in := info(ann, id)
		in.UpdatedAt, in.StepsSince = hour(10+i), hour(i)
		change(&in)
		must(t, s.Append(ctx, ann, seam.Batch{Session: id, Epoch: 1, After: int64(1 + i), Events: steered(id, int64(2+i), 1), Index: seam.Index{Session: &in}}))
	}
	must(t, s.Delete(ctx, ann, "annacme5"))
	now := look(s, ann)
	equal(t, "all sessions in the end", now.All, []string{"annacme7", "annacme4", "annacme1", "annacme0", "annacme2", "annacme3", "annacme6"})
	equal(t, "at rest in the end", now.Idle, []string{"annacme0", "annacme1"})
	equal(t, "with steps in the end", now.Steps, []string{"annacme0", "annacme1"})
	equal(t, "direct ones in the end", len(now.Direct), 0)
	equal(t, "counted in the end", now.Held.Sessions, 6)
	sum := int64(0)
	for _, id := range now.All {
		held, err := s.Held(ctx, ann, parley.SessionID(id))
		must(t, err)
		sum += held.Bytes
	}
	equal(t, "held in the end", now.Held.Bytes, sum)
	equal(t, "held by everybody", now.Everybody.Bytes, sum+before[bob].Held.Bytes+before[ann2].Held.Bytes)
}

// goesOn uses two logs of an old store as any other: P, condensed up to n-2, and C,
// whose n events are copies.
func goesOn(t *testing.T, s seam.Store, log map[parley.SessionID][]parley.Event, n int64) {
	t.Helper()
	ctx := context.Background()
	check := func(when string) {
		t.Helper()
		for id, events := range log {
			equal(t, when+": the log of "+string(id), readAll(t, s, bob, id), events)
		}
	}
	check("as it was")
	fork := func(from, id parley.SessionID, at int64) {
		b := creation(bob, id, 1)
		b.After, b.Events, b.Index.Session.Parent = at, steered(id, at+1, 1), from
		must(t, s.Fork(ctx, bob, from, at, b))
		for _, e := range log[from][:at] {
			e.Session = id
			log[id] = append(log[id], e)
		}
		log[id] = append(log[id], b.Events...)
	}
	fork("P", "Q", n-1)
	fork("C", "D", n-1)
	fork("D", "E", n)
	check("forked")
	must(t, s.Append(ctx, bob, seam.Batch{Session: "C", Epoch: 1, After: n, Events: steered("C", n+1, 1), Condense: n}))
	for i, e := range log["C"] {
		if parley.IsStep(e.Type) {
			log["C"][i] = e.WithData(nil)
		}
	}
	log["C"] = append(log["C"], steered("C", n+1, 1)...)
	check("condensed")
	for _, gone := range []parley.SessionID{"P", "D", "C"} {
		must(t, s.Delete(ctx, bob, gone))
		delete(log, gone)
		check("without " + string(gone))
	}
}

// MigratesLongLogs checks that the migration of one long log takes about as long as that of
// the same events in a hundred sessions: nothing goes through a log again for each of its
// rows. migrated makes an old store whose 20,000 events are in so many sessions, a tenth of
// them closing an interaction, and opens it with the logger.
func MigratesLongLogs(t *testing.T, migrated func(sessions int, log *slog.Logger) (took time.Duration)) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	many, one := time.Duration(0), time.Duration(0)
	for range 3 { // other programs may have the processor meanwhile
		many, one = migrated(100, log), migrated(1, log)
		if !strings.Contains(said.String(), "the database is migrated") {
			t.Fatalf("the log does not say that the store is migrated: %q", &said)
		}
		if one < 8*many { // were it quadratic, 100 times as long
			return
		}
	}
	t.Errorf("one log takes %s, a hundred logs with as many events %s", one, many)
}
