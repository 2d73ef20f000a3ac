package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley/internal/store/rule"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

func appendRead(t *testing.T, s seam.Store) {
	ctx := context.Background()
	w := newWorld(t, s, ann, "A")
	equal(t, "events", readAll(t, s, ann, w.id), w.events)

	more := steered(w.id, 4, 3)
	must(t, s.Append(ctx, ann, seam.Batch{Session: w.id, Epoch: 1, After: 3, Events: more}))
	equal(t, "events", readAll(t, s, ann, w.id), append(slices.Clone(w.events), more...))

	got, err := s.Session(ctx, ann, w.id)
	must(t, err)
	w.info.Version = 6
	equal(t, "the row of a session whose log went on", got, w.info)

	// A batch may change only rows.
	w.info.Title = "Another"
	must(t, s.Append(ctx, ann, seam.Batch{Session: w.id, Epoch: 1, After: 6, Index: seam.Index{Session: &w.info}}))
	got, err = s.Session(ctx, ann, w.id)
	must(t, err)
	equal(t, "the row", got, w.info)
}

func atomic(t *testing.T, s seam.Store) {
	ctx := context.Background()
	w := newWorld(t, s, ann, "A")
	before := dump(t, s)
	title := w.info
	title.Title = "Changed"
	done := w.turn
	done.Status = parley.StatusCompleted
	b := seam.Batch{Session: w.id, Epoch: 1, After: 3, Events: steered(w.id, 4, 2), Index: seam.Index{
		Session: &title, State: &seam.State{Seq: 5, Version: 1, Body: []byte("new")}, Turns: []parley.TurnInfo{done},
		Keys: []seam.Key{{Session: w.id, Key: "fresh"}, w.key}, DropChunks: []parley.CallID{w.chunk.Call},
	}}
	want(t, "append with a key that is taken", s.Append(ctx, ann, b), parley.CodeKeyReused)
	b.Index.Keys = []seam.Key{{Session: w.id, Key: "fresh"}, {Session: w.id, Key: "fresh"}}
	want(t, "append with a key twice", s.Append(ctx, ann, b), parley.CodeKeyReused)
	b.Index.Keys = []seam.Key{{Session: w.id, Key: "fresh"}}
	b.Index.Blobs = []parley.Digest{"0000"}
	want(t, "append with a blob that was never put", s.Append(ctx, ann, b), parley.CodeInvalid)
	equal(t, "everything after refusals", dump(t, s), before)
	_, err := s.Key(ctx, ann, w.id, "fresh")
	want(t, "key of a refused batch", err, parley.CodeNotFound)

	b.Index.Blobs = nil
	must(t, s.Append(ctx, ann, b))
}

func fencing(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	b := seam.Batch{Session: "S", Epoch: 1, After: 1, Events: steered("S", 2, 1)}
	for want := int64(2); want <= 4; want++ {
		if epoch, err := s.Claim(ctx, parley.System(), "S", "node-2"); err != nil || epoch != want {
			t.Fatalf("got epoch %d, %v, want %d", epoch, err, want)
		}
	}
	for _, epoch := range []int64{0, 1, 3, 5} {
		b.Epoch = epoch
		want(t, fmt.Sprintf("append under epoch %d of 4", epoch), s.Append(ctx, ann, b), parley.CodeFenced)
	}
	// A fenced writer learns that it is fenced, and not where the log ends.
	b.Epoch, b.After, b.Events = 1, 7, steered("S", 8, 1)
	want(t, "fenced and at the wrong place", s.Append(ctx, ann, b), parley.CodeFenced)
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 4, After: 1, Events: steered("S", 2, 1)}))
	equal(t, "events", readAll(t, s, ann, "S"), steered("S", 1, 2))
	_, err := s.Claim(ctx, ann, "absent", "node-1")
	want(t, "claim of nothing", err, parley.CodeNotFound)
}

func conflict(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 3)
	for _, after := range []int64{0, 2, 4} {
		want(t, fmt.Sprintf("append after %d of 3", after),
			s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: after, Events: steered("S", after+1, 1)}), parley.CodeConflict)
	}
	want(t, "append to nothing", s.Append(ctx, ann, seam.Batch{Session: "absent", Epoch: 1, Events: steered("absent", 1, 1)}), parley.CodeNotFound)
	equal(t, "events", readAll(t, s, ann, "S"), steered("S", 1, 3))
}

func created(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	want(t, "the same session again", s.Append(ctx, ann, creation(ann, "S", 1)), parley.CodeConflict)
	want(t, "the id of another's session", s.Append(ctx, bob, creation(bob, "S", 1)), parley.CodeNotFound)
	must(t, s.Append(ctx, parley.System(), creation(bob, "T", 1)))
	equal(t, "a session that System made for bob", readAll(t, s, bob, "T"), steered("T", 1, 1))

	must(t, s.Delete(ctx, ann, "S"))
	want(t, "the id of a deleted session", s.Append(ctx, ann, creation(ann, "S", 1)), parley.CodeNotFound)
}

func malformed(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	before := dump(t, s)
	theirs := info(bob, "S")
	other := info(ann, "other")
	good := seam.Batch{Session: "S", Epoch: 1, After: 1, Events: steered("S", 2, 1)}
	for name, change := range map[string]func(*seam.Batch){
		"a gap":                      func(b *seam.Batch) { b.Events = steered("S", 3, 1) },
		"a number twice":             func(b *seam.Batch) { b.Events = append(steered("S", 2, 1), steered("S", 2, 1)...) },
		"another session's event":    func(b *seam.Batch) { b.Events = steered("T", 2, 1) },
		"an event without a type":    func(b *seam.Batch) { b.Events = []parley.Event{event("S", 2, "", "{}")} },
		"a negative place":           func(b *seam.Batch) { b.After, b.Events = -1, steered("S", 0, 1) },
		"no session":                 func(b *seam.Batch) { b.Session = "" },
		"another session's row":      func(b *seam.Batch) { b.Index.Session = &other },
		"a session given to another": func(b *seam.Batch) { b.Index.Session = &theirs },
		"another session's turn":     func(b *seam.Batch) { b.Index.Turns = []parley.TurnInfo{{ID: "t", SessionID: "T"}} },
		"another session's key":      func(b *seam.Batch) { b.Index.Keys = []seam.Key{{Session: "T", Key: "k"}} },
		"an empty key":               func(b *seam.Batch) { b.Index.Keys = []seam.Key{{Session: "S"}} },
		"another session's artifact": func(b *seam.Batch) { b.Index.Artifacts = []seam.Artifact{{Session: "T"}} },
		"another session's interaction": func(b *seam.Batch) {
			b.Index.Interactions = []seam.InteractionRow{{Interaction: parley.Interaction{ID: "i", Session: "T"}}}
		},
	} {
		b := good
		change(&b)
		want(t, name, s.Append(ctx, ann, b), parley.CodeInvalid)
	}
	b := good
	b.Index.Session = &theirs
	want(t, "a session given to another by System", s.Append(ctx, parley.System(), b), parley.CodeInvalid)
	b = creation(ann, "N", 1)
	b.Index.Session = nil
	want(t, "a new session without a row", s.Append(ctx, ann, b), parley.CodeInvalid)
	b = creation(nobody, "N", 1)
	want(t, "a new session of nobody", s.Append(ctx, parley.System(), b), parley.CodeInvalid)
	equal(t, "everything after refusals", dump(t, s), before)
	must(t, s.Append(ctx, ann, good))
}

// concurrent runs several writers on one session. Each appends after the last event it
// saw.
func concurrent(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	const hands, each = 8, 12
	var wg sync.WaitGroup
	for hand := range hands {
		wg.Go(func() {
			for i := range each {
				for {
					in, err := s.Session(ctx, ann, "S")
					if err != nil {
						t.Error(err)
						return
					}
					n := 1 + (hand+i)%3
					var events []parley.Event
					for k := range n {
						events = append(events, event("S", in.Version+1+int64(k), "test.word", fmt.Sprintf(`{"by":%d,"i":%d,"k":%d,"of":%d}`, hand, i, k, n)))
					}
					err = s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: in.Version, Events: events})
					if err == nil {
						break
					}
					if parley.CodeOf(err) != parley.CodeConflict {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	all := readAll(t, s, ann, "S")
	sum := 0
	for hand := range hands {
		for i := range each {
			sum += 1 + (hand+i)%3
		}
	}
	if len(all) != sum+1 {
		t.Errorf("got %d events, want %d", len(all), sum+1)
	}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Fatalf("got event %d at place %d, want no gap", e.Seq, i+1)
		}
	}
	// The events of a batch are next to each other.
	for i := 1; i < len(all); {
		var by, nr, k, of int
		if _, err := fmt.Sscanf(string(all[i].Data), `{"by":%d,"i":%d,"k":%d,"of":%d}`, &by, &nr, &k, &of); err != nil || k != 0 {
			t.Fatalf("event %d begins no batch: %s", i+1, all[i].Data)
		}
		for k := range of {
			if got, want := string(all[i+k].Data), fmt.Sprintf(`{"by":%d,"i":%d,"k":%d,"of":%d}`, by, nr, k, of); got != want {
				t.Fatalf("event %d: got %s, want %s", i+k+1, got, want)
			}
		}
		i += of
	}
}

// manySessions has each writer append to its own session. Refused appends in between
// must not affect the other batches of their group.
func manySessions(t *testing.T, s seam.Store) {
	ctx := context.Background()
	const hands, each = 24, 10
	var wg sync.WaitGroup
	for hand := range hands {
		wg.Go(func() {
			id := parley.SessionID(fmt.Sprintf("S%02d", hand))
			if err := s.Append(ctx, ann, creation(ann, id, 1)); err != nil {
				t.Error(err)
				return
			}
			for i := range each {
				n := int64(i + 1)
				if hand%3 == 0 {
					want(t, "refused", s.Append(ctx, ann, seam.Batch{Session: id, Epoch: 1, After: n + 5, Events: steered(id, n+6, 1)}), parley.CodeConflict)
				}
				if hand%5 == 0 {
					if err := s.SaveChunks(ctx, ann, []seam.Chunk{{Session: id, Epoch: 1, Call: "c", N: n, Text: "x"}}); err != nil {
						t.Error(err)
					}
				}
				if err := s.Append(ctx, ann, seam.Batch{Session: id, Epoch: 1, After: n, Events: steered(id, n+1, 1)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for hand := range hands {
		id := parley.SessionID(fmt.Sprintf("S%02d", hand))
		equal(t, "events of "+string(id), readAll(t, s, ann, id), steered(id, 1, each+1))
	}
}

func carried(t *testing.T, s seam.Store) {
	ctx := context.Background()
	create(t, s, ann, "S", 1)
	events := []parley.Event{
		event("S", 2, "grant.revoked", `{"unknown":[1,2.50,{"deep":null}],"keep":  "white space"}`),
		event("S", 3, "turn.steered", `{"from":"a later version"}`),
		event("S", 4, "tool.ended", ""),
	}
	events[1].V = 3
	events[1].Turn, events[1].Agent = "", ""
	events[2].Data = nil // condensed
	must(t, s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 1, Events: events}))
	got, err := s.Read(ctx, ann, "S", 1, 0)
	must(t, err)
	equal(t, "events", got, events)
	_, err = got[2].Payload()
	want(t, "payload of a condensed event", err, parley.CodeCondensed)
}

func strange(t *testing.T, s seam.Store) {
	ctx := context.Background()
	text := "Grüße 🦜 \u2028 \x00 'quoted' \"double\" \\ % _ ; DROP TABLE events; \u202ertl\u202c 漢字"
	in := info(ann, "S'; --")
	in.Title, in.OutsideID, in.Preview = text, text, strings.Repeat("é", 80)
	big := event(in.ID, 1, "model.replied", `{"text":"`+strings.Repeat("0123456789abcdef", 1<<16)+`"}`)
	big.Turn, big.Agent = parley.TurnID(text), parley.AgentPath(text)
	key := seam.Key{Session: in.ID, Key: text, Made: in.ID}
	b := seam.Batch{Session: in.ID, Create: true, Events: []parley.Event{big}, Index: seam.Index{
		Session: &in, Keys: []seam.Key{key}, State: &seam.State{Seq: 1, Version: 1, Body: []byte(strings.Repeat("state", 1<<18))},
	}}
	must(t, s.Append(ctx, ann, b))
	got, err := s.Read(ctx, ann, in.ID, 0, 0)
	must(t, err)
	if len(got) != 1 || !got[0].Equal(big) {
		t.Error("a megabyte came back changed")
	}
	st, err := s.State(ctx, ann, in.ID)
	must(t, err)
	if st.Seq != 1 || st.Version != 1 || string(st.Body) != string(b.Index.State.Body) {
		t.Error("a large state came back changed")
	}
	row, err := s.Session(ctx, ann, in.ID)
	must(t, err)
	equal(t, "the row", row, in)
	id, err := s.Alias(ctx, ann, in.App, text)
	if err != nil || id != in.ID {
		t.Errorf("got %q, %v, want %q", id, err, in.ID)
	}
	k, err := s.Key(ctx, ann, in.ID, text)
	must(t, err)
	equal(t, "the key", k, key)
	must(t, s.SaveChunks(ctx, ann, []seam.Chunk{{Session: in.ID, Epoch: 1, Call: "c", N: 1, Text: text}}))
	chunks, err := s.Chunks(ctx, ann, in.ID)
	must(t, err)
	equal(t, "chunks", chunks, []seam.Chunk{{Session: in.ID, Call: "c", N: 1, Text: text}})

	huge := steered(in.ID, 2, 1)
	huge[0].Data = make([]byte, 65<<20)
	want(t, "a batch over the limit", s.Append(ctx, ann, seam.Batch{Session: in.ID, Epoch: 1, After: 1, Events: huge}), parley.CodeTooLarge)
}

func readPages(t *testing.T, s seam.Store) {
	ctx := context.Background()
	b := creation(ann, "S", 1200)
	for i := range b.Events {
		b.Events[i].Data = json.RawMessage(`{}`)
	}
	must(t, s.Append(ctx, ann, b))
	all := b.Events
	for _, c := range []struct {
		after      int64
		limit      int
		from, upto int
	}{
		{0, 0, 0, 1000},
		{0, 5000, 0, 1000},
		{0, -1, 0, 1000},
		{0, 1, 0, 1},
		{10, 5, 10, 15},
		{1000, 0, 1000, 1200},
		{1199, 0, 1199, 1200},
		{1200, 0, 0, 0},
		{5000, 10, 0, 0},
		{math.MaxInt64, 10, 0, 0},
		{-3, 2, 0, 2},
	} {
		got, err := s.Read(ctx, ann, "S", c.after, c.limit)
		must(t, err)
		var want []parley.Event
		if c.upto > 0 {
			want = all[c.from:c.upto]
		}
		equal(t, fmt.Sprintf("read after %d up to %d", c.after, c.limit), got, want)
	}
	_, err := s.Read(ctx, ann, "absent", 0, 0)
	want(t, "read of nothing", err, parley.CodeNotFound)
}

// readBytes: a page has as many events as fit into its bytes, or one large event.
func readBytes(t *testing.T, s seam.Store) {
	ctx := context.Background()
	b := creation(ann, "S", 7)
	for i, size := range []int{rule.PageBytes / 2, rule.PageBytes / 2, 2, rule.PageBytes, 3 * rule.PageBytes, 2, 2} {
		b.Events[i].Data = json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
	}
	must(t, s.Append(ctx, ann, b))
	var pages []int
	for after := 0; ; {
		page, err := s.Read(ctx, ann, "S", int64(after), 0)
		must(t, err)
		pages = append(pages, len(page))
		if len(page) == 0 {
			break
		}
		equal(t, fmt.Sprint("page after ", after), page, b.Events[after:after+len(page)])
		after += len(page)
	}
	equal(t, "events of each page", pages, []int{2, 1, 1, 1, 2, 0})
}

func cancelled(t *testing.T, s seam.Store) {
	create(t, s, ann, "S", 1)
	before := dump(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := seam.Batch{Session: "S", Epoch: 1, After: 1, Events: steered("S", 2, 1)}
	want(t, "append", s.Append(ctx, ann, b), parley.CodeCancelled)
	want(t, "delete", s.Delete(ctx, ann, "S"), parley.CodeCancelled)
	_, err := s.Read(ctx, ann, "S", 0, 0)
	want(t, "read", err, parley.CodeCancelled)
	_, err = s.Claim(ctx, ann, "S", "node-2")
	want(t, "claim", err, parley.CodeCancelled)
	equal(t, "everything", dump(t, s), before)
	must(t, s.Append(context.Background(), ann, b))
}

func closed(t *testing.T, s seam.Store) {
	ctx := context.Background()
	w := newWorld(t, s, ann, "A")
	must(t, s.Check(ctx))
	must(t, s.Close())
	must(t, s.Close())
	want(t, "Check", s.Check(ctx), parley.CodeUnavailable)
	for name, try := range reaches {
		who := ann
		if slices.Contains(onlySystem, name) {
			who = parley.System()
		}
		if _, err := try(ctx, s, w, who); parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("%s after Close: got %v, want unavailable", name, err)
		}
	}
}
