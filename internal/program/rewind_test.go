//go:build unix

package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact/redacttest"
)

// withVault gives the program an app over a folder of files, and returns the folder. A turn writes
// its message into twelve files. The message "key" replaces the file key.env after it was read.
func (p *place) withVault() string {
	p.t.Helper()
	app, users := filepath.Join(p.dir, "apps", "vault"), filepath.Join(p.dir, "users")
	p.write(filepath.Join(app, "clerk.md"), "Keep the files.")
	p.write(filepath.Join(app, "app.yaml"), `model: scripted/vault
script: script.yaml
agents: {clerk: {prompt: clerk.md, tools: [Read, Write]}}
tools: {workspace: {}}
workspaces: {default: main}
live_files: true
policy: {rules: [{verdict: allow, effect: write}]}
resume: auto
`)
	script := `agents:
  clerk:
    - when: and (eq .Question "key") (eq (len .Results) 0)
      call: [{tool: Read, input: {file_path: key.env}}]
    - when: and (eq .Question "key") (eq (len .Results) 1)
      call: [{tool: Write, input: {file_path: key.env, content: gone}}]
    - when: .Results
      say: done
    - call:
`
	for n := range 12 {
		script += fmt.Sprintf("        - {tool: Write, input: {file_path: f%d.txt, content: '{{ .Question }}'}}\n", n)
	}
	p.write(filepath.Join(app, "script.yaml"), script)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=vault", "PARLEY_WORKSPACES_DIR="+users)
	return filepath.Join(users, "local", "main")
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		body, err := os.ReadFile(path)
		all[name] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRewind_on_the_command_line: the command lists turns, says what it would do, does it and undoes
// it to the byte. A secret of a file is shown to its owner, and nowhere else.
func TestRewind_on_the_command_line(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_LOG_LEVEL=debug")
	dir := p.withVault()
	secret := redacttest.Secrets(7)[0]
	p.write(filepath.Join(dir, "key.env"), secret.Text()+"\r\n")
	s := p.serve()
	id := s.session("vault")
	for _, message := range []string{"one", "two", "key"} {
		if end := s.settle(s.send(id, message).ID); end.Status != parley.StatusCompleted {
			t.Fatalf("%s: %+v", message, end)
		}
	}
	before := contents(t, dir)
	if before["f3.txt"] != "two" || before["key.env"] != "gone" {
		t.Fatalf("the turns left %q", before)
	}
	run := func(args ...string) string {
		t.Helper()
		code, out, errs := p.run(append([]string{"session", "rewind", string(id)}, args...)...)
		if code != 0 {
			t.Fatalf("rewind %v: exit %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	list := strings.Split(strings.TrimSpace(run()), "\n")
	if len(list) != 3 || !strings.HasSuffix(list[1], " two") {
		t.Fatalf("the turns are %q", list)
	}
	turn, _, _ := strings.Cut(list[1], " ")
	out := run(turn)
	for _, want := range []string{"This would take back 2 turns:", "13 files would be restored:", "+" + secret.Text(), "Nothing was changed."} {
		if !strings.Contains(out, want) {
			t.Errorf("the preview does not say %q:\n%s", want, out)
		}
	}
	if got := contents(t, dir); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Fatalf("the preview left %q", got)
	}
	out = run(turn, "--yes")
	undo := regexp.MustCompile(`--undo (\d+)`).FindStringSubmatch(out)
	if undo == nil {
		t.Fatalf("it does not say how to undo it:\n%s", out)
	}
	then := contents(t, dir)
	if then["f3.txt"] != "one" || then["key.env"] != secret.Text()+"\r\n" {
		t.Errorf("the rewind left %q", then)
	}
	if list := run(); strings.Contains(list, turn) || !strings.Contains(list, undo[0]) {
		t.Errorf("after it, the turns are:\n%s", list)
	}
	if code, _, errs := p.run("session", "rewind", string(id), turn, "--yes"); code != 1 || !strings.Contains(errs, "--undo "+undo[1]) && !strings.Contains(errs, "taken back") {
		t.Errorf("to a turn that was taken back: exit %d\n%s", code, errs)
	}
	run("--undo", undo[1], "--yes")
	if got := contents(t, dir); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("the undo left %q", got)
	}

	code, why, errs := p.run("session", "why", string(id))
	if code != 0 {
		t.Error(errs)
	}
	seen := map[string]string{
		"the log": strings.Join(s.log(id), "\n"), "the export": string(s.ask("GET", "/v1/sessions/"+string(id)+"/export", "").body),
		"the live files": fmt.Sprint(p.live()), "session why": why,
	}
	s.term()
	seen["the server's log"] = s.errs.String()
	for name, body := range contents(t, p.data) {
		if !strings.HasPrefix(filepath.Base(name), "checkpoints.db") {
			seen[name] = body
		}
	}
	for where, text := range seen {
		if strings.Contains(text, secret.Value) {
			t.Errorf("%s has the secret", where)
		}
	}
}

// TestRewind_of_a_killed_server: the server is killed at any moment of a rewind, and a person edits
// a file before it runs again. Then the rewind is whole or has not begun, the edit is there, and an
// undo brings back all else.
func TestRewind_of_a_killed_server(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := p.withVault()
	s := p.serve()
	id := s.session("vault")
	path := "/v1/sessions/" + string(id)
	var turn parley.TurnID
	for _, message := range []string{"one", "two"} {
		turn = s.send(id, message).ID
		if end := s.settle(turn); end.Status != parley.StatusCompleted {
			t.Fatalf("%s: %+v", message, end)
		}
	}
	rewind := func(body string) parley.RewindResult {
		return must[parley.RewindResult](s, "POST", path+"/rewind", body)
	}
	back := `{"what":"files","turn":"` + string(turn) + `"}`
	begun := time.Now()
	did := rewind(back)
	long := time.Since(begun)
	rewind(fmt.Sprintf(`{"what":"files","undo":%d}`, did.Seq))

	random := rand.New(rand.NewPCG(11, 12))
	outcomes := map[bool]int{}
	edits := map[string]string{}
	for round := range 6 {
		s2, gone := s, make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = s2.try(context.Background(), "POST", path+"/rewind", back)
		}()
		<-time.After(time.Duration(random.Int64N(int64(long)) / int64(1+round%3)))
		s.kill()
		<-gone
		restored := 0
		for _, text := range contents(t, dir) {
			if text == "one" {
				restored++
			}
		}
		t.Logf("killed when %d files were restored", restored)
		edited := fmt.Sprintf("f%d.txt", round)
		edits[edited] = fmt.Sprint("edited ", round)
		p.write(filepath.Join(dir, edited), edits[edited])
		s = p.serve()
		for until := time.Now().Add(within); must[parley.SessionInfo](s, "GET", path, "").Rewinding; <-time.After(20 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("round %d: the rewind does not end", round)
			}
		}
		var v parley.Transcript
		for _, line := range s.log(id) {
			var e parley.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			v.Apply(e)
		}
		last := v.Rewinds[len(v.Rewinds)-1]
		whole := last.Undoes == 0 && last.Rewound == 0
		outcomes[whole]++
		is := func(when, text string) {
			t.Helper()
			for name, got := range contents(t, dir) {
				want := text
				if edit, ok := edits[name]; ok {
					want = edit
				}
				if got != want {
					t.Errorf("round %d, %s: %s is %q, want %q", round, when, name, got, want)
				}
			}
		}
		if !whole {
			is("not begun", "two")
			continue
		}
		is("rewound", "one")
		rewind(fmt.Sprintf(`{"what":"files","undo":%d}`, last.Seq))
		is("undone", "two")
	}
	t.Logf("whole %d, not begun %d", outcomes[true], outcomes[false])
	if all := contents(t, dir); len(all) != 12 {
		t.Errorf("the folder has %q", all)
	}
	p.becomes(s, "at the end", id)
}
