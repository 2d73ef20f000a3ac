//go:build amd64 || arm64

package confine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/parley-server/parley/internal/files"
)

// guard finds in a workspace what decides about agents or what git runs, and was not there at the
// start. It trusts nothing that a command may have made: a repository of it is left alone only if
// its settings are harmless and it has no hooks.
type guard struct {
	root  *os.Root
	names bool // the first level has guarded names
	start Start
}

// maxConfig is the largest configuration that is read.
const maxConfig = 256 << 10

// identify returns the identity of something. A link is not followed.
func (g *guard) identify(name string) (Kept, error) {
	dir, err := g.root.Open(path.Dir(name))
	if err != nil {
		return Kept{}, err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), path.Base(name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return Kept{}, &os.PathError{Op: "look at", Path: name, Err: err}
	}
	k := Kept{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		k.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return k, nil
}

// keep remembers something that is there.
func (g *guard) keep(name string) error {
	k, err := g.identify(name)
	if err == nil {
		g.start.Kept = append(g.start.Kept, k)
	}
	return err
}

// was reports whether something was there at the start.
func (g *guard) was(name string) bool {
	k, err := g.identify(name)
	return err == nil && slices.Contains(g.start.Kept, k)
}

// bad is something in a workspace that must not stay. An error counts as such: what cannot be looked at
// may be anything.
func (g *guard) bad(s *survey) (name string, err error) {
	for look := range g.looks(s) {
		if name, err = look(); name != "" || err != nil {
			return name, err
		}
	}
	return "", nil
}

// looks are the places of a workspace that may have something that must not stay.
func (g *guard) looks(s *survey) iter.Seq[func() (string, error)] {
	return func(yield func(func() (string, error)) bool) {
		if !yield(g.badName) {
			return
		}
		for _, name := range g.start.Named {
			if !yield(func() (string, error) {
				if g.there(name) && !g.was(name) {
					return name, nil
				}
				return "", nil
			}) {
				return
			}
		}
		for _, link := range s.links {
			if !yield(func() (string, error) { return g.badLink(link) }) {
				return
			}
		}
		for _, dir := range s.repos {
			if !yield(func() (string, error) { return g.badRepo(dir, 0) }) {
				return
			}
		}
	}
}

// badName returns a name of the first level that was not there.
func (g *guard) badName() (string, error) {
	if !g.names {
		return "", nil
	}
	list, err := g.list(".")
	if err != nil {
		return "", err
	}
	for _, name := range list {
		if files.Guarded(name) && !g.was(name) && g.there(name) {
			return name, nil
		}
	}
	return "", nil
}

func (g *guard) there(name string) bool {
	_, err := g.root.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

func (g *guard) list(dir string) ([]string, error) {
	f, err := g.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return f.Readdirnames(-1)
}

// badLink looks at a file or link with git's name: it has to lead to a folder in the workspace.
func (g *guard) badLink(link string) (string, error) {
	if g.was(link) || !g.there(link) {
		return "", nil
	}
	to, ok := g.follow(link)
	if !ok {
		return link, nil
	}
	return g.badRepo(to, 0)
}

// follow returns the folder in the workspace to which a file or link with git's name leads.
func (g *guard) follow(link string) (string, bool) {
	info, err := g.root.Lstat(link)
	if err != nil {
		return "", false
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := g.root.Readlink(link)
		if err != nil {
			return "", false
		}
		return g.inside(path.Dir(link), to)
	}
	text, err := g.read(link)
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	if err != nil || !ok {
		return "", false
	}
	return g.inside(path.Dir(link), to)
}

// inside returns a path that a file in dir names, relative to the workspace, if a folder of it is there.
func (g *guard) inside(dir, to string) (string, bool) {
	if rest, ok := strings.CutPrefix(to, Workspace+"/"); ok {
		dir, to = ".", rest
	}
	if path.IsAbs(to) || strings.ContainsRune(to, 0) {
		return "", false
	}
	to = path.Join(dir, to)
	info, err := g.root.Stat(to)
	return to, err == nil && info.IsDir()
}

// read reads a small file that has no other name.
func (g *guard) read(name string) (string, error) {
	f, err := g.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || st.Size > maxConfig {
		return "", fmt.Errorf("%s is not a small file with one name", name)
	}
	text := make([]byte, st.Size)
	n, err := f.ReadAt(text, 0)
	if n < len(text) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(text), nil
}

// repoParts are what git may run or be told by, in a folder of its own.
var repoParts = []string{"config", "config.worktree", "hooks", "commondir", "objects/info/alternates", "remotes", "branches", "rebase-merge", "rebase-apply"}

// ownParts are what git reads and writes in a folder of its own, what is around another before it. As a link to elsewhere it
// would have git do so there.
var ownParts = []string{"logs", "logs/HEAD", "logs/refs", "logs/refs/heads", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/remotes", "refs/tags", "HEAD", "index", "packed-refs", "shallow"}

// badRepo returns what is not harmless in a folder that git may take for its own.
func (g *guard) badRepo(dir string, depth int) (string, error) {
	for _, part := range repoParts {
		name := path.Join(dir, part)
		if !g.there(name) || g.was(name) || g.harmless(dir, part) || !g.there(name) {
			continue
		}
		return name, nil
	}
	for _, part := range ownParts {
		if name := path.Join(dir, part); g.outside(name) && !g.was(name) {
			return name, nil
		}
	}
	if to, ok := g.common(dir); ok && to != dir && depth < 4 {
		return g.badRepo(to, depth+1)
	} else if ok && to != dir {
		return path.Join(dir, "commondir"), nil
	}
	return "", nil
}

// outside reports whether something is a link that does not lead to a folder in the workspace.
func (g *guard) outside(name string) bool {
	to, err := g.root.Readlink(name)
	if err != nil {
		return false
	}
	_, ok := g.inside(path.Dir(name), to)
	return !ok
}

// harmless reports whether a part of a repository makes git run nothing.
func (g *guard) harmless(dir, part string) bool {
	name := path.Join(dir, part)
	info, err := g.root.Lstat(name)
	if err != nil {
		return false
	}
	switch part {
	case "config", "config.worktree":
		text, err := g.read(name)
		return err == nil && harmless(text, func(to string) bool {
			_, ok := g.inside(dir, to)
			return ok && !strings.ContainsAny(to, "#;")
		})
	case "commondir":
		_, ok := g.common(dir)
		return ok
	case "objects/info/alternates":
		text, err := g.read(name)
		for to := range strings.Lines(text) {
			if _, ok := g.inside(path.Join(dir, "objects"), strings.TrimRight(to, "\n")); !ok {
				return false
			}
		}
		return err == nil
	}
	if !info.IsDir() {
		return false
	}
	list, err := g.list(name)
	switch part {
	case "hooks":
		return err == nil && !slices.ContainsFunc(list, func(n string) bool { return !strings.HasSuffix(n, ".sample") })
	case "remotes", "branches":
		return err == nil && len(list) == 0
	}
	if !slices.Contains(list, "git-rebase-todo") {
		return err == nil
	}
	text, err := g.read(path.Join(name, "git-rebase-todo"))
	return err == nil && !runs(text)
}

// common returns the folder in the workspace that a repository shares with others.
func (g *guard) common(dir string) (string, bool) {
	text, err := g.read(path.Join(dir, "commondir"))
	if err != nil {
		return "", false
	}
	return g.inside(dir, strings.TrimRight(text, "\r\n"))
}

// aside gives something another name, and returns it.
func (g *guard) aside(name string) string {
	for i := range 20 {
		to := path.Join(path.Dir(name), strings.TrimLeft(path.Base(name), ".")+".refused")
		if i > 9 { // a command may have taken all that it could think of
			to += rand.Text()
		} else if i > 0 {
			to += fmt.Sprint(i)
		}
		if _, err := g.root.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if g.root.Rename(name, to) != nil {
			return ""
		}
		return to
	}
	return ""
}

// settle gives everything bad another name, and returns the first with the name it has now, and what it
// has found. The error says what could not be looked at or renamed.
func (g *guard) settle(dir string) (name, moved string, s *survey, err error) {
	for range 5 { // what was renamed may be something else now, or have been reached by a link
		if s, err = look(dir); len(s.repos)+len(s.links) > 100*maxRepos {
			return name, moved, s, err
		}
		again := false
		for look := range g.looks(s) {
			for range 4 * len(repoParts) {
				b, lost := look()
				if err = errors.Join(err, lost); b == "" {
					break
				}
				again = true
				to := g.aside(b)
				if name == "" {
					name, moved = b, to
				}
				if to == "" && g.there(b) {
					err = errors.Join(err, fmt.Errorf("%s cannot be renamed", b))
					break
				}
			}
		}
		if !again {
			return name, moved, s, err
		}
	}
	return name, moved, s, errors.Join(err, errors.New("there is too much that must not stay"))
}

// settle looks at the workspace of a command whose helper was killed.
func (j Job) settle(start Start) (name, moved string, err error) {
	root, err := os.OpenRoot(j.Workspace.Path)
	if err != nil {
		return "", "", err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	g := &guard{root: root, names: len(j.Guarded) > 0, start: start}
	if is, err := g.identify("."); err != nil || is.Inode != j.Workspace.Inode {
		return "", "", errors.Join(err, errors.New("the workspace was replaced"))
	}
	name, moved, _, err = g.settle(j.Workspace.Path)
	return name, moved, err
}
