package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/apps/chaos/chaostest"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/sim/simtest"
)

// eachProvider runs a test for each model provider, over its wire.
func eachProvider(t *testing.T, test func(t *testing.T, p simtest.Provider)) {
	t.Helper()
	for _, p := range simtest.Providers() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// account sets the program up with providers at these addresses: by environment variables, and
// by settings where those are not enough.
func (p *place) account(at map[*simtest.Server]simtest.Provider) {
	p.t.Helper()
	providers := map[string]any{}
	for s, of := range at {
		if of.Account == of.Kind {
			names := config.ProviderEnv[of.Kind]
			p.env = append(p.env, names[0]+"="+simtest.Key, names[1]+"="+s.URL+of.Base)
		}
		providers[of.Account] = of.Settings(s.URL)
	}
	raw, err := json.Marshal(map[string]any{"models": map[string]any{"providers": providers}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(filepath.Join(p.dir, "parley.yaml"), string(raw))
}

// prompts returns the prompts of an app that comes with Parley, by agent.
func prompts(t *testing.T, app string) map[string]string {
	t.Helper()
	files, err := fs.Glob(apps.FS(), app+"/prompts/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has the prompts %v, %v", app, files, err)
	}
	all := map[string]string{}
	for _, f := range files {
		raw, err := fs.ReadFile(apps.FS(), f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".md")] = string(raw)
	}
	return all
}

// script returns the model that follows an app's script.
func script(t *testing.T, app string) seam.Model {
	t.Helper()
	raw, err := fs.ReadFile(apps.FS(), app+"/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.New("scripted/"+app, raw, scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestProviders_chaos_same_frames: over each provider's wire the demo has the same bytes as with
// the scripted model. Each simulated provider says the words of the scripted model.
func TestProviders_chaos_same_frames(t *testing.T) {
	t.Parallel()
	direct := newPlace(t, "PARLEY_SCRIPTED_PACE=0s").serve()
	want := []chat{direct.say("browser", spec), direct.say("browser", followUp)}
	eachProvider(t, func(t *testing.T, p simtest.Provider) {
		sim := p.Start(t, script(t, "chaos"), simtest.ByPrompt(prompts(t, "chaos")))
		program := newPlace(t)
		program.account(map[*simtest.Server]simtest.Provider{sim: p})
		s := program.serve()
		for i, q := range []string{spec, followUp} {
			got := s.say("browser", q)
			frames := []string{chaostest.Demo, chaostest.Memory}[i]
			if diff := cmp.Diff(frames, got.frames); diff != "" {
				t.Errorf("question %d (-want +got):\n%s", i+1, diff)
			}
			if diff := cmp.Diff(want[i].text, got.text); diff != "" {
				t.Errorf("answer %d (-want +got):\n%s", i+1, diff)
			}
			for _, e := range decode(t, s.log(got.session)) {
				if pay, err := e.Payload(); err != nil {
					t.Error(err)
				} else if m, ok := pay.(parley.ModelStarted); ok && m.Model != strings.ReplaceAll(p.Model, "{app}", "chaos") {
					t.Errorf("%s was called, want %s", m.Model, p.Model)
				}
			}
		}
		calls := sim.Calls()
		for i, body := range calls {
			if err := p.Validate(body); err != nil {
				t.Errorf("call %d would be refused: %v", i+1, err)
			}
		}
		if len(calls) != 6 {
			t.Errorf("the provider was called %d times, want 5 for the circle and 1 for the answer from memory", len(calls))
		}
		if _, err := os.Stat(filepath.Join(program.data, ".agent_ids.json")); (err == nil) != p.Hosted {
			t.Errorf("the file of hosted agents: %v", err)
		}
	})
}

// TestMistral_keeps_the_agents_of_chaos: the key is enough for Mistral to store the agents, and
// one setting turns that off. Other apps keep their agents in Parley.
func TestMistral_keeps_the_agents_of_chaos(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, settings, chaos, mine string }{
		{"key alone", "", "mistral-agents/chaos/mistral-medium-latest", "mistral/mistral-medium-latest"},
		{"hosted: false", "models: {providers: {mistral: {hosted: false}}}", "mistral/mistral-medium-latest", "mistral/mistral-medium-latest"},
		{"hosted: true", "models: {providers: {mistral: {hosted: true}}}", "mistral-agents/chaos/mistral-medium-latest", "mistral-agents/mine/mistral-medium-latest"},
		{"another model", "model: mistral/mistral-small-latest", "mistral/mistral-small-latest", "mistral/mistral-small-latest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var p simtest.Provider
			for _, row := range simtest.Providers() {
				if row.Hosted {
					p = row
				}
			}
			sim := p.Start(t, script(t, "chaos"), simtest.ByPrompt(prompts(t, "chaos")))
			names := config.ProviderEnv["mistral"]
			own := t.TempDir()
			program := newPlace(t, names[0]+"="+simtest.Key, names[1]+"="+sim.URL, "PARLEY_APPS="+own, "PARLEY_ENABLED=chaos,mine")
			program.write(filepath.Join(program.dir, "parley.yaml"), c.settings)
			program.write(filepath.Join(own, "mine", "app.yaml"), "agents: {only: {prompt: p.md}}\n")
			program.write(filepath.Join(own, "mine", "p.md"), "You answer.")
			s := program.serve()
			got := s.say("browser", spec)
			if diff := cmp.Diff(chaostest.Demo, got.frames); diff != "" {
				t.Errorf("the frames (-want +got):\n%s", diff)
			}
			for _, e := range decode(t, s.log(got.session)) {
				if pay, err := e.Payload(); err != nil {
					t.Error(err)
				} else if m, ok := pay.(parley.ModelStarted); ok && m.Model != c.chaos {
					t.Errorf("chaos called %s, want %s", m.Model, c.chaos)
				}
			}
			mine := s.session("mine")
			s.settle(s.send(mine, "hello").ID)
			if log := strings.Join(s.log(mine), "\n"); !strings.Contains(log, `"model":"`+c.mine+`"`) {
				t.Errorf("the other app has not called %s:\n%s", c.mine, log)
			}
		})
	}
}

// inTurn calls tools one after another, and then answers with the beginning of each result.
func inTurn(calls [][2]string) simtest.Brain {
	return func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		var results []string
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				if p.Type == parley.PartToolResult {
					results = append(results, p.Text)
				}
			}
		}
		if n := len(results); n < len(calls) {
			say(fmt.Sprintf("Step %d. ", n+1))
			return seam.Reply{Parts: []parley.Part{{Type: parley.PartToolCall, Name: calls[n][0], Input: json.RawMessage(calls[n][1])}}, StopReason: "tool_use"}, nil
		}
		say(told(results))
		return seam.Reply{StopReason: "end_turn"}, nil
	}
}

// told returns the answer that is made from the results.
func told(results []string) string {
	var b strings.Builder
	for i, r := range results {
		fmt.Fprintf(&b, "%d: %s\n", i+1, strings.Join(strings.Fields(parley.Cut(r, 160)), " "))
	}
	return strings.TrimSpace(b.String())
}

// atHomeTen is a place with the app home, allowed more than ten steps.
func atHomeTen(t *testing.T) *place {
	t.Helper()
	house := homeassistant.New(homeassistant.Options{Token: "a-long-lived-token", Story: homeassistant.StoryVoltageDip, TimeZone: homeassistant.Afternoon(time.Now())})
	srv := httptest.NewServer(house)
	t.Cleanup(func() { house.Close(); srv.Close() })
	p := newPlace(t, "PARLEY_ENABLED=home", "HOME_ASSISTANT_URL="+srv.URL, "HOME_ASSISTANT_TOKEN=a-long-lived-token")
	own := filepath.Join(p.dir, "apps")
	err := fs.WalkDir(apps.FS(), "home", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(apps.FS(), name)
		text := strings.NewReplacer("maxSteps: 8", "maxSteps: 12", "maxTokensPerTurn: 100000", "maxTokensPerTurn: 1000000").Replace(string(raw))
		p.write(filepath.Join(own, name), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PARLEY_APPS="+own)
	return p
}

// TestProviders_home_in_ten_steps: a turn of eleven model calls calls each reading tool, and
// the model gets what the tools found.
func TestProviders_home_in_ten_steps(t *testing.T) {
	t.Parallel()
	calls := [][2]string{
		{"index_search", `{"query":"bedroom"}`},
		{"ha_state_query", `{"entities":["light.bedroom_ceiling"]}`},
		{"diagnose_entity", `{"entity":"light.bedroom_ceiling","start":"-24h"}`},
		{"analyze_errors", `{}`},
		{"ha_history", `{"entities":["sensor.mains_voltage_l1"],"start":"-24h"}`},
		{"ha_logbook", `{"query":"bedroom","start":"-24h"}`},
		{"ha_analyze", `{"sql":"SELECT count(*) AS lights FROM states WHERE domain = 'light'"}`},
		{"index_search", `{"domain":"sensor","limit":3}`},
		{"ha_state_query", `{"domain":"light"}`},
		{"ha_analyze", `{"sql":"SELECT name FROM areas ORDER BY name"}`},
	}
	eachProvider(t, func(t *testing.T, p simtest.Provider) {
		sim := p.Start(t, inTurn(calls), simtest.ByPrompt(prompts(t, "home")))
		program := atHomeTen(t)
		program.account(map[*simtest.Server]simtest.Provider{sim: p})
		s := program.serve()
		id := s.session("home")
		got := s.answered(id, flicker)
		var results, names []string
		for _, e := range decode(t, s.log(id)) {
			pay, err := e.Payload()
			if err != nil {
				t.Fatal(err)
			}
			if end, ok := pay.(parley.ToolEnded); ok {
				names = append(names, end.Name)
				if results = append(results, end.Output); end.Outcome != parley.OutcomeOK {
					t.Errorf("%s: %s: %s", end.Name, end.Outcome, end.Output)
				}
			}
		}
		want := make([]string, len(calls))
		for i, c := range calls {
			want[i] = c[0]
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(told(results), got.Message); diff != "" {
			t.Errorf("the answer from the results (-want +got):\n%s", diff)
		}
		for i, body := range sim.Calls() {
			if err := p.Validate(body); err != nil {
				t.Errorf("call %d would be refused: %v", i+1, err)
			}
		}
	})
}

// TestProviders_cancel_reaches_them: cancelling a turn closes the connection to the provider at
// once. A client that only disconnects does not close it.
func TestProviders_cancel_reaches_them(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, p simtest.Provider) {
		talking, goOn := make(chan struct{}, 10), make(chan struct{})
		sim := p.Start(t, simtest.Brain(func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			for i := range 10 {
				say(fmt.Sprint("word ", i, " "))
			}
			talking <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
				return seam.Reply{}, ctx.Err()
			}
			say("and the rest.")
			return seam.Reply{StopReason: "end_turn"}, nil
		}), simtest.ByPrompt(prompts(t, "chaos")))
		program := newPlace(t)
		program.account(map[*simtest.Server]simtest.Provider{sim: p})
		s := program.serve()
		wait := func(what string, c <-chan struct{}) {
			select {
			case <-c:
			case <-time.After(within):
				t.Fatalf("waited for %s", what)
			}
		}

		turn := s.send(s.session("chaos"), "go on and on")
		wait("the model to talk", talking)
		asked := time.Now()
		if a := s.ask("POST", "/v1/turns/"+string(turn.ID)+"/cancel", object("reason", "enough")); a.status != 200 {
			t.Fatalf("cancel: %s", a)
		}
		select {
		case at := <-sim.Gone():
			// The promise is 100 ms; a busy machine gets more.
			took := at.Sub(asked)
			t.Logf("the connection was closed %s after the request to cancel", took.Round(10*time.Microsecond))
			if took > 10*time.Second {
				t.Errorf("it took %s until the connection was closed", took)
			}
		case <-time.After(within):
			t.Fatal("the connection stays open")
		}
		if end := s.settle(turn.ID); end.Status != parley.StatusCancelled {
			t.Errorf("the turn is %s: %+v", end.Status, end.Error)
		}

		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		resp, err := s.chat(ctx, "tab", "go on and on", "")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		wait("the model to talk again", talking)
		leave()
		close(goOn)
		if end := s.settle(parley.TurnID(resp.Header.Get("Parley-Turn"))); end.Status != parley.StatusCompleted || !strings.HasSuffix(end.Response.Message, "word 9 and the rest.") {
			t.Errorf("without its client the turn is %s: %+v %+v", end.Status, end.Response, end.Error)
		}
	})
}

// TestProviders_switch_in_mid_session moves one session from provider to provider. Each knows
// what was said, and who said it.
func TestProviders_switch_in_mid_session(t *testing.T) {
	t.Parallel()
	program := newPlace(t)
	var rows []simtest.Provider
	sims := map[string]*simtest.Server{}
	all := map[*simtest.Server]simtest.Provider{}
	for _, p := range simtest.Providers() {
		if !p.Hosted {
			sim := p.Start(t, script(t, "chaos"), simtest.ByPrompt(prompts(t, "chaos")))
			rows, sims[p.Name], all[sim] = append(rows, p), sim, p
		}
	}
	program.account(all)
	s := program.serve()
	first := s.say("browser", spec)
	at := int64(len(s.log(first.session)))
	before := rows[0].Model // where no model is named, the first provider answers
	for _, p := range append(rows[1:], rows[0]) {
		must[parley.SessionInfo](s, "PATCH", "/v1/sessions/"+string(first.session), object("model", p.Model))
		got := s.say("browser", followUp)
		if got.frames != chaostest.Memory || !strings.Contains(got.text, "react-oauth/google") {
			t.Errorf("%s says\n%s\n%s", p.Model, got.frames, got.text)
		}
		log := decode(t, s.log(first.session))
		var moved []parley.ContextTransferred
		for _, e := range log[at:] {
			if pay, err := e.Payload(); err != nil {
				t.Error(err)
			} else if m, ok := pay.(parley.ContextTransferred); ok {
				moved = append(moved, m)
			}
		}
		at = int64(len(log))
		if len(moved) != 1 || moved[0].From != before || moved[0].To != p.Model {
			t.Fatalf("from %s to %s: the log has %+v", before, p.Model, moved)
		}
		calls := sims[p.Name].Calls()
		last := calls[len(calls)-1]
		if err := p.Validate(last); err != nil {
			t.Errorf("%s would refuse the call: %v", p.Name, err)
		}
		line, _, _ := strings.Cut(moved[0].Text, "\n")
		if !strings.Contains(line, before) || !strings.Contains(string(last), line) {
			t.Errorf("the request to %s lacks %q:\n%s", p.Name, line, last)
		}
		before = p.Model
	}
}
