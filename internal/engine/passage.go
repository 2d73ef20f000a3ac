package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// passage is what a log has that a rewind concerns.
type passage struct {
	message string // of the turn that the rewind goes back to
	turns   turnList
	back    turnList
	changes []seam.FileChange
	done    []effect
}

// turnList holds the first of many turns.
type turnList struct {
	list []parley.RewoundTurn
	more int
}

// maxRewoundTurns is how many turns a rewind lists.
const maxRewoundTurns = 100

func (l *turnList) add(t parley.RewoundTurn) {
	if len(l.list) < maxRewoundTurns {
		l.list = append(l.list, t)
		return
	}
	l.more++
}

func (l *turnList) end(id parley.TurnID, status parley.TurnStatus) {
	for i := range l.list {
		if l.list[i].ID == id {
			l.list[i].Status = status
		}
	}
}

// effect is a call that had an effect, or may have had one.
type effect struct {
	parley.Effected
	turn  parley.TurnID
	input json.RawMessage
}

// passage reads the part of a session's log that a rewind concerns. st is the session before the
// rewind.
func (e *Engine) passage(ctx context.Context, p parley.Principal, st parley.Session, r parley.Rewind) (passage, error) {
	var out passage
	after := parley.Session{Seq: st.Seq + 1, Rewinds: append(slices.Clip(st.Rewinds), parley.Rewound{Seq: st.Seq + 1, What: r.What, To: r.To})}
	was, is := st.Skips(), after.Skips()
	var fold parley.Condensing
	calls := map[parley.CallID]*fileCall{}
	turns := 0
	for at := min(r.To, differ(was, is)-1); at < st.Seq; {
		events, err := e.o.Store.Read(ctx, p, st.ID, at, int(min(st.Seq-at, 1000)))
		if err != nil {
			return out, err
		}
		if len(events) == 0 {
			return out, parley.Errorf(parley.CodeInternal, "the log of session %s ends at %d", st.ID, at)
		}
		for _, ev := range events {
			at = ev.Seq
			if ev.Data == nil {
				continue // of an earlier part, which comes back
			}
			pay, err := ev.Payload()
			if err != nil {
				return out, err
			}
			out.turn(ev, pay, was, is, r)
			if at <= r.To {
				continue
			}
			if err := fold.Apply(ev); err != nil {
				return out, err
			}
			for _, t := range fold.Turns[turns:] {
				for _, x := range t.Effects {
					out.done = append(out.done, effect{Effected: x, turn: t.Turn})
				}
			}
			turns = len(fold.Turns)
			out.call(ev, pay, calls)
		}
	}
	if t := st.Turn; t != nil {
		for _, c := range t.Tools.All() {
			if c.Effect != parley.EffectRead && c.Effect != "" {
				out.done = append(out.done, effect{Effected: parley.Effected{Call: c.Call, Tool: c.Name, Outcome: c.Outcome, Resolution: c.Resolution}, turn: t.ID})
			}
		}
	}
	for i, x := range out.done {
		if c := calls[x.Call]; c != nil {
			out.done[i].input = c.input
		}
	}
	return out, nil
}

// differ is the first event that is in one of two lists only.
func differ(a, b []parley.Skip) int64 {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return b[i].From
		case i >= len(b):
			return a[i].From
		case a[i].From != b[i].From || a[i].To != b[i].To:
			return min(a[i].From, b[i].From)
		}
	}
	return 1 << 62
}

func in(list []parley.Skip, seq int64) bool {
	return slices.ContainsFunc(list, func(k parley.Skip) bool { return k.From <= seq && seq <= k.To })
}

// turn notes the turns that are taken back or brought back.
func (out *passage) turn(ev parley.Event, pay parley.Payload, was, is []parley.Skip, r parley.Rewind) {
	status := parley.TurnStatus("")
	switch p := pay.(type) {
	case parley.TurnStarted:
		text := p.Message.Text()
		if ev.Turn == r.Turn {
			out.message = text
		}
		t := parley.RewoundTurn{ID: ev.Turn, Message: parley.Cut(text, 200), Status: parley.StatusRunning, At: ev.Time}
		switch a, b := in(was, ev.Seq), in(is, ev.Seq); {
		case a && !b:
			out.back.add(t)
		case !a && b:
			out.turns.add(t)
		}
		return
	case parley.TurnInterrupted:
		status = parley.StatusInterrupted
	case parley.TurnCompleted:
		status = parley.StatusCompleted
	case parley.TurnFailed:
		status = parley.StatusFailed
	case parley.TurnCancelled:
		status = parley.StatusCancelled
	case parley.TurnExpired:
		status = parley.StatusExpired
	default:
		return
	}
	out.turns.end(ev.Turn, status)
	out.back.end(ev.Turn, status)
}

// fileCall is a call that may have changed files.
type fileCall struct {
	tool  string
	input json.RawMessage
	paths []string
	at    int // its place among the changes, from 1
}

// call notes which calls and rewinds changed files.
func (out *passage) call(ev parley.Event, pay parley.Payload, calls map[parley.CallID]*fileCall) {
	of := func(id parley.CallID) *fileCall {
		if calls[id] == nil {
			calls[id] = &fileCall{}
		}
		return calls[id]
	}
	changes := func(id parley.CallID, paths []string) {
		c := of(id)
		if c.at == 0 {
			out.changes = append(out.changes, seam.FileChange{By: id, Tool: c.tool})
			c.at = len(out.changes)
		}
		for _, path := range paths {
			if list := &out.changes[c.at-1].Paths; !slices.Contains(*list, path) {
				*list = append(*list, path)
			}
		}
	}
	switch p := pay.(type) {
	case parley.ToolStarted:
		c := of(p.Call)
		c.tool, c.input = p.Name, p.Input
	case parley.FilesAnnounced:
		of(p.Call).paths = p.Paths
		changes(p.Call, nil)
	case parley.FilesSaved:
		var paths []string
		for _, f := range p.Files {
			paths = append(paths, f.Path)
		}
		changes(p.Call, paths)
	case parley.ToolEnded:
		// A call that has announced a change and was answered, or lost, may have made it.
		if c := calls[p.Call]; c != nil && c.at > 0 && (p.Outcome == parley.OutcomeOK || p.Outcome == parley.OutcomeUnknown) {
			changes(p.Call, c.paths)
		}
	case parley.SessionRewound:
		var paths []string
		for _, f := range p.Files {
			if f.Outcome == parley.FileRestored {
				paths = append(paths, f.Path)
			}
		}
		if len(paths) > 0 {
			changes(parley.CallID(p.ID), paths)
		}
	}
}

// left lists what stays done, except what calls did to files that are known.
func (out *passage) left(app *scope.Resolved, known map[parley.CallID]bool) (list []parley.EffectLeft, more int) {
	for _, x := range out.done {
		switch {
		case known[x.Call]:
			continue
		case x.Outcome != parley.OutcomeOK && x.Outcome != parley.OutcomeUnknown && x.Outcome != "":
			continue // nothing was done
		case x.Resolution == parley.ChoiceDidNot || x.Resolution == parley.ChoiceAgain: // another call did it
			continue
		}
		if len(list) == parley.MaxRewoundEffects {
			more++
			continue
		}
		left := parley.EffectLeft{Call: x.Call, Turn: x.turn, Tool: x.Tool, Outcome: x.Outcome, Resolution: x.Resolution}
		if left.Outcome == "" {
			left.Outcome = parley.OutcomeUnknown
		}
		if app != nil && len(x.input) > 0 {
			left.Text = app.Tools().Words(x.Tool, x.input)
		}
		if text := string(x.input); left.Text == "" && text != "{}" {
			left.Text = parley.Cut(text, 200)
		}
		list = append(list, left)
	}
	return list, more
}
