package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

const (
	windowTurns = 30
	// Events of queued turns are mixed with those of the running turn. An app allows only
	// a few open turns per session.
	windowOverlap = 20
	// windowScan is how many events of a turn are examined for the start of its agent.
	windowScan = 100
)

type windowInput struct {
	SessionParam
	Before parley.TurnID `query:"before" pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$" patternDescription:"the id of a turn" doc:"Only turns older than this one; the newest when not given."`
	Turns  int           `query:"turns" minimum:"1" maximum:"200" doc:"At most about so many turns; 30 when not given."`
	Events int           `query:"events" minimum:"100" maximum:"10000" doc:"At most about so many events: fewer turns are taken, and the events of a turn that has more are read from its middle. As many as the turns have when not given."`
}

// window is where to begin reading a session's log if only the last turns are wanted.
type window struct {
	Session      parley.SessionInfo    `json:"session"`
	After        int64                 `json:"after" doc:"The cursor with which the events of these turns begin, each turn with all of its events from its start, except those in begun. 0 is the log's beginning."`
	Turns        int                   `json:"turns" doc:"How many turns that are."`
	More         bool                  `json:"more" doc:"Whether there are older turns."`
	Begun        []parley.Event        `json:"begun,omitempty" doc:"With events: how the turns began whose first events are left out, and what they still ask. The events between the first of these and after can be read like all others."`
	Mode         parley.PermissionMode `json:"mode"`
	MaxOpenTurns int                   `json:"max_open_turns"`
	Pins         []parley.Pin          `json:"pins" nullable:"false"`
	Rules        []parley.Rule         `json:"rules" nullable:"false" doc:"Granted for the session."`
}

func (s *Server) windowRoutes() {
	route(s, huma.Operation{
		OperationID: "get-window", Method: http.MethodGet, Path: "/v1/sessions/{id}/window", Tags: []string{"events"},
		Summary: "Find where the last turns begin in a session's log",
		Description: "A session may have thousands of turns, and a client shows a few. Read its events after the returned cursor.  " +
			"The answer also contains the session's current settings, which are in the part of the log that is not read.  " +
			"For older turns ask again with before, the id of the oldest turn you have, and read the events up to the first that you have.  " +
			"A turn of an agent may have thousands of events, too: with events, its newest are enough.",
	}, func(ctx context.Context, p parley.Principal, in *windowInput) (*body[window], error) {
		// It may read many whole turns.
		return ok(inTurn(ctx, s, p, func() (window, error) { return s.window(ctx, p, in) }))
	})
}

func (s *Server) window(ctx context.Context, p parley.Principal, in *windowInput) (window, error) {
	st, err := s.o.Engine.State(ctx, p, in.ID)
	if err != nil {
		return window{}, err
	}
	info, err := s.o.Engine.Session(ctx, p, in.ID)
	if err != nil {
		return window{}, err
	}
	w := window{Session: info, Mode: st.Mode, MaxOpenTurns: st.MaxOpenTurns, Pins: some(st.Pins), Rules: some(st.Rules)}
	end := info.Version // of the events of these turns
	if in.Before != "" && in.Events > 0 {
		switch t, err := s.o.Engine.Turn(ctx, p, in.Before); {
		case err == nil:
			end = min(end, t.FirstSeq-1)
		case parley.CodeOf(err) != parley.CodeNotFound:
			return window{}, err
		}
	}
	first := info.Version + 1 // of the events of the turns so far
	before, want := in.Before, orElse(in.Turns, windowTurns)
	var turns []parley.TurnInfo
	for {
		list, err := s.o.Engine.Turns(ctx, p, seam.TurnQuery{Session: in.ID, Before: before, Limit: max(want-w.Turns, 0) + windowOverlap})
		if err != nil {
			return window{}, err
		}
		taken := 0
		for i, t := range list {
			fits := w.Turns+i < want && (in.Events == 0 || w.Turns+i == 0 || end-t.FirstSeq < int64(in.Events))
			if fits || t.LastSeq >= first || !t.Status.Ended() {
				for _, u := range list[taken : i+1] {
					first = min(first, u.FirstSeq)
				}
				taken = i + 1
			}
		}
		w.Turns += taken
		if in.Events > 0 {
			turns = append(turns, list[:taken]...)
		}
		if taken < len(list) {
			w.After, w.More = first-1, true
			break
		}
		if len(list) == 0 {
			break
		}
		before = list[len(list)-1].ID
	}
	if in.Events > 0 && end-w.After > int64(in.Events) && len(turns) > 0 {
		return s.cut(ctx, p, w, turns, end-int64(in.Events))
	}
	return w, nil
}

// cut lets a window begin after an event in the middle of some of its turns, the newest first.
func (s *Server) cut(ctx context.Context, p parley.Principal, w window, turns []parley.TurnInfo, after int64) (window, error) {
	w.After = after
	held := heldList
	for _, t := range turns {
		if t.FirstSeq > after {
			continue
		}
		if t.Status.Ended() && t.LastSeq <= after {
			w.Turns-- // it is an older one, or was queued and cancelled during another one
			w.More = true
			continue
		}
		begun, err := s.begun(ctx, p, w.Session.ID, t, after)
		if err != nil {
			return window{}, err
		}
		for _, e := range begun {
			held += 2 * len(e.Data) // and its JSON
		}
		if err := wire.Reserve(ctx, held); err != nil {
			return window{}, err
		}
		w.Begun = append(w.Begun, begun...)
	}
	slices.SortFunc(w.Begun, func(a, b parley.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return w, nil
}

// begun returns the events up to a number that say how a turn began, and what it still asks.
func (s *Server) begun(ctx context.Context, p parley.Principal, id parley.SessionID, t parley.TurnInfo, to int64) ([]parley.Event, error) {
	var list []parley.Event
	end := min(to, t.FirstSeq-1+windowScan)
	for at, found := t.FirstSeq-1, false; at < end && !found; {
		// A long message fills a page by itself.
		events, taken, err := s.o.Reader.Page(ctx, p, id, at, int(end-at))
		if err != nil {
			return nil, err
		}
		taken()
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			if at = e.Seq; e.Turn != t.ID {
				continue
			}
			if found = e.Type == (parley.AgentStarted{}).EventType(); found || e.Seq == t.FirstSeq {
				list = append(list, e)
			}
			if found {
				break
			}
		}
	}
	for _, in := range t.Interactions {
		row, err := s.o.Engine.Interaction(ctx, p, in)
		if parley.CodeOf(err) == parley.CodeNotFound || err == nil && (!row.Open || row.LastSeq > to) {
			continue
		}
		if err != nil {
			return nil, err
		}
		e := parley.NewEvent(t.ID, row.Agent, parley.InteractionOpened{Interaction: row.Interaction})
		e.Session, e.Seq, e.Time = id, row.LastSeq, row.OpenedAt
		list = append(list, e)
	}
	return list, nil
}
