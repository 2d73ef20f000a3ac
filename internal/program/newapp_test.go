package program

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
)

// TestNewApp: what parley app new makes has no mistakes, runs at once, and uses its tools. The kind
// go is tested in internal/release, with the modules of other authors.
func TestNewApp(t *testing.T) {
	t.Parallel()
	for kind, noted := range map[string]string{"blank": "", "page": "", "mcp": "It is noted.", "http": "It is noted.", "openapi": `"the tomatoes are planted"`} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "my-" + kind // the port of its service depends on the name
			apps := filepath.Join(t.TempDir(), "my apps")
			dir := filepath.Join(apps, name)
			if code, out := parleyIn(t, "app", "new", name, "--with", kind, "--apps", apps); code != 0 || !strings.Contains(out, "made "+dir) {
				t.Fatalf("exit %d: %s", code, out)
			}
			if code, out := parleyIn(t, "app", "check", dir); code != 0 {
				t.Fatalf("exit %d: %s", code, out)
			}
			if code, out := parleyIn(t, "app", "new", name, "--apps", apps); code != exitFailed || !strings.Contains(out, "exists already") {
				t.Errorf("a second of the name: exit %d: %s", code, out)
			}
			if left, _ := filepath.Glob(filepath.Join(apps, ".new-*")); len(left) > 0 {
				t.Errorf("there is %v left", left)
			}
			if raw, err := os.ReadFile(filepath.Join(dir, "app.yaml")); err != nil || strings.Contains(string(raw), apps) {
				t.Errorf("its file names the folder where it happens to be: %s, %v", raw, err)
			}
			moved := filepath.Join(t.TempDir(), "moved") // with everything in it
			if err := os.Rename(apps, moved); err != nil {
				t.Fatal(err)
			}
			apps, dir = moved, filepath.Join(moved, name)
			startService(t, filepath.Join(dir, "service.mjs"))
			url := insideAt(t, map[string]string{"apps": apps, "enabled": name})
			c := client.New(client.Options{BaseURL: url, Retry: 50 * time.Millisecond})
			s, _, err := c.CreateSession(t.Context(), parley.CreateSession{App: name})
			if err != nil {
				t.Fatal(err)
			}
			ask := func(question string) parley.TurnInfo {
				turn, err := c.SendAndWait(t.Context(), s.ID, parley.Send{Message: question})
				if err != nil {
					t.Fatal(err)
				}
				return turn
			}
			if kind == "page" {
				for path, want := range map[string]string{"/": "<title>My page</title>", "/page.js": `connect({ app: "my-page" })`, "/page.css": "main {", "/parley/client.js": "export"} {
					if got := ownPageOf(t, url, name, path); !strings.Contains(got, want) {
						t.Errorf("%s: %.300s", path, got)
					}
				}
			}
			if kind == "blank" || kind == "page" {
				if turn := ask("Hello"); turn.Response == nil || turn.Response.Message != "You said: Hello" {
					t.Errorf("%+v", turn)
				}
				return
			}
			turn := ask("Note that the tomatoes are planted")
			open, err := c.Interactions(t.Context(), 0)
			if err != nil || len(open) != 1 {
				t.Fatalf("it asks %d things, %v; %+v", len(open), err, turn)
			}
			if _, err := c.Answer(t.Context(), open[0].ID, parley.Answer{Choice: parley.ChoiceAllow}); err != nil {
				t.Fatal(err)
			}
			if turn, err = c.Await(t.Context(), turn.ID, patience); err != nil || turn.Response == nil || !strings.Contains(turn.Response.Message, noted) {
				t.Fatalf("%+v, %v", turn, err)
			}
			if turn := ask("What is there about tomatoes?"); turn.Response == nil || !strings.Contains(turn.Response.Message, "the tomatoes are planted") {
				t.Errorf("%+v", turn)
			}
		})
	}
}

// TestNewApp_says_what_to_type: the commands that it prints can be typed as they are, also before a
// release.
func TestNewApp_says_what_to_type(t *testing.T) {
	t.Parallel()
	for arg0, want := range map[string]string{
		"parley": "parley", "bin/parley": "bin/parley", "/opt/parley": "/opt/parley", "./mine": "./mine",
		"/tmp/go-build7/b001/exe/mine": "go run .", "/my apps/mine": "'/my apps/mine'", "/tmp/go-build7/b001/exe/parley": "parley", "/tmp/go-build7/b001/program.test": "parley",
	} {
		if got := called(arg0); got != want {
			t.Errorf("started as %s it is called %s, want %s", arg0, got, want)
		}
	}
	dir := t.TempDir()
	if got := checkout(filepath.Join(dir, "bin", "parley")); got != "" {
		t.Errorf("%s is no checkout", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module github.com/parley-server/parley\n\ngo 1.26\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := checkout(filepath.Join(dir, "bin", "parley")); got != dir {
		t.Errorf("got %q, want the checkout", got)
	}
}

func TestNewApp_refused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ name, kind, want string }{
		{"Mine", "blank", "cannot be an app's name"},
		{"../mine", "blank", "cannot be an app's name"},
		{"mine", "perl", "the kinds are blank, go, http, mcp, openapi, page"},
		{"mine", "every", "there is no kind"},
		{"mine", "..", "there is no kind"},
		{"mine", "go", "--apps does not go with --with go"},
	} {
		if code, out := parleyIn(t, "app", "new", c.name, "--with", c.kind, "--apps", dir); code != exitUsage || !strings.Contains(out, c.want) {
			t.Errorf("%s with %s: exit %d: %s", c.name, c.kind, code, out)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("there is %v, %v", list, err)
	}
}

// parleyIn runs a command inside the test.
func parleyIn(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	code = run(t.Context(), builtin(), append(args, "--data", t.TempDir()), strings.NewReader(""), &b, &b)
	return code, b.String()
}

// insideAt starts a server inside the test and returns its address.
func insideAt(t *testing.T, settings map[string]string) (url string) {
	t.Helper()
	flags := map[string]string{"data": t.TempDir(), "store": "mem", "scripted.pace": "0s"}
	for name, v := range settings {
		flags[name] = v
	}
	s, err := config.Load(config.From{File: os.DevNull, Flags: flags, Env: func(name string) (string, bool) { return os.Getenv(name), name == "PATH" }})
	if err != nil {
		t.Fatal(err)
	}
	in, err := Open(t.Context(), s, slog.New(slog.DiscardHandler), stock...)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(in.Handler)
	t.Cleanup(func() {
		if err := in.Close(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return web.URL
}

// ownPageOf returns a file of an app's own page, from the page's own origin.
func ownPageOf(t *testing.T, url, app, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = app + ".localhost"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%.500s", path, resp.Status, err, body)
	}
	return string(body)
}

// startService runs a service with Node until the test ends, if the file exists.
func startService(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		return
	}
	cmd := exec.Command("node", file)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
}
