package claudecli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestSearch: a secret is found in each file of a conversation: in a line that was half written when it was
// searched before, in an agent's transcript, and in a file that was written anew. What was searched is not
// searched again.
func TestSearch(t *testing.T) {
	t.Parallel()
	p := &process{spec: spec{home: t.TempDir()}, searched: map[string]searched{}}
	write := func(text string, flag int, name ...string) {
		t.Helper()
		path := filepath.Join(append([]string{p.spec.config()}, name...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // what was written is read
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	read := 0
	found := func() bool {
		read = 0
		return p.search(func(b []byte) bool {
			read += len(b)
			return bytes.Contains(b, []byte("SECRET"))
		})
	}
	if found() {
		t.Error("in nothing")
	}
	write("one\ntwo\nSEC", os.O_APPEND, "projects", "dir", "main.jsonl")
	if found() {
		t.Error("in half a word")
	}
	if found() || read != 0 {
		t.Errorf("%d bytes were searched again", read)
	}
	write("RET\n", os.O_APPEND, "projects", "dir", "main.jsonl")
	if !found() || read != len("SECRET\n") {
		t.Errorf("not in the whole word, or not in it alone: %d bytes", read)
	}
	write("plain\n", os.O_APPEND, "projects", "dir", "main", "subagents", "agent-1.jsonl")
	if found() {
		t.Error("in an agent's transcript without one")
	}
	write("SECRET\n", os.O_APPEND, "projects", "dir", "main", "subagents", "agent-1.jsonl")
	if !found() {
		t.Error("not in an agent's transcript")
	}
	write("a plan", os.O_TRUNC, "plans", "plan.md")
	if found() {
		t.Error("in a plan without one")
	}
	write("the SECRET", os.O_TRUNC, "plans", "plan.md")
	if !found() {
		t.Error("not in a plan that was written anew")
	}
}
