package program_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestCalls_of_a_script: a script lists the offered calls, claims them and reports, using commands
// only.
func TestCalls_of_a_script(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_ENABLED=desk")
	apps := filepath.Join(p.dir, "apps")
	p.env = append(p.env, "PARLEY_APPS="+apps)
	if err := os.CopyFS(apps, os.DirFS("../../examples/client-tool/apps")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(apps, "desk", "app.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.write(file, strings.ReplaceAll(string(raw), "timeout: 10s", "timeout: 10m")) // commands are slow on a busy machine
	token := filepath.Join(p.dir, "token")
	p.write(token, "0123456789abcdefghijklmnop\n")
	runs := func(want int, says string, args ...string) (string, string) {
		t.Helper()
		code, out, errs := p.run(append([]string{"session"}, args...)...)
		if code != want || !strings.Contains(out+errs, says) {
			t.Fatalf("%v: exit %d, want %d and %q\n%s%s", args, code, want, says, out, errs)
		}
		return out, errs
	}
	s := p.serve()
	id := s.session("desk")
	offered := func() parley.Interaction {
		t.Helper()
		var list []parley.Interaction
		s.until("a call is offered", func() bool {
			out, _ := runs(0, "", "calls", string(id), "--json")
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				t.Fatal(err)
			}
			return len(list) == 1
		})
		return list[0]
	}
	const none = "No call waits for a client program."

	// A read, with its report on standard input and a token that the server made.
	runs(0, none, "calls")
	read := s.send(id, "What have I noted?")
	in := offered()
	runs(0, "read_notes", "calls")
	runs(0, none, "calls", string(s.session("desk")))
	runs(0, "1 call waits for a client program: parley session calls", "questions")
	runs(0, "waiting for a client", "list")
	runs(0, "to run it: parley session claim "+string(in.ID), "why", string(id))
	runs(1, "nobody has claimed the call", "report", string(in.ID), "x", "--token", "file:"+token)
	out, _ := runs(0, `"left_ms"`, "claim", string(in.ID), "--json")
	var claimed parley.Claimed
	if err := json.Unmarshal([]byte(out), &claimed); err != nil || claimed.Tool != "read_notes" || claimed.Deadline.IsZero() {
		t.Fatalf("%+v, %v", claimed, err)
	}
	runs(1, "another client of local has claimed the call", "claim", string(in.ID), "--token", "file:"+token)
	runs(1, "the token is not the one with which the call was claimed", "report", string(in.ID), "x", "--token", "file:"+token)
	runs(0, none, "calls")
	env := p.env
	p.env = append(env[:len(env):len(env)], "TOKEN="+claimed.Token)
	cmd := p.command("session", "report", string(in.ID), "-", "--token", "env:TOKEN")
	cmd.Stdin = strings.NewReader("The plants need water.\n")
	if out, err := cmd.Output(); err != nil || string(out) != "reported: ok\n" {
		t.Fatalf("%s, %v", out, err)
	}
	if end := s.settle(read.ID); end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "The plants need water.") {
		t.Fatalf("%+v", end)
	}
	runs(0, "reported: ok", "report", string(in.ID), "The plants need water.", "--token", "env:TOKEN")
	runs(1, "a different report for this call was already accepted", "report", string(in.ID), "No.", "--token", "env:TOKEN")
	p.env = env

	// A write, with a token of the script's own, a file, and JSON.
	write := s.send(id, "Note that the plants need water.")
	s.until("a person is asked", func() bool { out, _ := runs(0, "", "questions"); return strings.Contains(out, "permission") })
	list, _ := runs(0, "", "questions", "--json")
	var asked []parley.Interaction
	if err := json.Unmarshal([]byte(list), &asked); err != nil || len(asked) != 1 {
		t.Fatalf("%s, %v", list, err)
	}
	runs(0, "", "answer", string(asked[0].ID), "allow", "--no-wait")
	in = offered()
	runs(0, "deadline", "claim", string(in.ID), "--token", "file:"+token)
	runs(0, "token     0123456789abcdefghijklmnop", "claim", string(in.ID), "--token", "file:"+token) // as if the first answer was lost
	runs(2, "--result is not JSON", "report", string(in.ID), "--result", "{", "--token", "file:"+token)
	runs(2, "no such file", "report", string(in.ID), "--file", filepath.Join(p.dir, "none.txt"), "--token", "file:"+token)
	runs(2, "--token is missing", "report", string(in.ID), "x")
	if _, errs := runs(2, "--token must be env:VARIABLE or file:PATH", "report", string(in.ID), "x", "--token", "hush-hush"); strings.Contains(errs, "hush") {
		t.Errorf("the token is repeated: %s", errs)
	}
	runs(1, "use ok, error or unknown", "report", string(in.ID), "x", "--outcome", "fine", "--token", "file:"+token)
	note := filepath.Join(p.dir, "note.txt")
	p.write(note, "the plants")
	out, _ = runs(0, "", "report", string(in.ID), "written down", "--result", `{"n": 1}`, "--file", note, "--token", "file:"+token, "--json")
	var res parley.ToolResult
	if err := json.Unmarshal([]byte(out), &res); err != nil || res.Outcome != parley.OutcomeOK || !strings.Contains(res.Output, "written down") || !strings.Contains(string(res.Data), `"n": 1`) || res.Artifact == nil || res.Artifact.Name != "note.txt" {
		t.Fatalf("%s, %v", out, err)
	}
	if end := s.settle(write.ID); end.Status != parley.StatusCompleted {
		t.Fatalf("%+v", end)
	}
	if shown := strings.Join(s.log(id), "\n") + s.errs.String(); strings.Contains(shown, "0123456789abcdefghijklmnop") || strings.Contains(shown, claimed.Token) {
		t.Errorf("a token is in the log: %s", shown)
	}

	// Without a server, nobody would continue the turn.
	s.stop()
	runs(0, none, "calls")
	runs(1, "no server has the data folder open", "claim", string(in.ID))
	runs(1, "no server has the data folder open", "report", string(in.ID), "x", "--token", "file:"+token)
	_ = os.Remove(token)
	runs(2, "no such file", "claim", string(in.ID), "--token", "file:"+token)
}
