package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-server/parley/internal/sim/nodetest"
)

// TestBatou_and_the_official_client: the official TypeScript client of MCP works in the lake of the app major: over stdio with and
// without a server that has the data folder, and over HTTP with a key. A person is asked before a change, by a form.
func TestBatou_and_the_official_client(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_AUTH_MODE=keys", "PARLEY_ENABLED=major", "PARLEY_MODEL=scripted/major")
	users := filepath.Join(p.dir, "users")
	dir := filepath.Join(users, "local", "company")
	p.write(filepath.Join(p.dir, "parley.yaml"), "workspaces_dir: "+users+"\n")
	p.write(filepath.Join(dir, "docs", "pricing.md"), "# Pricing\n\nOne price.\n")
	type m = map[string]any
	js := nodetest.Start(t)
	stdio := func(name, folder, choice string) {
		t.Helper()
		env := m{"WORKSPACE_PATH": folder}
		for _, kv := range append(p.env, "PATH="+os.Getenv("PATH")) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		js.Want("open", m{"name": name, "command": os.Args[0], "args": []string{"mcp", "--app", "major", "--tools", "lake", "--data", p.data}, "env": env, "cwd": p.dir, "choice": choice},
			m{"server": "parley-major", "tools": true})
	}
	call := func(name, tool string, input m, failed bool, says ...string) {
		t.Helper()
		got := js.Must("call", m{"name": name, "tool": tool, "input": input}).(m)
		for _, s := range says {
			if text := got["text"].(string); got["failed"] != failed || !strings.Contains(text, s) || failed != strings.HasPrefix(text, `{"error":{"code":"`) {
				t.Errorf("%s: %s %v: %v, without %q", name, tool, input, got, s)
			}
		}
	}
	asked := func(name string, says ...string) {
		t.Helper()
		forms := js.Must("forms", m{"name": name}).([]any)
		if len(forms) != len(says) {
			t.Fatalf("%s: a person was asked %q", name, forms)
		}
		for i, s := range says {
			if !strings.Contains(forms[i].(string), s) {
				t.Errorf("%s: a person was asked %q, without %q", name, forms[i], s)
			}
		}
	}

	stdio("alone", dir, "allow")
	var tools []any
	for name, reads := range map[string]bool{
		"backlinks": true, "create": false, "delete": false, "diff": true, "history": true, "link": false, "list": true, "move": false, "read": true, "search": true, "update": false, "validate": true,
	} {
		tools = append(tools, m{"name": "lake_" + name, "reads": reads, "described": true, "input": "object"})
	}
	byName := func(a, b any) bool { return a.(m)["name"].(string) < b.(m)["name"].(string) }
	if diff := cmp.Diff(tools, js.Must("tools", m{"name": "alone"}), cmpopts.SortSlices(byName)); diff != "" {
		t.Errorf("the tools (-want +got):\n%s", diff)
	}
	call("alone", "lake_search", m{"query": "price"}, false, "docs/pricing.md")
	asked("alone")
	call("alone", "lake_create", m{"path": "lake/ana.md", "content": "# Ana\n", "reason": "Ana has joined"}, false, "lake/ana.md was created")
	asked("alone", "Create lake/ana.md?")
	js.Want("close", m{"name": "alone"}, true)

	s := p.serve()
	key := func(name, user string) string {
		code, out, errs := p.run("keys", "create", name, "--user", user)
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, errs)
		}
		return strings.TrimSpace(out)
	}
	web := func(name, key, folder, choice string) m {
		return m{"name": name, "url": s.url + "/apps/major/mcp", "choice": choice, "headers": m{"Authorization": "Bearer " + key, "Parley-Tools": "lake", "Parley-Workspace-Path": folder}}
	}
	js.Refused("open", web("stranger", "pk_none", dir, ""), m{"code": 401.0})
	js.Want("open", web("web", key("laptop", "local"), dir, "allow"), m{"server": "parley-major", "tools": true})
	stdio("host", dir, "deny")
	call("web", "lake_read", m{"path": "lake/ana"}, false, "# Ana")
	call("host", "lake_update", m{"path": "lake/ana.md", "old_string": "# Ana", "new_string": "# Eve", "reason": "It is Eve"}, true, "did not allow this call")
	asked("host", "Change lake/ana.md?")
	call("web", "lake_update", m{"path": "lake/ana.md", "old_string": "# Ana", "new_string": "# Ana B.", "reason": "Her whole name"}, false, "lake/ana.md was changed")
	call("host", "lake_history", m{"path": "lake/ana.md"}, false, "Her whole name", "Ana has joined")
	call("host", "lake_read", m{"path": "docs/none"}, true, "there is no entity", `"field":"path"`)
	call("host", "lake_read", m{"pth": "docs/none"}, true, "/pth: is not a known property")
	js.Refused("call", m{"name": "web", "tool": "Read", "input": m{"file_path": "docs/pricing.md"}}, m{"code": -32602.0})
	// Nobody reaches another's lake by its folder, and a client that cannot ask is told who can.
	js.Want("open", web("ana", key("phone", "ana"), dir, ""), m{"server": "parley-major", "tools": true})
	call("ana", "lake_read", m{"path": "lake/ana"}, true, "you have no workspace in the folder")
	js.Want("open", web("mute", key("desk", "local"), dir, ""), m{"server": "parley-major", "tools": true})
	call("mute", "lake_delete", m{"path": "lake/ana.md", "reason": "She has left"}, true, "waits for a human")
	for _, name := range []string{"web", "host", "ana", "mute"} {
		js.Want("close", m{"name": name}, true)
	}
	if body, err := os.ReadFile(filepath.Join(dir, "lake", "ana.md")); err != nil || string(body) != "# Ana B.\n" {
		t.Errorf("the page is %q, %v", body, err)
	}
}
