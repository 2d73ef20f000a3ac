package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/confine"
)

// The folder may be changed by programs that are not trusted, also while git runs: a log of git's that is a link has git write
// where it leads, and a file `shallow` that is one has git read and repeat what is there. So git on this machine gets a fence: it
// reaches the working tree, what is ours, the system's programs, and the objects that the repository borrows.

// canFence reports whether git runs inside a fence here.
func (r *Repo) canFence(ctx context.Context, home string) bool {
	if !confine.CanFence() {
		return false
	}
	f, err := confine.Fence{Read: []string{r.prog.path}, Write: []string{r.private}}.Build()
	if err == nil {
		_, err = r.prog.run(ctx, command{args: []string{"version"}, dir: home, fence: f})
	}
	if err != nil {
		r.log.Warn("git: it does not run inside a fence, so links of a repository are followed", "err", err)
	}
	return err == nil
}

// fenced is a fence with what it was built from.
type fenced struct {
	fence *confine.Fenced
	of    string
}

// fence is around a command; nil: there is none. It is built anew when a folder was replaced or the repository borrows elsewhere.
func (r *Repo) fence() (*confine.Fenced, error) {
	if !r.fenced {
		return nil, nil
	}
	f := confine.Fence{Read: []string{r.prog.path}, Write: []string{r.dir, r.private}}
	for from := []string{filepath.Join(r.gitDir, "objects")}; len(from) > 0 && len(f.Read) < maxAlternates; from = from[1:] {
		list, err := alternates(from[0])
		if err != nil {
			return nil, err
		}
		for _, dir := range list {
			if !slices.Contains(f.Read, dir) {
				f.Read, from = append(f.Read, dir), append(from, dir)
			}
		}
	}
	of := fmt.Sprint(f)
	for _, dir := range f.Write {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, unavailable(err)
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			of += fmt.Sprint(" ", s.Dev, s.Ino)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.of != of {
		built, err := f.Build()
		if err != nil {
			return nil, unavailable(err)
		}
		r.last = fenced{built, of}
	}
	return r.last.fence, nil
}

// maxAlternates is how many repositories objects are borrowed from; git does not go far, either.
const maxAlternates = 20

// alternates are the folders that a folder of objects borrows from, as git clone --shared writes them. Commands of an agent
// cannot, see package confine.
func alternates(objects string) (list []string, err error) {
	text, err := small(filepath.Join(objects, "info", "alternates"), maxInfo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for at := range strings.Lines(string(text)) {
		if at = strings.TrimRight(at, "\n"); at == "" || at[0] == '#' {
			continue
		}
		if !filepath.IsAbs(at) {
			at = filepath.Join(objects, at)
		}
		list = append(list, filepath.Clean(at))
	}
	return list, unsafe(err)
}

// plain says which part of the repository is a link. Commands that speak with a remote have no fence, since they need the
// network, keys, and folders of others.
func (r *Repo) plain() error {
	for _, name := range []string{"shallow", "packed-refs", "logs", "refs", "objects"} {
		err := filepath.WalkDir(filepath.Join(r.gitDir, name), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // it has been removed
			case err != nil:
				return err
			case d.Type()&(fs.ModeSymlink|fs.ModeNamedPipe) != 0:
				return &os.PathError{Op: "open", Path: path, Err: errors.New("it is a link or a pipe")}
			case d.IsDir() && name == "objects" && filepath.Dir(path) == filepath.Join(r.gitDir, name) && len(d.Name()) == 2:
				return fs.SkipDir // of loose objects there are many, and what is not right is not read
			}
			return nil
		})
		if err != nil {
			return unsafe(err)
		}
	}
	return nil
}

func unsafe(err error) error {
	if err == nil {
		return nil
	}
	return parley.Errorf(parley.CodeInvalid, "the repository is not worked with: %w", err).WithHint("its own files have to be files; until then nothing is committed")
}
