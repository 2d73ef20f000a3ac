// Package telemetry counts what happens, for Prometheus, and traces it, for OpenTelemetry.
//
// Both are derived from committed events: [Metrics.Store] and [Tracer.Store] wrap the
// store and see what was committed, so a number or a span always stands for something in
// the log. Copies (forks, imports) do not count as work. Text, names of users and ids
// never become labels of metrics.
//
// A trace is one turn, under the turn's own id ([TraceID]): model calls, tool calls,
// agents that took over, and the time it waited for a human. Spans have the times of the
// events, and ids derived from those of the turn and the call, so it does not matter which
// process makes them. A turn that continues after a crash, or after a human took a week to
// answer, continues in its trace. Traces hold content only where [TraceOptions] ask for
// it.
package telemetry

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Metrics are the counters of one process.
type Metrics struct {
	registry *prometheus.Registry

	turns      *prometheus.CounterVec // app, status
	modelCalls *prometheus.CounterVec // app, model, outcome
	tokens     *prometheus.CounterVec // app, model, kind
	usd        *prometheus.CounterVec // app, model
	tools      *prometheus.CounterVec // tool, outcome
	budgets    *prometheus.CounterVec // app, budget
	asked      *prometheus.CounterVec // kind
	events     prometheus.Counter
	sessions   *prometheus.CounterVec // app
	appends    prometheus.Histogram
	failed     *prometheus.CounterVec // code
	streams    prometheus.Gauge
	waiting    *waiting
	turnTime   *prometheus.HistogramVec // app
	modelTime  *prometheus.HistogramVec // model
	firstText  *prometheus.HistogramVec // model
	toolTime   *prometheus.HistogramVec // tool

	filesBehind prometheus.Gauge
	filesFailed prometheus.Counter

	untraced prometheus.Counter     // appends
	unsent   prometheus.Counter     // notifications
	spans    *prometheus.CounterVec // outcome

	known labels

	mu    sync.Mutex
	calls map[parley.CallID]string    // models of open calls
	apps  map[parley.SessionID]string // apps of sessions with a running turn
}

// maxRemembered limits the open calls whose model is known, and the sessions whose app is.
// For others it is "unknown".
const maxRemembered = 16384

// Labels are the values that labels may have, besides fixed words. A client may ask for a
// model by any name, and a model for a tool by any name. All other names become "other";
// otherwise a client could fill the memory.
type Labels struct {
	Models []string
	Tools  []string
}

// labels are those of a process.
type labels struct{ models, tools map[string]bool }

func (l Labels) set() labels {
	of := func(names []string) map[string]bool {
		all := map[string]bool{}
		for _, n := range names {
			all[n] = true
		}
		return all
	}
	return labels{of(l.Models), of(l.Tools)}
}

// label is name if it is one of those that are known.
func label(known map[string]bool, name string) string {
	if known[name] {
		return name
	}
	return "other"
}

// New makes counters at zero.
func New(l Labels) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "parley", Name: name, Help: help}, labels)
	}
	seconds := func(name, help, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "parley", Name: name, Help: help, Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{label})
	}
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		known:      l.set(),
		calls:      map[parley.CallID]string{},
		apps:       map[parley.SessionID]string{},
		waiting:    &waiting{desc: prometheus.NewDesc("parley_interactions_waiting", "Interactions that wait for a human.", []string{"kind"}, nil)},
		turnTime:   seconds("turn_seconds", "Time that turns ran, without the time that they waited.", "app"),
		modelTime:  seconds("model_seconds", "Time of model calls that replied.", "model"),
		firstText:  seconds("model_first_text_seconds", "Time until the first fragment of a model's reply.", "model"),
		toolTime:   seconds("tool_seconds", "Time of tool calls that ran.", "tool"),
		spans:      counter("trace_spans_total", "Spans, by whether a collector has them.", "outcome"),
		untraced:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "parley", Name: "trace_appends_dropped_total", Help: "Appends that tracing could not keep up with, or could not read again."}),
		unsent:     prometheus.NewCounter(prometheus.CounterOpts{Namespace: "parley", Name: "notifications_dropped_total", Help: "Messages to users' devices for which there was no room."}),
		turns:      counter("turns_total", "Turns that ended, by app and how.", "app", "status"),
		modelCalls: counter("model_calls_total", "Model calls that ended, by the model that was asked.", "app", "model", "outcome"),
		tokens:     counter("model_tokens_total", "Tokens of model calls that ended; of calls without a reply what was reserved.", "app", "model", "kind"),
		usd:        counter("model_usd_total", "US dollars of model calls that ended.", "app", "model"),
		tools:      counter("tool_calls_total", "Tool calls that ended, by outcome.", "tool", "outcome"),
		budgets:    counter("budgets_reached_total", "Budgets that ended a turn.", "app", "budget"),
		asked:      counter("interactions_total", "Interactions that were opened.", "kind"),
		sessions:   counter("sessions_created_total", "Sessions that were made.", "app"),
		failed:     counter("append_errors_total", "Appends that the store refused or failed.", "code"),
		events:     prometheus.NewCounter(prometheus.CounterOpts{Namespace: "parley", Name: "events_total", Help: "Events appended."}),
		appends: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "parley", Name: "append_seconds", Help: "Time until an append was durable.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}),
		filesBehind: prometheus.NewGauge(prometheus.GaugeOpts{Name: FilesBehindName, Help: "Sessions whose files could not be written and will be tried again."}),
		filesFailed: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "parley", Name: "live_files_errors_total", Help: "Times that files of sessions could not be written."}),
		streams:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "parley", Name: "open_streams", Help: "Event streams that are open."}),
	}
	m.registry.MustRegister(
		m.turns, m.modelCalls, m.tokens, m.usd, m.tools, m.budgets, m.asked, m.sessions, m.failed, m.events, m.appends, m.streams,
		m.turnTime, m.modelTime, m.firstText, m.toolTime, m.untraced, m.unsent, m.spans, m.waiting, m.filesBehind, m.filesFailed,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler serves the counters in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// FilesBehindName is the metric that [Metrics.FilesBehind] sets.
const FilesBehindName = "parley_live_files_behind"

// FilesBehind sets how many sessions have files that wait to be written again.
func (m *Metrics) FilesBehind(n int) { m.filesBehind.Set(float64(n)) }

// FilesFailed counts that files of sessions could not be written.
func (m *Metrics) FilesFailed() { m.filesFailed.Inc() }

// Dropped counts messages to users' devices for which there was no room.
func (m *Metrics) Dropped(messages int) { m.unsent.Add(float64(messages)) }

// Streams sets how many streams are open.
func (m *Metrics) Streams(n int) { m.streams.Set(float64(n)) }

// Store returns s with its appends counted.
func (m *Metrics) Store(s seam.Store) seam.Store {
	m.waiting.in(s)
	return &counted{Store: s, m: m}
}

type counted struct {
	seam.Store
	m *Metrics
}

// Append implements seam.Store.
func (c *counted) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	began := time.Now()
	err := c.Store.Append(ctx, p, b)
	if err != nil {
		c.m.failed.WithLabelValues(string(parley.CodeOf(err))).Inc()
		return err
	}
	c.m.appends.Observe(time.Since(began).Seconds())
	c.m.events.Add(float64(len(b.Events)))
	if b.Create && len(b.Events) > 1 && copied(b) {
		return nil
	}
	c.m.count(b)
	return nil
}

// copied reports whether the batch is history made elsewhere.
func copied(b seam.Batch) bool {
	for _, e := range b.Events {
		if e.Type == (parley.SessionForked{}).EventType() {
			return true
		}
	}
	return false
}

func (m *Metrics) count(b seam.Batch) {
	app := m.app(b)
	for _, t := range b.Index.Turns {
		if t.Status.Ended() && t.Spent.RanMS > 0 {
			m.turnTime.WithLabelValues(app).Observe(float64(t.Spent.RanMS) / 1000)
		}
	}
	for _, e := range b.Events {
		p, err := e.Payload()
		if err != nil {
			continue
		}
		switch p := p.(type) {
		case parley.SessionCreated:
			m.sessions.WithLabelValues(p.App).Inc()
		case parley.TurnCompleted:
			m.turns.WithLabelValues(app, string(parley.StatusCompleted)).Inc()
		case parley.TurnFailed:
			m.turns.WithLabelValues(app, string(parley.StatusFailed)).Inc()
		case parley.TurnCancelled:
			m.turns.WithLabelValues(app, string(parley.StatusCancelled)).Inc()
		case parley.TurnExpired:
			m.turns.WithLabelValues(app, string(parley.StatusExpired)).Inc()
		case parley.ModelStarted:
			m.called(p.Call, label(m.known.models, p.Model))
		case parley.ModelReplied:
			// A provider may report another name of the same model, such as one with a
			// date.
			model := m.called(p.Call, "")
			if model == unknown {
				model = label(m.known.models, p.Model)
			}
			m.model(app, model, "replied", p.Usage)
			if p.TookMS > 0 {
				m.modelTime.WithLabelValues(model).Observe(float64(p.TookMS) / 1000)
			}
			if p.TTFTMS > 0 {
				m.firstText.WithLabelValues(model).Observe(float64(p.TTFTMS) / 1000)
			}
		case parley.ModelFailed:
			m.model(app, m.called(p.Call, ""), "failed", p.Usage)
		case parley.ToolEnded:
			tool := label(m.known.tools, p.Name)
			m.tools.WithLabelValues(tool, string(p.Outcome)).Inc()
			if p.TookMS > 0 {
				m.toolTime.WithLabelValues(tool).Observe(float64(p.TookMS) / 1000)
			}
		case parley.InteractionOpened:
			m.asked.WithLabelValues(string(p.Kind)).Inc()
		case parley.BudgetReached:
			m.budgets.WithLabelValues(app, p.Name).Inc()
		}
	}
}

// app returns the app of a session. An append in the middle of a turn does not name it, so
// it is remembered from the append that started the turn.
func (m *Metrics) app(b seam.Batch) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	info := b.Index.Session
	switch {
	case info == nil:
		if app, ok := m.apps[b.Session]; ok {
			return app
		}
		return "unknown"
	case info.Turn == nil || info.Turn.Status != parley.StatusRunning:
		delete(m.apps, b.Session)
	case len(m.apps) < maxRemembered:
		m.apps[b.Session] = info.App
	}
	return info.App
}

// unknown is the model of a call that another process began.
const unknown = "unknown"

// called remembers the model when a call begins, and returns and forgets it when the call
// ends: a failed call does not name its model.
func (m *Metrics) called(call parley.CallID, model string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if model != "" {
		if len(m.calls) < maxRemembered {
			m.calls[call] = model
		}
		return model
	}
	was := m.calls[call]
	delete(m.calls, call)
	if was == "" {
		return unknown
	}
	return was
}

func (m *Metrics) model(app, name, outcome string, u parley.Usage) {
	m.modelCalls.WithLabelValues(app, name, outcome).Inc()
	m.tokens.WithLabelValues(app, name, "input").Add(float64(max(u.InputTokens, 0)))
	m.tokens.WithLabelValues(app, name, "output").Add(float64(max(u.OutputTokens, 0)))
	m.tokens.WithLabelValues(app, name, "cache_read").Add(float64(max(u.CacheReadTokens, 0)))
	m.tokens.WithLabelValues(app, name, "cache_write").Add(float64(max(u.CacheWriteTokens, 0)))
	m.usd.WithLabelValues(app, name).Add(max(u.USD, 0))
}
