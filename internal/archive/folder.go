package archive

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/pattern"
)

// Folder keeps what retention removes from logs, in a data folder: events as
// archive/{session}/{from}-{to}.ndjson.gz, one a line, and large results as
// archive/{session}/blobs/{digest}. Only the owner can read them. It keeps no files open
// between calls. It is safe for concurrent use, with one write at a time per session.
type Folder struct {
	data *datafolder.Folder
}

const (
	// FolderName is the archive's name in the data folder.
	FolderName = "archive"
	blobFolder = "blobs" // of a session
	foldedEnd  = ".ndjson.gz"
	halfEnd    = ".half"
)

// NewFolder returns the archive in a data folder. It creates nothing until there is
// something to keep, and fails to keep anything if the data folder disappeared.
func NewFolder(data *datafolder.Folder) *Folder { return &Folder{data} }

// Keep writes events, whose numbers have no gap, and returns when they are on disk. It
// returns the file's name, relative to the data folder. A file appears whole or not at
// all. An older file that begins at the same event comes from a condensation that failed,
// and is replaced.
func (a *Folder) Keep(ctx context.Context, session parley.SessionID, events []parley.Event) (name string, err error) {
	if len(events) == 0 {
		return "", parley.Errorf(parley.CodeInternal, "there are no events to archive")
	}
	from, to := events[0].Seq, events[len(events)-1].Seq
	file := fmt.Sprintf("%d-%d%s", from, to, foldedEnd)
	err = a.change(session, func(dir string) error {
		if err := a.make(session); err != nil {
			return err
		}
		if err := remove(dir, func(n string) bool { return strings.HasSuffix(n, halfEnd) }); err != nil {
			return err // left by a crash
		}
		half := filepath.Join(dir, file+halfEnd)
		if err := write(ctx, half, events); err != nil {
			return errors.Join(err, gone(os.Remove(half)))
		}
		if err := os.Rename(half, filepath.Join(dir, file)); err != nil {
			return errors.Join(err, gone(os.Remove(half)))
		}
		if err := syncDir(dir); err != nil {
			return err
		}
		begin := fmt.Sprintf("%d-", from)
		return remove(dir, func(n string) bool { return n != file && strings.HasPrefix(n, begin) })
	})
	return path.Join(FolderName, string(session), file), err
}

// Kept implements eventlog.Archive. An error is CodeUnavailable: the file is damaged or
// cannot be read.
func (a *Folder) Kept(ctx context.Context, session parley.SessionID, seq int64) iter.Seq2[parley.Event, error] {
	return func(yield func(parley.Event, error) bool) {
		err := a.kept(ctx, session, seq, func(e parley.Event) bool { return yield(e, nil) })
		if err != nil {
			yield(parley.Event{}, parley.Errorf(parley.CodeUnavailable, "read the archive of session %s: %w", session, err))
		}
	}
}

func (a *Folder) kept(ctx context.Context, session parley.SessionID, seq int64, yield func(parley.Event) bool) error {
	dir, err := a.of(session)
	if err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return gone(err)
	}
	at := slices.IndexFunc(list, func(e fs.DirEntry) bool {
		from, to, ok := numbers(e.Name())
		return ok && from <= seq && seq <= to
	})
	if at < 0 {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, list[at].Name()))
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	lines := json.NewDecoder(z)
	for ctx.Err() == nil {
		var e parley.Event
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Seq >= seq && !yield(e) {
			return nil
		}
	}
	return context.Cause(ctx)
}

// numbers returns the first and last event number in a file's name.
func numbers(name string) (from, to int64, ok bool) {
	name, ok = strings.CutSuffix(name, foldedEnd)
	first, last, both := strings.Cut(name, "-")
	from, err := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	return from, to, ok && both && err == nil && err2 == nil
}

// KeepBlob writes a large result next to the events.
func (a *Folder) KeepBlob(_ context.Context, session parley.SessionID, d parley.Digest, body []byte) error {
	name, err := a.blob(session, d)
	if err != nil {
		return err
	}
	return a.change(session, func(dir string) error {
		if info, err := os.Lstat(name); err == nil && info.Size() == int64(len(body)) {
			return nil // the rename has put the complete folder in place
		}
		if err := a.make(session, blobFolder); err != nil {
			return err
		}
		half := name + halfEnd
		if err := errors.Join(put(half, body), os.Rename(half, name)); err != nil {
			return errors.Join(err, gone(os.Remove(half)))
		}
		return errors.Join(syncDir(filepath.Dir(name)), syncDir(dir))
	})
}

// Blob reads a large result. It is CodeNotFound if there is none, or if its bytes do not
// match its digest.
func (a *Folder) Blob(_ context.Context, session parley.SessionID, d parley.Digest) ([]byte, error) {
	name, err := a.blob(session, d)
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, parley.Errorf(parley.CodeUnavailable, "read the archive of session %s: %w", session, err)
	}
	if sum := sha256.Sum256(body); err != nil || hex.EncodeToString(sum[:]) != string(d) {
		return nil, parley.Errorf(parley.CodeNotFound, "the archive of session %s has no %s", session, d)
	}
	return body, nil
}

func (a *Folder) blob(session parley.SessionID, d parley.Digest) (string, error) {
	dir, err := a.of(session)
	if err == nil && !digest.MatchString(string(d)) {
		err = parley.Errorf(parley.CodeInvalid, "%q is not a digest", parley.Cut(string(d), 80))
	}
	return filepath.Join(dir, blobFolder, string(d)), err
}

var digest = pattern.New(`^[0-9a-f]{64}$`)

func put(name string, body []byte) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(body); err != nil {
		return err
	}
	return f.Sync()
}

// Share gives a fork the files kept of its parent. They become hard links, since no file
// is ever changed, or copies where the file system has no links.
func (a *Folder) Share(ctx context.Context, session, fork parley.SessionID, at int64) error {
	from, err := a.of(session)
	if err != nil {
		return err
	}
	return a.change(fork, func(to string) error { return a.share(ctx, from, to, fork, at) })
}

func (a *Folder) share(ctx context.Context, from, to string, fork parley.SessionID, at int64) error {
	for _, sub := range []string{".", blobFolder} {
		list, err := os.ReadDir(filepath.Join(from, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := a.make(fork, sub); err != nil {
			return err
		}
		for _, e := range list {
			if ctx.Err() != nil {
				return parley.Errorf(parley.CodeCancelled, "the archive was not shared: %w", context.Cause(ctx))
			}
			if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), halfEnd) {
				continue
			}
			if first, _, ok := numbers(e.Name()); ok && first > at {
				continue
			}
			name := filepath.Join(to, sub, e.Name())
			if os.Link(filepath.Join(from, sub, e.Name()), name) == nil {
				continue
			}
			body, err := os.ReadFile(filepath.Join(from, sub, e.Name()))
			if err == nil {
				err = put(name, body)
			}
			if err != nil {
				return err
			}
		}
		if err := syncDir(filepath.Join(to, sub)); err != nil {
			return err
		}
	}
	return nil
}

// Sessions lists the sessions of which something is kept.
func (a *Folder) Sessions(context.Context) (ids []parley.SessionID, err error) {
	list, err := os.ReadDir(a.data.Path(FolderName))
	if gone(err) != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "list the archive: %w", err)
	}
	for _, e := range list {
		if e.IsDir() && IsID(e.Name()) { // anything else is not ours
			ids = append(ids, parley.SessionID(e.Name()))
		}
	}
	return ids, nil
}

// Drop removes everything kept of a session, if there is anything.
func (a *Folder) Drop(_ context.Context, session parley.SessionID) error {
	return a.change(session, func(dir string) error {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return syncDir(filepath.Dir(dir))
	})
}

// change calls do with a session's folder, which may not exist yet. It fails if the data folder
// was replaced meanwhile, because do may then have changed a different one.
func (a *Folder) change(session parley.SessionID, do func(dir string) error) error {
	dir, err := a.of(session)
	if err != nil {
		return err
	}
	if err = a.data.Check(); err == nil {
		err = errors.Join(do(dir), a.data.Check())
	}
	return wrote(err)
}

// of returns a session's folder. The engine assigns ids, but an id that would lead out of
// the archive is refused all the same.
func (a *Folder) of(session parley.SessionID) (string, error) {
	s := string(session)
	if s == "" || !filepath.IsLocal(s) || s == "." || strings.ContainsAny(s, `/\`) {
		return "", parley.Errorf(parley.CodeInvalid, "%q is not the id of a session", s)
	}
	return a.data.Path(FolderName, s), nil
}

// make creates a session's folder, or a folder in it, and syncs the name to disk.
func (a *Folder) make(session parley.SessionID, in ...string) error {
	dir, err := a.of(session)
	if err != nil {
		return err
	}
	_, before := os.Lstat(dir)
	if err := a.data.Make(append([]string{FolderName, string(session)}, in...)...); err != nil || before == nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(dir)), syncDir(a.data.Path()))
}

func write(ctx context.Context, name string, events []parley.Event) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := gzip.NewWriter(f)
	var line []byte
	for i, e := range events {
		if e.Seq != events[0].Seq+int64(i) {
			return parley.Errorf(parley.CodeInternal, "event %d follows event %d", e.Seq, events[i-1].Seq)
		}
		if ctx.Err() != nil {
			return parley.Errorf(parley.CodeCancelled, "the archive was not written: %w", context.Cause(ctx))
		}
		line = append(e.AppendJSON(line[:0]), '\n')
		if _, err := z.Write(line); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Sync()
}

func remove(dir string, which func(name string) bool) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if which(e.Name()) {
			if err := gone(os.Remove(filepath.Join(dir, e.Name()))); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone returns the error of a removal, or nil if there was nothing to remove.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir syncs a folder's entries to disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // some file systems write entries at once
	}
	return errors.Join(err, f.Close())
}

// wrote turns an error of the file system into one for people.
func wrote(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*parley.Error](err); ok {
		return err
	}
	e := parley.Errorf(parley.CodeUnavailable, "the archive cannot be written: %w", err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return e.WithHint("free disk space in the data folder; nothing was condensed, and the next sweep tries again")
	}
	return e.WithHint("check who may write to the data folder; nothing was condensed, and the next sweep tries again")
}
