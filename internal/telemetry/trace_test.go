package telemetry_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/telemetry"
)

// collector receives traces as a real collector does, and keeps them.
type collector struct {
	*httptest.Server

	mu       sync.Mutex
	raw      []byte
	requests []*http.Request
	spans    map[string]*tracepb.Span
	twice    []string // spans that were sent again
	answer   []byte
	status   []int // statuses of the next requests; after them 200
}

func newCollector(t *testing.T) *collector {
	c := &collector{spans: map[string]*tracepb.Span{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(raw, &data)
	}
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	c.raw, c.requests = append(c.raw, raw...), append(c.requests, r)
	if len(c.status) > 0 {
		code := c.status[0]
		c.status = c.status[1:]
		w.WriteHeader(code)
		return
	}
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				id := hex.EncodeToString(s.SpanId)
				if c.spans[id] != nil {
					c.twice = append(c.twice, s.Name)
				}
				c.spans[id] = s
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(c.answer)
}

func attr(s *tracepb.Span, key string) string {
	for _, kv := range s.Attributes {
		if kv.Key != key {
			continue
		}
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_ArrayValue:
			var out []string
			for _, e := range v.ArrayValue.Values {
				out = append(out, e.GetStringValue())
			}
			return strings.Join(out, ",")
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_BoolValue:
			return fmt.Sprint(v.BoolValue)
		case *commonpb.AnyValue_DoubleValue:
			return fmt.Sprint(v.DoubleValue)
		}
	}
	return ""
}

// tree shows a trace as text: its spans under their parents, each with its status, links and some
// attributes.
func (c *collector) tree(t *testing.T, turn parley.TurnID, shown ...string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.twice) > 0 {
		t.Errorf("spans came twice: %v", c.twice)
	}
	children := map[string][]*tracepb.Span{}
	for _, id := range slices.Sorted(maps.Keys(c.spans)) {
		s := c.spans[id]
		if hex.EncodeToString(s.TraceId) != telemetry.TraceID(turn) {
			continue
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s ends before it starts", s.Name)
		}
		parent := hex.EncodeToString(s.ParentSpanId)
		if parent != "" && c.spans[parent] == nil {
			t.Errorf("the parent of %s is not there", s.Name)
		}
		children[parent] = append(children[parent], s)
	}
	var b strings.Builder
	var show func(parent, indent string)
	show = func(parent, indent string) {
		list := children[parent]
		slices.SortStableFunc(list, func(a, b *tracepb.Span) int {
			return strings.Compare(order(a), order(b))
		})
		for _, s := range list {
			b.WriteString(indent + s.Name)
			if s.Kind == tracepb.Span_SPAN_KIND_CLIENT {
				b.WriteString(" (client)")
			}
			for _, l := range s.Links {
				if to := c.spans[hex.EncodeToString(l.SpanId)]; to != nil {
					b.WriteString(" after " + to.Name)
				}
			}
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				b.WriteString(" ERROR " + s.Status.Message)
			}
			for _, key := range shown {
				if v := attr(s, key); v != "" {
					b.WriteString(" " + key[strings.LastIndexByte(key, '.')+1:] + "=" + v)
				}
			}
			for _, e := range s.Events {
				b.WriteString(" !" + e.Name)
			}
			b.WriteString("\n")
			show(hex.EncodeToString(s.SpanId), indent+"  ")
		}
	}
	show("", "")
	return b.String()
}

// order sorts spans by time. Calls made within a millisecond are sorted by their ids, which are in the
// order in which the calls were made.
func order(s *tracepb.Span) string {
	return fmt.Sprintf("%020d %020d %s", s.StartTimeUnixNano, s.EndTimeUnixNano, attr(s, "parley.call.id")+attr(s, "gen_ai.tool.call.id"))
}

func tracer(t *testing.T, c *collector, change ...func(*telemetry.TraceOptions)) *telemetry.Tracer {
	t.Helper()
	o := telemetry.TraceOptions{Endpoint: c.URL, Version: "test"}
	for _, f := range change {
		f(&o)
	}
	tr, err := telemetry.NewTracer(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func flush(t *testing.T, tr *telemetry.Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tr.Close(ctx)
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimLeft(want, "\n"), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func text(s string) map[string]string { return map[string]string{"text": s} }

// relay passes the turn round three agents, as the chaos app does.
func relay(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	hand := func(to string) (seam.Reply, error) {
		return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{{Type: parley.PartHandoff, Name: to, Text: "as agreed"}}}, nil
	}
	switch r.Agent {
	case "front":
		if strings.Contains(enginetest.Last(r), "[handed over by sum]") {
			say("the answer")
			return seam.Reply{StopReason: "end_turn", Usage: parley.Usage{InputTokens: 10, OutputTokens: 5, CacheReadTokens: 30, USD: 0.25}}, nil
		}
		return hand("fetch")
	case "fetch":
		if len(enginetest.Results(r)) == 0 {
			return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call("look", text("a"))}}, nil
		}
		return hand("sum")
	}
	say("both seen")
	return hand("front")
}

func threeAgents() parley.App {
	return enginetest.App(func(a *parley.App) {
		a.Entry = "front"
		a.Agents = map[string]parley.AgentDef{
			"front": {Name: "front", Prompt: "Answer.", Handoffs: []string{"fetch"}},
			"fetch": {Name: "fetch", Prompt: "Fetch.", Tools: []string{"look"}, Handoffs: []string{"sum"}, History: parley.HistoryNone},
			"sum":   {Name: "sum", Prompt: "Sum up.", Handoffs: []string{"front"}, History: parley.HistoryNone},
		}
	})
}

// settled gives every event a different time, so that spans are in the order of their calls. The
// engine's clock advances by a millisecond each time it is read.
func settled(o *engine.Options) {
	var mu sync.Mutex
	now := time.Now() // deadlines are in real time
	o.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}
}

func TestTrace_of_a_turn_that_goes_round_three_agents(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := tracer(t, c)
	rig := enginetest.Over(t, tr.Store(mem.New()), &enginetest.Service{}, relay, threeAgents(), settled)
	s := rig.Session()
	turn := rig.Send(s.ID, "the question")
	rig.Await(turn.ID)
	rig.Close()
	flush(t, tr)
	same(t, c.tree(t, turn.ID, "gen_ai.response.finish_reasons", "parley.handoff.from", "parley.tool.outcome", "parley.turn.status"), `
invoke_agent front status=completed
  chat model (client) finish_reasons=tool_call
  invoke_agent fetch from=front
    chat model (client) finish_reasons=tool_call
    execute_tool look outcome=ok
    chat model (client) finish_reasons=tool_call
  invoke_agent sum from=fetch
    chat model (client) finish_reasons=tool_call
  invoke_agent front from=sum
    chat model (client) finish_reasons=stop
`)
	var cost []string
	for _, s := range c.spans {
		for key, want := range map[string]string{
			"session.id": string(turn.SessionID), "user.id": enginetest.User.User, "gen_ai.conversation.id": string(turn.SessionID),
			"parley.turn.id": string(turn.ID), "parley.app": "test",
		} {
			if got := attr(s, key); got != want {
				t.Errorf("%s: %s is %q, want %q", s.Name, key, got, want)
			}
		}
		if attr(s, "gen_ai.usage.cost") != "" {
			cost = append(cost, strings.Join([]string{
				attr(s, "gen_ai.provider.name"), attr(s, "gen_ai.request.model"), attr(s, "gen_ai.usage.input_tokens"),
				attr(s, "gen_ai.usage.output_tokens"), attr(s, "gen_ai.usage.cache_read.input_tokens"), attr(s, "gen_ai.usage.cost"),
			}, " "))
		}
		for _, kv := range s.Attributes {
			if strings.Contains(kv.Key, "messages") || strings.Contains(kv.Key, "arguments") {
				t.Errorf("%s: %s has content, which was not asked for", s.Name, kv.Key)
			}
		}
	}
	if diff := cmp.Diff([]string{"test model 40 5 30 0.25"}, cost); diff != "" {
		t.Errorf("usage: -want +got:\n%s", diff)
	}
	for _, word := range []string{"the question", "the answer", "as agreed", "seen a", "both seen"} {
		if strings.Contains(string(c.raw), word) {
			t.Errorf("%q is in the trace", word)
		}
	}
}

func TestTrace_of_tools_that_fail(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := tracer(t, c)
	app := enginetest.App(func(a *parley.App) {
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Deny, Tool: "put"}, {Verdict: parley.Allow}}
		a.Policy.Unattended = true
	})
	service := &enginetest.Service{}
	service.SetGate(func(context.Context, seam.Run) error { return io.ErrUnexpectedEOF })
	step := 0
	model := func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		step++
		switch step {
		case 1, 2, 3:
			tool := []string{"look", "put", "mail"}[step-1]
			return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call(tool, text("x"))}}, nil
		}
		return seam.Reply{}, parley.Errorf(parley.CodeForbidden, "the key secret-looking words was refused")
	}
	rig := enginetest.Over(t, tr.Store(mem.New()), service, model, app, settled)
	turn := rig.Send(rig.Session().ID, "go")
	rig.Await(turn.ID)
	rig.Close()
	flush(t, tr)
	same(t, c.tree(t, turn.ID, "parley.tool.outcome"), `
invoke_agent lead ERROR forbidden
  chat model (client)
  execute_tool look ERROR tool_error outcome=error
  chat model (client)
  execute_tool put outcome=denied
  chat model (client)
  execute_tool mail ERROR unknown outcome=unknown
  chat model (client) ERROR forbidden
`)
	if strings.Contains(string(c.raw), "secret-looking") {
		t.Error("the words of an error are in the trace")
	}
}

func TestTrace_of_a_cancelled_turn(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := tracer(t, c)
	asked := make(chan struct{})
	model := func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		close(asked)
		<-ctx.Done()
		return seam.Reply{}, context.Cause(ctx)
	}
	rig := enginetest.Over(t, tr.Store(mem.New()), &enginetest.Service{}, model, enginetest.App(), settled)
	turn := rig.Send(rig.Session().ID, "go")
	<-asked
	if _, err := rig.Engine.Cancel(t.Context(), enginetest.User, turn.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	rig.Await(turn.ID)
	rig.Close()
	flush(t, tr)
	same(t, c.tree(t, turn.ID, "parley.turn.status"), `
invoke_agent lead status=cancelled
  chat model (client) ERROR cancelled
`)
}

// mailer looks, mails and ends.
func mailer(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	switch len(enginetest.Results(r)) {
	case 0:
		return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call("look", text("x"))}}, nil
	case 1:
		return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call("mail", text("x"))}}, nil
	}
	say("done")
	return seam.Reply{StopReason: "end_turn"}, nil
}

func asking(a *parley.App) {
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Allow, Effect: parley.EffectRead}}
}

func TestTrace_goes_on_when_a_human_answers_after_a_restart(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	disk := mem.New()
	first := tracer(t, c)
	rig := enginetest.Over(t, first.Store(disk), &enginetest.Service{}, mailer, enginetest.App(asking))
	turn := rig.Send(rig.Session().ID, "go")
	if info := rig.Await(turn.ID); info.Status != parley.StatusWaiting {
		t.Fatalf("the turn is %s", info.Status)
	}
	rig.Close()
	flush(t, first)

	second := tracer(t, c)
	rig = enginetest.Over(t, second.Store(disk), &enginetest.Service{}, mailer, enginetest.App(asking))
	open, err := rig.Engine.Interactions(t.Context(), enginetest.User, 10)
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	answer := parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}
	if _, err := rig.Engine.Answer(t.Context(), enginetest.User, open[0].ID, answer); err != nil {
		t.Fatal(err)
	}
	rig.Await(turn.ID)
	rig.Close()
	flush(t, second)
	got := c.tree(t, turn.ID, "parley.interaction.outcome", "parley.tool.outcome")
	want := `
invoke_agent lead
  chat model (client)
  execute_tool look outcome=ok
  chat model (client)
  interaction permission outcome=allow
  execute_tool mail outcome=ok
  chat model (client)
`
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, s := range c.spans {
		if s.Name == "interaction permission" && !time.Unix(0, int64(s.StartTimeUnixNano)).Equal(open[0].OpenedAt) { //nolint:gosec // a time
			t.Errorf("the wait begins at %d, and was opened at %s", s.StartTimeUnixNano, open[0].OpenedAt)
		}
	}
}

// lines are the sorted lines of a tree. In real time, spans of the same millisecond have no fixed order.
func lines(tree string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(tree), "\n"))
}

func TestTrace_goes_on_after_a_crash(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	disk := mem.New()
	first := tracer(t, c)
	service := &enginetest.Service{}
	running := make(chan struct{})
	service.SetGate(func(ctx context.Context, r seam.Run) error {
		if r.Name != "mail" {
			return nil
		}
		close(running)
		<-ctx.Done()
		return ctx.Err()
	})
	app := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
	store := first.Store(disk)
	rig := enginetest.Over(t, store, service, mailer, app)
	turn := rig.Send(rig.Session().ID, "go")
	<-running // the mail is under way
	left := disk.Clone()
	disk.SetFaults(mem.Faults{Before: func(mem.Call) error { return io.ErrClosedPipe }})
	rig.Kill()
	flush(t, first) // the spans that it had when it died

	second := tracer(t, c)
	service.SetGate(nil)
	rig = enginetest.Over(t, second.Store(left), service, mailer, app)
	done, err := rig.Engine.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if _, err := rig.Engine.Resume(t.Context(), enginetest.User, turn.ID); err != nil {
		t.Fatal(err)
	}
	rig.Await(turn.ID)
	rig.Close()
	flush(t, second)
	got := c.tree(t, turn.ID, "parley.tool.outcome", "parley.turn.status")
	want := `
invoke_agent lead ERROR interrupted status=interrupted
  chat model (client)
  execute_tool look outcome=ok
  chat model (client)
  execute_tool mail ERROR interrupted
  invoke_agent lead after invoke_agent lead status=completed
    execute_tool mail after execute_tool mail ERROR unknown outcome=unknown
    chat model (client)
`
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, got)
	}
	if _, _, mails := service.Counts(); mails != 1 {
		t.Errorf("%d mails", mails)
	}
}

// TestTrace_of_a_server_that_gets_a_reply: the model call belongs to the tool's call whose server asked.
func TestTrace_of_a_server_that_gets_a_reply(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := tracer(t, c)
	service := &enginetest.Service{}
	service.SetGate(func(ctx context.Context, r seam.Run) error {
		_, err := r.Sample(ctx, parley.Sampling{Key: "a", Server: "deep", Messages: []parley.Message{parley.Text(parley.RoleUser, "why?")}, MaxTokens: 50})
		return err
	})
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if r.Agent != parley.SamplingAgent && len(enginetest.Results(r)) == 0 {
			return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "x"})}, StopReason: "tool_use"}, nil
		}
		return enginetest.Echo(ctx, r, say)
	}
	rig := enginetest.Over(t, tr.Store(mem.New()), service, model, enginetest.App(), settled)
	turn := rig.Send(rig.Session().ID, "go")
	rig.Await(turn.ID)
	open, err := rig.Engine.Interactions(context.Background(), enginetest.User, 10)
	if err != nil || len(open) != 1 {
		t.Fatalf("%d questions, %v", len(open), err)
	}
	if _, err := rig.Engine.Answer(context.Background(), enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: enginetest.First(open[0].Interaction, "")}); err != nil {
		t.Fatal(err)
	}
	rig.Await(turn.ID)
	rig.Close()
	flush(t, tr)
	same(t, c.tree(t, turn.ID, "parley.sampling.server", "parley.tool.outcome", "parley.turn.status"), `
invoke_agent lead status=completed
  chat model (client)
  execute_tool mail outcome=ok
    chat model (client) server=deep
  interaction question
  chat model (client)
`)
}
