package mistral_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/mistral"
)

var hostedInfo = seam.ModelInfo{Name: "mistral-agents/mistral-medium-latest", ContextTokens: 1 << 22, MaxOutputTokens: 1 << 21, Images: true, Files: true}

// suiteApp is an app with an agent helper for the suite's requests.
func suiteApp() *parley.App {
	ask := modeltest.Ask()
	return &parley.App{Name: "suite", Tools: ask.Tools, Agents: map[string]parley.AgentDef{
		"helper": {Name: "helper", Prompt: ask.System, Tools: []string{"look_up", "count"}, Handoffs: []string{"expert"}, MaxOutput: ask.MaxTokens},
		"expert": {Name: "expert", Description: ask.Handoffs[0].Description, Prompt: "You know."},
	}}
}

func host(t testing.TB, c *mistral.Client, app *parley.App, dir string) *mistral.Hosted {
	t.Helper()
	h, err := c.Hosted(hostedInfo, mistral.HostedOptions{App: app, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHosted(t *testing.T) {
	t.Parallel()
	for name, app := range map[string]*parley.App{
		"as an agent": suiteApp(),
		"as a model with instructions": func() *parley.App {
			app := suiteApp()
			def := app.Agents["helper"]
			def.Prompt = "Something else."
			app.Agents["helper"] = def
			return app
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modeltest.Run(t, modeltest.Harness{
				New: func(t *testing.T, b modeltest.Behaviour) (seam.Model, <-chan struct{}) {
					// On this wire, a handoff has a reason only if it is a call.
					s, c := serve(t, sim.Options{Brain: behaving(b), HandoffCalls: true})
					return host(t, c, app, t.TempDir()), s.Closed()
				},
				Errors:   refusals,
				Thinking: true,
			})
		})
	}
}

// asked returns the requests by method and path. Those to conversations have the keys that
// matter.
func asked(s *sim.Server) []string {
	var list []string
	for _, r := range s.Requests() {
		line := r.Method + " " + r.Path
		if strings.HasPrefix(r.Path, "/v1/conversations") && r.Method == "POST" {
			var b struct {
				AgentID string `json:"agent_id"`
				Mode    string `json:"handoff_execution"`
				Stream  bool
				Inputs  []struct{ Type string }
			}
			_ = json.Unmarshal(r.Body, &b) // we wrote it
			line = "start"
			if r.Path != "/v1/conversations" {
				line = "append"
			}
			if b.AgentID != "" {
				line += " agent"
			}
			for _, in := range b.Inputs {
				line += " " + in.Type
			}
			if b.Mode != "client" || !b.Stream {
				line += " WRONG MODE"
			}
		}
		list = append(list, line)
	}
	return list
}

// circleApp has three agents that hand over in a circle, as those of chaos do.
func circleApp() *parley.App {
	return &parley.App{
		Name: "circle", Entry: "front",
		Tools: []parley.ToolDecl{{Name: "look", Description: "looks", InputSchema: json.RawMessage(`{"type":"object"}`), Effect: parley.EffectRead}},
		Agents: map[string]parley.AgentDef{
			"front":  {Name: "front", Description: "answers", Prompt: "You answer.", Handoffs: []string{"finder"}},
			"finder": {Name: "finder", Description: "finds", Prompt: "You find.", Tools: []string{"look"}, Handoffs: []string{"judge"}, History: parley.HistoryNone},
			"judge":  {Name: "judge", Description: "judges", Prompt: "You judge.", Handoffs: []string{"front"}, History: parley.HistoryNone},
		},
	}
}

func TestPrepare_makes_and_wires_a_circle(t *testing.T) {
	t.Parallel()
	s, c := serve(t, sim.Options{Brain: always(text("x"))})
	dir := t.TempDir()
	if err := host(t, c, circleApp(), dir).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ".agent_ids.json")
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want the file for its owner alone", st, err)
	}
	ids := idsOf(t, dir)["circle"]["mistral-medium-latest"]
	to := map[string]string{}
	for id, raw := range s.Agents() {
		var a struct {
			Name, Model, Description, Instructions string
			Handoffs                               []string
			Tools                                  []struct{ Function struct{ Name string } }
		}
		if err := json.Unmarshal(raw, &a); err != nil {
			t.Fatal(err)
		}
		def := circleApp().Agents[a.Name]
		if ids[a.Name].ID != id || a.Instructions != def.Prompt || a.Description != def.Description || a.Model != "mistral-medium-latest" || len(a.Tools) != len(def.Tools) || len(a.Handoffs) != 1 {
			t.Errorf("agent %s: %s", id, raw)
			continue
		}
		for n, k := range ids {
			if k.ID == a.Handoffs[0] {
				to[a.Name] = n
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"front": "finder", "finder": "judge", "judge": "front"}, to); diff != "" {
		t.Errorf("handoffs (-want +got):\n%s", diff)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) > 1 {
		t.Errorf("got the files %q, %v", left, err)
	}
}

// TestPrepare_unwritable: the error gives the reason, but not the path of the data folder.
func TestPrepare_unwritable(t *testing.T) {
	t.Parallel()
	_, c := serve(t, sim.Options{Brain: always(text("x"))})
	dir := t.TempDir()
	in := filepath.Join(dir, ".agent_ids.json", "in the way")
	if err := os.MkdirAll(in, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, filepath.Join(dir, "none")} {
		err := host(t, c, circleApp(), dir).Prepare(t.Context())
		if err == nil || !strings.Contains(err.Error(), ".agent_ids.json: ") || strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
	}
}

// TestPrepare_in_a_folder_that_went_away: nothing is written into the data folder once it is
// replaced. If that is known beforehand, no agents are made, either.
func TestPrepare_in_a_folder_that_went_away(t *testing.T) {
	t.Parallel()
	gone := errors.New("it is another folder")
	for good := range 2 { // checks that pass
		s, c := serve(t, sim.Options{Brain: always(text("x"))})
		dir, checks := t.TempDir(), 0
		h, err := c.Hosted(hostedInfo, mistral.HostedOptions{App: circleApp(), Dir: dir, There: func() error {
			if checks++; checks > good {
				return gone
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Prepare(t.Context()); !errors.Is(err, gone) {
			t.Errorf("after %d checks: got %v", good, err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
			t.Errorf("after %d checks the folder has %v, %v", good, list, err)
		}
		if n := len(s.Agents()); good == 0 && n != 0 {
			t.Errorf("%d agents were made", n)
		}
	}
}

type keptAgent struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

func idsOf(t *testing.T, dir string) map[string]map[string]map[string]keptAgent {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, ".agent_ids.json"))
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		Apps map[string]map[string]map[string]keptAgent
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return k.Apps
}

// counted returns the number of requests of a start, by method.
func counted(s *sim.Server, from int) string {
	n := map[string]int{}
	for _, r := range s.Requests()[from:] {
		n[r.Method]++
	}
	raw, _ := json.Marshal(n) // numbers always encode
	return string(raw)
}

func TestPrepare_again(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(t *testing.T, app *parley.App, s *sim.Server, dir string)
		want    string // requests by method
		renewed bool
	}{
		"nothing has changed": {func(*testing.T, *parley.App, *sim.Server, string) {}, `{"GET":3}`, false},
		"a prompt has changed": {func(_ *testing.T, app *parley.App, _ *sim.Server, _ string) {
			def := app.Agents["judge"]
			def.Prompt = "You judge well."
			app.Agents["judge"] = def
		}, `{"GET":3,"PATCH":2}`, false},
		"a tool has changed": {func(_ *testing.T, app *parley.App, _ *sim.Server, _ string) {
			app.Tools[0].Description = "looks well"
		}, `{"GET":3,"PATCH":2}`, false},
		"one agent is gone: all three are made anew": {func(t *testing.T, _ *parley.App, s *sim.Server, dir string) {
			s.DropAgent(idsOf(t, dir)["circle"]["mistral-medium-latest"]["finder"].ID)
		}, `{"GET":1,"PATCH":3,"POST":3}`, true},
		"an agent came with the app": {func(_ *testing.T, app *parley.App, _ *sim.Server, _ string) {
			app.Agents["new"] = parley.AgentDef{Name: "new", Prompt: "New."}
		}, `{"PATCH":3,"POST":4}`, true},
		"the file is broken": {func(t *testing.T, _ *parley.App, _ *sim.Server, dir string) {
			if err := os.WriteFile(filepath.Join(dir, ".agent_ids.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, `{"PATCH":3,"POST":3}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cl := serve(t, sim.Options{Brain: always(text("x"))})
			dir, app := t.TempDir(), circleApp()
			if err := host(t, cl, app, dir).Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, from := idsOf(t, dir), len(s.Requests())
			c.change(t, app, s, dir)
			if err := host(t, cl, app, dir).Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := counted(s, from); name != "one agent is gone: all three are made anew" && got != c.want ||
				!strings.HasSuffix(got, c.want[strings.Index(c.want, `"P`)+1:]) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			after := idsOf(t, dir)
			for n, a := range before["circle"]["mistral-medium-latest"] {
				if same := after["circle"]["mistral-medium-latest"][n].ID == a.ID; same == c.renewed {
					t.Errorf("agent %s: %s, then %s", n, a.ID, after["circle"]["mistral-medium-latest"][n].ID)
				}
			}
			// The next start finds everything up to date.
			from = len(s.Requests())
			if err := host(t, cl, app, dir).Prepare(t.Context()); err != nil || strings.Contains(counted(s, from), "P") {
				t.Errorf("%v, %s", err, counted(s, from))
			}
		})
	}
}

func TestPrepare_when_the_provider_is_away(t *testing.T) {
	t.Parallel()
	s, c := serve(t, sim.Options{Brain: always(text("hello"))})
	dir := t.TempDir()
	h := host(t, c, circleApp(), dir)
	// The second agent cannot be created: the first is deleted again.
	s.Fail(sim.Fault{Path: "/v1/agents/none"})
	for _, f := range []sim.Fault{{Status: 503}, {Status: 401}} {
		s.Fail(f)
		err := h.Prepare(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the agents of app circle could not be prepared: ") {
			t.Errorf("got %v", err)
		}
	}
	s.Fail(sim.Fault{Path: "/v1/agents/", Method: "PATCH", Status: 503})
	if err := h.Prepare(t.Context()); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	if n := len(s.Agents()); n != 0 {
		t.Errorf("%d agents were left behind", n)
	}
	// The provider is back: the first use creates the agents.
	r := seam.Request{Agent: "front", System: "You answer.", MaxTokens: 8192, Handoffs: []seam.Handoff{{Agent: "finder", Description: "finds"}}, Messages: []parley.Message{says(parley.RoleUser, text("hi"))}}
	if g := read(t.Context(), h, r); g.text != "hello" {
		t.Errorf("got %q, %v", g.text, g.err)
	}
	if got := asked(s); got[len(got)-1] != "start agent message.input" {
		t.Errorf("got %q", got)
	}
}

func TestPrepare_at_once(t *testing.T) {
	t.Parallel()
	s, c := serve(t, sim.Options{Brain: always(text("x"))})
	dir := t.TempDir()
	var wg sync.WaitGroup
	for _, n := range []string{"a", "b", "c", "a", "b", "c"} {
		wg.Go(func() {
			app := circleApp()
			app.Name = n
			if err := host(t, c, app, dir).Prepare(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, m := len(s.Agents()), len(idsOf(t, dir)); n != 9 || m != 3 {
		t.Errorf("got %d agents of %d apps", n, m)
	}
}

func TestHosted_refuses_nonsense(t *testing.T) {
	t.Parallel()
	c := client(t, "http://127.0.0.1:1")
	other := circleApp()
	for n, def := range other.Agents {
		def.Model = "another/model"
		other.Agents[n] = def
	}
	for name, o := range map[string]mistral.HostedOptions{
		"no app": {Dir: "x"}, "no folder": {App: circleApp()}, "no agents": {App: other, Dir: "x"},
	} {
		if _, err := c.Hosted(hostedInfo, o); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if !host(t, c, circleApp(), "x").Info().Hosted {
		t.Error("the loop is not told that it is hosted")
	}
}

// TestHosted_any_history_is_valid: a conversation can begin with any history that is valid by
// our rules.
func TestHosted_any_history_is_valid(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	_, c := serve(t, sim.Options{Brain: always(text("x"))})
	h := host(t, c, suiteApp(), t.TempDir())
	for range 200 {
		r := modeltest.Ask()
		r.Messages = randomHistory(rnd)
		if g := read(t.Context(), h, r); g.err != nil {
			raw, _ := json.MarshalIndent(r.Messages, "", " ")
			t.Fatalf("%v: %s", g.err, raw)
		}
	}
}
