package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/telemetry"
)

// inputs are the inputs of the chat spans in the order of their calls.
func (c *collector) inputs() (all []string) {
	spans := slices.Collect(maps.Values(c.spans))
	slices.SortFunc(spans, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "chat ") {
			all = append(all, attr(s, "gen_ai.input.messages"))
		}
	}
	return all
}

func withContent(o *telemetry.TraceOptions) { o.Content = true }

// TestTrace_has_what_a_model_was_asked: the trace has the input of each model call in the form of the
// conventions. It has only messages of this turn, and for each agent only its own.
func TestTrace_has_what_a_model_was_asked(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := tracer(t, c, withContent)
	rig := enginetest.Over(t, tr.Store(mem.New()), &enginetest.Service{}, relay, threeAgents(), settled)
	turn := rig.Send(rig.Session().ID, "the question")
	rig.Await(turn.ID)
	rig.Close()
	flush(t, tr)
	var got []string
	for _, in := range c.inputs() {
		var list []struct {
			Role  string
			Parts []struct{ Type, Content, Name, Response string }
		}
		if err := json.Unmarshal([]byte(in), &list); err != nil {
			t.Fatalf("%v in %q", err, in)
		}
		var said []string
		for _, m := range list {
			for _, p := range m.Parts {
				said = append(said, strings.TrimSpace(fmt.Sprintf("%s %s: %s%s%s", m.Role, p.Type, p.Name, p.Content, p.Response)))
			}
		}
		got = append(got, strings.Join(said, "; "))
	}
	want := []string{
		"user text: the question",
		"user text: the question; user text: as agreed",
		"user text: the question; user text: as agreed; assistant tool_call: look; tool tool_call_response: seen a",
		"user text: the question; user text: as agreed",
		"user text: the question; assistant handoff: fetchas agreed; user text: as agreed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTrace_bounds_what_a_model_was_asked: the input of a long turn loses its middle.
func TestTrace_bounds_what_a_model_was_asked(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := tracer(t, c, withContent)
	step := 0
	model := func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		if step++; step <= 6 {
			return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call("look", text(fmt.Sprint("no. ", step, " ", strings.Repeat("x", 5000))))}}, nil
		}
		say("done")
		return seam.Reply{StopReason: "end_turn"}, nil
	}
	rig := enginetest.Over(t, tr.Store(mem.New()), &enginetest.Service{}, model, enginetest.App(), settled)
	turn := rig.Send(rig.Session().ID, "the question "+strings.Repeat("?", 100_000))
	rig.Await(turn.ID)
	rig.Close()
	flush(t, tr)
	all := c.inputs()
	if len(all) != 7 {
		t.Fatalf("got %d calls, want 7", len(all))
	}
	for n, in := range all {
		if len(in) > 20<<10 || !strings.HasPrefix(in, `[{"role":"user","parts":[{"type":"text","content":"the question `) {
			t.Errorf("call %d: %d bytes, %.80s", n+1, len(in), in)
		}
	}
	if last := all[6]; strings.Contains(last, "no. 2 ") || !strings.Contains(last, "no. 6 ") || !strings.Contains(last, "[…]") {
		t.Errorf("the last call: %.200s", last)
	}
}
