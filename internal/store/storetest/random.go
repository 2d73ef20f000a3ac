package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// Random does the same random operations on a new store of b and on package mem. It
// compares every result, the text of every error and, after each step, everything that
// each user sees.
func Random(t *testing.T, b Body) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{t: rt, real: b.Open(t), model: mem.New()}
		defer func() {
			if err := m.real.Close(); err != nil {
				t.Error(err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"create": m.create, "append": m.append, "append again": m.append, "fork": m.fork, "fork again": m.fork, "claim": m.claim,
			"delete": m.delete, "put": m.put, "chunks": m.chunks, "row": m.row, "drop row": m.dropRow, "find": m.find, "": m.compare,
		})
	})
}

type machine struct {
	t           *rapid.T
	real, model seam.Store
	blobs       []parley.Digest
}

// rowAs names a row that one of the people may have. A user's row is the caller's, whatever
// the name says.
func rowAs(rt *rapid.T, p parley.Principal) seam.RowName {
	n := seam.RowName{Kind: rapid.SampledFrom([]string{seam.RowTimer, seam.RowOutbox}).Draw(rt, "kind"), ID: someKeys.Draw(rt, "row")}
	if owner := someOwners.Draw(rt, "of"); p.IsSystem() && rapid.Bool().Draw(rt, "of a user") {
		n.User, n.Org = owner.User, owner.Org
	}
	return n
}

func (m *machine) row(rt *rapid.T) {
	p := somePeople.Draw(rt, "as")
	r := seam.Row{RowName: rowAs(rt, p), Open: rapid.Bool().Draw(rt, "open"), Body: fmt.Appendf(nil, "%d", someTimes.Draw(rt, "body"))}
	if rapid.Bool().Draw(rt, "due") {
		r.Due = at(someTimes.Draw(rt, "due at"))
	}
	if rapid.IntRange(0, 3).Draw(rt, "in a session") == 0 {
		r.Session = someSessions.Draw(rt, "session")
	}
	version := rapid.SampledFrom([]int64{seam.AnyRow, seam.AnyRow, seam.NoRow, 1, 2}).Draw(rt, "version")
	same(m, rt, "put row", func(s seam.Store) (struct{}, error) {
		r := r
		r.Version = version
		if have, err := s.Row(context.Background(), p, r.RowName); err == nil && version > 0 {
			r.Version = have.Version + version - 1 // the version that it has, or another
		}
		_, err := s.PutRow(context.Background(), p, r)
		return only(err)
	})
}

func (m *machine) dropRow(rt *rapid.T) {
	p := somePeople.Draw(rt, "as")
	n := rowAs(rt, p)
	same(m, rt, "drop row", func(s seam.Store) (struct{}, error) { return only(s.DropRow(context.Background(), p, n, seam.AnyRow)) })
}

// findRows looks rows up.
func (m *machine) findRows(rt *rapid.T, p parley.Principal, id parley.SessionID) {
	n := rowAs(rt, p)
	plain := func(r seam.Row) seam.Row { r.Version = 0; return r }
	same(m, rt, "Row", func(s seam.Store) (seam.Row, error) {
		r, err := s.Row(context.Background(), p, n)
		return plain(r), err
	})
	q := seam.RowQuery{Kind: n.Kind, Limit: someTimes.Draw(rt, "limit") / 2, Open: rapid.Bool().Draw(rt, "only open"), Shut: rapid.IntRange(0, 5).Draw(rt, "only shut") == 0}
	if p.IsSystem() {
		q.User, q.Org = n.User, n.Org
	}
	if rapid.Bool().Draw(rt, "due") {
		q.Due = at(someTimes.Draw(rt, "due at"))
	}
	if rapid.IntRange(0, 3).Draw(rt, "of a session") == 0 {
		q.Session = id
	}
	if rapid.Bool().Draw(rt, "after a row") {
		q.After = seam.RowMark{RowName: n, Due: at(someTimes.Draw(rt, "after at"))}
		if !p.IsSystem() {
			q.After.User, q.After.Org = p.User, p.Org
		}
	}
	same(m, rt, "Rows", func(s seam.Store) (out []seam.Row, err error) {
		all, err := s.Rows(context.Background(), p, q)
		for _, r := range all {
			out = append(out, plain(r))
		}
		return out, err
	})
}

var (
	someSessions = rapid.SampledFrom([]parley.SessionID{"S1", "S2", "S3", "S4", "S5", "S6"})
	somePeople   = rapid.SampledFrom([]parley.Principal{ann, ann, ann, bob, ann2, parley.System(), nobody})
	someOwners   = rapid.SampledFrom([]parley.Principal{ann, ann, bob, ann2})
	someOutside  = rapid.SampledFrom([]string{"", "", "x", "y"})
	someApps     = rapid.SampledFrom([]string{"notes", "major"})
	someKeys     = rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5"})
	someTurns    = rapid.SampledFrom([]parley.TurnID{"t1", "t2", "t3"})
	someStatuses = rapid.SampledFrom([]parley.TurnStatus{parley.StatusPending, parley.StatusRunning, parley.StatusWaiting, parley.StatusCompleted, parley.StatusInterrupted})
	someCalls    = rapid.SampledFrom([]parley.CallID{"c1", "c2"})
	someTypes    = rapid.SampledFrom([]parley.EventType{"turn.steered", "model.replied", "tool.ended"})
	someTimes    = rapid.IntRange(0, 9)
)

// same does one operation on both stores and compares.
func same[T any](m *machine, rt *rapid.T, what string, do func(seam.Store) (T, error)) T {
	rt.Helper()
	got, err := do(m.real)
	exp, want := do(m.model)
	if (err == nil) != (want == nil) || err != nil && parley.Info(err) != parley.Info(want) {
		rt.Fatalf("%s: got error %v, want %v", what, err, want)
	}
	if d := diff(exp, got); d != "" {
		rt.Fatalf("%s (-want +got):\n%s", what, d)
	}
	return exp
}

func only(err error) (struct{}, error) { return struct{}{}, err }

func (m *machine) create(rt *rapid.T) {
	p := someOwners.Draw(rt, "owner")
	b := creation(p, someSessions.Draw(rt, "session"), rapid.IntRange(0, 3).Draw(rt, "events"))
	b.Index.Session.App, b.Index.Session.OutsideID = someApps.Draw(rt, "app"), someOutside.Draw(rt, "outside")
	b.Index.Session.Direct = rapid.IntRange(0, 3).Draw(rt, "direct") == 0
	m.index(rt, &b)
	as := rapid.SampledFrom([]parley.Principal{p, p, p, parley.System(), bob}).Draw(rt, "as")
	same(m, rt, "create", func(s seam.Store) (struct{}, error) { return only(s.Append(context.Background(), as, b)) })
}

// append is valid most of the time. Otherwise every log would stay short.
func (m *machine) append(rt *rapid.T) {
	id := someSessions.Draw(rt, "session")
	in, err := m.model.Session(context.Background(), parley.System(), id)
	if err != nil {
		in = info(ann, id)
	}
	as := parley.Principal{User: in.User, Org: in.Org}
	if rapid.IntRange(0, 5).Draw(rt, "another") == 0 {
		as = somePeople.Draw(rt, "as")
	}
	after := max(0, in.Version+int64(rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(rt, "off by")))
	b := seam.Batch{
		Session: id, Epoch: int64(rapid.SampledFrom([]int{1, 1, 1, 1, 2, 2, 3}).Draw(rt, "epoch")), After: after,
		Events: steered(id, after+1, rapid.IntRange(0, 3).Draw(rt, "events")),
	}
	if rapid.Bool().Draw(rt, "row") {
		in.Title, in.UpdatedAt = fmt.Sprint("title ", after), at(someTimes.Draw(rt, "at"))
		in.Waiting, in.StepsSince, in.Turn = rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "waiting"), time.Time{}, nil
		if rapid.Bool().Draw(rt, "steps") {
			in.StepsSince = at(someTimes.Draw(rt, "steps since"))
		}
		if rapid.IntRange(0, 3).Draw(rt, "in a turn") == 0 {
			in.Turn = &parley.TurnRef{ID: "T", Status: someStatuses.Draw(rt, "of the turn")}
		}
		b.Index.Session = &in
	}
	if rapid.IntRange(0, 3).Draw(rt, "condense") == 0 {
		b.Condense = int64(rapid.IntRange(0, int(after)).Draw(rt, "up to"))
	}
	for i := range b.Events {
		b.Events[i].Type = someTypes.Draw(rt, "type")
	}
	m.index(rt, &b)
	same(m, rt, "append", func(s seam.Store) (struct{}, error) { return only(s.Append(context.Background(), as, b)) })
}

func (m *machine) fork(rt *rapid.T) {
	from, id := someSessions.Draw(rt, "from"), someSessions.Draw(rt, "session")
	parent, err := m.model.Session(context.Background(), parley.System(), from)
	if err != nil {
		parent = info(ann, from)
	}
	p := parley.Principal{User: parent.User, Org: parent.Org}
	at := int64(rapid.IntRange(0, int(parent.Version)+1).Draw(rt, "at"))
	in := info(p, id)
	in.Parent, in.OutsideID = from, someOutside.Draw(rt, "outside")
	b := seam.Batch{Session: id, Create: true, Owner: "node-1", After: at, Events: steered(id, at+1, 1), Index: seam.Index{Session: &in}}
	m.index(rt, &b)
	as := rapid.SampledFrom([]parley.Principal{p, p, p, parley.System(), bob}).Draw(rt, "as")
	same(m, rt, "fork", func(s seam.Store) (struct{}, error) { return only(s.Fork(context.Background(), as, from, at, b)) })
}

// index adds some rows.
func (m *machine) index(rt *rapid.T, b *seam.Batch) {
	n := rapid.IntRange(0, 63).Draw(rt, "rows")
	end := b.After + int64(len(b.Events))
	if n&1 > 0 {
		b.Index.State = &seam.State{Seq: end, Version: 1, Body: fmt.Appendf(nil, "state at %d", end)}
	}
	if n&2 > 0 {
		b.Index.Turns = append(b.Index.Turns, parley.TurnInfo{
			ID: someTurns.Draw(rt, "turn"), SessionID: b.Session, Status: someStatuses.Draw(rt, "status"), LastSeq: end, CreatedAt: at(int(end)),
		})
	}
	if n&4 > 0 {
		b.Index.Interactions = append(b.Index.Interactions, seam.InteractionRow{Open: rapid.Bool().Draw(rt, "open"), LastSeq: end, Interaction: parley.Interaction{
			ID: parley.InteractionID(someTurns.Draw(rt, "interaction")), Session: b.Session, OpenedAt: at(someTimes.Draw(rt, "opened")),
			Kind: rapid.SampledFrom([]parley.InteractionKind{parley.KindQuestion, parley.KindPermission}).Draw(rt, "kind"),
		}})
		if rapid.Bool().Draw(rt, "expires") {
			b.Index.Interactions[0].ExpiresAt = at(someTimes.Draw(rt, "expires at"))
		}
	}
	if n&8 > 0 {
		k := seam.Key{Key: someKeys.Draw(rt, "key"), Made: b.Session, Turn: parley.TurnID(fmt.Sprint(end))}
		if rapid.Bool().Draw(rt, "of the session") {
			k.Session = b.Session
		}
		b.Index.Keys = append(b.Index.Keys, k)
	}
	if n&16 > 0 {
		d := parley.Digest("0000")
		if len(m.blobs) > 0 {
			d = rapid.SampledFrom(m.blobs).Draw(rt, "blob")
		}
		b.Index.Blobs = append(b.Index.Blobs, d)
		b.Index.Artifacts = append(b.Index.Artifacts, seam.Artifact{Session: b.Session, CreatedAt: at(int(end)), ArtifactRef: parley.ArtifactRef{
			ID: parley.ArtifactID(someTurns.Draw(rt, "artifact")), SHA256: d, Size: int64(someTimes.Draw(rt, "size")),
		}})
	}
	if n&32 > 0 {
		b.Index.Spend = append(b.Index.Spend, seam.Spend{
			Day: fmt.Sprintf("2026-11-%02d", rapid.IntRange(1, 3).Draw(rt, "day")), Model: someApps.Draw(rt, "model") + "/m", Calls: 1,
			Usage: parley.Usage{InputTokens: int64(rapid.IntRange(-5, 50).Draw(rt, "tokens")), USD: float64(rapid.IntRange(-3, 9).Draw(rt, "dollars")) / 8},
		})
		b.Index.DropChunks = append(b.Index.DropChunks, someCalls.Draw(rt, "call"))
		r := seam.Row{RowName: rowAs(rt, ann), Due: at(someTimes.Draw(rt, "row due")), Open: true, Body: fmt.Appendf(nil, "%d", end)}
		if rapid.Bool().Draw(rt, "row of the session") {
			r.Session = b.Session
		}
		b.Index.Rows = append(b.Index.Rows, r)
		b.Index.DropRows = append(b.Index.DropRows, rowAs(rt, ann))
	}
}

func (m *machine) claim(rt *rapid.T) {
	id, p := someSessions.Draw(rt, "session"), somePeople.Draw(rt, "as")
	same(m, rt, "claim", func(s seam.Store) (int64, error) { return s.Claim(context.Background(), p, id, "node-2") })
}

func (m *machine) delete(rt *rapid.T) {
	id, p := someSessions.Draw(rt, "session"), somePeople.Draw(rt, "as")
	same(m, rt, "delete", func(s seam.Store) (struct{}, error) { return only(s.Delete(context.Background(), p, id)) })
}

func (m *machine) put(rt *rapid.T) {
	p, body := somePeople.Draw(rt, "as"), rapid.SampledFrom([]string{"", "one", "two"}).Draw(rt, "body")
	if d := same(m, rt, "put", func(s seam.Store) (parley.Digest, error) { return s.PutBlob(context.Background(), p, []byte(body)) }); d != "" {
		m.blobs = append(m.blobs, d)
	}
}

func (m *machine) chunks(rt *rapid.T) {
	p := somePeople.Draw(rt, "as")
	var all []seam.Chunk
	for range rapid.IntRange(1, 3).Draw(rt, "count") {
		n := int64(rapid.IntRange(1, 5).Draw(rt, "n"))
		all = append(all, seam.Chunk{Session: someSessions.Draw(rt, "session"), Epoch: int64(rapid.IntRange(1, 2).Draw(rt, "epoch")), Call: someCalls.Draw(rt, "call"), N: n, Text: fmt.Sprint("text ", len(all), n)})
	}
	same(m, rt, "chunks", func(s seam.Store) (struct{}, error) { return only(s.SaveChunks(context.Background(), p, all)) })
}

// find looks up one thing of each kind.
func (m *machine) find(rt *rapid.T) {
	ctx, p, id := context.Background(), somePeople.Draw(rt, "as"), someSessions.Draw(rt, "session")
	n := someTimes.Draw(rt, "n")
	m.findRows(rt, p, id)
	key, turn, app, outside := someKeys.Draw(rt, "key"), someTurns.Draw(rt, "turn"), someApps.Draw(rt, "app"), someOutside.Draw(rt, "outside")
	same(m, rt, "Read", func(s seam.Store) ([]parley.Event, error) { return s.Read(ctx, p, id, int64(n-2), n) })
	same(m, rt, "State", func(s seam.Store) (seam.State, error) { return s.State(ctx, p, id) })
	same(m, rt, "Session", func(s seam.Store) (parley.SessionInfo, error) { return s.Session(ctx, p, id) })
	same(m, rt, "Key", func(s seam.Store) (seam.Key, error) { return s.Key(ctx, p, id, key) })
	same(m, rt, "Key of the user", func(s seam.Store) (seam.Key, error) { return s.Key(ctx, p, "", key) })
	same(m, rt, "Held", func(s seam.Store) (seam.Held, error) { return s.Held(ctx, p, "") })
	same(m, rt, "Held by one", func(s seam.Store) (seam.Held, error) { return s.Held(ctx, p, id) })
	same(m, rt, "Alias", func(s seam.Store) (parley.SessionID, error) { return s.Alias(ctx, p, app, outside) })
	same(m, rt, "Turn", func(s seam.Store) (parley.TurnInfo, error) { return s.Turn(ctx, p, turn) })
	same(m, rt, "Interaction", func(s seam.Store) (seam.InteractionRow, error) {
		return s.Interaction(ctx, p, parley.InteractionID(turn))
	})
	same(m, rt, "Artifact", func(s seam.Store) (seam.Artifact, error) { return s.Artifact(ctx, p, parley.ArtifactID(turn)) })
	for _, d := range m.blobs {
		same(m, rt, "Blob", func(s seam.Store) ([]byte, error) { return s.Blob(ctx, p, id, d) })
	}
	direct := rapid.Bool().Draw(rt, "direct")
	changed := seam.SessionQuery{App: app, Before: at(n), Limit: n / 2, Direct: direct}
	if rapid.Bool().Draw(rt, "after one that changed") {
		changed.Before, changed.After = time.Time{}, seam.SessionMark{Time: at(n), ID: id}
	}
	same(m, rt, "Sessions", func(s seam.Store) ([]parley.SessionInfo, error) { return s.Sessions(ctx, p, changed) })
	statuses := rapid.SliceOfN(someStatuses, 0, 3).Draw(rt, "statuses")
	same(m, rt, "Turns", func(s seam.Store) ([]parley.TurnInfo, error) {
		return s.Turns(ctx, p, seam.TurnQuery{Before: turn, Statuses: statuses, Limit: n / 2})
	})
	same(m, rt, "Turns after one", func(s seam.Store) ([]parley.TurnInfo, error) {
		return s.Turns(ctx, p, seam.TurnQuery{After: seam.TurnMark{ID: turn, Session: id}, Statuses: statuses, Limit: n / 2})
	})
	same(m, rt, "Turns of a session", func(s seam.Store) ([]parley.TurnInfo, error) {
		return s.Turns(ctx, p, seam.TurnQuery{Session: id, Statuses: statuses})
	})
	questions := seam.InteractionQuery{Limit: n / 2}
	if rapid.Bool().Draw(rt, "due") {
		questions.Due = at(someTimes.Draw(rt, "due at"))
	}
	if rapid.Bool().Draw(rt, "after one") {
		questions.After = seam.InteractionMark{Time: at(n), ID: parley.InteractionID(turn), Session: id}
	}
	same(m, rt, "Interactions", func(s seam.Store) ([]seam.InteractionRow, error) { return s.Interactions(ctx, p, questions) })
	same(m, rt, "CountInteractions", func(s seam.Store) (map[parley.InteractionKind]int, error) { return s.CountInteractions(ctx, p) })
	day := fmt.Sprintf("2026-11-%02d", n%4)
	same(m, rt, "Spent", func(s seam.Store) ([]seam.Spend, error) { return s.Spent(ctx, p, day, "2026-11-02") })
	rest := seam.RestQuery{
		App: app, Status: rapid.SampledFrom([]parley.SessionStatus{"", parley.Active, parley.Ended}).Draw(rt, "rest"),
		Before: at(n), Limit: n / 2,
	}
	rest.Direct = direct && rest.Status != ""
	if rapid.Bool().Draw(rt, "after a session") {
		rest.After = seam.SessionMark{Time: at(someTimes.Draw(rt, "after at")), ID: id}
	}
	same(m, rt, "Resting", func(s seam.Store) ([]parley.SessionInfo, error) { return s.Resting(ctx, p, rest) })
}

func (m *machine) compare(rt *rapid.T) {
	if d := diff(dump(rt, m.model), dump(rt, m.real)); d != "" {
		rt.Fatalf("everything (-want +got):\n%s", d)
	}
}
