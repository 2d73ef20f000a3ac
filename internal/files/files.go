// Package files reads and changes the files below one folder, such as a workspace, and
// reaches nothing else, whatever a path says and whatever others do to the folder meanwhile.
//
// A path is relative to the folder and uses slashes. [Clean] says what a path means. The text alone
// decides that, because no link is ever followed: neither a symbolic link in any element, nor a
// file that has a second name (a hard link), which may be outside. So a rule about a path holds for
// the file that is reached. A name has to be spelt as it is on disk, even where the file system ignores case or Unicode forms. Nothing is read or written in .git.
//
// A file is replaced as a whole: a crash leaves the old content or the new one. A change states
// the [Version] that it is based on, and is refused when the file has another. Changes by this
// process to one file happen one after the other. Between that check and the replacement another
// process can still change the file; operating systems offer nothing to prevent that.
//
// Methods are safe for concurrent use.
package files

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// MaxFile is the most bytes of a file that is read or written as a whole.
const MaxFile = 32 << 20

// Version identifies a file's content: its SHA-256 in hexadecimal. Empty: there is no file.
type Version = parley.Digest

// VersionOf is the version of a file with that content.
func VersionOf(body []byte) Version {
	sum := sha256.Sum256(body)
	return Version(hex.EncodeToString(sum[:]))
}

// VersionFrom is the version of a file with the content that r has.
func VersionFrom(r io.Reader) (Version, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", err
	}
	return Version(hex.EncodeToString(sum.Sum(nil))), nil
}

// Tree is the files of an open folder. The folder stays its caller's to close.
type Tree struct{ root *os.Root }

// Of returns the files of a folder.
func Of(root *os.Root) Tree { return Tree{root} }

// Info describes a file or folder.
type Info struct {
	Path     string
	Dir      bool
	Size     int64 // in bytes; 0 for a folder
	Mode     fs.FileMode
	Modified time.Time
	// Changed is when content or attributes changed, which nobody can set, and ID is the file's number in its file
	// system; zero where they are not known.
	Changed time.Time
	ID      uint64
}

// place is a name in an open folder.
type place struct {
	dir  *os.Root
	name string
	path string // for messages
	own  bool   // dir is to be closed
}

func (p place) close() {
	if p.own {
		_ = p.dir.Close()
	}
}

// find opens the folder that holds a file, without following links. made are the folders that it
// made on the way, if it may.
func (t Tree) find(name string, make bool) (p place, made []string, err error) {
	if name, err = Clean(name); err != nil {
		return p, nil, err
	}
	if name == "." {
		return place{t.root, ".", ".", false}, nil, nil
	}
	p = place{t.root, "", name, false}
	rest := name
	for {
		elem, after, more := strings.Cut(rest, "/")
		if !more {
			p.name = elem
			return p, made, nil
		}
		sub, err := Enter(p.dir, elem)
		so := strings.TrimSuffix(name, "/"+after)
		if make && errors.Is(err, fs.ErrNotExist) {
			switch err = p.dir.Mkdir(elem, 0o755); {
			case err == nil:
				made = append(made, so)
			case errors.Is(err, fs.ErrExist):
				err = nil
			}
			if err == nil {
				sub, err = Enter(p.dir, elem)
			}
		}
		p.close()
		if err != nil {
			return place{}, made, said(err, so, name)
		}
		p.dir, p.own, rest = sub, true, after
	}
}

// Stat describes a file or folder.
func (t Tree) Stat(name string) (Info, error) {
	p, _, err := t.find(name, false)
	if err != nil {
		return Info{}, err
	}
	defer p.close()
	if p.name == "." {
		return Info{Path: ".", Dir: true}, nil
	}
	fi, err := p.look()
	if err != nil {
		return Info{}, err
	}
	return infoOf(p.path, fi), nil
}

func infoOf(name string, fi fs.FileInfo) Info {
	in := Info{Path: name, Dir: fi.IsDir(), Mode: fi.Mode().Perm(), Modified: fi.ModTime()}
	if !in.Dir {
		in.Size = fi.Size()
	}
	in.Changed, in.ID = identity(fi)
	return in
}

// look describes a folder, or a file that is not reached by a link.
func (p place) look() (fs.FileInfo, error) {
	fi, err := p.dir.Lstat(p.name)
	if err != nil {
		return nil, said(err, p.path, p.path)
	}
	if err := plain(fi, p.path); err != nil {
		return nil, err
	}
	if err := spelt(p.dir, p.name, fi); err != nil {
		return nil, said(err, p.path, p.path)
	}
	return fi, nil
}

// plain says why a thing is neither a folder nor a file of its own.
func plain(fi fs.FileInfo, name string) error {
	switch mode := fi.Mode(); {
	case mode.IsDir():
		return nil
	case mode&fs.ModeSymlink != 0:
		return parley.Errorf(parley.CodeForbidden, "%s is a symbolic link; links are not followed here", quoted(name)).WithHint("name the file itself")
	case !mode.IsRegular():
		return parley.Errorf(parley.CodeForbidden, "%s is neither a file nor a folder", quoted(name))
	case names(fi) > 1:
		return parley.Errorf(parley.CodeForbidden, "%s is not read or changed, because the file has a second name (a hard link), which may be elsewhere", quoted(name)).
			WithHint("copy the file to a new one")
	}
	return nil
}

// open opens a regular file for reading.
func (p place) open() (*os.File, fs.FileInfo, error) {
	seen, err := p.look()
	if err != nil {
		return nil, nil, err
	}
	if seen.IsDir() {
		return nil, nil, parley.Errorf(parley.CodeInvalid, "%s is a folder, not a file", quoted(p.path))
	}
	f, err := p.dir.OpenFile(p.name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, said(err, p.path, p.path)
	}
	is, err := f.Stat()
	if err == nil && !os.SameFile(seen, is) {
		err = errMoved // it was replaced, perhaps by a link
	}
	if err == nil {
		err = plain(is, p.path)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, said(err, p.path, p.path)
	}
	return f, is, nil
}

// Open opens a file for reading. The caller closes it.
func (t Tree) Open(name string) (*os.File, Info, error) {
	p, _, err := t.find(name, false)
	if err != nil {
		return nil, Info{}, err
	}
	defer p.close()
	f, fi, err := p.open()
	if err != nil {
		return nil, Info{}, err
	}
	return f, infoOf(p.path, fi), nil
}

// Read reads a whole file. One of more than limit bytes is CodeTooLarge.
func (t Tree) Read(name string, limit int64) ([]byte, error) {
	p, _, err := t.find(name, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.read(limit)
}

func (p place) read(limit int64) ([]byte, error) {
	f, fi, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if fi.Size() > limit {
		return nil, tooLarge(p.path, fi.Size(), limit)
	}
	body, err := readAll(io.LimitReader(f, limit+1), fi.Size())
	switch {
	case err != nil:
		return nil, said(err, p.path, p.path)
	case int64(len(body)) > limit:
		return nil, tooLarge(p.path, int64(len(body)), limit)
	}
	return body, nil
}

// readAll is io.ReadAll for a file that probably has that size, without copying it as it grows.
func readAll(r io.Reader, size int64) ([]byte, error) {
	body := make([]byte, 0, size+bytes.MinRead)
	b := bytes.NewBuffer(body)
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// Change is a change of one file.
type Change struct {
	Path string
	Body []byte  // its new content
	Gone bool    // the file is deleted; Body is ignored
	Was  Version // what it was based on; "" means that there is no such file yet
	// Old is the content that Was stands for. With it the file need not be hashed. May be nil.
	Old []byte
	// Tag is part of the name of the temporary file, so that [Tree.Tidy] can remove one that a
	// crash left behind. Empty: a random one.
	Tag string
	// Mode is that of a new file; 0: 0644. A file that is there keeps its own.
	Mode fs.FileMode
	// From is the new content, of any size, in place of Body. It is read to its end.
	From io.Reader
	// Executable gives the file the permission to be run. Without From it keeps what it has.
	Executable bool
}

// Apply makes a change, and the folders that it needs. made lists these, outermost first. If the
// file is not as c.Was says, the error is CodeConflict and nothing was changed.
func (t Tree) Apply(c Change) (made []string, err error) {
	if int64(len(c.Body)) > MaxFile {
		return nil, tooLarge(c.Path, int64(len(c.Body)), MaxFile)
	}
	p, made, err := t.find(c.Path, !c.Gone && c.Was == "")
	if err != nil {
		return made, err
	}
	defer p.close()
	if p.name == "." {
		return made, parley.Errorf(parley.CodeInvalid, "the path names the whole folder, not a file")
	}
	unlock := lock(filepath.Join(t.root.Name(), p.path)) // the same whichever folder the tree begins at
	defer unlock()
	mode, err := p.check(c.Was, c.Old)
	if err != nil {
		return made, err
	}
	if c.Was == "" && c.Mode != 0 {
		mode = c.Mode.Perm()
	}
	if c.From != nil {
		if mode &^= 0o111; c.Executable {
			mode |= mode & 0o444 >> 2
		}
	}
	if c.Gone {
		if c.Was == "" {
			return made, nil
		}
		if err := p.dir.Remove(p.name); err != nil {
			return made, said(err, p.path, p.path)
		}
		return made, p.sync()
	}
	return made, p.replace(c, mode)
}

// check compares a file with the version that a change is based on, and returns its mode.
func (p place) check(was Version, old []byte) (fs.FileMode, error) {
	switch fi, err := p.look(); {
	case errors.Is(err, fs.ErrNotExist) && was == "":
		return 0o644, nil
	case errors.Is(err, fs.ErrNotExist):
		return 0, changed(p.path, "is not there any more")
	case err != nil:
		return 0, err
	case fi.IsDir():
		return 0, parley.Errorf(parley.CodeInvalid, "%s is a folder, not a file", quoted(p.path))
	case was == "":
		return 0, changed(p.path, "exists already")
	default:
		same, err := p.is(was, old)
		if err != nil {
			return 0, err
		}
		if !same {
			return 0, changed(p.path, "has changed since it was read")
		}
		return fi.Mode().Perm(), nil
	}
}

// is reports whether a file still has the content of a version.
func (p place) is(was Version, old []byte) (bool, error) {
	if old == nil {
		now, err := p.version()
		return now == was, err
	}
	f, fi, err := p.open()
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if fi.Size() != int64(len(old)) {
		return false, nil
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := f.Read(buf)
		if n > len(old) || !bytes.Equal(buf[:n], old[:n]) {
			return false, nil
		}
		switch old = old[n:]; {
		case errors.Is(err, io.EOF):
			return len(old) == 0, nil
		case err != nil:
			return false, said(err, p.path, p.path)
		}
	}
}

// version is the version of a file of any size.
func (p place) version() (Version, error) {
	f, _, err := p.open()
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", said(err, p.path, p.path)
	}
	return Version(hex.EncodeToString(sum.Sum(nil))), nil
}

// Version is the version of a file of any size.
func (t Tree) Version(name string) (Version, error) {
	p, _, err := t.find(name, false)
	if err != nil {
		return "", err
	}
	defer p.close()
	return p.version()
}

// temporary begins the names of files that are being written.
const temporary = ".parley-new-"

// replace writes the new content beside the file and puts it in the file's place.
func (p place) replace(c Change, mode fs.FileMode) (err error) {
	tag := c.Tag
	if tag == "" {
		tag = rand.Text()
	}
	name := TemporaryName(tag)
	_ = p.dir.Remove(name) // of an attempt that a crash ended
	f, err := p.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return said(err, p.path, p.path)
	}
	defer func() {
		if err != nil {
			_ = p.dir.Remove(name)
			err = said(err, p.path, p.path)
		}
	}()
	if c.From != nil {
		_, err = io.Copy(f, c.From)
	} else {
		_, err = f.Write(c.Body)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if other := f.Close(); err == nil {
		err = other
	}
	if err == nil {
		err = p.dir.Rename(name, p.name)
	}
	if err == nil {
		err = p.sync()
	}
	return err
}

// TemporaryName is the name of the file beside a file in which a change with that tag is written.
func TemporaryName(tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return temporary + hex.EncodeToString(sum[:8])
}

// Tidy removes the temporary file that a change with that tag left behind.
func (t Tree) Tidy(name, tag string) {
	p, _, err := t.find(name, false)
	if err != nil || p.name == "." {
		return
	}
	defer p.close()
	_ = p.dir.Remove(TemporaryName(tag))
}

// RemoveEmpty removes folders that are empty, innermost first; others stay.
func (t Tree) RemoveEmpty(dirs ...string) {
	for i := len(dirs) - 1; i >= 0; i-- {
		p, _, err := t.find(dirs[i], false)
		if err != nil {
			continue
		}
		if fi, err := p.dir.Lstat(p.name); p.name != "." && err == nil && fi.IsDir() {
			_ = p.dir.Remove(p.name) // fails unless it is empty
		}
		p.close()
	}
}

// sync makes the names in the folder durable.
func (p place) sync() error {
	dir, err := p.dir.Open(".")
	if err != nil {
		return said(err, p.path, p.path)
	}
	defer dir.Close() //nolint:errcheck // it is only synced
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return said(err, p.path, p.path)
	}
	return nil
}

// locks has each file's changes happen one after the other. Two files may share a lock.
var locks [64]sync.Mutex

var seed = maphash.MakeSeed()

func lock(name string) (unlock func()) {
	mu := &locks[maphash.String(seed, name)%uint64(len(locks))]
	mu.Lock()
	return mu.Unlock
}

// IsChanged reports whether an error of Apply means that the file is not as the change expected.
func IsChanged(err error) bool {
	e, ok := errors.AsType[*parley.Error](err)
	return ok && errors.Is(e, errChanged)
}

var (
	errChanged = errors.New("the file is not as expected")
	errMoved   = errors.New("the file was replaced while it was opened")
)

func changed(name, how string) error {
	return parley.Errorf(parley.CodeConflict, "%s %s%w", quoted(name), how, silent{errChanged}).WithHint("read it again, and base the change on what it has now")
}

// silent is an error that adds nothing to a message.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

func tooLarge(name string, size, limit int64) error {
	return parley.Errorf(parley.CodeTooLarge, "%s has %s; the limit is %s", quoted(name), sizeText(size), sizeText(limit))
}

// said is an error of the file system in words: about an element of a path.
func said(err error, elem, whole string) error {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e
	}
	where := quoted(elem)
	if elem != whole {
		where = "the folder " + where
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return parley.Errorf(parley.CodeNotFound, "there is no %s%w", strings.TrimPrefix(where, "the "), silent{fs.ErrNotExist})
	case errors.Is(err, fs.ErrPermission):
		return parley.Errorf(parley.CodeForbidden, "%s: the server has no permission", where)
	case errors.Is(err, errSpelling):
		return parley.Errorf(parley.CodeNotFound, "%s is spelt differently on disk", where).WithHint("names are taken letter by letter; list the folder to see them")
	case errors.Is(err, errLink):
		return parley.Errorf(parley.CodeForbidden, "%s is a link or not a folder; links are not followed here", where).WithHint("name the file itself")
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the path is the operator's
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return parley.Errorf(parley.CodeUnavailable, "%s: %w", where, err)
}

func quoted(name string) string { return `"` + parley.Cut(path.Clean(name), 200) + `"` }
