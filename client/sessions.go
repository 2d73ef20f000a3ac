package client

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// CreateSession makes a session. If a session of the app already has the outside id, it
// returns that session and created is false; so it is when an earlier call made it with the
// same Key. Key is sent as the idempotency key; without one, the call gets one. If the
// answer is lost, the request is repeated with it within [Options.Patience]. Then the
// answer does not say which request made the session: created is true without an outside
// id, and false with one.
func (c *Client) CreateSession(ctx context.Context, s parley.CreateSession) (info parley.SessionInfo, created bool, err error) {
	own, attempts := s.Key == "", 0
	info, err = once(ctx, c, &s.Key, func() (parley.SessionInfo, error) {
		attempts++
		a := call{method: http.MethodPost, path: "/v1/sessions", body: s}
		info, status, err := getStatus[parley.SessionInfo](ctx, c, a.set("Idempotency-Key", s.Key))
		created = status == http.StatusCreated || err == nil && s.OutsideID == "" && (own || attempts > 1)
		return info, err
	})
	return info, created, err
}

// Session reads one session.
func (c *Client) Session(ctx context.Context, id parley.SessionID) (parley.SessionInfo, error) {
	return get[parley.SessionInfo](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s", id)})
}

// SessionFilter selects sessions; its zero value selects the 50 that changed last.
type SessionFilter struct {
	App    string
	Status parley.SessionStatus
	Before time.Time // changed before this
	Limit  int       // sessions per page; at most 500
	Cursor string    // the cursor returned with the page before

	Direct bool // include the sessions of direct calls
}

// Sessions lists one page of sessions, the latest change first.
func (c *Client) Sessions(ctx context.Context, f SessionFilter) ([]parley.SessionInfo, error) {
	list, _, err := c.SessionPage(ctx, f)
	return list, err
}

// SessionPage is Sessions with the cursor of the next page, which is empty on the last
// page. A session that does not change meanwhile is on exactly one page; one that changes
// moves to the top of the list.
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

// Swept counts the sessions that a sweep changed.
type Swept struct {
	Expired   int `json:"expired"`   // unused for too long
	Condensed int `json:"condensed"` // the steps of their old turns were condensed
	Deleted   int `json:"deleted"`   // they ended too long ago
}

// Sweep applies the apps' TTL to the caller's sessions now. The server also does this
// every few minutes.
func (c *Client) Sweep(ctx context.Context) (Swept, error) {
	return get[Swept](ctx, c, call{method: http.MethodPost, path: "/v1/sweep"})
}

// UpdateSession changes the fields of u that are set.
func (c *Client) UpdateSession(ctx context.Context, id parley.SessionID, u parley.UpdateSession) (parley.SessionInfo, error) {
	return get[parley.SessionInfo](ctx, c, call{method: http.MethodPatch, path: p("/v1/sessions/%s", id), body: u})
}

// Rules lists the rules granted for a session. To revoke some, pass the ones to keep to
// UpdateSession.
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

// ForkSession copies a session. If the answer is lost, the request is repeated with the same
// key within [Options.Patience].
func (c *Client) ForkSession(ctx context.Context, id parley.SessionID, f parley.ForkSession) (parley.SessionInfo, error) {
	return once(ctx, c, &f.Key, func() (parley.SessionInfo, error) {
		a := call{method: http.MethodPost, path: p("/v1/sessions/%s/fork", id), body: f}
		return get[parley.SessionInfo](ctx, c, a.set("Idempotency-Key", f.Key))
	})
}

// RewindSession takes a session back to before a message, or undoes a rewind. With r.Preview set it
// changes nothing, and returns what the rewind would do. If the answer is lost, the request is
// repeated with the same key within [Options.Patience].
func (c *Client) RewindSession(ctx context.Context, id parley.SessionID, r parley.RewindSession) (parley.RewindResult, error) {
	return once(ctx, c, &r.Key, func() (parley.RewindResult, error) {
		a := call{method: http.MethodPost, path: p("/v1/sessions/%s/rewind", id), body: r}
		return get[parley.RewindResult](ctx, c, a.set("Idempotency-Key", r.Key))
	})
}

// Queued is a turn behind the open one.
type Queued struct {
	ID      parley.TurnID `json:"id"`
	Message string        `json:"message"`
	Client  string        `json:"client,omitempty"`
	At      time.Time     `json:"at"`
	Seq     int64         `json:"seq"`
}

// Queue lists the queued turns.
func (c *Client) Queue(ctx context.Context, id parley.SessionID) ([]Queued, error) {
	list, err := get[struct {
		Queue []Queued `json:"queue"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/queue", id)})
	return list.Queue, err
}

// Commands lists the slash commands of a session. A message that begins with /NAME stands for
// the command of that name.
func (c *Client) Commands(ctx context.Context, id parley.SessionID) ([]parley.SlashCommand, error) {
	list, err := get[struct {
		Commands []parley.SlashCommand `json:"commands"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/commands", id)})
	return list.Commands, err
}

// Resources lists a page of what messages of a session may have attached, with
// [parley.Send.Resources]: the resources of its MCP servers. after is Next of the page before;
// empty: the first page. A server that could not be asked is in Failed.
func (c *Client) Resources(ctx context.Context, id parley.SessionID, after string) (parley.ResourceList, error) {
	q := url.Values{}
	set(q, "cursor", after)
	return get[parley.ResourceList](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/resources", id), query: q})
}

// Unqueue removes a turn from the queue.
func (c *Client) Unqueue(ctx context.Context, id parley.SessionID, turn parley.TurnID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodDelete, path: p("/v1/sessions/%s/queue/%s", id, turn)})
	return err
}

// Export writes the session to w as a zip file. After an error, w holds only part of a
// zip file.
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

// Import creates a session from an export. App is the app to import into; empty means the
// one named in the archive. It is [Client.ImportSession] without further options.
func (c *Client) Import(ctx context.Context, zip io.Reader, app string) (parley.SessionInfo, error) {
	return c.ImportSession(ctx, zip, parley.ImportSession{App: app})
}

// ImportSession creates a session from an export. If the answer is lost, the request is
// repeated with the same key within [Options.Patience]; for that, zip must be an io.Seeker,
// as a file is. Another reader can be sent only once: the error then names the key with
// which the same archive may be imported again.
func (c *Client) ImportSession(ctx context.Context, zip io.Reader, in parley.ImportSession) (parley.SessionInfo, error) {
	q := url.Values{}
	set(q, "app", in.App)
	set(q, "workspace", string(in.Workspace))
	var sent *lent
	do := func() (parley.SessionInfo, error) {
		sent = &lent{Reader: zip, back: make(chan struct{})}
		a := call{method: http.MethodPost, path: "/v1/sessions/import", query: q, raw: sent}
		return get[parley.SessionInfo](ctx, c, a.set("Content-Type", "application/zip").set("Idempotency-Key", in.Key))
	}
	seek, ok := zip.(io.Seeker)
	begin := int64(0)
	if ok {
		var err error
		if begin, err = seek.Seek(0, io.SeekCurrent); err != nil {
			ok = false // a pipe, say
		}
	}
	if ok {
		return once(ctx, c, &in.Key, func() (parley.SessionInfo, error) {
			if sent != nil {
				<-sent.back
			}
			if _, err := seek.Seek(begin, io.SeekStart); err != nil {
				return parley.SessionInfo{}, parley.Errorf(parley.CodeInvalid, "read the export again: %w", err)
			}
			return do()
		})
	}
	if in.Key == "" {
		in.Key = rand.Text()
	}
	info, err := do()
	if inDoubt()(err) {
		return info, parley.Errorf(parley.CodeUnavailable, "the archive may have been imported: %w", err).
			WithHint("import it again with the key %s, which makes no second session", in.Key)
	}
	return info, err
}

// lent is a reader that net/http may still read after a request has failed, until it closes it.
type lent struct {
	io.Reader
	once sync.Once
	back chan struct{}
}

// Close implements io.Closer. The reader itself stays open, to be sent again.
func (l *lent) Close() error {
	l.once.Do(func() { close(l.back) })
	return nil
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
