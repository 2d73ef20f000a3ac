package storetest

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// noise returns n bytes of text that no database compresses by more than half.
func noise(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n/2)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return hex.EncodeToString(b)
}

// room checks that forks, and forks of forks, add little to the size of the database.
// Bytes that several sessions read are stored once, for as long as one of the sessions
// exists.
func room(t *testing.T, s seam.Store) {
	db, ok := s.(interface{ Bytes() (int64, error) })
	if !ok {
		return // the store keeps nothing
	}
	ctx := context.Background()
	const events, size = 64, 16 << 10
	create(t, s, ann, "other", 1)
	bytes := func() int64 {
		t.Helper()
		n, err := db.Bytes()
		must(t, err)
		return n
	}
	empty := bytes()
	// between checks by how much the database has grown, in halves of the size of one 1
	// MB log.
	var one int64
	between := func(when string, from, to float64) {
		t.Helper()
		if got := float64(bytes()-empty) / float64(one) * 2; got < from || got > to {
			t.Errorf("%s the database holds %.2f halves of a log, want %v to %v", when, got, from, to)
		}
	}

	b := creation(ann, "A", 1)
	b.Events = nil
	for i := range int64(events) {
		b.Events = append(b.Events, event("A", i+1, "model.replied", strconv.Quote(noise(uint64(i), size))))
	}
	d, err := s.PutBlob(ctx, ann, []byte(noise(events, 4*size)))
	must(t, err)
	b.Index.Blobs = []parley.Digest{d}
	b.Index.Artifacts = []seam.Artifact{{Session: "A", ArtifactRef: parley.ArtifactRef{ID: "art", Size: 4 * size, SHA256: d}}}
	b.Index.Turns = []parley.TurnInfo{ended("t1", "A", parley.StatusCompleted, 1, 2)}
	must(t, s.Append(ctx, ann, b))
	one = bytes() - empty
	if one < events*size/2 {
		t.Fatalf("a log of %d bytes takes %d", events*size, one)
	}

	id := func(name string, n int) parley.SessionID { return parley.SessionID(fmt.Sprint(name, n)) }
	for n := range 10 {
		forked(t, s, "A", id("B", n), events)
	}
	between("with ten forks", 2, 2.4)
	forked(t, s, "B0", "C0", events+1)
	for n := range 9 {
		forked(t, s, id("C", n), id("C", n+1), int64(events+2+n))
	}
	between("with a chain of ten", 2, 2.4)

	must(t, s.Delete(ctx, ann, "A"))
	between("without the first", 1.8, 2.4)
	for n := range 10 {
		must(t, s.Delete(ctx, ann, id("B", n)))
	}
	for n := range 9 {
		must(t, s.Delete(ctx, ann, id("C", n)))
	}
	between("with the last of the chain", 1.8, 2.4)
	if got := readAll(t, s, ann, "C9"); len(got) != events+11 || len(got[events-1].Data) < size {
		t.Errorf("got %d events of the last of the chain, want %d with their data", len(got), events+11)
	}
	forked(t, s, "C9", "D", events/2)
	must(t, s.Delete(ctx, ann, "C9"))
	between("with the first half alone", 0.8, 1.4)
	must(t, s.Append(ctx, ann, seam.Batch{
		Session: "D", Epoch: 1, After: events/2 + 1, Condense: events / 2,
		Events: []parley.Event{event("D", events/2+2, "history.condensed", `{"from":1}`)},
	}))
	between("condensed", 0, 0.4) // the artifact's body is still there; it is collected later
	must(t, s.Delete(ctx, ann, "D"))
	between("with none", 0, 0.4)
}
