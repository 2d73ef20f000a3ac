package engine

import (
	"bytes"
	"context"
	"io/fs"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// equipped returns the app as the session's runtime carries it out.
func (s *session) equipped(app *parley.App) *parley.App {
	if own := s.view.Runtime; own != "" && own != app.Runtime && s.e.o.Runtimes[own] != nil {
		other := *app
		other.Runtime = own
		app = &other
	}
	if rt, ok := s.e.o.Runtimes[app.Runtime].(seam.Equipped); ok {
		return rt.Equip(app)
	}
	return app
}

// maxPaths limits the number of files that a call may announce at once.
const maxPaths = 1000

// announce records which files of the workspace a call is about to change.
func (h *host) announce(ctx context.Context, c parley.ToolCall, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	if len(paths) > maxPaths {
		return parley.Errorf(parley.CodeInvalid, "%s wants to change %d files at once", c.Name, len(paths)).WithHint("change at most %d files in one call", maxPaths)
	}
	for _, p := range paths {
		if !fs.ValidPath(p) || p == "." {
			return parley.Errorf(parley.CodeInvalid, "%s wants to change %q, which is not a path inside the workspace", c.Name, parley.Cut(p, 200))
		}
	}
	return h.Emit(ctx, parley.NewEvent(h.r.turn, c.Agent, parley.FilesAnnounced{Call: c.Call, Paths: paths}))
}

// Keep stores the runtime's own state of the session.
func (h *host) Keep(ctx context.Context, k seam.Keeping) error {
	kept := parley.RuntimeKept{Runtime: h.r.app.Runtime, Entry: parley.Cut(k.Entry, 256), Afresh: k.Afresh}
	var refused error
	body, clean := h.s.e.o.Log.RedactFileOf(h.s.id, k.State)
	switch {
	case len(k.State) > seam.MaxKept:
		refused = parley.Errorf(parley.CodeTooLarge, "the runtime's state of the session has %d bytes; the limit is %d", len(k.State), seam.MaxKept)
	case len(body) == 0 || !clean:
		refused = parley.Errorf(parley.CodeInvalid, "the runtime's state of the session cannot be stored: it is empty, or contains something that looks like a secret")
	default:
		free, err := h.s.e.keep(ctx, h.r.owner, 0, int64(len(body)))
		if err != nil {
			refused = err
			break
		}
		defer free()
		if err := h.lasting(ctx, func() (err error) {
			kept.SHA256, err = h.s.e.o.Store.PutBlob(ctx, h.r.owner, body)
			return err
		}); err != nil {
			return err
		}
		kept.Size = int64(len(body))
	}
	if kept.SHA256 == "" {
		kept.Entry = ""
	}
	err := h.lasting(ctx, func() error {
		return h.step(ctx, func(s *session) error {
			if old := s.view.Kept; kept.SHA256 == "" && old == nil {
				return nil
			}
			return s.stage(parley.NewEvent(h.r.turn, "", kept))
		})
	})
	if err != nil {
		return err
	}
	return refused
}

// Redacted implements [seam.Host].
func (h *host) Redacted(lines []byte) bool {
	for line := range bytes.Lines(lines) { // a line of JSON is redacted as such
		line = bytes.TrimSuffix(line, []byte("\n"))
		if clean, ok := h.s.e.o.Log.RedactFileOf(h.s.id, line); !ok || !bytes.Equal(clean, line) {
			return true
		}
	}
	return false
}

// Kept returns the runtime's stored state of the session.
func (h *host) Kept(ctx context.Context) (body []byte, err error) {
	k := h.State().Kept
	if k == nil {
		return nil, parley.Errorf(parley.CodeNotFound, "the runtime has stored no state of this session")
	}
	err = h.lasting(ctx, func() (err error) {
		body, err = h.s.e.o.Store.Blob(ctx, h.r.owner, h.s.id, k.SHA256)
		return err
	})
	return body, err
}

// maxUnasked limits how many turns in a row a runtime may begin on its own, without a request
// from a user. Such turns cost money, and possibly nobody is watching.
const maxUnasked = 16

// startOwn starts a turn for a runtime. It is queued behind the session's other turns.
func (e *Engine) startOwn(ctx context.Context, id parley.SessionID, own seam.OwnTurn) (parley.TurnID, error) {
	c := parley.Send{Message: own.Message, Key: own.Key, Busy: parley.BusyEnqueue, Client: "runtime"}
	if err := e.checkSend(c); err != nil {
		return "", err
	}
	s, err := e.ready(ctx, parley.System(), id)
	if err != nil {
		return "", err
	}
	v := s.view
	queued := 0
	for _, q := range v.Queue {
		if q.Request.Origin == parley.OriginRuntime {
			queued++
		}
	}
	switch t := v.Turn; {
	case v.Unasked+queued >= maxUnasked:
		err = parley.Errorf(parley.CodeBusy, "the runtime has begun %d turns on its own since the last request from a user", v.Unasked+queued).
			WithHint("send a message to let it continue")
	case v.QueueHeld() && v.OpenTurns() >= v.MaxOpenTurns-1:
		// A held queue is released by a message, which needs one more turn. A turn of the
		// runtime does not release it.
		err = parley.Errorf(parley.CodeBusy, "the session already has %d turns waiting for a command", v.OpenTurns()).
			WithHint("its limit is %d open turns, including the one that the command begins", v.MaxOpenTurns)
	case t != nil && t.Status == parley.StatusInterrupted:
		err = parley.Errorf(parley.CodeConflict, "turn %s was interrupted and must be resumed or ended first", t.ID)
	}
	if err != nil {
		s.release()
		return "", err
	}
	info, err := s.send(ctx, v.Principal(), asked{Send: c, origin: parley.OriginRuntime})
	return info.ID, err
}

// by returns the user who asked for a turn, or "" if the runtime begins it.
func (c asked) by(p parley.Principal) string {
	if c.origin == parley.OriginRuntime {
		return ""
	}
	return p.User
}
