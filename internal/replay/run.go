package replay

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/toolbox"
)

// Options change what is run. The zero Options repeat what was recorded.
type Options struct {
	// Models, if not nil, answer instead of the recorded replies. All agents then call the
	// model named Model.
	Models seam.Models
	Model  string
	// Prompts replace prompts, by agent.
	Prompts map[string]string
	// Policy replaces the app's policy.
	Policy *parley.Policy
	// Info describes the models that were called. nil: sizes of today's large models, no
	// price.
	Info func(name string) seam.ModelInfo
	// Patience is how long one turn may take. 0: 2 minutes.
	Patience time.Duration
}

// Result is the outcome of a run.
type Result struct {
	Events   []parley.Event
	Requests []seam.Request // to models, in the order in which they were made
	Turns    int
}

// runner runs one recording.
type runner struct {
	rec     *Recording
	o       Options
	turns   map[parley.TurnID]*turn
	store   *mem.Store
	stage   *stage
	engine  *engine.Engine
	writer  *eventlog.Writer
	digest  parley.Digest // of the engine's current app
	who     parley.Principal
	id      parley.SessionID
	clock   atomic.Pointer[time.Time] // what the engine's clock shows; it advances only with the recording's
	asked   requests
	ids     ids
	count   int
	granted int                             // rules that the recording's session had last
	began   map[parley.TurnID]parley.TurnID // by the recorded turn: the one of the run
	rewinds map[int64]int64                 // by the number of a recorded rewind: that of the run's

	// What of a workspace decides which calls are made; the calls touch no files here.
	space    parley.Workspace
	readOnly bool
	forked   bool
	opened   string // why the engine's app changes nothing
}

// Run replays the recording. An error means that it could not be run to its end; the
// Result then holds what there is.
func Run(ctx context.Context, rec *Recording, o Options) (Result, error) {
	if o.Patience <= 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Info == nil {
		o.Info = func(name string) seam.ModelInfo {
			return seam.ModelInfo{Name: name, Provider: "recorded", Scripted: true, ContextTokens: 200_000, MaxOutputTokens: 8192}
		}
	}
	r := &runner{rec: rec, o: o, turns: rec.read(), store: mem.New(), began: map[parley.TurnID]parley.TurnID{}, rewinds: map[int64]int64{}}
	r.clock.Store(new(time.Unix(0, 0)))
	defer func() { _ = r.store.Close() }()
	err := r.run(ctx)
	events, rerr := r.log(context.WithoutCancel(ctx))
	return Result{Events: events, Requests: r.asked.all(), Turns: r.count}, errors.Join(err, rerr)
}

func (r *runner) run(ctx context.Context) error {
	defer r.shut()
	for i, ev := range r.rec.Events {
		p, err := ev.Payload()
		if err != nil {
			return err
		}
		r.until(ev.Time)
		if i == 0 {
			if err := r.create(ctx, p); err != nil {
				return err
			}
			continue
		}
		switch p := p.(type) {
		case parley.SessionUpdated:
			if ev.Turn != "" {
				break // by a call, whose result says so
			}
			var rules *[]parley.Rule
			if rules, err = r.revoked(ctx, p.Rules); err != nil {
				break
			}
			err = r.update(ctx, parley.UpdateSession{
				Title: p.Title, Model: p.Model, Temperature: p.Temperature, MaxOutput: p.MaxOutput, Mode: p.Mode, Busy: p.Busy, Preferences: p.Preferences, Rules: rules,
				AttachedEntities: p.Attached,
			})
		case parley.MemoryUpdated:
			if p.Pins != nil && ev.Turn == "" {
				err = r.update(ctx, parley.UpdateSession{Pins: p.Pins})
			}
		case parley.TurnStarted:
			err = r.turn(ctx, ev.Turn)
		case parley.SessionRewound:
			err = r.rewind(ctx, ev.Seq, p)
		case parley.SessionForked:
			if r.readOnly = r.space != ""; p.Workspace != "" {
				r.space, r.readOnly = p.Workspace, p.ReadOnly
			}
			r.forked = true
			err = r.fork(ctx, r.rec.Events[:i])
		case parley.SessionEnded:
			if p.Status == parley.Ended && p.Reason != "temporary session" {
				_, err = r.engine.End(ctx, r.who, r.id, p.Reason)
			}
		}
		if errors.Is(err, errOpen) {
			return nil
		}
		if err != nil {
			return parley.Errorf(parley.CodeOf(err), "event %d of the recording: %w", ev.Seq, err)
		}
	}
	return nil
}

// until advances the clock, so that a turn begins at its recorded time and its prompts
// show it.
func (r *runner) until(at time.Time) {
	if at.After(*r.clock.Load()) {
		r.clock.Store(&at)
	}
}

// errOpen says that the recording ends while a human is asked.
var errOpen = errors.New("the recording ends in a turn that waits")

// open makes an engine for the app of a digest, over the same store.
func (r *runner) open(ctx context.Context, digest parley.Digest) error {
	if r.digest == digest && r.opened == r.refuses() && r.engine != nil {
		return nil
	}
	r.shut()
	app := r.changed(r.rec.Apps[digest])
	r.stage = &stage{app: &app, ask: r.asked.add, info: r.o.Info, other: r.o.Models, ids: &r.ids}
	box, err := toolbox.New([]seam.Toolset{r.stage}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	writer, reader := eventlog.New(r.store, redact.New(), eventlog.Options{Logger: slog.New(slog.DiscardHandler)})
	r.writer = writer
	r.engine, err = engine.New(engine.Options{
		Store: r.store, Log: writer, Reader: reader, Models: r.stage, Apps: []parley.App{app},
		Runtimes: map[string]seam.Runtime{app.Runtime: loop.New(r.stage, loop.Options{})},
		Tools:    map[string]*toolbox.Box{app.Name: box},
		Now:      func() time.Time { return *r.clock.Load() },

		Files: r.stage, Gathered: gathered, RunRedacted: r.stage.ran, HasCredential: r.stage.hadCredential, NothingRuns: true, Untimed: true,
	})
	if err != nil {
		return err
	}
	r.digest, r.opened = digest, r.refuses()
	r.stage.do, r.stage.over, r.stage.begun, r.stage.agentOf = r.command, r.over, r.begun, r.agentOf
	return nil
}

// refuses says why nothing in the workspace may be changed now; "" if it may be.
func (r *runner) refuses() string {
	if !r.readOnly {
		return ""
	}
	return policy.ReadOnlyReason(r.forked)
}

// changed returns the app with the options applied.
func (r *runner) changed(app parley.App) parley.App {
	app.Runtime, app.Resume = "loop", parley.ResumeManual
	app.TTL = parley.TTL{}
	if app.Policy.Modes == nil { // older apps did not say which modes they offer
		app.Policy.Modes = []parley.PermissionMode{parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions}
	}
	app.Tools = slices.Clone(app.Tools)
	for i := range app.Tools {
		app.Tools[i].OutputLimit *= 2 // what was cut once must not be cut again
	}
	app.Agents = maps.Clone(app.Agents)
	for name, def := range app.Agents {
		if p, ok := r.o.Prompts[name]; ok {
			def.Prompt = p
		}
		if r.o.Models != nil && r.o.Model != "" {
			def.Model, def.Fallbacks = r.o.Model, nil
		}
		app.Agents[name] = def
	}
	if r.o.Models != nil && r.o.Model != "" {
		app.Model, app.Fallbacks = r.o.Model, nil
	}
	if r.o.Policy != nil {
		app.Policy = *r.o.Policy
	}
	if why := r.refuses(); why != "" {
		app.Policy.Rules = slices.Concat(app.Policy.Rules, policy.ReadOnly(app.Tools, why))
	}
	return app
}

func (r *runner) shut() {
	if r.engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.engine.Close(ctx)
	_ = r.writer.Close(ctx)
	r.engine = nil
}

func (r *runner) create(ctx context.Context, p parley.Payload) error {
	c, ok := p.(parley.SessionCreated)
	if !ok {
		return parley.Errorf(parley.CodeInvalid, "the recording does not begin with session.created")
	}
	r.space, r.readOnly = c.Workspace, c.ReadOnly
	for _, ev := range r.rec.Events {
		if p, err := ev.Payload(); err == nil {
			if s, ok := p.(parley.TurnStarted); ok {
				if err := r.open(ctx, s.App); err != nil {
					return err
				}
				break
			}
		}
	}
	r.who = parley.Principal{User: c.User, Org: c.Org}
	model := c.Model
	if r.o.Models != nil {
		model = ""
	}
	info, _, err := r.engine.Create(ctx, r.who, parley.CreateSession{
		App: c.App, Title: c.Title, Model: model, Temperature: c.Temperature, MaxOutput: c.MaxOutput, Mode: c.Mode, Policy: c.Policy,
		Budgets: c.Budgets, Busy: c.Busy, MaxOpenTurns: c.MaxOpenTurns, Preferences: c.Preferences, Temporary: c.Temporary,
		History: r.rec.restored(), AttachedEntities: c.Attached, MaxBudgetUSD: c.MaxUSD,
	})
	r.id = info.ID
	return err
}

// restored is the conversation that the session continued.
func (r *Recording) restored() (list []parley.HistoryMessage) {
	for _, ev := range r.Events {
		p, err := ev.Payload()
		x, ok := p.(parley.HistoryRestored)
		if err != nil || !ok {
			continue
		}
		if x.User != "" {
			list = append(list, parley.HistoryMessage{Role: parley.RoleUser, Content: x.User})
		}
		if x.Reply != "" {
			list = append(list, parley.HistoryMessage{Role: parley.RoleAssistant, Content: x.Reply})
		}
	}
	return list
}

func (r *runner) update(ctx context.Context, c parley.UpdateSession) error {
	if r.o.Models != nil {
		c.Model = nil
	}
	if c.Title == nil && c.Model == nil && c.Temperature == nil && c.MaxOutput == nil && c.Mode == nil && c.Busy == nil && c.Preferences == nil && c.Pins == nil && c.Rules == nil && c.AttachedEntities == nil {
		return nil
	}
	_, err := r.engine.Update(ctx, r.who, r.id, c)
	return err
}

// revoked returns the rules that are left after an event that removed some. Events that
// add a rule need nothing: their answer, which is given again, adds it.
func (r *runner) revoked(ctx context.Context, rules *[]parley.Rule) (*[]parley.Rule, error) {
	if rules == nil {
		return nil, nil
	}
	before := r.granted
	r.granted = len(*rules)
	if r.granted >= before {
		return nil, nil
	}
	now, err := r.engine.Rules(ctx, r.who, r.id)
	now = slices.DeleteFunc(slices.Clone(now), func(n parley.Rule) bool {
		return !slices.ContainsFunc(*rules, func(k parley.Rule) bool { return k.Same(n) })
	})
	return &now, err
}

// turn starts a turn as it was started, and brings it to its end.
func (r *runner) turn(ctx context.Context, id parley.TurnID) error {
	t := r.turns[id]
	if err := r.open(ctx, t.started.App); err != nil {
		return err
	}
	r.stage.mu.Lock()
	r.stage.turn = t
	r.stage.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, r.o.Patience, parley.Errorf(parley.CodeTimeout, "the turn did not end within %s", r.o.Patience))
	defer cancel()
	var info parley.TurnInfo
	var err error
	if q := t.started.TurnRequest; q.Call != nil {
		info, err = r.engine.CallTool(ctx, r.who, parley.CallTool{Session: r.id, Name: q.Call.Name, Input: q.Call.Input, Redacted: q.Call.Redacted})
	} else {
		send := parley.Send{Model: q.Model, Hints: q.Hints, NoTools: q.NoTools, Budgets: q.Budgets, Schedule: q.Schedule, Again: q.Origin != parley.OriginSchedule}
		for _, d := range q.Tools {
			send.Tools = append(send.Tools, parley.OfferedTool{Name: strings.TrimPrefix(d.Name, parley.CallerPrefix), Description: d.Description, InputSchema: d.InputSchema})
		}
		if r.o.Models != nil {
			send.Model = ""
		}
		info, err = r.send(ctx, q.Message, send)
	}
	if err != nil {
		return err
	}
	r.count++
	r.began[id] = info.ID
	for {
		info, err = r.engine.Await(ctx, r.who, info.ID, r.o.Patience)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case info.Status.Ended():
			return nil
		case info.Status != parley.StatusWaiting:
			return parley.Errorf(parley.CodeTimeout, "the turn is still %s", info.Status)
		}
		if err := r.answer(ctx, t, info); err != nil {
			return err
		}
	}
}

// send sends a recorded message again, with what its command and resources said.
func (r *runner) send(ctx context.Context, m parley.Message, c parley.Send) (parley.TurnInfo, error) {
	m = translated(&r.ids, m)
	c.Message = m.Text()
	return r.engine.Send(context.WithValue(ctx, messageKey{}, m), r.who, r.id, c)
}

type messageKey struct{}

// gathered are the parts of the message that is being sent, except those in artifacts, which
// the run does not have.
func gathered(ctx context.Context, _ parley.Send) (parts []parley.Part) {
	m, _ := ctx.Value(messageKey{}).(parley.Message)
	for _, p := range m.Parts {
		if p.Type == parley.PartCommand || p.Type == parley.PartResource || p.Type == parley.PartAttachment {
			parts = append(parts, p)
		}
	}
	return parts
}

// recorded finds the recorded question that the run asks as in. Those of one agent come in the same
// order.
func (r *runner) recorded(t *turn, in parley.Interaction) *question {
	for _, q := range t.asked {
		if !q.given && q.Agent == in.Agent && q.Kind == in.Kind && q.Tool == in.Tool && r.ids.same(q.Input, in.Input) {
			q.given = true
			return q
		}
	}
	for _, q := range t.asked {
		if !q.given {
			q.given = true
			return q
		}
	}
	return nil
}

// answer gives the recorded answers to what the turn waits for.
func (r *runner) answer(ctx context.Context, t *turn, info parley.TurnInfo) error {
	for _, id := range info.Interactions {
		in, err := r.engine.Interaction(ctx, r.who, id)
		if err != nil {
			return err
		}
		q := r.recorded(t, in.Interaction)
		switch {
		case q != nil && q.instead.Parts != nil && r.o.Models == nil:
			_, err = r.send(ctx, q.instead, parley.Send{Busy: parley.BusySteer})
			return err
		case q != nil && q.answer != nil && q.Kind == in.Kind && q.answer.Choice == parley.ChoiceClaimed:
			err = r.client(ctx, t, q, in.ID)
		case q != nil && q.answer != nil && q.Kind == in.Kind:
			a := translated(&r.ids, *q.answer)
			if len(a.Input) > 0 && in.Tool != q.Tool {
				a.Input = nil
			}
			_, err = r.engine.Answer(ctx, r.who, id, parley.AnswerInteraction{Answer: a})
		case q != nil && q.expired:
			r.until(in.ExpiresAt.Add(time.Second))
			_, err = r.engine.Answer(ctx, r.who, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny}})
			if errors.Is(err, parley.ErrConflict) {
				err = nil // closed, as it was
			}
		case t.end == nil && q != nil:
			return errOpen
		default:
			// In the recording nobody was asked this, or the turn was stopped instead.
			reason := "the recording has no answer"
			if c, ok := t.end.(parley.TurnCancelled); ok {
				reason = c.Reason
			}
			_, err = r.engine.Cancel(ctx, r.who, info.ID, reason)
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// client does what the client in the recording did with a call that it claimed.
func (r *runner) client(ctx context.Context, t *turn, q *question, id parley.InteractionID) error {
	claimed, err := r.engine.Claim(ctx, r.who, id, parley.ClaimCall{})
	if err != nil {
		return err
	}
	r.ids.learn(q.Call, claimed.Call)
	said := parley.ReportCall{Token: claimed.Token}
	reported, cut := false, false
	for _, c := range t.tools {
		if c.call != q.Call || c.claim != q.ID {
			continue
		}
		for _, cmd := range c.during {
			r.command(cmd)
		}
		if reported = c.ended != nil && c.ended.Report != ""; reported {
			ended := translated(&r.ids, c.ended.ToolResult)
			said.Outcome, said.Output, said.Data = ended.Outcome, ended.Output, ended.Data
		}
		cut = c.ended != nil && !reported
	}
	if end, ok := t.end.(parley.TurnCancelled); ok && cut { // the turn ended, or was forked, while the client had the call
		if _, err := r.engine.Cancel(ctx, r.who, claimed.Turn, end.Reason); err != nil {
			return err
		}
	}
	if !reported {
		r.until(claimed.Deadline) // a report after the deadline makes the engine check its clock
	}
	if _, err = r.engine.Report(ctx, r.who, id, said); !reported && errors.Is(err, parley.ErrConflict) {
		return nil
	}
	return err
}

// command carries out a recorded command on the running turn. The turn itself calls it, so
// it must not wait for the turn's end.
func (r *runner) command(c command) {
	ctx := context.Background()
	s, err := r.engine.Session(ctx, r.who, r.id)
	if err != nil || s.Turn == nil {
		return
	}
	if c.cancel {
		_, _ = r.engine.Cancel(ctx, r.who, s.Turn.ID, c.reason)
		return
	}
	_, _ = r.send(ctx, c.steer, parley.Send{Busy: parley.BusySteer})
}

// over reports whether recorded calls have ended in the run, too.
func (r *runner) over(recorded []parley.CallID) bool {
	s, err := r.engine.State(context.Background(), r.who, r.id)
	if err != nil || s.Turn == nil {
		return true
	}
	for _, id := range recorded {
		if c := s.Turn.Tool(parley.CallID(r.ids.text(string(id)))); c == nil || c.Status != parley.ToolIsEnded {
			return false
		}
	}
	return true
}

func (r *runner) log(ctx context.Context) ([]parley.Event, error) {
	var all []parley.Event
	for r.id != "" {
		page, err := r.store.Read(ctx, parley.System(), r.id, int64(len(all)), 0)
		if err != nil {
			return all, err
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
	}
	return all, nil
}
