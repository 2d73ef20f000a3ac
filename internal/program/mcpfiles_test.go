//go:build unix

package program_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// mcpEntry is the press as a server in a .mcp.json.
func mcpEntry(name, printed, mode string) string {
	return `{"mcpServers": {"` + name + `": {"command": "` + os.Args[0] + `", "env": {"` + mcpPress + `": "1", "PRINTED": "` + printed + `", "MODE": "` + mode + `"}}}}`
}

// TestMCP_of_files: files of the platform, the user and the workspace add servers to a session.
// Those of users and workspaces run only where the operator allows it and a person has approved
// exactly that server. The approval covers no other name, scope or file. The tools of such servers
// are writes and have names of their own.
func TestMCP_of_files(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	app := filepath.Join(p.dir, "apps", "desk")
	users, platform := filepath.Join(p.dir, "users"), filepath.Join(p.dir, "platform")
	printed := func(name string) string { return filepath.Join(p.dir, "printed-"+name) }
	started := func(name string) bool { _, err := os.Stat(printed(name) + ".starts"); return err == nil }
	yaml := func(more string) {
		p.write(filepath.Join(app, "app.yaml"), "model: scripted/desk\nscript: script.yaml\nworkspaces: {default: main}\nagents:\n  one: {prompt: one.md, tools: [\"mcp__*\"]}\n"+
			"policy: {rules: [{verdict: allow, tool: \"mcp__press__*\"}, {verdict: allow, tool: \"mcp__corp__*\"}]}\n"+more)
	}
	script := func(tool string) {
		p.write(filepath.Join(app, "script.yaml"), "agents:\n  one:\n    - when: .Results\n      say: \"{{ range .Results }}{{ .Output }}{{ end }}\"\n    - call:\n        - tool: "+tool+"\n          input: {text: x}\n")
	}
	p.write(filepath.Join(app, "one.md"), "Help.")
	script("mcp__corp__mail")
	yaml("")
	p.write(filepath.Join(platform, ".mcp.json"), mcpEntry("corp", printed("corp"), "corp"))
	at := func(workspace string) string { return filepath.Join(users, "local", workspace, ".mcp.json") }
	p.write(at("vault"), mcpEntry("press", printed("vault"), "${WORKSPACE_PATH}"))
	p.write(at("other"), mcpEntry("press", printed("other"), "other"))
	p.write(at("thief"), mcpEntry("press", printed("thief"), "${ANTHROPIC_API_KEY}"))
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=desk", "PARLEY_WORKSPACES_DIR="+users, "PARLEY_PLATFORM_DIR="+platform, "ANTHROPIC_API_KEY=sk-not-for-them")
	var s *process
	in := func(w string) parley.SessionID {
		return must[parley.SessionInfo](s, "POST", "/v1/sessions", object("app", "desk", "workspace", w)).ID
	}
	says := func(id parley.SessionID) string {
		t.Helper()
		turn := s.settle(s.send(id, "go").ID)
		raw, err := json.Marshal(turn)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	approval := func(id parley.SessionID) parley.Approval {
		t.Helper()
		list := must[struct{ Approvals []parley.Approval }](s, "GET", "/v1/sessions/"+string(id)+"/approvals", "").Approvals
		if len(list) != 1 {
			t.Fatalf("%d approvals", len(list))
		}
		return list[0]
	}
	decide := func(id parley.SessionID, state string) {
		t.Helper()
		if a := s.ask("POST", "/v1/sessions/"+string(id)+"/approvals/"+string(approval(id).Digest), object("state", state)); a.status != 200 {
			t.Fatal(a)
		}
	}

	s = p.serve()
	vault := in("vault")
	if got := says(vault); !strings.Contains(got, "in corp for") {
		t.Errorf("the platform's server: %s", got)
	}
	if a := approval(vault); a.State != parley.ApprovalOff || a.Level != "workspace" || a.Name != "press" || a.Kind != parley.ApprovalMCP {
		t.Errorf("where the operator allows nothing: %+v", a)
	}
	s.kill()

	yaml("workspace_exec: true\n")
	tool := func(a parley.Approval) string { return "mcp__press-w" + string(a.Digest)[:6] + "__mail" }
	s = p.serve()
	a := approval(vault)
	s.kill()
	script(tool(a))
	s = p.serve()
	if got := says(vault); a.State != parley.ApprovalOpen || !strings.Contains(got, "is not available in this turn") || started("vault") {
		t.Errorf("before the approval, started %v: %s, %+v", started("vault"), got, a)
	}
	decide(vault, "allowed")
	turn := s.waiting(s.send(vault, "go").ID) // the rule for mcp__press__ does not cover it
	if asked := s.interaction(turn.Interactions[0]); asked.Kind != parley.KindPermission || asked.Tool != tool(a) {
		t.Errorf("asked %+v", asked)
	}
	if a := s.ask("POST", "/v1/interactions/"+string(turn.Interactions[0])+"/answer", object("choice", "allow")); a.status != 200 {
		t.Fatal(a)
	}
	if end := s.settle(turn.ID); !strings.Contains(end.Response.Message, "in "+filepath.Join(users, "local", "vault")+" for") {
		t.Errorf("after the approval: %+v", end.Response)
	}
	for _, w := range []string{"other", "thief"} {
		if got := says(in(w)); !strings.Contains(got, "is not available in this turn") || started(w) {
			t.Errorf("the server of %s: %s, started %v", w, got, started(w))
		}
	}
	thief := in("thief")
	refused := s.ask("POST", "/v1/sessions/"+string(thief)+"/approvals/"+string(approval(thief).Digest), object("state", "allowed"))
	if refused.status != 403 || !strings.Contains(string(refused.body), "${ANTHROPIC_API_KEY} is not a variable") {
		t.Errorf("the approval of what cannot run: %v", refused)
	}
	if a := approval(thief); a.Problem != "${ANTHROPIC_API_KEY} is not a variable that files of users and workspaces may use; the operator can list it under workspace_env in app.yaml" {
		t.Errorf("nobody is told why it cannot run: %+v", a)
	}
	if says(thief); started("thief") {
		t.Error("a file got a variable that nobody listed")
	}
	for address, want := range map[string]string{"http://169.254.169.254/latest": "169.254.169.254 is not a host", "http://localhost:1/mcp": "localhost is not a host", "http://${HOST}/mcp": "${HOST} is not a variable"} {
		p.write(at("thief"), `{"mcpServers": {"press": {"type": "http", "url": "`+address+`"}}}`)
		if a := approval(in("thief")); !strings.Contains(a.Problem, want) {
			t.Errorf("%s: %+v, want %q", address, a, want)
		}
	}

	// Another program under the same name needs another approval.
	p.write(at("vault"), mcpEntry("press", printed("vault2"), "changed"))
	again := in("vault")
	if now := approval(again); now.State != parley.ApprovalOpen || now.Digest == a.Digest {
		t.Errorf("a changed file: %+v", now)
	}
	if got := says(again); !strings.Contains(got, "is not available in this turn") && !strings.Contains(got, "not there any more") || started("vault2") {
		t.Errorf("a changed file: %s", got)
	}
}

// TestMCP_of_two_users: two users have the same file. A server that one of them approves runs for
// that user only, in that user's workspace.
func TestMCP_of_two_users(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_AUTH_MODE=keys", "PARLEY_API_KEYS=x@ana=a-key-of-ana-from-outside,y@bob=a-key-of-bob-from-outside")
	app, users := filepath.Join(p.dir, "apps", "desk"), filepath.Join(p.dir, "users")
	p.write(filepath.Join(app, "app.yaml"), "model: scripted/desk\nscript: script.yaml\nworkspaces: {default: main}\nworkspace_exec: true\nagents:\n  one: {prompt: one.md, tools: [\"mcp__*\"]}\n")
	p.write(filepath.Join(app, "one.md"), "Help.")
	p.write(filepath.Join(app, "script.yaml"), "agents:\n  one:\n    - say: x\n")
	for _, user := range []string{"ana", "bob"} {
		for _, file := range []string{user, user + "/main"} {
			p.write(filepath.Join(users, file, ".mcp.json"), mcpEntry("same", "${WORKSPACE_PATH}/printed", "x"))
		}
	}
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=desk", "PARLEY_WORKSPACES_DIR="+users)
	s := p.serve()
	type approvals struct{ Approvals []parley.Approval }
	get := func(user, method, path, body string, into any) {
		t.Helper()
		a := s.ask(method, path, body, "Authorization", "Bearer a-key-of-"+user+"-from-outside")
		if a.status/100 != 2 {
			t.Fatal(a)
		}
		if err := json.Unmarshal(a.body, into); err != nil {
			t.Fatal(err)
		}
	}
	sessions := map[string]string{}
	lists := map[string]approvals{}
	look := func() {
		t.Helper()
		for _, user := range []string{"ana", "bob"} {
			if sessions[user] == "" {
				var made parley.SessionInfo
				get(user, "POST", "/v1/sessions", object("app", "desk"), &made)
				sessions[user] = "/v1/sessions/" + string(made.ID)
			}
			var list approvals
			get(user, "GET", sessions[user]+"/approvals", "", &list)
			if len(list.Approvals) != 2 {
				t.Fatalf("%s has %+v", user, list)
			}
			lists[user] = list
		}
	}
	look()
	first := lists["ana"].Approvals[1]
	if first.Digest != lists["bob"].Approvals[1].Digest || first.Level != "workspace" {
		t.Fatalf("they have not the same: %+v and %+v", lists["ana"], lists["bob"])
	}
	var done parley.Approval
	get("ana", "POST", sessions["ana"]+"/approvals/"+string(first.Digest), object("state", "allowed"), &done)
	look()
	var any struct{}
	for _, user := range []string{"ana", "bob"} {
		get(user, "GET", sessions[user]+"/commands", "", &any)
		_, err := os.Stat(filepath.Join(users, user, "main", "printed.starts"))
		states := string(lists[user].Approvals[0].State) + " " + string(lists[user].Approvals[1].State)
		if want := map[string]string{"ana": "open allowed", "bob": "open open"}[user]; states != want || (err == nil) != (user == "ana") {
			t.Errorf("%s: %s, started %v", user, states, err == nil)
		}
	}
	// The same holds for resources: a mention of a server that is not approved is just text.
	for user, n := range map[string]int{"ana": 1, "bob": 0} {
		var list parley.ResourceList
		get(user, "GET", sessions[user]+"/resources", "", &list)
		var turn parley.TurnInfo
		get(user, "POST", sessions[user]+"/turns", object("message", "read @same:press://sheet"), &turn)
		var log struct{ Events []parley.Event }
		get(user, "GET", sessions[user]+"/events", "", &log)
		said := ""
		for _, ev := range log.Events {
			if ev.Type == "turn.started" {
				said += string(ev.Data)
			}
		}
		if len(list.Resources) != n || strings.Count(said, "the sheet of "+filepath.Join(users, user, "main")) != n || strings.Count(said, "the sheet of") != n {
			t.Errorf("%s: %+v and %s", user, list, said)
		}
	}
}
