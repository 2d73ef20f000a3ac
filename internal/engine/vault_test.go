package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/redact/redacttest"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// vault is an engine whose model and tools say secrets. It records everything that can be seen.
type vault struct {
	t       *testing.T
	secrets []redacttest.Secret
	all     string // all secrets as text
	some    string // half of them
	sealed  json.RawMessage
	files   []string // folders of the stored files

	store  seam.Store
	writer *eventlog.Writer
	reader *eventlog.Reader
	engine *engine.Engine
	clock  atomic.Int64 // how far the clock is ahead, in ns

	follows sync.WaitGroup
	stop    context.CancelFunc

	mu    sync.Mutex
	rnd   *rand.Rand
	seen  []sight
	log   bytes.Buffer
	sent  int           // tools that ran with an input from the model
	stuck chan struct{} // closed when the model has said the first half
	kept  chan struct{} // gets one when text in flight is saved after stuck is closed
}

// savings is a store that tells a vault when text in flight was saved.
type savings struct {
	seam.Store
	v *vault
}

func (k savings) SaveChunks(ctx context.Context, p parley.Principal, chunks []seam.Chunk) error {
	k.v.saw("chunks", chunks)
	err := k.Store.SaveChunks(ctx, p, chunks)
	select {
	case <-k.v.stuck:
		select {
		case k.v.kept <- struct{}{}:
		default:
		}
	default:
	}
	return err
}

type sight struct {
	where string
	what  []byte
}

func newVault(t *testing.T, seed uint64, store seam.Store) *vault {
	v := &vault{t: t, secrets: redacttest.Secrets(seed), rnd: rand.New(rand.NewPCG(seed, 3)), stuck: make(chan struct{}), kept: make(chan struct{}, 1)}
	var all []string
	for _, s := range v.secrets {
		all = append(all, s.Text())
	}
	v.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	v.all, v.some = strings.Join(all, " and then "), strings.Join(all[:len(all)/2], " and then ")
	// A provider's signature may look like anything, so only known secrets are removed from it.
	sealed, err := json.Marshal(map[string]any{"state": redacttest.Secrets(seed + 1000)[0].Text(), "n": 1.5})
	if err != nil {
		t.Fatal(err)
	}
	v.sealed = sealed
	v.files = append(v.files, t.TempDir())
	v.start(store)
	return v
}

func (v *vault) start(store seam.Store) {
	v.t.Helper()
	v.store = store
	red := redact.New(redacttest.Known)
	logger := slog.New(slog.NewTextHandler(red.Writer(logTo{v}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	v.writer, v.reader = eventlog.New(savings{store, v}, red, eventlog.Options{FlushEvery: time.Millisecond, Logger: logger})
	box, err := toolbox.New([]seam.Toolset{v}, toolbox.Options{Logger: logger, Redact: v.writer.RedactText})
	if err != nil {
		v.t.Fatal(err)
	}
	decls, err := v.Tools(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	app := enginetest.App(func(a *parley.App) {
		a.Tools = decls
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Be useful. It is " + redacttest.Known, Tools: []string{"fetch", "send", "fail", "ask"}}}
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "ask"}, {Verdict: parley.Allow}}
		a.Memory.Retrieve = true
		a.TTL = parley.TTL{TurnSteps: parley.Duration(time.Hour)}
	})
	v.engine, err = engine.New(engine.Options{
		Store: store, Log: v.writer, Reader: v.reader, Models: v, Logger: logger,
		Runtimes: map[string]seam.Runtime{"loop": loop.New(v, loop.Options{})},
		Tools:    map[string]*toolbox.Box{app.Name: box}, Apps: []parley.App{app}, Archive: archive.NewFolder(datafolder.New(v.files[0], nil)),
		Now: func() time.Time { return time.Now().Add(time.Duration(v.clock.Load())) },
	})
	if err != nil {
		v.t.Fatal(err)
	}
	var ctx context.Context
	ctx, v.stop = context.WithCancel(context.Background())
	v.t.Cleanup(v.stop)
	done, err := v.engine.Recover(ctx)
	if err != nil {
		v.t.Fatal(err)
	}
	<-done
}

type logTo struct{ v *vault }

func (l logTo) Write(b []byte) (int, error) {
	l.v.mu.Lock()
	defer l.v.mu.Unlock()
	return l.v.log.Write(b)
}

// saw records what a reader could see.
func (v *vault) saw(where string, what ...any) {
	for _, x := range what {
		raw, ok := x.([]byte)
		if err, is := x.(error); is {
			raw, ok = []byte(err.Error()+fmt.Sprintf(" %+v", parley.Info(err))), true
		}
		if !ok {
			var err error
			if raw, err = json.Marshal(x); err != nil {
				v.t.Errorf("%s: %v", where, err)
			}
		}
		v.mu.Lock()
		v.seen = append(v.seen, sight{where, raw})
		v.mu.Unlock()
	}
}

// follow records all frames of a session for as long as this engine lives.
func (v *vault) follow(id parley.SessionID) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := v.stop
	v.stop = func() { cancel(); stop() }
	ready := make(chan struct{})
	r := v.reader
	v.follows.Go(func() {
		once := sync.OnceFunc(func() { close(ready) })
		for f, err := range r.Follow(ctx, enginetest.User, id, 0) {
			once()
			if err != nil {
				return
			}
			v.saw("frame", f)
		}
		once()
	})
	<-ready
}

// Model and Names implement seam.Models.
func (v *vault) Model(string) (seam.Model, error) { return v, nil }
func (v *vault) Names() []string                  { return []string{"test/model"} }

func (v *vault) Info() seam.ModelInfo {
	return seam.ModelInfo{Name: "test/model", Provider: "test", Scripted: true, ContextTokens: 1_000_000, MaxOutputTokens: 100_000}
}

// Stream thinks and says all secrets in fragments, and then does what the user's first word says.
func (v *vault) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		prompt := r
		prompt.State = nil                                                      // the provider's own
		prompt.System = strings.ReplaceAll(prompt.System, redacttest.Known, "") // the app's own words
		for i, m := range prompt.Messages {
			m.Parts = append([]parley.Part(nil), m.Parts...)
			for j := range m.Parts {
				m.Parts[j].Signature = nil
			}
			prompt.Messages[i] = m
		}
		v.saw("prompt", prompt)
		var pieces []string
		v.mu.Lock()
		for rest := v.all; rest != ""; {
			n := min(len(rest), 1+v.rnd.IntN(19))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		v.mu.Unlock()
		task, _, _ := strings.Cut(enginetest.Last(r), " ")
		for i, p := range pieces {
			if !yield(seam.ModelDelta{Thinking: p}, nil) || !yield(seam.ModelDelta{Text: p}, nil) {
				return
			}
			if task == "hang" && i == len(pieces)*2/3 {
				select {
				case <-v.stuck:
				default:
					close(v.stuck)
					if !yield(seam.ModelDelta{Text: " ; and so on ; "}, nil) { // saved after stuck is closed
						return
					}
					<-ctx.Done()
					yield(seam.ModelDelta{}, context.Cause(ctx))
					return
				}
			}
		}
		if task == "break" {
			yield(seam.ModelDelta{}, parley.Errorf(parley.CodeModel, "the provider says %s", v.all).WithHint("%s", v.all))
			return
		}
		reply := seam.Reply{Model: "test/model", State: v.sealed, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 1, OutputTokens: 1}, Parts: []parley.Part{
			{Type: parley.PartThinking, Text: "nothing secret", Signature: v.sealed, Provider: "test"},
			{Type: parley.PartThinking, Text: v.all, Signature: v.sealed, Provider: "test"},
			{Type: parley.PartText, Text: v.all},
		}}
		if task == "work" && len(enginetest.Results(r)) == 0 {
			reply.Parts = append(reply.Parts,
				enginetest.Call("fetch", map[string]string{}), enginetest.Call("fail", map[string]string{}),
				enginetest.Call("send", map[string]any{"text": v.all, "state": v.secrets[0].Text()}),
				enginetest.Call("send", map[string]any{"state": redacttest.Known}),
			)
		}
		if task == "ask" && len(enginetest.Results(r)) == 0 {
			reply.Parts = append(reply.Parts, enginetest.Call("ask", map[string]string{"text": "may I"}))
		}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

// Tools implements seam.Toolset.
func (v *vault) Tools(context.Context) ([]parley.ToolDecl, error) {
	schema := json.RawMessage(`{"type":"object"}`)
	return []parley.ToolDecl{
		{Name: "fetch", Description: "Fetch.", InputSchema: schema, Effect: parley.EffectRead, OutputLimit: 1500},
		{Name: "fail", Description: "Fail.", InputSchema: schema, Effect: parley.EffectRead},
		{Name: "send", Description: "Send.", InputSchema: schema, Effect: parley.EffectWrite},
		{Name: "ask", Description: "Ask.", InputSchema: schema, Effect: parley.EffectWrite},
	}, nil
}

// Run implements seam.Toolset.
func (v *vault) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	switch r.Name {
	case "fail":
		return parley.ToolResult{}, seam.NotSent(errors.New("asked with " + v.all))
	case "send":
		v.mu.Lock()
		v.sent++
		v.mu.Unlock()
	}
	for rest := v.all; rest != ""; {
		n := min(len(rest), 11)
		r.Progress(rest[:n])
		rest = rest[n:]
	}
	whole, err := json.Marshal(map[string]string{"log": v.all})
	if err != nil {
		return parley.ToolResult{}, err
	}
	for _, f := range []seam.File{
		{Name: "log.txt", MediaType: "text/plain", Body: []byte(v.all)},
		{Name: "log.json", MediaType: "application/json", Body: whole},
		{Name: v.secrets[2].Text(), MediaType: "text/plain", Body: []byte("\xff\xfe " + v.all)},
		{Name: "log.zip", MediaType: "application/zip", Body: []byte("PK\x00\x01 " + v.all)},
	} {
		if err := r.Keep(f); err != nil {
			return parley.ToolResult{}, err
		}
	}
	small, err := json.Marshal(map[string]any{"state": v.secrets[0].Text(), "signature": redacttest.Known, "password": v.secrets[1].Value})
	if err != nil {
		return parley.ToolResult{}, err
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: v.all, Data: small}, nil
}

// Retrieve gives snippets to every turn.
func (v *vault) Retrieve(_ context.Context, _ parley.Principal, query string, _ []string, _ int) ([]parley.Snippet, error) {
	if strings.HasPrefix(query, "break") {
		return nil, errors.New("looking up failed with " + v.all)
	}
	return []parley.Snippet{{Text: v.all, Source: v.secrets[0].Text()}}, nil
}

// turn sends a message and waits for its end.
func (v *vault) turn(id parley.SessionID, message string) parley.TurnInfo {
	v.t.Helper()
	info, err := v.engine.Send(v.t.Context(), enginetest.User, id, parley.Send{
		Message: message + " " + v.all, Key: message + v.secrets[0].Text(), Client: v.secrets[3].Text(), Hints: map[string]any{"state": v.all},
	})
	if err != nil {
		v.t.Fatal(err)
	}
	v.saw("turn", info)
	return v.await(info.ID)
}

func (v *vault) await(id parley.TurnID) parley.TurnInfo {
	v.t.Helper()
	info, err := v.engine.Await(v.t.Context(), enginetest.User, id, time.Minute)
	if err != nil {
		v.t.Fatal(err)
	}
	v.saw("turn", info)
	return info
}
