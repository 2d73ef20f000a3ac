package parley_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

func FuzzEventJSON(f *testing.F) {
	f.Add("01J", "t", "a/b#2", "turn.started", `{"a":"<&>"}`, int64(1700000000123))
	f.Add("\x00\u2028\xff\"\\", "", "", "x", `null`, int64(0))
	f.Fuzz(func(t *testing.T, session, turn, agent, kind, data string, ms int64) {
		if !json.Valid([]byte(data)) || ms < 0 || ms > 1<<42 {
			t.Skip() // an event's data is JSON, its time of our age
		}
		e := parley.Event{
			Session: parley.SessionID(session), Seq: 7, Turn: parley.TurnID(turn), Agent: parley.AgentPath(agent),
			Time: parley.Now(time.UnixMilli(ms)), Type: parley.EventType(kind), Data: json.RawMessage(data),
		}
		var read parley.Event
		if err := json.Unmarshal(e.AppendJSON(nil), &read); err != nil {
			t.Fatalf("%s: %v", e.AppendJSON(nil), err)
		}
		plain, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var want parley.Event
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		read.Data, want.Data = nil, nil // the standard encoder rewrites white space and HTML in Data
		if !read.Equal(want) {
			t.Errorf("got %+v, want %+v", read, want)
		}
		d := parley.Delta{Session: e.Session, Turn: e.Turn, Agent: e.Agent, Call: "c", Kind: "thinking", N: 3, Text: data}
		var back parley.Delta
		if err := json.Unmarshal(d.AppendJSON(nil), &back); err != nil {
			t.Fatal(err)
		}
		if plain, _ = json.Marshal(d); plain != nil {
			var want parley.Delta
			_ = json.Unmarshal(plain, &want)
			if diff := cmp.Diff(want, back); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// TestCloneIsIndependent advances a clone to the end of every log from every
// prefix, and finds the original as it was.
func TestCloneIsIndependent(t *testing.T) {
	t.Parallel()
	for name, events := range logs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for cut := range events {
				var s parley.Session
				apply(t, &s, events[:cut])
				before := string(indent(t, s))
				one, two := s.Clone(), s.Clone()
				apply(t, one, events[cut:])
				apply(t, two, events[cut:])
				if after := string(indent(t, s)); after != before {
					t.Fatalf("a clone of %d events changed its original:\n%s", cut, cmp.Diff(before, after))
				}
				if diff := cmp.Diff(string(indent(t, one)), string(indent(t, two))); diff != "" {
					t.Fatalf("two clones of %d events differ: %s", cut, diff)
				}
			}
		})
	}
}

// TestStoredFold stores and reads back the fold at every event, and goes on.
func TestStoredFold(t *testing.T) {
	t.Parallel()
	for name, events := range logs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var whole parley.Session
			apply(t, &whole, events)
			for cut := range events {
				var s, stored parley.Session
				apply(t, &s, events[:cut])
				raw, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(raw, &stored); err != nil {
					t.Fatal(err)
				}
				apply(t, &stored, events[cut:])
				if diff := cmp.Diff(string(indent(t, whole)), string(indent(t, stored))); diff != "" {
					t.Fatalf("stored at %d (-whole +stored):\n%s", cut, diff)
				}
			}
		})
	}
}

func apply(t *testing.T, s *parley.Session, events []parley.Event) {
	t.Helper()
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	var s parley.Session
	events := logs(t)["demo"]
	apply(t, &s, events[:3])
	if err := s.Apply(events[4]); err == nil || s.Seq != 3 {
		t.Errorf("a gap was accepted: %v, seq %d", err, s.Seq)
	}
	unknown := events[3]
	unknown.Type = "grant.revoked"
	if err := s.Apply(unknown); parley.CodeOf(err) != parley.CodeUpgradeRequired || s.Seq != 3 {
		t.Errorf("an unknown type: %v, seq %d", err, s.Seq)
	}
	newer := events[3].WithData(events[3].Data)
	newer.V = 1
	if err := s.Apply(newer); parley.CodeOf(err) != parley.CodeUpgradeRequired {
		t.Errorf("a newer payload: %v", err)
	}
	var v parley.Transcript
	for _, e := range []parley.Event{events[0], events[1], events[2], unknown} {
		v.Apply(e)
	}
	if v.Seq != 4 || len(v.Turns) != 1 {
		t.Errorf("a view must carry unknown events along: seq %d, %d turns", v.Seq, len(v.Turns))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	l := newTape()
	l.events[0] = parley.NewEvent("", "", parley.SessionCreated{App: "home", User: "u", Memory: parley.MemoryOptions{LastK: 6}})
	l.events[0].Session, l.events[0].Seq = l.session, 1
	big := strings.Repeat("x", 200_000)
	for i := range 30 {
		turn := parley.TurnID(rune('a' + i))
		l.add(turn, "", parley.TurnStarted{TurnRequest: ask(big)}).add(turn, "", parley.TurnCompleted{Response: parley.Response{Message: big}})
	}
	var s parley.Session
	apply(t, &s, l.events)
	if len(s.History) > 3 || s.HistoryBytes > parley.MaxHistoryBytes || s.Totals.Turns != 30 {
		t.Errorf("%d exchanges of %d bytes after %d turns", len(s.History), s.HistoryBytes, s.Totals.Turns)
	}
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	app := parley.Budgets{MaxSteps: 8, MaxUSD: 1}
	got, err := app.Narrow(parley.Budgets{MaxSteps: 4, MaxTotalTokens: 10})
	if want := (parley.Budgets{MaxSteps: 4, MaxUSD: 1, MaxTotalTokens: 10}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	_, err = app.Narrow(parley.Budgets{MaxSteps: 9})
	if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeInvalid || e.Field != "budgets.max_steps" {
		t.Errorf("wider steps: %v", err)
	}
	if _, err = app.Narrow(parley.Budgets{MaxUSD: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	if (parley.Principal{}).Owns("", "") {
		t.Error("the zero principal owns what nobody owns")
	}
	if !parley.System().Owns("a", "b") || parley.Local.Owns("local", "org") {
		t.Error("ownership is by user and org, and the system sees all")
	}
	var p parley.Principal
	_ = json.Unmarshal([]byte(`{"user":"system","system":true}`), &p)
	if p.IsSystem() {
		t.Error("the system principal came from JSON")
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"  two\n\nlines \t", 20, "two lines"},
		{"äöüß€", 3, "äö…"},
		{"", 3, ""},
	} {
		if got := parley.Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk")
	err := error(parley.Errorf(parley.CodeUnavailable, "no room: %w", cause).WithHint("free some").WithRetry(time.Second))
	if !errors.Is(err, cause) || !errors.Is(err, &parley.Error{Code: parley.CodeUnavailable}) || errors.Is(err, parley.ErrNotFound) {
		t.Errorf("%v does not compare", err)
	}
	if diff := cmp.Diff(parley.ErrorInfo{Code: "unavailable", Message: "no room: disk", Hint: "free some", RetryAfterMS: 1000}, parley.Info(err)); diff != "" {
		t.Error(diff)
	}
	if in := parley.Info(errors.New("secret path /x")); strings.Contains(in.Message, "secret") {
		t.Errorf("a foreign error was shown: %+v", in)
	}
}

func BenchmarkApply(b *testing.B) {
	events := logs(b)["demo"]
	for b.Loop() {
		var s parley.Session
		for _, e := range events {
			_ = s.Apply(e)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e := logs(b)["demo"][3]
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = e.AppendJSON(dst[:0])
	}
}
