package claudecli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/sim/claudecli"
)

// A gate is a host that answers all that it is asked.
type gate struct {
	*host
	decide func(tool string) string         // of its PreToolUse hook; nil: "allow"
	permit func(request claudecli.Line) any // its answer to can_use_tool; nil: allow
	on     func(line claudecli.Line)        // sees each line
	lines  []claudecli.Line                 // what it read
	kinds  []string                         // the same, in short
}

func kind(l claudecli.Line) string {
	k := fmt.Sprint(l["type"])
	for _, at := range [][]string{{"subtype"}, {"request", "subtype"}, {"event", "type"}, {"state"}} {
		if s, ok := field(l, at...).(string); ok {
			k += " " + s
		}
	}
	if e, ok := field(l, "request", "input", "hook_event_name").(string); ok {
		k += " " + e
	}
	return k
}

func field(v any, path ...string) any {
	for _, name := range path {
		o, ok := v.(claudecli.Line)
		if !ok {
			return nil
		}
		v = o[name]
	}
	return v
}

func (g *gate) say(l claudecli.Line) {
	raw, err := json.Marshal(l)
	if err != nil {
		g.t.Fatal(err)
	}
	_, _ = g.in.Write(append(raw, '\n')) // whether it was read is seen by what follows
}

func (g *gate) initialize(events ...string) {
	hooks := claudecli.Line{}
	for _, e := range events {
		hooks[e] = []any{claudecli.Line{"matcher": nil, "hookCallbackIds": []any{"own_" + e}, "timeout": 60, "onFailure": "block"}}
	}
	g.say(claudecli.Line{"type": "control_request", "request_id": "init", "request": claudecli.Line{"subtype": "initialize", "hooks": hooks, "sdkMcpServers": []any{"parley"}}})
}

func (g *gate) send(text, uuid string) {
	g.say(claudecli.Line{"type": "user", "uuid": uuid, "message": claudecli.Line{"role": "user", "content": text}})
}

// until reads and answers until there is a line of a kind, or the end.
func (g *gate) until(want string) claudecli.Line {
	for {
		l, ok := g.read()
		if !ok {
			return nil
		}
		g.lines, g.kinds = append(g.lines, l), append(g.kinds, kind(l))
		if g.on != nil {
			g.on(l)
		}
		g.answer(l)
		if strings.HasPrefix(kind(l), want) {
			return l
		}
	}
}

func (g *gate) answer(l claudecli.Line) {
	request, _ := l["request"].(claudecli.Line)
	var payload any
	switch request["subtype"] {
	case "hook_callback":
		event := field(request, "input", "hook_event_name")
		payload = claudecli.Line{}
		if event == "PreToolUse" {
			d := "allow"
			if g.decide != nil {
				d = g.decide(fmt.Sprint(field(request, "input", "tool_name")))
			}
			payload = claudecli.Line{"hookSpecificOutput": claudecli.Line{"hookEventName": event, "permissionDecision": d, "permissionDecisionReason": "so the host says"}}
		}
	case "can_use_tool":
		payload = any(claudecli.Line{"behavior": "allow", "updatedInput": request["input"]})
		if g.permit != nil {
			payload = g.permit(request)
		}
	case "mcp_message":
		result := claudecli.Line{}
		switch field(request, "message", "method") {
		case "tools/list":
			result["tools"] = []any{claudecli.Line{"name": "add", "description": "adds", "inputSchema": claudecli.Line{"type": "object"}}}
		case "tools/call":
			result["content"] = []any{claudecli.Line{"type": "text", "text": "5"}}
		}
		payload = claudecli.Line{"mcp_response": claudecli.Line{"jsonrpc": "2.0", "id": field(request, "message", "id"), "result": result}}
	default:
		return
	}
	// the folders were those of the capture for reading
	raw, err := json.Marshal(claudecli.Line{"type": "control_response", "response": claudecli.Line{"subtype": "success", "request_id": l["request_id"], "response": payload}})
	if err != nil {
		g.t.Fatal(err)
	}
	_, _ = io.WriteString(g.in, strings.ReplaceAll(string(raw), "/workspace", g.dir)+"\n")
}

func (g *gate) end() ended {
	g.in.Close()
	for g.until("nothing") != nil { //nolint:revive // to the end
	}
	return <-g.over
}

var flags = []string{"--permission-prompt-tool", "stdio", "--permission-mode", "default"}

func server(t *testing.T) map[string]string {
	s := httptest.NewServer(claudecli.Messages())
	t.Cleanup(s.Close)
	return map[string]string{"ANTHROPIC_BASE_URL": s.URL}
}

func prompts(t *testing.T, name, dir string) []string {
	c, err := claudecli.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return c.Prompts(dir)
}

// A host that gates every call with a hook is asked by its hook, and not again.
func TestGatedHost(t *testing.T) {
	t.Parallel()
	g := &gate{host: run(t, claudecli.Play{Transcript: "03-permission-allow", Effects: true}, append(flags, "--include-partial-messages"), server(t))}
	g.initialize("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop")
	texts := prompts(t, "03-permission-allow", g.dir)
	g.send(texts[0], "u1")
	if r := g.until("result"); r == nil || r["result"] != "Done writing." || r["user_message_uuid"] != "u1" {
		t.Fatalf("got the result %v", r)
	}
	want := []string{
		"control_request mcp_message", "control_response", "command_lifecycle queued", "command_lifecycle started", "control_request mcp_message", "control_request mcp_message",
		"control_request hook_callback UserPromptSubmit", "system init",
		"stream_event message_start", "stream_event content_block_start", "stream_event content_block_delta", "stream_event content_block_delta", "assistant", "stream_event content_block_stop",
		"stream_event content_block_start", "stream_event content_block_delta", "stream_event content_block_delta", "assistant", "stream_event content_block_stop", "stream_event message_delta", "stream_event message_stop",
		"control_request hook_callback PreToolUse", "control_request hook_callback PostToolUse", "user",
		"stream_event message_start", "stream_event content_block_start", "stream_event content_block_delta", "stream_event content_block_delta", "assistant", "stream_event content_block_stop", "stream_event message_delta", "stream_event message_stop",
		"control_request hook_callback Stop", "result success",
	}
	if !slices.Equal(g.kinds, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(g.kinds, "\n"), strings.Join(want, "\n"))
	}
	g.send(texts[1], "u2")
	g.until("result")
	g.say(claudecli.Line{"type": "control_request", "request_id": "bye", "request": claudecli.Line{"subtype": "end_session"}})
	end := g.end()
	if end.code != 0 || len(end.notes["effects.log"]) != 2 || end.notes["host.log"] != nil {
		t.Errorf("it ended with %+v", end)
	}
	if got, err := os.ReadFile(filepath.Join(g.dir, "new.txt")); err != nil || string(got) != "made by the fake model\n" {
		t.Errorf("the file is %q, %v", got, err)
	}
}

// What the hook denies is not done, and the model is told so.
func TestDeniedByHook(t *testing.T) {
	t.Parallel()
	g := &gate{host: run(t, claudecli.Play{Transcript: "03-permission-allow", Effects: true}, flags, nil), decide: func(string) string { return "deny" }}
	g.initialize("PreToolUse")
	g.send("write", "")
	g.until("user")
	got := field(g.lines[len(g.lines)-1]["message"].(claudecli.Line)["content"].([]any)[0], "content")
	if got != "PreToolUse:Write hook error: so the host says" {
		t.Errorf("the result is %v", got)
	}
	g.until("result")
	if end := g.end(); end.notes["effects.log"] != nil {
		t.Errorf("it had effects: %v", end.notes)
	}
}

// Wherever the program is killed in a turn with a write, a resumed program knows what was said
// before, and the write has been made once at most by each process that began it.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	env := server(t)
	session := "abababab-abab-4bab-8bab-abababababab"
	message := claudecli.Prompt("Write.", claudecli.Step{Block: claudecli.Block{Tool: "Write", Input: json.RawMessage(`{"file_path":"w.txt","content":"x"}`)}}, claudecli.Step{Block: claudecli.Block{Text: "written"}})
	for at := 1; ; at++ {
		g := &gate{host: run(t, claudecli.Play{Transcript: "03-permission-allow", Live: true, Effects: true, At: at, Then: claudecli.Die}, append(slices.Clone(flags), "--session-id="+session), env)}
		g.initialize("PreToolUse")
		g.send(message, "u1")
		finished := g.until("result") != nil
		end := g.end()
		if finished && end.code == 0 {
			if at < 15 {
				t.Errorf("the whole turn has only %d steps", at)
			}
			return
		}
		if end.code != 137 && !finished || len(end.notes["effects.log"]) > 1 {
			t.Fatalf("at %d it ended with %+v", at, end)
		}
		how := "--resume="
		if _, err := os.Stat(filepath.Join(g.config, "projects")); err != nil {
			how = "--session-id="
		}
		r := &gate{host: g.again(claudecli.Play{Transcript: "03-permission-allow", Live: true}, append(slices.Clone(flags), how+session), env)}
		r.initialize()
		r.send(claudecli.Prompt("And?", claudecli.Step{Block: claudecli.Block{Text: "on"}}), "u2")
		if l := r.until("result"); l == nil || l["result"] != "on" || l["session_id"] != session {
			t.Fatalf("killed at %d, it goes on with %v: %+v", at, l, r.end())
		}
		if end := r.end(); end.code != 0 {
			t.Fatalf("killed at %d, it ends with %+v", at, end)
		}
	}
}

// Interrupted at any step of a turn, it says that the turn is over, once, and the next turn is as
// ever.
func TestInterruptedAtEveryStep(t *testing.T) {
	t.Parallel()
	env := server(t)
	for _, live := range []bool{false, true} {
		for at := 6; at < 22; at++ {
			g := &gate{host: run(t, claudecli.Play{Transcript: "03-permission-allow", Live: live, At: at, Then: claudecli.Pause}, append(slices.Clone(flags), "--include-partial-messages"), env)}
			g.initialize("PreToolUse")
			texts := prompts(t, "03-permission-allow", g.dir)
			g.send(texts[0], "u1")
			go func() {
				<-g.paused
				_, _ = io.WriteString(g.in, `{"type":"control_request","request_id":"stop","request":{"subtype":"interrupt"}}`+"\n")
			}()
			r := g.until("result")
			if r == nil {
				t.Fatalf("live %v, at %d: no result: %+v, %v", live, at, g.end(), g.kinds)
			}
			g.send(texts[1], "u2")
			if r := g.until("result"); r == nil || r["result"] != "Done." {
				t.Fatalf("live %v, at %d: the next turn: %v", live, at, r)
			}
			if end := g.end(); end.code != 0 || end.notes["host.log"] != nil {
				t.Fatalf("live %v, at %d: %+v", live, at, end)
			}
		}
	}
}

// A live turn does what the model says, in lines that have the fields of the captured ones.
func TestLive(t *testing.T) {
	t.Parallel()
	block := func(tool, input string) claudecli.Step {
		return claudecli.Step{Block: claudecli.Block{Tool: tool, Input: json.RawMessage(input)}}
	}
	say := func(text string) claudecli.Step { return claudecli.Step{Block: claudecli.Block{Text: text}} }
	env := server(t)
	env["CLAUDE_CODE_MAX_RETRIES"] = "1"
	g := &gate{host: run(t, claudecli.Play{Transcript: "03-permission-allow", Live: true, Effects: true}, append(slices.Clone(flags), "--include-partial-messages", "--model=claude-test"), env)}
	g.permit = func(request claudecli.Line) any {
		in := request["input"].(claudecli.Line)
		if request["tool_name"] == "AskUserQuestion" {
			in = claudecli.Line{"questions": in["questions"], "answers": claudecli.Line{"Which?": "Left"}}
		}
		return claudecli.Line{"behavior": "allow", "updatedInput": in}
	}
	g.initialize("PostToolUse", "Stop")
	turns := []struct {
		steps []claudecli.Step
		want  string // the result
		told  string // the last result of a tool
	}{
		{[]claudecli.Step{say("hello")}, "hello", ""},
		{[]claudecli.Step{block("Write", `{"file_path":"a.txt","content":"1"}`), block("Read", `{"file_path":"a.txt"}`), say("it is 1")}, "it is 1", "1"},
		{[]claudecli.Step{block("Bash", `{"command":"cat a.txt; echo 2 >> a.txt"}`), say("done")}, "done", "1"},
		{[]claudecli.Step{block("AskUserQuestion", `{"questions":[{"question":"Which?","header":"Way","multiSelect":false,"options":[]}]}`), say("left")}, "left", `Your questions have been answered: "Which?"="Left". You can now continue with these answers in mind.`},
		{[]claudecli.Step{block("mcp__parley__add", `{"a":2}`), say("five")}, "five", "[map[text:5 type:text]]"},
		{[]claudecli.Step{{Blocks: []claudecli.Block{{Thinking: "well"}, {Text: "so"}}}}, "so", ""},
		{[]claudecli.Step{{Status: 529, ErrorType: "overloaded_error"}}, "API Error: 529", ""},
	}
	for i, turn := range turns {
		g.send(claudecli.Prompt(fmt.Sprint("turn ", i), turn.steps...), fmt.Sprint("u", i))
		told := ""
		g.on = func(l claudecli.Line) {
			if l["type"] == "user" {
				told = fmt.Sprint(field(l["message"].(claudecli.Line)["content"].([]any)[0], "content"))
			}
		}
		r := g.until("result")
		if got := fmt.Sprint(r["result"]); !strings.HasPrefix(got, turn.want) || told != turn.told {
			t.Fatalf("turn %d: got %q, told %q, want %q and %q: %v", i, got, told, turn.want, turn.told, g.kinds)
		}
	}
	if end := g.end(); end.code != 1 || len(end.notes["effects.log"]) != 2 || end.notes["host.log"] != nil { // the last result was an error
		t.Errorf("it ended with %+v", end)
	}
	known := map[string]map[string]bool{}
	for _, c := range claudecli.Transcripts() {
		c, err := claudecli.Load(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Entries {
			if !e.In {
				k := kind(e.Line)
				if known[k] == nil {
					known[k] = map[string]bool{}
				}
				for name := range e.Line {
					known[k][name] = true
				}
			}
		}
	}
	for i, l := range g.lines {
		for name := range l {
			if !known[g.kinds[i]][name] {
				t.Errorf("no captured %q has the field %q", g.kinds[i], name)
			}
		}
	}
}

// What a host must not write ends the program, and is noted.
func TestHostsMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`nonsense`: "",
		`{"type":"user","message":{"role":"assistant","content":"x"}}`:                                          "expected message role",
		`{"type":"user","message":{"role":"user"}}`:                                                             `no "content"`,
		`{"type":"user","message":{"role":"user","content":"x"},"who":"me"}`:                                    `"who"`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"interupt"}}`:                          `no request "interupt"`,
		`{"type":"control_request","request":{"subtype":"interrupt"}}`:                                          `"request_id"`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"set_permission_mode","mode":"yolo"}}`: `permission mode "yolo"`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"initialize","hook":{}}}`:              `"hook"`,
		`{"type":"control_response","response":{"subtype":"success","request_id":"never asked","response":{}}}`: "never made",
	} {
		h := run(t, claudecli.Play{Transcript: "03-permission-allow"}, flags, nil)
		_, _ = io.WriteString(h.in, line+"\n")
		end := <-h.over
		if end.code == 0 || !strings.Contains(end.stderr+strings.Join(end.notes["host.log"], ""), want) {
			t.Errorf("%s: %+v", line, end)
		}
	}
}

// Installed, it is a program, which is really killed.
func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, err := claudecli.Install(dir, claudecli.Play{Transcript: "03-permission-allow", At: 2, Then: claudecli.Die}, claudecli.Play{Transcript: "03-permission-allow"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "--version").Output(); err != nil || string(out) != "2.1.329 (Claude Code)\n" {
		t.Fatalf("its version is %q, %v", out, err)
	}
	for _, want := range []string{"signal: killed", "<nil>"} {
		c := exec.Command(path, append([]string{"--output-format=stream-json", "--input-format=stream-json", "--verbose"}, flags...)...)
		c.Dir, c.Env = dir, []string{"HOME=" + dir}
		c.Stdin = strings.NewReader(`{"type":"control_request","request_id":"a","request":{"subtype":"initialize","hooks":null}}` + "\n")
		out, err := c.Output()
		if fmt.Sprint(err) != want || !strings.Contains(string(out), "claude_code_version") {
			t.Errorf("it ended with %v and said %s", err, out)
		}
	}
}
