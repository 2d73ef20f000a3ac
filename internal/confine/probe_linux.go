//go:build amd64 || arm64

package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/parley-server/parley/internal/proc"
)

// Probe confines a command that does nothing, in a new folder below dir, and says by what it is confined.
// An error says why commands cannot be confined here.
func Probe(ctx context.Context, dir string) (string, error) {
	version := landlockVersion()
	switch {
	case version == 0:
		return "", errors.New("the kernel has no Landlock, or it is switched off (Linux 6.2 or later, with landlock in /sys/kernel/security/lsm)")
	case version < oldest:
		return "", fmt.Errorf("the kernel's Landlock has version %d, and %d is needed (Linux 6.2)", version, oldest)
	}
	at, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(at) //nolint:errcheck // it is in a temporary folder
	for _, name := range []string{"root", "tmp", "workspace"} {
		if err := os.Mkdir(filepath.Join(at, name), 0o700); err != nil {
			return "", err
		}
	}
	work, err := FolderAt(filepath.Join(at, "workspace"))
	if err != nil {
		return "", err
	}
	j := Job{
		Args: []string{"/bin/sh", "-c", "exit 0"}, Env: []string{"PATH=/usr/bin:/bin"}, Root: filepath.Join(at, "root"), Workspace: work,
		Temporary: filepath.Join(at, "tmp"), Limits: Limits{Memory: 256 << 20, Processes: 16, Disk: 1 << 20},
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	spec, err := j.Spec()
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	spec.Stderr = &said
	p, err := proc.Start(ctx, spec)
	if err != nil {
		return "", fmt.Errorf("no namespaces can be made: %w (in a container, allow unshare and mount: its seccomp and AppArmor profiles forbid them by default)", err)
	}
	err = p.Wait()
	e, perr := j.Result(said.String())
	switch {
	case perr != nil && err != nil:
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	case perr != nil:
		return "", perr
	case e.Failed != "":
		return "", errors.New(e.Failed)
	case e.Code != 0:
		return "", fmt.Errorf("a command ended with %d", e.Code)
	}
	return fmt.Sprintf("namespaces, Landlock version %d and seccomp", version), nil
}

// FolderAt is the folder at a path.
func FolderAt(path string) (Folder, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Folder{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return Folder{}, errors.New("it is not a folder")
	}
	return Folder{Path: path, Device: st.Dev, Inode: st.Ino}, nil
}
