package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// name is the full name of a tool of the seed.
func (a *App) name(tool string) string {
	prefix := cmp.Or(a.o.Prefix, a.app.Name)
	if a.o.Underscores {
		return strings.ReplaceAll(prefix+"."+tool, ".", "_")
	}
	return prefix + "." + tool
}

// request is one call of a tool.
type request struct {
	*mcp.CallToolRequest
	who parley.Principal
}

// credentials are those that the request has in its header, where no model sees them.
func (r request) credentials() (parley.Credentials, error) {
	if r.Extra == nil {
		return nil, nil
	}
	return parley.ParseCredentials(r.Extra.Header.Values(parley.CredentialsHeader))
}

// hints are a tool's annotations.
type hints struct{ reads, destroys, repeats, open bool }

func (h hints) annotations(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: h.reads, DestructiveHint: &h.destroys, IdempotentHint: h.repeats, OpenWorldHint: &h.open}
}

// tool registers one tool of the seed. h returns its output, or a result that
// takes the place of one.
func tool[In, Out any](a *App, name, title, description string, h hints, do func(ctx context.Context, r request, in In) (Out, *mcp.CallToolResult, error)) {
	a.seed[a.name(name)] = true
	mcp.AddTool(a.server, &mcp.Tool{Name: a.name(name), Title: title, Description: description, Annotations: h.annotations(title), InputSchema: inputSchema[In]()},
		func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			out, res, err := do(ctx, request{req, who(ctx)}, in)
			if err != nil {
				return nil, out, a.logged(ctx, name, err)
			}
			return res, out, nil
		})
}

// logged is a refusal whose cause, where the caller is not told, is in our log.
// An error of the protocol passes as it is.
func (a *App) logged(ctx context.Context, tool string, err error) error {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return wire
	}
	e := refusal(err)
	if e.info.Code == parley.CodeInternal && ctx.Err() == nil {
		a.o.Logger.ErrorContext(ctx, "an MCP call failed", "app", a.app.Name, "tool", tool, "error", cmp.Or(e.err, err))
	}
	return e
}

type startIn struct {
	Model       *ModelConfig   `json:"model,omitempty"`
	Budgets     *Budgets       `json:"budgets,omitempty" jsonschema:"limits of each turn; never wider than the app's"`
	Policy      *SessionPolicy `json:"policy,omitempty" jsonschema:"what the agent may do; never more than the app allows"`
	Preferences Preferences    `json:"preferences,omitempty"`
}

type startOut struct {
	SessionID string `json:"session_id"`
}

type sendIn struct {
	SessionID      string        `json:"session_id"`
	Message        string        `json:"message"`
	Model          *ModelConfig  `json:"model,omitempty" jsonschema:"for this message only"`
	PlannerHints   *PlannerHints `json:"planner_hints,omitempty"`
	AllowTools     *bool         `json:"allow_tools,omitempty" jsonschema:"false: answer without tools"`
	TimeBudgetMS   int64         `json:"time_budget_ms,omitempty" jsonschema:"how long the turn may run"`
	IdempotencyKey string        `json:"idempotency_key,omitempty" jsonschema:"the same key gives the same continuation"`
	Stream         *bool         `json:"stream,omitempty" jsonschema:"false: no partial frames at /events/{session_id}"`
}

type sendOut struct {
	ContinuationID string `json:"continuation_id"`
	Acknowledged   bool   `json:"acknowledged"`
	// WaitingFor says what the turn waits for that the message is queued behind.
	WaitingFor []Waiting `json:"waiting_for,omitempty" jsonschema:"open interactions of the message before, which goes on when they are answered"`
}

type awaitIn struct {
	ContinuationID string   `json:"continuation_id"`
	TimeoutMS      *int64   `json:"timeout_ms,omitempty" jsonschema:"how long to wait, 30000 when not given; then the present status is returned"`
	Known          []string `json:"known,omitempty" jsonschema:"ids of interactions that you have been told of: the wait goes on until somebody answers them"`
}

type awaitOut struct {
	Status    string                `json:"status" jsonschema:"pending, running, streaming, completed, failed, cancelled, expired or interrupted"`
	Response  *ContinuationResponse `json:"response,omitempty"`
	Artifacts []ArtifactRef         `json:"artifacts,omitempty"`
	Error     *ContinuationError    `json:"error,omitempty"`
	// WaitingFor is only there while the turn waits for a human.
	WaitingFor []Waiting `json:"waiting_for,omitempty" jsonschema:"open interactions: the agent goes on when they are answered"`
}

type cancelIn struct {
	ContinuationID string `json:"continuation_id"`
	Reason         string `json:"reason,omitempty"`
}

type statusOut struct {
	Status string `json:"status"`
}

type sessionIn struct {
	SessionID string `json:"session_id"`
}

type sessionOut struct {
	Session AgentSessionSummary `json:"session"`
}

type endIn struct {
	SessionID string `json:"session_id"`
	Reason    string `json:"reason,omitempty"`
}

type askIn struct {
	Message    string       `json:"message"`
	Model      *ModelConfig `json:"model,omitempty"`
	Budgets    *Budgets     `json:"budgets,omitempty"`
	AllowTools *bool        `json:"allow_tools,omitempty" jsonschema:"false: answer without tools"`
	Stream     *bool        `json:"stream,omitempty"`
}

type askOut struct {
	Response  ContinuationResponse `json:"response"`
	Artifacts []ArtifactRef        `json:"artifacts,omitempty"`
	// These are only there when the agent asks back, and Response says what.
	ContinuationID string    `json:"continuation_id,omitempty" jsonschema:"given when the agent asks back: wait for it after the answer"`
	WaitingFor     []Waiting `json:"waiting_for,omitempty" jsonschema:"open interactions: the agent goes on when they are answered"`
}

type resumeIn struct {
	ContinuationID string `json:"continuation_id"`
}

type listIn struct {
	Status string `json:"status,omitempty" jsonschema:"active, ended or expired; all when not given"`
	Limit  int    `json:"limit,omitempty" jsonschema:"50 when not given, at most 200"`
}

type listOut struct {
	Sessions []AgentSessionSummary `json:"sessions"`
}

func (a *App) sessionTools() {
	tool(a, "start_session", "Start a session", "Starts a conversation that lives for weeks. Returns its session_id.", hints{}, a.start)
	tool(a, "send_message", "Send a message", "Sends a message to the agent and returns at once with a continuation_id; wait for the answer with "+a.name("await_continuation")+".", hints{destroys: true, open: true}, a.send)
	tool(a, "await_continuation", "Wait for the answer", "Waits until the agent has answered a message, at most timeout_ms, and returns the status and the answer. While the status is running or streaming, call it again. What the agent asks back is in waiting_for.", hints{reads: true, repeats: true}, a.await)
	tool(a, "answer", "Answer a question", "Gives the user's answer to a question that the agent asks back (waiting_for). What allows an act is for a person to answer, elsewhere.", hints{destroys: true, repeats: true, open: true}, a.answerOpen)
	tool(a, "cancel", "Cancel", "Cancels what the agent is doing about a message. What it has already changed stays changed.", hints{destroys: true, repeats: true}, a.cancel)
	tool(a, "get_session", "Read a session", "Reads a session: status, limits, policy, memory, what it has used.", hints{reads: true, repeats: true}, a.get)
	tool(a, "end_session", "End a session", "Ends a session for good. A running turn is cancelled.", hints{destroys: true, repeats: true}, a.end)
	tool(a, "ask", "Ask one question", "Asks the agent one question and waits for the answer, in a session that ends with it.", hints{destroys: true, open: true}, a.ask)
	tool(a, "resume", "Resume", "Goes on with a message that was interrupted, as by a restart, from the last step that was done, and waits like "+a.name("await_continuation")+".", hints{destroys: true, open: true}, a.resume)
	tool(a, "retry", "Retry", "Asks again what was asked, as a new continuation.", hints{destroys: true, open: true}, a.retry)
	tool(a, "list_sessions", "List sessions", "Lists your sessions, the one that changed last first.", hints{reads: true, repeats: true}, a.list)
}

func (a *App) start(ctx context.Context, r request, in startIn) (startOut, *mcp.CallToolResult, error) {
	policy, err := in.Policy.native(a.app.Policy)
	if err != nil {
		return startOut{}, nil, err
	}
	c := parley.CreateSession{App: a.app.Name, Budgets: in.Budgets.native(), Policy: policy, Preferences: in.Preferences, Client: ClientName}
	if err := in.Model.fill(&c); err != nil {
		return startOut{}, nil, err
	}
	s, _, err := a.o.Engine.Create(ctx, r.who, c)
	return startOut{string(s.ID)}, nil, sampling(err)
}

// session finds a session of this app.
func (a *App) session(ctx context.Context, r request, id string) (parley.SessionInfo, error) {
	s, err := a.o.Engine.Session(ctx, r.who, parley.SessionID(id))
	if err == nil && s.App != a.app.Name {
		err = notFound("session", id)
	}
	return s, err
}

// turn finds a turn of this app.
func (a *App) turn(ctx context.Context, r request, id string) (parley.TurnInfo, error) {
	t, err := a.o.Engine.Turn(ctx, r.who, parley.TurnID(id))
	if err == nil {
		if _, bad := a.session(ctx, r, string(t.SessionID)); bad != nil {
			err = bad
		}
	}
	if parley.CodeOf(err) == parley.CodeNotFound {
		err = notFound("continuation", id)
	}
	return t, err
}

func notFound(what, id string) error {
	return parley.Errorf(parley.CodeNotFound, "there is no %s %s", what, parley.Cut(id, 60)).
		WithHint("check the id; what belongs to another user is reported as not found, too")
}

func (a *App) send(ctx context.Context, r request, in sendIn) (sendOut, *mcp.CallToolResult, error) {
	model, err := in.Model.ofMessage()
	if err != nil {
		return sendOut{}, nil, err
	}
	s, err := a.session(ctx, r, in.SessionID)
	if err != nil {
		return sendOut{}, nil, err
	}
	given, err := r.credentials()
	if err != nil {
		return sendOut{}, nil, err
	}
	t, err := a.o.Engine.Send(ctx, r.who, s.ID, parley.Send{
		Message: in.Message, Credentials: given, Model: model, Hints: in.PlannerHints.native(), Budgets: parley.Budgets{MaxDurationMS: in.TimeBudgetMS},
		NoTools: no(in.AllowTools), Key: in.IdempotencyKey, Client: client(in.Stream), Fixed: true,
	})
	if err != nil && t.ID != "" && in.IdempotencyKey == "" {
		err = a.begun(ctx, r.who, t, time.Now().Add(a.o.AwaitWithin))
	}
	if err != nil {
		return sendOut{}, nil, a.busyWith(ctx, r, s.ID, refusal(err, "budgets.max_duration_ms", "time_budget_ms"))
	}
	waiting, err := a.waitingFor(ctx, r.who, t)
	if err != nil {
		waiting = nil // the message is sent, which is what counts
	}
	return sendOut{string(t.ID), true, waiting}, nil, nil
}

func no(b *bool) bool { return b != nil && !*b }

func client(stream *bool) string {
	if no(stream) {
		return QuietClient
	}
	return ClientName
}

func (a *App) await(ctx context.Context, r request, in awaitIn) (awaitOut, *mcp.CallToolResult, error) {
	within := a.o.AwaitWithin
	if in.TimeoutMS != nil {
		if *in.TimeoutMS < 0 {
			return awaitOut{}, nil, parley.Errorf(parley.CodeInvalid, "timeout_ms is negative").WithField("timeout_ms")
		}
		within = min(time.Duration(min(*in.TimeoutMS, maxAwait.Milliseconds()))*time.Millisecond, maxAwait)
	}
	over := time.Now().Add(within)
	var t parley.TurnInfo
	err := a.lasting(ctx, over, func() (err error) {
		t, err = a.turn(ctx, r, in.ContinuationID)
		return err
	})
	if err != nil {
		return awaitOut{}, nil, err
	}
	known := make([]parley.InteractionID, 0, len(in.Known))
	for _, id := range in.Known {
		known = append(known, parley.InteractionID(id))
	}
	return a.awaited(ctx, r, t.ID, over, known...)
}

// awaited waits until a time and shows the turn in the seed's form. ctx ends only the
// waiting.
func (a *App) awaited(ctx context.Context, r request, id parley.TurnID, over time.Time, known ...parley.InteractionID) (awaitOut, *mcp.CallToolResult, error) {
	t, ask, err := a.wait(ctx, r, id, &over, known...)
	if err != nil || ask != nil {
		return awaitOut{}, ask, err
	}
	out := awaitOut{Status: seedStatus(t), Response: responseOf(t.Response), Error: errorOf(t)}
	var links []mcp.Content
	err = a.lasting(ctx, over, func() (err error) {
		if links, out.Artifacts, err = a.artifacts(ctx, r.who, t); err == nil {
			out.WaitingFor, err = a.waitingFor(ctx, r.who, t)
		}
		return err
	})
	if err != nil {
		return awaitOut{}, nil, err
	}
	return out, a.asking(structured(out, links), out.WaitingFor), nil
}

// structured is a result that says in text what its output says, with links.
func structured(out any, links []mcp.Content) *mcp.CallToolResult {
	text, _ := json.Marshal(out) // plain data
	return &mcp.CallToolResult{Content: append([]mcp.Content{&mcp.TextContent{Text: string(text)}}, links...)}
}

// asking adds to a result how to go on, in words for the model, when the agent
// waits for a human.
func (a *App) asking(res *mcp.CallToolResult, list []Waiting) *mcp.CallToolResult {
	if len(list) > 0 {
		res.Content = append(res.Content, &mcp.TextContent{Text: a.howToGoOn(list)})
	}
	return res
}

func (a *App) cancel(ctx context.Context, r request, in cancelIn) (statusOut, *mcp.CallToolResult, error) {
	t, err := a.turn(ctx, r, in.ContinuationID)
	switch {
	case parley.CodeOf(err) == parley.CodeNotFound:
		return statusOut{"not_found"}, nil, nil
	case err != nil:
		return statusOut{}, nil, err
	case t.Status.Ended():
		return statusOut{"already_final"}, nil, nil
	}
	t, err = a.o.Engine.Cancel(ctx, r.who, t.ID, in.Reason)
	if err == nil && t.Status.Ended() && t.Status != parley.StatusCancelled {
		return statusOut{"already_final"}, nil, nil // it ended meanwhile
	}
	return statusOut{"cancelled"}, nil, err
}

func (a *App) get(ctx context.Context, r request, in sessionIn) (sessionOut, *mcp.CallToolResult, error) {
	info, err := a.session(ctx, r, in.SessionID)
	if err != nil {
		return sessionOut{}, nil, err
	}
	s, err := a.summary(ctx, r.who, info)
	return sessionOut{s}, nil, err
}

func (a *App) end(ctx context.Context, r request, in endIn) (statusOut, *mcp.CallToolResult, error) {
	s, err := a.session(ctx, r, in.SessionID)
	if err == nil {
		_, err = a.o.Engine.End(ctx, r.who, s.ID, in.Reason)
	}
	return statusOut{string(parley.Ended)}, nil, err
}

func (a *App) ask(ctx context.Context, r request, in askIn) (askOut, *mcp.CallToolResult, error) {
	id, going, err := a.goingOn(r)
	if err != nil {
		return askOut{}, nil, err
	}
	over := time.Now().Add(a.o.AskWithin)
	if !going {
		if id, err = a.askAnew(ctx, r, in, over); err != nil {
			return askOut{}, nil, err
		}
	}
	t, more, err := a.wait(ctx, r, id, &over)
	if err != nil {
		a.giveUp(ctx, r.who, parley.TurnInfo{ID: id})
		return askOut{}, nil, a.outOfSight(id, err)
	}
	if more != nil {
		return askOut{}, more, nil
	}
	switch {
	case t.Status == parley.StatusCompleted && t.Response != nil:
		out := askOut{Response: *responseOf(t.Response)}
		var links []mcp.Content
		err := a.lasting(ctx, over, func() (err error) {
			links, out.Artifacts, err = a.artifacts(ctx, r.who, t)
			return err
		})
		if err != nil {
			return askOut{}, nil, a.outOfSight(id, err)
		}
		return out, structured(out, links), nil
	case t.Status == parley.StatusWaiting:
		out := askOut{Response: ContinuationResponse{FinalMessage: a.waitsFor(ctx, r.who, t)}, ContinuationID: string(t.ID)}
		err := a.lasting(ctx, over, func() (err error) {
			out.WaitingFor, err = a.waitingFor(ctx, r.who, t)
			return err
		})
		if err != nil {
			return askOut{}, nil, a.outOfSight(id, err)
		}
		return out, a.asking(structured(out, nil), out.WaitingFor), nil
	case !t.Over():
		return askOut{}, nil, parley.Errorf(parley.CodeTimeout, "the answer takes longer than %s", a.o.AskWithin).
			WithHint("it is on its way: %s with continuation %s", a.name("await_continuation"), t.ID)
	}
	return askOut{}, nil, a.unanswered(t)
}

// unanswered is why a turn that is over has no answer, with what it had said.
func (a *App) unanswered(t parley.TurnInfo) error {
	e := errorOf(t)
	if e == nil {
		e = &ContinuationError{string(t.Status), "the turn is " + string(t.Status)}
	}
	hint := ""
	if t.Error != nil {
		hint = t.Error.Hint
	}
	if t.Status == parley.StatusInterrupted {
		hint = "what was done is kept; " + a.name("resume") + " with continuation " + string(t.ID) + " goes on from there"
	}
	if t.Response != nil && t.Response.Message != "" {
		hint = strings.TrimSpace(hint + " So far it had said: " + t.Response.Message)
	}
	return &toolError{info: parley.ErrorInfo{Code: parley.Code(e.Code), Message: e.Message, Hint: hint}}
}

// askAnew starts the session of one question, and waits until a time for a store that
// cannot say whether it has kept the question.
func (a *App) askAnew(ctx context.Context, r request, in askIn, over time.Time) (parley.TurnID, error) {
	given, err := r.credentials()
	if err != nil {
		return "", err
	}
	c := parley.CreateSession{App: a.app.Name, Budgets: in.Budgets.native(), Temporary: true, Client: ClientName}
	if err := in.Model.fill(&c); err != nil {
		return "", err
	}
	s, _, err := a.o.Engine.Create(ctx, r.who, c)
	switch {
	case parley.CodeOf(err) == parley.CodeTimeout: // only the session is in doubt, and nothing looks for it
		return "", parley.Errorf(parley.CodeUnavailable, "the store failed, and nothing was asked: %w", err).
			WithHint("ask again").WithRetry(time.Second)
	case err != nil:
		return "", sampling(err)
	}
	t, err := a.o.Engine.Send(ctx, r.who, s.ID, parley.Send{Message: in.Message, Credentials: given, NoTools: no(in.AllowTools), Client: client(in.Stream), Fixed: true})
	if err != nil && t.ID != "" {
		if err := a.begun(ctx, r.who, t, over); err != nil {
			a.giveUp(ctx, r.who, t)
			return "", err
		}
		return t.ID, nil
	}
	if err != nil { // nothing may be left of what was refused
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer done()
		if _, e := a.o.Engine.End(clean, r.who, s.ID, "its message was refused"); e != nil {
			a.o.Logger.WarnContext(ctx, "a temporary session was not ended", "session", s.ID, "error", e)
		}
	}
	return t.ID, err
}

// giveUp cancels a turn that a request began, or may have begun, when it is the host
// that gave the request up and not the server that stops.
func (a *App) giveUp(ctx context.Context, p parley.Principal, t parley.TurnInfo) {
	if ctx.Err() == nil {
		return
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), givenUpWithin)
	defer done()
	kept := true
	err := a.lasting(stop, time.Now().Add(givenUpWithin), func() (err error) {
		if t.SessionID != "" { // it may be on its way into the log
			kept, err = a.o.Engine.Kept(stop, p, t)
		}
		if err == nil && kept {
			_, err = a.o.Engine.Cancel(stop, p, t.ID, "the client cancelled its request")
		}
		return err
	})
	if err != nil {
		a.o.Logger.WarnContext(ctx, "a turn was not cancelled", "turn", t.ID, "error", err)
	}
}

// givenUpWithin is how long it is tried to cancel what a host has given up.
const givenUpWithin = 10 * time.Second

func (a *App) resume(ctx context.Context, r request, in resumeIn) (awaitOut, *mcp.CallToolResult, error) {
	id, going, err := a.goingOn(r)
	if err != nil {
		return awaitOut{}, nil, err
	}
	if !going {
		t, err := a.turn(ctx, r, in.ContinuationID)
		if err != nil {
			return awaitOut{}, nil, err
		}
		if _, err := a.o.Engine.Resume(ctx, r.who, t.ID); err != nil {
			return awaitOut{}, nil, err
		}
		id = t.ID
	}
	return a.awaited(ctx, r, id, time.Now().Add(a.o.AwaitWithin))
}

func (a *App) retry(ctx context.Context, r request, in resumeIn) (sendOut, *mcp.CallToolResult, error) {
	t, err := a.turn(ctx, r, in.ContinuationID)
	if err != nil {
		return sendOut{}, nil, err
	}
	t, err = a.o.Engine.Retry(ctx, r.who, t.ID, "", ClientName)
	if err != nil && t.ID != "" {
		err = a.begun(ctx, r.who, t, time.Now().Add(a.o.AwaitWithin))
	}
	return sendOut{ContinuationID: string(t.ID), Acknowledged: true}, nil, err
}

func (a *App) list(ctx context.Context, r request, in listIn) (listOut, *mcp.CallToolResult, error) {
	out := listOut{Sessions: []AgentSessionSummary{}}
	status := parley.SessionStatus(in.Status)
	switch status {
	case "", parley.Active, parley.Ended, parley.Expired:
	default:
		return out, nil, parley.Errorf(parley.CodeInvalid, "status is %q", parley.Cut(in.Status, 40)).WithField("status").WithHint("active, ended or expired")
	}
	if in.Limit < 0 || in.Limit > 200 {
		return out, nil, parley.Errorf(parley.CodeInvalid, "limit is %d", in.Limit).WithField("limit").WithHint("1 to 200")
	}
	cursor, _ := r.Params.GetMeta()[metaCursor].(string)
	after, err := seam.SessionCursor(cursor)
	if err != nil {
		return out, nil, err
	}
	rows, next, err := a.o.Engine.SessionPage(ctx, r.who, seam.SessionQuery{App: a.app.Name, Status: status, Limit: in.Limit, After: after})
	if err != nil {
		return out, nil, err
	}
	for _, row := range rows {
		s, err := a.summary(ctx, r.who, row)
		if parley.CodeOf(err) == parley.CodeNotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return out, nil, err
		}
		out.Sessions = append(out.Sessions, s)
	}
	if next.ID == "" {
		return out, nil, nil
	}
	res := structured(out, nil)
	res.Meta = mcp.Meta{metaNext: next.Cursor()}
	return out, res, nil
}
