//go:build claude

package real_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestTurns: two turns in one process, with tools of the CLI and of the app.
func TestTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.stop()
	s := r.Session()
	got := r.Await(r.Send(s.ID, script(
		step{Text: "I write a file.", Use: []use{{"Write", map[string]any{"file_path": r.work + "/a.txt", "content": "hello"}}}},
		step{Use: []use{{"Bash", map[string]any{"command": "echo more >> a.txt; cat a.txt"}}, {"mcp__parley__count", map[string]any{"what": "x"}}}},
		step{Text: "All done."},
	)).ID)
	log := r.Log(s.ID)
	if got.Response == nil || got.Response.Message != "All done." {
		t.Fatalf("%s %+v %+v\n%s", got.Status, got.Response, got.Error, told(log))
	}
	if text := r.file(t, "a.txt"); text != "hellomore\n" {
		t.Errorf("%q\n%s", text, told(log))
	}
	if n := count(log, "tool.ended"); n != 3 {
		t.Errorf("%d calls have ended\n%s", n, told(log))
	}
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("%v\n%s", err, told(log))
	}
	if got := r.Await(r.Send(s.ID, script(step{Text: "Again."})).ID); got.Status != parley.StatusCompleted || got.Response.Message != "Again." {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	t.Log(told(r.Log(s.ID)))
}
