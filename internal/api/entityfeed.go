package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/wire"
)

const (
	// feedEvery is how often the live feed looks for commits that others have made.
	feedEvery = time.Second
	feedPage  = 100
)

type feedInput struct {
	LakeParam
	Cursor string `query:"cursor" maxLength:"64" doc:"What the page or frame before says; the first change when not given. now: only what comes from now on."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" doc:"At most so many changes; 50 when not given."`
}

type feedStreamInput struct {
	LakeParam
	Cursor string `query:"cursor" maxLength:"64" doc:"The cursor of the last change that you have; the first change when not given. now: only what comes from now on."`
	Last   string `header:"Last-Event-ID" maxLength:"64" doc:"What a browser sends when it comes back; it wins over cursor."`
}

func (s *Server) feedRoutes(tags []string) {
	route(s, huma.Operation{
		OperationID: "list-entity-changes", Method: http.MethodGet, Path: changesPath, Tags: tags, Summary: "Read the changes of a lake",
		Description: "The commits behind a cursor, the oldest first, whoever made them. cursor in the answer is for the next request, also when there were none. " +
			"reset says that the history does not contain the cursor, because it was replaced or because the cursor was never given out, so that the changes begin with the first.",
	}, func(ctx context.Context, p parley.Principal, in *feedInput) (*body[lake.Feed], error) {
		return ok(inTurn(ctx, s, p, func() (f lake.Feed, err error) {
			l, err := s.lakeOf(ctx, p, in.LakeParam)
			if err != nil {
				return f, err
			}
			cursor, err := feedCursor(ctx, l, in.Cursor)
			if err != nil {
				return f, err
			}
			return l.Changes(ctx, cursor, lake.Page{Limit: in.Limit})
		}))
	})
	frame := s.schema(parley.LakeChange{})
	route(s, huma.Operation{
		OperationID: "follow-entity-changes", Method: http.MethodGet, Path: feedPath, Tags: tags, Summary: "Follow the changes of a lake",
		Description: "The changes behind the cursor, then whatever comes, as server-sent events named change whose id is the cursor. A reset event says that the history does not contain the cursor; the changes begin with the first then.",
		Responses: map[string]*huma.Response{
			"200": {Description: "Changes", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: frame}}},
		},
	}, s.followFeed)
}

// feedCursor is a cursor of a request.
func feedCursor(ctx context.Context, l userfiles.Lake, cursor string) (string, error) {
	if cursor == "now" {
		return l.Head(ctx)
	}
	return cursor, nil
}

// followFeed sends the changes of a lake as they come. The lake is looked at by turns, and nothing is held in between.
func (s *Server) followFeed(ctx context.Context, p parley.Principal, in *feedStreamInput) (*huma.StreamResponse, error) {
	cursor := in.Cursor
	if in.Last != "" {
		cursor = in.Last
	}
	l, err := s.lakeOf(ctx, p, in.LakeParam)
	if err != nil {
		return nil, err
	}
	if cursor, err = feedCursor(ctx, l, cursor); err != nil {
		return nil, err
	}
	page, err := inTurn(ctx, s, p, func() (lake.Feed, error) { return l.Changes(ctx, cursor, lake.Page{Limit: feedPage}) })
	if err != nil { // refused while that can be said
		return nil, err
	}
	done, err := s.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	return s.streamed(done, func(w http.ResponseWriter, r *http.Request) error {
		f := feed{s: s, in: in.LakeParam, l: l, p: p, cursor: cursor}
		wire.ServeMessages(w, r, f.messages(r.Context(), page), wire.SSE, wire.Options{Heartbeat: s.o.Heartbeat})
		return nil
	}), nil
}

// feed is a stream of the changes of a lake.
type feed struct {
	s      *Server
	in     LakeParam
	l      userfiles.Lake
	p      parley.Principal
	cursor string
}

// messages yields pages of changes, the first of which was read already, until the client goes or the lake cannot be read.
// The client comes back with its cursor then.
func (f *feed) messages(ctx context.Context, page lake.Feed) iter.Seq[[]wire.Message] {
	return func(yield func([]wire.Message) bool) {
		tick := time.NewTicker(feedEvery)
		defer tick.Stop()
		for first := true; ; first = false {
			if list := f.said(page); (first || len(list) > 0) && !yield(list) { // also without a change the client learns that it is connected
				return
			}
			for !page.More {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				// Found again each time: the caller may not be allowed any more, and the server may be shutting down.
				l, err := f.s.lakeOf(ctx, f.p, f.in)
				if err != nil {
					return
				}
				f.l = l
				if head, err := l.Head(ctx); err == nil && head != f.cursor {
					break
				}
			}
			next, err := inTurn(ctx, f.s, f.p, func() (lake.Feed, error) { return f.l.Changes(ctx, f.cursor, lake.Page{Limit: feedPage}) })
			if err != nil {
				if ctx.Err() == nil {
					f.s.o.Logger.WarnContext(ctx, "a feed of changes broke off", "error", err)
				}
				return
			}
			page = next
		}
	}
}

// said are the messages of a page.
func (f *feed) said(page lake.Feed) (list []wire.Message) {
	if page.Reset && f.cursor != "" {
		list = append(list, wire.Message{Event: "reset", Data: []byte("{}")})
	}
	for _, c := range page.Changes {
		raw, err := json.Marshal(c)
		if err != nil {
			continue // it has nothing that cannot be written as JSON
		}
		list = append(list, wire.Message{ID: c.Cursor, Event: "change", Data: raw})
	}
	f.cursor = page.Cursor
	return list
}
