package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Fill puts something of every kind into an empty store: sessions of three people, forks of
// forks, condensed steps, deleted sessions with forks that remain, a large result, strange
// texts, secrets, rows, and n events of one long session.
func Fill(t testing.TB, s seam.Store, n int) {
	t.Helper()
	ctx := context.Background()
	for i, p := range people {
		w := newWorld(t, s, p, string(rune('A'+i)))
		for j := range 3 {
			in := info(p, parley.SessionID(fmt.Sprint(w.id, "-fork-", j)))
			in.Parent, in.Direct = w.id, j == 1
			must(t, s.Fork(ctx, p, w.id, int64(1+j), seam.Batch{Session: in.ID, After: int64(1 + j), Events: steered(in.ID, int64(2+j), 2), Index: seam.Index{Session: &in}}))
		}
		must(t, s.PutSealed(ctx, p, seam.Sealed{App: "notes", Workspace: "w", Name: "token", Body: []byte{0, 1, 0xff, byte(i)}}))
		must(t, s.PutApproval(ctx, p, seam.Approval{App: "notes", Name: "hook", Body: []byte("yes")}))
		putRow(t, s, p, rowOf(seam.RowDevice, "phone \x01é", 7, `{"endpoint":"https://push.example/\u0000"}`))
	}
	putRow(t, s, parley.System(), rowOf(seam.RowSchedule, "of the server", 0, ""))
	// A fork of a fork, whose ancestors are gone.
	middle := parley.SessionID("B-session-fork-2")
	in := info(bob, "grandchild")
	in.Parent = middle
	must(t, s.Fork(ctx, bob, middle, 4, seam.Batch{Session: in.ID, After: 4, Events: steered(in.ID, 5, 1), Index: seam.Index{Session: &in}}))
	must(t, s.Delete(ctx, bob, middle))
	must(t, s.Delete(ctx, bob, "B-session"))
	// A long session with steps, of which some are condensed; its fork keeps them.
	create(t, s, ann, "long", 1)
	strange := "\x00\u2028 \U0001f980 \\u0000 <>&\""
	for after := int64(1); after < int64(n); {
		b := seam.Batch{Session: "long", Epoch: 1, After: after}
		for range min(200, n-int(after)) {
			seq := after + int64(len(b.Events)) + 1
			text, err := json.Marshal(strange + strings.Repeat("x", int(seq%97)))
			must(t, err)
			b.Events = append(b.Events, event("long", seq, "model.replied", `{"n":`+fmt.Sprint(seq)+`,"text":`+string(text)+`}`))
		}
		after += int64(len(b.Events))
		must(t, s.Append(ctx, ann, b))
	}
	in = info(ann, "long-fork")
	in.Parent = "long"
	must(t, s.Fork(ctx, ann, "long", int64(n), seam.Batch{Session: in.ID, After: int64(n), Events: steered(in.ID, int64(n)+1, 1), Index: seam.Index{Session: &in}}))
	must(t, s.Append(ctx, ann, seam.Batch{Session: "long", Epoch: 1, After: int64(n), Events: steered("long", int64(n)+1, 1), Condense: int64(n) / 2}))
	// One that is condensed for all of its readers.
	create(t, s, ann, "short", 1)
	must(t, s.Append(ctx, ann, seam.Batch{Session: "short", Epoch: 1, After: 1, Events: []parley.Event{event("short", 2, "model.replied", `{"x":1}`)}}))
	must(t, s.Append(ctx, ann, seam.Batch{Session: "short", Epoch: 1, After: 2, Events: steered("short", 3, 1), Condense: 2}))
	_, err := s.Claim(ctx, ann, "short", "another node")
	must(t, err)
	d, err := s.PutBlob(ctx, ann2, []byte(strings.Repeat("a large result ", 400_000)))
	must(t, err)
	must(t, s.Append(ctx, ann2, seam.Batch{Session: "C-session", Epoch: 1, After: 3, Index: seam.Index{Blobs: []parley.Digest{d}}}))
	_, err = s.PutBlob(ctx, ann, nil) // empty, and nothing refers to it
	must(t, err)
}

// Everything is what System sees of a store, to compare two of them.
func Everything(t testing.TB, s seam.Store) any {
	t.Helper()
	return dump(t, s)
}
