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

// logOf numbers payloads as one session's log, a second apart.
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

// pack makes a zip of names and contents, in order.
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

func TestRead_rebuilds_a_log_from_the_turns_when_there_are_no_events(t *testing.T) {
	t.Parallel()
	files := unpack(t, write(t, finished()))
	got, err := read(pack(t,
		"session.json", files["session.json"],
		"turns/"+string(turn1)+".json", files["turns/"+string(turn1)+".json"],
		"turns/"+string(turn2)+".json", `{"id":"`+string(turn2)+`","sessionId":"`+string(sid)+`","status":"running","createdAt":1772355620000,"updatedAt":1772355621000,"request":{"message":"and then?","allowTools":true}}`,
		"artifacts/"+string(artifact.ID), report,
	))
	if err != nil {
		t.Fatal(err)
	}
	var view parley.Transcript
	for _, e := range got.Events {
		view.Apply(e)
	}
	type turn struct {
		Message, Answer string
		Status          parley.TurnStatus
	}
	var turns []turn
	for _, v := range view.Turns {
		turns = append(turns, turn{v.Message, v.Answer, v.Status})
	}
	want := []turn{
		{"What's the final spec?", "Google OAuth only.", parley.StatusCompleted},
		{"and then?", "", parley.StatusCancelled},
	}
	if diff := cmp.Diff(want, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	if got.App != "chaos" || view.Title != "Login" || string(got.Blobs[artifact.SHA256]) != report {
		t.Errorf("got app %q, title %q, %d blobs", got.App, view.Title, len(got.Blobs))
	}
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
		if name == "rebuilt" { // numbers were those of another log
			want = []parley.Fact{{Text: facts[0].Text, Source: facts[0].Source, Time: facts[0].Time}}
		}
		if fold.Summary != summary || !cmp.Equal(fold.Facts, want) || !cmp.Equal(fold.Pins, pins) {
			t.Errorf("%s: got %q, %+v, %+v", name, fold.Summary, fold.Facts, fold.Pins)
		}
	}
}

func TestRead_closes_what_was_open(t *testing.T) {
	t.Parallel()
	events := append(finished()[:1:1], logOf(
		parley.SessionCreated{}, // its place is taken by the real one
		turn1, parley.TurnStarted{TurnRequest: asked("do it")},
		parley.AgentPath("lead"), parley.AgentStarted{Name: "lead"},
		parley.ModelStarted{Call: "c1", Model: "m", Reserved: parley.Usage{InputTokens: 5}},
		parley.ModelReplied{Call: "c1", Model: "m", Parts: []parley.Part{{Type: parley.PartText, Text: "ok"}}},
		parley.ToolRequested{Call: "w", Name: "write", Input: json.RawMessage(`{}`)},
		parley.ToolRequested{Call: "r", Name: "read", Input: json.RawMessage(`{}`)},
		parley.ToolRequested{Call: "q", Name: "write", Input: json.RawMessage(`{}`)},
		parley.ToolStarted{Call: "w", Name: "write", Input: json.RawMessage(`{}`), Effect: parley.EffectWrite, Attempt: 1},
		parley.ToolStarted{Call: "r", Name: "read", Input: json.RawMessage(`{}`), Effect: parley.EffectRead, Attempt: 1},
		parley.ModelStarted{Call: "c2", Model: "m", Reserved: parley.Usage{InputTokens: 7}},
		parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Kind: parley.KindPermission, Call: "q", Title: "May it?"}},
		parley.AgentPath(""), turn2, parley.TurnQueued{TurnRequest: asked("and this")},
	)[1:]...)
	got, err := read(write(t, events))
	if err != nil {
		t.Fatal(err)
	}
	var fold parley.Session
	outcomes := map[parley.CallID]parley.Outcome{}
	for _, e := range got.Events {
		if err := fold.Apply(e); err != nil {
			t.Fatal(err)
		}
		if p, _ := e.Payload(); e.Type == "tool.ended" {
			outcomes[p.(parley.ToolEnded).Call] = p.(parley.ToolEnded).Outcome
		}
	}
	if fold.Turn != nil || fold.Queue != nil || fold.Interactions != nil || fold.OpenTurns() != 0 {
		t.Errorf("still open: turn %v, queue %v, interactions %v", fold.Turn, fold.Queue, fold.Interactions)
	}
	want := map[parley.CallID]parley.Outcome{"w": parley.OutcomeUnknown, "r": parley.OutcomeCancelled, "q": parley.OutcomeCancelled}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if fold.Last == nil || fold.Last.Status != parley.StatusCancelled {
		t.Errorf("the open turn ended as %v, want cancelled", fold.Last)
	}
}

func TestRead_takes_nothing_that_gives_power(t *testing.T) {
	t.Parallel()
	request := asked("hello")
	request.Key = "key-1"
	rules := []parley.Rule{{Verdict: parley.Allow, Tool: "*"}}
	mode := parley.ModeBypassPermissions
	events := logOf(
		parley.SessionCreated{App: "chaos", User: "ana", OutsideID: "browser-1", Mode: mode},
		parley.SessionUpdated{Rules: &rules, Mode: &mode},
		turn1, parley.TurnStarted{TurnRequest: request},
		parley.ModelStarted{Call: "c1", Model: "m"},
		parley.ModelReplied{Call: "c1", Model: "m", State: json.RawMessage(`{"id":"x"}`), Parts: []parley.Part{{Type: parley.PartThinking, Text: "hm", Signature: json.RawMessage(`"sig"`)}}},
		parley.ToolRequested{Call: "w", Name: "write", Input: json.RawMessage(`{}`)},
		parley.ToolStarted{Call: "w", Name: "write", Input: json.RawMessage(`{}`), Effect: parley.EffectWrite, Grant: "i1", Attempt: 1},
		parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeOK}, Name: "write", Effect: parley.EffectWrite},
		parley.TurnCompleted{},
	)
	got, err := read(write(t, events))
	if err != nil {
		t.Fatal(err)
	}
	text := ndjson(got.Events)
	for _, secret := range []string{"key-1", "browser-1", `"rules"`, "bypassPermissions", `"state"`, `"signature"`, `"grant"`} {
		if strings.Contains(text, secret) {
			t.Errorf("the log read back still has %s", secret)
		}
	}
}

func TestFitInto_an_archive_widens_no_limit(t *testing.T) {
	t.Parallel()
	app := parley.App{Name: "home", Budgets: parley.Budgets{MaxSteps: 8, MaxUSD: 1}, MaxOpenTurns: 2}
	for _, c := range []struct {
		name       string
		have, want parley.Budgets
		open, fit  int
	}{
		{"none", parley.Budgets{}, app.Budgets, 0, 1},
		{"narrower", parley.Budgets{MaxSteps: 3}, parley.Budgets{MaxSteps: 3, MaxUSD: 1}, 1, 1},
		{"wider", parley.Budgets{MaxSteps: 3, MaxUSD: 1000}, app.Budgets, 90, 2},
		{"negative", parley.Budgets{MaxSteps: -1}, app.Budgets, -5, 1},
	} {
		s := archive.Session{Events: logOf(parley.SessionCreated{App: "chaos", Budgets: c.have, MaxOpenTurns: c.open})}
		if err := s.FitInto(app); err != nil {
			t.Fatal(err)
		}
		p, err := s.Events[0].Payload()
		if err != nil {
			t.Fatal(err)
		}
		got := p.(parley.SessionCreated)
		force := app.InForce()
		want := parley.SessionCreated{App: "home", Budgets: c.want, MaxOpenTurns: c.fit, InForce: &force}
		if diff := cmp.Diff(want, got); diff != "" || s.App != "home" {
			t.Errorf("%s: app %s (-want +got):\n%s", c.name, s.App, diff)
		}
	}
}

func TestRead_refuses(t *testing.T) {
	t.Parallel()
	good := finished()
	change := func(i int, f func(e *parley.Event)) string {
		events := slices.Clone(good)
		f(&events[i])
		return ndjson(events)
	}
	for _, c := range []struct {
		name string
		zip  []byte
		code parley.Code
		says string
	}{
		{"what_is_no_zip", []byte("hello"), parley.CodeInvalid, "not a zip file"},
		{"nothing", nil, parley.CodeInvalid, "not a zip file"},
		{"an_empty_zip", pack(t), parley.CodeInvalid, "neither"},
		{"a_path_that_climbs", pack(t, "../../etc/passwd", "x"), parley.CodeInvalid, "none of an exported session's"},
		{"a_path_that_climbs_inside", pack(t, "turns/../session.json", "{}"), parley.CodeInvalid, "none of an exported session's"},
		{"an_absolute_path", pack(t, "/session.json", "{}"), parley.CodeInvalid, "none of an exported session's"},
		{"a_windows_path", pack(t, `turns\x.json`, "{}"), parley.CodeInvalid, "none of an exported session's"},
		{"a_file_that_is_not_ours", pack(t, "run.sh", "x"), parley.CodeInvalid, "run.sh"},
		{"a_name_twice", pack(t, "events.ndjson", "", "events.ndjson", ""), parley.CodeInvalid, "twice"},
		{"no_events", pack(t, "events.ndjson", "\n\n"), parley.CodeInvalid, "no events"},
		{"events_that_are_no_json", pack(t, "events.ndjson", "hello\n"), parley.CodeInvalid, "not JSON"},
		{"bytes_that_are_no_utf8", pack(t, "events.ndjson", "{\"session\":\"\xff\"}\n"), parley.CodeInvalid, "not UTF-8"},
		{"a_gap", pack(t, "events.ndjson", ndjson(slices.Delete(slices.Clone(good), 4, 5))), parley.CodeInvalid, "event 5 is missing"},
		{"a_repeated_event", pack(t, "events.ndjson", ndjson(slices.Insert(slices.Clone(good), 4, good[3]))), parley.CodeInvalid, "event 5 is missing"},
		{"a_second_beginning", pack(t, "events.ndjson", change(3, func(e *parley.Event) {
			e.Type, e.Data = good[0].Type, good[0].Data
		})), parley.CodeInvalid, "session.created is the first"},
		{"another_beginning", pack(t, "events.ndjson", change(0, func(e *parley.Event) {
			e.Type, e.Data = "turn.interrupted", json.RawMessage(`{}`)
		})), parley.CodeInvalid, "session.created is the first"},
		{"events_of_two_sessions", pack(t, "events.ndjson", change(3, func(e *parley.Event) { e.Session = "01J5E5510N0000000000000001" })), parley.CodeInvalid, "another session"},
		{"an_unknown_type", pack(t, "events.ndjson", change(3, func(e *parley.Event) { e.Type = "turn.teleported" })), parley.CodeUpgradeRequired, "turn.teleported"},
		{"a_newer_version", pack(t, "events.ndjson", change(3, func(e *parley.Event) { e.V = 1 })), parley.CodeUpgradeRequired, "version 1"},
		{"a_payload_of_another_shape", pack(t, "events.ndjson", change(3, func(e *parley.Event) { e.Data = json.RawMessage(`{"call":7}`) })), parley.CodeInvalid, "cannot be read"},
		{"condensed_data", pack(t, "events.ndjson", change(3, func(e *parley.Event) { e.Data = nil })), parley.CodeCondensed, "condensed"},
		{"no_time", pack(t, "events.ndjson", change(3, func(e *parley.Event) { e.Time = time.Time{} })), parley.CodeInvalid, "no proper time"},
		{"only_empty_lines", pack(t, "events.ndjson", ndjson(good)+strings.Repeat("\n", 2000)), parley.CodeInvalid, "empty lines"},
		{"a_turn_id_that_is_none", pack(t, "events.ndjson", change(3, func(e *parley.Event) { e.Turn = "a/b" })), parley.CodeInvalid, "no proper turn id"},
		{"a_blob_of_other_bytes", pack(t, "events.ndjson", ndjson(good), "blobs/"+string(digest("a")), "b"), parley.CodeInvalid, "other bytes"},
		{"a_turn_under_another_name", pack(t, "session.json", `{"id":"01J5E5510N0000000000000000"}`, "turns/a.json", `{"id":"b"}`), parley.CodeInvalid, "another name"},
		{"a_status_that_is_none", pack(t, "session.json", `{"id":"01J5E5510N0000000000000000"}`, "turns/01JT0RN1000000000000000000.json", `{"id":"01JT0RN1000000000000000000","status":"dancing"}`), parley.CodeInvalid, "dancing"},
		{"an_artifact_that_is_not_there", pack(t, "session.json", `{"id":"01J5E5510N0000000000000000"}`, "turns/01JT0RN1000000000000000000.json", `{"id":"01JT0RN1000000000000000000","status":"completed","artifacts":[{"id":"01JART1FACT000000000000000","size":1}]}`), parley.CodeInvalid, "not in the archive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(c.zip)
			if got := parley.CodeOf(err); got != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %s %q, want %s and %q", got, err, c.code, c.says)
			}
		})
	}
}

func TestRead_stops_at_its_limits(t *testing.T) {
	t.Parallel()
	bomb := pack(t, "events.ndjson", ndjson(finished()), "artifacts/zeros", strings.Repeat("\x00", 4<<20))
	if len(bomb) > 64<<10 {
		t.Fatalf("the bomb is no bomb: %d bytes", len(bomb))
	}
	large := pack(t, "events.ndjson", ndjson(finished()), "artifacts/zeros", strings.Repeat("\x00", 17<<20))
	unreadable := slices.Clone(bomb)
	copy(unreadable[100:], "this is no deflated data any more")
	if _, err := read(unreadable); parley.CodeOf(err) != parley.CodeInvalid {
		t.Fatalf("it can be unpacked: %v", err)
	}
	many := []string{"events.ndjson", ndjson(finished())}
	for _, c := range "abcdefgh" {
		many = append(many, "artifacts/"+string(c), "x")
	}
	for _, c := range []struct {
		name  string
		zip   []byte
		limit archive.Limits
	}{
		{"unpacked_bytes", bomb, archive.Limits{Bytes: 1 << 20}},
		{"more_than_so_small_a_file_can_hold", large, archive.Limits{}},
		{"what_it_says_itself,_before_it_is_unpacked", unreadable, archive.Limits{Bytes: 1 << 20}},
		{"the_log", pack(t, "events.ndjson", strings.Repeat("\n", 900)+`{"session":"`+strings.Repeat("x", 1<<20)), archive.Limits{Log: 1 << 10}},
		{"what_is_kept", pack(t, "session.json", "{}", "artifacts/01K00000000000000000000000", strings.Repeat("x", 2<<20)), archive.Limits{Kept: 1 << 20}},
		{"files", pack(t, many...), archive.Limits{Files: 8}},
		{"one_event", pack(t, "events.ndjson", `{"session":"`+strings.Repeat("x", 1<<20)), archive.Limits{Event: 1 << 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := archive.Read(bytes.NewReader(c.zip), int64(len(c.zip)), c.limit)
			if got := parley.CodeOf(err); got != parley.CodeTooLarge {
				t.Errorf("got %s (%v), want too_large", got, err)
			}
		})
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
	if got.Status != "running" { // these files know no waiting
		t.Errorf("a turn that waits: got %q, want running", got.Status)
	}
	if !strings.Contains(files["session.json"], `"openContinuations": [
  "`+string(turn3)+`"
 ]`) {
		t.Errorf("session.json does not list the open turn:\n%s", files["session.json"])
	}
}

// TestWrite_says_that_the_queue_is_held, as long as it is: not while nothing is queued,
// and not once a command has let it go on.
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

func FuzzRead(f *testing.F) {
	f.Add([]byte(ndjson(finished())), []byte("{}"), []byte("{}"))
	f.Add([]byte{}, []byte(`{"id":"01J5E5510N0000000000000000","createdAt":1}`), []byte(`{"id":"01JT0RN1000000000000000000","status":"completed","request":{"message":"x"}}`))
	f.Fuzz(func(t *testing.T, events, session, turn []byte) {
		files := []string{"session.json", string(session), "turns/01JT0RN1000000000000000000.json", string(turn)}
		if len(events) > 0 {
			files = append(files, "events.ndjson", string(events))
		}
		s, err := read(pack(t, files...))
		if err != nil {
			if _, ok := err.(*parley.Error); !ok {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		var fold parley.Session
		for _, e := range s.Events {
			if err := fold.Apply(e); err != nil {
				t.Fatalf("what was read cannot be folded: %v", err)
			}
		}
		if fold.Turn != nil || fold.OpenTurns() != 0 {
			t.Fatal("something is still open")
		}
		again := source(s.Events)
		again.Artifact = func(context.Context, parley.ArtifactID) ([]byte, error) { return nil, nil }
		var b bytes.Buffer
		if err := archive.Write(context.Background(), &b, again); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := read(b.Bytes()); err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
	})
}

func FuzzRead_zip(f *testing.F) {
	f.Add(write(f, finished()))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := archive.Read(bytes.NewReader(b), int64(len(b)), archive.Limits{Bytes: 1 << 20, Files: 100, Event: 1 << 16})
		if _, ok := err.(*parley.Error); err != nil && !ok {
			t.Fatalf("an error without a code: %v", err)
		}
	})
}
