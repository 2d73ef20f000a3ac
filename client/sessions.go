package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/parley-server/parley"
)

// CreateSession makes a session. With an outside id that was used before in the
// app it returns that session, and created is false. Key is sent as the
// idempotency key.
func (c *Client) CreateSession(ctx context.Context, s parley.CreateSession) (info parley.SessionInfo, created bool, err error) {
	a := call{method: http.MethodPost, path: "/v1/sessions", body: s}
	info, status, err := getStatus[parley.SessionInfo](ctx, c, a.set("Idempotency-Key", s.Key))
	return info, status == http.StatusCreated, err
}

// Session reads one session.
func (c *Client) Session(ctx context.Context, id parley.SessionID) (parley.SessionInfo, error) {
	return get[parley.SessionInfo](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s", id)})
}

// SessionFilter chooses sessions; its zero value is the 50 that changed last.
type SessionFilter struct {
	App    string
	Status parley.SessionStatus
	Before time.Time // changed before this
	Limit  int       // of one page; at most 500
	Cursor string    // where SessionPage said that the next page begins

	Direct bool // list those of direct calls, too, which have a session of their own
}

// Sessions lists one page of sessions, the last changed first.
func (c *Client) Sessions(ctx context.Context, f SessionFilter) ([]parley.SessionInfo, error) {
	list, _, err := c.SessionPage(ctx, f)
	return list, err
}

// SessionPage is Sessions with the cursor of the next page, empty when this one is
// the last. What does not change meanwhile is in one of the pages; a session that
// changes goes to the top of the list.
func (c *Client) SessionPage(ctx context.Context, f SessionFilter) (list []parley.SessionInfo, next string, err error) {
	q := url.Values{}
	set(q, "app", f.App)
	set(q, "status", string(f.Status))
	if !f.Before.IsZero() {
		q.Set("before", f.Before.Format(time.RFC3339Nano))
	}
	number(q, "limit", int64(f.Limit))
	set(q, "cursor", f.Cursor)
	if f.Direct {
		q.Set("direct", "true")
	}
	page, err := get[struct {
		Sessions []parley.SessionInfo `json:"sessions"`
		Next     string               `json:"next"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/sessions", query: q})
	return page.Sessions, page.Next, err
}

// Swept says what a sweep did, in sessions.
type Swept struct {
	Expired   int `json:"expired"`   // nobody used them for long
	Condensed int `json:"condensed"` // the steps of old turns were taken out
	Deleted   int `json:"deleted"`   // they ended long ago
}

// Sweep applies the apps' ttl to the caller's sessions now. The server does so by
// itself every few minutes.
func (c *Client) Sweep(ctx context.Context) (Swept, error) {
	return get[Swept](ctx, c, call{method: http.MethodPost, path: "/v1/sweep"})
}

// UpdateSession changes what u names.
func (c *Client) UpdateSession(ctx context.Context, id parley.SessionID, u parley.UpdateSession) (parley.SessionInfo, error) {
	return get[parley.SessionInfo](ctx, c, call{method: http.MethodPatch, path: p("/v1/sessions/%s", id), body: u})
}

// Rules lists what was granted for a session. UpdateSession with those that stay
// revokes the others.
func (c *Client) Rules(ctx context.Context, id parley.SessionID) ([]parley.Rule, error) {
	list, err := get[struct {
		Rules []parley.Rule `json:"rules"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/rules", id)})
	return list.Rules, err
}

// DeleteSession removes a session with everything in it.
func (c *Client) DeleteSession(ctx context.Context, id parley.SessionID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodDelete, path: p("/v1/sessions/%s", id)})
	return err
}

// EndSession closes a session for good; it stays readable.
func (c *Client) EndSession(ctx context.Context, id parley.SessionID, reason string) (parley.SessionInfo, error) {
	return get[parley.SessionInfo](ctx, c, call{method: http.MethodPost, path: p("/v1/sessions/%s/end", id), body: reasonBody{reason}})
}

type reasonBody struct {
	Reason string `json:"reason,omitempty"`
}

// ForkSession copies a session.
func (c *Client) ForkSession(ctx context.Context, id parley.SessionID, f parley.ForkSession) (parley.SessionInfo, error) {
	a := call{method: http.MethodPost, path: p("/v1/sessions/%s/fork", id), body: f}
	return get[parley.SessionInfo](ctx, c, a.set("Idempotency-Key", f.Key))
}

// Queued is a turn that waits behind the open one.
type Queued struct {
	ID      parley.TurnID `json:"id"`
	Message string        `json:"message"`
	Client  string        `json:"client,omitempty"`
	At      time.Time     `json:"at"`
	Seq     int64         `json:"seq"`
}

// Queue lists the turns that wait.
func (c *Client) Queue(ctx context.Context, id parley.SessionID) ([]Queued, error) {
	list, err := get[struct {
		Queue []Queued `json:"queue"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/queue", id)})
	return list.Queue, err
}

// Unqueue takes a turn off the queue.
func (c *Client) Unqueue(ctx context.Context, id parley.SessionID, turn parley.TurnID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodDelete, path: p("/v1/sessions/%s/queue/%s", id, turn)})
	return err
}

// Export writes the session as a zip file to w. When it fails, what was written
// is no zip file.
func (c *Client) Export(ctx context.Context, id parley.SessionID, w io.Writer) error {
	resp, err := c.do(ctx, call{method: http.MethodGet, path: p("/v1/sessions/%s/export", id)})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return parley.Errorf(parley.CodeUnavailable, "the export broke off: %w", err)
	}
	return nil
}

// Import makes a session of an export. App is the app to import into; empty is
// the archive's own.
func (c *Client) Import(ctx context.Context, zip io.Reader, app string) (parley.SessionInfo, error) {
	q := url.Values{}
	set(q, "app", app)
	a := call{method: http.MethodPost, path: "/v1/sessions/import", query: q, raw: zip}
	return get[parley.SessionInfo](ctx, c, a.set("Content-Type", "application/zip"))
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func number(q url.Values, name string, n int64) {
	if n != 0 {
		q.Set(name, strconv.FormatInt(n, 10))
	}
}
