// Package nodetest runs a service's own JavaScript client against our simulation of the service.
//
// The client and its driver are in the folder jsclient beside the test: package.json with its
// lock file, and drive.mjs. [Start] keeps the driver running and asks it one question per line:
// {"op": name, ...arguments} goes in, and {"ok": value} or {"error": the client's error} comes
// out. [Run] runs it once and returns what it printed.
//
// Missing packages are installed with npm, as locked and without running their scripts.
// Everything has a time limit, after which the process is killed and the test fails. A test
// without Node also fails, with a message that says so.
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

// within limits what a test waits for: far more than it takes on a busy machine. Installing the
// client over a network has more time.
const (
	within   = 2 * time.Minute
	fetching = 4 * time.Minute
)

const folder = "jsclient"

// Install installs the packages of a folder's package-lock.json, unless that is done. Two
// processes may only do so at the same time in different folders.
func Install(t testing.TB, folder string) {
	t.Helper()
	needNode(t)
	if err := install(folder); err != nil {
		t.Fatal(err)
	}
}

// installs are the folders that are being installed or are done, each once: two npm in one
// folder would take each other's files away.
var installs sync.Map // of func() error

func install(folder string) error {
	once, _ := installs.LoadOrStore(folder, sync.OnceValue(func() error { return fetch(folder) }))
	return once.(func() error)()
}

// fetch checks for the file that npm writes when it is done.
func fetch(folder string) error {
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

// driver returns the process, not yet started, and a buffer for its standard error. The context
// is not the test's, which ends before the clean-up: node should end by itself.
func driver(t testing.TB, args []string) (cmd *exec.Cmd, wrong *strings.Builder, ctx context.Context, cancel func()) {
	t.Helper()
	needNode(t)
	if err := install(folder); err != nil {
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

// Run runs the driver to its end and returns the JSON value that it printed.
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

// Client is a running driver. It answers one question at a time: its methods are not safe for
// concurrent use.
type Client struct {
	t    testing.TB
	done <-chan struct{}
	in   io.Writer
	out  *bufio.Scanner
}

// Start starts the driver. It ends with the test, and the test fails if the driver exits with an
// error.
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
			cancel() // it may be waiting on a question that is never answered
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

// With returns the same driver for a part of the test that has its own t.
func (c *Client) With(t testing.TB) *Client {
	part := *c
	part.t = t
	return &part
}

// Done is closed when the driver's time is over: a test can wait for it instead of something
// that never comes.
func (c *Client) Done() <-chan struct{} { return c.done }

// Ask returns the answer to a question, or the client's error.
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
		c.t.Fatalf("%.400s: node has exited: %v", raw, err)
	}
	if !c.out.Scan() {
		select {
		case <-c.done:
			c.t.Fatalf("%.400s: no answer from node within %s", raw, within)
		default:
			c.t.Fatalf("%.400s: node has exited: %v", raw, c.out.Err())
		}
	}
	var a struct{ OK, Error any }
	if err := json.Unmarshal(c.out.Bytes(), &a); err != nil {
		c.t.Fatalf("%v: %.400s", err, c.out.Bytes())
	}
	return a.OK, a.Error
}

// Must returns the answer to a question that must succeed.
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

// Refused asks a question that must fail, and compares the fields of the error that want has.
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
