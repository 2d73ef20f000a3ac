// Command release tags a commit that has the built pages in it.
//
//	go run ./internal/release v0.2.0
//
// The built pages are not in Git, but a Go module contains only what its tag contains:
// importing a plain commit would give a server without pages. So the tagged commit is on no
// branch. Its parent is HEAD, and it adds web/dist. Everything is checked before the tag is
// made, and nothing is pushed.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/parley-server/parley/internal/program"
)

const dist = "web/dist"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "release: name the version, such as v0.2.0")
		os.Exit(2)
	}
	commit, err := tag(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Printf("%s is %s, with the pages.\nPublish it: git push origin %[1]s\n", os.Args[1], commit)
}

// tag makes the tag of a version in the repository at dir, and returns its commit.
func tag(dir, version string) (commit string, err error) {
	r := repository{dir: dir}
	if err := r.ready(version); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp("", "parley-release-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	r.index = filepath.Join(tmp, "index") // a temporary index: the work tree's own stays as it is
	if _, err := r.git("read-tree", "HEAD"); err != nil {
		return "", err
	}
	if _, err := r.git("add", "--force", "--all", dist); err != nil {
		return "", err
	}
	tree, err := r.git("write-tree")
	if err != nil {
		return "", err
	}
	if commit, err = r.git("commit-tree", tree, "-p", "HEAD", "-m", "Parley "+version+", with the pages"); err != nil {
		return "", err
	}
	_, err = r.git("tag", "--annotate", "-m", "Parley "+version, version, commit)
	return commit, err
}

type repository struct{ dir, index string }

func (r repository) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, os.Environ()
	if r.index != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+r.index)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, errs.Bytes())
	}
	return strings.TrimSpace(out.String()), nil
}

// ready returns an error if the version cannot be released.
func (r repository) ready(version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is not a version such as v0.2.0", version)
	}
	if own := "v" + program.Version; strings.TrimSuffix(version, semver.Prerelease(version)) != own {
		return fmt.Errorf("the program's version is %s; change it first, and the one in the add-on's config.yaml", own)
	}
	if _, err := os.Stat(filepath.Join(r.dir, dist, "index.html")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the pages are not built: make build")
	}
	if out, err := r.git("status", "--porcelain"); err != nil || out != "" {
		return errors.Join(err, fmt.Errorf("not everything is committed:\n%s", out))
	}
	raw, err := os.ReadFile(filepath.Join(r.dir, "go.mod"))
	if err != nil {
		return err
	}
	mod, err := modfile.Parse("go.mod", raw, nil)
	if err != nil {
		return err
	}
	if len(mod.Replace) > 0 {
		return fmt.Errorf("go.mod replaces %s, which has no effect for programs that import this module", mod.Replace[0].Old.Path)
	}
	return nil
}
