package telemetry_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/telemetry"
)

func scrape(m *telemetry.Metrics) map[string]string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	out := map[string]string{}
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		if name, value, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "parley_") {
			out[name] = value
		}
	}
	return out
}

func TestStore_counts_what_was_committed(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if len(enginetest.Results(r)) > 0 {
			say("done")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}
	m := telemetry.New(telemetry.Labels{Models: []string{"test/model"}, Tools: []string{"mail"}})
	rig := enginetest.Over(t, m.Store(mem.New()), &enginetest.Service{}, model, enginetest.App())
	defer rig.Close()
	s := rig.Session()
	rig.Await(rig.Send(s.ID, "mail").ID)
	if _, err := rig.Engine.Fork(t.Context(), enginetest.User, s.ID, parley.ForkSession{}); err != nil {
		t.Fatal(err)
	}
	m.Streams(3)
	got := scrape(m)
	for name, want := range map[string]string{
		`parley_sessions_created_total{app="test"}`:                                 "1", // a copy does not count as work
		`parley_turns_total{app="test",status="completed"}`:                         "1",
		`parley_model_calls_total{app="test",model="test/model",outcome="replied"}`: "2",
		`parley_model_tokens_total{app="test",kind="input",model="test/model"}`:     "20",
		`parley_model_tokens_total{app="test",kind="output",model="test/model"}`:    "10",
		`parley_tool_calls_total{outcome="ok",tool="mail"}`:                         "1",
		`parley_open_streams`: "3",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if got["parley_append_seconds_count"] == "" || got["parley_append_seconds_count"] == "0" {
		t.Error("no append was timed")
	}
}

func TestStore_counts_refusals_apart(t *testing.T) {
	t.Parallel()
	m := telemetry.New(telemetry.Labels{Models: []string{"test/model"}, Tools: []string{"mail"}})
	store := m.Store(mem.New())
	err := store.Append(t.Context(), parley.Local, seam.Batch{Session: "none", Epoch: 1, Events: []parley.Event{parley.NewEvent("", "", parley.SessionEnded{})}})
	if err == nil {
		t.Fatal("an append to nothing was taken")
	}
	got := scrape(m)
	if n := got[`parley_append_errors_total{code="`+string(parley.CodeOf(err))+`"}`]; n != "1" {
		t.Errorf("refusals: got %q in %v", n, got)
	}
	if got["parley_events_total"] != "0" {
		t.Errorf("events: got %s", got["parley_events_total"])
	}
}

// TestStore_names_a_model_in_one_way: a model has the name that was requested, whatever the provider
// calls it in its replies.
func TestStore_names_a_model_in_one_way(t *testing.T) {
	t.Parallel()
	m := telemetry.New(telemetry.Labels{Models: []string{"test/model"}})
	events := []parley.Event{
		parley.NewEvent("t", "", parley.ModelStarted{Call: "c", Model: "test/model"}),
		parley.NewEvent("t", "", parley.ModelReplied{Call: "c", Model: "test/model-2026-10-01", TookMS: 1, TTFTMS: 1}),
		parley.NewEvent("t", "", parley.ModelStarted{Call: "d", Model: "test/model"}),
		parley.NewEvent("t", "", parley.ModelFailed{Call: "d"}),
	}
	for i := range events {
		events[i].Session, events[i].Seq = "S", int64(i)+1
	}
	info := parley.SessionInfo{ID: "S", App: "test", User: "ann"}
	if err := m.Store(mem.New()).Append(t.Context(), parley.Principal{User: "ann"}, seam.Batch{Session: "S", Create: true, Events: events, Index: seam.Index{Session: &info}}); err != nil {
		t.Fatal(err)
	}
	for name, value := range scrape(m) {
		if strings.Contains(name, "model=") && !strings.Contains(name, `model="test/model"`) {
			t.Errorf("%s is %s", name, value)
		}
	}
	if n := scrape(m)[`parley_model_calls_total{app="test",model="test/model",outcome="replied"}`]; n != "1" {
		t.Errorf("%q calls of test/model, want 1", n)
	}
}

// TestLabels: a label has few values, which are known beforehand. No session, user, turn or text is a
// label's value.
func TestLabels(t *testing.T) {
	t.Parallel()
	m := telemetry.New(telemetry.Labels{Models: []string{"test/model"}, Tools: []string{"mail"}})
	rig := enginetest.Over(t, m.Store(mem.New()), &enginetest.Service{}, mailer, enginetest.App(asking))
	s := rig.Session(func(c *parley.CreateSession) { c.Title = "a planted title" })
	turn := rig.Send(s.ID, "a planted question")
	if info := rig.Await(turn.ID); info.Status != parley.StatusWaiting {
		t.Fatalf("the turn is %s", info.Status)
	}
	got := scrape(m)
	for name, want := range map[string]string{
		`parley_interactions_waiting{kind="permission"}`: "1", `parley_interactions_waiting{kind="question"}`: "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if _, err := rig.Engine.Cancel(t.Context(), enginetest.User, turn.ID, "a planted reason"); err != nil {
		t.Fatal(err)
	}
	rig.Await(turn.ID)
	rig.Close()
	known := []string{"app", "status", "model", "outcome", "kind", "tool", "budget", "code", "le"}
	series := 0
	for name := range scrape(m) {
		series++
		for _, word := range []string{string(s.ID), string(turn.ID), enginetest.User.User + `"`, enginetest.User.Org, "planted"} {
			if strings.Contains(name, word) {
				t.Errorf("%s holds %q", name, word)
			}
		}
		_, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		for pair := range strings.SplitSeq(labels, ",") {
			if label, _, _ := strings.Cut(pair, "="); label != "" && !slices.Contains(known, label) {
				t.Errorf("%s has the label %s", name, label)
			}
		}
	}
	if series < 30 {
		t.Errorf("only %d series", series)
	}
}

// TestLabels_of_others: a name that comes from a client or a model becomes a label only if it is in the
// configuration.
func TestLabels_of_others(t *testing.T) {
	t.Parallel()
	m := telemetry.New(telemetry.Labels{Models: []string{"test/model"}, Tools: []string{"mail"}})
	s := m.Store(mem.New())
	info := parley.SessionInfo{ID: "S", App: "test", User: "ann"}
	var events []parley.Event
	for i := range 300 {
		name := fmt.Sprint("planted-", i)
		events = append(events,
			parley.NewEvent("t", "", parley.ModelStarted{Call: parley.CallID(name), Model: "test/" + name}),
			parley.NewEvent("t", "", parley.ModelReplied{Call: parley.CallID(name), Model: "test/" + name, TookMS: 1, TTFTMS: 1}),
			parley.NewEvent("t", "", parley.ModelStarted{Call: parley.CallID(name), Model: "test/" + name}),
			parley.NewEvent("t", "", parley.ModelFailed{Call: parley.CallID(name)}),
			parley.NewEvent("t", "", parley.ToolEnded{ToolResult: parley.ToolResult{Call: parley.CallID(name), Outcome: parley.OutcomeError}, Name: name, TookMS: 1}),
		)
	}
	for i := range events {
		events[i].Session, events[i].Seq = "S", int64(i)+1
	}
	if err := s.Append(t.Context(), parley.Principal{User: "ann"}, seam.Batch{Session: "S", Create: true, Events: events, Index: seam.Index{Session: &info}}); err != nil {
		t.Fatal(err)
	}
	got := scrape(m)
	for name := range got {
		if strings.Contains(name, "planted") {
			t.Errorf("a planted name is a label: %s", name)
		}
	}
	for name, want := range map[string]string{
		`parley_model_calls_total{app="test",model="other",outcome="replied"}`: "300",
		`parley_model_calls_total{app="test",model="other",outcome="failed"}`:  "300",
		`parley_tool_calls_total{outcome="error",tool="other"}`:                "300",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}
