package seam

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/parley-server/parley"
)

// Toolset is a group of tools behind one thing: a service, a folder, an MCP server.
type Toolset interface {
	// Tools lists them. Names are unique in an app.
	Tools(ctx context.Context) ([]parley.ToolDecl, error)
	// Run runs one call whose input fits the schema. A result with Outcome ok or error
	// means that the service answered. An error wrapped in NotSent means that the call
	// provably never left. After any other error the outcome is open: the engine reports
	// a read as failed and a write as unknown.
	Run(ctx context.Context, r Run) (parley.ToolResult, error)
}

// Scope is what an app and its tools are resolved for: the user whose session it is, the
// app, and the workspace of the session.
type Scope struct {
	Principal parley.Principal
	App       string
	Workspace parley.Workspace // empty: none
}

// Changer is a Toolset whose list of tools changes while it is open, as that of an MCP
// server may. A turn keeps the tools that it began with; the next one sees the new list.
type Changer interface {
	// Changes counts the changes. It must answer from memory at once.
	Changes() int64
}

// Versioned is a Toolset whose tools can change while it is open, even under the same names.
type Versioned interface {
	Toolset
	// Now returns a toolset fixed to the tools that Tools returned last. It needs no Close. Now
	// must not block.
	Now() Toolset
}

// Refresher is a Changer that must look for changes itself, such as one that reads files.
type Refresher interface {
	Changer
	// Stale reports whether it is time to look again. It must answer from memory without
	// blocking.
	Stale() bool
	// Refresh looks for changes. It must be fast, because turns wait for it.
	Refresh(ctx context.Context)
}

// Instructor is a Toolset with instructions for all agents of its scope.
type Instructor interface {
	// Instructions returns a text that is added to the agents' prompts. A different text counts
	// as a change for [Changer]. It must answer from memory without blocking.
	Instructions() string
}

// Applicant is a Toolset with things that may run only after a person has approved them.
type Applicant interface {
	// Approvals lists them with their states. It reads the current content of the files.
	Approvals(ctx context.Context) []parley.Approval
	// Approve stores a person's decision about one of them. It returns CodeNotFound if none has
	// that digest now.
	Approve(ctx context.Context, d parley.Digest, c parley.DecideApproval) (parley.Approval, error)
}

// Commander is a Toolset with slash commands: prompts that a user's message calls by name.
type Commander interface {
	// Commands lists them, sorted by name. It must answer from memory without blocking.
	Commands() []parley.SlashCommand
	// Expand returns the prompt that the command stands for. args is the rest of the message.
	// It returns CodeNotFound for an unknown command; other errors are for the user.
	Expand(ctx context.Context, name, args string) (string, error)
}

// ResourceKeeper is a Toolset of servers with resources: texts and files that a user attaches to a
// message.
type ResourceKeeper interface {
	// ResourceServers lists the servers. It must answer from memory at once.
	ResourceServers() []ResourceServer
}

// ResourceServer is one server with resources. It is safe for concurrent use.
type ResourceServer interface {
	// ServerName is its name. short is another that counts if no server has it as its name; it may
	// be empty.
	ServerName() (name, short string)
	// Resources lists what the server offers, within limits. cut says that it has more. The
	// server may have to be started for it. Errors are for the user; see [LoginError].
	Resources(ctx context.Context) (list []parley.Resource, cut bool, err error)
	// Read reads a resource, also one that is not listed. Errors are for the user:
	// CodeInvalid means that there is none with that URI.
	Read(ctx context.Context, r Reading) ([]ResourceContent, error)
}

// LoginError says that a user has to log in at a server first, and where.
type LoginError struct {
	Link string // for that user's browser
	Err  error
}

func (e *LoginError) Error() string { return e.Err.Error() }
func (e *LoginError) Unwrap() error { return e.Err }

// Reading is what a ResourceServer is asked for.
type Reading struct {
	URI       string
	Principal parley.Principal
	// Credential is that of [Run]. Never nil.
	Credential func(name, host string) (string, error)
}

// ResourceContent is a piece of a resource: a text, or a file.
type ResourceContent struct {
	Text      string
	MediaType string // of the text
	File      *File  // nil: it is the text
}

// Run is one call as a Toolset gets it.
type Run struct {
	Call      parley.CallID // the idempotency key, the same for every attempt
	Name      string
	Input     json.RawMessage
	Effect    parley.Effect
	Attempt   int
	Started   time.Time // of the first attempt: the call left no earlier than this
	Principal parley.Principal
	Session   parley.SessionID
	Turn      parley.TurnID
	App       string
	Space     parley.Workspace // the session's workspace, by name; empty: it has none
	// Workspace opens the session's workspace. Every time it returns the same root, which is
	// closed when the call is over. Its error says, for the model, that the session has none
	// or that it is gone; nothing was done then. Never nil.
	Workspace func() (*os.Root, error)
	// ReadOnly says that nothing in the workspace may be changed. Calls of tools that only
	// edit it do not come here then.
	ReadOnly bool
	// Hints are those of the turn's message, as its sender wrote them.
	Hints map[string]any
	// Direct says that the call was made by itself, in a session of its own. What its caller
	// did before is in other sessions.
	Direct bool
	// Mode is the session's permission mode, and Modes are those that it offers.
	Mode  parley.PermissionMode
	Modes []parley.PermissionMode
	// Stopped is closed when somebody stops the turn. ctx goes on, since a call that has left
	// is not taken back; one that has not left yet need not leave. Nil: never.
	Stopped  <-chan struct{}
	Progress func(text string) // never nil; shown to people but not to the model, and not stored
	// Ask asks a human. A tool that asks more than once in a call must give each question its
	// own Key.
	//
	// In a call that only reads, Ask returns ErrParked if there is no answer yet. Run must
	// return that error, and is called again for the same call when the answer has come. It
	// then asks the same question again and gets the answer by the question's Key.
	//
	// A call with effects cannot be run again, so there Ask waits, and the wait does not count
	// against the call's timeout. The question is closed, and the answer is a denial, if the
	// server or the turn stops, or if nobody answers before the turn leaves memory. Never nil.
	Ask func(ctx context.Context, in parley.Interaction) (parley.Answer, error)
	// Sample has the app's model reply to what a server asks in the middle of the call, once a
	// human has allowed it. Like Ask, it returns ErrParked in a call that only reads, and the
	// wait does not count against the call's timeout. Call need not be set. A call that is run
	// again gets the same reply for the same Key.
	//
	// The codes of its errors: CodeForbidden if a human or the operator does not allow it;
	// CodeInvalid or CodeTooLarge if the request cannot be made; budget_* if the turn may not
	// spend that much. With any other code the model failed. Nil: there is no model here.
	Sample func(ctx context.Context, q parley.Sampling) (parley.Sampled, error)
	// Changes announces which files in the workspace the call is about to change. Paths are
	// relative to the workspace and use slashes. Changes returns when the announcement is in
	// the log. After an error the call must not change the files. Never nil.
	Changes func(ctx context.Context, paths ...string) error
	// Attached returns the text of a file that a user attached to the session, by the file's id. Nil:
	// there are none here.
	Attached func(ctx context.Context, id parley.ArtifactID) (string, error)
	// Keep stores a file that the tool made besides its result, such as a plot, as an
	// artifact of the call. Never nil. The error says why it was refused: too large, too
	// many, or the call is over.
	Keep func(f File) error
	// Credential returns a credential that came with the command. It may be sent to the given
	// host only. Credential returns an error unless the tool declares the credential for that
	// host (parley.ToolDecl), or if the credential is gone, for example because the turn has
	// ended. Never nil.
	Credential func(name, host string) (string, error)
	// Hide has values redacted from everything that the call's session stores and shows, from
	// now until its turn ends. It is for secrets that the tool has from elsewhere. After an
	// error the values are not redacted, so the call must not use them. Nil: nothing is stored
	// or shown.
	Hide func(values ...string) error
	// Redact removes secrets from a text of the call, including those of its turn. Nil: the
	// secrets of the turn are not known.
	Redact func(text string) (clean string, found bool)
	// Others returns the calls of the same tool, by anybody, that this server has made
	// since Started or that may have been under way then; known is false if that cannot
	// be determined. Reconcile calls it after it has checked the service, so that no call
	// is missing whose effect was seen. Nil: not known.
	Others func(ctx context.Context) (calls []Other, known bool)
}

// Other is another call of a tool.
type Other struct {
	Call    parley.CallID
	Reaches []string // what it acts on; empty: not known
}

// File is a file made by a tool.
type File struct {
	Name      string
	MediaType string
	Body      []byte
	// Show says that the model is to see it with the call's result. It must be an image as package
	// picture returns it.
	Show bool
}

// Reconciler is a Toolset that can find out whether a write took effect.
type Reconciler interface {
	// Reconcile reports whether the call took effect, without making it. It is no proof
	// that things are as the call would have left them: it must be ruled out, by what the
	// service tells and by Run.Others, that somebody else did it. known is false if the
	// service cannot tell either. While the call may still be under way only a yes,
	// Outcome ok, counts, and Reconcile is called again later.
	Reconcile(ctx context.Context, r Run) (res parley.ToolResult, known bool, err error)
}

// Choosy is a Reconciler that can be asked about some of its tools only.
type Choosy interface {
	Reconciler
	// Reconciles reports whether Reconcile may know what became of calls of a tool. It must
	// answer from memory at once: the session is locked.
	Reconciles(tool string) bool
}

// Local is a Toolset with calls that run inside this process, such as Go functions.
type Local interface {
	// Over reports whether a started call can have no further effect. That is so if all that
	// the call does ends with the process that began it, so that no request is on its way, and
	// it is not running in this process. The caller must know that no other process is alive. A call
	// can still be running even if nobody waits for it any more. Over must answer from memory
	// without blocking.
	Over(tool string, call parley.CallID) bool
}

// Reacher is a Toolset that can tell what a call would act on, such as the entities of a
// house, beyond the call's subject. An approval for the session then covers those, and no
// others.
type Reacher interface {
	// Reaches lists what the call would act on, sorted. scoped is false for a tool whose
	// subject says enough. A scoped call with an empty list may reach anything. It must
	// answer from memory at once: the session is locked.
	Reaches(tool string, input json.RawMessage) (what []string, scoped bool)
}

// Effecter is a Toolset with tools whose calls differ in their effect, see [parley.ToolDecl.Reads].
type Effecter interface {
	// EffectOf returns the effect of a call. Of an input that it does not understand it returns
	// the strongest, write. It must answer from memory at once: the session is locked.
	EffectOf(tool string, input json.RawMessage) parley.Effect
}

// Composer is a Toolset with calls that consist of several, as the command line of a shell does.
// Rules with a pattern are then about each of them.
type Composer interface {
	// Parts returns the parts of a call. composed is false for a tool whose calls have no parts. It must answer
	// from memory at once: the session is locked.
	Parts(tool string, input json.RawMessage) (p Parts, composed bool)
}

// Parts is what a call consists of, each part as the subject that a rule's pattern is compared with.
type Parts struct {
	List []string // empty: not known
	// Plain says that List is all that the call does. Otherwise only a rule with exactly the call's subject
	// allows it.
	Plain bool
	// Within is what the parts do in turn, as far as it is known, for rules that forbid or ask.
	Within []string
	// Hides says that the call does something that neither List nor Within names.
	Hides bool
}

// Preparer is a Toolset with calls for which a human must first do something, such as log in at
// a service.
type Preparer interface {
	// Prepare returns what a human must do before the call can be made, or nil. It is called
	// again after each answer. The call has not begun, and Prepare must not make any part of
	// it. r holds only what is known at this point. After an error the call is not made; the
	// error is for the model. An interaction of kind credential names credentials that the turn
	// has and that are not valid any more: they are forgotten, and a human is asked for others.
	Prepare(ctx context.Context, r Run) (*parley.Interaction, error)
}

// Vetter is a Toolset that can tell in advance that a call cannot succeed, for example
// because its target does not exist. A human is not asked about such a call.
type Vetter interface {
	// Vet returns what is wrong with the call, in words for the model, or nil. It must
	// answer from memory at once: the session is locked.
	Vet(tool string, input json.RawMessage) error
}

// Informed is a Toolset that is told of calls when they are requested, also of those that are
// refused then, wait for a person or are never made.
type Informed interface {
	// Requested is told of a call before anything is decided about it. It is told again, with the
	// same r.Call, if the server stops before the call has begun to wait or run. The call waits for
	// it. It must not keep r, and cannot use what r has to make the call.
	Requested(ctx context.Context, r Run)
}

// Worder is a Toolset that can describe a call in words for a person, with the names that
// people use for its things.
type Worder interface {
	// Words says what the call would do, as a command on one line without a full stop,
	// such as "Turn off Desk lamp"; "" if it has no words for it. It must answer from
	// memory at once: the session is locked.
	Words(tool string, input json.RawMessage) string
}

// Lasting is a Toolset with changes of files that a rewind of the session does not take back.
type Lasting interface {
	// Stays says why what the tool changed stays, as a clause for people; "" if it does not.
	Stays(tool string) string
}

// Refuser is a Toolset with words of its own for inputs that do not fit a schema.
type Refuser interface {
	// Refuses returns what the model is told about such an input; "" if it has no words for it. It
	// must answer from memory at once: the session is locked.
	Refuses(tool string, input json.RawMessage) string
}

// Previewer is a Toolset that can show what a call would send out, such as a post as it will look.
type Previewer interface {
	// Preview is a text for the human who decides about the call, besides its title and its
	// input; "" if there is nothing to show. space is the session's workspace. It must answer
	// from memory at once: the session is locked.
	Preview(tool string, input json.RawMessage, space parley.Workspace) string
}

// Retriever is a Toolset that can look up snippets for a question.
type Retriever interface {
	// Retrieve returns at most limit snippets, best first. Before them come, marked as
	// pinned, those of about that it knows: the current state of what the previous turn
	// was about, see parley.Session.About. It has no effects and is fast, since every
	// turn waits for it.
	Retrieve(ctx context.Context, p parley.Principal, query string, about []string, limit int) ([]parley.Snippet, error)
}

// Attacher is a Toolset that knows what the entities attached to a session say. Where there is none,
// they are files of the session's workspace.
type Attacher interface {
	// Attached returns what each of the list says. It has no effects and is fast, since every turn
	// waits for it.
	Attached(ctx context.Context, list []parley.EntityRef) []parley.AttachedEntity
}

// Zoned is a Toolset that knows the time zone of its things and their people, such as a
// house.
type Zoned interface {
	// Zone is that zone at a given time. ok is false while it is not known. It must
	// answer from memory at once: the session is locked.
	Zone(at time.Time) (z parley.Zone, ok bool)
}

// NotSent marks err as the failure of a call that provably never left.
func NotSent(err error) error { return &notSent{err} }

// IsNotSent reports whether err came from NotSent.
func IsNotSent(err error) bool { _, ok := errors.AsType[*notSent](err); return ok }

type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }
