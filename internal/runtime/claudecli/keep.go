package claudecli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	t.search()
	whole := t.afresh || old == nil || old.Runtime != t.app.Runtime || info.Size() <= keptAlways || info.Size() >= old.Size+old.Size/4
	if !whole {
		return nil
	}
	body, err := tail(file, 0)
	if err != nil {
		return nil //nolint:nilerr // a cache
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

// search has the conversation forgotten if the CLI has written what looks like a secret since it was last
// searched for. It is called at each end of an attempt, also if the process has ended.
func (t *turn) search() {
	p := t.p
	if !p.search(t.h.Redacted) {
		return
	}
	p.log().Info("the Claude CLI's conversation contains what looks like a secret, and the next turn begins another")
	if !p.forget() {
		if err := wipe(p.spec.home); err != nil {
			p.log().Warn("files of the Claude CLI could not be removed", "err", err)
		}
	}
}

// searched is how far a file was searched, and what it was then.
type searched struct {
	upTo, size int64
	at         time.Time
}

// search searches what the CLI has written since it was last called: its transcript, those of its agents,
// results that it has put aside, and plans.
func (p *process) search(secret func([]byte) bool) (found bool) {
	for _, dir := range []string{"projects", "plans"} {
		_ = filepath.WalkDir(filepath.Join(p.spec.config(), dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what cannot be read tells nobody anything
			}
			info, err := d.Info()
			if err != nil {
				return nil //nolint:nilerr // it has just been removed
			}
			s := p.searched[name]
			if s.size == info.Size() && s.at.Equal(info.ModTime()) {
				return nil
			}
			if filepath.Ext(name) != ".jsonl" || info.Size() < s.upTo {
				s.upTo = 0 // only transcripts grow at their ends
			}
			body, err := tail(name, s.upTo)
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			found = found || secret(body)
			// A line that is still being written is searched again when it is whole. What is more than a
			// tail may hold is searched the next time.
			p.searched[name] = searched{s.upTo + int64(bytes.LastIndexByte(body, '\n')+1), s.upTo + int64(len(body)), info.ModTime()}
			return nil
		})
	}
	return found
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
func (rt *Runtime) Forget(ctx context.Context, id parley.SessionID) error {
	home, ok := rt.home(id)
	if !ok {
		return nil
	}
	if p := rt.pool.has(id); p != nil {
		p.forget()
		switch {
		case p.retire(0):
			p.end()
		case p.ends():
			select {
			case <-p.gone:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		default:
			return parley.Errorf(parley.CodeBusy, "the Claude CLI works in the background of the session")
		}
	}
	if err := wipe(home); err != nil {
		return parley.Errorf(parley.CodeUnavailable, "files of the Claude CLI could not be removed: %w", err)
	}
	return nil
}

// ends reports whether the process is ending.
func (p *process) ends() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// home is the folder with the files of a session.
func (rt *Runtime) home(id parley.SessionID) (string, bool) {
	name := string(id)
	if name == "" || name == "." || !filepath.IsLocal(name) || strings.ContainsRune(name, filepath.Separator) {
		return "", false // no session of ours
	}
	return filepath.Join(rt.opt.Data, name), true
}
