package client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/parley-server/parley"
)

// Send asks for a turn and returns as soon as the request is durable. Key is sent as the
// idempotency key: the same key returns the same turn.
func (c *Client) Send(ctx context.Context, id parley.SessionID, s parley.Send) (parley.TurnInfo, error) {
	a := call{method: http.MethodPost, path: p("/v1/sessions/%s/turns", id), body: s}
	return get[parley.TurnInfo](ctx, c, a.set("Idempotency-Key", s.Key))
}

// Deliver is Send that gets through a crash of the server, also behind a proxy: while the
// server cannot be reached, or it is unclear whether it got the request, the request is
// repeated with the same key, within [Options.Patience]. Without a key it gets one.
func (c *Client) Deliver(ctx context.Context, id parley.SessionID, s parley.Send) (parley.TurnInfo, error) {
	if s.Key == "" {
		s.Key = rand.Text()
	}
	unclear := c.again()
	return patient(ctx, c, func(err error) bool { return unclear(err) || isUnreached(err) }, func() (parley.TurnInfo, error) {
		return c.Send(ctx, id, s)
	})
}

// once makes a request that would make something twice if it were repeated without a key.
// If its answer is lost, it is repeated with the same key until the server says what became
// of it. A server that cannot be reached in the first place, or that says itself that it
// cannot do it now, is an error at once, unless the client insists.
func once[T any](ctx context.Context, c *Client, key *string, do func() (T, error)) (T, error) {
	if *key == "" {
		*key = rand.Text()
	}
	return patient(ctx, c, c.again(), do)
}

// inDoubt returns a function that is told the error of each attempt at a request. It
// reports whether the server may have done what one of them asked, and might still say so.
func inDoubt() func(error) bool {
	doubt := false
	return func(err error) bool {
		u, ok := errors.AsType[*unreached](err)
		doubt = doubt || ok && u.sent()
		return doubt && !final(err)
	}
}

// again returns a function that is told the error of each attempt at a request which does
// nothing twice, and reports whether to repeat it.
func (c *Client) again() func(error) bool {
	unclear := inDoubt()
	return func(err error) bool {
		return unclear(err) || c.insists(err)
	}
}

// insists reports whether the client waits for a server that answers with err, or does not
// answer.
func (c *Client) insists(err error) bool {
	return c.insist && parley.CodeOf(err) == parley.CodeUnavailable
}

// SendAndWait delivers a message and returns its turn when that has ended, waits for a
// human or was interrupted and does not go on by itself; its Status says which. It waits
// through a crash of the server within [Options.Patience].
func (c *Client) SendAndWait(ctx context.Context, id parley.SessionID, s parley.Send) (parley.TurnInfo, error) {
	t, err := c.Deliver(ctx, id, s)
	for err == nil && !t.Over() && t.Status != parley.StatusWaiting {
		if t.Resumes && !pause(ctx, firstWait) { // the server is about to stop again
			return t, context.Cause(ctx)
		}
		var now parley.TurnInfo
		now, err = patient(ctx, c, func(err error) bool { return !final(err) }, func() (parley.TurnInfo, error) {
			return c.Await(ctx, t.ID, time.Minute)
		})
		if err == nil {
			t = now
		}
	}
	return t, err
}

func isUnreached(err error) bool {
	_, ok := errors.AsType[*unreached](err)
	return ok
}

// patient repeats do after errors for which again says so, until the client's patience
// ends.
func patient[T any](ctx context.Context, c *Client, again func(error) bool, do func() (T, error)) (T, error) {
	began := time.Now()
	for failures := 0; ; failures++ {
		v, err := do()
		if err == nil || ctx.Err() != nil || !again(err) {
			if failures > 0 {
				c.away(nil)
			}
			return v, err
		}
		if failures == 0 {
			began = time.Now()
			c.away(err)
		}
		if time.Since(began) >= c.patience {
			return v, c.givesUp(err)
		}
		if !pause(ctx, c.wait(failures, err)) {
			return v, context.Cause(ctx)
		}
	}
}

// givesUp is the error of a method that ends because its server stays away.
func (c *Client) givesUp(err error) error {
	return parley.Errorf(parley.CodeUnavailable, "the server has not answered for %s: %w", c.patience, err).
		WithHint("what the server acknowledged is kept; look whether it did this, too, when it is back")
}

// Await waits until the turn has ended, waits for a human or was interrupted and does not
// go on by itself. After the given time, at most five minutes, it returns the turn as it
// is.
func (c *Client) Await(ctx context.Context, id parley.TurnID, timeout time.Duration) (parley.TurnInfo, error) {
	return get[parley.TurnInfo](ctx, c, call{method: http.MethodPost, path: p("/v1/turns/%s/await", id), body: struct {
		TimeoutMS int64 `json:"timeout_ms"`
	}{min(timeout, 5*time.Minute).Milliseconds()}})
}

// Turn reads one turn.
func (c *Client) Turn(ctx context.Context, id parley.TurnID) (parley.TurnInfo, error) {
	return patient(ctx, c, c.insists, func() (parley.TurnInfo, error) {
		return get[parley.TurnInfo](ctx, c, call{method: http.MethodGet, path: p("/v1/turns/%s", id)})
	})
}

// TurnFilter selects turns; its zero value selects the newest 50.
type TurnFilter struct {
	Statuses []parley.TurnStatus
	Before   parley.TurnID // older than this one
	Limit    int           // at most 500
}

// Turns lists one page of a session's turns, the newest first.
func (c *Client) Turns(ctx context.Context, id parley.SessionID, f TurnFilter) ([]parley.TurnInfo, error) {
	list, _, err := c.TurnPage(ctx, id, f)
	return list, err
}

// TurnPage is Turns with the value of Before for the next page, which is empty on the
// last page. A page with long messages and answers holds fewer turns than its limit.
func (c *Client) TurnPage(ctx context.Context, id parley.SessionID, f TurnFilter) (list []parley.TurnInfo, next parley.TurnID, err error) {
	q := url.Values{}
	statuses := ""
	for i, s := range f.Statuses {
		if i > 0 {
			statuses += ","
		}
		statuses += string(s)
	}
	set(q, "status", statuses)
	set(q, "before", string(f.Before))
	number(q, "limit", int64(f.Limit))
	page, err := get[struct {
		Turns []parley.TurnInfo `json:"turns"`
		Next  parley.TurnID     `json:"next"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/turns", id), query: q})
	return page.Turns, page.Next, err
}

// Cancel stops a turn. If Stopping is set in the returned turn, a write that had started
// may still finish. If the answer is lost, the request is repeated within
// [Options.Patience]: a turn is cancelled once.
func (c *Client) Cancel(ctx context.Context, id parley.TurnID, reason string) (parley.TurnInfo, error) {
	return patient(ctx, c, c.again(), func() (parley.TurnInfo, error) {
		return get[parley.TurnInfo](ctx, c, call{method: http.MethodPost, path: p("/v1/turns/%s/cancel", id), body: reasonBody{reason}})
	})
}

// Resume continues an interrupted turn. If the answer is lost, the request is repeated
// within [Options.Patience]. A turn that is no longer interrupted then, since it was
// resumed, is returned as it is.
func (c *Client) Resume(ctx context.Context, id parley.TurnID) (parley.TurnInfo, error) {
	again, repeats := c.again(), false
	return patient(ctx, c, func(err error) bool { repeats = again(err); return repeats }, func() (parley.TurnInfo, error) {
		t, err := get[parley.TurnInfo](ctx, c, call{method: http.MethodPost, path: p("/v1/turns/%s/resume", id)})
		if repeats && parley.CodeOf(err) == parley.CodeConflict {
			if now, e := c.Turn(ctx, id); e != nil || now.Attempts > 0 {
				return now, e
			}
		}
		return t, err
	})
}

// Retry asks the question of a turn again, as a new turn. Key is sent as the idempotency
// key; without one, the call gets one. If the answer is lost, the request is repeated with
// it within [Options.Patience].
func (c *Client) Retry(ctx context.Context, id parley.TurnID, key string) (parley.TurnInfo, error) {
	return once(ctx, c, &key, func() (parley.TurnInfo, error) {
		a := call{method: http.MethodPost, path: p("/v1/turns/%s/retry", id)}
		return get[parley.TurnInfo](ctx, c, a.set("Idempotency-Key", key))
	})
}

// Interaction is a request to a human and its status.
type Interaction struct {
	parley.Interaction
	Open       bool           `json:"open"`
	Answer     *parley.Answer `json:"answer,omitempty"`
	AnsweredBy string         `json:"answered_by,omitempty"`
}

// Interactions lists the open interactions of all sessions, the oldest first. A limit of
// 0 means 50.
func (c *Client) Interactions(ctx context.Context, limit int) ([]Interaction, error) {
	list, _, err := c.InteractionPage(ctx, "", limit)
	return list, err
}

// InteractionPage is Interactions page by page. The first cursor is empty; next is the
// cursor of the following page, and empty on the last page. Paging stays correct when
// interactions are answered or deleted meanwhile.
func (c *Client) InteractionPage(ctx context.Context, cursor string, limit int) (list []Interaction, next string, err error) {
	q := url.Values{}
	set(q, "cursor", cursor)
	number(q, "limit", int64(limit))
	page, err := get[struct {
		Interactions []Interaction `json:"interactions"`
		Next         string        `json:"next"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/interactions", query: q})
	return page.Interactions, page.Next, err
}

// Interaction reads one interaction.
func (c *Client) Interaction(ctx context.Context, id parley.InteractionID) (Interaction, error) {
	return patient(ctx, c, c.insists, func() (Interaction, error) {
		return get[Interaction](ctx, c, call{method: http.MethodGet, path: p("/v1/interactions/%s", id)})
	})
}

// Answer answers an interaction. The first answer wins; a later one is refused as a conflict.
// The same answer by the same user is no conflict, so the caller may repeat it when the
// connection breaks.
func (c *Client) Answer(ctx context.Context, id parley.InteractionID, a parley.Answer) (Interaction, error) {
	return c.AnswerWith(ctx, id, parley.AnswerInteraction{Answer: a})
}

// AnswerWith is Answer with credentials for the tools of the turn, for example those that an
// interaction of kind credential asks for.
func (c *Client) AnswerWith(ctx context.Context, id parley.InteractionID, a parley.AnswerInteraction) (Interaction, error) {
	return patient(ctx, c, c.insists, func() (Interaction, error) {
		return get[Interaction](ctx, c, call{method: http.MethodPost, path: p("/v1/interactions/%s/answer", id), body: a})
	})
}

// Artifact opens an artifact; the caller closes it.
func (c *Client) Artifact(ctx context.Context, id parley.ArtifactID) (body io.ReadCloser, mediaType string, err error) {
	resp, err := c.do(ctx, call{method: http.MethodGet, path: p("/v1/artifacts/%s", id)})
	if err != nil {
		return nil, "", err
	}
	return resp.Body, resp.Header.Get("Content-Type"), nil
}
