package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Limits on the queues of appends and spans. What exceeds them is dropped and counted.
const (
	maxPending      = 4096     // appends
	maxPendingBytes = 32 << 20 // of their events' data
	maxSpans        = 8192
)

// TraceOptions say where traces are sent and what is in them.
type TraceOptions struct {
	// Endpoint receives OTLP over HTTP; /v1/traces is added unless it ends so. Empty: the
	// variables of https://opentelemetry.io/docs/specs/otel/protocol/exporter/ apply;
	// without them there are no traces.
	Endpoint string
	// Headers are sent with every request. Headers from the environment are sent only to
	// the environment's endpoint, because they may be its keys.
	Headers map[string]string
	// Content adds messages, tool inputs and tool results, redacted as they are in the
	// log.
	Content bool

	Version   string
	Metrics   *Metrics
	Env       func(string) (string, bool) // nil: an empty environment
	Transport http.RoundTripper           // nil: a new one
	Logger    *slog.Logger
}

// Tracer sends a trace of every turn. It derives traces from committed events, in the
// background: no append waits for it or fails because of it, and what exceeds its queue is
// dropped and counted. A crash loses what was not sent yet; a turn that continues
// afterwards continues in its trace.
//
// A nil Tracer traces nothing.
type Tracer struct {
	deriver  deriver
	exporter *exporter
	metrics  *Metrics
	log      *slog.Logger

	queue chan observed
	bytes atomic.Int64

	start sync.Once
	once  sync.Once
	stop  chan struct{} // closed to make it finish the queue and end
	work  context.Context
	cut   context.CancelFunc
	tasks sync.WaitGroup
}

// NewTracer returns nil when no endpoint is set. The error says what is wrong with the
// settings, without quoting their values.
func NewTracer(o TraceOptions) (*Tracer, error) {
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	if o.Metrics == nil {
		o.Metrics = New(Labels{})
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	to, err := newTarget(o)
	if to == nil || err != nil {
		return nil, err
	}
	t := &Tracer{metrics: o.Metrics, log: o.Logger, queue: make(chan observed, maxPending), stop: make(chan struct{})}
	t.work, t.cut = context.WithCancel(context.Background())
	t.exporter = newExporter(to, o)
	opt, _ := o.Env("OTEL_SEMCONV_STABILITY_OPT_IN")
	t.deriver = deriver{
		content: o.Content, latest: listed(opt, optIn), send: t.exporter.add,
		sessions: map[parley.SessionID]*followed{},
	}
	return t, nil
}

// Store returns s with its appends traced. Call it once.
func (t *Tracer) Store(s seam.Store) seam.Store {
	if t == nil {
		return s
	}
	t.start.Do(func() {
		t.deriver.store = s
		derived := make(chan struct{})
		t.tasks.Go(func() {
			defer close(derived)
			t.derive()
		})
		t.tasks.Go(func() { t.exporter.run(t.work, derived) })
	})
	return &traced{Store: s, t: t}
}

type traced struct {
	seam.Store
	t *Tracer
}

// Append implements seam.Store.
func (s *traced) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	if err := s.Store.Append(ctx, p, b); err != nil {
		return err
	}
	if b.Create && copied(b) {
		return nil // turns that ran elsewhere, under ids of their own
	}
	s.t.take(b)
	return nil
}

// take queues an append, or drops it when the queue is full.
func (t *Tracer) take(b seam.Batch) {
	o := observed{session: b.Session, after: b.After, events: b.Events, info: b.Index.Session, turns: b.Index.Turns}
	for _, e := range b.Events {
		o.size += int64(len(e.Data))
	}
	over := false
	select {
	case <-t.stop: // it is closing
		over = true
	default:
	}
	if t.bytes.Add(o.size) <= maxPendingBytes && !over {
		select {
		case t.queue <- o:
			return
		default:
		}
	}
	t.bytes.Add(-o.size)
	t.metrics.untraced.Inc()
}

// derive makes spans from the queue until it is closed and empty.
func (t *Tracer) derive() {
	for {
		select {
		case o := <-t.queue:
			t.observe(o)
			continue
		case <-t.stop:
		}
		for {
			select {
			case o := <-t.queue:
				t.observe(o)
			default:
				return
			}
		}
	}
}

func (t *Tracer) observe(o observed) {
	t.bytes.Add(-o.size)
	if err := t.deriver.observe(t.work, o); err != nil {
		t.metrics.untraced.Inc()
		if t.work.Err() == nil && parley.CodeOf(err) != parley.CodeNotFound { // gone: deleted meanwhile
			t.log.Debug("an append was not traced", "session", o.session, "err", err)
		}
	}
}

// Close sends what is left, gives up when ctx ends, and returns when all goroutines have
// ended. The store must still be open.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.once.Do(func() { close(t.stop) })
	done := make(chan struct{})
	go func() {
		t.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	t.cut()
	<-done
}

// exporter holds spans until they are sent.
type exporter struct {
	to      *target
	metrics *Metrics
	log     *slog.Logger

	mu    sync.Mutex
	spans []*tracepb.Span
	full  chan struct{} // a request's worth of spans is there

	failing time.Time // since when, for the log
	said    time.Time
}

const (
	// perRequest keeps a request far under the 4 MiB that collectors commonly take.
	perRequest = 256
	// sendEvery is how long a trace may lag behind what happened.
	sendEvery = 2 * time.Second
	sayEvery  = time.Minute
)

func newExporter(to *target, o TraceOptions) *exporter {
	return &exporter{to: to, metrics: o.Metrics, log: o.Logger, full: make(chan struct{}, 1)}
}

// add never blocks.
func (x *exporter) add(s *tracepb.Span) {
	x.mu.Lock()
	n := len(x.spans)
	if n < maxSpans {
		x.spans = append(x.spans, s)
	}
	x.mu.Unlock()
	if n >= maxSpans {
		x.metrics.spans.WithLabelValues("dropped").Inc()
	}
	if n+1 >= perRequest {
		select {
		case x.full <- struct{}{}:
		default:
		}
	}
}

func (x *exporter) next() []*tracepb.Span {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := min(len(x.spans), perRequest)
	out := x.spans[:n:n]
	x.spans = x.spans[n:]
	if len(x.spans) == 0 {
		x.spans = nil
	}
	return out
}

// run sends spans until no more can come, and then what is left, unless ctx ends.
func (x *exporter) run(ctx context.Context, last <-chan struct{}) {
	defer x.to.close()
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-tick.C:
		case <-x.full:
		case <-last:
			open = false
		}
		for list := x.next(); len(list) > 0; list = x.next() {
			rejected, err := x.to.send(ctx, last, list)
			if err != nil {
				rejected = len(list)
			}
			x.metrics.spans.WithLabelValues("dropped").Add(float64(rejected))
			x.metrics.spans.WithLabelValues("sent").Add(float64(len(list) - rejected))
			x.report(err, rejected)
			if err != nil {
				break // a collector in trouble gets the next ones at the next tick
			}
		}
	}
	for list := x.next(); len(list) > 0; list = x.next() {
		x.metrics.spans.WithLabelValues("dropped").Add(float64(len(list)))
	}
}

// report logs, at intervals, that sending fails, and once that it works again. It never
// logs the address or the headers: either may hold a key.
func (x *exporter) report(err error, n int) {
	now := time.Now()
	switch {
	case err == nil && n == 0:
		if !x.failing.IsZero() {
			x.log.Info("traces are sent again", "after", now.Sub(x.failing).Round(time.Second))
			x.failing = time.Time{}
		}
		return
	case x.failing.IsZero():
		x.failing = now
	case now.Sub(x.said) < sayEvery:
		return
	}
	x.said = now
	if err == nil {
		x.log.Warn("the collector refused spans", "spans", n)
		return
	}
	x.log.Warn("traces were not sent and are dropped", "spans", n, "err", err)
}
