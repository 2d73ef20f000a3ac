package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// defaultTimeout applies to calls whose tool sets no timeout: longer than an ordinary
// service needs, short enough to wait for.
const defaultTimeout = 60 * time.Second

// Begin checks a call against schema, policy, humans and grants, and journals its start.
// A call that has started and cannot be repeated is settled instead.
func (h *host) Begin(ctx context.Context, c parley.ToolCall) (seam.Decision, error) {
	asked := false
	var ready readiness
	if t := h.State().Turn; t != nil {
		// Who waits for a person, or has started, was told before.
		if at := t.Tool(c.Call); at != nil && at.Status == parley.ToolIsRequested && at.Asked == "" && at.HookAsked == nil {
			h.r.box.Requested(ctx, h.runOf(seam.Decision{Call: c}))
		}
	}
	for {
		if err := h.guard(ctx, c.Call); err != nil {
			return seam.Decision{}, err
		}
		var d seam.Decision
		err := h.lasting(ctx, func() error {
			return h.step(ctx, func(s *session) (err error) {
				d, err = h.begin(ctx, s, c.Call, asked, ready)
				return err
			})
		})
		switch {
		case errors.Is(err, errAskHooks):
			asked = true
			err = h.represent(ctx, c.Call)
		case errors.Is(err, errPrepare):
			ready, err = h.prepare(ctx, c.Call)
		case errors.Is(err, errClaimed):
			err = h.reported(ctx, c.Call)
		case errors.Is(err, errUnsettled):
			err = h.Settle(ctx, c.Call)
		default:
			return d, err
		}
		if err != nil {
			return seam.Decision{}, err
		}
	}
}

// errAgentEnded ends what a sub-agent was about to do when it ended.
var errAgentEnded = parley.Errorf(parley.CodeCancelled, "the agent that called has ended")

// errAskHooks says that hooks must be asked first, because they may decide in place of a human.
var errAskHooks = errors.New("hooks must be asked for the permission first")

// errUnsettled says that a started call can only get its outcome from Settle.
var errUnsettled = errors.New("the call has started and must be settled")

func (h *host) begin(ctx context.Context, s *session, call parley.CallID, asked bool, ready readiness) (seam.Decision, error) {
	t := s.view.Turn
	c := t.Tool(call)
	if c == nil {
		return seam.Decision{}, parley.Errorf(parley.CodeInternal, "call %s was never requested", call)
	}
	if c.Status == parley.ToolIsEnded {
		return seam.Decision{Result: resultOf(c)}, nil
	}
	if a := t.Agent(c.Agent); a != nil && a.Ended {
		return seam.Decision{}, errAgentEnded
	}
	if ctx.Err() != nil { // the call is not needed any more
		return seam.Decision{}, context.Cause(ctx)
	}
	if c.Claimed() && s.e.now().Before(c.Deadline) {
		return seam.Decision{}, errClaimed
	}
	refuse := func(outcome parley.Outcome, text string) (seam.Decision, error) {
		r := parley.ToolResult{Call: call, Outcome: outcome, Output: text}
		return seam.Decision{Result: r}, s.stageSoon(parley.NewEvent(t.ID, c.Agent, parley.ToolEnded{ToolResult: r, Name: c.Name, Effect: c.Effect}))
	}
	started := c.Status == parley.ToolIsStarted
	decl, missing := h.declared(t, c)
	switch {
	case missing != "" && started && c.Effect != parley.EffectRead:
		return seam.Decision{}, errUnsettled
	case missing != "":
		return refuse(parley.OutcomeError, missing+" The call was not made.")
	}
	input := s.inputOf(c, decl.WorkspaceOwn)
	effect := h.r.box.EffectOf(decl, input)
	if started && decl.Reads != "" {
		effect = c.Effect // what it was begun as
	}
	if effect == parley.EffectIdempotent && started && s.e.o.Now().Sub(c.StartedAt) > time.Duration(decl.KeyTTL) {
		effect = parley.EffectWrite // its service may no longer remember the key
	}
	switch {
	case started && effect == parley.EffectRead && input == nil:
		return refuse(parley.OutcomeError, lostInput)
	case started && effect != parley.EffectRead && (effect == parley.EffectWrite || input == nil):
		return seam.Decision{}, errUnsettled // it cannot be repeated, or not with its key
	}
	if c.Status == parley.ToolIsRequested {
		verdict, text, err := h.permitted(ctx, s, c, decl, effect, input, asked)
		switch {
		case err != nil:
			return seam.Decision{}, err
		case verdict != parley.Allow:
			return refuse(verdict2outcome(verdict), text)
		}
	}
	refusal, err := h.provided(ctx, s, c, decl)
	if err == nil && refusal == "" {
		refusal, err = h.prepared(ctx, s, c, decl, ready)
	}
	switch {
	case err != nil:
		return seam.Decision{}, err
	case refusal != "" && started && effect != parley.EffectRead:
		return seam.Decision{}, errUnsettled // an earlier attempt may have been made
	case refusal != "":
		return refuse(parley.OutcomeDenied, refusal)
	}
	if decl.Run == parley.RunClient {
		switch refusal, err := h.offer(ctx, s, c, decl, input); {
		case err != nil:
			return seam.Decision{}, err
		case started && effect != parley.EffectRead:
			return seam.Decision{}, errUnsettled // a client may already have made the call
		default:
			return refuse(parley.OutcomeError, refusal)
		}
	}
	begun := s.starting(h.r.box, c, decl, effect, input)
	first := c.StartedAt
	if first.IsZero() {
		first = s.e.now()
	}
	d := seam.Decision{
		Run: true, Effect: effect, Deadline: begun.Deadline, Attempt: begun.Attempt, Started: first,
		Call: parley.ToolCall{Call: call, Agent: c.Agent, Name: c.Name, Input: input},
	}
	ev := parley.NewEvent(t.ID, c.Agent, begun)
	if effect == parley.EffectRead && begun.Grant == "" && !s.resumptionStaged() {
		err = s.stageSoon(ev) // it can be repeated, so it need not be committed before it happens
	} else {
		err = h.commit(ctx, s, ev)
	}
	if err != nil {
		return seam.Decision{}, err
	}
	return d, nil
}

// effectOf returns the effect of a tool's calls.
func effectOf(d parley.ToolDecl) parley.Effect { return cmp.Or(d.Effect, parley.EffectWrite) }

// starting returns the event that starts a call with the given input.
func (s *session) starting(box *toolbox.Box, c *parley.Tool, decl parley.ToolDecl, effect parley.Effect, input json.RawMessage) parley.ToolStarted {
	timeout := time.Duration(decl.Timeout)
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	reaches, _ := box.Reaches(c.Name, input)
	begun := parley.ToolStarted{
		Reaches: reaches,
		Call:    c.Call, Name: c.Name, Input: input, Effect: effect, Deadline: s.e.now().Add(timeout), Attempt: c.Attempt + 1, Run: decl.Run, Web: decl.Web,
	}
	if begun.Redacted = c.Redacted; keyOf(c).edited && !c.Consumed {
		begun.Redacted = c.EditCut
	}
	if c.Granted && !c.Consumed {
		begun.Grant = c.Asked
	}
	if !begun.Redacted && decl.Subject != "" { // outside its field, a secret may not be recognized
		if subject := wishOf(box, decl, effect, input).Subject; len(subject) <= maxSubject {
			begun.Subject = subject
		}
	}
	return begun
}

// maxSubject limits the subject of a call in the log, in bytes. A longer one is left out.
const maxSubject = 300

func verdict2outcome(v parley.Verdict) parley.Outcome {
	if v == parley.Deny {
		return parley.OutcomeDenied
	}
	return parley.OutcomeError
}

// invalid is the verdict on a call that its schema refuses.
const invalid parley.Verdict = "invalid"

const (
	secretInput = "The input holds something that looks like a secret, which was taken out of the log, so the call cannot be made. Refer to the secret by its name instead."
	lostInput   = "The call was not made: part of its input looks like a secret, which is held in memory only, and it is gone, as after a restart of the server or a long wait. " +
		"Make the call again and write the whole input, with what belongs where " + eventlog.Mark + " stands. Write a very large one in pieces."
)

// permitted decides about a requested call and the input it is to run with, which is nil
// if lost. The verdict is Allow, Deny or invalid, with a text for the model. ErrParked
// means that a human was asked.
func (h *host) permitted(ctx context.Context, s *session, c *parley.Tool, decl parley.ToolDecl, effect parley.Effect, input json.RawMessage, asked bool) (parley.Verdict, string, error) {
	box := h.r.box
	switch {
	case input != nil:
	case !decl.WorkspaceOwn:
		return invalid, secretInput, nil
	case c.Answer != nil && !c.Granted:
		return parley.Deny, sentence("The user did not allow this call", c.Answer.Text), nil
	default:
		return invalid, lostInput, nil
	}
	if bad := box.Check(c.Name, input); bad != nil && decl.Run != parley.RunRuntime { // which checks by itself
		return invalid, bad.Message, nil
	}
	placed := h.r.tools.Placed(decl, input)
	w := wishOf(box, decl, effect, placed)
	w.ReadOnly = h.r.readOnly
	verdict, reason := policy.Judge(h.r.app, s.view, w)
	if c.Hook != nil {
		verdict, reason = hooked(verdict, reason, c.Hook)
	}
	switch {
	case verdict == parley.Deny:
		return parley.Deny, sentence("This call is not allowed", reason), nil
	case c.Granted || verdict == parley.Allow && c.Answer == nil:
		return parley.Allow, "", nil
	case verdict == parley.Ask && c.Answer == nil && c.HookAsked != nil && c.HookAsked.Verdict == parley.Allow:
		return parley.Allow, "", nil
	case c.Answer == nil && c.HookAsked != nil && c.HookAsked.Verdict == parley.Deny:
		return parley.Deny, sentence("The hook "+c.HookAsked.Name+" did not allow this call", c.HookAsked.Reason), nil
	case c.Answer != nil:
		return parley.Deny, sentence("The user did not allow this call", c.Answer.Text), nil
	case !policy.Attended(h.r.app, s.view.Turn.Request):
		return parley.Deny, sentence("This call needs a human's permission, and there is nobody to ask", reason), nil
	case c.Asked != "":
		return "", "", seam.ErrParked
	}
	if err := box.Vet(c.Name, input); err != nil {
		info := parley.Info(err)
		return invalid, "The call was not made: " + sentence(info.Message, info.Hint), nil
	}
	if !asked && c.HookAsked == nil && len(h.matching(hook.PermissionRequest, c.Name)) > 0 {
		return "", "", errAskHooks
	}
	title, detail := permissionTitle(box, decl, h.r.tools.Placed(decl, c.Input), w.Reaches)
	kind, choices := parley.KindPermission, []string{parley.ChoiceAllow, parley.ChoiceAllowSession, parley.ChoiceDeny}
	if verdict == parley.Confirm {
		kind, choices = parley.KindConfirmation, []string{parley.ChoiceAllow, parley.ChoiceDeny}
	}
	if err := h.commit(ctx, s, s.opening(h.r.app, parley.Interaction{
		Agent: c.Agent, Kind: kind, Call: c.Call, Tool: c.Name, Input: c.Input,
		Title: title, Detail: detail, Text: h.shown(c.Name, c.Input, reason), Reaches: w.Reaches, Choices: choices,
	})); err != nil {
		return "", "", err
	}
	return "", "", seam.ErrParked
}

func sentence(what, why string) string {
	if why == "" {
		return what + "."
	}
	return what + ": " + why
}

// declared finds the tool among those of the call's agent, as it was when the turn began,
// since that is what the model was told. missing says why there is none. A tool that has
// changed since then is not called in place of the one that was meant.
func (h *host) declared(t *parley.Turn, c *parley.Tool) (decl parley.ToolDecl, missing string) {
	return declared(h.r.app, h.r.box, t, c)
}

func declared(app *parley.App, box *toolbox.Box, t *parley.Turn, c *parley.Tool) (decl parley.ToolDecl, missing string) {
	direct := t.Request.Origin == parley.OriginCall
	if a := t.Agent(c.Agent); a == nil && !direct || a != nil && (!slices.Contains(app.Agents[a.Name].Tools, c.Name) || t.Request.NoTools) {
		return decl, fmt.Sprintf("There is no tool %q for this agent.", c.Name)
	}
	if d := runtimeTool(app, c.Name); d != nil && !direct {
		return *d, ""
	}
	today, there := box.Decl(c.Name)
	at := slices.IndexFunc(app.Tools, func(d parley.ToolDecl) bool { return d.Name == c.Name })
	switch {
	case !there:
		return decl, fmt.Sprintf("The tool %q is not there any more.", c.Name)
	case at < 0 && direct && (c.Effect == "" || c.Effect == today.Effect): // an app keeps only the tools of its agents
		return today, ""
	case at < 0 && !direct:
		return decl, fmt.Sprintf("There is no tool %q for this agent.", c.Name)
	case at < 0 || !box.Same(app.Tools[at]):
		return decl, fmt.Sprintf("The tool %q has changed since this turn began. It can be called again in the next turn, when the user has sent another message.", c.Name)
	}
	return app.Tools[at], ""
}

// runtimeTool is the app's tool of that name if the runtime runs it, or nil.
func runtimeTool(app *parley.App, name string) *parley.ToolDecl {
	for i := range app.Tools {
		if d := &app.Tools[i]; d.Name == name && d.Run == parley.RunRuntime {
			return d
		}
	}
	return nil
}

// End journals the outcome of a started call: at once if it had effects, with the next
// commit if it only read, or if Parley made it and can make it again with its key.
func (h *host) End(ctx context.Context, r parley.ToolResult) error {
	var d parley.ToolDecl
	if t := h.State().Turn; t != nil && t.Tool(r.Call) != nil {
		if d, _ = h.declared(t, t.Tool(r.Call)); d.Name == "" {
			d.Name = t.Tool(r.Call).Name
		}
	}
	return h.end(ctx, h.r.box.Cut(d, seam.Run{
		Redact: func(text string) (string, bool) { return h.s.e.o.Log.RedactTextOf(h.s.id, text) },
	}, r))
}

func (h *host) end(ctx context.Context, r toolbox.Result) error {
	files := stow(&r, func(f seam.File) (*parley.ArtifactRef, error) {
		var ref *parley.ArtifactRef
		return ref, h.lasting(context.WithoutCancel(ctx), func() (err error) {
			ref, err = h.s.e.keepFile(context.WithoutCancel(ctx), h.r.owner, h.s.id, f)
			return err
		})
	})
	journal := func(s *session) error {
		t := s.view.Turn
		c := t.Tool(r.Call)
		if c == nil || c.Status == parley.ToolIsEnded {
			return parley.Errorf(parley.CodeConflict, "call %s is not running", r.Call)
		}
		events := s.outcome(c, r, files, "")
		if (c.Effect == parley.EffectRead || r.Outcome != parley.OutcomeUnknown && h.keyLasts(t, c)) && r.Mode == "" { // a mode is in force for the calls that come after
			return s.stageSoon(events...)
		}
		return h.commit(context.WithoutCancel(ctx), s, events...)
	}
	// Only this process knows the outcome of the write: it is kept until the store can
	// take it.
	ctx = context.WithoutCancel(ctx)
	return h.lasting(ctx, func() error { return h.with(ctx, journal) })
}

// aRestart is how long a server may need to go on with a turn after a crash.
const aRestart = time.Minute

// keyLasts reports whether Parley could make a call again with its key if the server died now.
func (h *host) keyLasts(t *parley.Turn, c *parley.Tool) bool {
	if c.Effect != parley.EffectIdempotent || c.Run == parley.RunRuntime {
		return false
	}
	decl, missing := h.declared(t, c)
	return missing == "" && h.Now().Sub(c.StartedAt)+aRestart <= time.Duration(decl.KeyTTL)
}

// kept holds the stored artifacts of a result: the whole output if it was cut, or nil, and the
// files.
type kept struct {
	whole *parley.ArtifactRef
	files []parley.ArtifactRef
	shown []parley.ArtifactRef // those of the files that the model is to see
}

// stow stores the artifacts of a result. If one cannot be stored, the output says so.
func stow(r *toolbox.Result, keep func(seam.File) (*parley.ArtifactRef, error)) (k kept) {
	if r.Artifact != nil {
		var err error
		if k.whole, err = keep(seam.File{Name: r.ArtifactName, MediaType: r.MediaType, Body: r.Artifact}); err != nil {
			k.whole = nil
			r.Output += "\n(The rest could not be stored: " + parley.Info(err).Message + ")"
		}
	}
	for _, f := range r.Files {
		ref, err := keep(f)
		if err != nil {
			r.Output += "\n(" + f.Name + " could not be stored: " + parley.Info(err).Message + ")"
			continue
		}
		k.files = append(k.files, *ref)
		if f.Show {
			k.shown = append(k.shown, *ref)
		}
	}
	return k
}

// outcome returns the events that end a call: those of its artifacts, then the end itself.
func (s *session) outcome(c *parley.Tool, r toolbox.Result, k kept, report parley.Digest) (events []parley.Event) {
	turn := s.view.Turn.ID
	refs := k.files
	r.ToolResult.Images = k.shown
	if k.whole != nil {
		refs = slices.Insert(slices.Clip(refs), 0, *k.whole)
	}
	for i, ref := range refs {
		if i == 0 {
			r.ToolResult.Artifact = &ref
		}
		events = append(events, parley.NewEvent(turn, c.Agent, parley.ArtifactStored{ArtifactRef: ref, Call: c.Call}))
	}
	if len(r.Saved) > 0 {
		events = append(events, parley.NewEvent(turn, c.Agent, parley.FilesSaved{Call: c.Call, Files: r.Saved}))
	}
	if r.Mode != "" && r.Outcome == parley.OutcomeOK && r.Mode != s.view.Mode {
		if app, err := s.e.appOf(s.view.App); err == nil && checkMode(app.App(), s.view.Policy, r.Mode) == nil {
			events = append(events, parley.NewEvent(turn, c.Agent, parley.SessionUpdated{Mode: &r.Mode}))
		}
	}
	took := s.e.now().Sub(c.StartedAt).Milliseconds()
	return append(events, parley.NewEvent(turn, c.Agent, parley.ToolEnded{
		ToolResult: r.ToolResult, Name: c.Name, Effect: c.Effect, TookMS: took, Report: report,
		HookDue: s.hasHooks(endEvent(r.Outcome), c.Name),
	}))
}

// keepFile stores bytes as a future artifact, redacted like the log.
func (e *Engine) keepFile(ctx context.Context, owner parley.Principal, id parley.SessionID, f seam.File) (*parley.ArtifactRef, error) {
	body, ok := e.o.Log.RedactFileOf(id, f.Body)
	if !ok {
		return nil, parley.Errorf(parley.CodeInvalid, "it holds something that looks like a secret")
	}
	d, err := e.o.Store.PutBlob(ctx, owner, body)
	if err != nil {
		return nil, err
	}
	return &parley.ArtifactRef{ID: parley.ArtifactID(e.newID()), Name: f.Name, MediaType: f.MediaType, Size: int64(len(body)), SHA256: d}, nil
}

// Call is Begin, run and End. A read is cut when the turn stops; a started write may run
// until its deadline.
func (h *host) Call(ctx context.Context, c parley.ToolCall, sample seam.Sampler) (parley.ToolResult, error) {
	for pause := firstPause; ; pause *= 2 {
		d, err := h.Begin(ctx, c)
		if err != nil || !d.Run {
			return d.Result, err
		}
		res, err := h.make(ctx, d, sample)
		if err != nil {
			return res.ToolResult, err
		}
		if cause := context.Cause(ctx); res.Outcome == parley.OutcomeCancelled && (errors.Is(cause, errShutdown) || errors.Is(cause, seam.ErrAgain)) {
			return res.ToolResult, cause // it stays open: whoever goes on with the turn makes it again
		}
		if res.Outcome == parley.OutcomeUnknown {
			if h.repeatable(ctx, d) {
				if err := h.s.e.rest(ctx, pause); err != nil {
					return res.ToolResult, err
				}
				continue // with the same key
			}
			if res, err = h.find(ctx, d.Call.Name, res); err != nil {
				return res.ToolResult, err
			}
		}
		if err := h.end(ctx, res); err != nil {
			return res.ToolResult, err
		}
		return res.ToolResult, h.Hear(ctx, c.Call)
	}
}

// maxAttempts is how often an idempotent call is made whose answer was lost.
const maxAttempts = 3

// repeatable reports whether a call whose answer was lost can be made again: it is
// idempotent, its service still knows the key, and nobody stopped the turn. A replay, whose
// clock stands still, repeats nothing by itself.
func (h *host) repeatable(ctx context.Context, d seam.Decision) bool {
	if d.Effect != parley.EffectIdempotent || d.Attempt >= maxAttempts || ctx.Err() != nil || h.s.e.o.Untimed {
		return false
	}
	t := h.State().Turn
	if t == nil {
		return false
	}
	decl, missing := h.declared(t, t.Tool(d.Call.Call))
	return missing == "" && h.Now().Sub(d.Started) <= time.Duration(decl.KeyTTL)
}

// make makes a call that has begun.
func (h *host) make(ctx context.Context, d seam.Decision, sample seam.Sampler) (toolbox.Result, error) {
	run := ctx
	if d.Effect != parley.EffectRead {
		run = context.WithoutCancel(ctx)
	}
	work := h.runOf(d)
	work.Stopped = ctx.Done()
	asks := asking{h: h, d: d, keys: map[string]bool{}}
	work.Ask = func(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
		if !h.s.e.o.Untimed { // a replay asks what was asked
			in.Sampling = "" // which only the engine asks
		}
		return asks.ask(ctx, in)
	}
	if sample != nil {
		work.Sample = func(q context.Context, s parley.Sampling) (parley.Sampled, error) {
			return asks.sample(q, ctx, sample, s)
		}
	}
	work.Changes = func(ctx context.Context, paths ...string) error { return h.announce(ctx, d.Call, paths) }
	space := h.r.tools.Workspace()
	work.Workspace = space.Open
	defer space.Close()
	if h.s.e.o.Untimed {
		d.Deadline = time.Time{} // the clock stands still
	}
	res := h.r.box.Run(run, work, d.Deadline)
	res.Call = d.Call.Call
	return res, asks.open(ctx)
}

// find asks the service of a call whose answer was lost what became of it, or returns what
// is known. The call may still be under way: until its deadline and settleLate have passed,
// only a yes counts. A service that cannot tell is not asked again. Like a running call, the
// wait is not cut when somebody stops the turn. An error leaves the call to its next owner.
func (h *host) find(ctx context.Context, name string, lost toolbox.Result) (toolbox.Result, error) {
	if !h.r.box.CanReconcile(name) {
		return lost, nil
	}
	ctx, done := h.outlasting(ctx)
	defer done()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		t := h.State().Turn
		if t == nil {
			return lost, errNotHere
		}
		c := t.Tool(lost.Call)
		left := c.Deadline.Add(settleLate).Sub(h.Now())
		over := left <= 0 || h.s.e.o.NothingRuns
		res, known, err := h.ask(ctx, t, c)
		switch {
		case known && (over || res.Outcome == parley.OutcomeOK):
			return toolbox.Result{ToolResult: res}, nil
		case over, !known && err == nil:
			return lost, nil
		}
		if err := h.s.e.rest(ctx, min(pause, left)); err != nil {
			return lost, err
		}
	}
}

func (h *host) runOf(d seam.Decision) seam.Run {
	s := h.s
	decl, _ := h.r.box.Decl(d.Call.Name)
	mode, modes := h.modes()
	return seam.Run{
		Mode: mode, Modes: modes,
		Credential: h.credential(decl), Hide: h.hide, Redact: func(text string) (string, bool) { return s.e.o.Log.RedactTextOf(s.id, text) },
		Call: d.Call.Call, Name: d.Call.Name, Input: h.r.tools.Placed(decl, d.Call.Input), Effect: d.Effect, Attempt: d.Attempt, Started: d.Started,
		Principal: h.r.owner, Session: s.id, Turn: h.r.turn, App: h.r.app.Name, Space: h.r.tools.Space(), ReadOnly: h.r.readOnly, Direct: h.State().Direct,
		Hints: h.hints(), Attached: h.attachedText,
		Progress: func(text string) {
			h.Publish(parley.Delta{Agent: d.Call.Agent, Call: d.Call.Call, Kind: parley.DeltaProgress, Text: text})
		},
	}
}

// hints are those of the turn's message.
func (h *host) hints() map[string]any {
	if t := h.State().Turn; t != nil {
		return t.Request.Hints
	}
	return nil
}

// modes are the session's permission mode and those that it offers.
func (h *host) modes() (in parley.PermissionMode, offered []parley.PermissionMode) {
	s := h.State()
	for _, m := range []parley.PermissionMode{parley.ModeDefault, parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions} {
		if checkMode(h.r.app, s.Policy, m) == nil {
			offered = append(offered, m)
		}
	}
	if in = s.Mode; in == "" || !h.r.app.Policy.Offers(in) {
		in = parley.ModeDefault
	}
	return in, offered
}

func resultOf(c *parley.Tool) parley.ToolResult {
	return parley.ToolResult{Call: c.Call, Outcome: c.Outcome, Output: c.Output, Data: c.Data, Artifact: c.Artifact, Error: c.Error, About: c.About}
}
