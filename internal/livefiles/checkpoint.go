package livefiles

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
)

const (
	// foldFile is a session's checkpoint, beside its files.
	foldFile = ".fold"
	// saveEvery is the most events that are read again when a session wakes, not counting
	// those of its last turn. A checkpoint is about as large as session.json, which is
	// written with every turn.
	saveEvery = 100
)

// save stores the fold beside the files that it stands for.
func (w *writer) save(id parley.SessionID, s *session) error {
	if s.on-s.saved < saveEvery || s.on != s.files.Seq() || w.anew {
		return nil
	}
	body, err := s.files.Save()
	if err != nil {
		return err
	}
	s.saved = s.on
	return replace(filepath.Join(w.folder(id), foldFile), body, true)
}

// checkpoint returns what was folded of a session when its files were at position or
// before; nil if that is not known.
func (w *writer) checkpoint(id parley.SessionID, position int64) *archive.Files {
	body, err := os.ReadFile(filepath.Join(w.folder(id), foldFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		files := archive.Restore(body)
		if files != nil && files.Seq() <= position && files.ID() == id {
			return files
		}
	}
	w.forgetCheckpoint(id)
	return nil
}

// forgetCheckpoint removes a useless checkpoint. It is a cache: an error here also
// affects the session's other files.
func (w *writer) forgetCheckpoint(id parley.SessionID) {
	_ = os.Remove(filepath.Join(w.folder(id), foldFile))
}
