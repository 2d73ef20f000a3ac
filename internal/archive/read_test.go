package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
)

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

// TestWrite_a_rewound_session: session.json has the messages that count, and names the turns that were
// taken back. A log that is rebuilt from these files does not have them. One that is read whole has
// everything.
func TestWrite_a_rewound_session(t *testing.T) {
	t.Parallel()
	events := finished()
	to := int64(len(events))
	events = logOf(append(payloads(events),
		turn2, parley.TurnStarted{TurnRequest: asked("and then?")},
		parley.TurnCompleted{Response: parley.Response{Message: "Deploy it."}},
		parley.TurnID(""), parley.SessionRewound{Rewind: parley.Rewind{ID: "r", What: parley.RewindBoth, To: to, Turn: turn2}, Memory: &parley.Remembered{Since: 1}},
		turn3, parley.TurnStarted{TurnRequest: asked("in short?")},
		parley.TurnCompleted{Response: parley.Response{Message: "Google."}},
	)...)
	files := unpack(t, write(t, events))
	var s struct {
		Messages []struct{ ContinuationID string }
		Rewound  []string
		Memory   struct{ LastK []struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(files["session.json"]), &s); err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, m := range s.Messages {
		of = append(of, m.ContinuationID)
	}
	if want := []string{string(turn1), string(turn1), string(turn3), string(turn3)}; !slices.Equal(of, want) || !slices.Equal(s.Rewound, []string{string(turn2)}) || len(s.Memory.LastK) != 4 {
		t.Errorf("got %+v", s)
	}
	whole, err := read(write(t, events))
	if err != nil || len(whole.Events) != len(events) {
		t.Errorf("read whole: %d events, %v", len(whole.Events), err)
	}
	pairs := []string{"artifacts/" + string(artifact.ID), report}
	for name, body := range files {
		if name == "session.json" || strings.HasPrefix(name, "turns/") {
			pairs = append(pairs, name, body)
		}
	}
	got, err := read(pack(t, pairs...))
	if err != nil {
		t.Fatal(err)
	}
	var view parley.Transcript
	for _, e := range got.Events {
		view.Apply(e)
	}
	if len(view.Turns) != 2 || view.Turns[0].ID != turn1 || view.Turns[1].ID != turn3 {
		t.Errorf("rebuilt: %+v", view.Turns)
	}
}

// payloads takes a log apart, for logOf.
func payloads(events []parley.Event) (list []any) {
	for _, e := range events {
		p, err := e.Payload()
		if err != nil {
			panic(err)
		}
		list = append(list, e.Turn, e.Agent, p)
	}
	return append(list, parley.AgentPath(""))
}

func TestRead_closes_what_was_open(t *testing.T) {
	t.Parallel()
	events := append(finished()[:1:1], logOf(
		parley.SessionCreated{}, // the real one replaces it
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
		{"a_path_that_climbs", pack(t, "../../etc/passwd", "x"), parley.CodeInvalid, "does not belong to an exported session"},
		{"a_path_that_climbs_inside", pack(t, "turns/../session.json", "{}"), parley.CodeInvalid, "does not belong to an exported session"},
		{"an_absolute_path", pack(t, "/session.json", "{}"), parley.CodeInvalid, "does not belong to an exported session"},
		{"a_windows_path", pack(t, `turns\x.json`, "{}"), parley.CodeInvalid, "does not belong to an exported session"},
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
		t.Fatalf("the bomb is only %d bytes", len(bomb))
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
				t.Fatalf("the events read cannot be folded: %v", err)
			}
		}
		if fold.Turn != nil || fold.OpenTurns() != 0 {
			t.Fatal("something is still open")
		}
		again := source(s.Events)
		again.Artifact = func(context.Context, parley.ArtifactID) ([]byte, error) { return nil, nil }
		var b bytes.Buffer
		if err := archive.Write(context.Background(), &b, again); err != nil {
			t.Fatalf("the value read cannot be written: %v", err)
		}
		if _, err := read(b.Bytes()); err != nil {
			t.Fatalf("the value read cannot be written and read again: %v", err)
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
