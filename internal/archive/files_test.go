package archive_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
)

// numbered numbers the events of a log that was put together from parts.
func numbered(events []parley.Event) []parley.Event {
	for i := range events {
		events[i].Seq = int64(i + 1)
	}
	return events
}

// condensed is a log of three turns in which retention removed the steps of the first. An early version
// kept a whole state of the removed part.
func condensed(t *testing.T, early bool) []parley.Event {
	t.Helper()
	events := finished()
	var base parley.Session
	var turns parley.Condensing
	for _, e := range events {
		if err := errors.Join(base.Apply(e), turns.Apply(e)); err != nil {
			t.Fatal(err)
		}
	}
	to := base.Seq
	h := parley.HistoryCondensed{From: 1, To: to, Turns: turns.Turns}
	if early {
		raw, err := json.Marshal(base)
		if err != nil {
			t.Fatal(err)
		}
		h = parley.HistoryCondensed{From: 1, To: to, Base: raw, Version: 4}
	}
	events = numbered(append(events, logOf(parley.SessionCreated{},
		turn2, parley.TurnStarted{TurnRequest: asked("and then?")},
		parley.TurnFailed{Error: parley.ErrorInfo{Code: parley.CodeTimeout, Message: "it took too long"}},
		parley.TurnID(""), h,
		turn3, parley.TurnStarted{TurnRequest: asked("again")}, parley.TurnCompleted{Response: parley.Response{Message: "It is done."}},
	)[1:]...))
	for i := range events[:to] {
		if parley.IsStep(events[i].Type) {
			events[i] = events[i].WithData(nil)
		}
	}
	return events
}

// TestWrite_a_condensed_session: the condensed steps of a turn are missing, and nothing else is.
func TestWrite_a_condensed_session(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"now": false, "by an early version": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writeCondensed(t, early)
		})
	}
}

// TestWrite_a_newer_event: events of a newer version are shown as far as they are understood. The session
// is not driven.
func TestWrite_a_newer_event(t *testing.T) {
	t.Parallel()
	events := finished()
	newer := parley.Event{Session: sid, Turn: turn1, Time: events[3].Time, Type: "model.pondered", Data: json.RawMessage(`{"x":1}`)}
	later := events[4]
	later.Type, later.V, later.Data = "interaction.opened", 7, json.RawMessage(`{"y":[]}`)
	events = numbered(slices.Insert(events, 4, newer, later))
	zip := write(t, events)
	files := unpack(t, zip)
	if log := files["events.ndjson"]; !strings.Contains(log, `"type":"model.pondered","data":{"x":1}}`) || strings.Count(log, "\n") != len(events) {
		t.Errorf("the log in the export:\n%s", log)
	}
	for _, name := range []string{"session.json", "turns/" + string(turn1) + ".json"} {
		was := unpack(t, write(t, finished()))[name]
		if name == "session.json" {
			was = strings.Replace(was, fmt.Sprintf(`"version": %d`, len(events)-2), fmt.Sprintf(`"version": %d`, len(events)), 1)
		}
		if diff := cmp.Diff(was, files[name]); diff != "" {
			t.Errorf("%s (-without +with):\n%s", name, diff)
		}
	}
	if _, err := read(zip); parley.CodeOf(err) != parley.CodeUpgradeRequired || !strings.Contains(err.Error(), "model.pondered") {
		t.Errorf("an import: %v", err)
	}
}

func writeCondensed(t *testing.T, early bool) {
	t.Helper()
	zip := write(t, condensed(t, early))
	files := unpack(t, zip)
	var turn struct {
		Status   string
		Response struct{ FinalMessage string }
		StepLog  []any
	}
	if err := json.Unmarshal([]byte(files["turns/"+string(turn1)+".json"]), &turn); err != nil {
		t.Fatal(err)
	}
	if turn.Status != "completed" || turn.Response.FinalMessage != "Google OAuth only." || len(turn.StepLog) != 0 {
		t.Errorf("the condensed turn is %+v", turn)
	}
	var session struct {
		Messages []any
		Version  int64
		Stats    map[string]float64
	}
	if err := json.Unmarshal([]byte(files["session.json"]), &session); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"turns": 3, "steps": 2, "toolCalls": 1, "tokens": 36, "costUsd": 0}
	if diff := cmp.Diff(want, session.Stats); diff != "" || len(session.Messages) != 5 || session.Version != 18 {
		t.Errorf("version %d, %d messages, stats (-want +got):\n%s", session.Version, len(session.Messages), diff)
	}
	got, err := read(zip) // read from the turns, since the log is not complete
	if err != nil {
		t.Fatal(err)
	}
	var view parley.Transcript
	for _, e := range got.Events {
		view.Apply(e)
	}
	var answers []string
	for _, v := range view.Turns {
		answers = append(answers, v.Answer)
	}
	if diff := cmp.Diff([]string{"Google OAuth only.", "", "It is done."}, answers); diff != "" {
		t.Errorf("answers of the session that was read back (-want +got):\n%s", diff)
	}
}

// TestFiles_a_turn_that_did_not_end_well_says_why_in_its_last_step: the turn's end is a step, as on the
// wire.
func TestFiles_a_turn_that_did_not_end_well_says_why_in_its_last_step(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  parley.Payload
		want string
	}{
		"failed":      {parley.TurnFailed{Error: parley.ErrorInfo{Code: parley.CodeTimeout, Message: "too long"}}, `{"code":"timeout","message":"too long"}`},
		"cancelled":   {parley.TurnCancelled{Reason: "enough"}, `{"code":"cancelled","message":"the turn was cancelled: enough"}`},
		"expired":     {parley.TurnExpired{}, `{"code":"expired","message":"the turn expired"}`},
		"interrupted": {parley.TurnInterrupted{Reason: "restart"}, `{"code":"interrupted","message":"the turn was interrupted: restart"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := logOf(parley.SessionCreated{App: "home"}, turn1, parley.TurnStarted{TurnRequest: asked("x")}, c.end)
			got := unpack(t, write(t, events))["logs/"+string(turn1)+".log"]
			ts := events[2].Time.UnixMilli()
			want, err := json.Marshal(map[string]any{"ts": ts, "type": "error", "detail": json.RawMessage(c.want)})
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal(want, &b) != nil || !cmp.Equal(a, b) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestFiles_what_was_seen_and_who_took_over_are_steps: observations, transfers and failures are among a
// turn's steps, in the form that the wire has at /events.
func TestFiles_what_was_seen_and_who_took_over_are_steps(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 9, 0, 1, 500e6, time.UTC)
	events := logOf(parley.SessionCreated{App: "home"}, turn1, parley.TurnStarted{TurnRequest: asked("x")},
		parley.ContextObserved{Source: "homeassistant", Ref: "light.garden", Text: "off → on", At: at},
		parley.AgentPath("assistant"),
		parley.ContextTransferred{From: "a/b", To: "c/d", Text: "the story so far"},
		parley.ModelFailed{Call: "c1", Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "overloaded"}, Retry: true, Fallback: "e/f"})
	var got []any
	for line := range strings.Lines(unpack(t, write(t, events))["logs/"+string(turn1)+".log"]) {
		var one any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		got = append(got, one)
	}
	ts := func(i int) float64 { return float64(events[i].Time.UnixMilli()) }
	want := []any{
		step(ts(2), "observed_event", map[string]any{"source": "homeassistant", "entity": "light.garden", "text": "off → on", "at": float64(at.UnixMilli())}),
		step(ts(3), "summary", map[string]any{"agent": "assistant", "from": "a/b", "to": "c/d", "text": "the story so far"}),
		step(ts(4), "error", map[string]any{"agent": "assistant", "callId": "c1", "code": "unavailable", "message": "overloaded", "retry": true, "fallback": "e/f"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the step log (-want +got):\n%s", diff)
	}
}

// TestFiles_lines_that_are_appended_are_those_of_the_whole: lines that are appended as they come are in the
// end the same as those of an export.
func TestFiles_lines_that_are_appended_are_those_of_the_whole(t *testing.T) {
	t.Parallel()
	f := archive.NewFiles(parley.Condensed{})
	var log strings.Builder
	lines := 0
	var last *archive.Turn
	for _, e := range finished() {
		turn, err := f.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		if turn == nil {
			continue
		}
		more, err := turn.Log(lines)
		if err != nil {
			t.Fatal(err)
		}
		log.Write(more)
		lines, last = turn.Steps(), turn
	}
	files := unpack(t, write(t, finished()))
	record, err := last.Record()
	if err != nil {
		t.Fatal(err)
	}
	session, err := f.Session()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{archive.LogFile(turn1): log.String(), archive.TurnFile(turn1): string(record), archive.SessionFile: string(session)}
	for name, text := range got {
		if files[name] != text {
			t.Errorf("%s differs:\n%s", name, cmp.Diff(files[name], text))
		}
	}
	if !last.Ended() || len(f.Open()) != 0 || !slices.Equal(f.Artifacts(), []parley.ArtifactRef{artifact}) {
		t.Errorf("ended %t, %d open, artifacts %v", last.Ended(), len(f.Open()), f.Artifacts())
	}
}

func TestFiles_a_gap_is_an_error(t *testing.T) {
	t.Parallel()
	f := archive.NewFiles(parley.Condensed{})
	if _, err := f.Apply(finished()[1]); parley.CodeOf(err) != parley.CodeInternal {
		t.Errorf("the second event first: %v", err)
	}
	e := parley.NewEvent("", "", parley.ModelStarted{})
	e.Session, e.Seq, e.Time = sid, 1, time.Unix(0, 0)
	if _, err := f.Apply(e.WithData(nil)); parley.CodeOf(err) != parley.CodeCondensed {
		t.Errorf("a condensed event without kept data: %v", err)
	}
}
