//go:build unix

package program_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/sim/oauth"
)

// public is the address to which browsers return after a login. No browser does so in this test,
// because a restarted server has another port.
const public = "https://parley.example.com"

// withLogin gives the program an app with an MCP server at which users log in. Its tool mail counts
// its calls, and repeats the token that it got.
func (p *place) withLogin(as *oauth.Server) (mailed func() int) {
	p.t.Helper()
	count := make(chan int, 1)
	count <- 0
	s := mcp.NewServer(&mcp.Implementation{Name: "post", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{
		Name: "mail", Description: "Sends a text.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
	}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		count <- <-count + 1
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "mailed with " + r.Extra.Header.Get("Authorization")}}}, nil
	})
	s.AddResource(&mcp.Resource{URI: "post://letter", Name: "letter"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text := "the letter of " + r.Extra.Header.Get("Authorization")
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: text}}}, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	at := httptest.NewServer(as.Protect("/mcp", h))
	p.t.Cleanup(at.Close)
	dir := filepath.Join(p.dir, "apps", "desk")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "app.yaml"), `model: scripted/desk
agents:
  clerk: {prompt: clerk.md, tools: ["mcp__post__*"]}
script: script.yaml
tools:
  mcp: {name: post, url: "`+at.URL+`/mcp", auth: {login: {}}}
policy: {rules: [{verdict: allow}]}
resume: auto
`)
	p.write(filepath.Join(dir, "script.yaml"), `agents:
  clerk:
    - when: .Results
      say: "{{ range .Results }}{{ .Output }}{{ end }}"
    - when: eq .Question "letter"
      say: "told: {{ range .Steers }}{{ . }}{{ end }}"
    - when: eq .Question "log in"
      call:
        - tool: mcp__post__login
          input: {}
    - call:
        - tool: mcp__post__mail
          input: {text: '{{ .Question }}'}
`)
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=desk", "PARLEY_VAULT_KEYS="+key, "PARLEY_PUBLIC_URL="+public+"/")
	return func() int { n := <-count; count <- n; return n }
}

// visit opens the link of a waiting turn as its user's browser would. It returns the body that the
// login page then sends to the server.
func (s *process) visit(as *oauth.Server, in parley.Interaction) string {
	s.t.Helper()
	if in.Kind != parley.KindQuestion || in.URL == "" || !strings.Contains(in.Text, in.URL) {
		s.t.Fatalf("it waits with %+v", in)
	}
	back, err := as.Visit(in.URL)
	if err != nil || !strings.HasPrefix(back.String(), public+"/login.html?") {
		s.t.Fatalf("it comes back to %v, %v", back, err)
	}
	q := back.Query()
	raw, err := json.Marshal(parley.LoginAnswer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw)
}

// TestLogins: a user logs in at an MCP server, and its tools are known from then on. Turns that
// wait for the login go on, also after the server was killed. The tool repeats the token, and the
// log does not have it.
func TestLogins(t *testing.T) {
	t.Parallel()
	as := oauth.New()
	t.Cleanup(as.Close)
	p := newPlace(t)
	mailed := p.withLogin(as)
	if code, out, errs := p.run("app", "check"); code != 0 || !strings.Contains(out, "desk: 1 agent") {
		t.Fatalf("app check: exit %d\n%s%s", code, out, errs)
	}
	s := p.serve()
	who := must[login.ClientInfo](s, "GET", login.Document, "")
	if who.ID != public+login.Document || !slices.Equal(who.RedirectURIs, []string{public + login.Page}) || who.TokenEndpointAuthMethod != "none" {
		t.Errorf("it says of itself %+v", who)
	}
	first, second := s.session("desk"), s.session("desk")
	resources := func() parley.ResourceList {
		return must[parley.ResourceList](s, "GET", "/v1/sessions/"+string(first)+"/resources", "")
	}
	const letter = `{"message": "letter", "resources": [{"server": "post", "uri": "post://letter"}]}`
	// Nobody is logged in. The list says so, and a message with a resource is refused with a hint
	// what to do.
	got := resources()
	if len(got.Resources) != 0 || len(got.Failed) != 1 || got.Failed[0].Error.Code != parley.CodeForbidden || !strings.Contains(got.Failed[0].Error.Message, "not logged in") {
		t.Fatalf("resources: %+v", got)
	}
	link := got.Failed[0].Login
	if a := s.ask("POST", "/v1/sessions/"+string(first)+"/turns", letter); a.status != 403 || problemOf(t, a).Field != "resources[0]" || !strings.Contains(problemOf(t, a).Hint, "the list of resources has the link") {
		t.Errorf("a letter without a login: %s", a)
	}
	turns := []parley.TurnID{s.send(first, "log in").ID, s.send(second, "log in").ID}
	in := s.interaction(s.waiting(turns[0]).Interactions[0])
	if other := s.interaction(s.waiting(turns[1]).Interactions[0]); other.URL != in.URL || link != in.URL {
		t.Errorf("two turns and the list of resources show %s, %s and %s for one login", in.URL, other.URL, link)
	}
	s.kill()
	s = p.serve()
	body := s.visit(as, in)
	done := must[parley.LoginFinished](s, "POST", "/v1/logins", body)
	if done.Denied || done.Login.Server != "post" || done.Login.App != "desk" || done.Login.Since.IsZero() || !done.Continues {
		t.Errorf("finished %+v", done)
	}
	for _, turn := range turns {
		if end := s.settle(turn); end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "mcp__post__mail") {
			t.Errorf("%+v with %+v", end, end.Response)
		}
	}
	if end := s.settle(s.send(first, "hello").ID); end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "mailed with") {
		t.Errorf("%+v with %+v", end, end.Response)
	}

	if got := resources(); len(got.Resources) != 1 || got.Resources[0].URI != "post://letter" || got.Failed != nil {
		t.Errorf("resources: %+v", got)
	}
	read := must[parley.TurnInfo](s, "POST", "/v1/sessions/"+string(first)+"/turns", letter)
	if end := s.settle(read.ID); end.Status != parley.StatusCompleted {
		t.Errorf("%+v with %+v", end, end.Response)
	}
	if log := strings.Join(s.log(first), "\n"); !strings.Contains(log, "the letter of Bearer [redacted]") {
		t.Errorf("the log:\n%s", log)
	}

	// The login is removed, so a write waits for a new login before it begins.
	code, out, errs := p.run("logins", "list")
	id, _, _ := strings.Cut(out, " ")
	if code != 0 || !strings.Contains(out, "post (http://") || !strings.Contains(out, "since ") {
		t.Fatalf("logins list: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("logins", "forget", id); code != 0 || !strings.Contains(out, "have been revoked") {
		t.Fatalf("logins forget: exit %d\n%s%s", code, out, errs)
	}
	if a := s.ask("POST", "/v1/sessions/"+string(first)+"/turns", letter); a.status != 403 {
		t.Errorf("a letter without a login: %s", a)
	}
	// The link in the list is enough: no turn has to ask for the login. A new process asks for the list
	// at once, which the old one keeps for a while.
	s.kill()
	s = p.serve()
	if got = resources(); len(got.Failed) != 1 || got.Failed[0].Login == "" || got.Failed[0].Login == link {
		t.Fatalf("resources: %+v", got)
	}
	link = got.Failed[0].Login
	if got = resources(); got.Failed[0].Login != link {
		t.Error("each list begins another login")
	}
	listed := parley.Interaction{Kind: parley.KindQuestion, URL: link, Text: link}
	if done := must[parley.LoginFinished](s, "POST", "/v1/logins", s.visit(as, listed)); done.Continues {
		t.Errorf("no call waits, and it finished with %+v", done)
	}
	if got = resources(); len(got.Resources) != 1 || got.Failed != nil {
		t.Errorf("resources: %+v", got)
	}
	if code, out, errs := p.run("logins", "forget", id); code != 0 {
		t.Fatalf("logins forget: exit %d\n%s%s", code, out, errs)
	}

	turn := s.send(first, "again").ID
	in = s.interaction(s.waiting(turn).Interactions[0])
	s.kill()
	s = p.serve()
	must[parley.LoginFinished](s, "POST", "/v1/logins", s.visit(as, in))
	if end := s.settle(turn); end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "mailed with") {
		t.Errorf("%+v with %+v", end, end.Response)
	}
	if n := mailed(); n != 2 {
		t.Errorf("it was mailed %d times", n)
	}

	// A user who does not want to log in.
	p.run("logins", "forget", "--all")
	turn = s.send(second, "no").ID
	as.Lock()
	as.Deny = true
	as.Unlock()
	if done := must[parley.LoginFinished](s, "POST", "/v1/logins", s.visit(as, s.interaction(s.waiting(turn).Interactions[0]))); !done.Denied || !done.Continues {
		t.Errorf("finished %+v", done)
	}
	if end := s.settle(turn); end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "The user did not do what this call needs first") {
		t.Errorf("%+v with %+v", end, end.Response)
	}
	for _, id := range []parley.SessionID{first, second} {
		if log := strings.Join(s.log(id), "\n"); strings.Contains(log, "access-of-ana") || strings.Contains(log, "refresh-of-ana") {
			t.Errorf("a token is in the log:\n%s", log)
		}
	}
	if n := mailed(); n != 2 {
		t.Errorf("it was mailed %d times", n)
	}
}
