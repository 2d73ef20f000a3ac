package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	windowTurns = 30
	// Events of queued turns are mixed with those of the running turn. An app allows only
	// a few open turns per session.
	windowOverlap = 20
)

type windowInput struct {
	SessionParam
	Before parley.TurnID `query:"before" pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$" patternDescription:"the id of a turn" doc:"Only turns older than this one; the newest when not given."`
	Turns  int           `query:"turns" minimum:"1" maximum:"200" doc:"At most about so many turns; 30 when not given."`
}

// window is where to begin reading a session's log if only the last turns are wanted.
type window struct {
	Session      parley.SessionInfo    `json:"session"`
	After        int64                 `json:"after" doc:"The cursor with which the events of these turns begin, each turn with all of its events from its start. 0 is the log's beginning."`
	Turns        int                   `json:"turns" doc:"How many turns that are."`
	More         bool                  `json:"more" doc:"Whether there are older turns."`
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
			"For older turns ask again with before, the id of the oldest turn you have, and read the events up to the first that you have.",
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
	first := info.Version + 1 // of the events of the turns so far
	before, want := in.Before, orElse(in.Turns, windowTurns)
	for {
		list, err := s.o.Engine.Turns(ctx, p, seam.TurnQuery{Session: in.ID, Before: before, Limit: max(want-w.Turns, 0) + windowOverlap})
		if err != nil {
			return window{}, err
		}
		taken := 0
		for i, t := range list {
			if w.Turns+i < want || t.LastSeq >= first || !t.Status.Ended() {
				for _, u := range list[taken : i+1] {
					first = min(first, u.FirstSeq)
				}
				taken = i + 1
			}
		}
		w.Turns += taken
		if taken < len(list) {
			w.After, w.More = first-1, true
			return w, nil
		}
		if len(list) == 0 {
			return w, nil
		}
		before = list[len(list)-1].ID
	}
}
