package sdkview_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/sdkview"
	"github.com/parley-server/parley/internal/sim/claudecli"
	"github.com/parley-server/parley/internal/wire"
)

// check says what is wrong with the messages of a session: a turn has one result, states alternate,
// each call has one result behind it, and no uuid comes twice.
func check(list []map[string]any) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	state, results := "idle", 0
	uuids, open := map[any]bool{}, map[any]bool{}
	for i, m := range list {
		if uuids[m["uuid"]] || m["uuid"] == nil {
			note("message %d has the uuid %v", i, m["uuid"])
		}
		uuids[m["uuid"]] = true
		switch m["type"] {
		case "system":
			next, ok := m["state"].(string)
			if !ok {
				break
			}
			if next == state || next == "idle" && results != 1 {
				note("message %d: from %s to %s, with %d results", i, state, next, results)
			}
			if state == "idle" {
				results = 0
			}
			state = next
		case "result":
			results++
			if len(open) > 0 {
				note("message %d: the turn ends with calls without a result: %v", i, open)
			}
		case "assistant", "user":
			parts, _ := m["message"].(map[string]any)["content"].([]any)
			for _, p := range parts {
				p := p.(map[string]any)
				switch p["type"] {
				case "tool_use":
					open[p["id"]] = true
				case "tool_result":
					if !open[p["tool_use_id"]] {
						note("message %d: a result of no call: %v", i, p)
					}
					delete(open, p["tool_use_id"])
				}
			}
		}
	}
	if state != "idle" {
		note("it ends %s", state)
	}
	return wrong
}

func view(t *testing.T, r *enginetest.Rig, id parley.SessionID) (list []map[string]any) {
	for _, m := range shown(sdkview.NewSDK(options(t, r, id)), events(r.Log(id))) {
		if d := decoded(t, m.Data); d["type"] != "stream_event" {
			list = append(list, d)
		}
	}
	return list
}

func text(s string) claudecli.Step { return claudecli.Step{Block: claudecli.Block{Text: s}} }

func use(tool, input string) claudecli.Step {
	return claudecli.Step{Block: claudecli.Block{Tool: tool, Input: []byte(input)}}
}

// TestPairs: whatever is done with a session, its view is in order: steered, queued, interrupted,
// cancelled while it waits or while it is queued, retried, rewound, forked, and condensed.
func TestPairs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig(t, app(func(a *parley.App) { a.MaxOpenTurns = 5 }))
		defer r.Close()
		ctx := t.Context()
		s := r.Session()
		send := func(message string, busy parley.BusyMode) parley.TurnInfo {
			t.Helper()
			turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: message, Busy: busy})
			if err != nil {
				t.Fatal(err)
			}
			return turn
		}
		end := func(turn parley.TurnInfo) {
			t.Helper()
			_, _ = r.Engine.Await(ctx, enginetest.User, turn.ID, time.Hour)
		}
		long := claudecli.Prompt("Talk.", text("one two three four five"))

		first := send(long, "")
		time.Sleep(250 * time.Millisecond)
		send("and louder", parley.BusySteer)
		send(claudecli.Prompt("later", text("queued")), parley.BusyEnqueue)
		dropped := send(claudecli.Prompt("never", text("never")), parley.BusyEnqueue)
		if _, err := r.Engine.Cancel(ctx, enginetest.User, dropped.ID, "no"); err != nil {
			t.Fatal(err)
		}
		end(first)
		r.Await(send(claudecli.Prompt("at once", text("instead")), parley.BusyInterrupt).ID)
		asks := send(claudecli.Prompt("Write.", use("Write", `{"file_path":"a"}`), text("written")), "")
		end(asks)
		if _, err := r.Engine.Cancel(ctx, enginetest.User, asks.ID, "no"); err != nil { // it waits for a human
			t.Fatal(err)
		}
		end(asks)
		again, err := r.Engine.Retry(ctx, enginetest.User, first.ID, "", "test")
		if err != nil {
			t.Fatal(err)
		}
		end(again)
		whole := view(t, r, s.ID)
		for _, w := range check(whole) {
			t.Error(w)
		}
		var said []string
		for _, m := range whole {
			if m["isReplay"] == true {
				c, _, _ := strings.Cut(fmt.Sprint(m["message"].(map[string]any)["content"]), "\n")
				said = append(said, c)
			}
		}
		if diff := cmp.Diff([]string{"Talk.", "and louder", "later", "at once", "Write.", "Talk."}, said); diff != "" {
			t.Errorf("the users' messages (-want +got):\n%s", diff)
		}

		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		forked := view(t, r, fork.ID)
		kinds := func(list []map[string]any) (names []string) {
			for _, m := range list {
				names = append(names, nameOf(m))
			}
			return names
		}
		if diff := cmp.Diff(kinds(whole), kinds(forked)); diff != "" || forked[0]["session_id"] != string(fork.ID) {
			t.Errorf("the fork of %v (-parent +fork):\n%s", forked[0]["session_id"], diff)
		}

		if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Turn: again.ID, What: parley.RewindConversation}); err != nil {
			t.Fatal(err)
		}
		end(send(claudecli.Prompt("after", text("it")), ""))
		rewound := view(t, r, s.ID)
		for _, w := range check(rewound) {
			t.Errorf("after a rewind: %s", w)
		}
		if len(rewound) <= len(whole) {
			t.Errorf("%d messages after the rewind, %d before: the log keeps what was taken back", len(rewound), len(whole))
		}

		// Retention takes the data of steps, and leaves every cursor valid.
		log := r.Log(s.ID)
		all := shown(sdkview.NewSDK(options(t, r, s.ID)), events(log))
		for i, e := range log {
			if parley.IsStep(e.Type) {
				log[i] = e.WithData(nil)
			}
		}
		short := shown(sdkview.NewSDK(options(t, r, s.ID)), events(log))
		if n := slices.DeleteFunc(slices.Clone(short), func(m wire.Message) bool { return m.Event != "result" }); len(n) != 6 {
			t.Errorf("%d results are left", len(n))
		}
		for _, m := range all {
			if m.ID == "" {
				continue
			}
			o := options(t, r, s.ID)
			if o.From, err = sdkview.ParseCursor("after", m.ID, s.ID); err != nil {
				t.Fatal(err)
			}
			e := sdkview.NewSDK(o)
			for _, ev := range log[:o.From.Seq] {
				e.Prime(ev)
			}
			rest := shown(e, events(log[o.From.Seq:]))
			if len(rest) > len(short) || len(rest) > 0 && string(rest[len(rest)-1].Data) != string(short[len(short)-1].Data) {
				t.Fatalf("behind %s there are %d messages", m.ID, len(rest))
			}
		}
	})
}
