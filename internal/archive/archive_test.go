package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
)

const (
	sid     = parley.SessionID("01J5E5510N0000000000000000")
	turn1   = parley.TurnID("01JT0RN1000000000000000000")
	turn2   = parley.TurnID("01JT0RN2000000000000000000")
	turn3   = parley.TurnID("01JT0RN3000000000000000000")
	report  = "name,size\nfirst,1\n"
	appBody = `{"name":"chaos"}`
)

func digest(s string) parley.Digest {
	sum := sha256.Sum256([]byte(s))
	return parley.Digest(hex.EncodeToString(sum[:]))
}

var artifact = parley.ArtifactRef{ID: "01JART1FACT000000000000000", Name: "report.csv", MediaType: "text/csv", Size: int64(len(report)), SHA256: digest(report)}

// logOf numbers payloads as the log of one session, with a second between events.
func logOf(list ...any) []parley.Event {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	var out []parley.Event
	turn, agent := parley.TurnID(""), parley.AgentPath("")
	for _, v := range list {
		switch v := v.(type) {
		case parley.TurnID:
			turn = v
		case parley.AgentPath:
			agent = v
		case parley.Payload:
			e := parley.NewEvent(turn, agent, v)
			e.Session, e.Seq, e.Time = sid, int64(len(out)+1), at
			at = at.Add(time.Second)
			out = append(out, e)
		}
	}
	return out
}

func asked(text string) parley.TurnRequest {
	return parley.TurnRequest{Origin: parley.OriginUser, Message: parley.Text(parley.RoleUser, text), Client: "api", Budgets: parley.Budgets{MaxSteps: 8, MaxDurationMS: 120_000}}
}

// finished is a session in which one turn ran to its end.
func finished() []parley.Event {
	return logOf(
		parley.SessionCreated{App: "chaos", User: "ana", Title: "Login", Busy: parley.BusyReject, MaxOpenTurns: 1, Budgets: parley.Budgets{MaxSteps: 8}, InForce: &parley.InForce{Model: "scripted/chaos"}},
		turn1, parley.TurnStarted{TurnRequest: asked("What's the final spec?"), App: digest(appBody)},
		parley.AgentPath("interface"), parley.AgentStarted{Name: "interface"},
		parley.ModelStarted{Call: "c1", Model: "scripted/chaos", Context: digest("x")},
		parley.ModelReplied{Call: "c1", Model: "scripted/chaos", Parts: []parley.Part{{Type: parley.PartHandoff, Call: "h1", Name: "scavenger"}}, Usage: parley.Usage{InputTokens: 10, OutputTokens: 2}},
		parley.AgentHandoff{From: "interface", To: "scavenger", Name: "scavenger", Call: "h1"},
		parley.AgentPath("scavenger"),
		parley.ModelStarted{Call: "c2", Model: "scripted/chaos", Context: digest("y")},
		parley.ModelReplied{Call: "c2", Model: "scripted/chaos", Parts: []parley.Part{{Type: parley.PartToolCall, Call: "t1", Name: "read_slack_mock", Input: json.RawMessage(`{"query":"login"}`)}}, Usage: parley.Usage{InputTokens: 20, OutputTokens: 4}},
		parley.ToolRequested{Call: "t1", Name: "read_slack_mock", Input: json.RawMessage(`{"query":"login"}`)},
		parley.ToolStarted{Call: "t1", Name: "read_slack_mock", Input: json.RawMessage(`{"query":"login"}`), Effect: parley.EffectRead, Deadline: time.Date(2026, 3, 1, 9, 1, 0, 0, time.UTC), Attempt: 1},
		parley.ArtifactStored{ArtifactRef: artifact, Call: "t1"},
		parley.ToolEnded{ToolResult: parley.ToolResult{Call: "t1", Outcome: parley.OutcomeOK, Output: "[Slack | <b>]", Artifact: &artifact}, Name: "read_slack_mock", Effect: parley.EffectRead},
		parley.AgentPath(""),
		parley.TurnCompleted{Response: parley.Response{Message: "Google OAuth only.", Citations: []parley.Citation{{Source: "slack", Ref: "#engineering"}}}, Usage: parley.Usage{InputTokens: 30, OutputTokens: 6}},
	)
}

func source(events []parley.Event) archive.Source {
	return archive.Source{
		Info: parley.SessionInfo{ID: sid, UpdatedAt: events[len(events)-1].Time},
		Events: func() iter.Seq2[parley.Event, error] {
			return func(yield func(parley.Event, error) bool) {
				for _, e := range events {
					if !yield(e, nil) {
						return
					}
				}
			}
		},
		Artifact: func(_ context.Context, id parley.ArtifactID) ([]byte, error) {
			if id != artifact.ID {
				return nil, parley.ErrNotFound
			}
			return []byte(report), nil
		},
		Blob: func(_ context.Context, d parley.Digest) ([]byte, error) {
			if d != digest(appBody) {
				return nil, parley.ErrNotFound
			}
			return []byte(appBody), nil
		},
	}
}

func write(t testing.TB, events []parley.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := archive.Write(context.Background(), &b, source(events)); err != nil {
		t.Fatalf("Write: %v", err)
	}
	return b.Bytes()
}

func read(b []byte) (archive.Session, error) {
	return archive.Read(bytes.NewReader(b), int64(len(b)), archive.Limits{})
}

// pack makes a zip of the given names and contents, in order.
func pack(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t testing.TB, b []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = string(body)
	}
	return out
}

func ndjson(events []parley.Event) string {
	var b []byte
	for _, e := range events {
		b = append(e.AppendJSON(b), '\n')
	}
	return string(b)
}

func TestArchive_round_trip_gives_the_same_log_and_bytes(t *testing.T) {
	t.Parallel()
	events := finished()
	got, err := read(write(t, events))
	if err != nil {
		t.Fatal(err)
	}
	want := archive.Session{App: "chaos", Events: events, Blobs: map[parley.Digest][]byte{
		artifact.SHA256: []byte(report), digest(appBody): []byte(appBody),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}
}

func TestWrite_is_the_same_each_time(t *testing.T) {
	t.Parallel()
	events := finished()
	if !bytes.Equal(write(t, events), write(t, events)) {
		t.Error("two exports of one log differ")
	}
}

func TestWrite_has_the_layout_and_the_names(t *testing.T) {
	t.Parallel()
	files := unpack(t, write(t, finished()))
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"artifacts/" + string(artifact.ID), "blobs/" + string(digest(appBody)), "events.ndjson",
		"logs/" + string(turn1) + ".log", "session.json", "turns/" + string(turn1) + ".json",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, want := range map[string]map[string]any{
		"session.json": {
			"id": string(sid), "createdAt": 1772355600000.0, "updatedAt": 1772355612000.0, "status": "active", "version": 13.0,
			"model": map[string]any{"provider": "scripted", "model": "chaos"}, "budgets": map[string]any{"maxSteps": 8.0},
			"policy": map[string]any{"allowActuation": false, "allowlistedServices": []any{}, "enforceFixedModel": false},
			"memory": map[string]any{"rollingSummary": "", "facts": []any{}, "pins": []any{}, "lastK": []any{
				map[string]any{"role": "user", "content": "What's the final spec?", "continuationId": string(turn1), "ts": 1772355601000.0},
				map[string]any{"role": "assistant", "content": "Google OAuth only.", "continuationId": string(turn1), "ts": 1772355612000.0},
			}},
			"messages": []any{
				map[string]any{"role": "user", "continuationId": string(turn1), "ts": 1772355601000.0, "length": 22.0},
				map[string]any{"role": "assistant", "continuationId": string(turn1), "ts": 1772355612000.0, "length": 18.0},
			},
			"ctx": map[string]any{"app": "chaos", "appModel": true, "user": "ana", "title": "Login"}, "locks": map[string]any{}, "openContinuations": []any{},
			"stats": map[string]any{"turns": 1.0, "steps": 2.0, "toolCalls": 1.0, "tokens": 36.0, "costUsd": 0.0},
		},
		"turns/" + string(turn1) + ".json": {
			"id": string(turn1), "sessionId": string(sid), "status": "completed", "createdAt": 1772355601000.0, "updatedAt": 1772355612000.0,
			"request":  map[string]any{"message": "What's the final spec?", "allowTools": true, "maxSteps": 8.0, "timeBudgetMs": 120000.0},
			"response": map[string]any{"finalMessage": "Google OAuth only.", "citations": []any{map[string]any{"source": "slack", "ref": "#engineering"}}},
			"artifacts": []any{map[string]any{
				"id": string(artifact.ID), "path": "/v1/artifacts/" + string(artifact.ID), "type": "text/csv", "name": "report.csv", "size": 18.0, "sha256": string(artifact.SHA256),
			}},
			"stepLog": []any{
				step(1772355609000, "tool_call", map[string]any{"agent": "scavenger", "callId": "t1", "tool": "read_slack_mock", "input": map[string]any{"query": "login"}, "effect": "read", "attempt": 1.0}),
				step(1772355611000, "tool_result", map[string]any{"agent": "scavenger", "callId": "t1", "tool": "read_slack_mock", "outcome": "ok", "result": "[Slack | <b>]", "artifactId": string(artifact.ID)}),
			},
		},
	} {
		var got map[string]any
		if err := json.Unmarshal([]byte(files[name]), &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if lines := strings.Count(files["logs/"+string(turn1)+".log"], "\n"); lines != 2 {
		t.Errorf("the step log has %d lines, want 2", lines)
	}
}

func step(ts float64, kind string, detail map[string]any) map[string]any {
	return map[string]any{"ts": ts, "type": kind, "detail": detail}
}

func TestArchive_memory_is_kept_either_way(t *testing.T) {
	t.Parallel()
	summary := "They chose Google OAuth."
	facts := []parley.Fact{{Text: "login is Google OAuth", Source: "slack", Seq: 13, Time: time.Date(2026, 3, 1, 9, 0, 12, 0, time.UTC)}}
	pins := []parley.Pin{{Label: "tone", Text: "dry"}}
	events := append(finished(), logOf(parley.SessionCreated{}, parley.MemoryUpdated{Summary: &summary, Facts: &facts, Pins: &pins})[1:]...)
	events[len(events)-1].Seq = int64(len(events))
	whole := write(t, events)
	files := unpack(t, whole)
	alone := pack(t, "session.json", files["session.json"], "turns/"+string(turn1)+".json", files["turns/"+string(turn1)+".json"],
		"artifacts/"+string(artifact.ID), report)
	for name, zip := range map[string][]byte{"with_the_log": whole, "rebuilt": alone} {
		got, err := read(zip)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var fold parley.Session
		for _, e := range got.Events {
			if err := fold.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		want := facts
		if name == "rebuilt" { // a source's number belongs to the old log
			want = []parley.Fact{{Text: facts[0].Text, Source: facts[0].Source, Time: facts[0].Time}}
		}
		if fold.Summary != summary || !cmp.Equal(fold.Facts, want) || !cmp.Equal(fold.Pins, pins) {
			t.Errorf("%s: got %q, %+v, %+v", name, fold.Summary, fold.Facts, fold.Pins)
		}
	}
}

func TestWrite_an_open_turn_is_in_it_too(t *testing.T) {
	t.Parallel()
	events := append(finished(), logOf(
		parley.SessionCreated{}, turn3, parley.TurnStarted{TurnRequest: asked("more")},
		parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Kind: parley.KindQuestion, Title: "Which?"}},
	)[1:]...)
	for i := range events {
		events[i].Seq = int64(i + 1)
	}
	files := unpack(t, write(t, events))
	var got struct{ Status string }
	if err := json.Unmarshal([]byte(files["turns/"+string(turn3)+".json"]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Status != "running" { // the files have no status for waiting
		t.Errorf("a turn that waits: got %q, want running", got.Status)
	}
	if !strings.Contains(files["session.json"], `"openContinuations": [
  "`+string(turn3)+`"
 ]`) {
		t.Errorf("session.json does not list the open turn:\n%s", files["session.json"])
	}
}

// TestWrite_says_that_the_queue_is_held: the export says so as long as the queue is held. It does not say
// so when nothing is queued, or after a command has released the queue.
func TestWrite_says_that_the_queue_is_held(t *testing.T) {
	t.Parallel()
	queued := []any{
		parley.SessionCreated{},
		turn1,
		parley.TurnStarted{TurnRequest: asked("one")},
		turn2,
		parley.TurnQueued{TurnRequest: asked("two")},
	}
	for name, c := range map[string]struct {
		then []any
		held bool
	}{
		"a turn is running":       {nil, false},
		"it was cancelled":        {[]any{turn1, parley.TurnCancelled{By: "ann"}}, true},
		"it was interrupted":      {[]any{turn1, parley.TurnInterrupted{Reason: "crash"}}, true},
		"it failed":               {[]any{turn1, parley.TurnFailed{}}, false},
		"what was queued is gone": {[]any{turn1, parley.TurnCancelled{By: "ann"}, turn2, parley.TurnCancelled{By: "ann"}}, false},
		"what was queued has begun": {
			[]any{turn1, parley.TurnCancelled{By: "ann"}, turn2, parley.TurnStarted{TurnRequest: asked("two")}}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := unpack(t, write(t, logOf(slices.Concat(queued, c.then)...)))["session.json"]
			var got struct {
				QueueHeld *bool `json:"queueHeld"`
			}
			if err := json.Unmarshal([]byte(file), &got); err != nil {
				t.Fatal(err)
			}
			if held := got.QueueHeld != nil && *got.QueueHeld; held != c.held || got.QueueHeld != nil && !c.held {
				t.Errorf("session.json says %v, want %t:\n%s", got.QueueHeld, c.held, file)
			}
		})
	}
}
