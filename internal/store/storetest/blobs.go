package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Collector is a store that removes unreferenced blobs.
type Collector interface {
	seam.Store
	Collect(ctx context.Context) error
	Has(d parley.Digest) (bool, error) // whether the bytes are stored
}

// Collected checks when a blob is removed. It opens a store with a clock.
func Collected(t *testing.T, open func(now func() time.Time) Collector) {
	ctx := context.Background()
	now := start
	s := open(func() time.Time { return now })
	put := func(text string) parley.Digest {
		t.Helper()
		d, err := s.PutBlob(ctx, User, []byte(text))
		must(t, err)
		return d
	}
	referred, orphan, renewed := put("referred to"), put("orphan"), put("put again")
	b := Words("S", 0, 1, 10)
	b.Index.Blobs = []parley.Digest{referred}
	must(t, s.Append(ctx, User, b))

	is := func(d parley.Digest) bool {
		t.Helper()
		there, err := s.Has(d)
		must(t, err)
		return there
	}
	now = now.Add(59 * time.Minute)
	must(t, s.Collect(ctx))
	if !is(referred) || !is(orphan) {
		t.Error("a blob was removed within the hour")
	}
	put("put again")
	now = now.Add(30 * time.Minute)
	must(t, s.Collect(ctx))
	if !is(referred) || is(orphan) || !is(renewed) {
		t.Errorf("got %v %v %v, want true false true", is(referred), is(orphan), is(renewed))
	}
	if again := put("orphan"); again != orphan || !is(orphan) {
		t.Error("a removed blob cannot be put again")
	}
	// The last reference is deleted with its session.
	must(t, s.Delete(ctx, User, "S"))
	now = now.Add(2 * time.Hour)
	must(t, s.Collect(ctx))
	if is(referred) || is(renewed) {
		t.Error("blobs of a deleted session are still there")
	}
}
