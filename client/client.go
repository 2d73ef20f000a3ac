// Package client speaks to a Parley server over its native API.
//
//	c := client.New(client.Options{})
//	s, _, err := c.CreateSession(ctx, parley.CreateSession{App: "chaos"})
//	t, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: "What's the final spec?"})
//	fmt.Println(t.Response.Message)
//
// [Client.Follow] yields a session's log from any event on and keeps following it. After
// a broken connection it reconnects at the last event it saw, so the caller sees every
// event once and in order.
//
// [Client.Agent] is the small form of this: create, send, interrupt and close, and five kinds of events.
//
// A refusal by the server is returned as a [*parley.Error] with its code; CodeUnavailable
// means that the server could not be reached, or cannot do it now.
//
// When an answer is lost, because the connection broke or a proxy answered for the server,
// the server may have done what was asked. [Client.CreateSession], [Client.ForkSession],
// [Client.Deliver], [Client.SendAndWait] and [Client.Retry] then repeat the request with
// the same idempotency key until the server says what became of it. So do [Client.Resume]
// and [Client.Cancel], which do nothing twice. No other method repeats a command. The
// caller may repeat one that has an idempotency key, and gets the result of the first
// attempt. A client that insists also waits when it is clear that the server did not do it;
// see [Options.Insist].
//
// A Client is safe for concurrent use.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// DefaultURL is where a server listens by default.
const DefaultURL = "http://127.0.0.1:8000"

// maxBody is the most bytes read of a JSON answer, more than any page the server sends.
const maxBody = 64 << 20

// Options of [New]. The zero value talks to a server on this machine.
type Options struct {
	BaseURL    string            // default [DefaultURL]; its path, if any, is a prefix
	HTTPClient *http.Client      // must have no Timeout, which would cut streams; default: a new client
	Transport  http.RoundTripper // for the default HTTPClient, such as one that dials a socket
	Token      string            // sent as a bearer token when not empty
	// Retry is the longest wait before reconnecting a broken stream; 0 means 15 s. The
	// first waits are shorter. All are random.
	Retry time.Duration
	// Patience is how long a method that repeats its request, and FollowTurn, keep trying
	// to get an answer from the server; 0 means 2 minutes. A server that crashed may need
	// some of it to start again, and then goes on with the turn.
	Patience time.Duration
	// Insist makes a method that repeats its request also wait, within Patience, when the
	// server cannot be reached in the first place, or says that it is unavailable, as while
	// it stops. Otherwise these are errors at once. Turn, Interaction and Answer, which do
	// nothing twice, then repeat their requests, too.
	Insist bool
	// Away, if set, is called when a method has no answer from the server and is about to
	// try again, and with nil when it has one again. Calls come from the goroutine of that
	// method.
	Away func(err error)
}

// Client talks to one server. Make one with [New].
type Client struct {
	base  string
	http  *http.Client
	token string
	retry time.Duration

	patience time.Duration
	insist   bool
	away     func(error)
}

// New makes a client. It does not connect yet.
func New(o Options) *Client {
	c := &Client{base: strings.TrimSuffix(o.BaseURL, "/"), http: o.HTTPClient, token: o.Token, retry: o.Retry, patience: o.Patience, insist: o.Insist, away: o.Away}
	if c.base == "" {
		c.base = DefaultURL
	}
	if c.http == nil {
		c.http = &http.Client{Transport: o.Transport}
	}
	if c.retry == 0 {
		c.retry = 15 * time.Second
	}
	if c.patience == 0 {
		c.patience = 2 * time.Minute
	}
	if c.away == nil {
		c.away = func(error) {}
	}
	return c
}

type call struct {
	method string
	path   string
	query  url.Values
	body   any
	raw    io.Reader // sent as the body when body is nil
	told   func(sent int64)
	header http.Header
}

func (c call) set(name, value string) call {
	if value == "" {
		return c
	}
	c.header = c.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set(name, value)
	return c
}

// do makes the request; a status of 400 or above is returned as an error.
func (c *Client) do(ctx context.Context, a call) (*http.Response, error) {
	body := a.raw
	if a.body != nil {
		b, err := json.Marshal(a.body)
		if err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "the request cannot be encoded: %w", err)
		}
		body = bytes.NewReader(b)
		a = a.set("Content-Type", "application/json")
	}
	where := c.base + a.path
	if len(a.query) > 0 {
		where += "?" + a.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, a.method, where, body)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%s is not a URL: %w", where, err)
	}
	if a.told != nil {
		again := r.GetBody // with a redirect
		r.Body = &counted{ReadCloser: r.Body, told: a.told}
		r.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			return &counted{ReadCloser: b, told: a.told}, err
		}
	}
	for k, v := range a.header {
		r.Header[k] = v
	}
	if r.Header.Get("Idempotency-Key") != "" {
		// net/http would repeat such a request by itself, unseen, if it could read the body
		// again.
		r.GetBody = nil
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var u *url.Error // its text repeats the method and the URL
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, parley.Errorf(parley.CodeUnavailable, "no answer from %s: %w", c.base, &unreached{err}).WithHint("check that the server is running at this address")
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, errorOf(resp)
	}
	return resp, nil
}

// unreached is the cause of an error when the server itself did not answer, so that it is
// unclear whether it got the request.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

// sent reports whether the server may have got the request.
func (u *unreached) sent() bool {
	op, ok := errors.AsType[*net.OpError](u.error)
	return !ok || op.Op != "dial"
}

// isJSON reports whether a decoder's error is about the content, rather than about its
// length.
func isJSON(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, of := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || of
}

// errorOf returns the error in a refused answer. A body of another shape, such as a
// proxy's, still gives a code. A proxy answers 502 and above when it lost the server.
func errorOf(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // as much as arrived
	var p struct {
		Error *parley.ErrorInfo `json:"error"`
	}
	if json.Unmarshal(b, &p) == nil && p.Error != nil && p.Error.Code != "" {
		return fromInfo(*p.Error)
	}
	e := parley.Errorf(codeOf(resp.StatusCode), "the server answered %s", resp.Status)
	if resp.StatusCode >= http.StatusBadGateway {
		e.Err = &unreached{errors.New(resp.Status)}
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e = e.WithRetry(time.Duration(s) * time.Second)
	}
	return e
}

func fromInfo(i parley.ErrorInfo) *parley.Error {
	return &parley.Error{
		Code: i.Code, Message: i.Message, Hint: i.Hint, Field: i.Field,
		RetryAfter: time.Duration(i.RetryAfterMS) * time.Millisecond, Current: i.Current,
	}
}

func codeOf(status int) parley.Code {
	switch {
	case status == http.StatusNotFound:
		return parley.CodeNotFound
	case status == http.StatusUnauthorized:
		return parley.CodeUnauthenticated
	case status == http.StatusForbidden:
		return parley.CodeForbidden
	case status == http.StatusTooManyRequests:
		return parley.CodeRateLimited
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable:
		return parley.CodeUnavailable
	case status == http.StatusGatewayTimeout:
		return parley.CodeTimeout
	case status < 500:
		return parley.CodeInvalid
	}
	return parley.CodeInternal
}

// get decodes the JSON answer to a call.
func get[T any](ctx context.Context, c *Client, a call) (T, error) {
	v, _, err := getStatus[T](ctx, c, a)
	return v, err
}

func getStatus[T any](ctx context.Context, c *Client, a call) (T, int, error) {
	var v T
	resp, err := c.do(ctx, a.set("Accept", "application/json"))
	if err != nil {
		return v, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return v, resp.StatusCode, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&v); err != nil {
		if ctx.Err() != nil {
			return v, 0, context.Cause(ctx)
		}
		if !isJSON(err) {
			return v, 0, parley.Errorf(parley.CodeUnavailable, "the answer to %s %s broke off: %w", a.method, a.path, &unreached{err})
		}
		return v, 0, parley.Errorf(parley.CodeInternal, "the answer to %s %s was not understood: %w", a.method, a.path, err)
	}
	return v, resp.StatusCode, nil
}

func p(format string, ids ...any) string {
	for i, id := range ids {
		ids[i] = url.PathEscape(fmt.Sprint(id))
	}
	return fmt.Sprintf(format, ids...)
}
