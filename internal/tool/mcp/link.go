//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley/internal/seam"
)

const (
	// maxMessage is the most bytes that one message of a server may have.
	maxMessage = 8 << 20
	maxPages   = 50 // of a list of tools
	// maxAge is how long a list is used if the server reports no change. It is limited because the
	// stream with such reports may have broken.
	maxAge   = time.Minute
	maxTools = 1000 // that a server may list
	maxShown = 2000 // bytes of a server's words in an error
	maxNote  = 1000 // bytes of a message about progress
	// closing is how long a server may take to end a connection in an orderly way.
	closing = 5 * time.Second
)

// link is one connection to the server.
type link struct {
	server  *server
	carrier carrier
	client  *sdk.Client
	session *sdk.ClientSession // nil until connect has returned without an error
	ended   chan struct{}      // closed when the session has ended
	shut    sync.Once
	changes atomic.Int64  // how often its tools may have changed, counting the first list
	listing chan struct{} // held while they are listed

	alone bool        // it is for one call; set before it is used
	users int         // guarded by the server's lock
	idle  *time.Timer // guarded by the server's lock

	turn chan struct{} // held by the one call that may run at a server that asks questions, see enter

	mu     sync.Mutex
	calls  map[string]*asker // under way, by token
	lost   bool              // a call has ended without an answer
	live   map[string]string // the fingerprints of its tools, by name
	listed int64             // the count of changes that live includes
	at     time.Time         // when they were listed
	warned map[string]bool
}

func newLink(s *server, c carrier) *link {
	l := &link{
		server: s, carrier: c, ended: make(chan struct{}), listing: make(chan struct{}, 1), warned: map[string]bool{}, calls: map[string]*asker{}, turn: make(chan struct{}, 1),
	}
	l.changes.Store(1)
	can := &sdk.ClientCapabilities{
		Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}},
	}
	s.o.offerRoots(can)
	s.o.offerSampling(can)
	l.client = sdk.NewClient(&sdk.Implementation{Name: "parley", Version: "1"}, &sdk.ClientOptions{
		Logger:       s.o.Logger,
		Capabilities: can,
		// A question in the middle of a call is answered by the call itself, see call.
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { l.changes.Add(1) },
		PromptListChangedHandler:    l.promptsChanged,
		ResourceListChangedHandler:  func(context.Context, *sdk.ResourceListChangedRequest) { s.restocked.Add(1) },
		ProgressNotificationHandler: l.progressed,
	})
	s.o.addRoots(l.client)
	l.client.AddSendingMiddleware(uncached, l.unbroken)
	// A server of the newer era reports changes only after its acknowledgement. Changes from
	// before, while the session began, are found by listing the tools again.
	l.client.AddReceivingMiddleware(l.unbroken, func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, q sdk.Request) (sdk.Result, error) {
			switch method {
			case "notifications/subscriptions/acknowledged":
				l.changes.Add(1)
			case "elicitation/create": // the SDK refuses some forms that can be answered
				return l.elicited(ctx, q)
			case "sampling/createMessage":
				if s.o.Sampling {
					return l.sampled(ctx, q)
				}
			}
			return next(ctx, method, q)
		}
	})
	return l
}

// unbroken makes an error of a panic, because a server must not be able to end this process. The
// SDK panics when it reads some answers with null in them.
func (l *link) unbroken(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, q sdk.Request) (res sdk.Result, err error) {
		defer func() {
			if v := recover(); v != nil {
				l.server.o.Logger.Error("a message of an MCP server cannot be handled", "server", l.server.o.Name, "method", method, "panic", v, "stack", string(debug.Stack()))
				res, err = nil, fmt.Errorf("what it sent for %s cannot be read", method)
			}
		}()
		return next(ctx, method, q)
	}
}

// connect begins the session.
func (l *link) connect(ctx context.Context, version string) error {
	cs, err := l.client.Connect(ctx, l.carrier, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return err
	}
	l.session = cs
	go func() {
		_ = cs.Wait() // explain finds the reason
		close(l.ended)
	}()
	return nil
}

func (l *link) gone() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// close ends the session and its carrier, and waits until both have ended.
func (l *link) close() {
	l.shut.Do(func() {
		if l.session != nil {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = l.session.Close() // waits for calls
			}()
			select {
			case <-done:
			case <-time.After(closing):
			}
		}
		l.carrier.end()
	})
}

// explain adds the last output of the server to an error.
func (l *link) explain(err error) error {
	if l.carrier.locked != nil && l.carrier.locked() {
		return l.server.o.loginError()
	}
	if l.carrier.said == nil {
		return err
	}
	if words := l.server.o.clean(l.carrier.said(), maxShown); words != "" {
		return fmt.Errorf("%w; it said: %s", err, words)
	}
	return err
}

// list asks the server for its tools.
func (l *link) list(ctx context.Context) ([]*sdk.Tool, error) {
	seen := l.changes.Load() // before the list is made, so that no later change is missed
	tools, err := l.pages(ctx)
	if err != nil {
		return nil, err
	}
	tokens := l.server.o.tokens(ctx)
	tools = slices.DeleteFunc(tools, func(t *sdk.Tool) bool { return l.server.o.reveals(tokens, t.Name, t) })
	live := map[string]string{}
	for _, tool := range tools {
		live[tool.Name] = fingerprint(tool)
	}
	if !l.alone { // one caller's list is not everybody's
		l.server.listed(tools)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.listed, l.at = live, seen, time.Now()
	return tools, nil
}

// fresh lists the tools again if they may have changed since the last list.
func (l *link) fresh(ctx context.Context) error {
	select {
	case l.listing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.listing }()
	l.mu.Lock()
	current := l.listed == l.changes.Load() && time.Since(l.at) < maxAge
	l.mu.Unlock()
	if current {
		return nil
	}
	_, err := l.list(ctx)
	return err
}

func (l *link) pages(ctx context.Context) (tools []*sdk.Tool, err error) {
	if init := l.session.InitializeResult(); init == nil || init.Capabilities == nil || init.Capabilities.Tools == nil {
		return nil, nil
	}
	var next sdk.ListToolsParams
	for range maxPages {
		page, err := l.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: next.Cursor})
		if err != nil {
			return nil, l.explain(err)
		}
		if tools = append(tools, page.Tools...); len(tools) > maxTools {
			return nil, fmt.Errorf("it lists more than %d tools", maxTools)
		}
		if page.NextCursor == "" {
			return tools, nil
		}
		next.Cursor = page.NextCursor
	}
	return nil, fmt.Errorf("its list of tools has more than %d pages", maxPages)
}

// unchanged refuses a tool whose definition is not the accepted one.
func (l *link) unchanged(ctx context.Context, d definition) error {
	if err := l.fresh(ctx); err != nil {
		if ctx.Err() == nil {
			l.server.drop(l)
			err = &lostError{err}
		}
		return fmt.Errorf("the MCP server %s does not list its tools: %w", l.server.o.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, there := l.live[d.name]
	if now == d.print {
		return nil
	}
	if !l.warned[d.name] {
		l.warned[d.name] = true
		l.server.o.Logger.Warn("an MCP server changed a tool; its calls are refused", "server", l.server.o.Name, "tool", d.name, "there", there)
	}
	if !there {
		return fmt.Errorf("the MCP server %s no longer has the tool %s", l.server.o.Name, d.name)
	}
	return changedError(l.server.o.Name, d.name)
}

// call calls a tool once.
func (l *link) call(ctx context.Context, d definition, r seam.Run) (*sdk.CallToolResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	token := fmt.Sprintf("%s/%d", r.Call, r.Attempt)
	who := &asker{o: l.server.o, r: r, over: ctx, stop: cancel}
	leave, err := l.enter(ctx, token, who)
	if err != nil {
		return nil, seam.NotSent(err)
	}
	input := r.Input
	if len(input) == 0 {
		input = json.RawMessage(`{}`)
	}
	params := &sdk.CallToolParams{Meta: sdk.Meta{IdempotencyKey: string(r.Call)}, Name: d.name, Arguments: input}
	params.SetProgressToken(token)
	begun := false // the server has asked a question in it, so it may have done a part of it
	for round := 0; ; round++ {
		res, err := l.session.CallTool(ctx, params)
		leave(err)
		if who.isParked() {
			return nil, seam.ErrParked
		}
		var asks sdk.InputRequestMap
		switch e, wire := errors.AsType[*jsonrpc.Error](err); {
		case wire && e.Code == sdk.CodeURLElicitationRequired && round < maxRounds:
			if err := who.visit(ctx, e.Data); err != nil {
				return nil, err
			}
		case err != nil && begun && !(wire && e.Code != codeRejected):
			return nil, &lateError{err} // the server has begun the call, whatever happened to this request
		case err != nil:
			return nil, err
		case !res.NeedsInput():
			return res, nil
		case round == maxRounds:
			return nil, fmt.Errorf("it asks for input more than %d times", maxRounds)
		default:
			asks = res.InputRequests
			if len(asks) == 0 { // without questions this means that the server is busy
				if err := rest(ctx, time.Second); err != nil {
					return nil, err
				}
			}
			responses, err := who.fulfil(ctx, asks)
			if err != nil {
				return nil, err
			}
			next := *params
			next.InputResponses, next.RequestState = responses, res.RequestState
			params, begun = &next, true
		}
		if leave, err = l.enter(ctx, token, who); err != nil && begun {
			return nil, &lateError{err}
		} else if err != nil {
			return nil, seam.NotSent(err)
		}
	}
}

// lateError is the failure of a call after the server had asked a question in it.
type lateError struct{ err error }

func (e *lateError) Error() string { return e.err.Error() }
func (e *lateError) Unwrap() error { return e.err }

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *link) progressed(_ context.Context, n *sdk.ProgressNotificationClientRequest) {
	token, _ := n.Params.ProgressToken.(string)
	l.mu.Lock()
	who := l.calls[token]
	l.mu.Unlock()
	if who == nil {
		return
	}
	words := l.server.o.clean(n.Params.Message, maxNote)
	switch {
	case words != "":
	case n.Params.Total > 0:
		words = fmt.Sprintf("%.0f of %.0f", n.Params.Progress, n.Params.Total)
	default:
		words = fmt.Sprintf("%.0f", n.Params.Progress)
	}
	who.r.Progress(words)
}
