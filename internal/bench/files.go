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
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/workspace"
)

// shelf is a workspace with many files, and the tools for it.
type shelf struct {
	dir    string
	root   *os.Root
	checks *checkpoint.Store
	tools  *workspace.Toolset
	calls  int
}

// files measures the tools for a workspace's files against programs that do the same: Glob
// against find, Grep against ripgrep, or grep where there is none, and Edit of a large file
// against writing it anew, synced.
func files(ctx context.Context, b *bench) (err error) {
	s, err := newShelf(b, pick(b, 5_000, 50_000))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.root.Close(), s.checks.Close()) }()
	name := fmt.Sprintf("files: %s over %d files", "%s", pick(b, 5_000, 50_000))
	for _, k := range []struct {
		what  string
		floor []string
		tool  string
		input map[string]any
		limit float64
	}{
		{"Glob of few", []string{"find", ".", "-name", "*7.md"}, "Glob", map[string]any{"pattern": "*7.md"}, 3},
		{"Grep of a word", searcher("needle"), "Grep", map[string]any{"pattern": "needle", "head_limit": 0}, 3},
		{"Grep of an expression", searcher("n[a-f]edle [0-9]+"), "Grep", map[string]any{"pattern": "n[a-f]edle [0-9]+", "head_limit": 0}, 5},
	} {
		var floors, values []float64
		for range pick(b, 3, 7) {
			at := time.Now()
			cmd := exec.CommandContext(ctx, k.floor[0], k.floor[1:]...)
			cmd.Dir = s.dir
			if out, err := cmd.Output(); err != nil || len(out) == 0 {
				return fmt.Errorf("%v: %d bytes, %w", k.floor, len(out), err)
			}
			floors = append(floors, float64(time.Since(at))/1e6)
			at = time.Now()
			if err := s.run(ctx, k.tool, k.input); err != nil {
				return err
			}
			values = append(values, float64(time.Since(at))/1e6)
		}
		b.pairs(fmt.Sprintf(name, k.what), floors, values, millis, atMost(k.limit))
	}
	return s.edits(ctx, b)
}

// searcher is the fastest program for contents that there is here.
func searcher(pattern string) []string {
	if _, err := exec.LookPath("rg"); err == nil {
		return []string{"rg", "--no-config", "-l", pattern}
	}
	return []string{"grep", "-rElI", pattern, "."}
}

func newShelf(b *bench, n int) (*shelf, error) {
	dir, err := b.folder("files")
	if err != nil {
		return nil, err
	}
	data, err := b.folder("files-data")
	if err != nil {
		return nil, err
	}
	text := bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog, and writes a note about it.\n"), 25)
	for i := range n {
		at := filepath.Join(dir, fmt.Sprintf("area%d", i%50), fmt.Sprintf("topic%d", i/50%40))
		if i < 2000 {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return nil, err
			}
		}
		body := text
		if i%500 == 0 {
			body = append(bytes.Clone(text), fmt.Sprintf("needle %d\n", i)...)
		}
		if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("note%d.md", i)), body, 0o644); err != nil {
			return nil, err
		}
	}
	s := &shelf{dir: dir, checks: checkpoint.New(checkpoint.Options{Data: datafolder.New(data, nil)})}
	s.tools = workspace.New(workspace.Options{Checkpoints: func() *checkpoint.Store { return s.checks }})
	s.root, err = os.OpenRoot(dir)
	return s, err
}

// run makes a call and checks that it found or did something.
func (s *shelf) run(ctx context.Context, tool string, input map[string]any) error {
	raw, err := json.Marshal(input)
	if err != nil {
		return err
	}
	s.calls++
	res, err := s.tools.Run(ctx, seam.Run{
		Call: parley.CallID(fmt.Sprint("c", s.calls)), Session: "bench", Name: tool, Input: raw,
		Workspace: func() (*os.Root, error) { return s.root, nil },
		Changes:   func(context.Context, ...string) error { return nil },
	})
	if err == nil && (res.Outcome == parley.OutcomeError || res.Output == "Nothing matches." || res.Output == "No file has such a name.") {
		err = fmt.Errorf("%s: %s", tool, res.Output)
	}
	return err
}

// edits measures the change of one line of a file of 10 MB.
func (s *shelf) edits(ctx context.Context, b *bench) error {
	const size = 10 << 20
	line := []byte("A line of a long file, as logs and exports have them.\n")
	body := append(bytes.Repeat(line, size/2/len(line)), "the only 0 line\n"...)
	body = append(body, bytes.Repeat(line, size/2/len(line))...)
	if err := os.WriteFile(filepath.Join(s.dir, "large.txt"), body, 0o644); err != nil {
		return err
	}
	if err := s.run(ctx, "Read", map[string]any{"file_path": "large.txt", "limit": 1}); err != nil {
		return err
	}
	var floors, values []float64
	for i := range pick(b, 3, 7) {
		at := time.Now()
		if err := anew(filepath.Join(s.dir, "floor.txt"), body); err != nil {
			return err
		}
		floors = append(floors, float64(time.Since(at))/1e6)
		at = time.Now()
		if err := s.run(ctx, "Edit", map[string]any{"file_path": "large.txt", "old_string": fmt.Sprintf("the only %d line", i), "new_string": fmt.Sprintf("the only %d line", i+1)}); err != nil {
			return err
		}
		values = append(values, float64(time.Since(at))/1e6)
	}
	b.pairs("files: Edit of a file of 10 MB, its old content kept", floors, values, millis, atMost(8))
	return nil
}

// anew writes a file beside its place, synced, and renames it.
func anew(name string, body []byte) (err error) {
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
