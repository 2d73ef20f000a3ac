package engine

import (
	"context"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// Limits of one condensation, so that neither memory nor the event grows with the
	// time since the last sweep.
	condenseTurns = 256
	condenseBytes = 8 << 20
	// condensePage is how many events are read at once. It is small because the last page
	// is read in vain each time a turn comes of age.
	condensePage = 64
)

// condense archives the steps of turns that ended long ago and then removes them from a
// session's log. It returns how many events it covered.
func (e *Engine) condense(ctx context.Context, id parley.SessionID, ttl parley.TTL) (n int64, err error) {
	s, err := e.acquire(ctx, parley.System(), id)
	if err != nil {
		return 0, err
	}
	defer e.unload(s)
	defer s.release()
	if s.run != nil || s.view.Rewinding != nil || len(s.view.Interactions) > 0 || s.staged.Len() > 0 {
		return 0, nil // left to the next sweep
	}
	cutoff := e.now().Add(-time.Duration(ttl.TurnSteps))
	for more := true; more && err == nil; {
		var did int64
		did, more, err = s.condenseSome(ctx, cutoff, !ttl.NoArchive)
		n += did
	}
	return n, err
}

// condenseSome does one condensation. more says that another is due.
func (s *session) condenseSome(ctx context.Context, cutoff time.Time, keep bool) (n int64, more bool, err error) {
	st, err := s.e.old(ctx, s.state.Principal(), s.id, s.state.Condensed, cutoff)
	if err != nil || len(st.events) == 0 {
		return 0, false, err
	}
	for _, rt := range s.e.o.Runtimes { // what they have is a cache, so it goes first
		if rt, ok := rt.(seam.Forgetter); ok {
			err := rt.Forget(ctx, s.id)
			if isCode(err, parley.CodeBusy) {
				return 0, false, nil // left to the next sweep
			}
			if err != nil {
				return 0, false, err
			}
		}
	}
	c := parley.HistoryCondensed{From: st.events[0].Seq, To: st.events[len(st.events)-1].Seq, Turns: st.turns, Next: st.next}
	keep = keep && s.e.o.Archive != nil
	s.index.Release, s.index.DropArtifacts, err = s.condenseArtifacts(ctx, st.events, keep)
	if err != nil {
		s.discard()
		return 0, false, err
	}
	if keep {
		if c.Archive, err = s.e.o.Archive.Keep(ctx, s.id, st.events); err != nil {
			s.discard()
			return 0, false, err
		}
	}
	s.condense = c.To
	defer func() { s.condense = 0 }()
	if err := s.commit(ctx, parley.NewEvent("", "", c)); err != nil {
		return 0, false, err
	}
	return int64(len(st.events)), !st.next.IsZero() && !st.next.After(cutoff), nil
}

// condenseArtifacts archives the large results of a stretch's calls. It returns what the
// session no longer needs: the bytes and, without an archive, the rows. Results that a
// message points to stay, since prompts may still contain them.
func (s *session) condenseArtifacts(ctx context.Context, events []parley.Event, keep bool) (release []parley.Digest, drop []parley.ArtifactID, err error) {
	p, store := s.state.Principal(), s.e.o.Store
	gone := map[parley.ArtifactID]bool{}
	var list []parley.ArtifactRef
	for _, ev := range events {
		if ev.Type != (parley.ArtifactStored{}).EventType() {
			continue
		}
		pay, err := ev.Payload()
		if err != nil {
			return nil, nil, err
		}
		if a, ok := pay.(parley.ArtifactStored); ok && !gone[a.ID] && !s.attachedTo(a.ID) {
			gone[a.ID] = true
			list = append(list, a.ArtifactRef)
		}
	}
	if len(list) == 0 {
		return nil, nil, nil
	}
	all, err := store.Artifacts(ctx, p, s.id)
	if err != nil {
		return nil, nil, err
	}
	needed := map[parley.Digest]bool{} // the same bytes may belong to several results
	end := events[len(events)-1].Time
	for _, a := range all {
		if !gone[a.ID] && (!a.CreatedAt.Before(end) || s.attachedTo(a.ID)) {
			needed[a.SHA256] = true
		}
	}
	for _, a := range list {
		if keep {
			body, err := store.Blob(ctx, p, s.id, a.SHA256)
			if err == nil {
				err = s.e.o.Archive.KeepBlob(ctx, s.id, a.SHA256, body)
			}
			if err != nil && !isCode(err, parley.CodeNotFound) { // an import may come without it
				return nil, nil, err
			}
		} else {
			drop = append(drop, a.ID)
		}
		if !needed[a.SHA256] {
			release = append(release, a.SHA256)
		}
	}
	return release, drop, nil
}

// attachedTo reports whether a message that prompts may contain points to an artifact.
func (s *session) attachedTo(id parley.ArtifactID) bool {
	in := func(m parley.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p parley.Part) bool { return p.Artifact == id || p.Whole == id })
	}
	v := s.state
	return v.Turn != nil && in(v.Turn.Request.Message) ||
		slices.ContainsFunc(v.History, func(x parley.Exchange) bool { return in(x.User) }) ||
		slices.ContainsFunc(v.Queue, func(q parley.QueuedTurn) bool { return in(q.Request.Message) })
}

// stretch is a part of a log that ends with the end of a turn.
type stretch struct {
	events []parley.Event
	turns  []parley.CondensedTurn
	next   time.Time // when the first turn after the stretch ended
}

// old is the stretch after a number whose turns ended before the cutoff, or its first
// part.
func (e *Engine) old(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, cutoff time.Time) (st stretch, err error) {
	var fold parley.Condensing
	var open []parley.Event // events after the last end of a turn
	running := parley.TurnID("")
	size := 0
	for {
		events, err := e.o.Store.Read(ctx, p, id, after, condensePage)
		if err != nil || len(events) == 0 {
			return st, err
		}
		for _, ev := range events {
			after = ev.Seq
			ends := false
			switch ev.Type {
			case "turn.started":
				running = ev.Turn
			case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
				ends = ev.Turn == running // not the end of a queued turn while another runs
			}
			if ends && (ev.Time.After(cutoff) || len(st.turns) >= condenseTurns || size > condenseBytes) {
				st.next = ev.Time
				return st, nil
			}
			if err := fold.Apply(ev); err != nil {
				return stretch{}, err
			}
			open = append(open, ev)
			size += len(ev.Data)
			if ends {
				running = ""
				st.events, open, st.turns = append(st.events, open...), open[:0], fold.Turns
			}
		}
	}
}

// replay folds a session's log from st up to and including number to. Inside a turn whose
// steps were condensed the error is CodeCondensed, and its hint names the archive.
func (e *Engine) replay(ctx context.Context, p parley.Principal, id parley.SessionID, to int64, st parley.Session) (parley.Session, error) {
	var kept *parley.Condensed
	for st.Seq < to {
		events, err := e.o.Store.Read(ctx, p, id, st.Seq, int(min(to-st.Seq, 1000)))
		if err != nil {
			return st, err
		}
		if len(events) == 0 {
			return st, parley.Errorf(parley.CodeInternal, "the log of session %s ends at %d", id, st.Seq)
		}
		for _, ev := range events {
			if kept == nil && ev.Data == nil {
				all, err := e.condensed(ctx, p, id, ev.Seq)
				if err != nil {
					return st, err
				}
				kept = &all
				if kept.Old() { // the kept state belongs to another fold version
					if whole, err := e.replayWhole(ctx, p, id, to); err == nil {
						return whole, nil
					}
				}
			}
			if kept == nil {
				err = st.Apply(ev)
			} else {
				err = st.ApplyCondensed(ev, *kept)
			}
			if err != nil {
				return st, err
			}
		}
	}
	if kept == nil {
		return st, nil
	}
	if h, in := kept.Around(to); in && (st.Turn != nil || h.IsOld()) {
		err := parley.Errorf(parley.CodeCondensed, "the steps around event %d were condensed", to)
		if h.Archive != "" {
			return st, err.WithHint("the archive has them as %s; the ends of turns can still be used", h.Archive)
		}
		return st, err.WithHint("the ends of turns can still be used")
	}
	return st, nil
}

// replayWhole is replay from event 1, including events that are only in the archive.
func (e *Engine) replayWhole(ctx context.Context, p parley.Principal, id parley.SessionID, to int64) (st parley.Session, err error) {
	for ev, err := range e.o.Reader.Whole(ctx, p, id, 0) {
		if err == nil {
			err = st.Apply(ev)
		}
		if err != nil || st.Seq == to {
			return st, err
		}
	}
	return st, parley.Errorf(parley.CodeInternal, "the log of session %s ends at %d", id, st.Seq)
}

// condensed returns what was kept of the steps condensed after a number.
func (e *Engine) condensed(ctx context.Context, p parley.Principal, id parley.SessionID, after int64) (c parley.Condensed, err error) {
	for {
		events, err := e.o.Store.Read(ctx, p, id, after, 0)
		if err != nil || len(events) == 0 {
			return c, err
		}
		for _, ev := range events {
			after = ev.Seq
			if err := c.Add(ev); err != nil {
				return c, err
			}
		}
	}
}

// inherited returns what a fork at a number has to record about steps that its parent
// condensed later, because the fork does not copy the events that say so. last is the
// last turn that ended before the number.
func (e *Engine) inherited(ctx context.Context, p parley.Principal, id parley.SessionID, at int64, last *parley.TurnRef) (list []parley.Event, err error) {
	c, err := e.condensed(ctx, p, id, at)
	if err != nil {
		return nil, err
	}
	var of []parley.HistoryCondensed
	for _, ev := range c.Events {
		pay, err := ev.Payload()
		if err != nil {
			return nil, err
		}
		h, ok := pay.(parley.HistoryCondensed)
		if !ok || h.From > at {
			continue
		}
		if h.To > at {
			h.To, h.Turns = at, until(h.Turns, last)
		}
		of = append(of, h)
	}
	if len(of) == 0 {
		return nil, nil
	}
	next, err := e.firstEnd(ctx, p, id, of[len(of)-1].To, at)
	if err != nil {
		return nil, err
	}
	for _, h := range of {
		h.Next = next
		list = append(list, parley.NewEvent("", "", h))
	}
	return list, nil
}

// until returns the turns up to and including last, or none if last is not among them.
func until(turns []parley.CondensedTurn, last *parley.TurnRef) []parley.CondensedTurn {
	if last == nil {
		return nil
	}
	at := slices.IndexFunc(turns, func(t parley.CondensedTurn) bool { return t.Turn == last.ID })
	return slices.Clone(turns[:at+1])
}

// firstEnd is when the first turn ended between the two numbers; zero if none did.
func (e *Engine) firstEnd(ctx context.Context, p parley.Principal, id parley.SessionID, after, to int64) (time.Time, error) {
	running := parley.TurnID("")
	for after < to {
		events, err := e.o.Store.Read(ctx, p, id, after, int(min(condensePage, to-after)))
		if err != nil || len(events) == 0 {
			return time.Time{}, err
		}
		for _, ev := range events {
			after = ev.Seq
			switch ev.Type {
			case "turn.started":
				running = ev.Turn
			case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
				if ev.Turn == running {
					return ev.Time, nil
				}
			}
		}
	}
	return time.Time{}, nil
}
