package livefiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
)

// Names in the data folder.
const (
	sessionsFolder = "sessions"
	indexFolder    = "index"
	metaFile       = "meta.json"
	halfEnd        = ".half" // of a file that is being written

	// formFile holds the version of the files' form. Files of another form are written
	// again.
	formFile = ".form"
	form     = "2\n"
)

// Folders lists the folders of a data folder that may contain files of sessions.
func Folders() []string { return []string{sessionsFolder, archive.ArtifactsFolder, indexFolder} }

// Exist reports whether there are files of sessions in a data folder.
func Exist(data string) bool {
	_, err := os.Stat(filepath.Join(data, sessionsFolder))
	return err == nil
}

func (w *writer) path(parts ...string) string {
	return w.f.o.Data.Path(parts...)
}

func (w *writer) folder(id parley.SessionID) string { return w.path(sessionsFolder, string(id)) }

// turn writes a turn's files; sure says that their contents, though not their names, must
// be on disk before this returns.
func (w *writer) turn(id parley.SessionID, t *turn, sure bool) error {
	sure = sure && !w.anew
	if !archive.IsID(t.ID()) {
		return nil // the engine gives no other
	}
	dir := w.folder(id)
	for _, sub := range []string{archive.LogFolder, archive.TurnFolder} {
		if err := w.f.o.Data.Make(sessionsFolder, string(id), sub); err != nil {
			return err
		}
	}
	name := filepath.Join(dir, filepath.FromSlash(archive.LogFile(t.ID())))
	if t.lines < 0 {
		all, err := t.Log(0)
		if err != nil {
			return err
		}
		if err := replace(name, all, sure); err != nil {
			return err
		}
	} else if t.lines < t.Steps() || sure {
		more, err := t.Log(t.lines)
		if err != nil {
			return err
		}
		if err := extend(name, more, sure); err != nil {
			return err
		}
	}
	t.lines, t.fresh = t.Steps(), false
	record, err := t.Record()
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, filepath.FromSlash(archive.TurnFile(t.ID()))), record, sure)
}

// session writes session.json once the names of everything that it mentions are on disk.
// Its own name may get there later: an older session.json, or none, only means more to
// write after a crash.
func (w *writer) session(id parley.SessionID, s *session) error {
	dir := w.folder(id)
	for _, sub := range []string{archive.LogFolder, archive.TurnFolder} {
		if err := w.f.o.Data.Make(sessionsFolder, string(id), sub); err != nil {
			return err
		}
		if !s.named || w.anew {
			continue
		}
		if err := syncFolder(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	body, err := s.files.Session()
	if err != nil {
		return err
	}
	w.unsure = w.unsure || w.anew
	return replace(filepath.Join(dir, archive.SessionFile), body, !w.anew)
}

// artifacts writes the new ones. One whose session was deleted is not written again.
func (w *writer) artifacts(ctx context.Context, s *session) error {
	list := s.files.Artifacts()
	for _, ref := range list[s.kept:] {
		if s.all != nil { // rewritten: retention may have deleted it
			if err := w.removeArtifact(ctx, ref.ID); err != nil {
				return err
			}
		}
		if err := w.artifact(ctx, ref); err != nil {
			return err
		}
	}
	if s.kept < len(list) && !w.anew {
		if err := syncFolder(w.path(archive.ArtifactsFolder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.kept = len(list)
	return nil
}

func (w *writer) artifact(ctx context.Context, ref parley.ArtifactRef) error {
	if !archive.IsID(ref.ID) {
		return nil
	}
	name := w.path(archive.ArtifactsFolder, string(ref.ID))
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == ref.Size {
		return nil // it never changes, and appeared whole
	}
	a, err := w.f.o.Store.Artifact(ctx, parley.System(), ref.ID)
	if err == nil {
		var body []byte
		body, err = w.f.o.Store.Blob(ctx, parley.System(), a.Session, a.SHA256)
		if parley.CodeOf(err) == parley.CodeNotFound && w.f.o.Archived != nil {
			body, err = w.f.o.Archived(ctx, a.Session, a.SHA256)
		}
		if err == nil {
			if err := w.f.o.Data.Make(archive.ArtifactsFolder); err != nil {
				return err
			}
			return replace(name, body, !w.anew)
		}
	}
	if parley.CodeOf(err) == parley.CodeNotFound {
		return nil
	}
	return err
}

// versionAtEnd is how session.json ends.
var versionAtEnd = regexp.MustCompile(`\n "version": ([0-9]{1,18})\n\}\n$`)

// position is the version of the session.json on disk; 0 if there is none that can be
// trusted.
func (w *writer) position(id parley.SessionID) int64 {
	if w.anew || !archive.IsID(id) {
		return 0
	}
	f, err := os.Open(filepath.Join(w.folder(id), archive.SessionFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	end := make([]byte, min(64, info.Size()))
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return 0
	}
	m := versionAtEnd.FindSubmatch(end)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n
}

func (w *writer) upToDate(id parley.SessionID, version int64) bool {
	if s := w.open[id]; s != nil {
		return s.files.Seq() >= version
	}
	return w.position(id) == version
}

// prune removes everything that is not a file of the turns, after all of them were
// written. A nil set means that there is nothing to do.
func (w *writer) prune(id parley.SessionID, turns map[parley.TurnID]bool) error {
	if turns == nil {
		return nil
	}
	want := map[string]bool{}
	for t := range turns {
		want[archive.TurnFile(t)], want[archive.LogFile(t)] = true, true
	}
	for _, sub := range []string{archive.LogFolder, archive.TurnFolder} {
		dir := filepath.Join(w.folder(id), sub)
		list, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			if !want[sub+"/"+e.Name()] {
				if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// remove removes the files of a deleted session. It removes the artifacts first, because they
// are found by the session's turns. It checks that the session itself is gone: a not-found
// error may also be about something inside a session that still exists, whose files must stay.
func (w *writer) remove(ctx context.Context, id parley.SessionID) error {
	switch _, err := w.f.o.Store.Session(ctx, parley.System(), id); {
	case err == nil:
		return parley.Errorf(parley.CodeInternal, "data of session %s is missing, but the session exists", id)
	case parley.CodeOf(err) != parley.CodeNotFound:
		return err
	}
	w.drop(id)
	delete(w.bad, id)
	if !archive.IsID(id) {
		return nil
	}
	dir := w.folder(id)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	list, err := os.ReadDir(filepath.Join(dir, archive.TurnFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		raw, err := os.ReadFile(filepath.Join(dir, archive.TurnFolder, e.Name()))
		if err != nil {
			return err
		}
		var t struct {
			Artifacts []struct {
				ID parley.ArtifactID `json:"id"`
			} `json:"artifacts"`
		}
		if json.Unmarshal(raw, &t) != nil {
			continue // half of one
		}
		for _, a := range t.Artifacts {
			if err := w.removeArtifact(ctx, a.ID); err != nil {
				return err
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// removeArtifact removes an artifact's file, unless it also belongs to a session that
// still exists, such as the one that this one was forked from.
func (w *writer) removeArtifact(ctx context.Context, id parley.ArtifactID) error {
	if !archive.IsID(id) {
		return nil
	}
	_, err := w.f.o.Store.Artifact(ctx, parley.System(), id)
	if parley.CodeOf(err) != parley.CodeNotFound {
		return err
	}
	if err := os.Remove(w.path(archive.ArtifactsFolder, string(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep removes the files of deleted sessions, for example of one that was deleted while
// the server could not write.
func (w *writer) sweep(ctx context.Context, quit <-chan struct{}) error {
	dir, err := os.Open(w.path(sessionsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if isClosed(quit) || ctx.Err() != nil {
			return nil
		}
		if !archive.IsID(name) {
			continue // not ours to remove
		}
		_, err := w.f.o.Store.Session(ctx, parley.System(), parley.SessionID(name))
		if parley.CodeOf(err) == parley.CodeNotFound {
			err = w.remove(ctx, parley.SessionID(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) formIsOurs() bool {
	raw, err := os.ReadFile(w.path(sessionsFolder, formFile))
	return err == nil && string(raw) == form
}

// setForm records that all files have the current form. Until then none is trusted, so
// none was synced by itself: now all are synced at once.
func (w *writer) setForm() error {
	if !w.anew {
		return nil
	}
	if err := w.f.o.Data.Make(sessionsFolder); err != nil {
		return err
	}
	if w.unsure {
		syscall.Sync()
	}
	if err := replace(w.path(sessionsFolder, formFile), []byte(form), true); err != nil {
		return err
	}
	w.anew = false
	return nil
}

// meta writes index/meta.json when it says something new.
func (w *writer) meta() bool {
	v := w.f.o.Meta()
	if v == nil {
		return true
	}
	body, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return w.failed("", err)
	}
	body = append(body, '\n')
	if bytes.Equal(body, w.said) {
		return true
	}
	name := w.path(indexFolder, metaFile)
	if err := w.f.o.Data.Make(indexFolder); err != nil {
		return w.failed("", err)
	}
	if err := replace(name, body, false); err != nil {
		return w.failed("", err)
	}
	w.said = body
	return true
}

// failed logs an error, and reports whether it concerns this session alone: then another
// try would not help.
func (w *writer) failed(id parley.SessionID, err error) (only bool) {
	if w.f.life.Err() != nil {
		return true // we were told to end
	}
	w.f.o.Failed()
	e, ok := errors.AsType[*parley.Error](err)
	if ok && e.Code != parley.CodeUnavailable {
		if !w.bad[id] && len(w.bad) < maxKnown {
			w.bad[id] = true
			w.f.o.Logger.Warn("live files: a session cannot be written", "session", id, "error", err)
		}
		return true
	}
	if !w.failing {
		w.failing = true
		hint := "check who may write to the data folder"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			hint = "free disk space in the data folder"
		} else if e != nil && e.Hint != "" {
			hint = e.Hint
		}
		w.f.o.Logger.Warn("live files: the files of sessions cannot be written; turns go on, and the files follow later", "error", err, "hint", hint)
	}
	return false
}

func (w *writer) recovered() {
	w.f.o.Behind(0)
	if w.failing {
		w.failing = false
		w.f.o.Logger.Info("live files: the files of sessions are written again")
	}
}

// replace makes a file appear whole.
func replace(name string, body []byte, sure bool) error {
	half := name + halfEnd
	err := put(half, os.O_CREATE|os.O_TRUNC, body, sure)
	if err == nil {
		err = os.Rename(half, name)
	}
	if err != nil {
		_ = os.Remove(half) // it may take what is left of the disk
	}
	return err
}

// extend appends to a file that is there.
func extend(name string, body []byte, sure bool) error { return put(name, os.O_APPEND, body, sure) }

func put(name string, how int, body []byte, sure bool) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|how, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(body); err != nil {
		return err
	}
	if sure {
		return f.Sync()
	}
	return nil
}

// syncFolder syncs a folder's names to disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // file systems that write names at once
	}
	return errors.Join(err, f.Close())
}
