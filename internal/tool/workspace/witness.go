package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/files"
)

// Witness keeps what files contain before a program that is not ours changes them, so that a rewind can
// restore them. It is safe for concurrent use.
type Witness struct {
	checks func() *checkpoint.Store

	mu   sync.Mutex
	open map[parley.CallID]witnessed
}

type witnessed struct {
	rec checkpoint.Record
	old []byte
}

// NewWitness makes a Witness. checks is asked for each call.
func NewWitness(checks func() *checkpoint.Store) *Witness {
	return &Witness{checks: checks, open: map[parley.CallID]witnessed{}}
}

// Before keeps the content of a file below dir that a call is about to change. body is what the file
// will contain, if that is known. The call must not be made after an error.
func (w *Witness) Before(ctx context.Context, id parley.SessionID, turn parley.TurnID, call parley.CallID, dir, path string, body []byte) error {
	old, was, err := content(dir, path)
	if err != nil {
		return err
	}
	rec := checkpoint.Record{Call: call, Turn: turn, Path: path, Before: was, At: time.Now()}
	if body != nil {
		rec.After = files.VersionOf(body)
	}
	if err := w.checks().Begin(ctx, id, rec, old); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[call] = witnessed{rec, old}
	return nil
}

// After records what the file of a call contains now. changed is false if that is what it contained
// before, or if Before was not called.
func (w *Witness) After(ctx context.Context, id parley.SessionID, call parley.CallID, dir string) (s parley.FileSaved, changed bool, err error) {
	w.mu.Lock()
	at, ok := w.open[call]
	delete(w.open, call)
	w.mu.Unlock()
	if !ok {
		return s, false, nil
	}
	body, now, err := content(dir, at.rec.Path)
	if err != nil {
		return s, false, err
	}
	at.rec.After = now
	if err := w.checks().End(ctx, id, at.rec); err != nil || now == at.rec.Before {
		return s, false, err
	}
	return saved(edit{path: at.rec.Path, was: at.rec.Before, old: at.old, body: body}, now), true, nil
}

// content is what a file contains, and its version, or "" if there is none.
func content(dir, path string) ([]byte, files.Version, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	body, err := files.Of(root).Read(path, files.MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	return body, files.VersionOf(body), nil
}
