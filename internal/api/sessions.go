package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

// clientName names this door in the log.
const clientName = "api"

// SessionParam is exported because huma looks only into exported embedded structs.
type SessionParam struct {
	ID parley.SessionID `path:"id" maxLength:"64" doc:"The session."`
}

// KeyParam: as SessionParam.
type KeyParam struct {
	Key keyText `header:"Idempotency-Key" doc:"The same key returns what it first made; with another body it is refused (422), and when the session that it made was deleted, too (410)."`
}

// keyText and reasonText are texts whose schema states the engine's limit.
type (
	keyText    string
	reasonText string
)

// Schema implements huma.SchemaProvider.
func (keyText) Schema(huma.Registry) *huma.Schema { return textOf(parley.MaxKey) }

// Schema implements huma.SchemaProvider.
func (reasonText) Schema(huma.Registry) *huma.Schema { return textOf(parley.MaxReason) }

func textOf(most int) *huma.Schema { return &huma.Schema{Type: huma.TypeString, MaxLength: &most} }

type createInput struct {
	KeyParam
	Body parley.CreateSession
}

type createOutput struct {
	Status int
	Body   parley.SessionInfo
}

type listInput struct {
	App    string    `query:"app" maxLength:"64" doc:"Only sessions of this app, which is one that is on or that has sessions of yours."`
	Status string    `query:"status" enum:"active,ended,expired" doc:"Only sessions in this status."`
	Limit  int       `query:"limit" minimum:"1" maximum:"500" doc:"At most so many; 50 when not given."`
	Before time.Time `query:"before" doc:"Only sessions that changed before this time."`
	CursorParam

	Direct bool `query:"direct" doc:"List those of direct calls, too, which have a session of their own for a week."`
}

// CursorParam: as SessionParam.
type CursorParam struct {
	Cursor string `query:"cursor" maxLength:"400" doc:"next of the page before, to read the page behind it."`
}

type sessionList struct {
	Sessions []parley.SessionInfo `json:"sessions" nullable:"false"`
	Next     string               `json:"next,omitempty" doc:"The cursor of the next page; left out on the last."`
}

type updateInput struct {
	SessionParam
	Body parley.UpdateSession
}

type forkInput struct {
	SessionParam
	KeyParam
	Body *parley.ForkSession
}

type rewindInput struct {
	SessionParam
	KeyParam
	Body parley.RewindSession
}

type reasonBody struct {
	Reason reasonText `json:"reason,omitempty" doc:"Why; kept in the log."`
}

type endInput struct {
	SessionParam
	Body *reasonBody
}

type queueList struct {
	Queue []queued `json:"queue" nullable:"false"`
}

type commandList struct {
	Commands []parley.SlashCommand `json:"commands" nullable:"false"`
}

type resourcesInput struct {
	SessionParam
	ResourcePage
}

type appResourcesInput struct {
	AppParam
	ResourcePage
}

// ResourcePage is the page of a list of resources that a request asks for.
type ResourcePage struct {
	Cursor string `query:"cursor" maxLength:"3000" doc:"next of the page before, to read the page behind it."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" doc:"At most so many; 200 when not given."`
}

// listResources reads a page of resources by list.
func listResources(in ResourcePage, list func(after parley.ResourceRef, limit int) (parley.ResourceList, parley.ResourceRef, error)) (*body[parley.ResourceList], error) {
	after, err := resourceAfter(in.Cursor)
	if err != nil {
		return nil, err
	}
	page, next, err := list(after, in.Limit)
	if next != (parley.ResourceRef{}) {
		page.Next = resourceMark(next)
	}
	return ok(page, err)
}

// resourceMark is a resource as the cursor of the page behind it.
func resourceMark(r parley.ResourceRef) string {
	return base64.RawURLEncoding.EncodeToString([]byte(r.Server + " " + r.URI))
}

func resourceAfter(mark string) (r parley.ResourceRef, err error) {
	if mark == "" {
		return r, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(mark)
	var split bool
	r.Server, r.URI, split = strings.Cut(string(raw), " ")
	if err != nil || !split || r.Check() != nil {
		return r, invalid("cursor", "this is not the next of a page").WithHint("leave it out for the first page")
	}
	return r, nil
}

// queued is a turn in the queue.
type queued struct {
	ID      parley.TurnID `json:"id"`
	Message string        `json:"message"`
	Client  string        `json:"client,omitempty"`
	At      time.Time     `json:"at"`
	Seq     int64         `json:"seq"`
}

type ruleList struct {
	Rules []parley.Rule `json:"rules" nullable:"false"`
}

type approvalList struct {
	Approvals []parley.Approval `json:"approvals" nullable:"false"`
}

type approvalInput struct {
	SessionParam
	Digest parley.Digest `path:"digest" maxLength:"64" doc:"The digest of the thing to decide about."`
	Body   struct {
		State parley.ApprovalState `json:"state" enum:"allowed,denied,open" doc:"The decision; open withdraws an earlier one."`
		Was   parley.ApprovalState `json:"was,omitempty" enum:"allowed,denied,open" doc:"The state that the person has seen. If somebody else has decided since, nothing changes (409)."`
	}
}

type unqueueInput struct {
	SessionParam
	Turn parley.TurnID `path:"turn" maxLength:"64" doc:"The queued turn."`
}

func (s *Server) sessionRoutes() {
	e := s.o.Engine
	tags := []string{"sessions"}
	route(s, huma.Operation{
		OperationID: "create-session", Method: http.MethodPost, Path: "/v1/sessions", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary:     "Make a session",
		Description: "With an outside_id or a key that the caller has used in this app before, that session is returned with status 200.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The existing session", Content: map[string]*huma.MediaType{"application/json": {Schema: s.schema(parley.SessionInfo{})}}},
		},
	}, func(ctx context.Context, p parley.Principal, in *createInput) (*createOutput, error) {
		c := in.Body
		if strings.TrimSpace(c.App) == "" {
			return nil, invalid("app", "the session needs an app").WithHint("GET /v1/apps lists them")
		}
		c.Key, c.Client = string(in.Key), clientName
		out := &createOutput{Status: http.StatusOK}
		var created bool
		var err error
		// A client follows its new session next, mostly on the same connection, whose stack stays small so.
		aside.Do(func() { out.Body, created, err = e.Create(ctx, p, c) })
		if err != nil {
			return nil, err
		}
		if created {
			out.Status = http.StatusCreated
		}
		return out, nil
	})
	route(s, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions", Tags: tags, Summary: "List sessions, the last changed first",
		Description: "A session that changes moves to the top and is not on a later page. Every session that does not change while you read the pages is listed once.",
	}, func(ctx context.Context, p parley.Principal, in *listInput) (*body[sessionList], error) {
		after, err := seam.SessionCursor(in.Cursor)
		if err != nil {
			return nil, err
		}
		if err := wire.Reserve(ctx, max(heldSmall, orElse(in.Limit, 50)*heldRow)); err != nil {
			return nil, err
		}
		list, next, err := e.SessionPage(ctx, p, seam.SessionQuery{
			App: in.App, Status: parley.SessionStatus(in.Status), Limit: in.Limit, Before: in.Before, Direct: in.Direct,
			After: after,
		})
		if err == nil && len(list) == 0 && in.App != "" {
			err = s.knownApp(ctx, p, in.App)
		}
		return ok(sessionList{some(list), next.Cursor()}, err)
	})
	route(s, huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: "/v1/sessions/{id}", Tags: tags, Summary: "Read a session",
		Description: "The current state of a session, without its log.",
	}, func(ctx context.Context, p parley.Principal, in *SessionParam) (*body[parley.SessionInfo], error) {
		return ok(e.Session(ctx, p, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "update-session", Method: http.MethodPatch, Path: "/v1/sessions/{id}", Tags: tags,
		Summary:     "Change title, model, mode, busy mode, preferences, pins or attached entities; revoke rules",
		Description: "rules lists the granted rules to keep; rules cannot be added here.",
	}, func(ctx context.Context, p parley.Principal, in *updateInput) (*body[parley.SessionInfo], error) {
		return ok(e.Update(ctx, p, in.ID, in.Body))
	})
	route(s, huma.Operation{
		OperationID: "delete-session", Method: http.MethodDelete, Path: "/v1/sessions/{id}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary:     "Delete a session with everything in it",
		Description: "Its log, artifacts and archive go with it. A running turn is stopped first.",
	}, func(ctx context.Context, p parley.Principal, in *SessionParam) (*struct{}, error) {
		return nil, e.Delete(ctx, p, in.ID)
	})
	route(s, huma.Operation{
		OperationID: "fork-session", Method: http.MethodPost, Path: "/v1/sessions/{id}/fork", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary:     "Copy a session up to an event",
		Description: "The copy takes no grants, rules, open interactions, queue or keys; calls that were open in it are closed as cancelled.",
	}, func(ctx context.Context, p parley.Principal, in *forkInput) (*body[parley.SessionInfo], error) {
		var c parley.ForkSession
		if in.Body != nil {
			c = *in.Body
		}
		if c.At < 0 {
			return nil, invalid("at", "at is the number of an event; numbers begin at 1")
		}
		c.Key = string(in.Key)
		return ok(inTurn(ctx, s, p, func() (parley.SessionInfo, error) { return e.Fork(ctx, p, in.ID, c) }))
	})
	route(s, huma.Operation{
		OperationID: "rewind-session", Method: http.MethodPost, Path: "/v1/sessions/{id}/rewind", Tags: tags, Summary: "Go back to before a message",
		Description: "Takes back the message of a turn and everything after it: the conversation, the files that the session changed in its workspace, or both. The log keeps it, and undo brings it back. " +
			"With preview nothing changes, and the answer says what would: the turns, for each file a diff or why it is left, and the effects, which are not undone.  " +
			"A file is restored only if it is as the session's last change left it. What somebody else has changed since is left, and reported.  " +
			"While a turn is running or waits for a person, the answer is 409 busy.",
	}, func(ctx context.Context, p parley.Principal, in *rewindInput) (*body[parley.RewindResult], error) {
		c := in.Body
		c.Key, c.Client = string(in.Key), clientName
		did, err := inTurn(ctx, s, p, func() (parley.RewindResult, error) { return e.Rewind(ctx, p, in.ID, c) })
		if err != nil || c.Preview {
			return ok(did, err)
		}
		return ok(e.AwaitRewind(ctx, p, in.ID, did.ID)) // not in turn: it may wait for room on a disk
	})
	route(s, huma.Operation{
		OperationID: "end-session", Method: http.MethodPost, Path: "/v1/sessions/{id}/end", Tags: tags, Summary: "Close a session for good; it stays readable",
		Description: "A running turn is cancelled, and no new turn is accepted.",
	}, func(ctx context.Context, p parley.Principal, in *endInput) (*body[parley.SessionInfo], error) {
		return ok(e.End(ctx, p, in.ID, reasonOf(in.Body)))
	})
	route(s, huma.Operation{
		OperationID: "sweep", Method: http.MethodPost, Path: "/v1/sweep", Tags: tags, Summary: "Apply the apps' ttl now",
		Description: "The server does this every few minutes for all users; this does it at once for the caller's sessions.  " +
			"It says how many sessions expired, had old steps condensed, and were deleted.",
	}, func(ctx context.Context, p parley.Principal, _ *struct{}) (*body[engine.Swept], error) {
		return ok(e.Sweep(ctx, p))
	})
	route(s, huma.Operation{
		OperationID: "list-rules", Method: http.MethodGet, Path: "/v1/sessions/{id}/rules", Tags: tags, Summary: "List the rules granted for the session",
		Description: "Each allows calls like one that was asked for. To revoke some, PATCH the session with the rules to keep.",
	}, func(ctx context.Context, p parley.Principal, in *SessionParam) (*body[ruleList], error) {
		list, err := inTurn(ctx, s, p, func() ([]parley.Rule, error) { return e.Rules(ctx, p, in.ID) })
		return ok(ruleList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "list-queue", Method: http.MethodGet, Path: "/v1/sessions/{id}/queue", Tags: tags, Summary: "List the turns that wait behind the open one",
		Description: "In the order in which they will run.",
	}, func(ctx context.Context, p parley.Principal, in *SessionParam) (*body[queueList], error) {
		list, err := inTurn(ctx, s, p, func() ([]parley.QueuedTurn, error) { return e.Queue(ctx, p, in.ID) })
		out := queueList{Queue: []queued{}}
		for _, q := range list {
			out.Queue = append(out.Queue, queued{ID: q.ID, Message: q.Request.Message.Text(), Client: q.Request.Client, At: q.At, Seq: q.Seq})
		}
		return ok(out, err)
	})
	route(s, huma.Operation{
		OperationID: "list-commands", Method: http.MethodGet, Path: "/v1/sessions/{id}/commands", Tags: tags, Summary: "List the slash commands of a session",
		Description: "A message that begins with /NAME calls the command of that name. The text after the name is its arguments.",
	}, func(ctx context.Context, p parley.Principal, in *SessionParam) (*body[commandList], error) {
		list, err := e.Commands(ctx, p, in.ID) // not in turn, as the next: they wait for servers, and not for a processor
		return ok(commandList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "list-resources", Method: http.MethodGet, Path: "/v1/sessions/{id}/resources", Tags: tags, Summary: "List what messages of a session may have attached",
		Description: "The resources and templates of the session's MCP servers. A message has those that its resources name, and those that it mentions as @server:uri. " +
			"Servers are started for the list. failed says which of them could not be asked; the resources are those of the others.",
	}, func(ctx context.Context, p parley.Principal, in *resourcesInput) (*body[parley.ResourceList], error) {
		return listResources(in.ResourcePage, func(after parley.ResourceRef, limit int) (parley.ResourceList, parley.ResourceRef, error) {
			return e.Resources(ctx, p, in.ID, after, limit)
		})
	})
	route(s, huma.Operation{
		OperationID: "list-approvals", Method: http.MethodGet, Path: "/v1/sessions/{id}/approvals", Tags: tags,
		Summary:     "List what files of the session's user and workspace would run",
		Description: "Hooks and MCP servers in these files run only if the app's operator allows it and a person has approved each of them.",
	}, func(ctx context.Context, p parley.Principal, in *SessionParam) (*body[approvalList], error) {
		list, err := e.Approvals(ctx, p, in.ID)
		return ok(approvalList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "decide-approval", Method: http.MethodPost, Path: "/v1/sessions/{id}/approvals/{digest}", Tags: tags,
		Summary:     "Approve or deny what a file would run",
		Description: "The digest covers the whole command line and the files that it names. When one of them changes, the digest changes, and a new approval is needed.",
	}, func(ctx context.Context, p parley.Principal, in *approvalInput) (*body[parley.Approval], error) {
		return ok(e.Approve(ctx, p, in.ID, in.Digest, parley.DecideApproval{State: in.Body.State, Was: in.Body.Was}))
	})
	route(s, huma.Operation{
		OperationID: "unqueue-turn", Method: http.MethodDelete, Path: "/v1/sessions/{id}/queue/{turn}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary:     "Take a turn off the queue",
		Description: "Only for a turn that has not begun; cancel a running turn instead.",
	}, func(ctx context.Context, p parley.Principal, in *unqueueInput) (*struct{}, error) {
		return nil, e.Unqueue(ctx, p, in.ID, in.Turn)
	})
}

// knownApp refuses the name of an app that does not exist, as a command would: an empty
// list would hide the mistake. Sessions of an app that is off can still be listed.
func (s *Server) knownApp(ctx context.Context, p parley.Principal, app string) error {
	_, unknown := s.o.Engine.App(app)
	if unknown == nil {
		return nil
	}
	list, _, err := s.o.Engine.SessionPage(ctx, p, seam.SessionQuery{App: app, Direct: true, Limit: 1})
	if err != nil || len(list) > 0 {
		return err
	}
	return unknown
}

func reasonOf(b *reasonBody) string {
	if b == nil {
		return ""
	}
	return string(b.Reason)
}

// some turns nil into an empty list, for JSON.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
