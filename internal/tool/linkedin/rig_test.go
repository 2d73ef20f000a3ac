package linkedin_test

import (
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/linkedin"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/tool/linkedin"
	"github.com/parley-server/parley/internal/vault"
)

const (
	redirect  = "http://127.0.0.1:8000" + linkedin.CallbackPath
	sebastian = parley.Workspace("shared/sebastian")
	petra     = parley.Workspace("shared/petra")
)

var (
	ana = parley.Principal{User: "ana", Org: "acme"}
	bob = parley.Principal{User: "bob", Org: "acme"}
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// rig is the tools of an app with the workspaces of two persons, against the simulated LinkedIn.
type rig struct {
	t     *testing.T
	sim   *sim.Server
	url   string
	set   *linkedin.Toolset
	o     linkedin.Options
	clock *clock
	dir   string
	store seam.Store
	log   *strings.Builder
	logs  sync.Mutex
}

type lockedLog struct{ g *rig }

func (l lockedLog) Write(b []byte) (int, error) {
	l.g.logs.Lock()
	defer l.g.logs.Unlock()
	return l.g.log.Write(b)
}

func newRig(t *testing.T, set sim.Settings, change ...func(*linkedin.Options)) *rig {
	t.Helper()
	g := &rig{t: t, clock: &clock{at: time.Date(2026, 11, 24, 15, 0, 0, 0, time.UTC)}, dir: t.TempDir(), store: mem.New(), log: &strings.Builder{}}
	set.Consent = "allow"
	if set.Member == "" {
		set.Member = "seb1"
	}
	g.sim = sim.New(sim.Options{
		ClientID: "app", ClientSecret: "app-secret", Redirects: []string{redirect}, Settings: set, Now: g.clock.now,
		Members: []sim.Member{{ID: "seb1", Name: "Sebastian Kurz", Email: "s@example.com"}, {ID: "pet2", Name: "Petra Lang", Email: "p@example.com"}},
	})
	srv := httptest.NewServer(g.sim)
	t.Cleanup(srv.Close)
	g.url = srv.URL
	v, err := vault.Open(g.store, []string{base64.StdEncoding.EncodeToString(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	g.o = linkedin.Options{
		App: "notes", ClientID: "app", ClientSecret: "app-secret", RedirectURI: redirect, URL: srv.URL, Now: g.clock.now,
		Vault: func() *vault.Vault { return v }, Logger: slog.New(slog.NewTextHandler(lockedLog{g}, nil)),
		Pause: func(_ context.Context, d time.Duration) error { g.clock.add(d); return nil },
	}
	if set.Reading {
		g.o.Scopes = []string{"openid", "profile", "w_member_social", "r_member_social"}
	}
	for _, c := range change {
		c(&g.o)
	}
	g.restart()
	for _, name := range []string{"sebastian", "petra"} {
		if err := os.Mkdir(filepath.Join(g.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// restart makes the tools of another process over the same store.
func (g *rig) restart() {
	g.t.Helper()
	set, err := linkedin.New(g.o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(set.Close)
	g.set = set
}

// visit opens a link in the browser, and returns what it brings back.
func (g *rig) visit(link string) linkedin.Answer {
	g.t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(link)
	if err != nil {
		g.t.Fatal(err)
	}
	_ = resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		g.t.Fatalf("%s: %v", resp.Status, err)
	}
	q := to.Query()
	return linkedin.Answer{State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error")}
}

// login logs a person in at LinkedIn as a member.
func (g *rig) login(p parley.Principal, w parley.Workspace, member string) {
	g.t.Helper()
	g.sim.Set(func(s *sim.Settings) { s.Member = member })
	link, err := g.set.Login(g.t.Context(), p, w)
	if err != nil {
		g.t.Fatal(err)
	}
	in, err := g.set.Finish(g.t.Context(), p, g.visit(link), nil)
	if err != nil || in.Workspace != w || in.Expires != 5184000 {
		g.t.Fatalf("the login got %+v, %v", in, err)
	}
}

// run is a call as the engine makes it.
func (g *rig) run(call, tool string, w parley.Workspace, input any) seam.Run {
	raw, err := json.Marshal(input)
	if err != nil {
		g.t.Fatal(err)
	}
	return seam.Run{
		Call: parley.CallID(call), Name: tool, Input: raw, Principal: ana, App: "notes", Space: w, Started: g.clock.now(),
		Hide: func(...string) error { return nil },
		Workspace: func() (*os.Root, error) {
			name, ok := w.Shared()
			if !ok {
				return nil, parley.Errorf(parley.CodeInvalid, "the session has no workspace")
			}
			root, err := os.OpenRoot(filepath.Join(g.dir, name))
			if err == nil {
				g.t.Cleanup(func() { _ = root.Close() })
			}
			return root, err
		},
	}
}

// do makes a call of sebastian's that LinkedIn answers.
func (g *rig) do(call, tool string, input any) parley.ToolResult {
	g.t.Helper()
	res, err := g.set.Run(g.t.Context(), g.run(call, tool, sebastian, input))
	if err != nil {
		g.t.Fatalf("%s: %v", tool, err)
	}
	return res
}

// rows are the rows of a person's log, without its head.
func (g *rig) rows(person string) [][]string {
	g.t.Helper()
	f, err := os.Open(filepath.Join(g.dir, person, linkedin.LogPath))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		g.t.Fatal(err)
	}
	if got := strings.Join(all[0], ","); got != "timestamp,action,post_urn,comment_urn,text,response" {
		g.t.Errorf("the head of the log is %s", got)
	}
	return all[1:]
}

type in map[string]string
