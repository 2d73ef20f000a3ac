package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The built program is measured as people run it, with an app and settings in files, and from outside:
// by its sockets and by what the system says about its process.

const programApp = `name: bench
title: Bench
entry: lead
agents:
  lead: {prompt: prompts/lead.md, tools: [put]}
tools:
  openapi:
    file: put.json
    base_url: %s
    operations:
      - {operation: put, effect: idempotent, key_header: Idempotency-Key, key_ttl: 1h}
policy:
  rules:
    - {verdict: allow, tool: put}
budgets: {max_steps: 12, max_tool_calls: 20}
memory: {last_k: 6}
busy: reject
`

// programService describes the service behind the tool. It has no secret, since a token that ends in the first
// letters of one is held back until the next.
const programService = `{"openapi": "3.0.3", "info": {"title": "put", "version": "1"}, "paths": {"/put": {"post": {
  "operationId": "put", "description": "Puts a text.", "responses": {"200": {"description": "It is kept."}},
  "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "required": ["text"],
    "properties": {"text": {"type": "string"}}}}}}}}}}
`

const programSettings = `models:
  providers:
    local: {kind: openai, base_url: "%s/v1", model: bench}
  known:
    local/bench: {context_tokens: 100000, max_output_tokens: 32000}
enabled: [bench]
limits: {max_streams: 100000, max_connections: 100000, max_connections_per_address: 100000}
log: {level: error}
`

// started starts a built program on an empty folder, or on the data folder dir, with one app whose model
// is the upstream, and waits until it listens.
func (b *bench) started(ctx context.Context, program, upstream, dir string) (c *child, err error) {
	if dir == "" {
		if dir, err = b.folder("program"); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"apps/bench/app.yaml":        fmt.Sprintf(programApp, upstream),
		"apps/bench/put.json":        programService,
		"apps/bench/prompts/lead.md": "Do what the message says.\n",
		"parley.yaml":                fmt.Sprintf(programSettings, upstream),
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, program, "serve", "--addr", "127.0.0.1:0",
		"--config", filepath.Join(dir, "parley.yaml"), "--apps", filepath.Join(dir, "apps"), "--data", filepath.Join(dir, "data"))
	cmd.Stderr = os.Stderr
	return launched(ctx, cmd, filepath.Join(dir, "data"))
}

// launched starts a server and waits until it listens. The process that holds a data folder writes its
// address there.
func launched(ctx context.Context, cmd *exec.Cmd, data string) (*child, error) {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	c := &child{cmd: cmd, began: time.Now()}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for time.Since(c.began) < 20*time.Second {
		if err := pause(ctx, time.Millisecond); err != nil {
			return nil, errors.Join(err, c.stop())
		}
		var holder struct{ Address string }
		if raw, err := os.ReadFile(filepath.Join(data, "lock")); err == nil {
			_ = json.Unmarshal(raw, &holder) // it may be half written
		}
		if holder.Address != "" {
			c.url = "http://" + strings.TrimPrefix(holder.Address, "http://")
			return c, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s has not begun to listen", cmd.Path), c.stop())
}

// cpuTime is what a child has used of the processors.
func (c *child) cpuTime() (time.Duration, error) {
	if c.in == nil {
		return cpuOf(c.cmd.Process.Pid)
	}
	a, err := c.ask("status")
	return a.CPU, err
}

// cpuOf adds up what the threads of a process have used, in nanoseconds. It works only on Linux.
func cpuOf(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, name := range threads {
		raw, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		first, _, _ := bytes.Cut(raw, []byte(" "))
		n, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// writtenBy is how many bytes a process has given the system to write to disks: whole pages, each once
// for the times that it was changed between two syncs. It works only on Linux.
func writtenBy(pid int) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if n, found := strings.CutPrefix(line, "write_bytes: "); found {
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return 0, errors.New("the system does not say what a process writes")
}
