// Package tool makes tools of Go functions, for a server of your own.
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
// The schema of the input is made from the type of the function's argument. Fields have the names
// that encoding/json gives them. Those without omitempty or omitzero are required, and a jsonschema
// tag describes a field to the model. An input that does not fit goes back to the model and
// reaches no function.
//
// # What an error means
//
// What a model may do after a call depends on whether the call had an effect, so that a write is
// never made twice. After a crash nobody may be left who knows. What a tool says therefore matters:
//
//   - nil: the call was made.
//   - [NoEffect]: certainly nothing happened. The model reads why, and may call again.
//   - any other error, a panic, the end of the context: of a read, that it failed. Of a write, that
//     nobody knows: the outcome is unknown, and Reconcile or a person is asked. A call of an
//     idempotent tool is made again with the same key.
//
// # Calls
//
// The function's context ends when the call's time is up and when somebody cancels a read. [From]
// returns the call that a context belongs to: who it is for, and the id that every attempt of it
// shares. Give that id to your service as its idempotency key, or store it with what you write, so that
// Reconcile can find it.
//
// Functions are called concurrently, for all users.
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

// Tool is a tool of a Go function: what [New] and [NewReconciled] return.
type Tool interface{ function.Tool }

// Set is a group of tools that an app takes together, see server.Tools.
type Set []Tool

// Def says what a tool is.
type Def struct {
	// Name has letters, digits, _ . and -, at most 128 of them. It is unique in an app.
	Name string
	// Description tells the model what the tool does and when to use it.
	Description string
	// Effect is what a call may do to the outside world. Empty: parley.EffectWrite. By default an app
	// allows reads, and asks its user about the others.
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
	// Credentials are those that a call reads, see [Call.Credential]. A call is made only when its turn
	// has each of them: they come with the user's message, or the user is asked.
	Credentials []parley.CredentialDecl
	// Input is a JSON Schema for the input that says more than its type does, such as an enum. Nil: it is
	// made from the type.
	Input json.RawMessage
}

func (d Def) decl() parley.ToolDecl {
	if d.KeyTTL == 0 && d.Effect == parley.EffectIdempotent {
		d.KeyTTL = 24 * time.Hour
	}
	return parley.ToolDecl{
		Name: d.Name, Description: d.Description, Effect: d.Effect, Subject: d.Subject, InputSchema: d.Input,
		Timeout: parley.Duration(d.Timeout), KeyTTL: parley.Duration(d.KeyTTL), Credentials: d.Credentials,
	}
}

// New makes a tool of a function. In is a struct, or a map with strings as keys. The model reads
// what the function returns: a string as it is, everything else as JSON. A struct or map is also checked
// against the schema of its type and is the structured output of clients over MCP. A mistake in d or
// in the types is reported when a server starts, see server.Main.
func New[In, Out any](d Def, run func(ctx context.Context, in In) (Out, error)) Tool {
	return function.New(d.decl(), run, nil)
}

// NewReconciled is [New] for a tool that can tell what became of a call, without making it. It is asked
// after a crash, or when run returned an error after which nobody knows. in is that of the call, and
// [From] has its id; find what you stored under that id, and do not conclude from how things are now that
// it was this call that made them so.
//
// happened is true with what run would have returned, or false if the call had no effect and will have
// none. It is asked again later while the call may be under way, when only true counts. An error means
// that it cannot tell either: a person is asked.
func NewReconciled[In, Out any](d Def, run func(ctx context.Context, in In) (Out, error), reconcile func(ctx context.Context, in In) (out Out, happened bool, err error)) Tool {
	return function.New(d.decl(), run, reconcile)
}

// NoEffect marks err: the call that returns it certainly had no effect, since it was refused, or never
// left. The model reads err, also the hint of a [parley.Error]. It is for writes; a read may as well
// return err itself. NoEffect(nil) is nil.
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
	Started time.Time     // of the first attempt
	// Principal is the user for whom the call is made. A tool that keeps data of several users decides by
	// it what belongs to whom.
	Principal parley.Principal
	App       string
	Session   parley.SessionID
	ReadOnly  bool // nothing in the workspace may be changed
	// Credentials are what a test gives to [Context]; a call in a server has them only by its method
	// Credential.
	Credentials parley.Credentials

	run *seam.Run
}

// From returns the call that a function's context belongs to. It panics with another context: a test of
// a function uses [Context].
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

// Context returns a context that belongs to c, so that a test can call a function without a server. Such a
// call shows no progress, keeps no files, is never stopped, and has no workspace.
func Context(ctx context.Context, c Call) context.Context {
	return function.With(ctx, seam.Run{
		Call: c.ID, Attempt: c.Attempt, Started: c.Started, Principal: c.Principal, App: c.App, Session: c.Session, ReadOnly: c.ReadOnly,
		Progress: func(string) {}, Keep: func(seam.File) error { return nil },
		Workspace: func() (*os.Root, error) {
			return nil, parley.Errorf(parley.CodeInvalid, "there is no workspace here")
		},
		Credential: func(name, _ string) (string, error) {
			if v, ok := c.Credentials[name]; ok {
				return v, nil
			}
			return "", parley.Errorf(parley.CodeForbidden, "there is no credential %s here", name)
		},
	})
}

// Progress shows people how far the call is. The model does not see it, and it is not stored.
func (c *Call) Progress(text string) { c.run.Progress(text) }

// Keep stores a file that the call made besides its result, such as a plot, as an artifact. A call keeps
// at most 8, of 16 MiB together. Errors: CodeTooLarge, and CodeConflict when the call is over.
func (c *Call) Keep(name, mediaType string, body []byte) error {
	return c.run.Keep(seam.File{Name: name, MediaType: mediaType, Body: body})
}

// Workspace opens the session's workspace. Every time it returns the same root, which is closed
// when the call is over. Its error says, for the model, that the session has none or that it is gone.
func (c *Call) Workspace() (*os.Root, error) { return c.run.Workspace() }

// Credential returns a credential of the turn, to be sent to host and to nowhere else: not into a result, an
// error or a log. It is refused unless [Def.Credentials] has the name with that host. Do not follow
// redirects with it.
func (c *Call) Credential(name, host string) (string, error) { return c.run.Credential(name, host) }

// Stopped is closed when somebody stops the turn. The context of a write goes on then, since what has left
// is not taken back; a call that has not yet done anything returns [NoEffect]. Nil: never.
func (c *Call) Stopped() <-chan struct{} { return c.run.Stopped }
