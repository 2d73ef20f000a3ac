// Package nodetest runs a service's own JavaScript client against our stand-in
// for the service.
//
// The client and what drives it stand in the folder jsclient beside the test:
// package.json with its lock, and drive.mjs. [Start] keeps the driver running and
// asks it one question a line: {"op": name, ...arguments} goes in, {"ok": value}
// or {"error": what the client made of a refusal} comes out. [Run] runs it once
// and has what it printed.
//
// What is missing is fetched with npm, as the lock says and without running the
// packages' scripts. Everything has a time limit, after which the process is
// killed and the test fails; a test without Node fails, too, and says so.
package nodetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// within bounds what a test waits for: far more than it takes on a machine that
// has other things to do. Fetching the client, over a network, has longer.
const (
	within   = 2 * time.Minute
	fetching = 4 * time.Minute
)

const folder = "jsclient"

// installed fetches the client, once for all tests of a package.
var installed = sync.OnceValue(func() error { return install(folder) })

// Install fetches what the package-lock.json of a folder says, unless it is
// there. Another process may do so at the same time in another folder only.
func Install(t testing.TB, folder string) {
	t.Helper()
	needNode(t)
	if err := install(folder); err != nil {
		t.Fatal(err)
	}
}

// install looks for the file that npm writes when it is done.
func install(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetching)
	defer cancel()
	ci := exec.CommandContext(ctx, "npm", "ci", "--no-fund", "--no-audit", "--ignore-scripts")
	ci.Dir = folder
	ci.WaitDelay = 10 * time.Second
	if out, err := ci.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}

func needNode(t testing.TB) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not on this machine; the real client needs Node 20 or later with npm", program)
		}
	}
}

// driver is the process, not yet started, and what it will say on its standard
// error. The context is not the test's, which ends before the clean-up: node is
// to end by itself.
func driver(t testing.TB, args []string) (cmd *exec.Cmd, wrong *strings.Builder, ctx context.Context, cancel func()) {
	t.Helper()
	needNode(t)
	if err := installed(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), within)
	wrong = new(strings.Builder)
	cmd = exec.CommandContext(ctx, "node", append([]string{"drive.mjs"}, args...)...)
	cmd.Dir = folder
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = wrong
	return cmd, wrong, ctx, cancel
}

// Run runs the driver to its end and has the JSON value that it printed.
func Run(t testing.TB, args ...string) any {
	t.Helper()
	cmd, wrong, _, cancel := driver(t, args)
	defer cancel()
	out, err := cmd.Output()
	if wrong.Len() > 0 {
		t.Logf("node said: %s", wrong)
	}
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	var v any
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

// Client is a driver that runs. It answers one question at a time: its methods
// are not for concurrent use.
type Client struct {
	t    testing.TB
	done <-chan struct{}
	in   io.Writer
	out  *bufio.Scanner
}

// Start starts the driver. It ends with the test, which fails when the driver
// does not end well.
func Start(t testing.TB) *Client {
	t.Helper()
	cmd, wrong, ctx, cancel := driver(t, nil)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if t.Failed() {
			cancel() // it may be in the middle of a question that is never answered
		}
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("node: %v", err)
		}
		cancel()
		if wrong.Len() > 0 {
			t.Logf("node said: %s", wrong)
		}
	})
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 4<<20)
	return &Client{t, ctx.Done(), in, sc}
}

// With is the same driver, for a part of the test that has its own t.
func (c *Client) With(t testing.TB) *Client {
	part := *c
	part.t = t
	return &part
}

// Done is closed when the driver had its time: what a test may wait for instead
// of what does not come.
func (c *Client) Done() <-chan struct{} { return c.done }

// Ask has the answer to a question, or what the client made of a refusal.
func (c *Client) Ask(op string, args map[string]any) (ok, refused any) {
	c.t.Helper()
	q := map[string]any{"op": op}
	for k, v := range args {
		q[k] = v
	}
	raw, err := json.Marshal(q)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(raw, '\n')); err != nil {
		c.t.Fatalf("%.400s: node is gone: %v", raw, err)
	}
	if !c.out.Scan() {
		select {
		case <-c.done:
			c.t.Fatalf("%.400s: no answer, and node has had its %s", raw, within)
		default:
			c.t.Fatalf("%.400s: node is gone: %v", raw, c.out.Err())
		}
	}
	var a struct{ OK, Error any }
	if err := json.Unmarshal(c.out.Bytes(), &a); err != nil {
		c.t.Fatalf("%v: %.400s", err, c.out.Bytes())
	}
	return a.OK, a.Error
}

// Must has the answer to a question that may not be refused.
func (c *Client) Must(op string, args map[string]any) any {
	c.t.Helper()
	ok, refused := c.Ask(op, args)
	if refused != nil {
		c.t.Fatalf("%s %.400v: %v", op, args, refused)
	}
	return ok
}

// Want compares the answer to a question.
func (c *Client) Want(op string, args map[string]any, want any) {
	c.t.Helper()
	if d := cmp.Diff(want, c.Must(op, args)); d != "" {
		c.t.Errorf("%s %.400v (-want +got):\n%s", op, args, d)
	}
}

// Refused asks what has to be refused, and compares what of the refusal is named
// in want.
func (c *Client) Refused(op string, args, want map[string]any) {
	c.t.Helper()
	ok, refused := c.Ask(op, args)
	no, is := refused.(map[string]any)
	if !is {
		c.t.Fatalf("%s %.400v: got %.400v, %v, want an error", op, args, ok, refused)
	}
	got := map[string]any{}
	for k := range want {
		got[k] = no[k]
	}
	if d := cmp.Diff(want, got); d != "" {
		c.t.Errorf("%s %.400v (-want +got):\n%s", op, args, d)
	}
}
