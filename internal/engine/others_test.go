package engine_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// askedBoard is a switchboard that loses calls of "hang". It records the other calls that it gets
// when it is asked about one.
type askedBoard struct {
	switchboard
	hang  chan struct{}
	told  [][]string
	knows bool
}

func (b *askedBoard) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	if strings.Contains(string(r.Input), "hang") {
		<-b.hang
	}
	return b.switchboard.Run(ctx, r)
}

func (b *askedBoard) Reconcile(ctx context.Context, r seam.Run) (parley.ToolResult, bool, error) {
	others, known := r.Others(ctx)
	var all []string
	for _, o := range others {
		all = append(all, strings.Join(o.Reaches, " "))
	}
	slices.Sort(all)
	b.told, b.knows = append(b.told, all), known
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "on"}, known, nil
}

// TestOthers: a toolset that is asked about a call after a crash gets a list of other calls of the
// same tool. The list has every call since then, of any session, ended or not. It also has the calls
// that were in progress at the time, even in turns that began earlier. It does not have the call
// itself or calls that had already ended.
func TestOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		board := &askedBoard{hang: make(chan struct{})}
		app := enginetest.App(func(a *parley.App) {
			a.Tools, _ = board.Tools(ctx)
			def := a.Agents["lead"]
			def.Tools = []string{"on"}
			a.Agents["lead"] = def
		})
		model := func(ctx context.Context, r seam.Request, _ func(string)) (seam.Reply, error) {
			if r.Messages[len(r.Messages)-1].Role == parley.RoleTool {
				<-ctx.Done()
				return seam.Reply{}, ctx.Err()
			}
			select {
			case <-time.After(time.Minute): // the first call has been lost by then
			case <-ctx.Done():
				return seam.Reply{}, ctx.Err()
			}
			return seam.Reply{Parts: []parley.Part{{Type: parley.PartToolCall, Name: "on", Input: json.RawMessage(`{"lamps":"of-a-long-turn"}`)}}, StopReason: "tool_use"}, nil
		}
		over := enginetest.With(board)
		r := enginetest.New(t, model, app, over)
		bob := parley.Principal{User: "bob", Org: "another"}
		call := func(p parley.Principal, lamps string) parley.TurnInfo {
			t.Helper()
			in, _ := json.Marshal(map[string]string{"lamps": lamps})
			turn, err := r.Engine.CallTool(ctx, p, parley.CallTool{App: "test", Name: "on", Input: in})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return turn
		}
		r.Send(r.Session().ID, "go")
		call(bob, "ended-before")
		time.Sleep(58 * time.Second)
		call(bob, "hang-before")
		time.Sleep(time.Second)
		lost := call(enginetest.User, "hang")
		time.Sleep(time.Second / 2)
		call(bob, "since")
		call(enginetest.User, "hang-since")
		call(bob, "whatever")
		time.Sleep(time.Second)
		synctest.Wait()
		disk := r.Dies(board.hang)

		r = enginetest.Over(t, disk, r.Service, model, app, over)
		defer r.Close()
		if _, err := r.Engine.Resume(ctx, enginetest.User, lost.ID); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(lost.ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
		want := [][]string{{"", "hang-before", "hang-since", "of-a-long-turn", "since"}}
		if d := cmp.Diff(want, board.told); d != "" || !board.knows {
			t.Errorf("known: %v (-want +got):\n%s", board.knows, d)
		}
	})
}

// TestOthersThatAreCondensed: for steps that retention has removed, it is not known whether they
// were calls of the tool. That is not a failure, and the log does not mention it.
func TestOthersThatAreCondensed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		board := &askedBoard{hang: make(chan struct{})}
		app := enginetest.App(func(a *parley.App) {
			a.Tools, _ = board.Tools(ctx)
			a.TTL.TurnSteps = parley.Duration(time.Second)
		})
		var said strings.Builder
		over := func(o *engine.Options) {
			enginetest.With(board)(o)
			o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		}
		r := enginetest.New(t, nil, app, over)
		call := func(lamps string) parley.TurnInfo {
			t.Helper()
			in, _ := json.Marshal(map[string]string{"lamps": lamps})
			turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "on", Input: in})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return turn
		}
		lost := call("hang")
		other := call("since")
		time.Sleep(2 * time.Second)
		if _, err := r.Engine.Sweep(ctx, parley.System()); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Log(other.SessionID), func(ev parley.Event) bool { return ev.Type == "history.condensed" }) {
			t.Fatal("nothing was condensed")
		}
		disk := r.Dies(board.hang)

		r = enginetest.Over(t, disk, r.Service, nil, app, over)
		defer r.Close()
		if _, err := r.Engine.Resume(ctx, enginetest.User, lost.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // its outcome is not known, so it counts as running until its deadline
		synctest.Wait()
		if len(board.told) == 0 || board.knows {
			t.Errorf("it was asked %d times, and others are known: %v", len(board.told), board.knows)
		}
		if strings.Contains(said.String(), "other calls of a tool could not be read") {
			t.Errorf("the log says:\n%s", said.String())
		}
	})
}
