package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// Scenario is a conversation that has to survive a crash at every point.
type Scenario struct {
	App      parley.App
	Model    func() Model // a new one for every run
	Messages []string
	Choice   string // given to every interaction; empty means "allow", and "leave" to an unknown outcome
	// Credentials come with the messages, and with the answers to questions for them. After
	// a crash the messages are sent again without them, unless Resends is set.
	Credentials parley.Credentials
	Resends     bool
	// Options changes the engine, for apps with tools of their own.
	Options func(*engine.Options)
	// Before are messages that are answered before anything crashes.
	Before []string
	// World makes what lies outside of the process, for one run. nil: a Service.
	World func() World
	// Told removes from outcomes what a crash may change, such as the time at which something was
	// looked at. nil: nothing may be different.
	Told func(outcomes string) string
	// Sparse crashes each recovery only at every n-th write, beginning at another one each
	// time, so that all of them are reached after some crash; 0: at each one.
	Sparse int
	// Client creates, for every run, the client that runs the calls offered to clients. Nil: no
	// client.
	Client func(*Service) *Client
	// Offers are the tools that the client offers with each message.
	Offers []parley.OfferedTool

	hand *Client
}

// World is what an app's own tools act on. It outlives crashes.
type World interface {
	// Live begins a life of the process. It gives the engine tools that call gate in the middle of
	// each call, when the call has taken effect and nobody has been told. An error of gate is the
	// connection's. The function that Live returns ends everything that it has begun, as the end of
	// a process would.
	Live(o *engine.Options, gate func() error) (end func())
	// Effects counts everything that was ever done, by what it is.
	Effects() map[string]int
	// Close is called when the run is over.
	Close()
}

// point is where a run crashes.
type point struct {
	at    int    // the n-th write of the store, from 1; or the n-th effect
	where string // before, after, effect, fail
}

func (p point) String() string { return fmt.Sprintf("%s %d", p.where, p.at) }

// CrashEverywhere runs the scenario once to its end. Then it runs the scenario again for every
// point at which it can crash: before each write of the store, after each write but before the
// caller knows, and after each effect but before its answer. It repeats these with a second crash
// at each write of the recovery. Those pairs are run without the race detector only: with it they
// take ten times as long, and they do nothing at once that the first crashes do not.
// CrashEverywhere also lets each write fail once without a crash. After recovery the outcome must
// equal that of the run without a crash, except for writes that are reported unknown. No write may
// have happened twice.
func CrashEverywhere(t *testing.T, sc Scenario) {
	t.Helper()
	var from *start
	if len(sc.Before) > 0 {
		first := sc
		first.Messages, first.Before = sc.Before, nil
		calm := first.run(t, nil, nil, nil)
		if calm.err != nil {
			t.Fatal(calm.err)
		}
		from = &start{disk: calm.disk, after: calm.took}
	}
	base := sc.run(t, from, nil, nil)
	if base.err != nil {
		t.Fatal(base.err)
	}
	t.Logf("%d writes, %d effects: %v %v", base.writes, base.effects, base.outcomes, base.world)
	var points []point
	for n := 1; n <= base.writes; n++ {
		points = append(points, point{n, "before"}, point{n, "after"}, point{n, "fail"})
	}
	for n := 1; n <= base.effects; n++ {
		points = append(points, point{n, "effect"})
	}
	every := max(1, sc.Sparse)
	for i, p := range points {
		once := sc.run(t, from, &p, nil)
		sc.compare(t, base, once, p.String())
		if p.where == "fail" || Raced {
			continue
		}
		for n := 1 + i%every; n <= once.recovery; n += every {
			again := point{n, "before"}
			sc.compare(t, base, sc.run(t, from, &p, &again), p.String()+", then in recovery "+again.String())
			again.where = "after"
			sc.compare(t, base, sc.run(t, from, &p, &again), p.String()+", then in recovery "+again.String())
		}
	}
}

type result struct {
	err              error
	writes, effects  int
	recovery         int // writes of the first start after the crash until it was at rest
	outcomes         []string
	log              []parley.Event
	looks, puts, got int
	world            map[string]int
	disk             *mem.Store
	took             time.Duration
}

// start is the state in which a run begins, if something went before it.
type start struct {
	disk  *mem.Store
	after time.Duration
}

func (sc Scenario) compare(t *testing.T, base, got result, where string) {
	t.Helper()
	if got.err != nil {
		t.Errorf("%s: %v\n%s", where, got.err, Types(got.log))
		return
	}
	if err := CheckLog(got.log); err != nil {
		t.Errorf("%s: %v\n%s", where, err, Types(got.log))
	}
	if strings.HasPrefix(where, "fail") && slices.Contains(got.outcomes, "failed: unavailable") {
		if got.got > base.got || got.puts > base.puts {
			t.Errorf("%s: %d mails and %d puts took effect\n%s", where, got.got, got.puts, Types(got.log))
		}
		return // one clear error, and nothing was lost
	}
	done, missed := 0, false
	for what, n := range base.world {
		done += n
		missed = missed || got.world[what] < n
	}
	for what, n := range got.world {
		if n > base.world[what] {
			t.Errorf("%s: %s was done %d times, %d without a crash\n%s", where, what, n, base.world[what], Types(got.log))
		}
	}
	if got.got > base.got || got.puts != base.puts && !slices.Contains(got.outcomes, "put unknown") {
		t.Errorf("%s: %d mails and %d puts took effect, %d and %d without a crash\n%s", where, got.got, got.puts, base.got, base.puts, Types(got.log))
	}
	unknown := false
	for _, o := range got.outcomes {
		unknown = unknown || strings.HasSuffix(o, " unknown")
		// A world that can be asked may know that a call never reached it.
		unknown = unknown || missed && strings.HasSuffix(o, " error")
	}
	if unknown && base.got+base.puts+done > 0 {
		return // it was reported, and not repeated
	}
	want, have := sc.told(base.outcomes), sc.told(got.outcomes)
	if want != have || got.got != base.got || missed {
		t.Errorf("%s: outcome differs: %d mails\n%s\nwant %d mails\n%s\n%s", where, got.got, have, base.got, want, Types(got.log))
	}
}

func (sc Scenario) told(outcomes []string) string {
	all := strings.Join(outcomes, "\n")
	if sc.Told != nil {
		all = sc.Told(all)
	}
	return all
}

// run plays the scenario with a crash at first and, in the start after that, a crash at second.
func (sc Scenario) run(t *testing.T, from *start, first, second *point) (res result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		service := &Service{}
		store := mem.New()
		if from != nil {
			store = from.disk.Clone()
			time.Sleep(from.after)
			sc.Messages = append(slices.Clone(sc.Before), sc.Messages...)
		}
		var world World
		if sc.World != nil {
			world = sc.World()
			defer world.Close()
		}
		if sc.Client != nil {
			sc.hand = sc.Client(service)
		}
		crashes := []*point{first, second, nil}
		for life := 0; ; life++ {
			crash := crashes[min(life, 2)]
			disk, writes, effects, err := sc.live(t, store, service, world, crash, life > 0)
			switch life {
			case 0:
				res.writes, res.effects = writes, effects
			case 1:
				res.recovery = writes
			}
			if disk == nil { // no crash came
				res.err = err
				break
			}
			store = disk
		}
		res.looks, res.puts, res.got = service.Counts()
		sessions, err := store.Sessions(context.Background(), parley.System(), seam.SessionQuery{Direct: true})
		if err != nil || len(sessions) != 1 {
			res.err = errors.Join(res.err, fmt.Errorf("%d sessions: %w", len(sessions), err))
			return
		}
		for {
			events, err := store.Read(context.Background(), parley.System(), sessions[0].ID, int64(len(res.log)), 0)
			if err != nil || len(events) == 0 {
				break
			}
			res.log = append(res.log, events...)
		}
		res.outcomes = Outcomes(res.log)
		if world != nil {
			res.world = world.Effects()
		}
		res.disk, res.took = store, time.Since(begun)
	})
	return res
}

var errDead = errors.New("the process is gone")

// live is one life of the process. It returns the disk as the crash left it, or nil if there was no
// crash.
func (sc Scenario) live(t *testing.T, store *mem.Store, service *Service, world World, crash *point, again bool) (disk *mem.Store, writes, effects int, err error) {
	var count, effect atomic.Int64
	var left atomic.Pointer[mem.Store]
	die := func() error {
		left.CompareAndSwap(nil, store.Clone())
		return errDead
	}
	at := func(where string, n int64) bool {
		return crash != nil && crash.where == where && int64(crash.at) == n && left.Load() == nil
	}
	store.SetFaults(mem.Faults{
		Before: func(mem.Call) error {
			if left.Load() != nil {
				return errDead
			}
			n := count.Add(1)
			if at("fail", n) {
				return parley.Errorf(parley.CodeUnavailable, "no room").WithHint("free some")
			}
			if at("before", n) {
				return die()
			}
			return nil
		},
		After: func(mem.Call) error {
			if at("after", count.Load()) {
				return die()
			}
			return nil
		},
	})
	gate := func() error {
		if at("effect", effect.Add(1)) {
			return die()
		}
		return nil
	}
	service.SetGate(func(context.Context, seam.Run) error { return gate() })
	var change []func(*engine.Options)
	if world != nil {
		end := func() {}
		change = append(change, func(o *engine.Options) { end = world.Live(o, gate) })
		defer func() { end() }()
	}
	if sc.Options != nil {
		change = append(change, sc.Options)
	}
	r := Over(t, store, service, sc.Model(), sc.App, change...)
	dead := func() bool { return left.Load() != nil }
	err = sc.drive(r, again, dead)
	for range 20 { // a failed write is an error to the client, who tries again
		if err == nil || left.Load() != nil || crash == nil || crash.where != "fail" {
			break
		}
		time.Sleep(time.Second)
		err = sc.drive(r, false, dead)
	}
	if left.Load() != nil {
		r.Kill()
	} else {
		r.Close()
	}
	synctest.Wait()
	return left.Load(), int(count.Load()), int(effect.Load()), err
}

// drive is a client that knows only its own keys. It repeats the same requests until they are done
// or the process is gone.
func (sc Scenario) drive(r *Rig, recover bool, dead func() bool) error {
	ctx := context.Background()
	if recover {
		done, err := r.Engine.Recover(ctx)
		if err != nil {
			return err
		}
		<-done
	}
	s, _, err := r.Engine.Create(ctx, User, parley.CreateSession{App: sc.App.Name, OutsideID: "browser-1"})
	if err != nil {
		return err
	}
	for i, m := range sc.Messages {
		send := parley.Send{Message: m, Key: fmt.Sprint("m", i), Tools: sc.Offers}
		if !recover || sc.Resends {
			send.Credentials = sc.Credentials
		}
		turn, err := r.Engine.Send(ctx, User, s.ID, send)
		if err != nil {
			return err
		}
		for {
			if sc.hand != nil {
				if err := sc.hand.Again(ctx, r.Engine); err != nil {
					return err
				}
			}
			info, err := r.Engine.Await(ctx, User, turn.ID, time.Minute)
			if err != nil {
				return err
			}
			if info.Status.Ended() {
				break
			}
			if dead() {
				return errDead
			}
			switch info.Status {
			case parley.StatusInterrupted:
				if _, err := r.Engine.Resume(ctx, User, turn.ID); err != nil && !errors.Is(err, parley.ErrConflict) {
					return err
				}
			case parley.StatusWaiting:
				if err := sc.answer(ctx, r); err != nil {
					return err
				}
			default:
				return fmt.Errorf("turn %s is %s after a minute", turn.ID, info.Status)
			}
		}
	}
	return nil
}

func (sc Scenario) answer(ctx context.Context, r *Rig) error {
	open, err := r.Engine.Interactions(ctx, User, 10)
	if err != nil {
		return err
	}
	for _, in := range open {
		if in.Kind == parley.KindClient {
			if _, err := sc.hand.Serve(ctx, r.Engine, in.ID); err != nil && !errors.Is(err, parley.ErrConflict) {
				return err
			}
			continue
		}
		choice := sc.Choice
		given := parley.Credentials{}
		for _, name := range in.Credentials {
			choice = parley.ChoiceAnswered
			if v, ok := sc.Credentials[name]; ok {
				given[name] = v
			}
		}
		switch {
		case choice == "" && in.Kind == parley.KindUnknown:
			choice = parley.ChoiceLeave
		case choice == "":
			choice = parley.ChoiceAllow
		}
		if _, err := r.Engine.Answer(ctx, User, in.ID, parley.AnswerInteraction{Answer: First(in.Interaction, choice), Credentials: given}); err != nil && !errors.Is(err, parley.ErrConflict) {
			return err
		}
	}
	return nil
}

// First returns an answer to any interaction: choice, or for questions the first option of each.
func First(in parley.Interaction, choice string) parley.Answer {
	if in.Kind != parley.KindQuestion {
		return parley.Answer{Choice: choice}
	}
	a := parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{}}
	for _, q := range in.Questions {
		a.Answers[q.Question] = q.Options[0].Label
	}
	return a
}
