// Package backup puts a data folder into one file while a server uses it, and back.
//
// [Make] writes a tar file: first the files, then the databases as they were at one moment
// each, and last backup.json, a list of everything with checksums. So a file that was cut off
// anywhere is recognised. It is written under another name beside the target, synced and then
// renamed: after a crash at any point there is no target, or a whole one.
//
// What fits what: a step that retention takes out of the log is in the archive before it leaves
// the database. So the archive is read after the moment of the database, and has all that the
// database lacks. A session that was deleted in between may have lost its archive by then; it is
// deleted in the backup, too.
//
// [Restore] checks everything before a folder appears. Names and links in the file lead nowhere
// outside of it.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parley-server/parley"
)

// List is the name of the list, which is the last file of a backup.
const List = "backup.json"

// format is the version of a backup's form.
const format = 1

// Contents is what a backup says of itself.
type Contents struct {
	Format  int       `json:"format"`
	Version string    `json:"parley"`  // that made it
	Moment  time.Time `json:"moment"`  // what was acknowledged before is in it
	Files   []File    `json:"files"`   // also folders and links
	Deleted []string  `json:"deleted"` // sessions that were deleted meanwhile
}

// File is an entry.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// Options of Make.
type Options struct {
	Data    string // the data folder
	Target  string // a file that does not exist, ending in .tar, .tar.gz or .tgz
	Version string
	Now     time.Time
	// Databases are files in the folder that Snapshot copies at one moment, in this order.
	Databases []string
	Snapshot  func(ctx context.Context, from, to string) error
	// Archive is the folder that holds a folder for each session, by its id. Forget removes
	// sessions from the copy of the first database.
	Archive string
	Forget  func(ctx context.Context, database string, sessions []string) error
	// Skip are names in the folder that belong to the process that uses it, or that a server
	// makes again.
	Skip []string
	// At is called before each step, for tests; an error ends it.
	At func(point string) error
}

const partial = ".partial-" // in the name of a backup that is being written

// Make makes a backup, and returns what is in it.
func Make(ctx context.Context, o Options) (c Contents, err error) {
	if o.At == nil {
		o.At = func(string) error { return nil }
	}
	if _, err := os.Lstat(o.Target); err == nil {
		return c, parley.Errorf(parley.CodeConflict, "%s exists", o.Target).WithHint("choose another name, or remove it")
	}
	work, done, err := workFolder(o.Target)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, done()) }()

	before, err := names(filepath.Join(o.Data, o.Archive))
	if err != nil {
		return c, err
	}
	c = Contents{Format: format, Version: o.Version, Moment: o.Now.UTC().Truncate(time.Millisecond), Deleted: []string{}}
	var copies []string
	for _, name := range o.Databases {
		if err := o.At("database " + name); err != nil {
			return c, err
		}
		err := o.Snapshot(ctx, filepath.Join(o.Data, name), filepath.Join(work, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		copies = append(copies, name)
	}

	half := filepath.Join(work, "backup")
	out, err := os.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return c, err
	}
	defer out.Close()
	w := newWriter(out, o.Target, &c)
	if err := w.folder(ctx, o); err != nil {
		return c, err
	}
	after, err := names(filepath.Join(o.Data, o.Archive))
	if err != nil {
		return c, err
	}
	for _, id := range before {
		if !slices.Contains(after, id) {
			c.Deleted = append(c.Deleted, id)
		}
	}
	if len(c.Deleted) > 0 && len(copies) > 0 && copies[0] == o.Databases[0] {
		if err := o.Forget(ctx, filepath.Join(work, copies[0]), c.Deleted); err != nil {
			return c, err
		}
	}
	for _, name := range copies {
		if err := o.At("add " + name); err != nil {
			return c, err
		}
		if err := w.file(ctx, filepath.Join(work, name), name); err != nil {
			return c, err
		}
	}
	if err := o.At("list"); err != nil {
		return c, err
	}
	if err := w.end(o.Now); err != nil {
		return c, err
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return c, err
	}
	if err := o.At("rename"); err != nil {
		return c, err
	}
	// A link, since a rename would replace what has appeared there meanwhile.
	if err := os.Link(half, o.Target); errors.Is(err, fs.ErrExist) {
		return c, parley.Errorf(parley.CodeConflict, "%s exists", o.Target).WithHint("choose another name, or remove it")
	} else if err != nil {
		if err := os.Rename(half, o.Target); err != nil {
			return c, err
		}
	}
	return c, syncDir(filepath.Dir(o.Target))
}

// names lists a folder; nothing if it does not exist.
func names(dir string) (out []string, err error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out, err
}

// workFolder makes a folder beside the target, locked while it is in use, and removes those of
// processes that have died.
func workFolder(target string) (dir string, done func() error, err error) {
	base := "." + filepath.Base(target) + partial
	old, err := filepath.Glob(filepath.Join(filepath.Dir(target), strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(base)+"*"))
	if err != nil {
		return "", nil, err
	}
	for _, left := range old {
		f, err := os.Open(left)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(left)
		}
		_ = f.Close()
	}
	if dir, err = os.MkdirTemp(filepath.Dir(target), base+"*"); err != nil {
		return "", nil, parley.Errorf(parley.CodeUnavailable, "write beside %s: %w", target, err).WithHint("choose a folder that can be written")
	}
	f, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), f.Close()) }, nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writer writes the entries of a backup.
type writer struct {
	tar  *tar.Writer
	zip  *gzip.Writer // nil: not compressed
	list *Contents
}

func newWriter(out io.Writer, name string, list *Contents) *writer {
	w := &writer{list: list}
	if strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".tgz") {
		w.zip = gzip.NewWriter(out)
		out = w.zip
	}
	w.tar = tar.NewWriter(out)
	return w
}

// folder adds the files of the data folder, apart from the databases.
func (w *writer) folder(ctx context.Context, o Options) error {
	return filepath.WalkDir(o.Data, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return parley.Errorf(parley.CodeCancelled, "the backup was interrupted: %w", context.Cause(ctx))
		case errors.Is(err, fs.ErrNotExist) && path != o.Data:
			return nil // it was removed meanwhile
		case err != nil:
			return err
		}
		name, err := filepath.Rel(o.Data, path)
		if err != nil || name == "." {
			return err
		}
		if o.skips(name) {
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		name = filepath.ToSlash(name)
		if !e.IsDir() && !strings.Contains(name, "/") || strings.HasPrefix(name, o.Archive+"/") {
			if err := o.At("file " + name); err != nil {
				return err
			}
		}
		switch {
		case e.IsDir():
			return w.plain(path, name+"/", tar.TypeDir)
		case e.Type() == fs.ModeSymlink:
			return w.plain(path, name, tar.TypeSymlink)
		case e.Type().IsRegular():
			return w.file(ctx, path, name)
		}
		return nil // sockets and pipes
	})
}

func (o Options) skips(name string) bool {
	for _, db := range o.Databases {
		for _, end := range []string{"", "-wal", "-shm", "-journal"} {
			if name == db+end {
				return true
			}
		}
	}
	return slices.Contains(o.Skip, name) || name == List || strings.HasPrefix(name, o.Archive+string(filepath.Separator)) && strings.HasSuffix(name, ".half")
}

// plain adds a folder or a symbolic link.
func (w *writer) plain(path, name string, kind byte) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: kind, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	if kind == tar.TypeSymlink {
		if h.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
	}
	w.list.Files = append(w.list.Files, File{Name: name, Link: h.Linkname})
	return w.tar.WriteHeader(h)
}

// file adds a file as it is now. One that is replaced meanwhile is added as it was opened; of one
// that grows, what there was at the beginning. One that gets shorter meanwhile is filled up with
// zeros, as its size is written first: it was being written anew when the backup was made.
func (w *writer) file(ctx context.Context, path, name string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	sum := sha256.New()
	to := io.MultiWriter(w.tar, sum)
	left := info.Size()
	for block := make([]byte, 256<<10); left > 0; {
		if ctx.Err() != nil {
			return parley.Errorf(parley.CodeCancelled, "the backup was interrupted: %w", context.Cause(ctx))
		}
		part := block[:min(left, int64(len(block)))]
		n, err := io.ReadFull(f, part)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		clear(part[n:])
		if _, err := to.Write(part); err != nil {
			return err
		}
		left -= int64(len(part))
	}
	w.list.Files = append(w.list.Files, File{Name: name, Size: info.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// end adds the list.
func (w *writer) end(at time.Time) error {
	raw, err := json.MarshalIndent(w.list, "", " ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: List, Size: int64(len(raw)), Mode: 0o600, ModTime: at, Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := w.tar.Write(raw); err != nil {
		return err
	}
	if err := w.tar.Close(); err != nil {
		return err
	}
	if w.zip != nil {
		return w.zip.Close()
	}
	return nil
}
