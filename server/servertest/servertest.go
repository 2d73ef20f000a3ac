// Package servertest runs your own server inside a Go test, with the scripted model instead of
// a language model.
//
//	func TestAdd(t *testing.T) {
//		chat := servertest.Start(t, server.App(files), server.Tools("crm", crm)).Session("crm")
//		chat.Send("Add Rui, rui@example.com") // stops before the write, and asks
//		turn := chat.Answer(parley.ChoiceAllow)
//		if turn.Response.Message != "Rui is in the contacts." {
//			t.Error(turn.Response.Message)
//		}
//	}
//
// The server is the one that package server builds, with the same doors, engine and tools. But
// it keeps its logs in memory, and its apps answer by the rules in their scripts. Apps without
// a script use the model that they name. The machine's settings are not read. An app.yaml may
// refer to environment variables, which a test sets with t.Setenv.
package servertest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/program"
	"github.com/parley-server/parley/server"
)

// within limits the wait for a turn. It is far more than the scripted model and a tool in a
// test need.
const within = time.Minute

// Server is a running server. It may be used by several goroutines, with the same rules as a
// [testing.TB].
type Server struct {
	*client.Client
	URL string // on the loopback interface, without a login
	t   testing.TB
}

// Start starts a server with the parts of a program, and stops it when the test ends. A mistake
// in a part or an app fails the test.
func Start(t testing.TB, parts ...server.Part) *Server {
	t.Helper()
	env := func(name string) (string, bool) {
		if strings.HasPrefix(name, "PARLEY_") {
			return "", false
		}
		return os.LookupEnv(name)
	}
	dir := t.TempDir()
	s, err := config.Load(config.From{
		File:  os.DevNull,
		Flags: map[string]string{"data": dir, "store": "mem", "scripted.pace": "0s"}, Env: env,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Scripts = true
	list := make([]app.Part, len(parts))
	for i, p := range parts {
		list[i] = p
	}
	ctx := context.Background() // the test's context ends before its cleanups run
	in, err := program.Open(ctx, s, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), list...)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(in.Handler)
	t.Cleanup(func() {
		if err := in.Close(ctx); err != nil {
			t.Errorf("stop the server: %v", err)
		}
		web.Close()
	})
	return &Server{Client: client.New(client.Options{BaseURL: web.URL}), URL: web.URL, t: t}
}

// Browser returns an HTTP client that connects to the server whatever the host name is. With
// it, the page of the app NAME is at http://NAME.localhost/, as in a browser on the server's
// machine. It does not follow redirects.
func (s *Server) Browser() *http.Client {
	at, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at.Host)
	}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Session is a session of an app. Its methods wait until the turn has ended or waits for a
// person. They fail the test if the server returns an error.
type Session struct {
	ID parley.SessionID
	s  *Server
}

// Session begins a session of the app.
func (s *Server) Session(app string) *Session {
	s.t.Helper()
	info, _, err := s.CreateSession(s.t.Context(), parley.CreateSession{App: app})
	if err != nil {
		s.t.Fatal(err)
	}
	return &Session{info.ID, s}
}

// Send sends a message.
func (c *Session) Send(message string) parley.TurnInfo {
	c.s.t.Helper()
	return c.SendWith(parley.Send{Message: message})
}

// SendWith sends a message with more than text, such as credentials, attachments or tools of
// the caller.
func (c *Session) SendWith(m parley.Send) parley.TurnInfo {
	c.s.t.Helper()
	turn, err := c.s.Client.Send(c.s.t.Context(), c.ID, m)
	if err != nil {
		c.s.t.Fatal(err)
	}
	return c.rest(turn)
}

// Answer answers the session's open interaction with a choice such as [parley.ChoiceAllow] or
// [parley.ChoiceDeny]. It fails the test unless exactly one is open.
func (c *Session) Answer(choice string) parley.TurnInfo {
	c.s.t.Helper()
	return c.AnswerWith(parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}})
}

// AnswerWith is Answer with more than a choice, such as the answers to a question, an edited
// input, or the credentials that are asked for.
func (c *Session) AnswerWith(a parley.AnswerInteraction) parley.TurnInfo {
	c.s.t.Helper()
	open := c.Open()
	if len(open) != 1 {
		c.s.t.Fatalf("%d interactions are open, want 1", len(open))
	}
	ctx := c.s.t.Context()
	if _, err := c.s.Client.AnswerWith(ctx, open[0].ID, a); err != nil {
		c.s.t.Fatal(err)
	}
	turn, err := c.s.Turn(ctx, open[0].Turn)
	if err != nil {
		c.s.t.Fatal(err)
	}
	return c.rest(turn)
}

// Open returns the session's open interactions.
func (c *Session) Open() []client.Interaction {
	c.s.t.Helper()
	all, err := c.s.Interactions(c.s.t.Context(), 0)
	if err != nil {
		c.s.t.Fatal(err)
	}
	var own []client.Interaction
	for _, in := range all {
		if in.Session == c.ID {
			own = append(own, in)
		}
	}
	return own
}

// Results returns the results of the session's tool calls, in the order in which they ended.
func (c *Session) Results() []parley.ToolResult {
	c.s.t.Helper()
	var list []parley.ToolResult
	for after, more := int64(0), true; more; {
		page, err := c.s.Events(c.s.t.Context(), c.ID, after, client.EventFilter{})
		if err != nil {
			c.s.t.Fatal(err)
		}
		for _, e := range page.Events {
			after = e.Seq
			p, err := e.Payload()
			if err != nil {
				c.s.t.Fatal(err)
			}
			if ended, ok := p.(parley.ToolEnded); ok {
				list = append(list, ended.ToolResult)
			}
		}
		more = page.More
	}
	return list
}

func (c *Session) rest(turn parley.TurnInfo) parley.TurnInfo {
	c.s.t.Helper()
	at, err := c.s.Await(c.s.t.Context(), turn.ID, within)
	if err != nil {
		c.s.t.Fatal(err)
	}
	if !at.Status.Ended() && at.Status != parley.StatusWaiting {
		c.s.t.Fatalf("the turn is %s after %s", at.Status, within)
	}
	return at
}
