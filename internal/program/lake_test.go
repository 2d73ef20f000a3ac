package program_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// withBatou gives the program an app with the tools for a lake, and a user's lake.
func (p *place) withBatou() (dir string) {
	p.t.Helper()
	app, users := filepath.Join(p.dir, "apps", "batou"), filepath.Join(p.dir, "users")
	p.write(filepath.Join(app, "clerk.md"), "Keep the lake.")
	p.write(filepath.Join(app, "app.yaml"), `title: Batou
script: script.yaml
agents:
  clerk: {prompt: clerk.md, tools: [lake_search, lake_read, lake_create, lake_update, Read]}
tools: {lake: {}, workspace: {}}
workspaces: {root: `+users+`, default: main}
policy: {rules: [{verdict: allow, effect: read}], modes: [acceptEdits, plan]}
mode: acceptEdits
`)
	p.write(filepath.Join(app, "script.yaml"), "agents: {clerk: [{say: hello}]}\n")
	dir = filepath.Join(users, "local", "company")
	p.write(filepath.Join(dir, "docs", "pricing.md"), "# Pricing\n\nOne price.\n")
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=batou")
	return dir
}

// batou connects an MCP client from outside to the lake in a folder, over stdio.
func (p *place) batou(dir string) *mcp.ClientSession {
	p.t.Helper()
	cmd := p.command("mcp", "--app", "batou", "--tools", "lake")
	cmd.Env = append(slices.Clip(p.env), "WORKSPACE_PATH="+dir)
	return connected(p.t, &mcp.CommandTransport{Command: cmd})
}

func connected(t *testing.T, by mcp.Transport) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(), by, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func callTool(t *testing.T, c *mcp.ClientSession, tool string, in map[string]any) string {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return "error: " + text
	}
	return text
}

// TestBatou: the tools for a lake are an MCP server, over stdio with and without a server that has the data folder, and over HTTP.
func TestBatou(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := p.withBatou()
	alone := p.batou(dir)
	list, err := alone.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Name == "lake_read" && !tool.Annotations.ReadOnlyHint || tool.Name == "lake_create" && tool.Annotations.ReadOnlyHint {
			t.Errorf("%s: %+v", tool.Name, tool.Annotations)
		}
	}
	slices.Sort(names)
	if want := []string{"lake_create", "lake_read", "lake_search", "lake_update"}; !slices.Equal(names, want) {
		t.Fatalf("the host sees %v, want %v", names, want)
	}
	if got := callTool(t, alone, "lake_search", map[string]any{"query": "price"}); !strings.Contains(got, "docs/pricing.md") {
		t.Errorf("without a server: %s", got)
	}
	if _, err := alone.CallTool(t.Context(), &mcp.CallToolParams{Name: "Read", Arguments: map[string]any{"file_path": "docs/pricing.md"}}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("a tool that the host does not see: %v", err)
	}
	if got := callTool(t, alone, "lake_create", map[string]any{"path": "lake/ana.md", "content": "# Ana\n", "reason": "Ana has joined"}); !strings.Contains(got, "lake/ana.md was created") {
		t.Errorf("without a server: %s", got)
	}
	if err := alone.Close(); err != nil {
		t.Errorf("the command ended with %v", err)
	}
	s := p.serve()
	with := p.batou(dir)
	if got := callTool(t, with, "lake_update", map[string]any{"path": "lake/ana.md", "old_string": "# Ana", "new_string": "# Ana B.", "reason": "Her whole name"}); !strings.Contains(got, "lake/ana.md was changed") {
		t.Errorf("with a server: %s", got)
	}
	web := connected(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/apps/batou/mcp", MaxRetries: -1, HTTPClient: lakeHeaders("Parley-Tools", "lake", "Parley-Workspace", "company")})
	if got := callTool(t, web, "lake_read", map[string]any{"path": "lake/ana"}); !strings.Contains(got, "# Ana B.") {
		t.Errorf("over HTTP: %s", got)
	}
	for path, want := range map[string]string{"company": `"workspace_path":"company"`, dir: `"workspace_path":"company"`, filepath.Dir(dir): `"field":"workspace_path"`} {
		if a := s.ask("POST", "/v1/conversations", `{"app":"batou","workspace_path":"`+path+`"}`); !strings.Contains(string(a.body), want) {
			t.Errorf("a conversation in %s: %s", path, a)
		}
	}
	// The default workspace is another lake.
	plain := connected(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/apps/batou/mcp", MaxRetries: -1})
	if got := callTool(t, plain, "lake_read", map[string]any{"path": "lake/ana"}); !strings.Contains(got, "there is no entity") {
		t.Errorf("in the default workspace: %s", got)
	}
	other := p.batou(t.TempDir())
	if got := callTool(t, other, "lake_search", map[string]any{"query": "price"}); !strings.Contains(got, "you have no workspace in the folder") || !strings.Contains(got, "company") {
		t.Errorf("a folder that is no workspace: %s", got)
	}
	cmd := exec.Command("git", "log", "--reverse", "--format=%an: %s")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if want := "Somebody: Begin with the files as found\nlocal: Ana has joined\nlocal: Her whole name\n"; err != nil || string(out) != want {
		t.Errorf("the log is %q (%v), want %q", out, err, want)
	}
	if err := exec.Command("git", "-C", dir, "config", "receive.denyCurrentBranch", "updateInstead").Run(); err != nil {
		t.Fatal(err)
	}
	if got := callTool(t, with, "lake_create", map[string]any{"path": "lake/bo.md", "content": "# Bo\n", "reason": "Bo has joined"}); !strings.Contains(got, "receive.denyCurrentBranch is updateInstead") {
		t.Errorf("while others may push into the folder: %s", got)
	}
	s.kill()
	if _, out, _ := p.run("doctor"); !strings.Contains(out, "the lake "+dir+" cannot be changed") || !strings.Contains(out, "git config --unset receive.denyCurrentBranch") {
		t.Errorf("doctor: %s", out)
	}
}

// lakeHeader adds headers to each request.
type lakeHeader []string

func lakeHeaders(h ...string) *http.Client { return &http.Client{Transport: lakeHeader(h)} }

func (h lakeHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i+1 < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	return http.DefaultTransport.RoundTrip(r)
}
