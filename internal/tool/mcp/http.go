//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/login"
)

// maxStream is the most bytes that the stream of one call may have. After maxMessage bytes a stream
// is read at bytesPerSecond.
const (
	maxStream      = 8 * maxMessage
	bytesPerSecond = 4 << 20
	// loginTimeout bounds a request to an authorization server. It is needed because a token may be
	// renewed while no call waits for it.
	loginTimeout = 30 * time.Second
)

// trip records how far a call got on its way to the server. It travels in the call's context.
type trip struct {
	tool    string       // at the server
	sent    atomic.Bool  // the call may have been sent
	status  atomic.Int64 // of the HTTP answer; 0: none
	lacking atomic.Bool  // it was refused because the login does not cover the tool
}

type tripKey struct{}

// service dials by HTTP.
type service struct {
	o      Options
	host   string
	guard  *dial.Guard
	header http.Header
	own    *own // logs in with Parley's own credentials; nil: there is no such login
}

func newService(o Options) (*service, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "is not the address of an MCP server").WithField("url").
			WithHint("write http:// or https://, a host and a path, without a password")
	}
	if _, err := o.auth().Needs(u); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("auth")
	}
	if o.Login != nil && u.Scheme == "http" && !loopback(u.Hostname()) && !o.PlainHTTP {
		return nil, parley.Errorf(parley.CodeInvalid, "would send people's logins unencrypted").WithField("url").
			WithHint("write https://, or plain_http: true under auth if nobody else can read what is sent")
	}
	s := &service{o: o, host: u.Hostname(), header: http.Header{}}
	hosts := append([]string{u.Hostname()}, o.Hosts...)
	if o.OAuth != nil {
		issuer, err := o.OAuth.check()
		if err != nil {
			return nil, err
		}
		if issuer != nil {
			hosts = append(hosts, issuer.Hostname())
		}
	}
	if s.guard, err = dial.New(hosts, o.Private); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("private")
	}
	for _, name := range sorted(o.Headers) {
		s.header.Set(name, o.Headers[name])
	}
	if token := o.Bearer.Value + o.Listing; token != "" {
		s.header.Set("Authorization", "Bearer "+token)
	}
	if o.OAuth != nil {
		client := s.guard.Client(false)
		client.Timeout = loginTimeout
		s.own = newOwn(*o.OAuth, o.clean, login.Search{
			Client: client, Hosts: hosts, Resource: login.Canonical(*u), Issuer: o.OAuth.Issuer,
			Clean: func(text string) string { return o.clean(text, maxShown) },
		})
	}
	return s, nil
}

// with returns the service with a token.
func (s *service) with(token string) *service {
	own := *s
	own.header = s.header.Clone()
	own.header.Set("Authorization", "Bearer "+token)
	return &own
}

func (s *service) dial(context.Context) (carrier, error) {
	client := s.guard.Client(false)
	way := &bounded{base: client.Transport, header: s.header, login: s.o.Login}
	if s.o.Login != nil {
		way.base = s.o.Login.Transport(way.base)
	}
	t := &sdk.StreamableClientTransport{
		Endpoint: s.o.URL, MaxEventSize: maxMessage,
		HTTPClient: &http.Client{Transport: way, CheckRedirect: client.CheckRedirect},
	}
	if s.own != nil {
		t.OAuthHandler = s.own
	}
	c := carrier{Transport: t, end: client.CloseIdleConnections}
	if s.own == nil && s.header.Get("Authorization") == "" {
		c.locked = way.locked.Load
	}
	return c, nil
}

// bounded limits how much is read of each answer, and records on the trip how far a call got.
type bounded struct {
	base   http.RoundTripper
	header http.Header
	login  *login.Login // nil: none
	locked atomic.Bool  // requests are refused because nobody is logged in
}

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	trip, _ := ctx.Value(tripKey{}).(*trip)
	if trip != nil && req.Method == http.MethodPost {
		// The transport itself repeats a call only if the first attempt got a 401 or 403.
		trip.sent.Store(false)
		trip.status.Store(0)
		// The body follows the header, so a request whose header was not written has done nothing.
		// The transport repeats a request only if it was not carried out.
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GetConn: func(string) { trip.sent.Store(false) }, WroteHeaders: func() { trip.sent.Store(true) },
		})
	}
	id := idOf(req)
	req = req.Clone(ctx)
	for name, values := range b.header {
		req.Header[name] = values
	}
	resp, err := b.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if trip != nil {
		trip.status.Store(int64(resp.StatusCode))
		if b.login != nil {
			trip.lacking.Store(b.login.Insufficient(req, resp, trip.tool))
		}
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode/100 == 2 { // the SDK tries again after a refusal
		b.locked.Store(resp.StatusCode == http.StatusUnauthorized)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		resp.Body = &paced{ReadCloser: resp.Body, ctx: ctx, pace: rate.NewLimiter(bytesPerSecond, maxMessage), limited: req.Method == http.MethodPost && id != nil && trip != nil}
		return resp, nil
	}
	return whole(resp, id)
}

// idOf is the id of the JSON-RPC request in an HTTP request; nil if it has none.
func idOf(req *http.Request) json.RawMessage {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.NewDecoder(body).Decode(&m) != nil {
		return nil
	}
	return m.ID
}

// whole reads an answer. An answer that is too large becomes an error of its own call; the session
// goes on for all others.
func whole(resp *http.Response, id json.RawMessage) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
	resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("its answer broke off: %w", err)
	}
	if len(body) > maxMessage {
		if id == nil || resp.StatusCode/100 != 2 {
			return nil, errNotRead
		}
		if body, err = notRead(id); err != nil {
			return nil, err
		}
		resp.Header.Set("Content-Type", "application/json")
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// paced reads a stream no faster than its messages can be handled.
type paced struct {
	io.ReadCloser
	ctx     context.Context
	pace    *rate.Limiter
	limited bool // it belongs to one call, and has an end
	read    int
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b[:min(len(b), 64<<10)])
	if p.read += n; p.limited && p.read > maxStream {
		return 0, fmt.Errorf("its stream has more than %d bytes", maxStream)
	}
	if werr := p.pace.WaitN(p.ctx, n); werr != nil {
		return n, werr
	}
	return n, err
}
