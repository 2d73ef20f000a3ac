package claudecli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// What the CLI has on disk of a conversation is a cache of the log, so it may hold no more than the log: it
// is removed when retention takes steps out of the log, when it contains what looks like a secret, and when
// it is too large. The next turn then begins another conversation, which is told what the log has.

const (
	// keptAlways is the size up to which a transcript is stored after each turn. The first turn makes 160 kB.
	keptAlways = 256 << 10
	// maxFiles limits what the CLI keeps of a session, in bytes.
	maxFiles = 2 * seam.MaxKept
)

// keep stores the CLI's transcript, so that another machine, or a fork, can continue from it. A large one
// is stored when it has grown by a quarter, so that a long session costs no more for each turn than a
// short one: a conversation that continues from an older state is told of the turns since.
func (t *turn) keep(ctx context.Context) error {
	p := t.p
	file := transcript(p.spec.config(), p.spec.cli)
	if file == "" {
		return nil
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil //nolint:nilerr // a cache
	case info.Size() > seam.MaxKept || sizeOf(p.spec.config()) > maxFiles:
		p.log().Info("the Claude CLI's conversation is too large, and the next turn begins another", "bytes", info.Size())
		p.forget()
		return nil
	}
	old := t.h.State().Kept
	whole := t.afresh || old == nil || old.Runtime != t.app.Runtime || info.Size() <= keptAlways || info.Size() >= old.Size+old.Size/4
	from := p.checked
	if whole {
		from = 0
	}
	body, err := tail(file, from)
	if err != nil {
		return nil //nolint:nilerr // a cache
	}
	if t.h.Redacted(body[min(int64(len(body)), p.checked-from):]) {
		p.log().Info("the Claude CLI's conversation contains what looks like a secret, and the next turn begins another")
		p.forget()
	}
	p.checked = from + int64(len(body))
	if !whole {
		return nil
	}
	list, _ := chain(body)
	last := ""
	if len(list) > 0 {
		last = list[len(list)-1].UUID
	}
	err = t.h.Keep(ctx, seam.Keeping{State: body, Entry: last, Afresh: t.afresh})
	if code := parley.CodeOf(err); err != nil && (code == parley.CodeInvalid || code == parley.CodeTooLarge || code == parley.CodeQuota) {
		p.log().Info("the transcript of the Claude CLI is not stored", "err", err)
		return nil
	}
	return err
}

// tail is what a file contains from an offset on.
func tail(name string, from int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return io.ReadAll(io.NewSectionReader(f, from, seam.MaxKept+1))
}

// sizeOf is the size of all files below a folder.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil // what cannot be read does not count
	})
	return n
}

// forget has the files of the conversation removed when the process has ended. It returns false if it has
// ended already.
func (p *process) forget() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgets = true
	return !p.cleaned
}

// clean removes what no other process may continue from: what commands have printed, and the
// conversation, if it is to be forgotten.
func (p *process) clean() {
	p.mu.Lock()
	p.cleaned = true
	forgets := p.forgets
	p.mu.Unlock()
	err := os.RemoveAll(filepath.Join(p.spec.home, "tmp"))
	if forgets {
		err = errors.Join(err, wipe(p.spec.home))
	}
	if err != nil {
		p.log().Warn("files of the Claude CLI could not be removed", "err", err)
	}
}

// wipe removes a conversation. What a session without a workspace has written stays.
func wipe(home string) error {
	return errors.Join(os.RemoveAll(filepath.Join(home, "tmp")), os.RemoveAll(filepath.Join(home, "config")), os.RemoveAll(filepath.Join(home, sessionFile)))
}

// Forget implements [seam.Forgetter].
func (rt *Runtime) Forget(id parley.SessionID) {
	home, ok := rt.home(id)
	if !ok {
		return
	}
	p := rt.pool.has(id)
	if p != nil && p.forget() {
		if p.retire(0) {
			rt.work.Go(p.end)
		} // else its background work ends first
		return
	}
	if err := wipe(home); err != nil {
		rt.opt.Logger.Warn("files of the Claude CLI could not be removed", "session", id, "err", err)
	}
}

// home is the folder with the files of a session.
func (rt *Runtime) home(id parley.SessionID) (string, bool) {
	name := string(id)
	if name == "" || name == "." || !filepath.IsLocal(name) || strings.ContainsRune(name, filepath.Separator) {
		return "", false // no session of ours
	}
	return filepath.Join(rt.opt.Data, name), true
}
