//go:build unix

package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/oauth"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/vault"
)

// personal is the toolset of a person who logs in at a server. The server repeats the token of each
// request wherever it can.
type personal struct {
	t    *testing.T
	as   *oauth.Server
	all  *login.Logins
	set  *mcp.Toolset
	kept atomic.Pointer[string] // what would be on disk
}

var ana = parley.Principal{User: "ana"}

func newPersonal(t *testing.T) *personal {
	t.Helper()
	p := &personal{t: t, as: oauth.New()}
	t.Cleanup(p.as.Close)
	at := httptest.NewServer(p.as.Protect("/mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler(echoing(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))).ServeHTTP(w, r)
	})))
	t.Cleanup(at.Close)
	v, err := vault.Open(mem.New(), []string{base64.StdEncoding.EncodeToString(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	p.all = login.New(login.Options{Vault: func() *vault.Vault { return v }, Base: func() (string, error) { return "http://127.0.0.1:8000", nil }})
	l, err := p.all.At(login.Place{Principal: ana, Scope: vault.Scope{App: "desk"}}, login.Server{Name: "test", URL: at.URL + "/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	p.set, err = mcp.New(mcp.Options{
		Name: "test", URL: at.URL + "/mcp", Login: l, Logger: quiet,
		Keep: func(kept []byte) { text := string(kept); p.kept.Store(&text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.set.Close)
	return p
}

// echoing is a server that repeats a token.
func echoing(token string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	add := func(name, about string) {
		s.AddTool(&sdk.Tool{Name: name, Description: about, InputSchema: schema}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "sent with " + token}}}, nil
		})
	}
	add("send", "Sends a letter.")
	add("tell", "Tells "+token)
	letter := func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Write with " + token}}}}, nil
	}
	s.AddPrompt(&sdk.Prompt{Name: "letter"}, letter)
	s.AddPrompt(&sdk.Prompt{Name: "tell", Description: token}, letter)
	return s
}

func (p *personal) names() (names []string) {
	p.t.Helper()
	list, err := p.set.Tools(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, d := range list {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}

// login does what the person is asked to do, and returns the token.
func (p *personal) login(in *parley.Interaction) string {
	p.t.Helper()
	if in == nil || in.Kind != parley.KindQuestion || in.URL == "" || !strings.Contains(in.Text, in.URL) {
		p.t.Fatalf("nobody is asked to log in: %+v", in)
	}
	back, err := p.as.Visit(in.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	q := back.Query()
	if _, err := p.all.Finish(p.t.Context(), ana, parley.LoginAnswer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss")}); err != nil {
		p.t.Fatal(err)
	}
	var hidden []string
	if _, err := p.set.Prepare(p.t.Context(), seam.Run{Name: "mcp__test__send", Hide: func(values ...string) error { hidden = values; return nil }}); err != nil || len(hidden) == 0 {
		p.t.Fatalf("hidden: %q, %v", hidden, err)
	}
	return hidden[0]
}

// TestPerson: a person without a login has one tool, which asks for the login. Each call asks for
// it until it is there. Then the tools of the server are known.
func TestPerson(t *testing.T) {
	t.Parallel()
	p := newPersonal(t)
	if got := p.names(); !slices.Equal(got, []string{"mcp__test__login"}) {
		t.Errorf("before the login: %q", got)
	}
	for _, tool := range []string{"login", "send"} {
		in, err := p.set.Prepare(t.Context(), seam.Run{Name: "mcp__test__" + tool})
		if err != nil || in == nil {
			t.Fatalf("%s: %+v, %v", tool, in, err)
		}
	}
	r := over(t, p.set)
	r.want(r.call("login", in{}), parley.OutcomeError, "asks for a login")
	ask, err := p.set.Prepare(t.Context(), seam.Run{Name: "mcp__test__login"})
	if err != nil {
		t.Fatal(err)
	}
	p.login(ask)
	for _, tool := range []string{"login", "send"} {
		if in, err := p.set.Prepare(t.Context(), seam.Run{Name: "mcp__test__" + tool}); in != nil || err != nil {
			t.Errorf("%s asks again: %+v, %v", tool, in, err)
		}
	}
	r.want(r.call("login", in{}), parley.OutcomeOK, "you can call: mcp__test__send")
	if got := p.names(); !slices.Equal(got, []string{"mcp__test__login", "mcp__test__send"}) {
		t.Errorf("after the login: %q", got)
	}
}

// TestPersonsToken: a server that repeats the token of its caller brings it into no description, no
// file and no text of a prompt.
func TestPersonsToken(t *testing.T) {
	t.Parallel()
	p := newPersonal(t)
	ask, err := p.set.Prepare(t.Context(), seam.Run{Name: "mcp__test__login"})
	if err != nil {
		t.Fatal(err)
	}
	token := p.login(ask)
	if err := p.set.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := p.set.Tools(t.Context())
	if raw, _ := json.Marshal(list); err != nil || strings.Contains(string(raw), token) || !strings.Contains(string(raw), "mcp__test__send") {
		t.Errorf("the tools are %s, %v", raw, err)
	}
	r := &rig{t: t, set: p.set}
	if raw, _ := json.Marshal(r.commands(1)); strings.Contains(string(raw), token) {
		t.Errorf("the commands are %s", raw)
	}
	if kept := p.kept.Load(); kept == nil || strings.Contains(*kept, token) {
		t.Errorf("kept: %v", kept)
	}
	if text, err := p.set.Expand(t.Context(), "mcp__test__letter", ""); err != nil || text != "Write with [redacted]" {
		t.Errorf("the prompt says %q, %v", text, err)
	}
}
