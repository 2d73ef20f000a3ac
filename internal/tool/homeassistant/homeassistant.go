// Package homeassistant is a toolset over a Home Assistant server. It reads states, history,
// logbook and errors, diagnoses entities, and calls services.
//
//	tools, err := homeassistant.New(homeassistant.Options{
//		URL: "http://homeassistant.local:8123", Token: token,
//		AllowServices: []string{"light.*", "switch.turn_off"},
//	})
//	defer tools.Close()
//
// New returns at once. One WebSocket to Home Assistant is kept open; when it breaks, it is
// opened again after growing pauses. It feeds an [Index] of all states, entities, devices, areas
// and floors. After each reconnect everything is read and compared, which finds changes that
// were missed. While Home Assistant cannot be reached, the index stays and says how old it is;
// everything else returns a clear error, and works again without a restart of Parley. A rejected
// token is reported as such and tried again rarely.
//
// Only ha_call_service has an effect. Policy is for the engine and the app to decide; this
// package itself rejects every service that is not in Options.AllowServices, which is empty by
// default. The call is sent over the WebSocket, once. If it provably was not sent, the error is
// seam.NotSent. If the connection broke before the answer, the outcome is unknown, and
// [Toolset.Reconcile] finds it out from states and history for services that set a state.
//
// The token never appears in an error or in the log. Methods are safe for concurrent use.
package homeassistant

import (
	"context"
	"embed"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/seam"
)

// Options say which Home Assistant to use, and what may be done there.
type Options struct {
	URL   string // http(s)://host:8123; in an add-on http://supervisor/core
	Token string // a long-lived access token, or the Supervisor's token

	// AllowServices are the services that ha_call_service may call, such as
	// "switch.turn_off", "light.*" or "*". Empty: none.
	AllowServices []string
	// Keep stores a file that a tool made beside its result, such as the plot of ha_history, as
	// an artifact of the call. nil: no files are made.
	Keep func(ctx context.Context, r seam.Run, f File) error
	// Observe receives each change of a state, in order, including those missed during a
	// disconnection. It must neither block nor use the index. May be nil.
	Observe func(Change)
	// Dial makes the connections. nil: the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Later postpones connecting until Start, for callers that only list the tools.
	Later bool

	Now    func() time.Time // the clock that "the last 24 hours" count back from; nil: time.Now
	Logger *slog.Logger     // nil: slog.Default

	Timeout    time.Duration // limit of one request; 0: 30 s
	Patience   time.Duration // how long a call waits for a connection; 0: 5 s
	Retry      time.Duration // first pause between attempts to connect; 0: 500 ms
	MaxRetry   time.Duration // longest pause; 0: 30 s
	AuthRetry  time.Duration // pause after a rejected token; 0: 30 s
	Heartbeat  time.Duration // silence before a ping; 0: 30 s
	Resync     time.Duration // time between comparisons of the index with all states; 0: 5 min
	Settle     time.Duration // how long a device may take to reach the state its service sets; 0: 3 s
	MaxMessage int64         // bytes of one answer; 0: 64 MiB, which the Supervisor's proxy allows

	// lateness is how long a command that was written before the connection broke may take to
	// show: Home Assistant carries it out although we are disconnected. 0: 5 s.
	lateness time.Duration
	sqlTime  time.Duration // for one SELECT of ha_analyze; 0: 8 s, because reading also takes part of the tool's minute
}

// File is a file that a tool made beside its result.
type File struct {
	Name      string
	MediaType string
	Body      []byte
}

// Toolset is the tools of one Home Assistant.
type Toolset struct {
	o      Options
	client *client
	index  *Index
	recent recent

	analyzing fair.Turns // queue of the queries of ha_analyze
	starting  sync.Once
}

// The names of the tools.
const (
	DiagnoseEntity = "diagnose_entity"
	AnalyzeErrors  = "analyze_errors"
	IndexSearch    = "index_search"
	StateQuery     = "ha_state_query"
	History        = "ha_history"
	Logbook        = "ha_logbook"
	CallService    = "ha_call_service"
	Analyze        = "ha_analyze"
)

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// New begins to connect. It returns an error for a malformed address or token. An address or
// token that does not work shows at the first call.
func New(o Options) (*Toolset, error) {
	o.Timeout = or(o.Timeout, 30*time.Second)
	o.Patience = or(o.Patience, 5*time.Second)
	o.Retry = or(o.Retry, 500*time.Millisecond)
	o.MaxRetry = or(o.MaxRetry, 30*time.Second)
	o.AuthRetry = or(o.AuthRetry, 30*time.Second)
	o.Heartbeat = or(o.Heartbeat, 30*time.Second)
	o.Resync = or(o.Resync, 5*time.Minute)
	o.Settle = or(o.Settle, 3*time.Second)
	o.MaxMessage = or(o.MaxMessage, 64<<20)
	o.lateness = or(o.lateness, 5*time.Second)
	o.sqlTime = or(o.sqlTime, 8*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, p := range o.AllowServices {
		if p != "*" && !strings.Contains(p, ".") {
			return nil, parley.Errorf(parley.CodeInvalid, "%q is not a pattern of services", p).WithField("allowlisted_services").
				WithHint("write switch.turn_off, light.* or *")
		}
	}
	t := &Toolset{o: o, analyzing: fair.Turns{Slots: maxAnalyses, Queued: maxQueued}}
	t.index = newIndex(o)
	c, err := newClient(o, t.index.keep)
	if err != nil {
		return nil, err
	}
	t.client, t.index.client = c, c
	if !o.Later {
		t.Start()
	}
	return t, nil
}

// Start begins to connect if Options.Later postponed it.
func (t *Toolset) Start() { t.starting.Do(func() { go t.client.run() }) }

// Close ends the connection and waits for everything that was started. Later calls fail.
func (t *Toolset) Close() {
	t.starting.Do(func() { close(t.client.done) })
	t.client.close()
}

// Index returns the index of the house that the tools use.
func (t *Toolset) Index() *Index { return t.index }

//go:embed *.md
var descriptions embed.FS

// Tools implements seam.Toolset.
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	var out []parley.ToolDecl
	for _, s := range specs {
		about, err := descriptions.ReadFile(s.name + ".md")
		if err != nil {
			return nil, parley.Errorf(parley.CodeInternal, "the description of %s: %w", s.name, err)
		}
		d := parley.ToolDecl{
			Name: s.name, Description: strings.TrimSpace(string(about)), InputSchema: json.RawMessage(s.input), OutputSchema: json.RawMessage(s.output),
			Effect: parley.EffectRead, Timeout: parley.Duration(time.Minute), OutputLimit: 24 << 10, Cost: "free", Safety: s.safety,
		}
		if s.name == CallService {
			d.Effect, d.Subject, d.Actuation = parley.EffectWrite, "{service}", true
		}
		out = append(out, d)
	}
	return out, nil
}

// Run implements seam.Toolset.
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var (
		res answer
		err error
	)
	switch r.Name {
	case DiagnoseEntity:
		res, err = run(ctx, r, t.diagnose)
	case AnalyzeErrors:
		res, err = run(ctx, r, t.analyzeErrors)
	case IndexSearch:
		res, err = run(ctx, r, t.search)
	case StateQuery:
		res, err = run(ctx, r, t.query)
	case History:
		res, err = run(ctx, r, t.history)
	case Logbook:
		res, err = run(ctx, r, t.logbook)
	case CallService:
		res, err = run(ctx, r, t.call)
	case Analyze:
		res, err = run(ctx, r, t.analyze)
	default:
		err = seam.NotSent(parley.Errorf(parley.CodeNotFound, "there is no tool %q here", r.Name))
	}
	if err == nil {
		// A model has no clock, and the result may be read much later.
		res.text = strings.TrimRight(res.text, "\n") + "\nnow: " + t.index.clock(t.o.Now())
		return res.result(r.Call)
	}
	// A failed read is as good as refused; a write only if it provably was not sent.
	if isRefused(err) || r.Name != CallService && ctx.Err() == nil && !seam.IsNotSent(err) {
		info := parley.Info(err)
		text := info.Message
		if info.Hint != "" {
			text += "\n" + info.Hint
		}
		return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: text, Error: &info}, nil
	}
	return parley.ToolResult{}, err
}

// run decodes the input of a tool and calls f.
func run[T any](ctx context.Context, r seam.Run, f func(context.Context, seam.Run, T) (answer, error)) (answer, error) {
	var in T
	if len(r.Input) > 0 {
		if err := json.Unmarshal(r.Input, &in); err != nil {
			return answer{}, seam.NotSent(parley.Errorf(parley.CodeInvalid, "input: %w", err))
		}
	}
	return f(ctx, r, in)
}

// answer is a tool's result: text for the model and data for programs.
type answer struct {
	text  string
	data  any
	about []string // the entities that the call was about, the main one first
}

// fewAbout is the longest list that counts as being about each of its entities. A longer one is
// about none of them.
const fewAbout = 4

// few returns the ids of a short list, or none for a longer one.
func few[T any](list []T, id func(T) string) (ids []string) {
	if len(list) > fewAbout {
		return nil
	}
	for _, one := range list {
		ids = append(ids, id(one))
	}
	return ids
}

func (e Entity) id() string { return e.ID }

func (a answer) result(call parley.CallID) (parley.ToolResult, error) {
	raw, err := json.Marshal(a.data)
	if err != nil {
		return parley.ToolResult{}, parley.Errorf(parley.CodeInternal, "the result cannot be written: %w", err)
	}
	return parley.ToolResult{Call: call, Outcome: parley.OutcomeOK, Output: strings.TrimRight(a.text, "\n"), Data: raw, About: a.about}, nil
}
