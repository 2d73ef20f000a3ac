package livefiles

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
)

// writer brings files up to date. It belongs to one goroutine.
type writer struct {
	f       *Files
	foreign known // sessions of apps that have no files
	open    map[parley.SessionID]*session
	size    int  // bytes of open, about
	anew    bool // unknown files, or files of another form: rewritten
	unsure  bool // some were written while anew was set, and may not be on the disk yet
	failing bool
	bad     map[parley.SessionID]bool // sessions whose log cannot be shown as files; logged once each
	said    []byte                    // index/meta.json
}

// session is a session in memory.
type session struct {
	files *archive.Files
	used  time.Time
	size  int
	on    int64 // session.json on the disk has this version
	late  bool  // session.json has to be written
	named bool  // since then there were names in the folders of turns
	since time.Time
	stale map[parley.TurnID]*turn // turns with events after on, or with less on the disk
	saved int64                   // the number of its checkpoint
	kept  int                     // artifacts that are on the disk
	all   map[parley.TurnID]bool  // all turns there are, when everything is rewritten
}

// turn is a turn whose files are not all on the disk.
type turn struct {
	*archive.Turn
	lines int  // of its log, that are written; -1: its log has to be rewritten
	fresh bool // it has events that are not written
}

func (w *writer) init(f *Files) {
	w.f = f
	w.open, w.bad = map[parley.SessionID]*session{}, map[parley.SessionID]bool{}
	w.anew = !w.formIsOurs()
}

// maxRunning is how long session.json may be older than its turn's steps.
const maxRunning = 30 * time.Second

// refresh writes what is new in a session. Without force it does so only when a turn has
// enough new steps, and reports whether it did.
func (w *writer) refresh(ctx context.Context, id parley.SessionID, force bool) (written bool, err error) {
	if !archive.IsID(id) {
		return true, nil // the engine gives no other
	}
	s := w.open[id]
	if s != nil {
		err = w.read(ctx, id, s)
		if errors.Is(err, errAnew) {
			w.drop(id)
			s, err = nil, nil
		}
	}
	if s == nil && err == nil {
		force = true
		if s, err = w.load(ctx, id); s == nil {
			return true, err // there is nothing to write any more, or it failed
		}
	}
	if err == nil && (force || w.steps(s) >= w.f.o.Steps) {
		written = true
		err = w.write(ctx, id, s)
	}
	if err != nil {
		w.drop(id)
		if parley.CodeOf(err) == parley.CodeNotFound { // deleted meanwhile
			return true, w.remove(ctx, id)
		}
		return false, err
	}
	w.keep(id, s)
	return written, nil
}

// steps counts the steps that a turn has and its log has not.
func (w *writer) steps(s *session) int {
	most := 0
	for _, t := range s.stale {
		most = max(most, t.Steps()-max(t.lines, 0))
	}
	return most
}

// keep keeps the session in memory and evicts those that were not used for long.
func (w *writer) keep(id parley.SessionID, s *session) {
	if w.open[id] == nil {
		w.open[id] = s
	} else {
		w.size -= s.size
	}
	s.used, s.size = time.Now(), s.files.Size()
	w.size += s.size
	for w.size > w.f.o.Memory && len(w.open) > 1 {
		oldest := id
		for other, o := range w.open {
			if o.used.Before(w.open[oldest].used) {
				oldest = other
			}
		}
		w.drop(oldest)
	}
	if w.open[id] != nil {
		w.f.setDue(id, s.files.Seq()+int64(max(1, w.f.o.Steps-w.steps(s))))
	}
}

func (w *writer) drop(id parley.SessionID) {
	if s := w.open[id]; s != nil {
		w.size -= s.size
		delete(w.open, id)
		w.f.setDue(id, 0)
	}
}

// forget evicts sessions without recent events.
func (w *writer) forget(now time.Time) {
	for id, s := range maps.Clone(w.open) {
		if now.Sub(s.used) < rest {
			continue
		}
		if s.files.Seq() > s.on { // its turn takes long: let session.json follow first
			w.f.mark(id, s.files.Seq(), false)
			s.used = now
			continue
		}
		w.drop(id)
	}
}

// load folds a session from its log. Events after the version of the session.json on disk
// have to be written, or all if that cannot be trusted. nil: the session has no files.
func (w *writer) load(ctx context.Context, id parley.SessionID) (*session, error) {
	info, err := w.f.o.Store.Session(ctx, parley.System(), id)
	switch {
	case parley.CodeOf(err) == parley.CodeNotFound:
		return nil, w.remove(ctx, id)
	case err != nil:
		return nil, err
	case !w.f.o.Apps[info.App]:
		w.foreign.add(id)
		return nil, nil
	}
	position := w.position(id)
	if position > info.Version {
		position = 0 // the files are of a log that is not this one
	}
	fresh := archive.NewFiles(parley.Condensed{})
	files := w.checkpoint(id, position)
	if files == nil {
		files = fresh
	}
	s, err := w.fold(ctx, id, position, files)
	if parley.CodeOf(err) == parley.CodeInternal && files != fresh && !errors.Is(err, errAnew) {
		w.forgetCheckpoint(id) // of another log
		s, err = w.fold(ctx, id, position, fresh)
	}
	var kept parley.Condensed
	if parley.CodeOf(err) == parley.CodeCondensed {
		if kept, err = archive.Kept(w.f.o.Log.Whole(ctx, parley.System(), id, 0)); err == nil {
			s, err = w.fold(ctx, id, position, archive.NewFiles(kept))
		}
	}
	if errors.Is(err, errAnew) {
		if kept, err = archive.Kept(w.f.o.Log.Whole(ctx, parley.System(), id, 0)); err == nil {
			s, err = w.fold(ctx, id, 0, archive.NewFiles(kept))
		}
	}
	if parley.CodeOf(err) == parley.CodeNotFound {
		return nil, w.remove(ctx, id)
	}
	return s, err
}

// fold applies what files lack of a session's log. Turns that end on the way and
// have something new are written at once, so that they need not be kept.
func (w *writer) fold(ctx context.Context, id parley.SessionID, position int64, files *archive.Files) (*session, error) {
	s := &session{files: files, on: position, saved: files.Seq(), since: time.Now(), stale: map[parley.TurnID]*turn{}}
	s.kept = len(files.Artifacts())
	if position == 0 {
		s.all = map[parley.TurnID]bool{}
	}
	for e, err := range w.f.o.Log.Whole(ctx, parley.System(), id, files.Seq()) {
		if err != nil {
			return nil, err
		}
		t, err := files.Apply(e)
		if err != nil {
			return nil, err
		}
		if e.Seq <= position {
			s.kept = len(files.Artifacts())
			continue
		}
		if position > 0 && deletes(e) {
			return nil, errAnew
		}
		if t == nil {
			continue
		}
		s.touch(t, e)
		if s.all != nil {
			s.all[t.ID()] = true
		}
		if t.Ended() {
			if err := w.turn(id, s.stale[t.ID()], true); err != nil {
				return nil, err
			}
			delete(s.stale, t.ID())
		}
	}
	s.late = files.Seq() > position
	return s, nil
}

// errAnew says that retention deleted steps: the files must be rewritten.
var errAnew = parley.Errorf(parley.CodeInternal, "steps were deleted")

// deletes reports whether retention removed steps that no archive has.
func deletes(e parley.Event) bool {
	if e.Type != (parley.HistoryCondensed{}).EventType() {
		return false
	}
	p, err := e.Payload()
	h, ok := p.(parley.HistoryCondensed)
	return err == nil && ok && h.To > 0 && h.Archive == ""
}

// read applies what is new in a session's log.
func (w *writer) read(ctx context.Context, id parley.SessionID, s *session) error {
	for e, err := range w.f.o.Log.Whole(ctx, parley.System(), id, s.files.Seq()) {
		if err != nil {
			return err
		}
		if deletes(e) {
			return errAnew
		}
		t, err := s.files.Apply(e)
		if err != nil {
			return err
		}
		s.late = s.late || !parley.IsStep(e.Type)
		if t != nil {
			s.touch(t, e)
		}
	}
	s.late = s.late || s.files.Seq() > s.on && (!s.files.Running() || time.Since(s.since) >= maxRunning)
	return nil
}

// touch records that a turn has an event that is not in its files.
func (s *session) touch(t *archive.Turn, e parley.Event) {
	have := s.stale[t.ID()]
	if have == nil {
		have = &turn{Turn: t, lines: -1}
		s.stale[t.ID()] = have
	}
	have.Turn, have.fresh, s.named = t, true, true
	s.late = s.late || !parley.IsStep(e.Type)
}

// write writes a session's outdated files. When session.json is due, everything else is
// synced before it says so.
func (w *writer) write(ctx context.Context, id parley.SessionID, s *session) error {
	if err := w.artifacts(ctx, s); err != nil {
		return err
	}
	for _, t := range s.stale {
		if !t.fresh && !s.late {
			continue
		}
		if err := w.turn(id, t, s.late); err != nil {
			return err
		}
	}
	if !s.late {
		return nil
	}
	if err := w.session(id, s); err != nil {
		return err
	}
	s.named = false
	s.on, s.late, s.since = s.files.Seq(), false, time.Now()
	for turn, t := range s.stale {
		if t.Ended() {
			delete(s.stale, turn)
		}
	}
	all := s.all
	s.all = nil
	if err := w.prune(id, all); err != nil {
		return err
	}
	return w.save(id, s)
}
