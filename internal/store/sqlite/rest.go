package sqlite

import (
	"os"
	"path/filepath"

	zombie "zombiezen.com/go/sqlite"
)

const (
	// longLog is how many pages the WAL has before a checkpoint is made in a pause: some tens of turns. The first
	// commit after a checkpoint begins the WAL anew, which takes a second sync. So a person whose
	// messages have pauses between them should not wait for it with each.
	longLog = 1000
	// readyLog is how long the file of the WAL is made, in bytes: twice longLog with pages of 2 KB. In a commit that makes the
	// file longer, the sync waits for the journal of the file system too, which takes a third longer
	// on an idle disk, and several times as long on one that others write to.
	readyLog = 4 << 20
	// readyStep is how much of it is made at a time. A commit that comes meanwhile waits for one step.
	readyStep = 256 << 10
	// roomForLog is the free space below which the file is left to grow by itself.
	roomForLog = 64 << 20
)

// rest uses a pause between commits for what would delay one.
func (w *writer) rest() {
	if err := w.checkpoint(); err != nil {
		w.log.Warn("a checkpoint failed", "err", err)
	}
	if err := w.lengthen(); err != nil {
		w.log.Debug("the log of the database grows by itself", "err", err)
	}
}

// checkpoint moves what is committed from a long WAL into the database, as far as no reader
// is in the way. If it fails, nothing is lost and the next one tries again.
func (w *writer) checkpoint() error {
	pages := 0
	err := w.c.rows("PRAGMA wal_checkpoint(NOOP)", func(s *zombie.Stmt) error { pages = s.ColumnInt(1); return nil })
	if err != nil || pages < longLog {
		return err
	}
	return w.c.exec("PRAGMA wal_checkpoint(PASSIVE)")
}

// lengthen makes the file of the WAL longer, with zeros, until it has readyLog bytes or something waits to be
// written. SQLite stops reading a WAL at what is no frame of it, and writes over it. Only the writer's
// goroutine writes to the file, and no lock is on it that closing it would release.
func (w *writer) lengthen() error {
	if free, err := Free(filepath.Dir(w.wal)); err != nil || free < roomForLog {
		return err
	}
	if err := w.at.Check(); err != nil {
		return err
	}
	f, err := os.OpenFile(w.wal, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for at := info.Size(); at < readyLog && !w.wanted(); at += readyStep {
		if _, err := f.WriteAt(make([]byte, min(readyStep, readyLog-at)), at); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// wanted reports whether something waits to be written, or the writer is to end.
func (w *writer) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed || len(w.queue) > 0
}
