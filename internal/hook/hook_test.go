//go:build unix

package hook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/hook"
)

// TestParse: what a file says, and every mistake with its line. A mistake about PreToolUse
// leaves a hook that always fails.
func TestParse(t *testing.T) {
	t.Parallel()
	f := hook.Parse([]byte(`{
  "permissions": {"allow": []},
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh --strict", "timeout": 30}]},
      {"hooks": [{"type": "http", "url": "https://hooks.example.com/pre", "headers": {"Authorization": "Bearer ${T}"}, "allowedEnvVars": ["T"]}]}
    ],
    "PostToolUse": [{"matcher": "mcp__.*", "hooks": [{"type": "command", "command": "node", "args": ["log.js"]}]}]
  }
}`))
	if len(f.Mistakes) > 0 || f.Off {
		t.Fatal(f.Mistakes)
	}
	var got []string
	for _, e := range f.Entries {
		got = append(got, fmt.Sprintf("%d %s %s %s", e.Line, e.Event, e.Name, e.Timeout))
	}
	if want := "[5 PreToolUse guard.sh 30s 6 PreToolUse hooks.example.com 1m0s 8 PostToolUse log.js 1m0s]"; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
	hooks := make([]hook.Hook, len(f.Entries))
	for i, e := range f.Entries {
		hooks[i] = hook.Hook{Entry: e, Level: "app"}
	}
	for subject, want := range map[string]int{"Bash": 2, "Edit": 2, "Bashful": 1, "look": 1} {
		if n := len(hook.Matching(hooks, hook.PreToolUse, subject)); n != want {
			t.Errorf("%s: %d hooks, want %d", subject, n, want)
		}
	}
	for subject, want := range map[string]int{"mcp__x__y": 1, "look": 0} {
		if n := len(hook.Matching(hooks, hook.PostToolUse, subject)); n != want {
			t.Errorf("after %s: %d hooks, want %d", subject, n, want)
		}
	}
	if n := len(hook.Matching(append(hooks, hooks...), hook.PreToolUse, "Bash")); n != 2 {
		t.Errorf("the same hook counts twice: %d", n)
	}

	for text, want := range map[string]string{
		"{\n\"hooks\": ":              "line 2: the file cannot be read: unexpected end of JSON input",
		"[]":                          "line 1: the file cannot be read",
		`{"hooks":{"PreToolUse":{}}}`: "line 1: hooks.PreToolUse is not a list",
		"{\"hooks\":{\"PreToolUse\":[\n{\"matcher\":\"(\",\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}]}]}}": "line 2: hooks.PreToolUse[0].matcher: error parsing regexp",
		`{"hooks":{"PreToolUse":[{"matcher":"x"}]}}`:                                                                "hooks.PreToolUse[0] has no hooks",
		"{\"hooks\":{\"PreToolUse\":[{\"hooks\":[\n{\"type\":\"prompt\",\"prompt\":\"x\"}]}]}}":                     `line 2: hooks.PreToolUse[0].hooks[0]: hooks of type "prompt" are not supported`,
		`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command"}]}]}}`:                                                 "it names no command",
		`{"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"ftp://x"}]}]}}`:                                    "its url is not valid",
		`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x","if":"Bash(rm *)"}]}]}}`:                 "if is not supported",
		`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x","timeout":"5"}]}]}}`:                     "cannot unmarshal string",
	} {
		f := hook.Parse([]byte(text))
		if len(f.Mistakes) != 1 || !strings.Contains(f.Mistakes[0].Error(), want) {
			t.Errorf("%s: got %v, want %s", text, f.Mistakes, want)
		}
		if len(f.Entries) != 1 || f.Entries[0].Wrong == nil {
			t.Errorf("%s: nothing fails for it: %+v", text, f.Entries)
			continue
		}
		res, err := hook.Run(t.Context(), hook.Matching([]hook.Hook{{Entry: f.Entries[0], Level: "app"}}, hook.PreToolUse, "any"), hook.Input{Event: hook.PreToolUse})
		if err != nil || len(res) != 1 || res[0].Decision != parley.Deny {
			t.Errorf("%s: got %+v, %v, want a denial", text, res, err)
		}
	}
	if f := hook.Parse([]byte(`{"hooks":{"PostCompact":[],"PreTolUse":[]}}`)); len(f.Entries) != 0 || len(f.Mistakes) != 2 || !f.Mistakes[0].Mild || f.Mistakes[1].Mild ||
		!strings.Contains(f.Mistakes[1].Error(), "there is no such event; the events are PreToolUse, ") {
		t.Errorf("unknown events: %+v", f)
	}
	for text, want := range map[string][]string{
		"{\"hooks\":{\"PreTolUse\":[{\"hooks\":[\n{\"type\":\"command\"},{\"type\":\"command\",\"command\":\"x\"}]}]}}":             {"line 1: hooks.PreTolUse: there is no such event", "line 2: hooks.PreTolUse[0].hooks[0]: it names no command"},
		"{\"hooks\":{\"PostToolUse\":[{\"matcher\":\"(\",\"hooks\":[\n{\"type\":\"command\"}]},\n{\"hooks\":[{\"type\":\"x\"}]}]}}": {"line 1: hooks.PostToolUse[0].matcher", "line 2: hooks.PostToolUse[0].hooks[0]: it names", "line 3: hooks.PostToolUse[1].hooks[0]: hooks of type"},
	} {
		f := hook.Parse([]byte(text))
		if len(f.Mistakes) != len(want) || len(f.Entries) != 0 {
			t.Errorf("%s: %d entries, %v", text, len(f.Entries), f.Mistakes)
			continue
		}
		for i, m := range f.Mistakes {
			if !strings.Contains(m.Error(), want[i]) {
				t.Errorf("%s: mistake %d is %v, want %s", text, i, m, want[i])
			}
		}
	}
	many := `{"hooks":{"PostToolUse":[{"hooks":[` + strings.Repeat(`{"type":"command","command":"x"},`, hook.MaxHooks) + `{"type":"command","command":"y"}]}]}}`
	if f := hook.Parse([]byte(many)); len(f.Entries) != hook.MaxHooks || len(f.Mistakes) != 1 {
		t.Errorf("%d hooks, %v", len(f.Entries), f.Mistakes)
	}
}

// TestCommandOnly: a command with a URL beside it runs as it was shown; the URL is not called.
func TestCommandOnly(t *testing.T) {
	f := hook.Parse([]byte(`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"true","url":"http://localhost/x"}]}]}}`))
	if len(f.Entries) != 1 || f.Entries[0].Runs != "true" || f.Entries[0].URL != "" {
		t.Errorf("got %+v", f.Entries)
	}
}

// TestNames: people tell hooks apart by the script that runs, not by the shell or an argument.
func TestNames(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"sh guard.sh": "guard.sh",
		"node audit.mjs --to https://audit.example.com": "audit.mjs",
		"node --require=./x tools/check.mjs":            "check.mjs",
		"curl -d @x https://example.com/in":             "curl",
		"/usr/local/bin/guard -v":                       "guard",
		"jq .":                                          "jq",
		"cat > /var/log/calls.json; exit 0":             "cat",
		"(cd /srv && ./guard.py) 2>>/tmp/err":           "guard.py",
		"/opt/guard rules.py":                           "guard",
		"[ -t 0 ] || ./guard.py;":                       "guard.py",
	} {
		settings, _ := json.Marshal(map[string]any{"hooks": map[string]any{"Stop": []any{map[string]any{"hooks": []any{map[string]any{"type": "command", "command": command}}}}}})
		f := hook.Parse(settings)
		if len(f.Entries) != 1 || f.Entries[0].Name != want {
			t.Errorf("%s: %+v", command, f.Entries)
		}
	}
}

// ask runs one hook with a real program.
func ask(ctx context.Context, dir, command string, timeout time.Duration, more ...string) hook.Result {
	e := hook.Entry{Event: hook.PreToolUse, Name: "guard", Command: command, Args: more, Timeout: timeout}
	h := hook.Hook{Entry: e, Level: "app", Do: hook.Program{Dir: dir, Env: map[string]string{"CLAUDE_PROJECT_DIR": dir}}.Do(e)}
	res, err := hook.Run(ctx, []*hook.Hook{&h}, hook.Input{Event: hook.PreToolUse, Subject: "mail", Input: []byte(`{"to":"ana"}`), Fields: map[string]any{"tool_name": "mail"}})
	if err != nil {
		return hook.Result{Err: err}
	}
	return res[0]
}

// TestCommand: a real program gets the message, a clean environment, and its limits.
func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "guard.sh"), []byte("#!/bin/sh\ncat >&2\nexit 2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command string
		args    []string
		verdict parley.Verdict
		reason  string
	}{
		"the message":         {`cat >&2; exit 2`, nil, parley.Deny, `{"hook_event_name":"PreToolUse","tool_input":{"to":"ana"},"tool_name":"mail"}`},
		"a script of its own": {`"$CLAUDE_PROJECT_DIR"/guard.sh`, nil, parley.Deny, `"to":"ana"`},
		"without a shell":     {"./guard.sh", []string{"; exit 0"}, parley.Deny, `"to":"ana"`},
		"its environment":     {`env | cut -d= -f1 | sort | tr '\n' ' ' >&2; exit 2`, nil, parley.Deny, "CLAUDE_PROJECT_DIR"},
		"allow":               {`echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'`, nil, parley.Allow, ""},
		"it reads nothing":    {"true", nil, "", ""},
		"no such program":     {"nothing-here", []string{"x"}, parley.Deny, "cannot be run"},
		"not found by sh":     {"nothing-here", nil, parley.Deny, "exit code 127"},
		"a signal":            {"kill -9 $$", nil, parley.Deny, "signal"},
		"too much":            {"yes", nil, parley.Deny, ""},
		"too much and ends":   {"yes | head -c 600000", nil, parley.Deny, "more than 524288 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if name == "too much" {
				timeout = 300 * time.Millisecond // it never ends
			}
			r := ask(t.Context(), dir, c.command, timeout, c.args...)
			if r.Decision != c.verdict || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("got %s %q, %v", r.Decision, r.Reason, r.Err)
			}
			if name == "its environment" {
				for _, v := range strings.Fields(r.Reason) {
					if !slices.Contains(clean, v) {
						t.Errorf("it has the variable %s", v)
					}
				}
			}
		})
	}
}

// clean are the variables that a hook may have: those of package proc, of the shell, and the
// folder.
var clean = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "PARLEY_PROGRAM", "PWD", "OLDPWD", "SHLVL", "_", "CLAUDE_PROJECT_DIR",
}

// TestNothingIsLeft: what a hook has started ends with it, also when its time is up or the turn
// ends.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, dir, command string) hook.Result{
		"its time is up": func(ctx context.Context, dir, command string) hook.Result {
			return ask(ctx, dir, command+"; wait", time.Second)
		},
		"it ends": func(ctx context.Context, dir, command string) hook.Result { return ask(ctx, dir, command, time.Minute) },
		"the turn ends": func(ctx context.Context, dir, command string) hook.Result {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return ask(ctx, dir, command+"; wait", time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			end(t.Context(), dir, "sleep 1000 & echo $! > pid")
			raw, err := os.ReadFile(filepath.Join(dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			if err != nil {
				t.Fatal(err)
			}
			for range 1_000_000 { // until its new parent has waited for it
				if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
					return
				}
			}
			t.Errorf("%d is left", pid)
		})
	}
}

func zombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(raw), ") Z ")
}

// TestService: a real server gets the message with its headers, and what it answers counts.
func TestService(t *testing.T) {
	t.Parallel()
	type request struct {
		body, header string
	}
	got := make(chan request, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{string(body), r.Header.Get("Authorization")}
		switch r.URL.Path {
		case "/deny":
			_, _ = io.WriteString(w, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"not today"}}`)
		case "/text":
			_, _ = io.WriteString(w, "fine")
		case "/redirect":
			http.Redirect(w, r, "/deny", http.StatusTemporaryRedirect)
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		case "/large":
			_, _ = io.WriteString(w, `{"systemMessage":"`+strings.Repeat("x", 600_000)+`"}`)
		case "/hang":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	call := func(guard *dial.Guard, path, header string) hook.Result {
		e := hook.Entry{Event: hook.PreToolUse, Name: "service", URL: server.URL + path, Headers: map[string]string{"Authorization": header}, Timeout: time.Minute}
		if path == "/hang" {
			e.Timeout = 100 * time.Millisecond
		}
		h := hook.Hook{Entry: e, Level: "app", Do: hook.Service{Guard: guard, Expand: func(text string) (string, error) {
			if strings.Contains(text, "${SECRET}") {
				return "", parley.Errorf(parley.CodeForbidden, "it may not use ${SECRET}")
			}
			return strings.ReplaceAll(text, "${T}", "token"), nil
		}}.Do(e)}
		res, err := hook.Run(t.Context(), []*hook.Hook{&h}, hook.Input{Event: hook.PreToolUse, Subject: "mail", Input: json.RawMessage(`{"to":"ana"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return res[0]
	}
	here, err := dial.New([]string{"127.0.0.1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/ok": "", "/deny": "not today", "/text": "JSON object", "/redirect": "answered 307", "/500": "answered 500", "/large": "more than", "/hang": "longer than",
	} {
		r := call(here, path, "Bearer ${T}")
		if want == "" && r.Decision != "" || want != "" && (r.Decision != parley.Deny || !strings.Contains(r.Reason, want)) {
			t.Errorf("%s: got %s %q", path, r.Decision, r.Reason)
		}
		if req := <-got; req.header != "Bearer token" || !strings.Contains(req.body, `"to":"ana"`) {
			t.Errorf("%s: it got %+v", path, req)
		}
	}
	elsewhere, err := dial.New([]string{"hooks.example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := call(elsewhere, "/ok", ""); r.Decision != parley.Deny || strings.Contains(r.Reason, "http://") {
		t.Errorf("another host: %s %q", r.Decision, r.Reason)
	}
	if r := call(here, "/ok", "${SECRET}"); r.Decision != parley.Deny || len(got) > 0 {
		t.Errorf("a variable that it may not use: %s %q, %d requests", r.Decision, r.Reason, len(got))
	}
}

// TestChangedWhileItRuns: a program whose files are swapped before it starts does not run, and what
// one says whose files are swapped while it runs does not count.
func TestChangedWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"while it waits for its place": true, "while it runs": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := filepath.Join(dir, "guard.sh")
			const approved = `touch ran; echo "# swapped" >> guard.sh; echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'`
			write := func(text string) {
				if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
					t.Error(err)
				}
			}
			write(approved)
			places := make(hook.Places, 1)
			p := hook.Program{Dir: dir, Places: places, Allowed: func(context.Context) error {
				if text, err := os.ReadFile(script); err != nil || string(text) != approved {
					return parley.Errorf(parley.CodeForbidden, "nobody has approved it")
				}
				return nil
			}}
			e := hook.Entry{Event: hook.PreToolUse, Name: "guard.sh", Command: "sh guard.sh", Timeout: time.Minute}
			if early {
				places <- struct{}{}
				go func() {
					write("touch ran")
					<-places
				}()
			}
			res, err := hook.Run(t.Context(), []*hook.Hook{{Entry: e, Level: "workspace", Do: p.Do(e)}}, hook.Input{Event: hook.PreToolUse, Subject: "mail"})
			if err != nil || res[0].Decision != parley.Deny || !strings.Contains(res[0].Reason, "nobody has approved it") {
				t.Errorf("it decided %+v, %v", res, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); (err == nil) == early {
				t.Errorf("it ran: %v", err == nil)
			}
		})
	}
}
