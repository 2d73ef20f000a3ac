package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-server/parley"
)

// change is a difference of a file between two states.
type change struct {
	path             string
	was, is          string // blobs; of what is not stored yet, zeros
	wasMode, nowMode string // "000000": it is not there
	status           byte   // as git says it; U: it is in conflict
}

const (
	absent     = "000000"
	symlink    = "120000"
	gitlink    = "160000" // a repository in the repository
	executable = "100755"
)

// changes reads the output of diff-index, diff-files and diff-tree with --raw -z --no-renames.
func changes(out []byte) (list []change, err error) {
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(out) == 0 {
		return nil, nil
	}
	if len(fields)%2 != 0 {
		return nil, parley.Errorf(parley.CodeInternal, "git's list of differences cannot be read")
	}
	for i := 0; i < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, parley.Errorf(parley.CodeInternal, "git's list of differences cannot be read")
		}
		list = append(list, change{path: fields[i+1], wasMode: f[0], nowMode: f[1], was: f[2], is: f[3], status: f[4][0]})
	}
	return list, nil
}

// info are entries of an index for update-index --index-info, as they are after the changes.
func info(list []change, zero string) []byte {
	var b bytes.Buffer
	for _, c := range list {
		if c.nowMode == absent {
			fmt.Fprintf(&b, "0 %s\t%s\x00", zero, c.path)
			continue
		}
		fmt.Fprintf(&b, "%s %s\t%s\x00", c.nowMode, c.is, c.path)
	}
	return b.Bytes()
}

// index is a copy of the repository's index, which somebody else cannot change meanwhile.
type index struct {
	r    *Repo
	path string
}

// copyIndex copies the index into a folder of ours. Git's lock of it is held. The copy has the time
// of the original: by it git tells which files may have changed since without looking changed.
func (r *Repo) copyIndex(dir, name string) (index, error) {
	x := index{r, filepath.Join(dir, name)}
	return x, clone(filepath.Join(r.gitDir, "index"), x.path)
}

// copy makes another copy.
func (x index) copy(name string) (index, error) {
	y := index{x.r, filepath.Join(filepath.Dir(x.path), name)}
	return y, clone(x.path, y.path)
}

// clone copies a file with its time. None becomes none.
func clone(from, to string) error {
	f, err := os.OpenFile(filepath.Clean(from), os.O_RDONLY|noFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unavailable(err)
		}
		return nil
	}
	if err != nil {
		return unavailable(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", filepath.Base(from))
	}
	if err != nil {
		return unavailable(err)
	}
	out, err := os.OpenFile(filepath.Clean(to), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err != nil {
		return unavailable(err)
	}
	_, err = io.Copy(out, f)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Chtimes(to, fi.ModTime(), fi.ModTime())
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// put makes x the repository's index. Git's lock of it is held.
func (x index) put() error {
	half, at := filepath.Join(x.r.gitDir, indexName), filepath.Join(x.r.gitDir, "index")
	mode := fs.FileMode(0o644)
	if fi, err := os.Lstat(at); err == nil {
		mode = fi.Mode().Perm()
	}
	if err := os.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable(err)
	}
	err := clone(x.path, half)
	if err == nil {
		err = os.Chmod(half, mode)
	}
	if err == nil {
		err = x.r.point("index")
	}
	if err == nil {
		err = os.Rename(half, at)
	}
	if err != nil && !isCrash(err) {
		return unavailable(err)
	}
	return err
}

func (x index) git(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	return x.r.git(ctx, x.path, in, args...)
}

// set changes entries.
func (x index) set(ctx context.Context, list []change, zero string) error {
	if len(list) == 0 {
		return nil
	}
	_, err := x.git(ctx, info(list, zero), "update-index", "-z", "--index-info")
	return err
}

// refresh looks which files of the working tree are as x has them, so that x remembers it. Files
// that are not are no error.
func (x index) refresh(ctx context.Context) error {
	_, err := x.git(ctx, nil, "update-index", "-q", "--refresh", "--ignore-submodules")
	if exits(err, 1) {
		return nil
	}
	return err
}

// against lists how x differs from a commit; "" has no files.
func (x index) against(ctx context.Context, commit string) ([]change, error) {
	if commit == "" {
		empty, err := x.r.emptyTree(ctx)
		if err != nil {
			return nil, err
		}
		commit = empty
	}
	out, err := x.git(ctx, nil, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules", commit, "--")
	if err != nil {
		return nil, err
	}
	return changes(out)
}

// tree writes x as a tree.
func (x index) tree(ctx context.Context) (string, error) {
	return line(x.git(ctx, nil, "write-tree"))
}
