// Package tool makes tools from Go functions, for your own server.
//
//	type Find struct {
//		Name string `json:"name" jsonschema:"a part of the contact's name"`
//	}
//
//	crm := tool.Set{
//		tool.New(tool.Def{Name: "find_contact", Description: "Finds contacts.", Effect: parley.EffectRead}, find),
//	}
//
//	func find(ctx context.Context, in Find) ([]Contact, error) { … }
//
//	func main() { server.Main(server.App(files), server.Tools("crm", crm)) }
//
// The input's schema is made from the type of the function's argument. Fields have the names
// that encoding/json gives them. Fields without omitempty or omitzero are required. A
// jsonschema tag describes a field to the model. An input that does not fit the schema is
// returned to the model as an error, and the function is not called.
//
// # What an error means
//
// A write must never be made twice. So what may happen after a call depends on whether the call
// had an effect, and the error that a function returns must say so:
//
//   - nil: the call was made.
//   - [NoEffect]: nothing happened, for certain. The model reads why, and may call again.
//   - any other error, a panic, or the end of the context: a read has failed. The outcome of a
//     write is unknown, and Reconcile or a person is asked about it. A call of an
//     idempotent tool is repeated with the same key.
//
// # Calls
//
// The function's context ends when the call's time is up, and for a read also when somebody
// cancels it. [From] returns the call that a context belongs to, with its user and its id. All
// attempts of a call have the same id. Pass the id to your service as an idempotency key, or
// store it with what you write, so that Reconcile can find it.
//
// Functions are called concurrently, and for all users.
package tool

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/function"
)

// Tool is a tool made from a Go function by [New] or [NewReconciled].
type Tool interface{ function.Tool }

// Set is a group of tools that an app lists together, see server.Tools.
type Set []Tool

// Def describes a tool.
type Def struct {
	// Name has at most 128 letters, digits, _, . and -. It must be unique in an app.
	Name string
	// Description tells the model what the tool does and when to use it.
	Description string
	// Effect is what a call may do to the outside world. Empty: parley.EffectWrite. By default
	// an app allows reads and asks its user about everything else.
	Effect parley.Effect
	// Subject says in a few words what a call is about, for the person who is asked, and for the rules of
	// an app. Names of input fields in braces are replaced by their values, as in "{name}". Empty: the
	// input's JSON.
	Subject string
	// Timeout limits a call. 0: 60 s.
	Timeout time.Duration
	// KeyTTL is how long the service of an idempotent tool remembers the id of a call. After that the call
	// is not repeated. 0: 24 hours.
	KeyTTL time.Duration
	// Credentials are the credentials that a call reads with [Call.Credential]. A call is made
	// only when its turn has all of them: they come with the user's message, or the user is
	// asked for them.
	Credentials []parley.CredentialDecl
	// Web says that results hold what strangers wrote, such as pages of the web. Once a turn has such
	// content, the app's policy.outward_after_web applies to tools that are Outward.
	Web bool
	// Outward says that calls tell somebody outside something, as a post or a mail does.
	Outward bool
	// Inside says that all that a call does is over when the server's process has ended, such as a
	// change of its memory or of a file. After a crash nothing is waited for then. Otherwise a
	// request that the call had sent may still arrive, so the outcome of a write is settled only
	// when its Timeout has passed.
	Inside bool
	// Input is a JSON Schema for the input, for when it must say more than the type can, such
	// as an enum. Nil: the schema is made from the type.
	Input json.RawMessage
}

func (d Def) decl() parley.ToolDecl {
	if d.KeyTTL == 0 && d.Effect == parley.EffectIdempotent {
		d.KeyTTL = 24 * time.Hour
	}
	return parley.ToolDecl{
		Name: d.Name, Description: d.Description, Effect: d.Effect, Subject: d.Subject, InputSchema: d.Input,
		Timeout: parley.Duration(d.Timeout), KeyTTL: parley.Duration(d.KeyTTL), Credentials: d.Credentials,
		Web: d.Web, Outward: d.Outward,
	}
}

// New makes a tool from a function. In must be a struct, or a map with string keys. The model
// reads what the function returns: a string as it is, anything else as JSON. A struct or map is
// also checked against the schema of its type, and clients over MCP get it as structured
// output. A mistake in d or in the types is reported when a server starts, see server.Main.
func New[In, Out any](d Def, run func(ctx context.Context, in In) (Out, error)) Tool {
	return function.New(d.decl(), d.Inside, run, nil)
}

// NewReconciled is [New] for a tool that can find out the outcome of a call without making it
// again. reconcile is called after a crash, or after run returned an error that leaves the
// outcome unknown. in is the call's input, and [From] returns its id. Look for what you stored
// under that id. Do not infer from the present state of things that this call caused it.
//
// Return happened as true with what run would have returned, or as false if the call had no
// effect and will have none. While the call may still be under way, see [Def.Inside], only true is accepted, and
// reconcile is called again later. An error means that reconcile cannot tell; then a person is
// asked.
func NewReconciled[In, Out any](d Def, run func(ctx context.Context, in In) (Out, error), reconcile func(ctx context.Context, in In) (out Out, happened bool, err error)) Tool {
	return function.New(d.decl(), d.Inside, run, reconcile)
}

// NoEffect marks an error to say that the call had no effect, for example because the service
// refused it or it was never sent. The model reads err, and the hint if it is a [parley.Error].
// NoEffect is for writes; a read can return err itself. NoEffect(nil) is nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return seam.NotSent(err)
}

// Call is one call of a tool, as its function sees it. Its methods are safe for concurrent use until the
// function returns.
type Call struct {
	ID      parley.CallID // the idempotency key: unique, and the same for every attempt
	Attempt int           // counted from 1
	Started time.Time     // when the first attempt started
	// Principal is the user for whom the call is made. A tool with data of several users must
	// use it to decide what belongs to whom.
	Principal parley.Principal
	App       string
	Session   parley.SessionID
	ReadOnly  bool // the call must not change the workspace
	// Credentials is set only by a test, for [Context]. In a server it is empty; use the method
	// Credential.
	Credentials parley.Credentials

	run *seam.Run
}

// From returns the call that a function's context belongs to. It panics for any other context;
// in a test of a function, use [Context].
func From(ctx context.Context) *Call {
	r := function.Call(ctx)
	if r == nil {
		panic("tool: From needs the context of a call")
	}
	return &Call{
		ID: r.Call, Attempt: max(r.Attempt, 1), Started: r.Started, Principal: r.Principal, App: r.App, Session: r.Session,
		ReadOnly: r.ReadOnly, run: r,
	}
}

// Context returns a context that belongs to c, so that a test can call a function without a
// server. Such a call shows no progress, stores no files, is never stopped, and has no
// workspace.
func Context(ctx context.Context, c Call) context.Context {
	return function.With(ctx, seam.Run{
		Call: c.ID, Attempt: c.Attempt, Started: c.Started, Principal: c.Principal, App: c.App, Session: c.Session, ReadOnly: c.ReadOnly,
		Progress: func(string) {}, Keep: func(seam.File) error { return nil },
		Workspace: func() (*os.Root, error) {
			return nil, parley.Errorf(parley.CodeInvalid, "a test's call has no workspace")
		},
		Credential: func(name, _ string) (string, error) {
			if v, ok := c.Credentials[name]; ok {
				return v, nil
			}
			return "", parley.Errorf(parley.CodeForbidden, "there is no credential %s here", name)
		},
	})
}

// Progress shows people the progress of the call. The model does not see it, and it is not
// stored.
func (c *Call) Progress(text string) { c.run.Progress(text) }

// Keep stores a file that the call made, such as a plot, as an artifact in addition to the
// result. A call may store at most 8 files with 16 MiB in total. It returns CodeTooLarge beyond
// that, and CodeConflict when the call is over.
func (c *Call) Keep(name, mediaType string, body []byte) error {
	return c.run.Keep(seam.File{Name: name, MediaType: mediaType, Body: body})
}

// Workspace opens the session's workspace. It returns the same root each time. The root is
// closed when the call is over. An error says, in words for the model, that
// the session has no workspace or that it is gone.
func (c *Call) Workspace() (*os.Root, error) { return c.run.Workspace() }

// Credential returns a credential of the turn. Send it to host only, and put it into no result,
// error or log. Do not follow redirects with it. Credential returns an error unless
// [Def.Credentials] lists the name with that host.
func (c *Call) Credential(name, host string) (string, error) { return c.run.Credential(name, host) }

// Stopped returns a channel that is closed when somebody stops the turn. The context of a write
// continues then, because an effect cannot be taken back. A call that has not yet done anything
// can return [NoEffect]. A nil channel means that the turn cannot be stopped.
func (c *Call) Stopped() <-chan struct{} { return c.run.Stopped }
