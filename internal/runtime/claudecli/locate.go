package claudecli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Where says where the executable may be.
type Where struct {
	Path        string // the executable itself; empty: it is looked for
	NodeModules string // a node_modules folder that may have the package of this platform; empty: none
}

// Tested is the version of the CLI that the tests run.
const Tested = "2.1.329"

// ErrMissing is returned if there is no Claude CLI.
var ErrMissing = parley.Errorf(parley.CodeUnavailable, "the Claude CLI is not installed").
	WithHint("install it, for example with `npm install -g @anthropic-ai/claude-code`, or name it with the setting claude.path; `parley doctor` says what is looked for")

// Locate finds the executable: the one that is named, else `claude` in the folders of $PATH, else the
// package of this platform below a node_modules folder.
func Locate(w Where) (string, error) {
	if w.Path != "" {
		path, err := exec.LookPath(w.Path)
		if err != nil {
			return "", parley.Errorf(parley.CodeUnavailable, "the Claude CLI %s cannot be run: %w", w.Path, err).WithHint("check the setting claude.path")
		}
		return filepath.Abs(path)
	}
	if path, err := exec.LookPath("claude"); err == nil {
		return filepath.Abs(path)
	}
	if w.NodeModules != "" {
		for _, name := range packages() {
			path := filepath.Join(w.NodeModules, "@anthropic-ai", name, "claude")
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return filepath.Abs(path)
			}
		}
	}
	return "", ErrMissing
}

// packages are the npm packages that have the executable for this platform.
func packages() []string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	suffixes := []string{runtime.GOOS + "-" + arch}
	if runtime.GOOS == "linux" {
		suffixes = append(suffixes, suffixes[0]+"-musl")
	}
	var list []string
	for _, s := range suffixes {
		list = append(list, "claude-code-"+s, "claude-agent-sdk-"+s)
	}
	return list
}

// Version asks an executable which version it is, such as 2.1.329. It takes 10 ms and touches nothing.
func Version(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}
	out, err := cmd.Output()
	if err != nil {
		return "", parley.Errorf(parley.CodeUnavailable, "%s --version failed: %w", path, err)
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !strings.Contains(string(out), "Claude Code") {
		return "", parley.Errorf(parley.CodeUnavailable, "%s is not the Claude CLI: its version is %q", path, parley.Cut(strings.TrimSpace(string(out)), 80))
	}
	return version, nil
}
