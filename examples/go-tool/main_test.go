package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
	"github.com/parley-server/parley/tool"
)

// TestMain makes this test binary the server, for the test that kills it.
func TestMain(m *testing.M) {
	if os.Getenv("GO_TOOL_SERVER") == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("GO_TOOL_CRASH") != "" {
		wrote = func() {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill() // as kill -9 does
			select {}
		}
	}
	main()
}

// TestAdd: the agent asks before it adds, and finds what it added.
func TestAdd(t *testing.T) {
	b := &book{path: filepath.Join(t.TempDir(), "contacts.json")}
	chat := servertest.Start(t, server.App(files), server.Tools("contacts", b.tools())).Session("contacts")
	if turn := chat.Send("Add Rui, rui@example.com"); turn.Status != parley.StatusWaiting {
		t.Fatalf("it did not ask: %+v", turn)
	}
	if turn := chat.Answer(parley.ChoiceAllow); turn.Response == nil || turn.Response.Message != "Rui is in the contacts." {
		t.Fatalf("%+v", turn)
	}
	if turn := chat.Send("Who is Rui?"); turn.Response == nil || turn.Response.Message != "Rui: rui@example.com" {
		t.Fatalf("%+v", turn)
	}
	if got := chat.Results(); len(got) != 2 || got[0].Outcome != parley.OutcomeOK {
		t.Errorf("%+v", got)
	}
}

// TestPage: the module has the built pages in it, which a released one has and a checkout has not.
func TestPage(t *testing.T) {
	b := &book{path: filepath.Join(t.TempDir(), "contacts.json")}
	s := servertest.Start(t, server.App(files), server.Tools("contacts", b.tools()))
	resp, err := http.Get(s.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the page is %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
}

// TestFunction: a tool is a function, and can be tested as one.
func TestFunction(t *testing.T) {
	b := &book{path: filepath.Join(t.TempDir(), "contacts.json")}
	ctx := tool.Context(t.Context(), tool.Call{ID: "1"})
	if _, err := b.add(ctx, addIn{"Rui", "rui"}); err == nil {
		t.Error("it took an address that is none")
	}
	if _, happened, err := b.added(ctx, addIn{"Rui", "rui"}); happened || err != nil {
		t.Errorf("%v, %v", happened, err)
	}
}

// TestKilled: the server is killed between a write and the note of its outcome. The next one finds out
// that it was made, and does not make it again.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	serve := func(env ...string) (*exec.Cmd, *client.Client) {
		cmd := exec.Command(os.Args[0], "serve", "--addr", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GO_TOOL_SERVER=1", "CONTACTS="+filepath.Join(dir, "contacts.json"))
		cmd.Env = append(cmd.Env, env...)
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		line, err := bufio.NewReader(out).ReadString('\n')
		url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if !ok {
			t.Fatalf("the first line is %q, %v", line, err)
		}
		return cmd, client.New(client.Options{BaseURL: url, Retry: 50 * time.Millisecond, HTTPClient: &http.Client{}})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	first, c := serve("GO_TOOL_CRASH=1")
	s, _, err := c.CreateSession(ctx, parley.CreateSession{App: "contacts"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: "Add Rui, rui@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := c.Interactions(ctx, 0)
	if err != nil || len(asked) != 1 {
		t.Fatalf("it asks %d things, %v", len(asked), err)
	}
	_, _ = c.Answer(ctx, asked[0].ID, parley.Answer{Choice: parley.ChoiceAllow}) // may die with the server
	_ = first.Wait()

	_, c = serve()
	if turn, err = c.Await(ctx, turn.ID, time.Minute); err != nil || turn.Response == nil || turn.Response.Message != "Rui is in the contacts." {
		t.Fatalf("%+v, %v", turn, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "contacts.json"))
	if err != nil || strings.Count(string(raw), "Rui") != 1 {
		t.Errorf("the contacts are %q, %v", raw, err)
	}
}
