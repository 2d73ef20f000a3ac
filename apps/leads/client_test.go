package leads_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestLeadsProcess_node_client: a client in another language, written from the specification of the
// wire alone, gets its frames in their order, and confirms a write.
func TestLeadsProcess_node_client(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is needed")
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, store(t), "testdata/hostile")
			token := o.token(mara)
			// Node 20 has its WebSocket behind this flag, and newer ones ignore it.
			cmd := exec.CommandContext(t.Context(), node, "--experimental-websocket", "testdata/client.mjs", "ws"+strings.TrimPrefix(o.url, "http")+"/ws/codex", token, "org_cargolane")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			ids := regexp.MustCompile(`\\?"(?:id|sessionId)\\?":\s*\\?"[0-9A-Z]{26}\\?"`)
			var got []string
			var sessions []string
			for line := range strings.Lines(string(out)) {
				line = strings.TrimSpace(line)
				var f struct{ Type, SessionID, Status, Text string }
				if err := json.Unmarshal([]byte(line), &f); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if f.Type == "session.id" {
					sessions = append(sessions, f.SessionID)
				}
				if f.Type == "agent.text" && f.Status == "streaming" {
					continue // how many there are depends on the time
				}
				line = ids.ReplaceAllString(line, "ID")
				if i := strings.Index(line, `"usage":{"input_tokens":`); i >= 0 {
					line = line[:i] + "USAGE"
				}
				got = append(got, line)
			}
			both := func(text string) []string {
				raw, _ := json.Marshal(text)
				said := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(raw))
				return []string{`{"type":"agent.text","text":` + said + `,"status":"done"}`, `{"type":"turn.completed","text":` + said + `,USAGE`}
			}
			text := func(i int) string {
				var f struct{ Text string }
				_ = json.Unmarshal([]byte(strings.Replace(got[i], ",USAGE", "}", 1)), &f)
				return f.Text
			}
			action := func(tool, status string) string {
				return `{"type":"agent.action","action":"tool_call","tool":"` + tool + `","status":"` + status + `"}`
			}
			begin := []string{`{"type":"session.id",ID}`, `{"type":"turn.started"}`}
			var want []string
			add := func(lists ...[]string) {
				for _, l := range lists {
					want = append(want, l...)
				}
			}
			if len(got) < 28 {
				t.Fatalf("got\n%s", strings.Join(got, "\n"))
			}
			add(begin, []string{action("GET /api/leads", "started"), action("GET /api/leads", "completed")}, both(text(4)))
			add(begin, []string{
				`{"type":"agent.text","text":"{\"type\":\"confirm\",ID,\"title\":\"Create a project\",\"summary\":\"It is new.\",\"method\":\"POST\",\"path\":\"/api/projects\",\"body\":{\"name\":\"Nordic launch\"}}","status":"done"}`,
				`{"type":"turn.completed","text":"{\"type\":\"confirm\",ID,\"title\":\"Create a project\",\"summary\":\"It is new.\",\"method\":\"POST\",\"path\":\"/api/projects\",\"body\":{\"name\":\"Nordic launch\"}}",USAGE`,
			})
			add(begin, []string{action("POST /api/projects", "started"), action("POST /api/projects", "completed")}, both(text(14)))
			add(begin, []string{
				`{"type":"agent.text","text":"{\"type\":\"confirm\",ID,\"title\":\"Delete /api/leads/lead-1\",\"summary\":\"\",\"method\":\"DELETE\",\"path\":\"/api/leads/lead-1\",\"body\":null}","status":"done"}`,
				`{"type":"turn.completed","text":"{\"type\":\"confirm\",ID,\"title\":\"Delete /api/leads/lead-1\",\"summary\":\"\",\"method\":\"DELETE\",\"path\":\"/api/leads/lead-1\",\"body\":null}",USAGE`,
			})
			add(begin, both(text(22)), begin, both("Again."))
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
			if !strings.Contains(text(14), "Nordic launch") || !strings.Contains(text(22), "Rather not") {
				t.Errorf("got %s and %s", text(14), text(22))
			}
			if len(sessions) != 6 || sessions[0] != sessions[4] || sessions[5] == sessions[4] {
				t.Errorf("the sessions are %v", sessions)
			}
			if list := o.crm.Writes(); len(list) != 1 || list[0].Org != "org_cargolane" || list[0].User != "user_mara" || list[0].Body != `{"name":"Nordic launch"}` {
				t.Errorf("got %+v", list)
			}
		})
	}
}
