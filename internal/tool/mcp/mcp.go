//go:build unix

// Package mcp is a toolset over a server of the Model Context Protocol. The server is a program
// that speaks on its standard input and output, or a service over streamable HTTP. Both eras of the
// protocol are spoken.
//
// A server is started when it is first used, and ended when it has not been used for a while. After
// a failure it is started again, with a growing delay. All users of the app share it. Asking which
// tools it has does not start it: its tools are those that it listed last, also in an earlier
// process ([Options.Kept]). Only a server whose tools were never listed is started for its list.
//
// # What is trusted
//
// The operator names the server, so its tools are accepted as they are first listed in a process.
// Tools that say that they only read are reads. That first list replaces the one kept by an earlier
// process ([Options.Changed]). A caller who has the older version of a tool cannot call the newer
// one. From then on a tool keeps its definition: if the server changes it later, its calls are
// refused until a new Toolset is made. A tool's name always begins with mcp__ and the server's
// name, and its description names the server. Lists, definitions, messages and results are limited
// in number and size. A server is read no faster than its messages can be handled.
//
// # What became of a call
//
//   - A result is what the server reports, also if it reports that the tool failed.
//   - A refusal by the protocol (no such tool, bad arguments) and an HTTP status of 4xx,
//     except 408, mean that nothing was done.
//   - If a call was provably never sent, nothing was done either.
//   - After anything else, such as the death of the server, a read has failed, and it is
//     unknown whether a write happened.
//
// A call is sent twice only if the first attempt was provably never sent, or was refused
// because the server had forgotten the connection.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/proc"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxWaiting = 1000 // calls of one user that wait for a place
	// DefaultMemory is what each process of a server may allocate, in bytes.
	DefaultMemory = 1 << 30
	// DefaultAtOnce is how many calls a server gets at once.
	DefaultAtOnce = 8
	// DefaultIdle is how long a server is kept that nobody uses.
	DefaultIdle = 10 * time.Minute
	// startTimeout bounds a start: npx may have to download the program first.
	startTimeout = 60 * time.Second
	// backoff is the delay before the second start in a row that follows a failure. It
	// doubles up to maxBackoff; the first start after a failure comes at once.
	backoff    = 500 * time.Millisecond
	maxBackoff = time.Minute
)

// IdempotencyKey is the key in a call's _meta that holds the call's id. The id is the same for
// every attempt of the call, so a server that knows the key can recognise a repeated call.
const IdempotencyKey = "io.github.parley-server/idempotency-key"

// Options say where the server is, and what to take from it. Either Run or URL is set.
type Options struct {
	Name  string // of the server, as it is in the tools' names
	Short string // another name under which its resources can be mentioned; may be empty

	Run    []string          // the program and its arguments; a program with a slash is below Dir
	Dir    string            // where it runs
	Env    map[string]string // its environment, besides what [proc.Env] adds
	Memory int64             // bytes; 0: DefaultMemory

	URL     string            // http or https
	Headers map[string]string // sent with each request to URL
	Bearer  httpcall.Secret   // a token for it; the caller's makes a connection of its own for each call
	Listing string            // a token that lists the tools if Bearer is the caller's; empty: none is needed
	// PlainHTTP permits sending the caller's token to another machine over http.
	PlainHTTP bool
	OAuth     *OAuth // how to get a token instead; nil: no token is requested
	// Login is the login of the one person whose toolset this is; nil: nobody logs in.
	Login   *login.Login
	Hosts   []string // further hosts at which the login may be
	Private []string // see dial.New

	Allow   []string            // names of the tools to accept, with * as a wildcard; nil: all
	Tools   map[string]Override // by the tool's name at the server
	Timeout time.Duration       // of a call; 0: the engine's default
	Idle    time.Duration       // 0: DefaultIdle
	AtOnce  int                 // calls at once; one user may make all but one of them; 0: DefaultAtOnce

	// Kept is what was last passed to Keep, possibly by an earlier process; nil: the server's tools
	// are not known yet. Keep stores it beyond the process, one call at a time; nil: it is
	// not stored.
	Kept []byte
	Keep func(kept []byte)
	// Changed is called when the server has listed other tools than were known. It must not block.
	// Nil: nothing is called.
	Changed func()

	// Allowed is asked directly before each start of a program and each connection to a service,
	// and again before the first use, because a program may have changed between the first check
	// and its start. Nil: it is always allowed.
	Allowed func(ctx context.Context) error
	// Distrust ignores what the server says about the effects of its tools: each tool is a write
	// unless Tools says otherwise.
	Distrust bool

	// Roots are the paths of the folders that the server learns when it asks for its roots. Nil: it
	// learns none. They are for a server of one scope: a server that several scopes share has no
	// folder of its own.
	Roots []string

	// Sampling lets the server ask for replies of the app's model in the middle of a call, once a
	// person has allowed it. If it is false, the server is not told that it could ask.
	Sampling bool

	// Check reports why a tool cannot be part of any app, for example because its schema does not
	// compile. Such a tool is left out. Nil: no tool is checked.
	Check  func(parley.ToolDecl) error
	Clean  func(text string) string // removes secrets from what the server says; nil: there are none
	Logger *slog.Logger             // nil: slog.Default
}

// Override replaces what a server says about one of its tools. Zero values keep that.
type Override struct {
	Description string
	Effect      parley.Effect
	Subject     string
	Timeout     time.Duration
	KeyTTL      time.Duration // of an idempotent tool: how long the server knows [IdempotencyKey] again
	Web         bool          // see parley.ToolDecl
	Outward     bool          // see parley.ToolDecl
}

// Toolset implements [seam.Toolset]. It is safe for concurrent use.
type Toolset struct {
	*core
	fixed []definition // of a version: its tools, which do not change; nil: the tools of the core
}

// core is what all versions of a toolset have in common.
type core struct {
	o      Options
	server *server
	turns  fair.Turns
	known  known
	offers offers
}

// New makes a toolset. It starts nothing. An error names the option that is wrong.
func New(o Options) (*Toolset, error) {
	if !serverName.MatchString(o.Name) {
		return nil, parley.Errorf(parley.CodeInvalid, "%q cannot be a server's name", o.Name).WithField("name").
			WithHint("use letters, digits, _ and -, at most 32")
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.AtOnce == 0 {
		o.AtOnce = DefaultAtOnce
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	var d dialer
	var err error
	switch {
	case len(o.Run) > 0 && o.URL != "":
		return nil, parley.Errorf(parley.CodeInvalid, "names the server a second time; remove run or url").WithField("url")
	case len(o.Run) > 0:
		d = &program{o, proc.Env(o.Env)}
	case o.URL != "":
		d, err = newService(o)
	default:
		return nil, parley.Errorf(parley.CodeInvalid, "names no server; write the program to run with its arguments, or a url").WithField("run")
	}
	if err != nil {
		return nil, err
	}
	return newToolset(o, d), nil
}

func newToolset(o Options, d dialer) *Toolset {
	t := &Toolset{core: &core{o: o, server: newServer(o, d)}}
	t.server.listed = t.adopt
	t.offers.asked = make(chan struct{}, 1)
	t.recall()
	// One user cannot take all slots: one is left to the others.
	t.turns.Slots, t.turns.Each, t.turns.Queued = o.AtOnce, max(1, o.AtOnce-1), maxWaiting
	return t
}

// Look reports an error if the program to run cannot be found. A service is not looked for: whether
// it exists shows when it is used.
func (t *Toolset) Look() error {
	if len(t.o.Run) == 0 {
		return nil
	}
	if _, err := proc.Look(t.o.Run[0], t.o.Dir); err != nil {
		return notThere(t.o.Run[0], err)
	}
	return nil
}

// Close ends the server and waits until nothing of it is left. Calls under way fail.
func (t *Toolset) Close() { t.server.close() }

// Tools implements [seam.Toolset]. If the tools are not known, it asks the server for them.
func (t *Toolset) Tools(ctx context.Context) ([]parley.ToolDecl, error) {
	if t.definitions() == nil {
		if err := t.Ask(ctx); err != nil && !(errors.Is(err, errLogin) && t.o.Login != nil) {
			return nil, err
		}
	}
	return declared(t.o.withLogin(t.definitions())), nil
}

// Ask asks the server for its tools, also if some are known.
func (t *Toolset) Ask(ctx context.Context) error {
	l, leave, err := t.server.use(ctx, nil)
	if err != nil {
		return err
	}
	defer leave()
	err = l.fresh(ctx) // passes the list to adopt
	if errors.Is(err, errLogin) {
		return err
	}
	if err != nil {
		return parley.Errorf(parley.CodeUnavailable, "the MCP server %s does not list its tools: %w", t.o.Name, err)
	}
	l.server.worked(l)
	return nil
}

// fit refuses options for tools that the server does not have.
func (o Options) fit(listed []*sdk.Tool) error {
	var names []string
	for _, tool := range listed {
		names = append(names, tool.Name)
	}
	for i, pattern := range o.Allow {
		if !slices.ContainsFunc(names, func(name string) bool { return matches(pattern, name) }) {
			return missing(names, pattern).WithField(fmt.Sprintf("allow[%d]", i))
		}
	}
	for _, name := range sorted(o.Tools) {
		if !slices.Contains(names, name) {
			return missing(names, name).WithField("tools." + name)
		}
	}
	return nil
}

func missing(names []string, name string) *parley.Error {
	e := parley.Errorf(parley.CodeInvalid, "the server has no tool %q", parley.Cut(name, 100))
	if len(names) == 0 {
		return e.WithHint("it has no tools at all")
	}
	return e.WithHint("it has %s", parley.Cut(joined(names), 2000))
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok || pattern == name
}

// find returns the definition of a tool by its name here.
func (t *Toolset) find(name string) (definition, bool) {
	list := t.o.withLogin(t.definitions())
	i := slices.IndexFunc(list, func(d definition) bool { return d.decl.Name == name })
	if i < 0 {
		return definition{}, false
	}
	return list[i], true
}

var errStopped = errors.New("the turn was stopped")

// Run implements [seam.Toolset].
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	d, ok := t.find(r.Name)
	if !ok {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("the MCP server %s has no such tool", t.o.Name))
	}
	if err := t.hide(ctx, r); err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	if d.logsIn {
		return t.loggedIn(ctx, r)
	}
	waiting, cancel := context.WithCancelCause(ctx) // until the call is sent, it ends with the turn, too
	defer cancel(nil)
	sent := make(chan struct{})
	defer close(sent)
	go func() {
		select {
		case <-r.Stopped:
			cancel(errStopped)
		case <-sent:
		}
	}()
	leave, err := t.turns.Enter(waiting, r.Principal)
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("other calls of the MCP server are under way: %w", err))
	}
	defer leave()
	for again := 0; ; again++ {
		res, err := t.once(ctx, waiting, d, r)
		// A server may end, or forget the connection, between two calls.
		if f, ok := errors.AsType[*lostError](err); ok && again < 2 && waiting.Err() == nil {
			t.o.Logger.Debug("the connection to an MCP server was lost before a call was sent", "server", t.o.Name, "tool", d.name, "err", f)
			continue
		}
		return res, err
	}
}

// lostError is the failure of a call that was not made because the connection was gone.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// link returns the connection for a call: the one that all calls share, or a separate one with the
// caller's token.
func (t *Toolset) link(ctx context.Context, r seam.Run) (*link, func(), error) {
	s, ok := t.server.dial.(*service)
	if !ok || t.o.Bearer.Credential == "" {
		return t.server.use(ctx, r.Stopped)
	}
	token, err := r.Credential(t.o.Bearer.Credential, s.host)
	if err != nil {
		return nil, nil, err
	}
	return t.server.alone(ctx, s.with(token))
}

// slowStart is how long a call waits for its server before it reports progress.
const slowStart = 2 * time.Second

// starting describes what a call without a connection is waiting for.
func (t *Toolset) starting() string {
	if len(t.o.Run) > 0 {
		return "starting the MCP server " + t.o.Name
	}
	return "connecting to the MCP server " + t.o.Name
}

func (t *Toolset) once(ctx, waiting context.Context, d definition, r seam.Run) (parley.ToolResult, error) {
	slow := time.AfterFunc(slowStart, func() { r.Progress(t.starting()) })
	l, leave, err := t.link(waiting, r)
	slow.Stop()
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	defer leave()
	if err := l.unchanged(waiting, d); err != nil {
		return parley.ToolResult{}, seam.NotSent(t.again(d, err))
	}
	if waiting.Err() != nil {
		return parley.ToolResult{}, seam.NotSent(context.Cause(waiting))
	}
	trip := &trip{tool: d.name}
	res, err := l.call(context.WithValue(ctx, tripKey{}, trip), d, r)
	if herr := t.hide(ctx, r); herr != nil && err == nil { // the login may have been renewed meanwhile
		return parley.ToolResult{}, herr
	}
	if err == nil {
		l.server.worked(l)
		return t.result(ctx, r, d, res), nil
	}
	return t.failure(r, l, trip, err)
}

// failure returns what is known about a call that has no result.
func (t *Toolset) failure(r seam.Run, l *link, trip *trip, err error) (parley.ToolResult, error) {
	if errors.Is(err, seam.ErrParked) || seam.IsNotSent(err) {
		return parley.ToolResult{}, err
	}
	if e, ok := errors.AsType[*noReplyError](err); ok {
		return t.noReply(r, e), nil
	}
	if e, ok := errors.AsType[*lateError](err); ok {
		return parley.ToolResult{}, fmt.Errorf("the MCP server %s did not answer after it had asked for something: %w", t.o.Name, l.explain(e.err))
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code != codeRejected {
		if refusals[e.Code] {
			l.server.worked(l)
			return callout.Refused(r, parley.ErrorInfo{
				Code: parley.CodeTool, Message: fmt.Sprintf("the MCP server %s refused the call: %s", t.o.Name, t.o.clean(e.Message, maxShown)),
			}, nil), nil
		}
		return parley.ToolResult{}, fmt.Errorf("the MCP server %s answered with an error: %s", t.o.Name, t.o.clean(e.Message, maxShown))
	}
	status := int(trip.status.Load())
	switch {
	case status == http.StatusUnauthorized && t.o.Login != nil, trip.lacking.Load():
		return parley.ToolResult{}, seam.NotSent(t.o.loginError())
	}
	err = fmt.Errorf("the MCP server %s did not answer: %w", t.o.Name, l.explain(err))
	switch {
	case !trip.sent.Load(), status == http.StatusNotFound && errors.Is(err, sdk.ErrSessionMissing):
		l.server.drop(l)
		return parley.ToolResult{}, seam.NotSent(&lostError{err})
	case status/100 == 4 && status != http.StatusRequestTimeout:
		return parley.ToolResult{}, seam.NotSent(err)
	}
	return parley.ToolResult{}, err
}

// refusals are the protocol's error codes that mean that a call was not made.
var refusals = map[int64]bool{
	jsonrpc.CodeParseError: true, jsonrpc.CodeInvalidRequest: true, jsonrpc.CodeMethodNotFound: true, jsonrpc.CodeInvalidParams: true,
	sdk.CodeHeaderMismatch: true, sdk.CodeMissingRequiredClientCapabilities: true, sdk.CodeUnsupportedProtocolVersion: true,
}

// codeRejected is the SDK's own code for a request that its transport could not send.
const codeRejected = -32005
