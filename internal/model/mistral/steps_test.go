package mistral_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/mistral"
)

// stepping calls a tool ten times, each time after the last result, and then reports the
// results.
func stepping(_ context.Context, r seam.Request) (seam.Reply, error) {
	var seen []string
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Type == parley.PartToolResult {
				seen = append(seen, p.Text)
			}
		}
	}
	if len(seen) < 10 {
		return seam.Reply{Parts: []parley.Part{text("Step. "), call("", "", "look", fmt.Sprintf(`{"text":"%d"}`, len(seen)))}}, nil
	}
	return seam.Reply{Parts: []parley.Part{text(strings.Join(seen, ", "))}}, nil
}

func TestTenSteps(t *testing.T) {
	t.Parallel()
	const want = "seen 0, seen 1, seen 2, seen 3, seen 4, seen 5, seen 6, seen 7, seen 8, seen 9"
	for _, hosted := range []bool{false, true} {
		t.Run(fmt.Sprintf("hosted %v", hosted), func(t *testing.T) {
			t.Parallel()
			s, c := serve(t, sim.Options{Brain: brain(stepping)})
			app := enginetest.App(func(a *parley.App) { a.Model = hostedInfo.Name })
			m := c.Model(info)
			if hosted {
				m = host(t, c, &app, t.TempDir())
			}
			rig := enginetest.New(t, enginetest.Echo, app, func(e *engine.Options) {
				e.Models, e.Runtimes = one{m}, map[string]seam.Runtime{"loop": loop.New(one{m}, loop.Options{})}
			})
			t.Cleanup(rig.Close)
			turn := rig.Await(rig.Send(rig.Session().ID, "go").ID)
			if turn.Status != parley.StatusCompleted || turn.Response.Message != want {
				t.Errorf("the turn is %s: %+v %+v", turn.Status, turn.Response, turn.Error)
			}
			n := map[string]int{}
			for _, line := range asked(s) {
				n[line]++
			}
			wanted := map[string]int{"POST /v1/chat/completions": 11}
			if hosted {
				wanted = map[string]int{"POST /v1/agents": 1, start: 1, "append function.result": 10}
			}
			if diff := cmp.Diff(wanted, n); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHosted_faults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault sim.Fault
		code  parley.Code
		after time.Duration
		says  string
	}{
		"429 with a hint":         {sim.Fault{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, parley.CodeRateLimited, 7 * time.Second, "Rate limit exceeded"},
		"401":                     {sim.Fault{Status: 401}, parley.CodeUnauthenticated, 0, "does not accept the key"},
		"a handoff that failed":   {sim.Fault{Status: 500, Body: `{"object":"Error","message":"Response failed during handoff orchestration","type":"invalid_request_error","code":3000}`}, parley.CodeUnavailable, 0, "handoff orchestration"},
		"cut before the end":      {sim.Fault{After: 3, Cut: true}, parley.CodeUnavailable, 0, "in the middle"},
		"a stream that just ends": {sim.Fault{After: 3, End: true}, parley.CodeUnavailable, 0, "in the middle"},
		"a malformed event":       {sim.Fault{After: 2, Malformed: true}, parley.CodeUnavailable, 0, "cannot be read"},
		"a wrong type":            {sim.Fault{Type: "application/json"}, parley.CodeUnavailable, 0, "cannot be read"},
		"an error in the stream":  {sim.Fault{After: 2, Err: "Response failed"}, parley.CodeUnavailable, 0, "Response failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cl := serve(t, sim.Options{Brain: always(text("one two three four five six"))})
			h := host(t, cl, suiteApp(), t.TempDir())
			if err := h.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.fault.Path = "/v1/conversations"
			s.Fail(c.fault)
			before := len(s.Requests())
			g := read(t.Context(), h, modeltest.Ask())
			e, ok := errors.AsType[*parley.Error](g.err)
			if !ok || e.Code != c.code || e.RetryAfter != c.after || !strings.Contains(e.Message, c.says) || e.Hint == "" || g.reply != nil {
				t.Errorf("got %#v", g.err)
			}
			if n := len(s.Requests()) - before; n != 1 {
				t.Errorf("%d requests: nothing is to be tried again here", n)
			}
			if g := read(t.Context(), h, modeltest.Ask()); g.text != "one two three four five six" {
				t.Errorf("got %q, %v", g.text, g.err)
			}
		})
	}
}

// TestHosted_less_than_its_agent_has: an append may lower the output limit, but a start with an
// agent may not. Neither may remove tools. Such a request goes to the model without its agent.
func TestHosted_less_than_its_agent_has(t *testing.T) {
	t.Parallel()
	s, c := serve(t, sim.Options{Brain: always(text("hello"))})
	h := host(t, c, suiteApp(), t.TempDir())
	type sent struct {
		AgentID string `json:"agent_id"`
		Model   string
		Tools   []any
		Args    map[string]any `json:"completion_args"`
	}
	last := func() (string, sent) {
		all := s.Requests()
		r := all[len(all)-1]
		var b sent
		if err := json.Unmarshal(r.Body, &b); err != nil {
			t.Fatal(err)
		}
		return r.Path, b
	}
	answer := func(r seam.Request) json.RawMessage {
		g := read(t.Context(), h, r)
		if g.err != nil {
			t.Fatal(g.err)
		}
		return g.reply.State
	}
	ask := modeltest.Ask()
	more := ask
	more.State = answer(ask)
	if _, b := last(); b.AgentID == "" || b.Args != nil {
		t.Errorf("began with %+v", b)
	}
	more.Messages = append(more.Messages, parley.Text(parley.RoleAssistant, "hello"), parley.Text(parley.RoleUser, "and?"))
	lower := more
	lower.MaxTokens = 100
	answer(lower)
	if path, b := last(); path == "/v1/conversations" || b.Args["max_tokens"] != 100.0 {
		t.Errorf("went on at %s with %+v", path, b)
	}
	for name, change := range map[string]func(r *seam.Request){
		"no tools":              func(r *seam.Request) { r.Tools = nil },
		"no handoffs":           func(r *seam.Request) { r.Handoffs = nil },
		"another prompt":        func(r *seam.Request) { r.System += " Be brief." },
		"a state of no meaning": func(r *seam.Request) { r.State = json.RawMessage(`{"conversation":"conv_x"}`) },
		"other words before": func(r *seam.Request) {
			r.Messages = append([]parley.Message{parley.Text(parley.RoleUser, "other")}, r.Messages[1:]...)
		},
	} {
		r := more
		change(&r)
		answer(r)
		path, b := last()
		agent := name == "a state of no meaning" || name == "other words before"
		if path != "/v1/conversations" || (b.AgentID != "") != agent || (b.Model == "mistral-medium-latest") == agent {
			t.Errorf("%s: at %s with %+v", name, path, b)
		}
	}
	ask.MaxTokens = 100
	answer(ask)
	if path, b := last(); path != "/v1/conversations" || b.AgentID != "" || b.Args["max_tokens"] != 100.0 || len(b.Tools) != 3 {
		t.Errorf("a lower cap at the beginning: at %s with %+v", path, b)
	}
}
