package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/seam"
)

// TestManyHands: four clients drive each of 200 sessions at once with random commands. Each
// follows the log, disconnects in the middle and resumes from its cursor. All clients must end
// with the same log, and the memory must be released.
func TestManyHands(t *testing.T) {
	const sessions, clients, moves = 200, 4, 12
	// Not parallel: it counts goroutines and memory.
	app := enginetest.App(func(a *parley.App) {
		a.MaxOpenTurns = 4
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow, Effect: parley.EffectRead}, {Verdict: parley.Allow, Tool: "put"}}
		look := slices.IndexFunc(a.Tools, func(d parley.ToolDecl) bool { return d.Name == "look" })
		a.Tools[look].Run = parley.RunClient // a read, so that a stop need not wait for a client
	})
	hooks := (&hooked{}).on("app", hook.PreToolUse, decides("allow", "")).on("app", hook.PermissionRequest, says("")).on("app", hook.PostToolUse, says("2 look closer")).
		on("app", hook.SessionStart, says("hello")).on("app", hook.Notification, says(`{"systemMessage":"ding"}`)).on("app", hook.SessionEnd, says("")).
		on("app", hook.UserPromptSubmit, func(m map[string]any) string {
			if m["prompt"] == "mess" { // one of the four messages
				return "2 blocked"
			}
			return "heard"
		}).on("app", hook.Stop, func(m map[string]any) string {
		if m["stop_hook_active"] == true {
			return ""
		}
		return "2 once more"
	})
	r := enginetest.New(t, busyBody, app, hooks.in, func(o *engine.Options) { o.IdleAfter = 20 * time.Millisecond })
	goroutines, heap := runtime.NumGoroutine(), inUse()
	var all sync.WaitGroup
	for n := range sessions {
		all.Go(func() {
			s := r.Session()
			h := &hand{t: t, r: r, id: s.ID, own: &enginetest.Client{Service: r.Service}}
			var group sync.WaitGroup
			for c := range clients {
				group.Go(func() { h.client(rand.New(rand.NewPCG(uint64(n), uint64(c))), moves) })
			}
			group.Wait()
			h.settle()
		})
	}
	all.Wait()
	deadline := time.Now().Add(time.Minute)
	for r.Engine.InMemory() > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := r.Engine.InMemory(); n != 0 {
		t.Errorf("%d sessions are still in memory", n)
	}
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	for {
		list, err := r.Engine.Sessions(ctx, enginetest.User, seam.SessionQuery{Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, s := range list {
			if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if grown := int64(inUse()) - int64(heap); grown > 8<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	r.Close()
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// busyBody talks, looks, puts or asks to mail, depending on the message.
func busyBody(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if len(enginetest.Results(r)) == 0 {
		switch len(enginetest.Last(r)) % 4 {
		case 1:
			return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "x"})}}, nil
		case 2:
			return seam.Reply{Parts: []parley.Part{enginetest.Call("put", map[string]string{"text": "x"})}}, nil
		case 3:
			return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "x"})}}, nil
		}
	}
	for range 20 {
		say("word ")
		runtime.Gosched()
	}
	return seam.Reply{StopReason: "end_turn"}, nil
}

type hand struct {
	t   *testing.T
	r   *enginetest.Rig
	id  parley.SessionID
	own *enginetest.Client
}

// client makes moves while it follows. Now and then it drops its stream and resumes from its
// cursor.
func (h *hand) client(rnd *rand.Rand, moves int) {
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	seed := rnd.Uint64()
	following.Go(func() { h.follow(ctx, seed) })
	for range moves {
		h.move(rnd)
		runtime.Gosched()
	}
	stop()
	following.Wait()
}

func (h *hand) move(rnd *rand.Rand) {
	e := h.r.Engine
	ok := func(err error, allowed ...parley.Code) {
		if err == nil {
			return
		}
		for _, c := range append(allowed, parley.CodeBusy, parley.CodeConflict) {
			if parley.CodeOf(err) == c {
				return
			}
		}
		h.t.Errorf("session %s: %v", h.id, err)
	}
	info, err := e.Session(ctx, enginetest.User, h.id)
	ok(err)
	switch rnd.IntN(8) {
	case 0, 1, 2:
		busy := []parley.BusyMode{parley.BusyReject, parley.BusyEnqueue, parley.BusyInterrupt, parley.BusySteer}[rnd.IntN(4)]
		_, err := e.Send(ctx, enginetest.User, h.id, parley.Send{
			Message: "message"[:3+rnd.IntN(4)], Busy: busy, Key: fmt.Sprint("k", rnd.IntN(40)),
		})
		ok(err, parley.CodeKeyReused, parley.CodeForbidden) // a hook blocks one of them
	case 3:
		if info.Turn != nil {
			_, err := e.Cancel(ctx, enginetest.User, info.Turn.ID, "")
			ok(err)
		}
	case 4:
		_, err := e.Interactions(ctx, enginetest.User, 10)
		ok(err)
		if info.Turn == nil {
			return
		}
		turn, err := e.Turn(ctx, enginetest.User, info.Turn.ID)
		ok(err)
		for _, id := range turn.Interactions {
			in, err := e.Interaction(ctx, enginetest.User, id)
			ok(err)
			if in.Kind == parley.KindClient && rnd.IntN(3) > 0 { // else it is declined
				ok(h.own.Take(ctx, e, id))
				continue
			}
			_, err = e.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: in.Choices[rnd.IntN(len(in.Choices))]}})
			ok(err)
		}
	case 5:
		ok(h.own.Again(ctx, e))
	case 6:
		_, err := e.Fork(ctx, enginetest.User, h.id, parley.ForkSession{})
		ok(err)
	case 7:
		c := parley.RewindSession{Key: fmt.Sprint("r", rnd.IntN(40))}
		if turns, err := e.Turns(ctx, enginetest.User, seam.TurnQuery{Session: h.id, Limit: 5}); err != nil {
			ok(err)
		} else if len(turns) > 0 {
			c.Turn = turns[rnd.IntN(len(turns))].ID
		}
		if info.Rewound != nil && rnd.IntN(2) == 0 {
			c.Turn, c.Undo = "", info.Rewound.Seq
		}
		if _, err := e.Rewind(ctx, enginetest.User, h.id, c); c.Turn != "" || c.Undo != 0 { // else there is nothing yet
			ok(err, parley.CodeKeyReused, parley.CodeInvalid) // it was taken back, or is no message
		}
	}
}

// follow reads the log in pieces and checks that they fit together.
func (h *hand) follow(ctx context.Context, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	last := int64(0)
	open := map[parley.CallID]bool{}
	for ctx.Err() == nil {
		left := rnd.IntN(30)
		for f, err := range h.r.Reader.Follow(ctx, enginetest.User, h.id, last) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					h.t.Errorf("follow %s after %d: %v", h.id, last, err)
				}
				return
			}
			switch {
			case f.Event != nil:
				if f.Event.Seq != last+1 {
					h.t.Errorf("session %s: event %d follows %d", h.id, f.Event.Seq, last)
					return
				}
				last = f.Event.Seq
				if p, err := f.Event.Payload(); err == nil {
					if m, ok := p.(parley.ModelStarted); ok {
						open[m.Call] = true
					}
				}
			case f.Delta != nil && !open[f.Delta.Call]:
				h.t.Errorf("session %s: text of call %s before its start", h.id, f.Delta.Call)
			}
			if left--; left < 0 {
				break
			}
		}
	}
}

// settle waits until the session is at rest and checks its log.
func (h *hand) settle() {
	e := h.r.Engine
	for range 100 {
		info, err := e.Session(ctx, enginetest.User, h.id)
		if err != nil {
			h.t.Error(err)
			return
		}
		if info.Turn == nil {
			break
		}
		if _, err := e.Cancel(ctx, enginetest.User, info.Turn.ID, "the test is over"); err != nil {
			h.t.Error(err)
		}
	}
	if err := enginetest.CheckLog(h.r.Log(h.id)); err != nil {
		h.t.Errorf("session %s: %v", h.id, err)
	}
}
