package program

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
	"github.com/parley-server/parley/internal/toolbox"
)

// pipes is a listener whose network is in memory, so both sides can use fake time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// simulated is the house of one run. It counts the calls that changed it.
type simulated struct {
	house *sim.House
	line  *pipes
	srv   *http.Server
	done  chan struct{}
	app   string
	plan  *plan
}

func newSimulated(p *plan, app string) *simulated {
	w := &simulated{house: sim.New(sim.Options{Token: "a-long-lived-token", Days: 2, TimeZone: sim.Afternoon(time.Now())}), line: newPipes(), done: make(chan struct{}), app: app, plan: p}
	w.srv = &http.Server{Handler: w.house}
	go func() { defer close(w.done); _ = w.srv.Serve(w.line) }()
	return w
}

func (w *simulated) Effects() map[string]int {
	n := map[string]int{}
	for c, times := range w.house.Calls() {
		n[c.Service+" "+c.Entity] += times
	}
	return n
}

func (w *simulated) Close() {
	w.house.Close()
	_ = w.srv.Close()
	<-w.done
}

// Live is one life of the process: its tools connect, and their connections end with the life.
func (w *simulated) Live(o *engine.Options, gate func() error) func() {
	tools, err := homeassistant.New(homeassistant.Options{
		URL: "http://house", Token: "a-long-lived-token", AllowServices: []string{"light.turn_on"}, Dial: w.line.Dial,
		Logger: slog.New(slog.DiscardHandler),
		Keep: func(_ context.Context, r seam.Run, f homeassistant.File) error {
			return r.Keep(seam.File{Name: f.Name, MediaType: f.MediaType, Body: f.Body})
		},
	})
	if err != nil {
		panic(err)
	}
	box, err := toolbox.New([]seam.Toolset{watched{tools, gate}}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	o.Models, o.Tools = w.plan.models, map[string]*toolbox.Box{w.app: box}
	o.Runtimes = map[string]seam.Runtime{"loop": loop.New(w.plan.models, loop.Options{})}
	return tools.Close
}

// watched has the tools with a gate after each call.
type watched struct {
	*homeassistant.Toolset
	gate func() error
}

func (w watched) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	res, err := w.Toolset.Run(ctx, r)
	if gone := w.gate(); gone != nil {
		return parley.ToolResult{}, gone
	}
	return res, err
}

func without(expr string) func(string) string {
	re := regexp.MustCompile(expr)
	return func(s string) string { return re.ReplaceAllLiteralString(s, "") }
}

// TestHomeSurvivesACrashAtEveryPoint plays the story of the flickering lights with the app's
// own prompts, tools and model over the simulated house, and crashes the second turn at every
// point. It does the same with a turn that turns on a light after asking. Each life is
// expensive here, so every pair of a crash and a crash of its recovery is tested elsewhere
// (TestCrashAtEveryPoint).
func TestHomeSurvivesACrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	settings, err := config.Load(config.From{Env: func(name string) (string, bool) {
		switch name {
		case "PARLEY_DATA":
			return t.TempDir(), true
		case "PARLEY_ENABLED":
			return "home", true
		}
		return "", false
	}})
	if err != nil {
		t.Fatal(err)
	}
	settings.Scripted.Pace = 0
	yes := true
	settings.App = map[string]config.AppSettings{"home": {AllowActuation: &yes, AllowlistedServices: []string{"light.turn_on"}}}
	p, err := builtin().planFor(settings, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	app := p.resolved[0]
	for name, sc := range map[string]enginetest.Scenario{
		"a plan": {
			Before: []string{"Why did the bedroom lights flicker last night?"}, Messages: []string{"Create a mitigation plan and simulate impact."},
			Told: without(`Looked at .*`), Sparse: 4, // a minute later, the last day is a different period
		},
		// An outcome that is found out afterwards is reported in other words.
		"a light": {Messages: []string{"Turn on the bedroom ceiling light."}, Told: without(`(?s)completed: .*`), Sparse: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc.App, sc.Model = app, func() enginetest.Model { return nil } // replaced by the app's own model
			sc.World = func() enginetest.World { return newSimulated(p, app.Name) }
			enginetest.CrashEverywhere(t, sc)
		})
	}
}
