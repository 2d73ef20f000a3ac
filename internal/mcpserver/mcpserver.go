// Package mcpserver is the door for MCP hosts: each app is an MCP server, over
// streamable HTTP and, through [Bridge], over stdio.
//
// A host finds two kinds of tools. Those of seed 001 (under the app's name,
// unless [Options.Prefix] says otherwise) start sessions, send
// messages and wait for answers; and the app's own tools, which are called by
// the same path as an agent's call: schema, policy, human, journal
// ([engine.Engine.CallTool]). Sessions are resources too: their log, their
// transcript and their artifacts.
//
// # Two eras
//
// MCP up to 2025-11-25 begins with a handshake and keeps a session; from 2026-07-28 on
// every request stands alone. Both are served at one URL over one [mcp.Server]: requests
// that name the newer version go to a handler without sessions, all others to one with
// sessions ([Handler]).
//
// # Waiting, cancelling, asking
//
// While await_continuation, ask or a tool waits, the host gets progress notifications, if
// it asked for them. Cancelling await_continuation ends only the waiting; cancelling ask
// or a direct call cancels the turn that it began, and nothing else does: a host that
// goes away leaves its turns running. When a turn waits for a human and the host can ask
// one, it is asked (by a request of ours, or in the newer era by a result that requires
// input); the interaction stays open for every other client meanwhile, and the first
// answer counts. A host that cannot ask is told at once what is open and under which
// continuation it goes on. Its model answers questions with the tool answer, but it
// cannot approve an act, unless [Options.Approvals] allows that.
//
// A cancelled request gets no answer.
//
// While the store is unavailable, hosts that wait for a turn keep waiting. If a turn was
// made, or may have been, the error never says when to retry, since a host would then
// make it twice: its continuation tells what became of it.
//
// The door makes no decisions and keeps nothing that is not in the log, except
// the older era's connections, which end with the process; a host then connects
// again. Methods are safe for concurrent use.
package mcpserver

import (
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

// Engine is the part of package engine that this door uses.
type Engine interface {
	Create(ctx context.Context, p parley.Principal, c parley.CreateSession) (parley.SessionInfo, bool, error)
	End(ctx context.Context, p parley.Principal, id parley.SessionID, reason string) (parley.SessionInfo, error)
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	SessionPage(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, seam.SessionMark, error)
	State(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.Session, error)

	Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error)
	Cancel(ctx context.Context, p parley.Principal, id parley.TurnID, reason string) (parley.TurnInfo, error)
	Resume(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	Retry(ctx context.Context, p parley.Principal, id parley.TurnID, key, client string) (parley.TurnInfo, error)
	Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	Kept(ctx context.Context, p parley.Principal, t parley.TurnInfo) (bool, error)
	Away(err error) bool

	CallTool(ctx context.Context, p parley.Principal, c parley.CallTool) (parley.TurnInfo, error)
	CallResult(ctx context.Context, p parley.Principal, turn parley.TurnID) (parley.ToolResult, error)

	Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error)
	Answer(ctx context.Context, p parley.Principal, id parley.InteractionID, a parley.AnswerInteraction) (seam.InteractionRow, error)
	Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (seam.Artifact, []byte, error)
}

// Reader is the part of package eventlog that this door uses.
type Reader interface {
	Read(ctx context.Context, p parley.Principal, session parley.SessionID, after int64, limit int) ([]parley.Event, error)
	Follow(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[eventlog.Frame, error]
	FollowEvents(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[eventlog.Frame, error]
	RedactText(text string) (clean string, found bool)
}

// Options of [New]. Engine and Reader are required; the rest has defaults.
type Options struct {
	Engine Engine
	Reader Reader

	Transport // how all apps are served over HTTP

	Version string // of the server, as hosts see it
	// Prefix is in the names of the seed's tools; "": the app's name.
	Prefix string
	// Underscores writes start_session's full name as chaos_start_session, for
	// hosts that refuse a dot in a tool's name.
	Underscores bool

	// Approvals lets the tool answer approve acts and replies of the model to servers, too, and
	// not only answer questions: a host's model may then approve what it requested itself.
	Approvals bool

	// Kind lists the tools of a kind in app.yaml, and Workspace names the user's workspace in a folder of the server. They are for hosts
	// that want a part of the server, see [ToolsHeader]. Nil: there are no kinds, and folders are ignored.
	Kind      func(name string) []string
	Workspace func(p parley.Principal, dir string) (parley.Workspace, error)

	AwaitWithin   time.Duration // of await_continuation without timeout_ms; 0: 30 s
	AskWithin     time.Duration // how long ask and direct calls wait; 0: 10 min
	ProgressEvery time.Duration // between two notifications of text; 0: 500 ms
	// Key seals what a host carries for us from one request to the next; nil: a random
	// one, valid in this process only.
	Key []byte
}

const (
	// ClientName says in the log which door a turn came by.
	ClientName = "mcp"
	// QuietClient is the same for a sender that wants no partial frames.
	QuietClient = "mcp/quiet"

	maxAwait  = 10 * time.Minute
	maxPerson = 10 * time.Minute // to answer a form of the older era
)

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.AwaitWithin, 30*time.Second)
	def(&o.AskWithin, 10*time.Minute)
	def(&o.ProgressEvery, 500*time.Millisecond)
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Key) == 0 {
		o.Key = make([]byte, 32)
		_, _ = rand.Read(o.Key) // never fails
	}
	return o
}

// App is one app as an MCP server.
type App struct {
	o      Options
	app    parley.App
	server *mcp.Server
	seed   map[string]bool // the full names of the seed's tools
	http   *Handler
	filled sync.Once
}

// New makes the MCP server of an app. Its tools are added with the first request: their schemas
// would be a quarter of a server's start, and most starts serve no host.
func New(app parley.App, o Options) *App {
	a := &App{o: o.withDefaults(), app: app, seed: map[string]bool{}}
	title := app.Title
	if title == "" {
		title = app.Name
	}
	a.server = mcp.NewServer(&mcp.Implementation{Name: "parley-" + app.Name, Title: title, Version: a.o.Version}, &mcp.ServerOptions{
		Instructions: a.instructions(),
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
		SetCacheable: cacheable,
	})
	a.http = NewHandler(a.server, a.o.Transport)
	return a
}

// fill adds what the server offers.
func (a *App) fill() {
	a.sessionTools()
	a.appTools()
	a.resources()
	a.server.AddReceivingMiddleware(a.clean, a.leftOut, a.narrow)
}

// ServeHTTP implements http.Handler.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.filled.Do(a.fill)
	a.http.ServeHTTP(w, r)
}

// Close ends the connections of the older era. It waits until ctx ends for their
// requests, which end by themselves when the log is closed.
func (a *App) Close(ctx context.Context) { a.http.Close(ctx) }

func (a *App) instructions() string {
	text := a.app.Title
	if a.app.Description != "" {
		text += ": " + a.app.Description
	}
	return text + "\n\nAn agent with sessions that outlive this connection. " + a.name("ask") + " answers one question. For a conversation: " +
		a.name("start_session") + ", then for each message " + a.name("send_message") + " and " + a.name("await_continuation") +
		", again while its status is running. What the agent asks back is in waiting_for: ask the user, and give the answer with " + a.name("answer") + ". The other tools are those that the agent has, and can be called without it."
}

// cacheable sets the cache rules of a result: a user's data may not be cached.
func cacheable(_ context.Context, r mcp.Request, c *mcp.Cacheable) {
	switch r.(type) {
	case *mcp.ReadResourceRequest, *mcp.ListResourcesRequest:
		c.TTLMs, c.CacheScope = 0, "private"
	default:
		// The lists change only with a new version or new settings, that is with a
		// restart; a minute is how late a host may notice.
		c.TTLMs, c.CacheScope = 60_000, "private"
	}
}

type principalKey struct{}

// who is the principal of a request, as set by the transport.
func who(ctx context.Context) parley.Principal {
	p, _ := ctx.Value(principalKey{}).(parley.Principal)
	return p
}
