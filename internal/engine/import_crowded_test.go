package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestImportCrowded: a short log that queues, asks or calls without end is refused before it
// costs anything. One that a session may have is taken, however long.
func TestImportCrowded(t *testing.T) {
	t.Parallel()
	r := enginetest.Over(t, mem.New(), &enginetest.Service{}, enginetest.Echo, enginetest.App())
	defer r.Close()
	of := r.Session()
	r.Await(r.Send(of.ID, "hello").ID)
	whole := r.Log(of.ID)
	id := func(i int) string { return fmt.Sprintf("01M85T3J%018d", i) }
	turn := parley.TurnID(id(900_000))
	for name, more := range map[string]func(i int) []parley.Event{
		"turns are queued": func(i int) []parley.Event {
			return []parley.Event{parley.NewEvent(parley.TurnID(id(i)), "", parley.TurnQueued{})}
		},
		"interactions are open": func(i int) []parley.Event {
			return []parley.Event{parley.NewEvent(turn, "", parley.InteractionOpened{Interaction: parley.Interaction{ID: parley.InteractionID(id(i)), Kind: parley.KindQuestion}})}
		},
		"calls are open": func(i int) []parley.Event {
			return []parley.Event{parley.NewEvent(turn, "", parley.ToolRequested{Call: parley.CallID(id(i)), Name: "x", Input: []byte(`{}`)})}
		},
		"calls of models are under way": func(i int) []parley.Event {
			return []parley.Event{parley.NewEvent(turn, "lead", parley.ModelStarted{Call: parley.CallID(id(i)), Model: "m"})}
		},
		"": func(i int) []parley.Event { // nothing is wrong with it
			n := parley.TurnID(id(i))
			return []parley.Event{parley.NewEvent(n, "", parley.TurnQueued{}), parley.NewEvent(n, "", parley.TurnCancelled{})}
		},
	} {
		log := append([]parley.Event{}, whole...)
		add := func(ev parley.Event) {
			ev.Session, ev.Seq, ev.Time = of.ID, int64(len(log)+1), log[0].Time.Add(time.Hour)
			log = append(log, ev)
		}
		if name != "" && !strings.Contains(name, "queued") {
			add(parley.NewEvent(turn, "", parley.TurnStarted{}))
		}
		for i := range 20_000 {
			for _, ev := range more(i) {
				add(ev)
			}
		}
		got, err := r.Engine.Import(t.Context(), enginetest.User, engine.Imported{Events: log})
		switch {
		case name == "" && (err != nil || got.Version < 40_000):
			t.Errorf("a long log: %+v, %v", got, err)
		case name != "" && (parley.CodeOf(err) != parley.CodeTooLarge || !strings.Contains(err.Error(), name)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImportImpossible: what no session of ours can be is refused.
func TestImportImpossible(t *testing.T) {
	t.Parallel()
	r := enginetest.Over(t, mem.New(), &enginetest.Service{}, enginetest.Echo, enginetest.App())
	defer r.Close()
	of := r.Session()
	r.Await(r.Send(of.ID, "hello").ID)
	turn := parley.TurnID("01M85T3J000000000000000001")
	for name, more := range map[string][]parley.Event{
		"after the session's end": {parley.NewEvent("", "", parley.SessionEnded{Status: parley.Ended}), parley.NewEvent(turn, "", parley.TurnStarted{})},
		"after its end, queued":   {parley.NewEvent("", "", parley.SessionEnded{Status: parley.Expired}), parley.NewEvent(turn, "", parley.TurnQueued{})},
		"more was used": {
			parley.NewEvent(turn, "", parley.TurnStarted{}),
			parley.NewEvent(turn, "lead", parley.ModelStarted{Call: "01M85T3J000000000000000002", Model: "m"}),
			parley.NewEvent(turn, "lead", parley.ModelReplied{Call: "01M85T3J000000000000000002", Usage: parley.Usage{InputTokens: 4_600_000_000_000_000_000}}),
			parley.NewEvent(turn, "", parley.TurnCompleted{Usage: parley.Usage{InputTokens: 4_600_000_000_000_000_000}}),
		},
		"less than nothing was used": {
			parley.NewEvent(turn, "", parley.TurnStarted{}),
			parley.NewEvent(turn, "lead", parley.ModelStarted{Call: "01M85T3J000000000000000002", Model: "m"}),
			parley.NewEvent(turn, "lead", parley.ModelReplied{Call: "01M85T3J000000000000000002", Usage: parley.Usage{OutputTokens: -1_000_000}}),
			parley.NewEvent(turn, "", parley.TurnCompleted{Usage: parley.Usage{OutputTokens: -1_000_000}}),
		},
	} {
		log := append([]parley.Event{}, r.Log(of.ID)...)
		for _, ev := range more {
			ev.Session, ev.Seq, ev.Time = of.ID, int64(len(log)+1), log[0].Time.Add(time.Hour)
			log = append(log, ev)
		}
		if got, err := r.Engine.Import(t.Context(), enginetest.User, engine.Imported{Events: log}); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
