//go:build unix

package mcp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sim/nodetest"
	"github.com/parley-server/parley/internal/tool/mcp"
)

// official is one of the official servers, as npm installs it.
func official(t *testing.T, name string, args ...string) *rig {
	t.Helper()
	nodetest.Install(t, "servers")
	folder, err := filepath.Abs("servers")
	if err != nil {
		t.Fatal(err)
	}
	return program(t, func(o *mcp.Options) {
		o.Run, o.Dir, o.Env = append([]string{filepath.Join("node_modules", ".bin", name)}, args...), folder, nil
		o.Run[0] = "./" + o.Run[0]
	})
}

// TestEverything uses the server that the protocol's authors keep for tests.
func TestEverything(t *testing.T) {
	t.Parallel()
	r := official(t, "mcp-server-everything")
	r.want(r.call("echo", in{"message": "hello"}), parley.OutcomeOK, "hello")
	r.want(r.call("get-sum", in{"a": 2, "b": 40}), parley.OutcomeOK, "42")
	res := r.call("get-tiny-image", in{})
	r.want(res, parley.OutcomeOK, "was kept as an artifact")
	if len(res.Files) != 1 || !strings.HasPrefix(string(res.Files[0].Body), "\x89PNG") {
		t.Errorf("kept %d files", len(res.Files))
	}
	r.want(r.call("trigger-long-running-operation", in{"duration": 1, "steps": 4}), parley.OutcomeOK, "completed")
	r.mu.Lock()
	if said := strings.Join(r.progress, " "); !strings.Contains(said, "1 of 4 2 of 4") { // the last one may arrive after the result
		t.Errorf("the progress was %q", said)
	}
	r.mu.Unlock()
	r.want(r.call("get-structured-content", in{"location": "Chicago"}), parley.OutcomeOK, "temperature")
	r.want(r.call("get-resource-reference", in{"resourceType": "Text", "resourceId": 1}), parley.OutcomeOK, "://")
}

// TestFilesystem uses the official server for files, which has what the README shows.
func TestFilesystem(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := official(t, "mcp-server-filesystem", dir)
	effects := map[string]parley.Effect{}
	for _, d := range r.box.Decls() {
		effects[strings.TrimPrefix(d.Name, "mcp__test__")] = d.Effect
	}
	if effects["read_text_file"] != parley.EffectRead || effects["write_file"] != parley.EffectWrite || effects["move_file"] != parley.EffectWrite {
		t.Errorf("the effects are %v", effects)
	}
	file := filepath.Join(dir, "note.txt")
	r.want(r.call("write_file", in{"path": file, "content": "tomatoes\n"}), parley.OutcomeOK, "")
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "tomatoes\n" {
		t.Errorf("the file has %q, %v", raw, err)
	}
	r.want(r.call("read_text_file", in{"path": file}), parley.OutcomeOK, "tomatoes")
	r.want(r.call("read_text_file", in{"path": "/etc/passwd"}), parley.OutcomeError, "Access denied")
}
