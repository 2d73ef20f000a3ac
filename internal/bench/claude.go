package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/runtime/claudecli"
)

// The runtime claude is measured with the built program, beside the CLI alone: the same executable, driven over
// the same pipes, with the same model on loopback. What Parley adds is its API, the log, and the gateway.

const claudeApp = `name: bench
title: Bench
entry: lead
runtime: claude
agents:
  lead: {prompt: prompts/lead.md}
budgets: {max_steps: 12}
busy: reject
`

const claudeSettings = `models:
  providers:
    anthropic: {kind: anthropic, key: local, base_url: "%s", model: claude-sonnet-5-5}
enabled: [bench]
claude: {path: "%s", processes: %d, wait: 10m}
log: {level: error}
`

// claude measures turns and processes of the Claude CLI.
func claude(ctx context.Context, b *bench) (err error) {
	modules, err := filepath.Abs("internal/runtime/claudecli/real/node_modules")
	if err != nil {
		return err
	}
	path, err := claudecli.Locate(claudecli.Where{Path: os.Getenv("PARLEY_TEST_CLAUDE"), NodeModules: modules})
	switch {
	case err != nil:
		b.note("claude: not measured, the CLI is not installed; make test-claude installs it")
		return nil
	case b.parley == "":
		b.note("claude: not measured, the built program is not there")
		return nil
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	model := &http.Server{Handler: http.HandlerFunc(sayDone), ReadHeaderTimeout: time.Minute}
	go func() { _ = model.Serve(l) }() // until it is closed
	defer func() { err = first(err, model.Close()) }()
	m := &claudeBench{b: b, path: path, model: "http://" + l.Addr().String()}
	if err := m.turns(ctx); err != nil {
		return err
	}
	return m.full(ctx)
}

// sayDone is a model that says one word.
func sayDone(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, data := range []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Done."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`,
		`{"type":"message_stop"}`,
	} {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(data), &kind)                           // it is written above
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind.Type, data) // the CLI may be gone
	}
}

type claudeBench struct {
	b           *bench
	path, model string
}

// alone is a CLI that nobody but the benchmark drives.
type alone struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	n   int
}

// start starts a CLI and waits until it is ready.
func (m *claudeBench) start(ctx context.Context) (*alone, error) {
	home, err := m.b.folder("claude")
	if err != nil {
		return nil, err
	}
	c := &alone{cmd: exec.CommandContext(ctx, m.path, "--output-format", "stream-json", "--verbose", "--input-format", "stream-json",
		"--permission-prompt-tool", "stdio", "--setting-sources=", "--strict-mcp-config", "--replay-user-messages", "--model=claude-sonnet-5-5", "--tools=")}
	c.cmd.Dir = home
	c.cmd.Env = []string{
		"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + home, "PWD=" + home, "TMPDIR=" + home, "CLAUDE_CONFIG_DIR=" + filepath.Join(home, "config"),
		"ANTHROPIC_BASE_URL=" + m.model, "ANTHROPIC_API_KEY=local", "CLAUDE_CODE_ENTRYPOINT=sdk-go", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "ENABLE_TOOL_SEARCH=false",
	}
	c.cmd.WaitDelay = 5 * time.Second
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.in, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 64<<20)
	return c, c.say(`{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}`, "control_response")
}

// say writes a line and waits for one of a type.
func (c *alone) say(line, kind string) error {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return err
	}
	for c.out.Scan() {
		var m struct {
			Type    string `json:"type"`
			IsError bool   `json:"is_error"`
		}
		if json.Unmarshal(c.out.Bytes(), &m) == nil && m.Type == kind {
			if m.IsError {
				return fmt.Errorf("the CLI alone: %s", c.out.Bytes())
			}
			return nil
		}
	}
	return errors.Join(errors.New("the CLI alone has ended"), c.out.Err())
}

func (c *alone) turn() error {
	c.n++
	return c.say(fmt.Sprintf(`{"type":"user","uuid":"00000000-0000-4000-8000-%012d","message":{"role":"user","content":"Go."}}`, c.n), "result")
}

// stop ends the CLI as Parley does, and waits for that.
func (c *alone) stop() error {
	_, err := io.WriteString(c.in, `{"type":"control_request","request_id":"2","request":{"subtype":"end_session"}}`+"\n")
	for c.out.Scan() { //nolint:revive // until its end
	}
	return errors.Join(err, c.in.Close(), c.cmd.Wait())
}

// serve starts a Parley whose app has the runtime claude.
func (m *claudeBench) serve(ctx context.Context, processes int) (*child, error) {
	dir, err := m.b.folder("claude-parley")
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"apps/bench/app.yaml": claudeApp, "apps/bench/prompts/lead.md": "Do what the message says.\n", "parley.yaml": fmt.Sprintf(claudeSettings, m.model, m.path, processes),
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, m.b.parley, "serve", "--addr", "127.0.0.1:0", "--config", filepath.Join(dir, "parley.yaml"), "--apps", filepath.Join(dir, "apps"), "--data", filepath.Join(dir, "data"))
	cmd.Stderr = os.Stderr
	return launched(ctx, cmd, filepath.Join(dir, "data"))
}

// ask takes a turn of a session, to its end.
func ask(ctx context.Context, c *child, id string) error {
	raw, err := fetchStream(ctx, c.url+"/v1/sessions/"+id+"/turns", `{"message":"Go."}`)
	if err == nil && !strings.Contains(string(raw), "event: turn.completed\n") {
		err = fmt.Errorf("a turn with the CLI went another way: %s", raw)
	}
	return err
}

func timed(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return ms(time.Since(began)), err
}

// turns measures first turns, which start a CLI, later turns, and what the CLI takes of the memory then.
func (m *claudeBench) turns(ctx context.Context) (err error) {
	server, err := m.serve(ctx, 64)
	if err != nil {
		return err
	}
	defer func() { err = first(err, server.stop()) }()
	rounds, each := pick(m.b, 3, 7), pick(m.b, 5, 10)
	var firsts, later, memory [2][]float64
	for range rounds {
		c, err := m.start(ctx) // what the system reads the first time is in its caches after that
		if err != nil {
			return err
		}
		if err := c.stop(); err != nil {
			return err
		}
		took, err := timed(func() error {
			if c, err = m.start(ctx); err != nil {
				return err
			}
			return c.turn()
		})
		if err != nil {
			return err
		}
		firsts[0] = append(firsts[0], took)
		before, err := childrenOf(server.cmd.Process.Pid)
		if err != nil {
			return err
		}
		id, err := newSession(ctx, server.url)
		if err != nil {
			return err
		}
		if took, err = timed(func() error { return ask(ctx, server, id) }); err != nil {
			return err
		}
		firsts[1] = append(firsts[1], took)
		for range each {
			for i, f := range []func() error{c.turn, func() error { return ask(ctx, server, id) }} {
				if took, err = timed(f); err != nil {
					return err
				}
				later[i] = append(later[i], took)
			}
		}
		after, err := childrenOf(server.cmd.Process.Pid)
		if err != nil {
			return err
		}
		for pid := range before {
			delete(after, pid)
		}
		after[c.cmd.Process.Pid] = m.path
		for pid, exe := range after {
			if exe != m.path {
				continue
			}
			u, err := memoryOf(pid)
			if err != nil {
				return err
			}
			at := 1
			if pid == c.cmd.Process.Pid {
				at = 0
			}
			memory[at] = append(memory[at], u.anonymous)
		}
		if err := c.stop(); err != nil {
			return err
		}
	}
	m.b.pairs("Claude CLI: first turn of a session, with its start (floor: the CLI alone)", firsts[0], firsts[1], millis, atMost(1.5))
	m.b.pairs("Claude CLI: a later turn", later[0], later[1], millis, atMost(1.5))
	if len(memory[0]) != len(memory[1]) {
		return fmt.Errorf("%d processes of the CLI were found, and %d were expected", len(memory[1]), len(memory[0]))
	}
	m.b.pairs("Claude CLI: memory of its own for each process, after "+strconv.Itoa(each+1)+" turns", memory[0], memory[1], mega, atMost(1.1))
	return nil
}

// childrenOf are the children of a process by what they execute.
func childrenOf(pid int) (map[int]string, error) {
	list, err := filepath.Glob("/proc/[0-9]*/stat")
	found := map[int]string{}
	for _, file := range list {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			found[child], _ = os.Readlink(filepath.Join(filepath.Dir(file), "exe"))
		}
	}
	return found, err
}

// full measures sessions that want more processes than there may be: each turn needs another to end.
func (m *claudeBench) full(ctx context.Context) (err error) {
	const most = 2
	sessions := pick(m.b, 6, 12)
	server, err := m.serve(ctx, most)
	if err != nil {
		return err
	}
	defer func() { err = first(err, server.stop()) }()
	var took [2][]float64
	for range pick(m.b, 1, 3) {
		one, err := timed(func() error {
			return batchesOf(most, sessions, func(int) error {
				c, err := m.start(ctx)
				if err != nil {
					return err
				}
				return errors.Join(c.turn(), c.stop())
			})
		})
		if err != nil {
			return err
		}
		took[0] = append(took[0], one)
		ids := make([]string, sessions)
		for i := range ids {
			if ids[i], err = newSession(ctx, server.url); err != nil {
				return err
			}
		}
		if one, err = timed(func() error {
			return batchesOf(sessions, sessions, func(i int) error { return ask(ctx, server, ids[i]) })
		}); err != nil {
			return err
		}
		took[1] = append(took[1], one)
	}
	m.b.pairs(fmt.Sprintf("Claude CLI: a first turn of each of %d sessions at once, %d processes", sessions, most), took[0], took[1], millis, atMost(1.5))
	return nil
}
