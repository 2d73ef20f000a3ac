package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// forkWithin checks that a fork between two events of one append has the artifacts and blobs that
// the events before it refer to, and no others.
func forkWithin(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	var refs []parley.Digest
	for _, body := range []string{"the app", "first", "second"} {
		d, err := s.PutBlob(ctx, ann, []byte(body))
		must(t, err)
		refs = append(refs, d)
	}
	stored := func(seq int64, id parley.ArtifactID, d parley.Digest) parley.Event {
		return event("S", seq, "artifact.stored", fmt.Sprintf(`{"id":%q,"sha256":%q}`, id, d))
	}
	row := func(id parley.ArtifactID, d parley.Digest) seam.Artifact {
		return seam.Artifact{ArtifactRef: parley.ArtifactRef{ID: id, SHA256: d}, Session: "S", CreatedAt: at(2)}
	}
	must(t, s.Append(ctx, ann, seam.Batch{
		Session: "S", Epoch: 1, After: 1,
		Events: []parley.Event{
			event("S", 2, "turn.started", fmt.Sprintf(`{"app":%q}`, refs[0])), stored(3, "a1", refs[1]), steered("S", 4, 1)[0], stored(5, "a2", refs[2]), steered("S", 6, 1)[0],
		},
		Index: seam.Index{Blobs: refs, Artifacts: []seam.Artifact{row("a1", refs[1]), row("a2", refs[2])}},
	}))
	for at, n := range map[int64]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3} {
		id := parley.SessionID(fmt.Sprint("F", at))
		forked(t, s, "S", id, at)
		arts, err := s.Artifacts(ctx, ann, id)
		must(t, err)
		if want := max(n-1, 0); len(arts) != want {
			t.Errorf("a fork after event %d has the artifacts %v, want %d", at, arts, want)
		}
		for i, d := range refs {
			if _, err := s.Blob(ctx, ann, id, d); (err == nil) != (i < n) {
				t.Errorf("a fork after event %d asks for blob %d: %v, want the first %d to be there", at, i, err, n)
			}
		}
	}
}

func fork(t *testing.T, s seam.Store) {
	ctx := context.Background()
	w := newWorld(t, s, ann, "A")
	late, err := s.PutBlob(ctx, ann, []byte("referred to after the point"))
	must(t, err)
	must(t, s.Append(ctx, ann, seam.Batch{Session: w.id, Epoch: 1, After: 3, Events: steered(w.id, 4, 2), Index: seam.Index{Blobs: []parley.Digest{late}}}))
	before := dump(t, s)

	in := info(ann, "F")
	in.Parent, in.OutsideID, in.Version = w.id, "fork-outside", 4
	own := event("F", 4, "session.forked", `{"parent":"A-session","at":3}`)
	key := seam.Key{Key: "fork-key", Made: "F"}
	b := seam.Batch{Session: "F", Create: true, Owner: "node-1", After: 3, Events: []parley.Event{own}, Index: seam.Index{Session: &in, Keys: []seam.Key{key}}}
	must(t, s.Fork(ctx, ann, w.id, 3, b))

	copied := slices.Clone(w.events)
	for i := range copied {
		copied[i].Session = "F"
	}
	equal(t, "events of the fork", readAll(t, s, ann, "F"), append(copied, own))
	got, err := s.Session(ctx, ann, "F")
	must(t, err)
	equal(t, "row of the fork", got, in)
	if id, err := s.Alias(ctx, ann, in.App, in.OutsideID); err != nil || id != "F" {
		t.Errorf("got %q, %v, want F", id, err)
	}
	_, err = s.Blob(ctx, ann, "F", late)
	want(t, "blob that only later events refer to", err, parley.CodeNotFound)
	chunks, err := s.Chunks(ctx, ann, "F")
	if err != nil || len(chunks) > 0 {
		t.Errorf("got chunks %v, %v, want none", chunks, err)
	}
	must(t, s.Append(ctx, ann, seam.Batch{Session: "F", Epoch: 1, After: 4, Events: steered("F", 5, 1)}))

	// The parent is unchanged, and what copied events refer to outlives it.
	equal(t, "the parent's events", readAll(t, s, ann, w.id), before.Of[w.id].Events)
	art, err := s.Artifact(ctx, ann, w.artifact.ID)
	must(t, err)
	equal(t, "the artifact is the parent's", art, w.artifact)
	must(t, s.Delete(ctx, ann, w.id))
	body, err := s.Blob(ctx, ann, "F", w.digest)
	must(t, err)
	equal(t, "blob", string(body), string(w.blob))
	art, err = s.Artifact(ctx, ann, w.artifact.ID)
	must(t, err)
	w.artifact.Session = "F"
	equal(t, "the artifact is now the fork's", art, w.artifact)

	for name, c := range map[string]struct {
		from parley.SessionID
		at   int64
		code parley.Code
	}{
		"beyond the end": {"F", 9, parley.CodeInvalid}, "at nothing": {"F", 0, parley.CodeInvalid}, "of nothing": {"absent", 2, parley.CodeNotFound},
	} {
		in := info(ann, "G")
		err := s.Fork(ctx, ann, c.from, c.at, seam.Batch{Session: "G", Create: true, After: c.at, Events: steered("G", c.at+1, 1), Index: seam.Index{Session: &in}})
		want(t, "fork "+name, err, c.code)
	}
	b.Session, b.Events, in.ID = "G", []parley.Event{own}, "G"
	b.Events[0].Session = "G"
	want(t, "fork with a key that is taken", s.Fork(ctx, ann, "F", 3, b), parley.CodeKeyReused)
	_, err = s.Session(ctx, ann, "G")
	want(t, "session of a refused fork", err, parley.CodeNotFound)
}

func deleted(t *testing.T, s seam.Store) {
	ctx := context.Background()
	w := newWorld(t, s, ann, "A")
	newWorld(t, s, ann, "B")
	must(t, s.Delete(ctx, ann, w.id))
	for name, try := range reaches {
		switch seen, err := try(ctx, s, w, ann); {
		case name == "Spent" || name == "Held": // spending stays, and B still exists
		case name == "Key": // see keysOfDeleted
		case strings.HasSuffix(name, "Sealed") || strings.Contains(name, "Approval"): // they belong to the user, whichever sessions exist
		case seen || err != nil && parley.CodeOf(err) != parley.CodeNotFound:
			t.Errorf("%s of a deleted session: got %v, %v, want false and not_found", name, seen, err)
		}
	}
	d := dump(t, s)
	if len(d.Sessions) != 1 || len(d.Turns) != 1 || len(d.Interactions) != 1 {
		t.Errorf("got %d sessions, %d turns, %d interactions, want one of each", len(d.Sessions), len(d.Turns), len(d.Interactions))
	}
	// Its outside id is free again.
	in := info(ann, "C")
	in.OutsideID = w.info.OutsideID
	must(t, s.Append(ctx, ann, seam.Batch{Session: "C", Create: true, Events: steered("C", 1, 1), Index: seam.Index{Session: &in}}))
}

// keysOfDeleted: the key that made a session stays taken when that is deleted; the session's
// own keys are gone with it.
func keysOfDeleted(t *testing.T, s seam.Store) {
	ctx := context.Background()
	w := newWorld(t, s, ann, "A")
	newWorld(t, s, bob, "B")
	must(t, s.Delete(ctx, ann, w.id))
	got, err := s.Key(ctx, ann, "", w.ofUser.Key)
	must(t, err)
	equal(t, "key of the user", got, w.ofUser)
	_, err = s.Key(ctx, bob, "", w.ofUser.Key)
	want(t, "key of another user", err, parley.CodeNotFound)
	_, err = s.Key(ctx, ann, w.id, w.key.Key)
	want(t, "key of the session", err, parley.CodeNotFound)
	in := info(ann, "C")
	b := seam.Batch{Session: "C", Create: true, Events: steered("C", 1, 1), Index: seam.Index{Session: &in, Keys: []seam.Key{w.ofUser}}}
	want(t, "the key again", s.Append(ctx, ann, b), parley.CodeKeyReused)
	b.Index.Keys = nil
	must(t, s.Append(ctx, ann, b))

	// The newest are kept, whichever session had them, and each user's own.
	many := make([]seam.Key, rule.KeysKept)
	for i := range many {
		many[i] = seam.Key{Key: fmt.Sprintf("many-%05d", i), Made: "C"}
	}
	must(t, s.Append(ctx, ann, seam.Batch{Session: "C", Epoch: 1, After: 1, Index: seam.Index{Keys: many}}))
	must(t, s.Delete(ctx, parley.System(), "B-session"))
	must(t, s.Delete(ctx, ann, "C"))
	for key, stays := range map[string]bool{w.ofUser.Key: false, "many-00000": true, fmt.Sprintf("many-%05d", rule.KeysKept-1): true} {
		if _, err := s.Key(ctx, ann, "", key); (err == nil) != stays {
			t.Errorf("key %s: got %v, want it kept: %v", key, err, stays)
		}
	}
	_, err = s.Key(ctx, bob, "", "B-key")
	must(t, err)
}

// KeysGo checks that a user's key outlives its session for rule.KeyKept, by the clock that open is
// given.
func KeysGo(t *testing.T, open func(now func() time.Time) seam.Store) {
	ctx := context.Background()
	now := start
	s := open(func() time.Time { return now })
	w := newWorld(t, s, ann, "A")
	for _, id := range []parley.SessionID{"S", "T"} {
		create(t, s, bob, id, 1)
	}
	must(t, s.Delete(ctx, ann, w.id))
	now = now.Add(rule.KeyKept)
	must(t, s.Delete(ctx, bob, "S"))
	_, err := s.Key(ctx, ann, "", w.ofUser.Key)
	must(t, err)
	now = now.Add(time.Millisecond)
	must(t, s.Delete(ctx, bob, "T"))
	_, err = s.Key(ctx, ann, "", w.ofUser.Key)
	want(t, "the key after its time", err, parley.CodeNotFound)
}

func deleteFences(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	epoch, err := s.Claim(ctx, ann, "S", "node-2")
	must(t, err)
	must(t, s.Delete(ctx, parley.System(), "S"))
	for e := int64(0); e <= epoch+1; e++ {
		want(t, "append to a deleted session", s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: e, After: 1, Events: steered("S", 2, 1)}), parley.CodeNotFound)
	}
	_, err = s.Claim(ctx, parley.System(), "S", "node-3")
	want(t, "claim of a deleted session", err, parley.CodeNotFound)
	want(t, "delete again", s.Delete(ctx, ann, "S"), parley.CodeNotFound)
}

func state(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	_, err := s.State(ctx, ann, "S")
	want(t, "state that was never stored", err, parley.CodeNotFound)
	for i := range 3 {
		st := seam.State{Seq: int64(i + 2), Version: 1 + i, Body: []byte(fmt.Sprint("state ", i))}
		must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: int64(i + 1), Events: steered("S", int64(i+2), 1), Index: seam.Index{State: &st}}))
		got, err := s.State(ctx, ann, "S")
		must(t, err)
		equal(t, "state", got, st)
	}
}

func ids(in []parley.SessionInfo) (out []string) {
	for _, r := range in {
		out = append(out, string(r.ID))
	}
	return out
}

func sessions(t *testing.T, s seam.Store) {
	ctx := context.Background()
	for i, c := range []struct {
		p      parley.Principal
		app    string
		status parley.SessionStatus
		at     int
	}{
		{ann, "notes", parley.Active, 50},
		{ann, "major", parley.Active, 30},
		{ann, "notes", parley.Ended, 40},
		{bob, "notes", parley.Active, 60},
		{ann, "notes", parley.Active, 30},
		{ann2, "notes", parley.Active, 70},
		{ann, "notes", parley.Ended, 45},
	} {
		b := creation(c.p, parley.SessionID(fmt.Sprint("S", i)), 1)
		b.Index.Session.Direct = i == 6
		b.Index.Session.App, b.Index.Session.Status, b.Index.Session.UpdatedAt = c.app, c.status, at(c.at)
		must(t, s.Append(ctx, c.p, b))
	}
	for _, c := range []struct {
		name string
		p    parley.Principal
		q    seam.SessionQuery
		want []string
	}{
		{"all of ann's", ann, seam.SessionQuery{}, []string{"S0", "S2", "S4", "S1"}},
		{"with those of direct calls", ann, seam.SessionQuery{Direct: true}, []string{"S0", "S6", "S2", "S4", "S1"}},
		{"of an app", ann, seam.SessionQuery{App: "notes"}, []string{"S0", "S2", "S4"}},
		{"of a status", ann, seam.SessionQuery{Status: parley.Ended}, []string{"S2"}},
		{"app and status", ann, seam.SessionQuery{App: "notes", Status: parley.Active}, []string{"S0", "S4"}},
		{"before", ann, seam.SessionQuery{Before: at(40)}, []string{"S4", "S1"}},
		{"before, within a millisecond", ann, seam.SessionQuery{Before: at(40).Add(1)}, []string{"S2", "S4", "S1"}},
		{"limited", ann, seam.SessionQuery{Limit: 2}, []string{"S0", "S2"}},
		{"all limits", ann, seam.SessionQuery{App: "notes", Status: parley.Active, Before: at(50), Limit: 1}, []string{"S4"}},
		{"none", ann, seam.SessionQuery{App: "absent"}, nil},
		{"of everybody", parley.System(), seam.SessionQuery{}, []string{"S5", "S3", "S0", "S2", "S4", "S1"}},
		{"of everybody, an app", parley.System(), seam.SessionQuery{App: "major"}, []string{"S1"}},
	} {
		got, err := s.Sessions(ctx, c.p, c.q)
		must(t, err)
		equal(t, c.name, ids(got), c.want)
	}
	// A change moves a session to the top.
	in := info(ann, "S1")
	in.UpdatedAt = at(80)
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S1", Epoch: 1, After: 1, Index: seam.Index{Session: &in}}))
	got, err := s.Sessions(ctx, ann, seam.SessionQuery{})
	must(t, err)
	equal(t, "after a change", ids(got), []string{"S1", "S0", "S2", "S4"})
}

func turns(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	create(t, s, ann, "T", 1)
	create(t, s, bob, "U", 1)
	add := func(p parley.Principal, id parley.SessionID, turns ...parley.TurnInfo) {
		t.Helper()
		for i := range turns {
			turns[i].SessionID = id
		}
		must(t, s.Append(ctx, p, seam.Batch{Session: id, Epoch: 1, After: 1, Index: seam.Index{Turns: turns}}))
	}
	add(ann, "S", parley.TurnInfo{ID: "1", Status: parley.StatusCompleted}, parley.TurnInfo{ID: "4", Status: parley.StatusRunning})
	add(ann, "T", parley.TurnInfo{ID: "2", Status: parley.StatusInterrupted}, parley.TurnInfo{ID: "3", Status: parley.StatusPending})
	add(bob, "U", parley.TurnInfo{ID: "5", Status: parley.StatusRunning})
	open := []parley.TurnStatus{parley.StatusRunning, parley.StatusWaiting, parley.StatusInterrupted, parley.StatusPending}
	for _, c := range []struct {
		name string
		p    parley.Principal
		q    seam.TurnQuery
		want []string
	}{
		{"all of ann's", ann, seam.TurnQuery{}, []string{"4", "3", "2", "1"}},
		{"of a session", ann, seam.TurnQuery{Session: "S"}, []string{"4", "1"}},
		{"open", ann, seam.TurnQuery{Statuses: open}, []string{"4", "3", "2"}},
		{"open and closed", ann, seam.TurnQuery{Statuses: []parley.TurnStatus{parley.StatusRunning, parley.StatusCompleted}}, []string{"4", "1"}},
		{"before", ann, seam.TurnQuery{Before: "3"}, []string{"2", "1"}},
		{"limited", ann, seam.TurnQuery{Limit: 1, Before: "4", Statuses: open}, []string{"3"}},
		{"everything of a session", ann, seam.TurnQuery{Session: "T", Limit: 1, Before: "3", Statuses: open}, []string{"2"}},
		{"another's session", ann, seam.TurnQuery{Session: "U"}, nil},
		{"open of everybody", parley.System(), seam.TurnQuery{Statuses: open, Limit: -1}, []string{"5", "4", "3", "2"}},
	} {
		got, err := s.Turns(ctx, c.p, c.q)
		must(t, err)
		var ids []string
		for _, in := range got {
			ids = append(ids, string(in.ID))
		}
		equal(t, c.name, ids, c.want)
	}
	add(ann, "S", parley.TurnInfo{ID: "4", Status: parley.StatusCompleted, Message: "done"})
	got, err := s.Turn(ctx, ann, "4")
	must(t, err)
	equal(t, "overwritten", got, parley.TurnInfo{ID: "4", SessionID: "S", Status: parley.StatusCompleted, Message: "done"})
	add(ann, "S", parley.TurnInfo{ID: "4", Status: parley.StatusRunning})
	list, err := s.Turns(ctx, ann, seam.TurnQuery{Statuses: []parley.TurnStatus{parley.StatusRunning}})
	must(t, err)
	equal(t, "open again", list, []parley.TurnInfo{{ID: "4", SessionID: "S", Status: parley.StatusRunning}})
	_, err = s.Turn(ctx, ann, "absent")
	want(t, "no such turn", err, parley.CodeNotFound)

	// Rows of two sessions may share an id, as those of a fork and its parent do. The
	// older session's row is found, and no row replaces another session's.
	add(ann, "T", parley.TurnInfo{ID: "1", Status: parley.StatusCancelled})
	add(bob, "U", parley.TurnInfo{ID: "1", Status: parley.StatusFailed})
	for p, want := range map[parley.Principal]parley.TurnInfo{
		ann: {ID: "1", SessionID: "S", Status: parley.StatusCompleted}, bob: {ID: "1", SessionID: "U", Status: parley.StatusFailed},
	} {
		got, err := s.Turn(ctx, p, "1")
		must(t, err)
		equal(t, p.User+"'s turn", got, want)
	}
}

func interactions(t *testing.T, s seam.Store) {
	ctx := context.Background()
	row := func(id parley.InteractionID, session parley.SessionID, ms int, open bool) seam.InteractionRow {
		return seam.InteractionRow{Interaction: parley.Interaction{ID: id, Session: session, Kind: parley.KindQuestion, OpenedAt: at(ms)}, Open: open}
	}
	add := func(p parley.Principal, id parley.SessionID, rows ...seam.InteractionRow) {
		t.Helper()
		must(t, s.Append(ctx, p, seam.Batch{Session: id, Epoch: 1, After: 1, Index: seam.Index{Interactions: rows}}))
	}
	create(t, s, ann, "S", 1)
	create(t, s, ann, "T", 1)
	create(t, s, bob, "U", 1)
	add(ann, "S", row("i1", "S", 30, true), row("i2", "S", 10, true), row("i3", "S", 5, false))
	add(ann, "T", row("i4", "T", 20, true), row("i0", "T", 30, true))
	add(bob, "U", row("i5", "U", 1, true))
	list := func(p parley.Principal, limit int) (ids []string) {
		t.Helper()
		got, err := s.Interactions(ctx, p, seam.InteractionQuery{Limit: limit})
		must(t, err)
		for _, r := range got {
			ids = append(ids, string(r.ID))
		}
		return ids
	}
	equal(t, "ann's", list(ann, 0), []string{"i2", "i4", "i0", "i1"})
	equal(t, "limited", list(ann, 2), []string{"i2", "i4"})
	equal(t, "everybody's", list(parley.System(), -1), []string{"i5", "i2", "i4", "i0", "i1"})
	answered := row("i2", "S", 10, false)
	answered.Answer, answered.AnsweredBy = &parley.Answer{Choice: parley.ChoiceAllow}, "ann"
	add(ann, "S", answered)
	equal(t, "after an answer", list(ann, 0), []string{"i4", "i0", "i1"})
	got, err := s.Interaction(ctx, ann, "i2")
	must(t, err)
	equal(t, "answered", got, answered)
}

func bounded(t *testing.T, s seam.Store) {
	ctx := context.Background()
	const n = 510
	for i := range n {
		id := parley.SessionID(fmt.Sprintf("S%03d", i))
		b := creation(ann, id, 1)
		b.Index.Turns = []parley.TurnInfo{{ID: parley.TurnID(id), SessionID: id, Status: parley.StatusRunning}}
		b.Index.Interactions = []seam.InteractionRow{{Open: true, Interaction: parley.Interaction{ID: parley.InteractionID(id), Session: id, OpenedAt: start}}}
		must(t, s.Append(ctx, ann, b))
	}
	for _, c := range []struct {
		p           parley.Principal
		limit, want int
	}{{ann, 0, 50}, {ann, 7, 7}, {ann, -1, 50}, {ann, 1000, 500}, {parley.System(), 0, 50}, {parley.System(), 1000, 500}, {parley.System(), -1, n}} {
		a, err := s.Sessions(ctx, c.p, seam.SessionQuery{Limit: c.limit})
		must(t, err)
		b, err := s.Turns(ctx, c.p, seam.TurnQuery{Limit: c.limit})
		must(t, err)
		d, err := s.Interactions(ctx, c.p, seam.InteractionQuery{Limit: c.limit})
		must(t, err)
		equal(t, fmt.Sprintf("lengths of lists for %s with limit %d", c.p.User, c.limit), []int{len(a), len(b), len(d)}, []int{c.want, c.want, c.want})
	}
}

func keys(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	create(t, s, ann, "T", 1)
	create(t, s, bob, "U", 1)
	create(t, s, ann2, "V", 1)
	put := func(p parley.Principal, id parley.SessionID, k seam.Key) error {
		return s.Append(ctx, p, seam.Batch{Session: id, Epoch: 1, After: 1, Index: seam.Index{Keys: []seam.Key{k}}})
	}
	k := seam.Key{Session: "S", Key: "k", Body: "digest", Made: "S", Turn: "turn"}
	must(t, put(ann, "S", k))
	want(t, "again", put(ann, "S", k), parley.CodeKeyReused)
	must(t, put(ann, "T", seam.Key{Session: "T", Key: "k"}))
	must(t, put(bob, "U", seam.Key{Session: "U", Key: "k"}))
	got, err := s.Key(ctx, ann, "S", "k")
	must(t, err)
	equal(t, "key", got, k)

	// A key without a session belongs to the user, whichever session it made.
	u := seam.Key{Key: "k", Made: "S"}
	must(t, put(ann, "S", u))
	must(t, put(bob, "U", seam.Key{Key: "k", Made: "U"}))
	must(t, put(ann2, "V", seam.Key{Key: "k", Made: "V"}))
	err = put(ann, "T", seam.Key{Key: "k", Made: "T"})
	want(t, "a user's key from another session", err, parley.CodeKeyReused)
	if e := parley.Info(err); e.Field != "key" {
		t.Errorf("got field %q, want key", e.Field)
	}
	got, err = s.Key(ctx, ann, "", "k")
	must(t, err)
	equal(t, "key", got, u)
	_, err = s.Key(ctx, ann, "S", "absent")
	want(t, "no such key", err, parley.CodeNotFound)
}

func aliases(t *testing.T, s seam.Store) {
	ctx := context.Background()
	make := func(p parley.Principal, id parley.SessionID, app, outside string) error {
		b := creation(p, id, 1)
		b.Index.Session.App, b.Index.Session.OutsideID = app, outside
		return s.Append(ctx, p, b)
	}
	must(t, make(ann, "1", "notes", "x"))
	must(t, make(ann, "2", "major", "x"))
	must(t, make(bob, "3", "notes", "x"))
	must(t, make(ann2, "4", "notes", "x"))
	must(t, make(ann, "5", "notes", ""))
	must(t, make(ann, "6", "notes", ""))
	err := make(ann, "7", "notes", "x")
	want(t, "an outside id again", err, parley.CodeKeyReused)
	if e := parley.Info(err); e.Field != "outside_id" {
		t.Errorf("got field %q, want outside_id", e.Field)
	}
	_, err = s.Session(ctx, ann, "7")
	want(t, "the session that was refused", err, parley.CodeNotFound)
	for p, want := range map[parley.Principal]parley.SessionID{ann: "1", bob: "3", ann2: "4"} {
		if got, err := s.Alias(ctx, p, "notes", "x"); err != nil || got != want {
			t.Errorf("%v: got %q, %v, want %q", p, got, err, want)
		}
	}
	_, err = s.Alias(ctx, ann, "notes", "")
	want(t, "no outside id", err, parley.CodeNotFound)
}

func blobs(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	bodies := [][]byte{{}, []byte("small"), slices.Repeat([]byte("a large one \x00\xff"), 1<<17)}
	refs := []parley.Digest{}
	for _, body := range bodies {
		d, err := s.PutBlob(ctx, ann, body)
		must(t, err)
		again, err := s.PutBlob(ctx, bob, body)
		if err != nil || again != d || len(d) != 64 {
			t.Errorf("got digest %q, %v, want %q", again, err, d)
		}
		refs = append(refs, d)
		_, err = s.Blob(ctx, ann, "S", d)
		want(t, "blob that the session does not refer to", err, parley.CodeNotFound)
	}
	arts := []seam.Artifact{
		{ArtifactRef: parley.ArtifactRef{ID: "a1", Name: "a", SHA256: refs[1]}, Session: "S", CreatedAt: at(1)},
		{ArtifactRef: parley.ArtifactRef{ID: "a2", Name: "b", SHA256: refs[2]}, Session: "S", CreatedAt: at(1)},
	}
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 1, Index: seam.Index{Blobs: append(refs, refs[0]), Artifacts: arts}}))
	for i, d := range refs {
		got, err := s.Blob(ctx, ann, "S", d)
		must(t, err)
		if string(got) != string(bodies[i]) {
			t.Errorf("got %d bytes, want %d", len(got), len(bodies[i]))
		}
	}
	got, err := s.Artifacts(ctx, ann, "S")
	must(t, err)
	equal(t, "artifacts", got, arts)
	one, err := s.Artifact(ctx, ann, "a2")
	must(t, err)
	equal(t, "artifact", one, arts[1])

	// A fork keeps what its parent drops.
	fork := seam.Batch{Session: "F", Create: true, Owner: "n", After: 1, Events: steered("F", 2, 1), Index: seam.Index{Session: &parley.SessionInfo{ID: "F", User: ann.User, Org: ann.Org}}}
	must(t, s.Fork(ctx, ann, "S", 1, fork))
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 1, Index: seam.Index{
		Release: []parley.Digest{refs[1], refs[2]}, DropArtifacts: []parley.ArtifactID{"a2", "absent"}, Blobs: []parley.Digest{refs[1]},
	}}))
	_, err = s.Blob(ctx, ann, "S", refs[2])
	want(t, "a blob that was released", err, parley.CodeNotFound)
	for id, d := range map[parley.SessionID]parley.Digest{"S": refs[1], "F": refs[2]} {
		if _, err := s.Blob(ctx, ann, id, d); err != nil {
			t.Errorf("blob of %s: %v", id, err)
		}
	}
	got, err = s.Artifacts(ctx, ann, "S")
	must(t, err)
	equal(t, "artifacts that were not dropped", got, arts[:1])
	one, err = s.Artifact(ctx, ann, "a2")
	if must(t, err); one.Session != "F" {
		t.Errorf("a dropped artifact is %+v, want that of the fork", one)
	}
}

func chunks(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	create(t, s, ann, "T", 1)
	c := func(id parley.SessionID, call parley.CallID, n int64, text string) seam.Chunk {
		return seam.Chunk{Session: id, Call: call, N: n, Text: text}
	}
	save := func(p parley.Principal, epoch int64, chunks ...seam.Chunk) {
		t.Helper()
		for i := range chunks {
			chunks[i].Epoch = epoch
		}
		must(t, s.SaveChunks(ctx, p, chunks))
	}
	save(ann, 1, c("S", "b", 2, "two"), c("S", "a", 10, "ten"), c("T", "a", 1, "t"), c("absent", "a", 1, "dropped"))
	save(parley.System(), 1, c("S", "a", 9, "nine"), c("S", "b", 2, "two again"))
	save(ann, 1)
	got, err := s.Chunks(ctx, ann, "S")
	must(t, err)
	equal(t, "chunks", got, []seam.Chunk{c("S", "a", 9, "nine"), c("S", "a", 10, "ten"), c("S", "b", 2, "two again")})
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 1, Events: steered("S", 2, 1), Index: seam.Index{DropChunks: []parley.CallID{"a", "absent"}}}))
	got, err = s.Chunks(ctx, ann, "S")
	must(t, err)
	equal(t, "chunks of the call that is still open", got, []seam.Chunk{c("S", "b", 2, "two again")})
	got, err = s.Chunks(ctx, ann, "T")
	must(t, err)
	equal(t, "chunks of another session", got, []seam.Chunk{c("T", "a", 1, "t")})
}

// staleChunks has the previous owner save after a claim. The chunks that it adds or overwrites
// are not kept.
func staleChunks(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	c := func(epoch, n int64, text string) seam.Chunk {
		return seam.Chunk{Session: "S", Epoch: epoch, Call: "a", N: n, Text: text}
	}
	must(t, s.SaveChunks(ctx, ann, []seam.Chunk{c(1, 1, "one")}))
	if _, err := s.Claim(ctx, ann, "S", "next"); err != nil {
		t.Fatal(err)
	}
	must(t, s.SaveChunks(ctx, parley.System(), []seam.Chunk{c(1, 1, "stale"), c(1, 2, "stale"), c(2, 3, "three"), c(3, 3, "of nobody yet"), c(0, 4, "of nobody")}))
	got, err := s.Chunks(ctx, ann, "S")
	must(t, err)
	equal(t, "chunks after a claim", got, []seam.Chunk{c(0, 1, "one"), c(0, 3, "three")})
}

// claims has two nodes ask for one session. It cannot be taken from a node that is
// alive, and can be taken once that node has left.
func claims(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	leaveOne, leaveTwo := s.Join("one"), s.Join("two")
	defer leaveTwo()
	claim := func(p parley.Principal, node string, epoch int64, code parley.Code) {
		t.Helper()
		got, err := s.Claim(ctx, p, "S", node)
		if got != epoch || parley.CodeOf(err) != code {
			t.Errorf("%s claims: got epoch %d, %v, want %d, %q", node, got, err, epoch, code)
		}
		if code == parley.CodeUnavailable && !errors.Is(err, seam.ErrDriven) {
			t.Errorf("%s claims: %v is not ErrDriven", node, err)
		}
	}
	claim(ann, "one", 2, "") // from a node that made the session and never joined
	claim(ann, "two", 0, parley.CodeUnavailable)
	claim(parley.System(), "three", 0, parley.CodeUnavailable)
	claim(bob, "two", 0, parley.CodeNotFound)
	claim(ann, "one", 3, "")
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 3, After: 1, Events: steered("S", 2, 1)}))
	again := s.Join("one")
	leaveOne()
	leaveOne()
	claim(ann, "two", 0, parley.CodeUnavailable)
	again()
	claim(ann, "two", 4, "")
	claim(ann, "one", 0, parley.CodeUnavailable)
	want(t, "append of the owner before", s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 3, After: 2, Events: steered("S", 3, 1)}), parley.CodeFenced)
}
