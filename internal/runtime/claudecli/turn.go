package claudecli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
)

// turn is one attempt at a turn: the CLI works, and everything that it does is journaled here.
type turn struct {
	rt    *Runtime
	h     seam.Host
	app   *parley.App
	entry parley.AgentPath
	ctx   context.Context //nolint:containedctx // the attempt's: requests of the CLI arrive outside Run's goroutine
	p     *process

	inbox   chan struct{} // signals that lines has grown
	fails   chan error
	serving sync.WaitGroup
	// reserving is held while a model call is checked against the budgets and begun.
	reserving chan struct{}

	mu     sync.Mutex
	lines  []message
	took   int                         // lines so far
	done   int                         // of these, handled
	uses   map[string]*use             // calls, by the CLI's ids
	news   chan struct{}               // closed and replaced when a call or an agent becomes known
	agents map[string]parley.AgentPath // of sub-agents, by the CLI's ids
	sent   []string                    // our messages to the CLI that no result has settled
	heard  int                         // steering messages that were sent
	afresh bool                        // the CLI's conversation does not continue what was stored
	late   map[parley.CallID]*time.Timer
	bound  *parley.BudgetReached
	over   *parley.Error                      // why the turn fails
	broke  *parley.Error                      // why the last model call failed
	again  map[parley.AgentPath][]parley.Item // replies of this turn that the CLI is to get again
}

// use is a call of a tool by the CLI's model.
type use struct {
	id      string // the CLI's
	call    parley.CallID
	name    string
	agent   parley.AgentPath
	allowed bool // it has begun
	mu      sync.Mutex
	ended   bool
}

func (t *turn) event(path parley.AgentPath, p parley.Payload) parley.Event {
	return parley.NewEvent(t.h.Turn(), path, p)
}

// note records something that may be lost.
func (t *turn) note(path parley.AgentPath, p parley.Payload) { _ = t.h.Stage(t.event(path, p)) }

func (t *turn) publish(d parley.Delta) { t.h.Publish(d) }

// fail ends the attempt.
func (t *turn) fail(err error) {
	select {
	case t.fails <- err:
	default:
	}
}

// failed remembers why the last model call failed: the CLI's own words are for its own users.
func (t *turn) failed(err *parley.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broke = err
}

// exceeded ends the turn because a budget is reached.
func (t *turn) exceeded(b *parley.BudgetReached, err *parley.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.over, t.bound = err, b
	}
}

// take gets a line of the CLI. It does not block.
func (t *turn) take(m message) {
	t.mu.Lock()
	t.lines = append(t.lines, m)
	t.took++
	t.mu.Unlock()
	select {
	case t.inbox <- struct{}{}:
	default:
	}
}

func (t *turn) next() (m message, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return m, false
	}
	m, t.lines = t.lines[0], t.lines[1:]
	return m, true
}

// flush waits until the lines that the CLI has written so far are handled, so that the log has things in
// the order in which they happened.
func (t *turn) flush(ctx context.Context) {
	t.mu.Lock()
	upTo := t.took
	t.mu.Unlock()
	for {
		t.mu.Lock()
		done, news := t.done >= upTo, t.news
		t.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// newUse returns a function that makes ids for the calls of an agent's reply.
func (t *turn) newUse(parley.AgentPath) func(string) parley.CallID {
	return func(id string) parley.CallID {
		t.mu.Lock()
		defer t.mu.Unlock()
		if u := t.uses[id]; u != nil {
			return u.call // a reply that was asked for again
		}
		return t.h.NewCall()
	}
}

// known says that the calls of a reply are in the log.
func (t *turn) known(parts []parley.Part, path parley.AgentPath) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range parts {
		if p.Type == parley.PartToolCall && t.uses[p.ProviderID] == nil {
			t.uses[p.ProviderID] = &use{id: p.ProviderID, call: p.Call, name: p.Name, agent: path}
		}
	}
	t.changed()
}

// changed wakes who waits for news. The caller holds mu.
func (t *turn) changed() {
	close(t.news)
	t.news = make(chan struct{})
}

// knownWithin limits the wait for what the CLI says on one way and is needed on another.
const knownWithin = 20 * time.Second

var errUnknownCall = parley.Errorf(parley.CodeInvalid, "this call is in no reply of the model, so it cannot be made")

// use finds a call by the CLI's id. The reply that asks for it may still be on its way.
func (t *turn) use(ctx context.Context, id string) (*use, error) {
	late := time.NewTimer(knownWithin)
	defer late.Stop()
	for {
		t.mu.Lock()
		u, news := t.uses[id], t.news
		t.mu.Unlock()
		if u != nil {
			return u, nil
		}
		select {
		case <-news:
		case <-late.C:
			return nil, errUnknownCall
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-t.ctx.Done():
			return nil, context.Cause(t.ctx)
		}
	}
}

// path is the path of the agent with one of the CLI's ids; "": the one that answers the user.
func (t *turn) path(ctx context.Context, id string) parley.AgentPath {
	if id == "" {
		return t.entry
	}
	late := time.NewTimer(knownWithin)
	defer late.Stop()
	for {
		t.mu.Lock()
		path, news := t.agents[id], t.news
		t.mu.Unlock()
		if path != "" {
			return path
		}
		select {
		case <-news:
		case <-late.C:
			return t.entry
		case <-ctx.Done():
			return t.entry
		}
	}
}

// run makes the attempt.
func (t *turn) run(ctx context.Context) (end seam.Ending, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errGone) // what waits for a human stops when the attempt is over
	t.ctx = ctx
	s := t.h.State()
	if s.Turn == nil {
		return end, errGone
	}
	if len(s.Turn.Agents) == 0 {
		if err := t.h.Stage(t.event(t.entry, parley.AgentStarted{Name: string(t.entry)})); err != nil {
			return end, err
		}
	}
	t.entry = firstNonEmpty(s.Turn.Active, t.entry)
	if err := t.settle(ctx); err != nil {
		return end, err
	}
	if ctx.Err() != nil {
		return end, context.Cause(ctx)
	}
	if (t.app.Memory.Retrieve || len(s.Attached) > 0) && !s.Turn.Retrieved {
		found, err := t.h.Retrieve(ctx, s.Turn.Request.Message.Text())
		if err != nil {
			return end, err
		}
		if err := t.h.Stage(t.event(t.entry, found)); err != nil {
			return end, err
		}
	}
	open, err := t.open(ctx)
	if err != nil {
		return end, err
	}
	defer func() {
		t.p.detach()
		t.serving.Wait()
		if err == nil {
			t.rt.pool.release(t.p)
		}
	}()
	if open.content != nil {
		if err := t.say(open.id, open.content); err != nil {
			return end, err
		}
	}
	if err := t.steer(ctx); err != nil {
		return end, err
	}
	return t.follow(ctx)
}

func firstNonEmpty[T ~string](list ...T) T {
	for _, v := range list {
		if v != "" {
			return v
		}
	}
	return ""
}

// say sends a message to the CLI.
func (t *turn) say(id string, content []any) error {
	t.mu.Lock()
	t.sent = append(t.sent, id)
	t.mu.Unlock()
	return t.p.conn.send(map[string]any{
		"type": "user", "uuid": id, "message": map[string]any{"role": "user", "content": content},
		"client_composed": true, // slash commands and @file are for those who sit at the CLI
	})
}

// stopWithin is how long the CLI may take to stop after an interrupt. It took 27 ms at most.
const stopWithin = 5 * time.Second

// follow serves the CLI until its turn ends.
func (t *turn) follow(ctx context.Context) (end seam.Ending, err error) {
	stop := ctx.Done()
	var late <-chan time.Time
	for {
		if m, ok := t.next(); ok {
			over, end, err := t.line(ctx, m)
			t.mu.Lock()
			t.done++
			t.changed()
			t.mu.Unlock()
			if over || err != nil {
				return end, err
			}
			continue
		}
		select {
		case <-t.inbox:
		case err := <-t.fails:
			return t.soFar(), err
		case <-t.p.conn.ended:
			if len(t.inbox) > 0 {
				continue
			}
			if ctx.Err() != nil {
				return t.soFar(), context.Cause(ctx)
			}
			return end, errGone
		case <-stop:
			stop = nil
			t.halt()
			timer := time.NewTimer(stopWithin)
			defer timer.Stop()
			late = timer.C
		case <-late:
			t.p.kill()
			return t.soFar(), context.Cause(ctx)
		case <-t.h.Commands():
			if err := t.steer(ctx); err != nil {
				return end, err
			}
		}
	}
}

// halt interrupts the CLI. A change of a file that has begun is over in a moment and is waited for;
// a command in a shell is cut off.
func (t *turn) halt() {
	t.rt.work.Go(func() {
		for range 40 {
			if !t.writing() {
				break
			}
			time.Sleep(25 * time.Millisecond)
		}
		brief, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		_, _ = t.p.conn.ask(brief, map[string]any{"subtype": "interrupt", "cancel_queued": true}) // if it fails, the process is ended
	})
}

// writing reports whether a change of a file is being made.
func (t *turn) writing() bool {
	now := t.h.State().Turn
	if now == nil {
		return false
	}
	for _, c := range now.Tools.Open() {
		if n := nativeIn(t.app, c.Name); c.Status == parley.ToolIsStarted && n != nil && n.edits {
			return true
		}
	}
	return false
}

// soFar is the answer so far.
func (t *turn) soFar() seam.Ending {
	if now := t.h.State().Turn; now != nil {
		return seam.Ending{Response: prompt.Response(now.Answered())}
	}
	return seam.Ending{}
}

// steer passes on what the user has said since the turn began.
func (t *turn) steer(ctx context.Context) error {
	s := t.h.State()
	if s.Turn == nil {
		return nil
	}
	said := steers(s.Turn, t.entry)
	t.mu.Lock()
	from := min(t.heard, len(said))
	t.heard = len(said)
	t.mu.Unlock()
	t.p.mu.Lock()
	t.p.heard = len(said)
	t.p.mu.Unlock()
	for i, parts := range said[from:] {
		content, err := t.content(ctx, parts)
		if err != nil {
			return err
		}
		if err := t.say(promptID(s.Turn.ID, fmt.Sprintf("steer %d", from+i)), content); err != nil {
			return err
		}
	}
	return t.syncMode(ctx, s)
}

// steers lists what the user and hooks have told the agent in this turn, in order.
func steers(t *parley.Turn, path parley.AgentPath) (list [][]parley.Part) {
	a := t.Agent(path)
	if a == nil {
		return nil
	}
	add := func(it parley.Item) {
		switch it.Kind {
		case parley.ItemSteer:
			list = append(list, it.Parts)
		case parley.ItemHook:
			list = append(list, []parley.Part{{Type: parley.PartText, Text: parley.HookSays(it.Text)}})
		}
	}
	for _, it := range a.Items {
		add(it)
	}
	for _, it := range t.Pending(a) {
		add(it)
	}
	return list
}

// syncMode gives the CLI the session's permission mode. Only plan mode matters: it tells the model
// to plan. What is allowed is decided here.
func (t *turn) syncMode(ctx context.Context, s parley.Session) error {
	mode := modeOf(t.app, &s)
	t.p.mu.Lock()
	same := t.p.mode == mode
	t.p.mode = mode
	t.p.mu.Unlock()
	if same {
		return nil
	}
	_, err := t.p.conn.ask(ctx, map[string]any{"subtype": "set_permission_mode", "mode": mode})
	return err
}

func modeOf(app *parley.App, s *parley.Session) string {
	mode := s.Mode
	if mode == "" {
		mode = app.Mode
	}
	if mode == parley.ModePlan {
		return "plan"
	}
	return "default"
}

// line handles a line of the CLI. over says that the turn has ended.
func (t *turn) line(ctx context.Context, m message) (over bool, end seam.Ending, err error) {
	switch m.Type {
	case "user":
		for _, b := range blocks(m.Message.Content) {
			if b.Type == "tool_result" {
				t.result(b)
			}
		}
	case "system":
		t.system(m)
	case "result":
		return t.ended(ctx, m)
	}
	return false, end, nil
}

// ended handles the end of a turn of the CLI. Ours goes on if there is more that it was told, or if
// agents still work in the background.
func (t *turn) ended(ctx context.Context, m message) (over bool, end seam.Ending, err error) {
	t.mu.Lock()
	settled := append(m.UserUUIDs, m.UserUUID)
	t.sent = slices.DeleteFunc(t.sent, func(id string) bool { return slices.Contains(settled, id) })
	aborted := strings.HasPrefix(m.TerminalReason, "aborted_")
	more := len(t.sent) > 0 || m.Queued > 0
	failed, bound, model := t.over, t.bound, t.broke
	t.mu.Unlock()
	if ctx.Err() != nil {
		t.lostCalls("the user stopped the turn")
		return true, t.soFar(), context.Cause(ctx)
	}
	if failed != nil {
		end = t.soFar()
		end.Failed = failed
		if bound != nil {
			end.Events = []parley.Event{t.event(t.entry, *bound)}
		}
		return true, end, nil
	}
	if !m.IsError && !aborted && (more || t.agentsWork()) {
		return false, end, nil
	}
	t.lostCalls("the turn ended")
	switch {
	case m.IsError || aborted:
		end = t.soFar()
		end.Failed = model
		if end.Failed == nil {
			end.Failed = parley.Errorf(parley.CodeModel, "the Claude CLI ended the turn: %s", parley.Cut(firstNonEmpty(m.TerminalReason, m.Subtype), 100)).WithHint("send the message again")
		}
		return true, end, nil
	default:
		end.Response = t.response(m.Result)
	}
	return true, end, t.keep(ctx)
}

// response is an answer with the citations of the provider's tools.
func (t *turn) response(text string) parley.Response {
	r := prompt.Response(text)
	if now := t.h.State().Turn; now != nil {
		if a := now.Agent(t.entry); a != nil {
			r = prompt.Cited(r, a)
		}
	}
	return r
}

// agentsWork reports whether agents work in the background.
func (t *turn) agentsWork() bool {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	return slices.ContainsFunc(t.p.running(), func(j *job) bool { return j.kind == "local_agent" })
}

// leave ends the process and everything that the attempt is doing.
func (t *turn) leave() {
	if t.p != nil {
		t.p.kill()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, late := range t.late {
		late.Stop()
	}
}

// settle determines the outcome of writes that an earlier owner of the turn had started, and asks
// about those that nobody knows of.
func (t *turn) settle(ctx context.Context) error {
	now := t.h.State().Turn
	for _, c := range now.Tools.Open() {
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			if err := t.h.Settle(ctx, c.Call); err != nil {
				return err
			}
		}
	}
	now = t.h.State().Turn
	if now == nil {
		return errGone
	}
	for _, c := range now.Tools.Open() {
		if c.HookDue {
			if err := t.h.Hear(ctx, c.Call); err != nil {
				return err
			}
		}
		if c.Outcome != parley.OutcomeUnknown || c.Resolution != "" || ctx.Err() != nil {
			continue
		}
		if _, err := t.ask(ctx, parley.Interaction{
			Agent: c.Agent, Kind: parley.KindUnknown, Call: c.Call, Tool: c.Name, Input: c.Input, Title: "Did " + c.Name + " take effect?",
			Choices: []string{parley.ChoiceHappened, parley.ChoiceDidNot, parley.ChoiceAgain, parley.ChoiceLeave},
		}); err != nil {
			return err
		}
	}
	return nil
}

// ask asks a human and waits for the answer.
func (t *turn) ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	a, err := t.h.Ask(ctx, in)
	for errors.Is(err, seam.ErrParked) {
		if err = t.h.Wait(ctx, in.Call); err != nil {
			return a, err
		}
		a, err = t.h.Ask(ctx, in)
	}
	return a, err
}

// lost gives an outcome to everything that was under way when the CLI ended.
func (t *turn) lost(ctx context.Context) error {
	now := t.h.State().Turn
	if now == nil {
		return errGone
	}
	t.note(now.Active, parley.RuntimeNoted{Kind: "restarted", Text: "The Claude CLI ended and was started again."})
	for _, c := range now.Calls {
		u := c.Reserved
		u.Estimated = true
		if err := t.h.Stage(t.event(c.Agent, parley.ModelFailed{
			Call: c.Call, Usage: u, Retry: true, Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "the Claude CLI has ended"},
		})); err != nil {
			return err
		}
	}
	for _, a := range now.Agents {
		if a.IsSub() && !a.Ended {
			t.note(a.Path, parley.AgentEnded{Result: "The agent ended with its process.", Outcome: parley.OutcomeError, Told: true})
		}
	}
	for _, c := range now.Tools.Open() {
		if c.Status == parley.ToolIsEnded {
			continue
		}
		r := parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeCancelled, Output: "The Claude CLI ended before the call was made."}
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			r.Outcome, r.Output = parley.OutcomeUnknown, "The Claude CLI ended while it made the call. It is not known whether it took effect."
		}
		if err := t.h.End(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// lostCalls ends the calls of a turn of the CLI that got no result.
func (t *turn) lostCalls(why string) {
	now := t.h.State().Turn
	if now == nil {
		return
	}
	for _, c := range now.Tools.Open() {
		if c.Status == parley.ToolIsEnded {
			continue
		}
		r := parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeCancelled, Output: "The call was not made: " + why + "."}
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			r.Outcome, r.Output = parley.OutcomeUnknown, "The call was cut off: "+why+". It is not known how far it came."
		}
		_ = t.h.End(context.WithoutCancel(t.ctx), r) // it has ended meanwhile
	}
}

// completePlan gives a call of ExitPlanMode the plan, which the CLI's model has written to a file.
func (t *turn) completePlan(parts []parley.Part) {
	for i, p := range parts {
		if p.Type != parley.PartToolCall || p.Name != parley.ToolExitPlan {
			continue
		}
		var in map[string]any
		if json.Unmarshal(p.Input, &in) != nil || in == nil {
			continue
		}
		if plan, _ := in["plan"].(string); strings.TrimSpace(plan) != "" {
			continue
		}
		if plan := newestPlan(filepath.Join(t.p.spec.config(), "plans")); plan != "" {
			in["plan"] = plan
			if raw, err := json.Marshal(in); err == nil {
				parts[i].Input = raw
			}
		}
	}
}

// maxPlan limits a plan, in bytes.
const maxPlan = 64 << 10

// newestPlan is the plan that was written last.
func newestPlan(dir string) string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var newest os.FileInfo
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), ".md") && (newest == nil || info.ModTime().After(newest.ModTime())) {
			newest = info
		}
	}
	if newest == nil {
		return ""
	}
	body, err := os.ReadFile(filepath.Join(dir, newest.Name()))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(parley.Cut(string(body), maxPlan), "\ufffd")
}
