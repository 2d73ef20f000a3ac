package telemetry

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// waiting counts the open interactions at each scrape. Counting them as they open and
// close would miss deleted sessions, other nodes, and the time before this process
// started.
type waiting struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	store seam.Store
	at    time.Time
	count map[parley.InteractionKind]int
}

// countEvery limits how often the store is queried, however often it is scraped.
const countEvery = 10 * time.Second

func (w *waiting) in(s seam.Store) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store, w.at = s, time.Time{}
}

// Describe implements prometheus.Collector.
func (w *waiting) Describe(out chan<- *prometheus.Desc) { out <- w.desc }

// Collect implements prometheus.Collector. It yields no number when the store cannot be
// read.
func (w *waiting) Collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store == nil {
		return
	}
	if now := time.Now(); w.at.IsZero() || now.Sub(w.at) >= countEvery {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		count, err := w.store.CountInteractions(ctx, parley.System())
		if err != nil {
			return
		}
		w.at, w.count = now, map[parley.InteractionKind]int{
			parley.KindQuestion: 0, parley.KindPermission: 0, parley.KindConfirmation: 0, parley.KindCredential: 0, parley.KindUnknown: 0, parley.KindClient: 0,
		}
		maps.Copy(w.count, count)
	}
	for kind, n := range w.count {
		out <- prometheus.MustNewConstMetric(w.desc, prometheus.GaugeValue, float64(n), string(kind))
	}
}
