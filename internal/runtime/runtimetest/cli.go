package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// CLI is a runtime whose turns are made by a [Program]. Each session has one program, which
// serves many turns. CLI stands in for runtimes that drive real programs, and shows that Host
// has everything they need. Programs run until Close, or until their turn parks.
type CLI struct {
	// Start starts a program that ends when ctx does. gone is closed when the program and
	// everything it started have ended.
	Start func(ctx context.Context, in io.Reader, out io.Writer) (gone <-chan struct{}, err error)

	mu    sync.Mutex
	begin func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)
	live  map[parley.SessionID]*child
	tasks sync.WaitGroup
}

// Within returns a Start that runs a [Program] in this process.
func Within(world Effects) func(ctx context.Context, in io.Reader, out io.Writer) (<-chan struct{}, error) {
	return func(ctx context.Context, in io.Reader, out io.Writer) (<-chan struct{}, error) {
		gone := make(chan struct{})
		context.AfterFunc(ctx, func() { in.(io.Closer).Close() })
		go func() {
			defer close(gone)
			_ = Program(in, out, world) // the error is ignored: of a real process, too, only the end is known
		}()
		return gone, nil
	}
}

// CLITools declares the tools of a [Program].
func CLITools() []parley.ToolDecl {
	schema := json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}}}`)
	decl := func(name string, e parley.Effect) parley.ToolDecl {
		return parley.ToolDecl{Name: name, Description: name, InputSchema: schema, Effect: e, Run: parley.RunRuntime, Subject: "{what}"}
	}
	return []parley.ToolDecl{
		decl("look", parley.EffectRead), decl("ask", parley.EffectRead), decl("task", parley.EffectRead), decl("add", parley.EffectWrite),
	}
}

var (
	_ seam.Runtime = (*CLI)(nil)
	_ seam.Starter = (*CLI)(nil)
)

// Starts implements [seam.Starter].
func (c *CLI) Starts(begin func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin = begin
}

// Close ends all programs.
func (c *CLI) Close() {
	c.mu.Lock()
	live := c.live
	c.live = nil
	c.mu.Unlock()
	for _, p := range live {
		p.kill()
	}
	c.tasks.Wait()
}

// errGone says that the program has ended before its turn.
var errGone = errors.New("the program has ended")

// maxStarts is how often a turn's program may die.
const maxStarts = 3

// Run implements [seam.Runtime].
func (c *CLI) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	for n := 0; ; n++ {
		r := &cliRun{c: c, h: h, paths: map[string]parley.AgentPath{}, calls: map[string]parley.CallID{}, late: map[parley.CallID]*time.Timer{}, fails: make(chan error, 1)}
		end, err := r.run(ctx)
		if err == nil {
			return end, nil
		}
		r.leave()
		if !errors.Is(err, errGone) {
			return end, err
		}
		if err := r.lost(ctx); err != nil {
			return end, err
		}
		if n == maxStarts {
			return end, parley.Errorf(parley.CodeUnavailable, "the program of this turn has ended %d times before it was done", n+1)
		}
	}
}

// child is a program that runs.
type child struct {
	mu     sync.Mutex // held while a line is written
	in     *json.Encoder
	lines  chan line
	read   chan struct{} // closed when no more lines come
	gone   <-chan struct{}
	cancel context.CancelFunc
	close  func()
}

func (p *child) send(l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.in.Encode(l) // whoever waits for the answer notices if the program is gone
}

func (p *child) kill() {
	p.cancel()
	p.close()
	<-p.gone
}

// child returns the session's program. fresh says that it has just been started.
func (c *CLI) child(id parley.SessionID) (p *child, fresh bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.live[id]; p != nil {
		select {
		case <-p.gone:
		default:
			return p, false, nil
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	p = &child{in: json.NewEncoder(in), lines: make(chan line, 100), read: make(chan struct{}), cancel: cancel}
	p.close = func() { in.Close(); theirIn.Close(); out.Close(); theirOut.Close() }
	if p.gone, err = c.Start(ctx, theirIn, theirOut); err != nil {
		cancel()
		return nil, false, err
	}
	if c.live == nil {
		c.live = map[parley.SessionID]*child{}
	}
	c.live[id] = p
	begin := c.begin
	c.tasks.Go(func() {
		<-p.gone
		p.close()
	})
	c.tasks.Go(func() {
		defer close(p.read)
		from := json.NewDecoder(out)
		for {
			var l line
			if err := from.Decode(&l); err != nil {
				cancel() // it has ended, or does not write JSON
				return
			}
			if l.Type == "begin" {
				c.tasks.Go(func() { _, _ = begin(ctx, id, seam.OwnTurn{Message: l.Text, Key: l.ID}) })
				continue
			}
			select {
			case p.lines <- l:
				continue
			default:
			}
			select {
			case p.lines <- l:
			case <-p.gone: // there were more lines than fit, and nobody reads them
				return
			}
		}
	})
	return p, true, nil
}

// cliRun is one attempt at a turn.
type cliRun struct {
	c     *CLI
	h     seam.Host
	p     *child
	work  sync.WaitGroup
	fails chan error

	mu    sync.Mutex
	paths map[string]parley.AgentPath // of the agents, by their Task call
	calls map[string]parley.CallID    // of the model, by the program's ids
	late  map[parley.CallID]*time.Timer
}

// leave ends the program and everything that the run is doing for it.
func (r *cliRun) leave() {
	if r.p != nil {
		r.p.kill()
	}
	r.work.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, late := range r.late {
		late.Stop()
	}
}

func (r *cliRun) fail(err error) {
	select {
	case r.fails <- err:
	default:
	}
}

func (r *cliRun) path(agent string) parley.AgentPath {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.paths[agent]; p != "" {
		return p
	}
	return parley.AgentPath(r.h.App().Entry)
}

func (r *cliRun) run(ctx context.Context) (seam.Ending, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errGone) // waiting for a human stops when the program is gone
	h := r.h
	t := h.State().Turn
	if len(t.Agents) == 0 {
		entry := h.App().Entry
		if err := h.Stage(parley.NewEvent(h.Turn(), parley.AgentPath(entry), parley.AgentStarted{Name: entry})); err != nil {
			return seam.Ending{}, err
		}
	}
	if err := r.settle(ctx, t); err != nil {
		return seam.Ending{}, err
	}
	if ctx.Err() != nil {
		return seam.Ending{}, context.Cause(ctx)
	}
	s := h.State()
	var fresh bool
	var err error
	if r.p, fresh, err = r.c.child(s.ID); err != nil {
		return seam.Ending{}, err
	}
	user := line{Type: "user", ID: string(h.Turn()), Text: s.Turn.Request.Message.Text(), Done: map[string]string{}}
	for _, call := range s.Turn.Tools.All() {
		if call.Status == parley.ToolIsEnded {
			user.Done[string(call.Call)] = resultText(call)
		} else {
			user.Asked = append(user.Asked, string(call.Call))
		}
		if sub := s.Turn.Sub(call.Call); sub != nil {
			r.paths[string(call.Call)] = sub.Path
		}
	}
	if k := s.Kept; fresh && k != nil && !k.Behind && k.Runtime == h.App().Runtime {
		body, err := h.Kept(ctx)
		if err != nil && parley.CodeOf(err) != parley.CodeNotFound {
			return seam.Ending{}, err
		}
		user.State = string(body)
	}
	r.p.send(user)
	return r.follow(ctx, s.Kept == nil)
}

// follow serves the program until its turn ends.
func (r *cliRun) follow(ctx context.Context, afresh bool) (end seam.Ending, err error) {
	stop, listens := ctx.Done(), ""
	hear := func() {
		if t := r.h.State().Turn; listens != "" && t != nil && len(t.Steers) > 0 {
			r.p.send(line{Type: "heard", ID: listens})
			listens = ""
		}
	}
	handle := func(l line) (over bool, err error) {
		switch l.Type {
		case "listen":
			listens = l.ID
			hear()
		case "end":
			end, err = r.end(ctx, l, afresh)
			return true, err
		case "assistant": // handled in order, because permissions for its calls follow
			return false, r.replied(l)
		case "result":
			return false, r.result(ctx, l)
		default:
			r.work.Go(func() { r.serve(ctx, l) })
		}
		return false, nil
	}
	for {
		select {
		case err := <-r.fails:
			return seam.Ending{}, err
		case <-r.p.read:
			for { // what the program said before it ended still counts
				select {
				case l := <-r.p.lines:
					if over, err := handle(l); over || err != nil {
						return end, err
					}
					continue
				default:
				}
				return seam.Ending{}, errGone
			}
		case <-stop:
			stop = nil
			r.p.send(line{Type: "stop"})
		case <-r.h.Commands():
			hear()
		case l := <-r.p.lines:
			if over, err := handle(l); over || err != nil {
				return end, err
			}
		}
	}
}

// end ends the turn as the program said.
func (r *cliRun) end(ctx context.Context, l line, afresh bool) (seam.Ending, error) {
	r.work.Wait()
	select {
	case err := <-r.fails:
		return seam.Ending{}, err
	default:
	}
	if ctx.Err() != nil {
		return seam.Ending{Response: parley.Response{Message: l.Text}}, context.Cause(ctx)
	}
	if err := r.h.Keep(ctx, seam.Keeping{State: []byte(l.State), Entry: l.ID, Afresh: afresh}); err != nil {
		return seam.Ending{}, err
	}
	return seam.Ending{Response: parley.Response{Message: l.Text}}, nil
}

// serve answers a request of the program.
func (r *cliRun) serve(ctx context.Context, l line) {
	var err error
	switch l.Type {
	case "model":
		err = r.model(ctx, l)
	case "permission":
		err = r.permission(ctx, l)
	case "question":
		var a parley.Answer
		a, err = r.ask(ctx, parley.Interaction{
			Agent: r.path(l.Agent), Kind: parley.KindQuestion, Call: parley.CallID(l.ID), Key: "question", Tool: "ask", Title: l.Text,
			Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny},
		})
		if err == nil {
			r.p.send(line{Type: "answer", ID: l.ID, Text: a.Choice})
		}
	}
	if err != nil && ctx.Err() == nil {
		r.fail(err)
	}
}

// model allows the program to call its model, and tells it what the user has said since.
func (r *cliRun) model(ctx context.Context, l line) error {
	path := r.path(l.Agent)
	call := r.h.NewCall()
	r.mu.Lock()
	r.calls[l.ID] = call
	r.mu.Unlock()
	before := r.steers(path)
	if err := r.h.Emit(ctx, parley.NewEvent("", path, parley.ModelStarted{Call: call, Model: "cli/model", Reserved: parley.Usage{InputTokens: 10, OutputTokens: 10}})); err != nil {
		return err
	}
	r.p.send(line{Type: "go", ID: l.ID, Heard: r.steers(path)[len(before):]})
	return nil
}

// steers returns the messages that an agent was sent in between.
func (r *cliRun) steers(path parley.AgentPath) (texts []string) {
	t := r.h.State().Turn
	if t == nil {
		return nil
	}
	if a := t.Agent(path); a != nil {
		for _, it := range a.Items {
			if it.Kind == parley.ItemSteer {
				texts = append(texts, parley.PartsText(it.Parts))
			}
		}
	}
	return texts
}

func (r *cliRun) replied(l line) error {
	r.mu.Lock()
	call := r.calls[l.ID]
	r.mu.Unlock()
	reply := parley.ModelReplied{Call: call, Model: "cli/model", Usage: parley.Usage{InputTokens: 10, OutputTokens: 5}}
	if l.Text != "" {
		reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartText, Text: l.Text})
	}
	for _, u := range l.Use {
		reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartToolCall, Call: parley.CallID(u.ID), ProviderID: u.ID, Name: u.Name, Input: u.Input})
	}
	return r.h.Stage(parley.NewEvent("", r.path(l.Agent), reply))
}

// permission records the start of a call and then allows it to run.
func (r *cliRun) permission(ctx context.Context, l line) error {
	h, id := r.h, parley.CallID(l.ID)
	d, err := h.Begin(ctx, parley.ToolCall{Call: id})
	for errors.Is(err, seam.ErrParked) {
		if err = h.Wait(ctx, id); err != nil {
			return err
		}
		d, err = h.Begin(ctx, parley.ToolCall{Call: id})
	}
	if err != nil {
		return err
	}
	if !d.Run {
		r.note(d.Call.Agent, parley.HookRan{Event: "PreToolUse", Name: "gate", Call: id, Decision: parley.Deny, Reason: d.Result.Output})
		r.p.send(line{Type: "permission", ID: l.ID, Text: d.Result.Output})
		return nil
	}
	switch d.Call.Name {
	case "add":
		if err := h.Emit(ctx, parley.NewEvent("", d.Call.Agent, parley.FilesAnnounced{Call: id, Paths: []string{"world.txt"}})); err != nil {
			return err
		}
	case "task":
		if h.State().Turn.Sub(id) == nil {
			path := d.Call.Agent + parley.AgentPath("/worker#"+l.ID[strings.IndexByte(l.ID, '.')+1:])
			if err := h.Stage(parley.NewEvent("", path, parley.AgentStarted{Name: "worker", Parent: d.Call.Agent, Call: id, Input: string(d.Call.Input)})); err != nil {
				return err
			}
			r.mu.Lock()
			r.paths[l.ID] = path
			r.mu.Unlock()
		}
	}
	if d.Effect != parley.EffectRead {
		r.deadline(id, d.Deadline.Sub(h.Now()))
	}
	r.p.send(line{Type: "permission", ID: l.ID, Allowed: true})
	return nil
}

// deadline ends the program if a call has not ended in time.
func (r *cliRun) deadline(call parley.CallID, left time.Duration) {
	late := time.AfterFunc(left, func() { r.fail(errGone) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late[call] = late
}

// note records something that may be lost.
func (r *cliRun) note(agent parley.AgentPath, p parley.Payload) {
	_ = r.h.Stage(parley.NewEvent("", agent, p))
}

// result records the result of a call.
func (r *cliRun) result(ctx context.Context, l line) error {
	t := r.h.State().Turn
	if t == nil {
		return errGone
	}
	c := t.Tool(parley.CallID(l.ID))
	if c == nil || c.Status == parley.ToolIsEnded {
		return nil
	}
	r.mu.Lock()
	if late := r.late[c.Call]; late != nil {
		late.Stop()
	}
	r.mu.Unlock()
	outcome := parley.OutcomeOK
	if l.Failed {
		outcome = parley.OutcomeError
	}
	if c.Name == "add" {
		r.note(c.Agent, parley.FilesSaved{Call: c.Call, Files: []parley.FileSaved{{Path: "world.txt"}}})
	}
	if sub := t.Sub(c.Call); sub != nil && !sub.Ended {
		r.note(sub.Path, parley.AgentEnded{Result: l.Text, Outcome: outcome, Told: true})
	}
	if err := r.h.End(ctx, parley.ToolResult{Call: c.Call, Outcome: outcome, Output: l.Text}); err != nil {
		return err
	}
	return r.h.Hear(ctx, c.Call)
}

// ask asks a human and waits for the answer.
func (r *cliRun) ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	a, err := r.h.Ask(ctx, in)
	for errors.Is(err, seam.ErrParked) {
		if err = r.h.Wait(ctx, in.Call); err != nil {
			return a, err
		}
		a, err = r.h.Ask(ctx, in)
	}
	return a, err
}

// settle determines the outcome of writes that an earlier owner of the turn had started.
func (r *cliRun) settle(ctx context.Context, t *parley.Turn) error {
	for _, c := range t.Tools.Open() {
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			if err := r.h.Settle(ctx, c.Call); err != nil {
				return err
			}
		}
	}
	for _, c := range r.h.State().Turn.Tools.Open() {
		if c.Outcome != parley.OutcomeUnknown || c.Resolution != "" || ctx.Err() != nil {
			continue
		}
		if _, err := r.ask(ctx, parley.Interaction{
			Agent: c.Agent, Kind: parley.KindUnknown, Call: c.Call, Tool: c.Name, Input: c.Input, Title: "Did " + c.Name + " take effect?",
			Choices: []string{parley.ChoiceHappened, parley.ChoiceDidNot, parley.ChoiceAgain, parley.ChoiceLeave},
		}); err != nil {
			return err
		}
	}
	return nil
}

// lost gives an outcome to everything that was under way when the program ended.
func (r *cliRun) lost(ctx context.Context) error {
	t := r.h.State().Turn
	if t == nil {
		return errGone
	}
	r.note(t.Active, parley.RuntimeNoted{Kind: "restarted", Text: "the program ended and was restarted"})
	for _, c := range t.Calls {
		u := c.Reserved
		u.Estimated = true
		if err := r.h.Stage(parley.NewEvent("", c.Agent, parley.ModelFailed{
			Call: c.Call, Usage: u, Retry: true, Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "the program has ended"},
		})); err != nil {
			return err
		}
	}
	for _, c := range t.Tools.Open() {
		if c.Status != parley.ToolIsStarted || c.Effect == parley.EffectRead {
			continue
		}
		if err := r.h.End(ctx, parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeUnknown, Output: "The program ended while it made the call. It is not known whether it took effect."}); err != nil {
			return err
		}
	}
	return nil
}

func resultText(c *parley.Tool) string {
	switch {
	case c.Outcome == parley.OutcomeUnknown:
		return fmt.Sprintf("unknown %s", c.Resolution)
	case c.Outcome != parley.OutcomeOK:
		return "not " + c.Name + ": " + c.Output
	}
	return c.Output
}
