package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// switchboard turns on one or several lamps. room lists the lamps that are in the room now.
type switchboard struct{ room []string }

func (*switchboard) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "on", Description: "Turns on.", Effect: parley.EffectWrite, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (*switchboard) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: "on"}, nil
}

func (b *switchboard) Reaches(_ string, input json.RawMessage) ([]string, bool) {
	var in struct{ Lamps string }
	_ = json.Unmarshal(input, &in)
	switch in.Lamps {
	case "whatever":
		return nil, true
	case "room":
		return b.room, true
	}
	return strings.Fields(in.Lamps), true
}

// TestGrantsReach: a yes for the session covers the things that were shown, or a part of them, in
// any wording. It covers no other call of the same tool.
func TestGrantsReach(t *testing.T) {
	board := &switchboard{room: []string{"lamp.a", "lamp.b"}}
	tools := enginetest.With(board)
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if r.Messages[len(r.Messages)-1].Role == parley.RoleTool {
			say("done")
			return seam.Reply{}, nil
		}
		in, _ := json.Marshal(map[string]string{"lamps": enginetest.Last(r)})
		return seam.Reply{Parts: []parley.Part{{Type: parley.PartToolCall, Name: "on", Input: in}}, StopReason: "tool_use"}, nil
	}
	app := enginetest.App(asking, func(a *parley.App) {
		a.Tools, _ = board.Tools(ctx)
		def := a.Agents["lead"]
		def.Tools = []string{"on"}
		a.Agents["lead"] = def
	})
	rigged(t, model, app, func(t *testing.T, first *enginetest.Rig) {
		first.Close()
		r := enginetest.Over(t, first.Mem, first.Service, model, app, tools)
		defer r.Close()
		s := r.Session()
		ask := func(lamps string, choice parley.Answer) (shown []string) {
			turn := r.Await(r.Send(s.ID, lamps).ID)
			if turn.Status != parley.StatusWaiting {
				return nil
			}
			row, err := r.Engine.Interaction(ctx, enginetest.User, turn.Interactions[0])
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(row.Title, strings.Join(row.Reaches, ", ")) {
				t.Errorf("%v are not shown: %q", row.Reaches, row.Title)
			}
			if _, err := r.Engine.Answer(ctx, enginetest.User, row.ID, parley.AnswerInteraction{Answer: choice}); err != nil {
				t.Fatal(err)
			}
			r.Await(turn.ID)
			return append([]string{"asked"}, row.Reaches...)
		}
		always, once := parley.Answer{Choice: parley.ChoiceAllowSession}, parley.Answer{Choice: parley.ChoiceAllow}
		for i, c := range []struct {
			lamps  string
			answer parley.Answer
			want   []string
		}{
			{"room", always, []string{"asked", "lamp.a", "lamp.b"}},
			{"room", once, nil},
			{"lamp.b", once, nil},
			{"lamp.c", once, []string{"asked", "lamp.c"}},
			{"lamp.b lamp.c", once, []string{"asked", "lamp.b", "lamp.c"}},
			{"lamp.d", parley.Answer{Choice: parley.ChoiceAllowSession, Input: json.RawMessage(`{"lamps":"lamp.e"}`)}, []string{"asked", "lamp.d"}},
			{"lamp.d", once, []string{"asked", "lamp.d"}},
			{"lamp.e", once, nil},
			{"whatever", always, []string{"asked"}}, // what it reaches is not known
			{"whatever", once, []string{"asked"}},
		} {
			if diff := cmp.Diff(c.want, ask(c.lamps, c.answer)); diff != "" {
				t.Errorf("%d. %q (-want +got):\n%s", i, c.lamps, diff)
			}
		}
		board.room = append(board.room, "lamp.new")
		if got := ask("room", once); !slices.Contains(got, "lamp.new") {
			t.Errorf("a lamp that came into the room later is not asked for: %v", got)
		}
		rules, err := r.Engine.Rules(ctx, enginetest.User, s.ID)
		if err != nil || len(rules) != 2 {
			t.Fatalf("rules %+v, %v", rules, err)
		}
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Rules: &[]parley.Rule{rules[1]}}); err != nil {
			t.Fatal(err)
		}
		if got := ask("lamp.a", once); got == nil {
			t.Error("the revoked rule still allows the call")
		}
		if got := ask("lamp.e", once); got != nil {
			t.Error("what was left is asked for")
		}
		board.room = []string{"lamp.f"}
		turn := r.Await(r.Send(s.ID, "room").ID)
		board.room = append(board.room, "lamp.late") // after the person was shown what the room has
		if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: always}); err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		if got := ask("room", once); !slices.Contains(got, "lamp.late") {
			t.Errorf("a lamp that the person was not shown is not asked for: %v", got)
		}
	})
}
