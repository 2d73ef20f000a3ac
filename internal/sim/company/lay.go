package company

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Lay makes the lake at dir, if there is nothing yet: a git repository, or only the files if git, the
// program, is "". A process that dies in the middle leaves nothing at dir.
func (l *Lake) Lay(ctx context.Context, dir, git string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".laying-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // what is left is in nobody's way
	made := filepath.Join(tmp, "lake")
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	if git == "" {
		for name, text := range l.Files() {
			at := filepath.Join(made, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
				return err
			}
		}
		return os.Rename(made, dir)
	}
	for _, step := range []struct {
		in   io.Reader
		args []string
	}{
		{nil, []string{"init", "--quiet", "--template=", "--initial-branch=main"}},
		{l.Stream(), []string{"fast-import", "--quiet"}},
		{nil, []string{"reset", "--quiet", "--hard"}},
	} {
		cmd := exec.CommandContext(ctx, git, append([]string{"-C", made}, step.args...)...) //nolint:gosec // the caller names the program
		cmd.Env = []string{"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "HOME=" + tmp, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
		cmd.Stdin = step.in
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", step.args[0], err, bytes.TrimSpace(out))
		}
	}
	return os.Rename(made, dir)
}
