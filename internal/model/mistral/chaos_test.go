package mistral_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/records"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/mistral"
	"github.com/parley-server/parley/internal/tool/notion"
	"github.com/parley-server/parley/internal/tool/slack"
	"github.com/parley-server/parley/internal/toolbox"
)

// chaosApp returns the app that comes with Parley, its tools over its data, and the model that
// follows its script.
func chaosApp(t *testing.T) (parley.App, *toolbox.Box, *scripted.Model) {
	t.Helper()
	settings, err := config.Load(config.From{Env: func(name string) (string, bool) {
		if name == "PARLEY_DATA" {
			return "data", true // nothing is written there
		}
		return "", false
	}})
	if err != nil {
		t.Fatal(err)
	}
	settings.Enabled = []string{"chaos"}
	list, err := settings.LoadApps([]fs.FS{apps.FS()}, config.Known{})
	if err != nil {
		t.Fatal(err)
	}
	a := list[0]
	data := records.Folder(a.Data)
	box, err := toolbox.New([]seam.Toolset{notion.New(data), slack.New(data)}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	app, err := a.Resolve(box.Decls())
	if err != nil {
		t.Fatal(err)
	}
	script, err := fs.ReadFile(a.Files, a.Script)
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.New("scripted/chaos", script, scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return app, box, m
}

// whose returns a function that finds an agent of the app by its prompt.
func whose(app parley.App) func(string) string {
	return func(system string) string {
		for n, def := range app.Agents {
			if strings.HasPrefix(system, def.Prompt) {
				return n
			}
		}
		return ""
	}
}

// one is an engine's only model.
type one struct{ m seam.Model }

func (o one) Model(string) (seam.Model, error) { return o.m, nil }
func (o one) Names() []string                  { return []string{o.m.Info().Name} }

// place is an engine that serves an app over one model.
type place struct {
	t   *testing.T
	rig *enginetest.Rig
	url string
}

func newPlace(t *testing.T, app parley.App, box *toolbox.Box, m seam.Model) *place {
	t.Helper()
	app.Model = m.Info().Name
	rig := enginetest.New(t, enginetest.Echo, app, func(o *engine.Options) {
		o.Models, o.Tools = one{m}, map[string]*toolbox.Box{app.Name: box}
		o.Runtimes = map[string]seam.Runtime{"loop": loop.New(one{m}, loop.Options{})}
	})
	srv := httptest.NewServer(chaos.Chat(chaos.Options{
		App: app.Name, Engine: rig.Engine, Follow: rig.Reader.Follow, Fail: api.WriteError,
		Principal: func(context.Context) (parley.Principal, error) { return enginetest.User, nil },
	}))
	t.Cleanup(func() { rig.Close(); srv.Close() })
	return &place{t, rig, srv.URL + chaos.Path}
}

// say posts a message and returns the frames, with those of text joined into one.
func (p *place) say(session, message string) []string {
	p.t.Helper()
	raw, err := json.Marshal(map[string]string{"session_id": session, "message": message})
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, strings.NewReader(string(raw)))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var frames []string
	kind := ""
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		line := sc.Text()
		if e, ok := strings.CutPrefix(line, "event: "); ok {
			kind = e
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if kind != "token" {
			frames = append(frames, kind+" "+data)
			continue
		}
		var token struct{ Text string }
		if err := json.Unmarshal([]byte(data), &token); err != nil {
			p.t.Fatal(err)
		}
		if n := len(frames); n > 0 && strings.HasPrefix(frames[n-1], "text ") {
			frames[n-1] += token.Text
		} else {
			frames = append(frames, "text "+token.Text)
		}
	}
	if len(frames) == 0 || frames[len(frames)-1] != "done {}" {
		p.t.Errorf("%s: got %q", message, frames)
	}
	return frames
}

// questions are a session of chaos: new data, an answer from memory, another topic, and a
// question about changes.
var questions = []string{
	"I'm starting on the login system. What's the final spec?",
	"What library should I use for that?",
	"And which database did we choose?",
	"Has the login spec changed again?",
}

// TestChaos_same_frames: the whole app gives the same frames on chat completions with our own
// handoffs, and on Mistral's agents and conversations with both forms of handoff, as on the
// scripted model.
func TestChaos_same_frames(t *testing.T) {
	t.Parallel()
	app, box, script := chaosApp(t)
	direct := newPlace(t, app, box, script)
	var want [][]string
	for _, q := range questions {
		want = append(want, direct.say("browser", q))
	}
	if n := len(want[0]); n < 13 {
		t.Fatalf("the demo has %d frames: %q", n, want[0])
	}
	for name, c := range map[string]struct {
		o      sim.Options
		hosted bool
	}{
		"chat completions":                        {},
		"hosted, handoffs as entries":             {hosted: true},
		"hosted, handoffs as calls":               {hosted: true, o: sim.Options{HandoffCalls: true}},
		"hosted, nothing appended after handoffs": {hosted: true, o: sim.Options{StrictHandoffs: true}},
		"hosted, the first agent goes on":         {hosted: true, o: sim.Options{SameAgent: true}},
		"hosted, the server does handoffs":        {hosted: true, o: sim.Options{ServerHandoffs: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.o.Brain, c.o.Agent = script, whose(app)
			_, cl := serve(t, c.o)
			m := cl.Model(info)
			if c.hosted {
				h, err := cl.Hosted(hostedInfo, mistral.HostedOptions{App: &app, Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				m = h
			}
			p := newPlace(t, app, box, m)
			var got [][]string
			for _, q := range questions {
				got = append(got, p.say("browser", q))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
