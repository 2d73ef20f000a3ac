package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

func spending(day, model string, calls int64, u parley.Usage) seam.Index {
	return seam.Index{Spend: []seam.Spend{{Day: day, Model: model, Calls: calls, Usage: u}}}
}

// spent checks that the costs of appends are summed by day, model and owner, exactly to
// a billionth of a dollar. They are added from many sessions at once, and outlive them.
func spent(t *testing.T, s seam.Store) {
	ctx := context.Background()
	const many = 8
	var wg sync.WaitGroup
	for i := range many {
		id := parley.SessionID("s" + string(rune('a'+i)))
		must(t, s.Append(ctx, ann, creation(ann, id, 1)))
		wg.Go(func() {
			for n := range int64(5) {
				ix := spending("2026-11-21", "acme/large", 1, parley.Usage{InputTokens: 100, OutputTokens: 10, CacheReadTokens: 3, CacheWriteTokens: 2, ReasoningTokens: 1, USD: 0.000000001})
				err := s.Append(ctx, ann, seam.Batch{Session: id, Epoch: 1, After: 1 + n, Events: steered(id, 2+n, 1), Index: ix})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, s.Append(ctx, bob, creation(bob, "b", 1)))
	must(t, s.Append(ctx, bob, seam.Batch{Session: "b", Epoch: 1, After: 1, Index: spending("2026-11-21", "acme/large", 1, parley.Usage{USD: 2.5, OutputTokens: 500})}))
	must(t, s.Append(ctx, bob, seam.Batch{Session: "b", Epoch: 1, After: 1, Index: spending("2026-11-21", "acme/large", 0, parley.Usage{USD: -2, OutputTokens: -400})}))
	must(t, s.Append(ctx, bob, seam.Batch{Session: "b", Epoch: 1, After: 1, Index: spending("2026-11-22", "acme/small", 1, parley.Usage{USD: 0.25})}))
	refused := s.Append(ctx, bob, seam.Batch{Session: "b", Epoch: 1, After: 7, Index: spending("2026-11-22", "acme/small", 1, parley.Usage{USD: 9})})
	if parley.CodeOf(refused) != parley.CodeConflict {
		t.Errorf("got %v, want a conflict", refused)
	}
	if err := s.Append(ctx, bob, seam.Batch{Session: "b", Epoch: 1, After: 1, Index: spending("today", "acme/small", 1, parley.Usage{})}); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("an invalid day gets %v", err)
	}
	must(t, s.Delete(ctx, ann, "sa"))
	must(t, s.Delete(ctx, bob, "b"))

	for org, want := range map[string]float64{ann.Org: 0, bob.Org: 0, "nobody's": 0} {
		for _, p := range []parley.Principal{ann, bob} {
			if p.Org == org {
				want += map[parley.Principal]float64{ann: 40 / 1e9, bob: 0.5}[p]
			}
		}
		if got, err := s.SpentByOrg(ctx, parley.System(), org, "2026-11-21"); err != nil || got != want {
			t.Errorf("%q has spent %v, %v, want %v", org, got, err, want)
		}
		if _, err := s.SpentByOrg(ctx, ann, org, "2026-11-21"); parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("a user asks for %q: %v", org, err)
		}
	}
	list := func(p parley.Principal, from, to string) []seam.Spend {
		t.Helper()
		got, err := s.Spent(ctx, p, from, to)
		must(t, err)
		return got
	}
	anns := seam.Spend{Day: "2026-11-21", Model: "acme/large", User: ann.User, Org: ann.Org, Calls: 5 * many, Usage: parley.Usage{
		InputTokens: 4000, OutputTokens: 400, CacheReadTokens: 120, CacheWriteTokens: 80, ReasoningTokens: 40, USD: 40 / 1e9,
	}}
	bobs := []seam.Spend{
		{Day: "2026-11-21", Model: "acme/large", User: bob.User, Org: bob.Org, Calls: 1, Usage: parley.Usage{OutputTokens: 100, USD: 0.5}},
		{Day: "2026-11-22", Model: "acme/small", User: bob.User, Org: bob.Org, Calls: 1, Usage: parley.Usage{USD: 0.25}},
	}
	equal(t, "what ann spent", list(ann, "2026-11-01", "2026-11-30"), []seam.Spend{anns})
	equal(t, "what bob spent", list(bob, "2026-11-21", "2026-11-22"), bobs)
	equal(t, "what bob spent on one day", list(bob, "2026-11-22", "2026-11-22"), bobs[1:])
	equal(t, "what bob spent before", list(bob, "2026-10-01", "2026-11-20"), []seam.Spend(nil))
	equal(t, "what everybody spent on a day", list(parley.System(), "2026-11-21", "2026-11-21"), []seam.Spend{anns, bobs[0]})
	equal(t, "what a user of the same name in another org spent", list(ann2, "2026-11-01", "2026-11-30"), []seam.Spend(nil))
}

// held checks that the bytes of a user's sessions are added up, and given back by a
// deletion. A fork counts as much as its parent, whichever of them is deleted.
func held(t *testing.T, s seam.Store) {
	ctx := context.Background()
	one := func(when string, p parley.Principal, id parley.SessionID, sessions int, bytes int64) {
		t.Helper()
		got, err := s.Held(ctx, p, id)
		must(t, err)
		equal(t, when, got, seam.Held{Sessions: sessions, Bytes: bytes})
	}
	check := func(when string, p parley.Principal, sessions int, bytes int64) {
		t.Helper()
		one(when, p, "", sessions, bytes)
	}
	size := func(events []parley.Event) (n int64) {
		for _, e := range events {
			n += int64(len(e.Data))
		}
		return n
	}
	check("at first", ann, 0, 0)
	create(t, s, ann, "A", 2)
	create(t, s, bob, "B", 1)
	a := size(steered("A", 1, 2))
	check("made", ann, 1, a)
	d, err := s.PutBlob(ctx, ann, []byte("body"))
	must(t, err)
	must(t, s.Append(ctx, ann, seam.Batch{Session: "A", Epoch: 1, After: 2, Events: steered("A", 3, 1), Index: seam.Index{
		Blobs: []parley.Digest{d}, Artifacts: []seam.Artifact{{Session: "A", ArtifactRef: parley.ArtifactRef{ID: "art", Size: 4, SHA256: d}}},
	}}))
	a += size(steered("A", 3, 1)) + 4
	check("appended", ann, 1, a)
	direct := creation(ann, "D", 2)
	direct.Index.Session.Direct = true
	must(t, s.Append(ctx, ann, direct))
	check("with that of a direct call", ann, 1, a+size(direct.Events))
	must(t, s.Delete(ctx, ann, "D"))
	forked(t, s, "A", "F", 3)
	f := a + size(steered("F", 4, 1))
	check("forked", ann, 2, a+f)
	check("another's", bob, 1, size(steered("B", 1, 1)))
	check("everybody's", parley.System(), 3, a+f+size(steered("B", 1, 1)))
	one("the parent", ann, "A", 1, a)
	one("the fork", ann, "F", 1, f)
	one("one that is another's", bob, "A", 0, 0)
	must(t, s.Delete(ctx, ann, "A"))
	one("one that is deleted", ann, "A", 0, 0)
	check("the parent deleted", ann, 1, f)
	must(t, s.Delete(ctx, ann, "F"))
	check("all deleted", ann, 0, 0)
}
