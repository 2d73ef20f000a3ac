package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// rowOf makes a row.
func rowOf(kind, id string, due int, body string) seam.Row {
	r := seam.Row{RowName: seam.RowName{Kind: kind, ID: id}, Open: true, Body: json.RawMessage(body)}
	if due != 0 {
		r.Due = at(due)
	}
	return r
}

func putRow(t testing.TB, s seam.Store, p parley.Principal, r seam.Row) int64 {
	t.Helper()
	v, err := s.PutRow(context.Background(), p, r)
	must(t, err)
	return v
}

// rowsAs lists rows as "owner/id body".
func rowsAs(t testing.TB, s seam.Store, p parley.Principal, q seam.RowQuery) (out []string) {
	t.Helper()
	all, err := s.Rows(context.Background(), p, q)
	must(t, err)
	for _, r := range all {
		out = append(out, r.User+"@"+r.Org+"/"+r.ID+" "+string(r.Body))
	}
	return out
}

// ownRows: users may use the same ids, a row comes back as it was put, and lists are in order.
func ownRows(t *testing.T, s seam.Store) {
	ctx := context.Background()
	r := rowOf(seam.RowDevice, "phone", 10, `{"text":"\u0000 <b>","n":1}`)
	r.Due = r.Due.Add(300 * time.Microsecond)
	v := putRow(t, s, ann, r)
	got, err := s.Row(ctx, ann, r.RowName)
	must(t, err)
	r.User, r.Org, r.Version, r.Due = ann.User, ann.Org, v, at(10)
	equal(t, "the row", got, r)

	putRow(t, s, bob, rowOf(seam.RowDevice, "phone", 0, "2"))
	putRow(t, s, ann2, rowOf(seam.RowDevice, "phone", 5, "3"))
	putRow(t, s, ann, rowOf(seam.RowDevice, "laptop", 20, "4"))
	putRow(t, s, ann, rowOf(seam.RowTimer, "phone", 1, "5"))
	shut := rowOf(seam.RowDevice, "old", 1, "")
	shut.Open = false
	putRow(t, s, ann, shut)
	own := rowOf(seam.RowDevice, "of the server", 30, "6")
	putRow(t, s, parley.System(), own)
	for _, c := range []struct {
		p    parley.Principal
		q    seam.RowQuery
		want []string
	}{
		{ann, seam.RowQuery{Kind: seam.RowDevice}, []string{"ann@acme/laptop 4", "ann@acme/old ", `ann@acme/phone {"text":"\u0000 <b>","n":1}`}},
		{ann, seam.RowQuery{Kind: seam.RowDevice, Open: true}, []string{"ann@acme/laptop 4", `ann@acme/phone {"text":"\u0000 <b>","n":1}`}},
		{ann, seam.RowQuery{Kind: seam.RowDevice, Shut: true}, []string{"ann@acme/old "}},
		{ann, seam.RowQuery{Kind: seam.RowDevice, Due: at(20)}, []string{`ann@acme/phone {"text":"\u0000 <b>","n":1}`}},
		{ann, seam.RowQuery{Kind: seam.RowDevice, User: "bob", Org: "acme"}, []string{"ann@acme/laptop 4", "ann@acme/old ", `ann@acme/phone {"text":"\u0000 <b>","n":1}`}},
		{bob, seam.RowQuery{Kind: seam.RowDevice}, []string{"bob@acme/phone 2"}},
		{bob, seam.RowQuery{Kind: seam.RowTimer}, nil},
		{nobody, seam.RowQuery{Kind: seam.RowDevice}, nil},
		{parley.System(), seam.RowQuery{Kind: seam.RowDevice, Due: at(1000)}, []string{"ann@other/phone 3", `ann@acme/phone {"text":"\u0000 <b>","n":1}`, "ann@acme/laptop 4", "@/of the server 6"}},
		{parley.System(), seam.RowQuery{Kind: seam.RowDevice, User: "ann", Org: "other"}, []string{"ann@other/phone 3"}},
		{parley.System(), seam.RowQuery{Kind: seam.RowTimer}, []string{"ann@acme/phone 5"}},
	} {
		equal(t, fmt.Sprintf("%v %+v", c.p, c.q), rowsAs(t, s, c.p, c.q), c.want)
	}
	if _, err := s.Row(ctx, ann, own.RowName); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("the server's own row: %v", err)
	}
	if err := s.DropRow(ctx, bob, seam.RowName{Kind: seam.RowDevice, User: "ann", Org: "acme", ID: "laptop"}, seam.AnyRow); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("bob drops ann's: %v", err)
	}
	must(t, s.DropRow(ctx, ann, shut.RowName, seam.AnyRow))
	equal(t, "without the old one", len(rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowDevice})), 2)
	equal(t, "all kinds", len(rowsAs(t, s, parley.System(), seam.RowQuery{Limit: -1})), 6)
	for what, bad := range map[string]seam.Row{
		"no kind": rowOf("", "x", 0, ""), "a strange kind": rowOf("A b", "x", 0, ""), "no id": rowOf("timer", "", 0, ""), "a long id": rowOf("timer", strings.Repeat("x", 201), 0, ""),
		"no JSON": rowOf("timer", "x", 0, "{"), "an early time": {RowName: seam.RowName{Kind: "timer", ID: "x"}, Due: time.Unix(-5, 0)},
		"a strange version": {RowName: seam.RowName{Kind: "timer", ID: "x"}, Version: -2},
	} {
		if _, err := s.PutRow(ctx, ann, bad); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.PutRow(ctx, nobody, rowOf("timer", "x", 0, "")); parley.CodeOf(err) != parley.CodeForbidden {
		t.Errorf("without an owner: %v", err)
	}
	if _, err := s.Rows(ctx, ann, seam.RowQuery{}); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("a list without a kind: %v", err)
	}
}

// rowVersions: no version is used twice, and a put or drop at another version changes nothing.
func rowVersions(t *testing.T, s seam.Store) {
	ctx := context.Background()
	r := rowOf(seam.RowSchedule, "daily", 0, "1")
	n := r.RowName
	r.Version = 7
	_, err := s.PutRow(ctx, ann, r)
	want(t, "a put at a version that there never was", err, parley.CodeConflict)
	r.Version = seam.NoRow
	v1 := putRow(t, s, ann, r)
	_, err = s.PutRow(ctx, ann, r)
	want(t, "a new row that exists", err, parley.CodeConflict)
	r.Version, r.Body = v1, json.RawMessage("2")
	v2 := putRow(t, s, ann, r)
	if v2 <= v1 {
		t.Errorf("got version %d after %d", v2, v1)
	}
	_, err = s.PutRow(ctx, ann, r)
	want(t, "a put at an old version", err, parley.CodeConflict)
	want(t, "a drop at an old version", s.DropRow(ctx, ann, n, v1), parley.CodeConflict)
	got, err := s.Row(ctx, ann, n)
	must(t, err)
	if got.Version != v2 || string(got.Body) != "2" {
		t.Errorf("got %+v", got)
	}
	must(t, s.DropRow(ctx, ann, n, v2))
	want(t, "a second drop", s.DropRow(ctx, ann, n, v2), parley.CodeNotFound)
	r.Version = v2
	_, err = s.PutRow(ctx, ann, r)
	want(t, "a put of what is gone", err, parley.CodeConflict)
	r.Version = seam.NoRow
	if v3 := putRow(t, s, ann, r); v3 <= v2 {
		t.Errorf("a new row has version %d, and the one before had %d", v3, v2)
	}
}

// rowClaims: many workers want each due row, and one of them gets it.
func rowClaims(t *testing.T, s seam.Store) {
	ctx, sys := context.Background(), parley.System()
	const rows, workers = 20, 8
	for i := range rows {
		putRow(t, s, people[i%3], rowOf(seam.RowOutbox, fmt.Sprint("r", i), 1+i, "0"))
	}
	var mu sync.Mutex
	var won [rows]int
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			due, err := s.Rows(ctx, sys, seam.RowQuery{Kind: seam.RowOutbox, Due: at(1000), Limit: rows})
			if err != nil {
				t.Error(err)
			}
			for _, r := range due {
				var i int
				fmt.Sscanf(r.ID, "r%d", &i)
				r.Due, r.Body = at(5000), fmt.Appendf(nil, "%d", w)
				if _, err := s.PutRow(ctx, sys, r); err == nil {
					mu.Lock()
					won[i]++
					mu.Unlock()
				} else if parley.CodeOf(err) != parley.CodeConflict {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, n := range won {
		if n != 1 {
			t.Errorf("row %d was claimed %d times", i, n)
		}
	}
	if due, err := s.Rows(ctx, sys, seam.RowQuery{Kind: seam.RowOutbox, Due: at(1000)}); err != nil || len(due) > 0 {
		t.Errorf("%d are still due, %v", len(due), err)
	}
}

// rowsOfAppends: rows are there exactly if the append took place.
func rowsOfAppends(t *testing.T, s seam.Store) {
	ctx := context.Background()
	b := creation(ann, "S", 1)
	b.Index.Rows = []seam.Row{rowOf(seam.RowOutbox, "a", 1, "1"), rowOf(seam.RowTimer, "t", 2, "2")}
	b.Index.Rows[0].User = "bob" // it is the session's owner all the same
	must(t, s.Append(ctx, ann, b))
	next := seam.Batch{Session: "S", Epoch: 1, After: 1, Events: steered("S", 2, 1), Index: seam.Index{
		Rows:     []seam.Row{rowOf(seam.RowOutbox, "b", 3, "3"), rowOf(seam.RowOutbox, "a", 4, "4"), rowOf(seam.RowOutbox, "b", 5, "5")},
		DropRows: []seam.RowName{{Kind: seam.RowTimer, ID: "t"}, {Kind: seam.RowTimer, ID: "never there"}, {Kind: seam.RowOutbox, ID: "b"}},
	}}
	refused := next
	refused.After = 7
	refused.Events = steered("S", 8, 1)
	want(t, "an append elsewhere", s.Append(ctx, ann, refused), parley.CodeConflict)
	equal(t, "after the refusal", rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowOutbox}), []string{"ann@acme/a 1"})
	must(t, s.Append(ctx, parley.System(), next))
	equal(t, "the outbox", rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowOutbox}), []string{"ann@acme/a 4", "ann@acme/b 5"})
	equal(t, "the timers", rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowTimer}), []string(nil))
	a, err := s.Row(ctx, ann, seam.RowName{Kind: seam.RowOutbox, ID: "a"})
	must(t, err)
	// An append takes no notice of versions, and a worker that read before it must read again.
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 2, Index: seam.Index{Rows: []seam.Row{rowOf(seam.RowOutbox, "a", 6, "6")}}}))
	_, err = s.PutRow(ctx, parley.System(), a)
	want(t, "a put after the append", err, parley.CodeConflict)
	for what, bad := range map[string]seam.Index{
		"another session's row": {Rows: []seam.Row{{RowName: a.RowName, Session: "other"}}}, "a row with a version": {Rows: []seam.Row{a}},
		"a row without an id": {Rows: []seam.Row{{RowName: seam.RowName{Kind: "timer"}}}}, "a row that is no JSON": {Rows: []seam.Row{rowOf("timer", "x", 1, "{")}},
		"a drop without a kind": {DropRows: []seam.RowName{{ID: "x"}}},
	} {
		want(t, what, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 2, Index: bad}), parley.CodeInvalid)
	}
	in := info(ann, "F")
	f := seam.Batch{Session: "F", After: 1, Events: steered("F", 2, 1), Index: seam.Index{Session: &in, Rows: []seam.Row{rowOf(seam.RowOutbox, "f", 7, "7")}}}
	must(t, s.Fork(ctx, ann, "S", 1, f))
	equal(t, "with the fork's", rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowOutbox}), []string{"ann@acme/a 6", "ann@acme/b 5", "ann@acme/f 7"})
}

// rowsOfSessions: a row that names a session is removed with it, and none can be added later.
func rowsOfSessions(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	create(t, s, ann, "T", 1)
	of := func(id string, session parley.SessionID) seam.Row {
		r := rowOf(seam.RowTimer, id, 5, "1")
		r.Session = session
		return r
	}
	putRow(t, s, ann, of("a", "S"))
	putRow(t, s, ann, of("b", "T"))
	putRow(t, s, ann, of("c", ""))
	in := info(ann, "F")
	must(t, s.Fork(ctx, ann, "S", 1, seam.Batch{Session: "F", After: 1, Events: steered("F", 2, 1), Index: seam.Index{Session: &in}}))
	equal(t, "of S", rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowTimer, Session: "S"}), []string{"ann@acme/a 1"})
	equal(t, "of its fork", rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowTimer, Session: "F"}), []string(nil))
	for _, p := range []parley.Principal{bob, ann2} {
		_, err := s.PutRow(ctx, p, of("x", "S"))
		want(t, "a row in another's session", err, parley.CodeNotFound)
	}
	forged := of("x", "S")
	forged.User, forged.Org = bob.User, bob.Org
	_, err := s.PutRow(ctx, parley.System(), forged)
	want(t, "another's row in a session", err, parley.CodeNotFound)
	a, err := s.Row(ctx, ann, seam.RowName{Kind: seam.RowTimer, ID: "a"})
	must(t, err)
	must(t, s.Delete(ctx, ann, "S"))
	equal(t, "after the deletion", rowsAs(t, s, ann, seam.RowQuery{Kind: seam.RowTimer}), []string{"ann@acme/b 1", "ann@acme/c 1"})
	_, err = s.PutRow(ctx, parley.System(), a)
	if code := parley.CodeOf(err); code != parley.CodeConflict && code != parley.CodeNotFound {
		t.Errorf("a row of a deleted session: %v", err)
	}
	_, err = s.PutRow(ctx, ann, of("late", "S"))
	want(t, "a late row", err, parley.CodeNotFound)
}

// rowLimits: a row has a limit, and so has an owner's every kind. What is there can be changed
// by the server and removed, and an append that finds no room is not refused.
func rowLimits(t *testing.T, s seam.Store) {
	ctx := context.Background()
	_, err := s.PutRow(ctx, ann, rowOf("outbox", "large", 0, `"`+strings.Repeat("x", rule.MaxRow)+`"`))
	want(t, "a large row", err, parley.CodeTooLarge)
	body := `"` + strings.Repeat("x", rule.MaxRow-2) + `"`
	const each = rule.MaxRow/1024 + 1 // with its id
	fits := rule.MaxRows / each
	b := creation(ann, "S", 1)
	for i := range fits + 3 {
		b.Index.Rows = append(b.Index.Rows, rowOf("outbox", fmt.Sprintf("r%02d", i), 1, body))
	}
	left := leftOut(&b)
	must(t, s.Append(ctx, ann, b))
	equal(t, "left out", left(), []string{fmt.Sprintf("r%02d", fits), fmt.Sprintf("r%02d", fits+1), fmt.Sprintf("r%02d", fits+2)})
	count := func() int {
		all, err := s.Rows(ctx, parley.System(), seam.RowQuery{Kind: "outbox", Limit: -1})
		must(t, err)
		return len(all)
	}
	if n := count(); n != fits {
		t.Fatalf("%d rows were stored, want %d", n, fits)
	}
	page, err := s.Rows(ctx, ann, seam.RowQuery{Kind: "outbox", Limit: 500})
	if must(t, err); len(page) != (1<<20)/rule.MaxRow {
		t.Errorf("a page has %d large rows", len(page))
	}
	b = seam.Batch{Session: "S", Epoch: 1, After: 1, Events: steered("S", 2, 1), Index: seam.Index{Rows: []seam.Row{rowOf("outbox", "more", 1, body), rowOf("outbox", "r00", 1, body)}}}
	left = leftOut(&b)
	must(t, s.Append(ctx, ann, b))
	equal(t, "left out", left(), []string{"more"})
	_, err = s.PutRow(ctx, ann, rowOf("outbox", "more", 1, body))
	want(t, "one more", err, parley.CodeQuota)
	putRow(t, s, ann, rowOf("timer", "of another kind", 1, body))
	putRow(t, s, bob, rowOf("outbox", "of another user", 1, body))
	for i := range rule.MaxRows - fits*each {
		putRow(t, s, ann, rowOf("outbox", fmt.Sprint("small", i), 1, "1"))
	}
	_, err = s.PutRow(ctx, ann, rowOf("outbox", "small0", 1, body))
	want(t, "a user's small row that grows", err, parley.CodeQuota)
	putRow(t, s, ann, rowOf("outbox", "small0", 2, "2"))
	grown := rowOf("outbox", "small0", 2, `"`+strings.Repeat("x", 2000)+`"`)
	grown.User, grown.Org = ann.User, ann.Org
	putRow(t, s, parley.System(), grown)
	must(t, s.DropRow(ctx, ann, seam.RowName{Kind: "outbox", ID: "r01"}, seam.AnyRow))
	putRow(t, s, ann, rowOf("outbox", "more", 1, "1"))
	if got, err := s.Row(ctx, ann, seam.RowName{Kind: "outbox", ID: "r00"}); err != nil || !bytes.Equal(got.Body, []byte(body)) {
		t.Errorf("a large row: %d bytes, %v", len(got.Body), err)
	}
}

// leftOut collects the ids of the rows of a batch that are left out.
func leftOut(b *seam.Batch) func() []string {
	var mu sync.Mutex
	ids := map[string]bool{}
	b.Index.Left = func(n seam.RowName) {
		mu.Lock()
		defer mu.Unlock()
		ids[n.ID] = true
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(ids))
	}
}

func rowPages(t *testing.T, s seam.Store)    { pagesOfRows(t, s, time.Time{}) }
func dueRowPages(t *testing.T, s seam.Store) { pagesOfRows(t, s, at(1<<20)) }

func pagesOfRows(t *testing.T, s seam.Store, due time.Time) {
	paged(t, s, func(p parley.Principal) (keys []string) {
		for i := range pagedRows {
			id := string(pagedID(i)) + " of " + p.User
			putRow(t, s, p, rowOf(seam.RowTimer, id, 1+i%3, "1"))
			keys = append(keys, id)
		}
		return keys
	},
		func(p parley.Principal, limit int) func() []string {
			q := seam.RowQuery{Kind: seam.RowTimer, Due: due, Open: true, Limit: limit}
			return func() (keys []string) {
				page, err := s.Rows(context.Background(), p, q)
				must(t, err)
				for _, r := range page {
					keys = append(keys, r.ID)
					q.After = q.Mark(r)
				}
				return keys
			}
		},
		func(key string) { // it is done
			n := rowNamed(t, s, key)
			r, err := s.Row(context.Background(), parley.System(), n)
			must(t, err)
			r.Open = false
			putRow(t, s, parley.System(), r)
		},
		func(key string) {
			must(t, s.DropRow(context.Background(), parley.System(), rowNamed(t, s, key), seam.AnyRow))
		})
}

func rowNamed(t testing.TB, s seam.Store, id string) seam.RowName {
	t.Helper()
	all, err := s.Rows(context.Background(), parley.System(), seam.RowQuery{Kind: seam.RowTimer, Limit: -1})
	must(t, err)
	for _, r := range all {
		if r.ID == id {
			return r.RowName
		}
	}
	t.Fatalf("there is no row %s", id)
	return seam.RowName{}
}
