package program_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestCut_at_every_event_of_a_turn_with_client_tools follows turns whose calls a client runs. For
// each wire and event, one follower is cut after that event and resumes from its cursor. Another
// one is cut after every event. All see the same log, even if they are cut in the middle of an
// offer or a claim.
func TestCut_at_every_event_of_a_turn_with_client_tools(t *testing.T) {
	t.Parallel()
	onStores(t, cutClientTools)
}

// cutFollower is cut after some frames and resumes from its cursor.
type cutFollower struct {
	*watcher
	name string
	cuts atomic.Int64
}

// cutFollowers follow one session over several wires. Most of them are cut once.
type cutFollowers struct {
	list  []*cutFollower
	wires []string
	most  int
}

// cutEverywhere follows a session until ctx ends. Each wire has one follower that is never cut, one
// that is cut after every frame, and one for each of the first most frames, which is cut after that
// frame. The list begins with the followers of the first wire, in this order.
func cutEverywhere(ctx context.Context, hands *sync.WaitGroup, s *process, id parley.SessionID, most int, wires ...string) cutFollowers {
	all := cutFollowers{wires: wires, most: most}
	start := func(wire, name string, limit func(connection int) int) {
		f := &cutFollower{watcher: newWatcher(wire, id), name: wire + " " + name}
		all.list = append(all.list, f)
		hands.Go(func() {
			for n := 0; ctx.Err() == nil; {
				if f.follow(ctx, s.url, limit(n)) == nil {
					f.cuts.Add(1)
					n++
				}
			}
		})
	}
	for _, wire := range wires {
		start(wire, "uncut", func(int) int { return 0 })
		start(wire, "cut after every frame", func(int) int { return 1 })
		for i := 1; i <= most; i++ {
			start(wire, fmt.Sprintf("cut after frame %d", i), func(n int) int {
				if n == 0 {
					return i
				}
				return 0
			})
		}
	}
	return all
}

// have waits until each follower has exactly the log. It checks that on each wire there was a cut
// at each event.
func (all cutFollowers) have(ctx context.Context, t *testing.T, log []string) {
	t.Helper()
	cuts := int64(0)
	for _, f := range all.list {
		if err := f.has(ctx, log); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		cuts += f.cuts.Load()
	}
	if len(log) > all.most || cuts < int64(len(all.wires)*len(log)) {
		t.Errorf("there were %d cuts at %d events", cuts, len(log))
	}
}

func cutClientTools(t *testing.T, store string) {
	apps, err := filepath.Abs("../../examples/client-tool/apps")
	if err != nil {
		t.Fatal(err)
	}
	s := newPlace(t, "PARLEY_ENABLED=desk", "PARLEY_APPS="+apps, "PARLEY_LIMITS_MAX_STREAMS=5000").on(store).serve()
	id := s.session("desk")
	ctx, stop := context.WithTimeout(t.Context(), within)
	var hands sync.WaitGroup
	defer func() { stop(); hands.Wait() }()

	followers := cutEverywhere(ctx, &hands, s, id, 45, resumable...) // more than there are frames

	// next waits until the follower that is cut after every frame has seen the session's
	// interaction of that number, and returns it.
	tired := followers.list[1].watcher
	seen := 0
	next := func(kind parley.InteractionKind) parley.Interaction {
		t.Helper()
		var in parley.Interaction
		seen++
		if err := tired.until(ctx, fmt.Sprintf("interaction %d", seen), func() bool {
			n := 0
			for _, e := range decode(t, tired.events) {
				if p, err := e.Payload(); err == nil {
					if p, ok := p.(parley.InteractionOpened); ok {
						if n++; n == seen {
							in = p.Interaction
							return true
						}
					}
				}
			}
			return false
		}); err != nil {
			t.Fatal(err)
		}
		if in.Kind != kind {
			t.Fatalf("interaction %d is a %s, want a %s: %s", seen, in.Kind, kind, in.Title)
		}
		return in
	}
	path := func(in parley.Interaction, verb string) string {
		return "/v1/interactions/" + string(in.ID) + "/" + verb
	}
	const token = "a-token-of-the-test-that-is-long-enough"

	read := s.send(id, "What have I noted?")
	in := next(parley.KindClient)
	must[parley.Claimed](s, "POST", path(in, "claim"), object("token", token))
	must[parley.ToolResult](s, "POST", path(in, "report"), object("token", token, "output", "The plants need water."))
	if end := s.settle(read.ID); end.Status != parley.StatusCompleted {
		t.Fatalf("the turn is %s", end.Status)
	}
	write := s.send(id, "Note that the plants need water.")
	s.ask("POST", path(next(parley.KindPermission), "answer"), object("choice", "allow"))
	in = next(parley.KindClient)
	must[parley.Claimed](s, "POST", path(in, "claim"), object("token", token))
	must[parley.ToolResult](s, "POST", path(in, "report"), object("token", token, "outcome", "error", "output", "The disk is full."))
	if end := s.settle(write.ID); end.Status != parley.StatusCompleted {
		t.Fatalf("the turn is %s", end.Status)
	}
	declined := s.send(id, "What have I noted?")
	s.ask("POST", path(next(parley.KindClient), "answer"), object("choice", "deny"))
	if end := s.settle(declined.ID); end.Status != parley.StatusCompleted {
		t.Fatalf("the turn is %s", end.Status)
	}

	log := s.log(id)
	followers.have(ctx, t, log)
	if strings.Contains(strings.Join(log, ""), token) {
		t.Error("the log has the token of a claim")
	}
	if err := enginetest.CheckLog(decode(t, log)); err != nil {
		t.Error(err)
	}
}
