package engine

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Rewind takes a session back to before one of its user's messages, or undoes a rewind. It returns
// once the rewind is durable, with its id; AwaitRewind tells what it did. A preview tells at once. It is
// refused while a turn is open; an interrupted turn is closed by it, unless that has a write whose
// outcome is open. Queued turns stay queued, and held.
//
// If files are to be restored, session.rewinding is committed first, then the files are restored
// without the session's lock, then session.rewound says what became of each. Until then no turn
// begins. If the process dies in between, the next one goes on: see finishRewind.
func (e *Engine) Rewind(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.RewindSession) (parley.RewindResult, error) {
	none := parley.RewindResult{}
	if err := checkRewind(c); err != nil {
		return none, err
	}
	c.Key = e.aliasOf(c.Key)
	body := digestOf(c)
	rewind := parley.RewindID(e.newID())
	for range 3 { // something else may happen in the session while the log is read
		s, err := e.acquire(ctx, p, id)
		if err != nil {
			return none, err
		}
		if made, err := s.rewindByKey(ctx, p, c, body); err != nil || made != "" {
			s.release()
			if err != nil {
				return none, err
			}
			return parley.RewindResult{Rewind: parley.Rewind{ID: made}, Session: id}, nil
		}
		st := *s.view.Clone()
		err = s.mayRewind(c)
		s.release()
		if err != nil {
			return none, err
		}
		r, err := e.rewindTo(ctx, p, st, c)
		if err != nil {
			return none, err
		}
		r.ID = rewind
		plan, err := e.planRewind(ctx, p, st, r, c.Preview)
		if err != nil {
			return none, err
		}
		if c.Preview {
			r.ID = ""
			return plan.result(id, r, st.Seq), nil
		}
		if r.What == parley.RewindFiles && !plan.restores() {
			return none, parley.Errorf(parley.CodeConflict, "there is no file to restore").WithHint("a preview says which files were changed since, and why they are left")
		}
		if e.o.Files != nil && r.What.Conversation() {
			if err := e.o.Files.Unsee(ctx, id); err != nil {
				return none, err
			}
		}
		err = e.commitRewind(ctx, p, st.Seq, r, plan, seam.Key{Session: id, Key: c.Key, Body: body, Made: id, Turn: parley.TurnID(rewind)}, c)
		if errors.Is(err, errMovedOn) {
			continue
		}
		if err != nil {
			return none, err
		}
		return parley.RewindResult{Rewind: r, Session: id}, nil
	}
	return none, parley.Errorf(parley.CodeConflict, "the session keeps changing").WithHint("try again").WithRetry(time.Second)
}

// errMovedOn says that the session is not as it was when the rewind was planned.
var errMovedOn = errors.New("the session has changed")

func checkRewind(c parley.RewindSession) error {
	switch c.What {
	case "", parley.RewindBoth, parley.RewindConversation, parley.RewindFiles:
	default:
		return parley.Errorf(parley.CodeInvalid, "what is %q", c.What).WithField("what").WithHint("one of both, conversation, files")
	}
	switch {
	case c.Turn == "" && c.Undo == 0:
		return parley.Errorf(parley.CodeInvalid, "the rewind names no turn").WithField("turn").WithHint("name the turn of the message to go back to, or in undo the rewind to undo")
	case c.Turn != "" && c.Undo != 0:
		return parley.Errorf(parley.CodeInvalid, "the rewind names a turn and a rewind to undo").WithField("undo").WithHint("name one of them")
	case c.Undo < 0:
		return parley.Errorf(parley.CodeInvalid, "undo is %d; numbers of events begin at 1", c.Undo).WithField("undo")
	case utf8.RuneCountInString(c.Key) > parley.MaxKey:
		return tooLong("Idempotency-Key", parley.MaxKey, "characters")
	}
	return nil
}

// rewindByKey finds the rewind that a key made.
func (s *session) rewindByKey(ctx context.Context, p parley.Principal, c parley.RewindSession, body parley.Digest) (parley.RewindID, error) {
	if c.Key == "" || c.Preview {
		return "", nil
	}
	k, err := s.e.o.Store.Key(ctx, p, s.id, c.Key)
	switch {
	case isCode(err, parley.CodeNotFound):
		return "", nil
	case err != nil:
		return "", err
	case k.Body != body:
		return "", keyReused(c.Key)
	}
	return parley.RewindID(k.Turn), nil
}

// mayRewind refuses a rewind that the session's state does not allow now.
func (s *session) mayRewind(c parley.RewindSession) error {
	v := s.view
	t := v.Turn
	switch {
	case s.e.isClosing():
		return errShutdown
	case v.Status != parley.Active:
		return parley.Errorf(parley.CodeConflict, "the session has %s", v.Status).WithHint("fork it to go on from an earlier point")
	case c.ExpectedVersion != 0 && c.ExpectedVersion != v.Seq:
		return stale(c.ExpectedVersion, v.Seq)
	case v.Rewinding != nil:
		return rewinding()
	case len(v.Rewinds) >= parley.MaxRewinds:
		return parley.Errorf(parley.CodeTooLarge, "the session was rewound %d times", len(v.Rewinds)).WithHint("fork it, or start a new one")
	case t != nil && t.Status == parley.StatusWaiting:
		return parley.Errorf(parley.CodeBusy, "turn %s waits for a person", t.ID).WithHint("answer it or cancel it, then rewind").WithRetry(humanPause)
	case t != nil && t.Status == parley.StatusInterrupted && s.e.goesOn(s.id):
		return parley.Errorf(parley.CodeBusy, "turn %s was interrupted and is about to be resumed", t.ID).WithHint("cancel it or wait for it to end, then rewind").WithRetry(time.Second)
	case s.run != nil, t != nil && t.Status != parley.StatusInterrupted, s.e.goesOn(s.id):
		return parley.Errorf(parley.CodeBusy, "a turn is running in this session").WithHint("cancel it or wait for it to end, then rewind").WithRetry(time.Second)
	case t != nil:
		if open := openWrite(t); open != nil {
			return parley.Errorf(parley.CodeConflict, "turn %s was interrupted, and it is not known whether %s took effect", t.ID, open.Name).
				WithHint("resume the turn: what became of the call is found out, or asked, first; or cancel it")
		}
	}
	if _, err := s.e.appOf(v.App); err != nil {
		return err
	}
	return nil
}

// openWrite returns the first call with effects of a turn whose outcome is not known, or nil.
func openWrite(t *parley.Turn) *parley.Tool {
	for _, c := range t.Tools.Open() {
		if c.Effect != parley.EffectRead && (c.Status == parley.ToolIsStarted || c.Outcome == parley.OutcomeUnknown) {
			return c
		}
	}
	return nil
}

// rewinding is the answer to a command that has to wait for a rewind.
func rewinding() error {
	return parley.Errorf(parley.CodeBusy, "the session is being rewound: %w", seam.ErrRewinding).WithHint("try again in a moment").WithRetry(time.Second)
}

// commitRewind commits a rewind, or its beginning if files are to be restored.
func (e *Engine) commitRewind(ctx context.Context, p parley.Principal, version int64, r parley.Rewind, plan rewindPlan, key seam.Key, c parley.RewindSession) error {
	s, err := e.acquire(ctx, p, key.Session)
	if err != nil {
		return err
	}
	defer s.release()
	if s.view.Seq != version {
		return errMovedOn
	}
	if err := s.mayRewind(c); err != nil {
		return err
	}
	files := r.What.Files() && plan.restores()
	if s.view.Turn != nil {
		// What was sent into the turn and not read is taken back with it, and not queued.
		events := slices.DeleteFunc(s.closingTurn(parley.TurnCancelled{Reason: "the session was rewound", By: "rewound"}), func(ev parley.Event) bool { return ev.Type == "turn.queued" })
		if err := s.stage(events...); err != nil {
			s.discard()
			return err
		}
	}
	last := plan.event(*s.view, r)
	if files {
		last = parley.NewEvent("", "", parley.SessionRewinding{Rewind: r})
	}
	free, err := e.keep(ctx, s.view.Principal(), 0, int64(len(last.Data)))
	if err != nil {
		s.discard()
		return err
	}
	defer free()
	if files {
		if err := e.o.Files.Begin(ctx, s.id); err != nil {
			s.discard()
			return err
		}
	}
	if key.Key != "" {
		s.index.Keys = append(s.index.Keys, key)
	}
	if err := s.commit(ctx, last); err != nil {
		if s.doubt == nil {
			s.discard()
		}
		return rewindTold(err, key.Key != "")
	}
	s.finishRewind()
	return nil
}

// rewindTold is the error of a rewind that could not be committed. One whose outcome is open must
// not simply be sent again without a key.
func rewindTold(err error, again bool) error {
	if _, doubt := errors.AsType[*doubtful](err); !doubt || again {
		return err
	}
	e := parley.Errorf(parley.CodeTimeout, "the store did not confirm in time whether the session was rewound").
		WithHint("read the session before you rewind again")
	e.Err = err
	return e
}

// AwaitRewind waits until a rewind has ended, and returns what it did. If ctx ends first, the rewind
// goes on.
func (e *Engine) AwaitRewind(ctx context.Context, p parley.Principal, id parley.SessionID, rewind parley.RewindID) (parley.RewindResult, error) {
	none := parley.RewindResult{}
	for {
		s, err := e.acquire(ctx, p, id)
		if err != nil {
			return none, err
		}
		st, done := *s.state.Clone(), s.restoring
		s.release()
		at := slices.IndexFunc(st.Rewinds, func(w parley.Rewound) bool { return w.ID == rewind })
		if at >= 0 {
			return e.rewindDone(ctx, p, st, at)
		}
		if st.Rewinding == nil || st.Rewinding.ID != rewind {
			return none, notFound("rewind", rewind)
		}
		if done == nil {
			return none, rewinding()
		}
		select {
		case <-done:
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
		if err := e.boot.Err(); err != nil {
			return none, errShutdown
		}
	}
}

// rewindDone is what a committed rewind did.
func (e *Engine) rewindDone(ctx context.Context, p parley.Principal, st parley.Session, at int) (parley.RewindResult, error) {
	of := st.Rewinds[at]
	events, err := e.o.Store.Read(ctx, p, st.ID, of.Seq-1, 1)
	if err != nil {
		return parley.RewindResult{}, err
	}
	if len(events) == 0 {
		return parley.RewindResult{}, parley.Errorf(parley.CodeInternal, "the log of session %s lacks event %d", st.ID, of.Seq)
	}
	pay, err := events[0].Payload()
	if err != nil {
		return parley.RewindResult{}, err
	}
	did, ok := pay.(parley.SessionRewound)
	if !ok {
		return parley.RewindResult{}, parley.Errorf(parley.CodeInternal, "event %d of session %s is no rewind", of.Seq, st.ID)
	}
	version := st.Seq
	st.Seq, st.Rewinds, st.Turn = of.Seq-1, st.Rewinds[:at], nil
	passage, err := e.passage(ctx, p, st, did.Rewind)
	if err != nil {
		return parley.RewindResult{}, err
	}
	plan := rewindPlan{passage: passage, files: did.Files, effects: did.Effects, more: did.EffectsMore}
	out := plan.result(st.ID, did.Rewind, version)
	out.Seq, out.FilesMore = of.Seq, did.FilesMore
	return out, nil
}
