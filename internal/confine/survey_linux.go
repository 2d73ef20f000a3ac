//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/parley-server/parley/internal/files"
)

const (
	maxNested = 512  // folders in one another
	maxRepos  = 1000 // repositories in a workspace
	// minFile is what a file takes at least: an inode and a name.
	minFile = 4096
)

// survey is what one look at all folders below one finds.
type survey struct {
	bytes int64    // of all files
	repos []string // folders that git may take for its own, relative
	links []string // files and links with git's name, which may lead to such a folder

	seen map[inode]bool // those with several names
	err  error
}

type inode struct{ dev, ino uint64 }

// look walks through a folder. What disappears meanwhile is left out. No link is followed. With an error
// comes what was found elsewhere.
func look(dir string) (*survey, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &survey{}, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	s := &survey{seen: map[inode]bool{}}
	s.walk(fd, ".", 0)
	if s.err == nil && len(s.repos)+len(s.links) > maxRepos {
		s.err = fmt.Errorf("the workspace has more than %d git repositories", maxRepos)
	}
	return s, s.err
}

// lost remembers the first error. The walk goes on: what is elsewhere matters all the more.
func (s *survey) lost(err error) {
	if s.err == nil {
		s.err = err
	}
}

// walk walks through an open folder and closes it.
func (s *survey) walk(fd int, at string, depth int) {
	dir := os.NewFile(uintptr(fd), at)
	defer dir.Close() //nolint:errcheck // nothing was written
	if depth > maxNested {
		s.lost(fmt.Errorf("folders are nested more than %d deep: %.100s", maxNested, at))
		return
	}
	var head, objects, refs, common bool
	for {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			switch name {
			case "HEAD":
				head = true
			case "objects":
				objects = true
			case "refs":
				refs = true
			case "commondir":
				common = true
			}
			s.entry(fd, at, name, depth)
		}
		if err == io.EOF || len(names) == 0 && err == nil {
			break
		}
		if errors.Is(err, unix.ENOENT) { // it was removed
			return
		}
		if err != nil {
			s.lost(err)
			break
		}
	}
	if head && (common || objects && refs) && !files.IsGit(path.Base(at)) {
		s.repos = append(s.repos, at)
	}
}

// foreign reports whether an open folder is somebody else's.
func foreign(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Uid != uint32(os.Geteuid())
}

func (s *survey) entry(fd int, at, name string, depth int) {
	var st unix.Stat_t
	switch err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES) && foreign(fd):
		return
	case err != nil:
		s.lost(&os.PathError{Op: "look at", Path: path.Join(at, name), Err: err})
		return
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR || st.Nlink < 2 || !s.seen[inode{st.Dev, st.Ino}] {
		s.bytes += max(minFile, st.Blocks*512)
		if kind != unix.S_IFDIR && st.Nlink > 1 {
			s.seen[inode{st.Dev, st.Ino}] = true
		}
	}
	if files.IsGit(name) {
		if full := path.Join(at, name); kind == unix.S_IFDIR {
			s.repos = append(s.repos, full)
		} else {
			s.links = append(s.links, full)
		}
	}
	if kind != unix.S_IFDIR {
		return
	}
	sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return // another one has taken its place
	case errors.Is(err, unix.EACCES) && st.Uid != uint32(os.Geteuid()):
		return // somebody else's: no command can have made it, or can read it
	case err != nil:
		s.lost(&os.PathError{Op: "open", Path: path.Join(at, name), Err: err})
		return
	}
	s.walk(sub, path.Join(at, name), depth+1)
}
