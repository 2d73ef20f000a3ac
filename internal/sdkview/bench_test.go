package sdkview_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sdkview"
)

// BenchmarkPrime tells a view of 1,000 turns: what a client that comes back to a long session costs
// beyond the reading.
func BenchmarkPrime(b *testing.B) {
	var log []parley.Event
	for range 1000 {
		for _, e := range others()[2:] {
			e.Seq = int64(len(log) + 1)
			log = append(log, e.WithData(e.Data)) // as it is read from a store
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s := sdkview.NewSDK(sdkview.Options{Session: "01SESSION", Deltas: true})
		for _, e := range log {
			s.Prime(e)
		}
	}
}
