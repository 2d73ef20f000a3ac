package linkedin_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/linkedin"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/tool/linkedin"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/vault"
	"github.com/parley-server/parley/internal/workspace"
)

// world is the LinkedIn, the vault and the workspace of one run, which outlive the process.
type world struct {
	t   *testing.T
	sim *sim.Server
	o   linkedin.Options
	dir string
	app parley.App
}

// direct carries requests to the simulation without a network, in which fake time would stand
// still. With a gate, an answer to a write is lost if the gate says so.
type direct struct {
	to   http.Handler
	gate func() error
}

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	w := httptest.NewRecorder()
	d.to.ServeHTTP(w, r)
	if d.gate != nil && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/rest/") {
		if err := d.gate(); err != nil {
			return nil, err
		}
	}
	return w.Result(), nil
}

func newWorld(t *testing.T, app parley.App, reading bool) *world {
	w := &world{t: t, dir: t.TempDir(), app: app}
	w.sim = sim.New(sim.Options{
		ClientID: "app", ClientSecret: "app-secret", Redirects: []string{redirect}, Members: []sim.Member{{ID: "seb1", Name: "Sebastian Kurz"}},
		Settings: sim.Settings{Reading: true, Consent: "allow", Member: "seb1"},
	})
	v, err := vault.Open(mem.New(), []string{base64.StdEncoding.EncodeToString(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	w.o = linkedin.Options{
		App: app.Name, ClientID: "app", ClientSecret: "app-secret", RedirectURI: redirect, URL: "http://127.0.0.1:1",
		Vault: func() *vault.Vault { return v }, Logger: slog.New(slog.DiscardHandler),
	}
	if reading {
		w.o.Scopes = []string{"openid", "profile", "w_member_social", "r_member_social"}
	}
	set := w.tools(nil)
	link, err := set.Login(context.Background(), enginetest.User, sebastian)
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	w.sim.ServeHTTP(page, httptest.NewRequest(http.MethodGet, link, nil))
	to, err := page.Result().Location()
	if err != nil {
		t.Fatal(err)
	}
	q := to.Query()
	if _, err := set.Finish(context.Background(), enginetest.User, linkedin.Answer{State: q.Get("state"), Code: q.Get("code")}, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) tools(gate func() error) *linkedin.Toolset {
	set, err := linkedin.New(w.o)
	if err != nil {
		panic(err)
	}
	set.Over(direct{w.sim, gate})
	return set
}

// Live implements enginetest.World.
func (w *world) Live(o *engine.Options, gate func() error) func() {
	log := slog.New(slog.DiscardHandler)
	box, err := toolbox.New([]seam.Toolset{w.tools(gate)}, toolbox.Options{Logger: log})
	if err != nil {
		panic(err)
	}
	folders, err := workspace.New(workspace.Options{Shared: map[string]workspace.Shared{"sebastian": {Dir: w.dir}}, Default: sebastian})
	if err != nil {
		panic(err)
	}
	w.app.Tools = box.Decls()
	if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: w.app, Tools: box, Folders: folders}}, Clean: o.Log.RedactFile, Logger: log}); err != nil {
		panic(err)
	}
	return func() {}
}

// Effects implements enginetest.World: what LinkedIn has, and what the log says of it.
func (w *world) Effects() map[string]int {
	n := map[string]int{}
	for _, p := range w.sim.Posts() {
		n["post "+p.Text]++
	}
	for _, c := range w.sim.Comments() {
		n["comment "+c.Text]++
	}
	body, _ := os.ReadFile(filepath.Join(w.dir, linkedin.LogPath))
	n["rows"] = max(0, strings.Count(string(body), "\n")-1)
	return n
}

// Close implements enginetest.World.
func (*world) Close() {}

// TestCrashAtEveryPoint: a turn posts and comments, and the process dies at every point: before and
// after each write of its store, and when LinkedIn has done something and has not answered. Nothing
// is done twice or logged twice, and what is not known is reported so.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, _ func(string)) (seam.Reply, error) {
		results := enginetest.Results(r)
		if len(results) == 0 {
			return seam.Reply{Parts: []parley.Part{enginetest.Call(linkedin.Post, map[string]any{"text": "Hello (world)"})}}, nil
		}
		said := results[len(results)-1]
		if urn, ok := strings.CutPrefix(said, "Posted to LinkedIn: "); ok {
			return seam.Reply{Parts: []parley.Part{enginetest.Call(linkedin.Prefix+linkedin.PostComment, map[string]any{"post_urn": urn, "text": "First"})}}, nil
		}
		return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "Done."}}}, nil
	}
	for name, reading := range map[string]bool{"reading": true, "writing only": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := enginetest.App(func(a *parley.App) {
				a.Name, a.Resume = "notes", parley.ResumeAuto
				a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow, Effect: parley.EffectWrite}}
				a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Post.", Tools: []string{linkedin.Post, linkedin.Prefix + linkedin.PostComment}}}
			})
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App: app, Model: func() enginetest.Model { return model }, Messages: []string{"go"}, Sparse: 7,
				World: func() enginetest.World { return newWorld(t, app, reading) },
				Told:  func(s string) string { return regexp.MustCompile(`urn:li:[^ \n"]*`).ReplaceAllString(s, "urn") },
			})
		})
	}
}
