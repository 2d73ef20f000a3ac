// Package app is what an app adds to the server in Go, beside its folder: kinds of tools, and
// routes of any number and method.
//
// An [App] is a value. The program that serves it knows nothing else of it:
//
//	run(chaos.App(), home.App())
//
// Tools are opened once for each app.yaml that lists their kind. [Mount] adds routes to the one
// mux of the server, before anything is served. Before that mux stand the guard and the login, and
// the limits of bodies hold there, for the routes of all apps.
//
// A route belongs to one app. While that app is not served, its routes answer 404 and name it.
package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/spf13/pflag"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/vault"
	"github.com/parley-server/parley/internal/wire"
)

// Part is something that a program adds to its server. Package server has the public
// constructors.
type Part interface{ Brings() App }

// App is one app's Go code, or other things that belong together. Every field is optional, but
// an App that mounts something needs a name.
type App struct {
	Name string // of its folder
	// Folders contains folders of apps, in the form that config.Settings.LoadApps reads.
	Folders fs.FS
	// Tools are kinds of toolsets, by the names that they have under tools in an app.yaml. Any
	// app may list them. Two apps that bring the same kind are a mistake.
	Tools map[string]Open
	// Wires are routes for the app that names them under wires in its app.yaml, which one app at
	// most may do. While none does they belong to this one.
	Wires map[string]Mount
	// Mount adds the routes of the app itself.
	Mount Mount
	// Page serves the page of the app Name at its own origin, instead of a folder. It gets no
	// requests below /v1/ and /parley/. Its requests are not authenticated.
	Page http.Handler
	// MCPPrefix is in the names of the tools that start sessions and send messages over MCP; "": the
	// app's name.
	MCPPrefix string
	// Fetching is told of each call of WebFetch in the app Name, when it is requested. Nil: nobody is.
	Fetching Fetching
	// Touching is told of each call of a tool for the files of a workspace (tools.workspace) in the
	// app Name, when it is requested. The call waits for it. Nil: nobody is.
	Touching Touching
	// Tables are the migrations of the app's own tables; see [seam.Tables].
	Tables fs.FS
	// Demo prepares what parley demo simulates for the app.
	Demo Demo
	// Listening is told the URL of the server once it listens. Nil: nobody is.
	Listening func(url string)
	// Look is a line that parley demo prints about what it simulates for the app and people may open; ""
	// or nil: nothing.
	Look func() string
}

// Fetching is told that a model asked for a page, before anything is decided or fetched: also if the
// call is refused then, waits for a person, or the page was kept from before. It is told again, with
// the same r.Call, if the server stops before the call has begun to wait or run. The call waits for it.
type Fetching = func(ctx context.Context, r seam.Run, url string)

// Touching is told that a model asked to look at files or to change them; see [seam.Informed].
type Touching = func(ctx context.Context, r seam.Run)

// Brings implements [Part].
func (a App) Brings() App { return a }

// Mount adds routes. It must not do anything else: it is also called to find out which routes
// there are, with fields of d unset, for an app that is not served.
type Mount func(m Mux, d Deps)

// Mux is where routes go.
type Mux interface {
	// Handle adds a route: "GET /crm/{id}", or "/crm/{id}" for every method. HEAD is a method of
	// its own, since a stream has no end. A request with another method is answered 405. A pattern
	// that is taken is a mistake, which the server reports at its start.
	//
	// What begins with /apps/{app}/ belongs to all apps that are served. The handler answers 404
	// for those that it has nothing for.
	Handle(pattern string, h http.Handler)
	// Return says that another service sends browsers to path, after a login there. A browser cannot
	// show a key then. Where one is needed, the server sends it on to the page login.html, which
	// asks for path with the key of its user. The page has a list of such paths.
	Return(path string)
	// Unlock says that requests to path need no identity. Each message over a connection there names
	// its sender, and the handler checks it; what it does with one that it did not check must
	// belong to nobody.
	Unlock(path string)
	// Describe adds an operation to /openapi.json; refused are the statuses, beyond those of
	// every route, with which it may be refused.
	Describe(op *huma.Operation, refused ...int)
	// Schema is the schema of v's type in that document.
	Schema(v any) *huma.Schema
}

// Detailed is a handler of a route whose clients look for the message of an error under detail,
// beside the one shape. Whatever refuses a request before the handler says it there, too.
type Detailed interface {
	http.Handler
	HasDetail()
}

// Deps is what routes may use. Handlers ask Principal first, and pass the result on: the engine
// and the log decide by it what belongs to whom.
type Deps struct {
	App    string // whose routes these are
	Engine *engine.Engine
	Reader *eventlog.Reader

	// Principal identifies the caller from a request's context.
	Principal func(ctx context.Context) (parley.Principal, error)
	// Bearer identifies the owner of a token that comes in a message: one of an issuer in the
	// settings. An error of CodeUnauthenticated means that the token is not accepted, one of
	// CodeUnavailable that the issuer cannot be asked.
	Bearer func(ctx context.Context, token string) (Identity, error)
	// Open counts a stream of the caller, or refuses it. done ends it.
	Open func(ctx context.Context, p parley.Principal) (done func(), err error)
	// Fail answers with an error in the one shape.
	Fail func(w http.ResponseWriter, err error)
	// MCP serves the tools of an app over MCP.
	MCP func(app string) http.Handler

	Limits       wire.Limits   // a larger body is refused before a handler gets it
	PartialEvery time.Duration // how long a wire of the app collects text; 0: its own default

	Toolsets map[string][]seam.Toolset // of the apps that are served, as they were opened

	// Tables are those of the app whose Mount it is; nil if it has no migrations, or if the store
	// is the one in memory.
	Tables seam.Tables
}

// Identity is who a token belongs to: a user, the organisations of the token, and when it ends.
type Identity = auth.Identity

// Network is where a request comes from: see [auth.Network].
func Network(r *http.Request) string { return auth.Network(r) }

// Open makes the tools that an app.yaml asks for. Its errors are [*Off], or mistakes in the
// settings.
type Open func(d ToolDeps) (Service, error)

// ToolDeps is what a kind of tools may use.
type ToolDeps struct {
	App     *config.App    // that asks for them
	Toolset config.Toolset // what it says about them
	// Check means that nothing will run: only the declarations are read, and nothing outside is
	// needed.
	Check bool
	// Ask means, together with Check, that external programs and servers may be started and
	// asked in order to find all mistakes.
	Ask    bool
	Env    func(name string) string // a variable of the server, or ""
	Clean  func(text string) string // removes secrets
	Logger *slog.Logger
	// Kept returns what Keep has stored under a name, possibly in an earlier process; nil:
	// nothing. The name must be a valid file name.
	Kept func(name string) []byte
	Keep func(name string, body []byte)
	// Vault returns the vault with users' secrets, such as the tokens of their logins; nil
	// before the server has its store.
	Vault func() *vault.Vault
	// Checkpoints returns what keeps the old contents of files; nil before the server has its
	// data folder.
	Checkpoints func() *checkpoint.Store
	// Lakes returns the lakes of the server; nil before it has its data folder.
	Lakes func() *lake.Lakes
	// Scratch makes a folder for temporary files below the data folder, and returns its path. All are
	// removed when the server starts.
	Scratch func(elems ...string) (string, error)
	// LargeFiles are the turns of calls that hold a large file of a workspace; the server has one.
	LargeFiles *fair.Turns
	// Base returns the URL at which browsers reach the server, or why it is not known. It can
	// be called once the server listens.
	Base func() (string, error)
	// Fetching and Touching are those of the app's part; nil: it has none.
	Fetching Fetching
	Touching Touching
}

// Mistakes are those of a toolset's options, at the lines where the app's file has these.
func (d ToolDeps) Mistakes(err error) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // what New returns
		list = joined.Unwrap()
	}
	var wrong config.Mistakes
	for _, err := range list {
		at := d.Toolset.At
		if e, ok := errors.AsType[*parley.Error](err); ok && e.Field != "" {
			at += "." + e.Field
		}
		wrong = append(wrong, d.App.Mistake(at, "%s", Says(err)))
	}
	return parley.Errorf(parley.CodeInvalid, "%w", wrong)
}

// Says is an error on one line, with its hint.
func Says(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Late is a toolset whose tools must be asked for externally. The app is served with the tools
// that are known, and rebuilt when they change.
type Late interface {
	seam.Versioned
	Known() bool    // Tools need not ask externally; must not block
	Prefix() string // of the names of its tools
	Wrong() error   // a mistake in the app's options that shows once its tools are known
}

// Service is a toolset with what belongs to it. Every field but the first may be left out.
type Service struct {
	seam.Toolset
	// Start is called once the server has its data folder, Close after the last turn.
	Start, Close func()
	// Follow is called before Start, with the logs of the server.
	Follow func(f Followed)
	// Notices are what is to be shown of the toolset to the users of its app, and to doctor. It must
	// answer from memory at once.
	Notices func() []string
	// Inspect is what doctor says of the toolset while no server runs.
	Inspect func(ctx context.Context) []Finding
	// Secrets are removed from all text.
	Secrets []string
	// Changes sets the function that is called when the tools of a Late have changed. tell must
	// not block.
	Changes func(tell func())
	// Observe sets who is told about events outside.
	Observe func(tell func(engine.Observation))
	// Verify tells whose a token is that a client of the app shows; ok is false for one that is not
	// accepted here. Its user reaches this app only. Nil: the app accepts no tokens of its own.
	Verify func(ctx context.Context, token string) (who Identity, ok bool, err error)
	// Meta is what index/meta.json says of what is outside, for apps with live files; nil while
	// that is not known.
	Meta func() any
}

// Followed is what a toolset may follow of the server that it is part of.
type Followed struct {
	Reader *eventlog.Reader
	Store  seam.Store
	Data   *datafolder.Folder
}

// Finding is a line of doctor. A warning has an error, perhaps with a hint.
type Finding struct {
	Check string // one word
	Says  string
	Warn  error
}

// Off says why an app cannot be served here although nothing is wrong with it.
type Off struct{ Why string }

// Error implements error.
func (e *Off) Error() string { return e.Why }

// Demo adds the flags of parley demo that are about the app, and returns what starts the
// simulation. start changes the settings so that the app uses it. stop ends it; it is nil when
// there was nothing to start.
type Demo func(flags *pflag.FlagSet) (start func(s *config.Settings, log *slog.Logger) (stop func(), err error))
