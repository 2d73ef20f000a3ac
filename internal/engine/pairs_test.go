package engine_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestPairs sends each pair of commands, sometimes followed by a random one, over each store. It
// sends them to a session that is running, to one that waits for a human, to one in the middle of a
// write, and to one that asks the second of two questions. In every combination, nothing runs after
// a stop, an interrupting message runs next, each question has its own answer, and every
// acknowledged turn runs to its end. Some of the sessions are temporary. Direct calls without a
// session wait for nothing.
func TestPairs(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		h := &pairs{t: t, store: store, held: held{gate: make(chan struct{})}, kept: archive.NewFolder(datafolder.New(t.TempDir(), nil)), saw: map[parley.EventType]bool{}, moves: append([]string{"alone"}, pairMoves...)}
		h.inquires = true
		h.app = enginetest.App(asking, queued, inquiring, func(a *parley.App) {
			a.Resume, a.MaxOpenTurns = parley.ResumeAuto, 20
			a.TTL = parley.TTL{SessionIdle: parley.Duration(2 * longAgo), TurnSteps: parley.Duration(longAgo)}
		})
		h.hooks = &hooked{}
		for _, event := range hook.Events {
			h.hooks.on("app", event, says(""))
		}
		h.all("long one", "mail one", "put held", "inquire both")
		h.inquires = false
		h.team()
		h.r.Close()
	})
}

// TestPairs_of_a_program is TestPairs for a program that runs its own tools. It is in the middle of
// a write, or waits for permission.
func TestPairs_of_a_program(t *testing.T) {
	t.Parallel()
	h := &pairs{t: t, retried: map[string]int{}, store: mem.New(), held: held{gate: make(chan struct{})}, kept: archive.NewFolder(datafolder.New(t.TempDir(), nil)), saw: map[parley.EventType]bool{}, moves: pairMoves}
	h.app = enginetest.App(queued, func(a *parley.App) {
		a.Runtime, a.Tools = "cli", runtimetest.CLITools()
		for i := range a.Tools {
			a.Tools[i].Timeout = parley.Duration(300 * time.Millisecond) // ends a call that is held
		}
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Tools: []string{"look", "add"}}}
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "add(asked*)"}, {Verdict: parley.Allow}}
		a.Resume, a.MaxOpenTurns = parley.ResumeAuto, 20
		a.TTL = parley.TTL{SessionIdle: parley.Duration(2 * longAgo), TurnSteps: parley.Duration(longAgo)}
	})
	var mu sync.Mutex
	done := map[string]int{}
	var live *runtimetest.CLI
	h.change = func(o *engine.Options) {
		if live != nil {
			live.Close()
		}
		live = &runtimetest.CLI{Start: runtimetest.Within(runtimetest.Effects{Add: func(what string) error {
			mu.Lock()
			done[what]++
			mu.Unlock()
			if strings.HasPrefix(what, "held") {
				<-*h.gate.Load() // a killed program may arrive here late
			}
			return nil
		}})}
		o.Runtimes["cli"], o.NothingRuns = live, true // it ends with its engine
	}
	h.all("add held", "add asked")
	h.r.Close()
	live.Close()
	for what, n := range done {
		if n > 1+h.retried["add "+what] {
			t.Errorf("%s was done %d times", what, n)
		}
	}
}

// all plays all pairs, beginning with each of the messages. "inquire both", which asks two
// questions, begins only half of them.
func (h *pairs) all(begins ...string) {
	h.start(&enginetest.Service{}, h.app)
	for i, first := range h.moves {
		for j, second := range h.moves {
			for _, begin := range begins {
				if begin != "inquire both" || (i+j)%2 == 0 {
					h.play(begin, first, second)
				}
			}
		}
	}
	for _, what := range []parley.EventType{"session.rewound", "history.condensed", "interaction.expired", "session.expired", "turn.resumed"} {
		if !h.saw[what] {
			h.t.Errorf("there was no %s", what)
		}
	}
}

var pairMoves = []string{"steer", "cancel", "enqueue", "interrupt", "reject", "answer", "fork", "direct", "unqueue", "retry", "rewind", "end", "crash", "app off", "condense", "expire"}

// longAgo is the age at which steps are condensed. Questions expire after a day.
const longAgo = 24 * time.Hour

type pairs struct {
	t      *testing.T
	store  seam.Store
	kept   *archive.Folder
	held   held
	gate   atomic.Pointer[chan struct{}] // that of held, for calls that may outlive a play
	app    parley.App
	moves  []string
	r      *enginetest.Rig
	change func(*engine.Options) // of the engine's options; nil: none
	hooks  *hooked               // they hear of everything and decide nothing; nil: no hooks
	client *enginetest.Client    // runs the calls that are offered to clients; nil: none are
	own    *beginner             // the runtime; nil: it begins no turns by itself
	begins bool                  // own begins the turn with which a pair begins
	// retried counts, by message, the retries of an ended turn. Each of them does the work again.
	retried map[string]int
	// inquires says that the app has the tool that asks, and that puts can be held.
	inquires bool
	plays    int
	later    atomic.Int64 // how far the engine's clock is ahead
	forks    []parley.SessionID
	saw      map[parley.EventType]bool

	id      parley.SessionID
	what    string
	acks    map[parley.TurnID]string // the message of each acknowledged turn
	late    bool                     // the engine has not been told to recover the sessions yet
	cut     bool                     // the last command was a stop, which took effect
	cutTurn parley.TurnID            // the turn that was stopped
	cutAt   int64                    // the number of the last event at the stop
	gone    chan struct{}            // closed when the process is killed
	open    sync.Once                // opens the gate
	mails   int                      // how many were sent before the play
	n       int
}

func (h *pairs) play(begin, first, second string) {
	gate := make(chan struct{})
	h.held.gate, h.open = gate, sync.Once{}
	h.gate.Store(&gate)
	h.what, h.acks, h.n, h.forks = begin+": "+first+", "+second, map[parley.TurnID]string{}, 0, nil
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(h.what))
	seed := hash.Sum64()
	early := slices.ContainsFunc([]string{first, second}, func(m string) bool { return m == "condense" || m == "rewind" }) // something has to be there already
	h.id = h.r.Session(func(c *parley.CreateSession) {
		c.Temporary = h.inquires && seed%3 == 0 && !early
	}).ID
	_, _, h.mails = h.r.Service.Counts()
	if early {
		h.r.Await(h.r.Send(h.id, "early").ID)
	}
	if h.change != nil && h.own == nil {
		h.plays++
		begin += fmt.Sprintf("%d", h.plays) // so that the name shows what is done twice
	}
	if h.begins {
		if _, err := h.beginOwn(begin); err != nil {
			h.t.Fatalf("%s: %v", h.what, err)
		}
	} else {
		h.acks[h.r.Send(h.id, begin).ID] = begin
	}
	h.until("begun", func(s parley.Session) bool {
		return s.Turn != nil && (s.Turn.Status == parley.StatusWaiting || len(s.Turn.Calls) > 0 && (begin == "long one" || len(s.Interactions) > 0) || inWrite(s.Turn))
	})
	if begin == "mail taken" {
		h.do("claim")
	}
	rnd := rand.New(rand.NewPCG(1, seed))
	moves := []string{first, second}
	switch {
	case second == "cancel": // the play checks what follows a stop
	case first == "cancel": // a second stop, after what came in between
		moves = append(moves, "cancel")
	case rnd.IntN(2) == 0:
		moves = append(moves, h.moves[rnd.IntN(len(h.moves))])
	}
	for _, m := range moves {
		late := h.late
		h.do(m)
		if late {
			h.recover()
		}
	}
	if h.late {
		h.recover()
	}
	h.what = fmt.Sprintf("%s: %s (seed %d)", begin, strings.Join(moves, ", "), seed)
	if h.cut {
		h.rests()
	}
	h.settle()
}

// inWrite reports whether the turn is in the middle of a call with effects.
func inWrite(t *parley.Turn) bool {
	if t == nil {
		return false
	}
	for _, c := range t.Tools.Open() {
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			return true
		}
	}
	return false
}

func (h *pairs) state() parley.Session {
	s, err := h.r.Engine.State(ctx, enginetest.User, h.id)
	if err != nil {
		h.t.Fatalf("%s: %v", h.what, err)
	}
	return s
}

// until waits for a condition of the session.
func (h *pairs) until(what string, is func(parley.Session) bool) {
	h.t.Helper()
	brief, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	for range h.r.Reader.Follow(brief, enginetest.User, h.id, 0) {
		if is(h.state()) {
			return
		}
	}
	h.t.Fatalf("%s: never %s\n%s", h.what, what, enginetest.Types(h.r.Log(h.id)))
}

func (h *pairs) send(busy parley.BusyMode) (parley.TurnInfo, error) {
	h.n++
	m := fmt.Sprintf("%s %d", busy, h.n)
	info, err := h.r.Engine.Send(ctx, enginetest.User, h.id, parley.Send{Message: m, Busy: busy})
	if err == nil && h.acks[info.ID] == "" {
		h.acks[info.ID] = m
	}
	return info, err
}

func (h *pairs) do(move string) {
	e, before := h.r.Engine, h.state()
	var info parley.TurnInfo
	var err error
	h.cut = false
	switch move {
	case "steer":
		info, err = h.send(parley.BusySteer)
		h.heard(before, info, err)
	case "enqueue":
		_, err = h.send(parley.BusyEnqueue)
		h.unheard(before)
	case "interrupt":
		if info, err = h.send(parley.BusyInterrupt); err == nil {
			if before.Turn != nil && before.Turn.ID == info.ID {
				h.t.Errorf("%s: a message that interrupts a turn has joined it", h.what)
			}
			h.reports() // the message waits for the claimed calls of clients
			h.release()
			h.next(info.ID)
		}
	case "reject":
		_, err = h.send(parley.BusyReject)
		h.unheard(before)
	case "cancel":
		if before.Turn != nil {
			info, err = e.Cancel(ctx, enginetest.User, before.Turn.ID, "enough")
			// The turn had not ended by itself just before.
			h.cut = err == nil && (info.Reason == "enough" || info.Stopping)
			h.cutTurn, h.cutAt = before.Turn.ID, h.state().Seq
		}
	case "answer":
		for _, in := range before.Interactions {
			if in.Kind == parley.KindClient {
				_, err = h.client.Serve(ctx, e, in.ID)
				continue
			}
			_, err = e.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: answerTo(in)})
		}
	case "alone":
		h.alone()
	case "fork":
		var fork parley.SessionInfo
		if fork, err = e.Fork(ctx, enginetest.User, h.id, parley.ForkSession{}); err == nil {
			h.forks = append(h.forks, fork.ID)
		}
	case "direct":
		if info, err = e.CallTool(ctx, enginetest.User, parley.CallTool{Session: h.id, Name: "look", Input: []byte(`{"text":"x"}`)}); err == nil {
			h.acks[info.ID] = "direct"
		}
	case "unqueue":
		if len(before.Queue) > 0 {
			err = e.Unqueue(ctx, enginetest.User, h.id, before.Queue[0].ID)
		}
	case "retry":
		if before.Last != nil {
			if _, err = e.Retry(ctx, enginetest.User, before.Last.ID, "", ""); err == nil && h.retried != nil {
				h.retried[h.acks[before.Last.ID]]++
			}
		}
	case "rewind":
		err = h.rewind(before)
	case "end":
		if inWrite(before.Turn) {
			h.release() // the session ends only after the write
		}
		_, err = e.End(ctx, enginetest.User, h.id, "")
	case "condense":
		h.later.Add(int64(longAgo + time.Second))
		_, err = e.Sweep(ctx, enginetest.User)
	case "expire": // closes open questions, or the session if there are none
		h.later.Add(int64(2*longAgo + time.Second))
		for _, in := range before.Interactions {
			if in.Kind == parley.KindClient {
				if err := h.client.Take(ctx, e, in.ID); code(err) != parley.CodeConflict {
					h.t.Errorf("%s: a claim that comes too late: %v", h.what, err)
				}
				continue
			}
			if _, err := e.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); code(err) != parley.CodeConflict {
				h.t.Errorf("%s: an answer that comes too late: %v", h.what, err)
			}
		}
		_, err = e.Sweep(ctx, enginetest.User)
	case "crash":
		h.start(h.r.Service, h.app)
		if h.late = len(h.what)%2 == 0; !h.late {
			h.recover()
		}
	case "app off":
		other := h.app
		other.Name = "other"
		h.restart(other)
		if _, err := h.send(parley.BusyInterrupt); code(err) != parley.CodeConflict {
			h.t.Errorf("%s: a message without the app: %v", h.what, err)
		}
		for _, in := range before.Interactions {
			if _, err := h.r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllowSession}}); code(err) != parley.CodeConflict {
				h.t.Errorf("%s: an answer without the app: %v", h.what, err)
			}
		}
		h.restart(h.app)
	case "own", "own again", "owns":
		err = h.doOwn(move)
	default:
		err = h.doTeam(move, before)
	}
	switch parley.CodeOf(err) {
	case "", parley.CodeBusy, parley.CodeConflict, parley.CodeNotFound:
	default:
		h.t.Errorf("%s: %s: %v", h.what, move, err)
	}
}

// start starts an engine over the events that the store holds.
func (h *pairs) start(service *enginetest.Service, app parley.App) {
	if h.r != nil {
		if cut, ok := h.r.Store.(*enginetest.Cut); ok && h.gone != nil {
			cut.Off()
			close(h.gone) // otherwise Kill would wait for a put
			h.gone = nil
		}
		h.r.Kill()
	}
	h.r = enginetest.Over(h.t, &enginetest.Cut{Store: h.store}, service, h.model, app, func(o *engine.Options) {
		if h.change != nil {
			h.change(o)
		}
		if h.hooks != nil && o.Tools["test"] != nil { // otherwise the app is off
			h.hooks.in(o)
		}
		if h.inquires && o.Tools["test"] != nil {
			h.inquirer(o, service)
		}
		o.Archive = h.kept
		o.Now = func() time.Time { return time.Now().Add(time.Duration(h.later.Load())) }
	})
}

// restart crashes the engine and starts another over the same store.
func (h *pairs) restart(app parley.App) {
	h.start(h.r.Service, app)
	h.recover()
}

// recover lets the sessions go on after a crash.
func (h *pairs) recover() {
	h.late = false
	done, err := h.r.Engine.Recover(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	<-done
}

// whole is a session's log, including the part that is in the archive.
func (h *pairs) whole(id parley.SessionID) (log []parley.Event) {
	for ev, err := range h.r.Reader.Whole(ctx, enginetest.User, id, 0) {
		if err != nil {
			h.t.Errorf("%s: %v", h.what, err)
			break
		}
		log = append(log, ev)
	}
	return log
}

// next checks that an interrupting message is the next to start after it is in the log. The turn
// that it interrupts may have begun only a moment before, even in the same append.
func (h *pairs) next(message parley.TurnID) {
	h.until("interrupted", func(s parley.Session) bool {
		return s.Turn != nil && s.Turn.ID == message || len(s.Queue) == 0 || s.Last != nil && s.Last.ID == message
	})
	sent := false
	for _, ev := range h.r.Log(h.id) {
		sent = sent || ev.Turn == message
		if sent && ev.Type == "turn.started" {
			if ev.Turn != message {
				h.t.Errorf("%s: %s runs after an interrupt, not the message", h.what, h.acks[ev.Turn])
			}
			return
		}
	}
}

// settle lets everything continue and checks the result.
func (h *pairs) settle() {
	h.opens()
	h.reports()
	h.until("stopped", func(s parley.Session) bool { return s.Turn == nil || s.Turn.Stop == nil })
	if s := h.state(); s.Status == parley.Active && s.Turn == nil {
		// The next message of a full queue may have begun since.
		busy := parley.BusyEnqueue
		if s.Held && len(h.what)%2 == 0 {
			busy = parley.BusyInterrupt
		}
		info, err := h.send(busy)
		if now := h.state(); err != nil && now.Status == parley.Active && (s.Held || code(err) != parley.CodeBusy) { // a temporary session may have ended since
			h.t.Errorf("%s: the next command: %v", h.what, err)
		}
		if err == nil && busy == parley.BusyInterrupt {
			h.next(info.ID)
		}
	}
	h.until("at rest", func(s parley.Session) bool {
		h.reports()
		if s.Turn != nil && s.Turn.Status == parley.StatusWaiting {
			h.do("answer")
		}
		return s.Turn == nil && (len(s.Queue) == 0 || s.Held)
	})
	if s := h.state(); s.Held {
		h.t.Errorf("%s: the queue is held for good", h.what)
	}
	for range 2 { // there and back
		if s := h.state(); s.Status == parley.Active && s.Last != nil {
			h.do("rewind")
		}
	}
	log := h.whole(h.id)
	for _, ev := range log {
		h.saw[ev.Type] = true
	}
	if h.state().Status == parley.Expired {
		h.saw["session.expired"] = true
	}
	if err := enginetest.CheckLog(log); err != nil {
		h.t.Errorf("%s: %v\n%s", h.what, err, enginetest.Types(log))
	}
	h.once(log)
	h.each(log)
	for _, fork := range h.forks {
		if own := h.whole(fork); len(own) == 0 {
			h.t.Errorf("%s: the fork has no log", h.what)
		} else if err := enginetest.CheckLog(own); err != nil {
			h.t.Errorf("%s: the fork: %v\n%s", h.what, err, enginetest.Types(own))
		} else if diff := sameTurns(h.t, h.r, enginetest.User, fork, own); diff != "" {
			h.t.Errorf("%s: the turns of the fork (-shown +listed):\n%s\n%s", h.what, diff, enginetest.Types(own))
		}
	}
	for id, m := range h.acks {
		row, err := h.r.Engine.Turn(ctx, enginetest.User, id)
		if err != nil || !row.Status.Ended() {
			h.t.Errorf("%s: %q is %s, %v\n%s", h.what, m, row.Status, err, enginetest.Types(log))
		}
	}
	if _, err := h.r.Engine.End(ctx, enginetest.User, h.id, ""); err != nil {
		h.t.Error(err)
	}
}
