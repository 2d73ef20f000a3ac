package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

const (
	turnsPath      = "/v1/sessions/{id}/turns"
	turnStreamPath = turnsPath + "/stream"
)

// maxAwait is how long one await may take: shorter than the usual timeout of proxies.
const maxAwait = 5 * time.Minute

// TurnParam: as SessionParam.
type TurnParam struct {
	ID parley.TurnID `path:"id" maxLength:"64" doc:"The turn."`
}

type sendInput struct {
	SessionParam
	KeyParam
	ViewParam
	Accept string `header:"Accept" doc:"text/event-stream gives the turn's frames until its end."`
	Body   parley.Send
}

// ViewParam says how a turn's frames are shown.
type ViewParam struct {
	View   string `query:"view" enum:"native,sdk,simple" doc:"For a stream: sdk shows the messages of the Claude Agent SDK, simple the five events TextDelta, ToolUse, ToolResult, Done and Error."`
	Types  string `query:"types" maxLength:"2000" doc:"With the views sdk and simple: only messages of these types, separated by commas."`
	Deltas string `query:"deltas" enum:"true,false" doc:"For a stream: whether text in flight is shown, which it is unless false."` // a bool whose default is true would never be false beside a body
}

type streamTurnInput struct {
	SessionParam
	KeyParam
	ViewParam
	Body parley.Send
}

const busyDoc = "While another turn runs, waits for a human or is about to be resumed by itself, busy decides, or else the session's busy mode. " +
	"reject: the answer is 409 busy, which names the open interaction when the turn waits. enqueue: it runs after those that are there. " +
	"interrupt: the open turn ends and this one is next. steer: the open turn gets the message for its next step; " +
	"one that waits is answered no to all that it asks, with the message as what to do instead."

type listTurnsInput struct {
	SessionParam
	Status []string      `query:"status" enum:"pending,running,waiting,completed,failed,cancelled,expired,interrupted" doc:"Only turns in one of these."`
	Before parley.TurnID `query:"before" pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$" patternDescription:"the id of a turn" doc:"Only turns older than this one."`
	Limit  int           `query:"limit" minimum:"1" maximum:"500" doc:"At most so many; 50 when not given."`
}

type turnList struct {
	Turns []parley.TurnInfo `json:"turns" nullable:"false"`
	Next  parley.TurnID     `json:"next,omitempty" doc:"What before is for the next page, which a page of long messages and answers leads to early; left out on the last."`
}

type awaitInput struct {
	TurnParam
	Body *awaitBody
}

type awaitBody struct {
	TimeoutMS *int64 `json:"timeout_ms,omitempty" minimum:"0" maximum:"300000" doc:"How long to wait, 0 for not at all; 30,000 when not given."`
}

type cancelInput struct {
	TurnParam
	Body *reasonBody
}

type retryInput struct {
	TurnParam
	KeyParam
}

func (s *Server) turnRoutes() {
	e := s.o.Engine
	tags := []string{"turns"}
	route(s, huma.Operation{
		OperationID: "send", Method: http.MethodPost, Path: turnsPath, Tags: tags, DefaultStatus: http.StatusAccepted,
		Summary: "Ask for a turn",
		Description: "Answers 202 with the turn as soon as it is durable; await it or follow the session's events. " +
			"With Accept: text/event-stream the answer is that of " + turnStreamPath + ". " + busyDoc,
		Responses: map[string]*huma.Response{
			"202": {Description: "The turn", Headers: headers("Location", "Parley-Session", "Parley-Turn"), Content: map[string]*huma.MediaType{
				"application/json": {Schema: s.schema(parley.TurnInfo{})},
			}},
		},
	}, func(ctx context.Context, p parley.Principal, in *sendInput) (*huma.StreamResponse, error) {
		return s.send(ctx, p, in.ID, in.Key, in.Body, accepts(in.Accept, "text/event-stream"), in.ViewParam)
	})
	route(s, huma.Operation{
		OperationID: "stream-turn", Method: http.MethodPost, Path: turnStreamPath, Tags: tags,
		Summary: "Ask for a turn, and follow it to its end",
		Description: "The answer is the turn's frames, as those of the session's events, until its end, or until it was interrupted and does not go on by itself. While it waits for a human, the stream stays open. " +
			"Closing the stream does not end the turn. " + busyDoc,
		Responses: map[string]*huma.Response{
			"200": {Description: "The turn's frames until its end", Headers: headers("Parley-Session", "Parley-Turn"), Content: s.frames("text/event-stream")},
		},
	}, func(ctx context.Context, p parley.Principal, in *streamTurnInput) (*huma.StreamResponse, error) {
		return s.send(ctx, p, in.ID, in.Key, in.Body, true, in.ViewParam)
	})
	route(s, huma.Operation{
		OperationID: "list-turns", Method: http.MethodGet, Path: turnsPath, Tags: tags, Summary: "List a session's turns, the newest first",
		Description: "To read the next page, set before to the id of the last turn you have.",
	}, func(ctx context.Context, p parley.Principal, in *listTurnsInput) (*body[turnList], error) {
		if _, err := e.Session(ctx, p, in.ID); err != nil { // an empty list would suggest that the session exists
			return nil, err
		}
		q := seam.TurnQuery{Session: in.ID, Before: in.Before, Limit: in.Limit}
		for _, st := range in.Status {
			q.Statuses = append(q.Statuses, parley.TurnStatus(st))
		}
		list, next, err := e.TurnPage(ctx, p, q)
		return ok(turnList{some(list), next.ID}, err)
	})
	route(s, huma.Operation{
		OperationID: "get-turn", Method: http.MethodGet, Path: "/v1/turns/{id}", Tags: tags, Summary: "Read a turn",
		Description: "Its status, result and cost, and what it waits for.",
	}, func(ctx context.Context, p parley.Principal, in *TurnParam) (*body[parley.TurnInfo], error) {
		return ok(e.Turn(ctx, p, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "await-turn", Method: http.MethodPost, Path: "/v1/turns/{id}/await", Tags: tags, Summary: "Wait until a turn has ended",
		Description: "Also returns when the turn waits for a human, or was interrupted and does not go on by itself. After the timeout it returns the turn as it is; its status then says that it has not ended.",
	}, func(ctx context.Context, p parley.Principal, in *awaitInput) (*body[parley.TurnInfo], error) {
		wait := 30 * time.Second
		if in.Body != nil && in.Body.TimeoutMS != nil {
			wait = min(time.Duration(*in.Body.TimeoutMS)*time.Millisecond, maxAwait)
		}
		if _, err := e.Await(ctx, p, in.ID, wait); err != nil {
			return nil, err
		}
		if err := wire.Reserve(ctx, heldSmall); err != nil { // nothing is held while the turn runs
			return nil, err
		}
		return ok(e.Turn(ctx, p, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "cancel-turn", Method: http.MethodPost, Path: "/v1/turns/{id}/cancel", Tags: tags, Summary: "Stop a turn",
		Description: "Reads are cut at once. A write that has started may run until its deadline; stopping is true until then.",
	}, func(ctx context.Context, p parley.Principal, in *cancelInput) (*body[parley.TurnInfo], error) {
		return ok(e.Cancel(ctx, p, in.ID, reasonOf(in.Body)))
	})
	route(s, huma.Operation{
		OperationID: "resume-turn", Method: http.MethodPost, Path: "/v1/turns/{id}/resume", Tags: tags, Summary: "Continue an interrupted turn",
		Description: "It continues after the last step in the log. Calls that were started but have no outcome are unknown, and are not repeated.",
	}, func(ctx context.Context, p parley.Principal, in *TurnParam) (*body[parley.TurnInfo], error) {
		return ok(e.Resume(ctx, p, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "retry-turn", Method: http.MethodPost, Path: "/v1/turns/{id}/retry", Tags: tags, DefaultStatus: http.StatusAccepted,
		Summary:     "Ask again what a turn was asked, as a new turn that names the old one",
		Description: "The new turn is told about the old one's effects.",
	}, func(ctx context.Context, p parley.Principal, in *retryInput) (*body[parley.TurnInfo], error) {
		return ok(e.Retry(ctx, p, in.ID, string(in.Key), clientName))
	})
}

func (s *Server) send(ctx context.Context, p parley.Principal, id parley.SessionID, key keyText, c parley.Send, follow bool, as ViewParam) (*huma.StreamResponse, error) {
	if strings.TrimSpace(c.Message) == "" {
		return nil, invalid("message", "the message is empty")
	}
	v, err := s.viewOfTurn(p, id, as)
	if err != nil {
		return nil, err
	}
	var done func()
	if follow { // before the turn is made: a refusal must not leave one behind
		if done, err = s.Open(ctx, p); err != nil {
			return nil, err
		}
	}
	c.Key, c.Client = string(key), clientName
	t, err := s.o.Engine.Send(ctx, p, id, c)
	if err != nil {
		if done != nil {
			done()
		}
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Parley-Session", string(t.SessionID))
		w.Header().Set("Parley-Turn", string(t.ID))
		if follow {
			v.begins(t.FirstSeq - 1)
			ctx.Value(leftKey{}).(*left).st = &stream{
				serve: by(wire.SSE), done: done, form: v.encoder(), frames: v.frames,
				o: wire.Options{Keep: ofTurn(t.ID, as.Deltas != "false"), Until: wire.EndOf(t.ID, t.LastSeq), Heartbeat: s.o.Heartbeat, Accepted: true},
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/v1/turns/"+string(t.ID))
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(t) // the client has gone; the turn has not
	}}, nil
}

// ofTurn keeps the frames of one turn.
func ofTurn(turn parley.TurnID, deltas bool) func(eventlog.Frame) bool {
	return func(f eventlog.Frame) bool {
		switch {
		case f.Event != nil:
			return f.Event.Turn == turn
		case f.Delta != nil:
			return deltas && f.Delta.Turn == turn
		}
		return true
	}
}
