package sdkview_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/sdkview"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/claudecli"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/wire"
)

// slow is a store whose answers take a while, in which everybody else goes on.
type slow struct {
	seam.Store
	reads bool // also those to readers
}

const while = 30 * time.Millisecond

func (s slow) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	time.Sleep(while)
	return s.Store.Append(ctx, p, b)
}

func (s slow) State(ctx context.Context, p parley.Principal, id parley.SessionID) (seam.State, error) {
	state, err := s.Store.State(ctx, p, id)
	time.Sleep(while)
	return state, err
}

func (s slow) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	events, err := s.Store.Read(ctx, p, id, after, limit)
	if s.reads {
		time.Sleep(while)
	}
	return events, err
}

// slowly is an engine over such a store, with a session that it has not read yet.
func slowly(t *testing.T, reads bool) (*enginetest.Rig, parley.SessionID) {
	store := mem.New()
	before := enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, enginetest.App())
	id := before.Session().ID
	before.Close()
	a := app()
	return enginetest.Over(t, slow{store, reads}, &enginetest.Service{}, enginetest.Echo, a, func(o *engine.Options) {
		box, err := toolbox.New([]seam.Toolset{tools{}}, toolbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Models, o.Runtimes, o.Tools = actor{}, enginetest.Loop(actor{}), map[string]*toolbox.Box{a.Name: box}
	}), id
}

// watch follows a session until its turns have ended, and returns the messages without those in
// flight. on sees each with the number of its event.
func watch(ctx context.Context, t *testing.T, r *enginetest.Rig, o sdkview.Options, turns int, on func(seq int64, m map[string]any)) (list []string) {
	e := sdkview.NewSDK(o)
	within, stop := context.WithTimeout(ctx, time.Hour) // longer than everything takes
	defer stop()
	for f, err := range r.Reader.Follow(within, enginetest.User, o.Session, 0) {
		if err != nil {
			if ctx.Err() == nil { // else the test has failed already
				t.Error(err)
			}
			return list
		}
		e.Encode(f, func(w wire.Message) {
			m := decoded(t, w.Data)
			if m["type"] == "stream_event" || f.Event == nil {
				return
			}
			list = append(list, string(w.Data))
			if on != nil {
				on(f.Event.Seq, m)
			}
			if m["state"] == "idle" {
				turns--
			}
		})
		if turns == 0 {
			return list
		}
	}
	return list
}

// TestTwoClientsStreamOneSession: two clients send at the same moment, again and again, while
// both watch, and others join in the middle of a turn: also of the last one, after which nothing comes that would
// show them what they have missed. Each time one message is accepted and the other is told that the session is busy. All see the same messages in the same order,
// and no message of one turn between those of another.
func TestTwoClientsStreamOneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, id := slowly(t, true)
		defer r.Close()
		o := options(t, r, id)
		const rounds = 5
		const late = 20
		var seen [2 + 2*late][]string
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		defer all.Wait()
		defer stop()
		for i := range 2 {
			all.Go(func() { seen[i] = watch(ctx, t, r, o, rounds, nil) })
		}
		took := time.Duration(0) // by the round before
		for round := range rounds {
			began := time.Now()
			if at, joins := map[int]int{2: 2, rounds - 1: 2 + late}[round]; joins {
				for i := range late {
					all.Go(func() {
						time.Sleep(time.Duration(2*i+1) * took / (2 * late)) // all over the turn: one reads the log while the turn ends
						seen[at+i] = watch(ctx, t, r, o, rounds, nil)
					})
				}
			}
			var sent [2]parley.TurnInfo
			var errs [2]error
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() {
					text := claudecli.Prompt(fmt.Sprintf("%d from %d", round, i), claudecli.Step{Block: claudecli.Block{Text: fmt.Sprintf("the answer to %d from %d", round, i)}})
					sent[i], errs[i] = r.Engine.Send(t.Context(), enginetest.User, id, parley.Send{Message: text})
				})
			}
			both.Wait()
			won := slices.Index(errs[:], nil)
			if won < 0 || parley.CodeOf(errs[1-won]) != parley.CodeBusy {
				t.Fatalf("round %d: %v", round, errs)
			}
			if end := r.Await(sent[won].ID); end.Status != parley.StatusCompleted || end.Response.Message != fmt.Sprintf("the answer to %d from %d", round, won) {
				t.Fatalf("round %d: %+v", round, end)
			}
			took = time.Since(began)
		}
		all.Wait()
		for i := 1; i < len(seen); i++ {
			if diff := cmp.Diff(seen[0], seen[i]); diff != "" {
				t.Errorf("client %d (-first +it):\n%s", i, diff)
			}
		}
		var order []string
		for _, raw := range seen[0] {
			order = append(order, nameOf(decoded(t, []byte(raw))))
		}
		turn := []string{"system.session_state_changed", "system.init", "user.replay", "system.status.requesting", "assistant", "result", "system.session_state_changed"}
		if diff := cmp.Diff(slices.Repeat(turn, rounds), order); diff != "" {
			t.Errorf("the order (-want +got):\n%s", diff)
		}
	})
}

// TestStateAcrossClients: a client that is told of a state, and reads the session or the list at once, reads what
// it was told or something newer, never something older; and each client is told of the same states, one
// after another: running, idle.
func TestStateAcrossClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, id := slowly(t, false)
		defer r.Close()
		o := options(t, r, id)
		const rounds, clients = 4, 3
		var seen [clients]string
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		defer all.Wait()
		defer stop()
		for i := range clients {
			all.Go(func() {
				watch(ctx, t, r, o, rounds, func(seq int64, m map[string]any) {
					state, ok := m["state"].(string)
					if !ok {
						return
					}
					seen[i] += state + " "
					list, err := r.Engine.Sessions(t.Context(), enginetest.User, seam.SessionQuery{})
					if err != nil || len(list) != 1 {
						t.Errorf("the list is %v, %v", list, err)
						return
					}
					one, err := r.Engine.Session(t.Context(), enginetest.User, id)
					if err != nil {
						t.Error(err)
					}
					for where, now := range map[string]parley.SessionInfo{"the session": one, "the list": list[0]} {
						switch {
						case now.Version < seq:
							t.Errorf("client %d was told of event %d (%s), and reads %s as of %d", i, seq, state, where, now.Version)
						case now.Version == seq && state == "idle" && now.Turn != nil:
							t.Errorf("client %d was told that it is idle, and reads in %s the turn %+v", i, where, now.Turn)
						case now.Version == seq && state == "running" && now.Turn == nil:
							t.Errorf("client %d was told that it runs, and reads no turn in %s", i, where)
						}
					}
				})
			})
		}
		for round := range rounds {
			r.Await(r.Send(id, claudecli.Prompt(fmt.Sprint(round), claudecli.Step{Block: claudecli.Block{Text: "well then"}})).ID)
		}
		all.Wait()
		for i, got := range seen {
			if want := strings.Repeat("running idle ", rounds); got != want {
				t.Errorf("client %d was told %q, want %q", i, got, want)
			}
		}
	})
}
