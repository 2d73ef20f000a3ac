// Package enginetest is a whole engine in memory for tests: store, log, loop,
// toolbox, a model that is a function and a service that counts what was done
// to it. A [Rig] can be crashed at any commit and started again on what the
// store held then.
package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/tool/plan"
	"github.com/parley-server/parley/internal/toolbox"
)

// Rig is an engine with everything under it.
type Rig struct {
	T       testing.TB
	Store   seam.Store
	Mem     *mem.Store // Store, when it is in memory
	Writer  *eventlog.Writer
	Reader  *eventlog.Reader
	Engine  *engine.Engine
	Service *Service // what write tools act on; it survives crashes
	Model   Model
	Secrets []string

	options []func(*engine.Options)
}

// User is the user that the tests act as.
var User = parley.Principal{User: "ana", Org: "acme"}

// New starts a rig over an empty store in memory.
func New(t testing.TB, model Model, app parley.App, change ...func(*engine.Options)) *Rig {
	m := mem.New()
	return Over(t, m, &Service{}, model, app, change...)
}

// Over starts a rig over a store that may already hold sessions.
func Over(t testing.TB, store seam.Store, service *Service, model Model, app parley.App, change ...func(*engine.Options)) *Rig {
	t.Helper()
	r := &Rig{T: t, Store: store, Service: service, Model: model, options: change}
	r.Mem, _ = store.(*mem.Store)
	late := &lateArchive{}
	r.Writer, r.Reader = eventlog.New(store, redact.New(), eventlog.Options{Archive: late})
	tools := split(service, app)
	box, err := toolbox.New([]seam.Toolset{tools, tools.offered, ask.New(), plan.New()}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	models := Models{model}
	o := engine.Options{
		Store: store, Log: r.Writer, Reader: r.Reader, Models: models,
		Runtimes: Loop(models),
		Tools:    map[string]*toolbox.Box{app.Name: box},
		Apps:     []parley.App{app},
	}
	for _, f := range change {
		f(&o)
	}
	if o.Archive != nil {
		late.is = o.Archive
	}
	r.Engine, err = engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lateArchive is the archive of the engine's options, which are known only after those of the log.
type lateArchive struct{ is eventlog.Archive }

func (l *lateArchive) Kept(ctx context.Context, id parley.SessionID, seq int64) iter.Seq2[parley.Event, error] {
	if l.is == nil {
		return func(func(parley.Event, error) bool) {}
	}
	return l.is.Kept(ctx, id, seq)
}

// Loop returns the runtimes of an engine over other models than the rig's own.
func Loop(m seam.Models) map[string]seam.Runtime {
	return map[string]seam.Runtime{"loop": loop.New(m, loop.Options{})}
}

// Close ends the engine and its log.
func (r *Rig) Close() {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Engine.Close(ctx); err != nil {
		r.T.Errorf("close the engine: %v", err)
	}
	if err := r.Writer.Close(ctx); err != nil {
		r.T.Errorf("close the log: %v", err)
	}
}

// Dies ends the rig as if its process were killed while its calls wait for hang, and returns
// what it left on disk. The rig must use a store in memory. Dies then closes hang and waits for
// the calls to end, in the test's bubble.
func (r *Rig) Dies(hang chan struct{}) *mem.Store {
	disk := r.Mem.Clone()
	close(hang)
	r.Kill()
	synctest.Wait()
	return disk
}

// Kill ends the engine as a crash would: what runs is stopped and nothing more
// is kept. Call it on a rig whose store nobody else will use, or that is a [Cut].
func (r *Rig) Kill() {
	if c, ok := r.Store.(*Cut); ok {
		c.Off()
	}
	if r.Mem != nil {
		r.Mem.SetFaults(mem.Faults{Before: func(mem.Call) error { return errors.New("the process is gone") }})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Engine.Close(ctx)
	_ = r.Writer.Close(ctx)
}

// Session makes a session.
func (r *Rig) Session(change ...func(*parley.CreateSession)) parley.SessionInfo {
	r.T.Helper()
	c := parley.CreateSession{App: "test"}
	for _, f := range change {
		f(&c)
	}
	info, _, err := r.Engine.Create(context.Background(), User, c)
	if err != nil {
		r.T.Fatal(err)
	}
	return info
}

// Send sends a message that must be accepted.
func (r *Rig) Send(id parley.SessionID, message string) parley.TurnInfo {
	r.T.Helper()
	info, err := r.Engine.Send(context.Background(), User, id, parley.Send{Message: message})
	if err != nil {
		r.T.Fatalf("send %q: %v", message, err)
	}
	return info
}

// Await waits until the turn has ended, waits or was interrupted.
func (r *Rig) Await(id parley.TurnID) parley.TurnInfo {
	r.T.Helper()
	info, err := r.Engine.Await(context.Background(), User, id, time.Minute)
	if err != nil {
		r.T.Fatal(err)
	}
	if info.Status.Open() && info.Status != parley.StatusWaiting {
		r.T.Fatalf("turn %s is still %s", id, info.Status)
	}
	return info
}

// Log reads a session's whole log.
func (r *Rig) Log(id parley.SessionID) []parley.Event {
	r.T.Helper()
	var all []parley.Event
	for {
		events, err := r.Store.Read(context.Background(), parley.System(), id, int64(len(all)), 0)
		if err != nil {
			r.T.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// Types are the types of a log's events.
func Types(events []parley.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintln(&b, e.Type)
	}
	return b.String()
}

// App is an app of one agent with all tools of the service, whose writes are
// allowed.
func App(change ...func(*parley.App)) parley.App {
	a := parley.App{
		Name: "test", Title: "Test", Runtime: "loop", Entry: "lead", Model: "test/model",
		Agents:       map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Be useful.", Tools: []string{"look", "put", "mail"}}},
		Tools:        (&Service{}).decls(),
		Budgets:      parley.Budgets{MaxSteps: 12, MaxToolCalls: 20, MaxDepth: 8},
		Policy:       parley.Policy{Rules: []parley.Rule{{Verdict: parley.Allow}}},
		Busy:         parley.BusyReject,
		MaxOpenTurns: 1,
		Resume:       parley.ResumeManual,
	}
	for _, f := range change {
		f(&a)
	}
	return a
}

// Model answers a request: it yields deltas and a reply through say, or fails.
type Model func(ctx context.Context, r seam.Request, say func(text string)) (seam.Reply, error)

// Models has the same model under every name that begins with "test/". Those that begin with
// "test/seeing" take images.
type Models struct{ F Model }

// Model implements seam.Models.
func (m Models) Model(name string) (seam.Model, error) {
	if !strings.HasPrefix(name, "test/") {
		return nil, parley.Errorf(parley.CodeInvalid, "there is no model %q", name).WithField("model").WithHint("test/model")
	}
	return model{name, m.F}, nil
}

// Names implements seam.Models.
func (Models) Names() []string { return []string{"test/model"} }

type model struct {
	name string
	f    Model
}

func (m model) Info() seam.ModelInfo {
	return seam.ModelInfo{Name: m.name, Provider: "test", PricedAt: "2026-01-01", ContextTokens: 100_000, MaxOutputTokens: 1000, Images: strings.HasPrefix(m.name, "test/seeing")}
}

func (m model) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		var said strings.Builder
		gone := false
		reply, err := m.f(ctx, r, func(text string) {
			said.WriteString(text)
			gone = gone || !yield(seam.ModelDelta{Text: text}, nil)
		})
		switch {
		case gone:
			return
		case err != nil:
			yield(seam.ModelDelta{}, err)
			return
		}
		if said.Len() > 0 {
			reply.Parts = append([]parley.Part{{Type: parley.PartText, Text: said.String()}}, reply.Parts...)
		}
		reply.Model = m.name
		if reply.Usage == (parley.Usage{}) {
			reply.Usage = parley.Usage{InputTokens: 10, OutputTokens: 5}
		}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

// Call is a part that asks for a tool.
func Call(tool string, input any) parley.Part {
	raw, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return parley.Part{Type: parley.PartToolCall, Name: tool, Input: raw}
}

// Results are the tool results of a request since its last user text, in words.
func Results(r seam.Request) []string {
	var out []string
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch p.Type {
			case parley.PartToolResult:
				text := p.Text
				if text == "" {
					text = string(p.Input)
				}
				out = append(out, text)
			case parley.PartText:
				if m.Role == parley.RoleUser {
					out = nil
				}
			}
		}
	}
	return out
}

// Echo says what the user said last, in words of one token each.
func Echo(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	for _, w := range strings.SplitAfter("you said: "+Last(r), " ") {
		say(w)
	}
	return seam.Reply{StopReason: "end_turn"}, nil
}

// Last is what the user said last.
func Last(r seam.Request) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == parley.RoleUser {
			return parley.PartsText(slices.DeleteFunc(slices.Clone(r.Messages[i].Parts), func(p parley.Part) bool {
				return strings.HasPrefix(p.Text, AboutTurn) || strings.HasPrefix(p.Text, AboutRewind)
			}))
		}
	}
	return ""
}

// AboutTurn begins the note about the turn that the loop adds after the user's words.
const AboutTurn = "[about this turn]"

// AboutRewind begins the note that the loop adds before the user's words after a rewind.
const AboutRewind = "[The user "

// Service is the outside world: it looks, puts (keyed) and mails (not keyed),
// and counts each.
type Service struct {
	mu    sync.Mutex
	looks int
	puts  map[parley.CallID]string
	mails []string

	// Gate, when set, is called in the middle of every call: after the request
	// has taken effect and before its answer. Its error is the connection's.
	Gate func(ctx context.Context, r seam.Run) error
	// Memory lets the service be asked what became of a mail.
	Memory bool
}

func (*Service) decls() []parley.ToolDecl {
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)
	return []parley.ToolDecl{
		{Name: "look", Description: "Look.", InputSchema: schema, Effect: parley.EffectRead},
		{Name: "put", Description: "Put.", InputSchema: schema, Effect: parley.EffectIdempotent, KeyTTL: parley.Duration(time.Hour)},
		{Name: "mail", Description: "Mail.", InputSchema: schema, Effect: parley.EffectWrite, Timeout: parley.Duration(10 * time.Second)},
	}
}

// Tools implements seam.Toolset.
func (s *Service) Tools(context.Context) ([]parley.ToolDecl, error) { return s.decls(), nil }

// Run implements seam.Toolset.
func (s *Service) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var in struct{ Text string }
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	s.mu.Lock()
	out := ""
	switch r.Name {
	case "look":
		s.looks++
		out = "seen " + in.Text
		if in.Text == "plot" {
			if err := r.Keep(seam.File{Name: "plot.png", MediaType: "image/png", Body: []byte("\x89PNG\xff")}); err != nil {
				out = err.Error()
			}
		}
	case "put":
		if s.puts == nil {
			s.puts = map[parley.CallID]string{}
		}
		s.puts[r.Call] = in.Text
		out = "put " + in.Text
	case "mail":
		s.mails = append(s.mails, in.Text)
		out = "mailed " + in.Text
	}
	gate := s.Gate
	s.mu.Unlock()
	if gate != nil {
		if err := gate(ctx, r); err != nil {
			return parley.ToolResult{}, err
		}
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: out}, nil
}

// Counts are the calls that took effect.
func (s *Service) Counts() (looks, puts, mails int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks, len(s.puts), len(s.mails)
}

// SetGate replaces the gate.
func (s *Service) SetGate(f func(ctx context.Context, r seam.Run) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Gate = f
}

// Reconcilable is a service that can be asked what became of a mail.
type Reconcilable struct{ *Service }

// Reconcile implements seam.Reconciler.
func (s Reconcilable) Reconcile(_ context.Context, r seam.Run) (parley.ToolResult, bool, error) {
	var in struct{ Text string }
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mails {
		if m == in.Text {
			return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "mailed " + m}, true, nil
		}
	}
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: "it was never mailed"}, true, nil
}

// With gives an engine these tools instead of its own.
func With(sets ...seam.Toolset) func(*engine.Options) {
	return func(o *engine.Options) { o.Tools = map[string]*toolbox.Box{"test": Box(sets...)} }
}

// Box returns a toolbox of the given tools.
func Box(sets ...seam.Toolset) *toolbox.Box {
	box, err := toolbox.New(sets, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	return box
}
