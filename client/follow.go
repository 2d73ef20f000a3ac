package client

import (
	"context"
	"encoding/json"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sse"
)

// Page is a stretch of a log.
type Page struct {
	Events []parley.Event `json:"events"`
	Next   int64          `json:"next"` // the cursor for the next page
	More   bool           `json:"more"`
}

// EventFilter selects events.
type EventFilter struct {
	Types []string // such as "turn.completed", or "turn.*"; empty: all
	Limit int      // events per page; at most 1,000
}

// Events reads the events after a number, without waiting for more.
func (c *Client) Events(ctx context.Context, id parley.SessionID, after int64, f EventFilter) (Page, error) {
	q := url.Values{}
	number(q, "after", after)
	number(q, "limit", int64(f.Limit))
	set(q, "types", strings.Join(f.Types, ","))
	return get[Page](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/events", id), query: q})
}

// Frame is one item that a follower receives: either Event or Delta is set.
type Frame struct {
	Event *parley.Event
	Delta *parley.Delta
	// Partial says that Delta is the whole text so far of its call and kind. It replaces
	// what was shown before.
	Partial bool
}

const (
	maxFrame  = 64 << 20 // larger than any event a server stores
	firstWait = 200 * time.Millisecond
	// silence after which a connection counts as dead: three heartbeats of the server.
	silence = 45 * time.Second
)

// Follow yields the events after a number, then the text so far of each call in flight,
// then what happens from now on. It reconnects at the last event, so each event comes
// once and in order; a call in flight then begins again with a Partial.
//
// It ends with an error that retrying would not fix, such as [parley.ErrNotFound], or
// with ctx's cause. It does not end by itself.
func (c *Client) Follow(ctx context.Context, id parley.SessionID, after int64) iter.Seq2[Frame, error] {
	return c.follow(ctx, id, after, 0)
}

// follow is Follow with a limit on how long the server may stay away, if it is not 0.
func (c *Client) follow(ctx context.Context, id parley.SessionID, after int64, patience time.Duration) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		f := follower{at: after, yield: yield}
		s := stream{c: c, each: f.frame, call: func() call {
			q := url.Values{}
			number(q, "after", f.at)
			return call{method: http.MethodGet, path: p("/v1/sessions/%s/events", id), query: q}
		}}
		if err := s.run(ctx, patience); err != nil {
			yield(Frame{}, err)
		}
	}
}

// FollowTurn yields the frames of one turn, from its first event to the event that ends
// it, and then stops without an error. It also stops after a turn.interrupted that is
// newer than t, if the turn does not go on by itself. When the server stays away for
// longer than [Options.Patience], it ends with CodeUnavailable.
func (c *Client) FollowTurn(ctx context.Context, t parley.TurnInfo) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		for f, err := range c.follow(ctx, t.SessionID, max(t.FirstSeq-1, 0), c.patience) {
			switch {
			case err != nil:
				yield(f, err)
				return
			case f.Event != nil && f.Event.Turn != t.ID, f.Delta != nil && f.Delta.Turn != t.ID:
				continue
			}
			if !yield(f, nil) || f.Event != nil && (endsTurn(f.Event.Type) || f.Event.Seq > t.LastSeq && stays(*f.Event)) {
				return
			}
		}
	}
}

func endsTurn(t parley.EventType) bool {
	switch t {
	case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
		return true
	}
	return false
}

// stays reports whether e leaves its turn interrupted until somebody resumes it.
func stays(e parley.Event) bool {
	if e.Type != (parley.TurnInterrupted{}).EventType() {
		return false
	}
	p, err := e.Payload()
	i, ok := p.(parley.TurnInterrupted)
	return err == nil && ok && !i.Resumes
}

// follower takes the frames of a session's stream.
type follower struct {
	at    int64 // the last event
	yield func(Frame, error) bool
}

func (f *follower) frame(fr sse.Frame) (more bool, err error) {
	switch fr.Event {
	case "model.delta", "model.thinking", "model.partial", "tool.progress":
		var d parley.Delta
		if json.Unmarshal(fr.Data, &d) != nil {
			return true, nil // not history
		}
		return f.yield(Frame{Delta: &d, Partial: fr.Event == "model.partial"}, nil), nil
	case "reset": // fragments were dropped; events and partials follow
		return true, nil
	}
	var e parley.Event
	switch {
	case json.Unmarshal(fr.Data, &e) != nil, e.Seq == 0: // a kind of frame newer than this client
	case e.Seq <= f.at:
	case e.Seq != f.at+1:
		return true, parley.Errorf(parley.CodeUnavailable, "event %d is missing", f.at+1)
	default:
		f.at = e.Seq
		return f.yield(Frame{Event: &e}, nil), nil
	}
	return true, nil
}

// stream reads server-sent events, and makes its connection again whenever it breaks.
type stream struct {
	c    *Client
	call func() call                            // of the next connection, with its cursor
	each func(sse.Frame) (more bool, err error) // more is false when the caller wants no more; an error ends the connection

	heard bool      // whether the last connection delivered anything
	there time.Time // when the server was last there
	away  bool      // the last attempt to connect failed
}

// run reads until the caller wants no more, which is no error. patience limits how long the
// server may stay away, if it is not 0.
func (s *stream) run(ctx context.Context, patience time.Duration) error {
	s.there = time.Now()
	for failures := 0; ; failures++ {
		more, err := s.read(ctx)
		switch {
		case !more:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && final(err):
			return err
		}
		if s.heard {
			failures = 0
		}
		if patience > 0 && s.away && time.Since(s.there) >= patience {
			return s.c.givesUp(err)
		}
		if !pause(ctx, s.c.wait(failures, err)) {
			return context.Cause(ctx)
		}
	}
}

// read makes one connection and reads it to its end. more is false when the caller wants
// no more frames.
func (s *stream) read(ctx context.Context) (more bool, err error) {
	s.heard = false
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	quiet := time.AfterFunc(silence, func() {
		stop(parley.Errorf(parley.CodeUnavailable, "the connection to the server was silent for %s", silence))
	})
	defer quiet.Stop()

	// A server whose store is away lets those wait who take no error.
	resp, err := s.c.do(ctx, s.call().set("Accept", sse.ContentType+", application/json"))
	if err != nil {
		if !s.away && ctx.Err() == nil && !final(err) {
			s.away = true
			s.c.away(err)
		}
		return true, err
	}
	if s.away {
		s.away = false
		s.c.away(nil)
	}
	defer func() { s.there = time.Now() }()
	defer resp.Body.Close()
	for fr, err := range sse.Decode(alive{resp.Body, quiet}, maxFrame) {
		if err != nil {
			return true, parley.Errorf(parley.CodeUnavailable, "the stream broke: %w", err)
		}
		s.heard = true
		if fr.Event == "error" {
			var p struct {
				Error parley.ErrorInfo `json:"error"`
			}
			if json.Unmarshal(fr.Data, &p) != nil || p.Error.Code == "" {
				return true, nil
			}
			return true, fromInfo(p.Error)
		}
		if more, err := s.each(fr); !more || err != nil {
			return more, err
		}
	}
	return true, nil // the server closed the stream, for example to shut down
}

// alive resets the silence timer with every read, comments included.
type alive struct {
	r     interface{ Read([]byte) (int, error) }
	quiet *time.Timer
}

func (a alive) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if n > 0 {
		a.quiet.Reset(silence)
	}
	return n, err
}

// wait returns a random pause of a span that doubles with each failure, so that the
// clients of a restarted server do not all return at once. The server's own advice is a
// minimum.
func (c *Client) wait(failures int, err error) time.Duration {
	span := min(c.retry, firstWait<<min(failures, 20))
	w := rand.N(span) + 1
	if e, ok := err.(*parley.Error); ok {
		w = max(w, min(e.RetryAfter, c.retry))
	}
	return w
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// final reports whether a retry would get the same answer.
func final(err error) bool {
	switch parley.CodeOf(err) {
	case parley.CodeUnavailable, parley.CodeTimeout, parley.CodeRateLimited, parley.CodeFenced, parley.CodeInternal:
		return false
	}
	return true
}
