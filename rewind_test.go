package parley_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// foldTo folds a log up to a number.
func foldTo(t testing.TB, events []parley.Event, to int64) (s parley.Session) {
	t.Helper()
	for _, e := range events {
		if e.Seq > to {
			break
		}
		if err := s.Apply(e.WithData(e.Data)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// rewind adds a rewind to a tape, with what the fold has to know again.
func (l *tape) rewind(t testing.TB, p parley.SessionRewound) *tape {
	t.Helper()
	seq := int64(len(l.events)) + 1
	if p.What.Conversation() {
		p.Memory = foldTo(t, l.events, seq).Remember(seq, p.Rewind, foldTo(t, l.events, p.To))
	}
	return l.add("", "", p)
}

// turn adds a whole turn.
func (l *tape) turn(id parley.TurnID, question, answer string) *tape {
	return l.asks(id, ask(question), answer)
}

func (l *tape) asks(id parley.TurnID, r parley.TurnRequest, answer string) *tape {
	return l.add(id, "", parley.TurnStarted{TurnRequest: r, App: "d1"}).
		add(id, in, parley.AgentStarted{Name: "interface"}).
		add(id, in, parley.ModelStarted{Call: parley.CallID("c" + string(id)), Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(id, in, parley.ModelReplied{Call: parley.CallID("c" + string(id)), Model: "m", Parts: text(answer), Usage: used(10, 1), State: json.RawMessage(`{"at":"` + answer + `"}`)}).
		add(id, "", parley.TurnCompleted{Response: parley.Response{Message: answer}, Usage: used(10, 1)})
}

// rewound is a session that was rewound, went on, was rewound again with its files and had that undone.
func rewoundLog(t testing.TB, l *tape) {
	t3, t4 := parley.TurnID("01JTURN0000000000000000003"), parley.TurnID("01JTURN0000000000000000004")
	l.turn(t1, "one", "1").turn(t2, "two", "2")
	l.rewind(t, parley.SessionRewound{
		Rewind:  parley.Rewind{ID: "01JREWIND00000000000000001", What: parley.RewindConversation, To: 6, Turn: t2, By: "local", Client: "api"},
		Files:   []parley.FileRewound{{Path: "a.md", Outcome: parley.FileLeft, Why: "only the conversation is taken back", Before: "d2", After: "d3"}},
		Effects: []parley.EffectLeft{{Call: "k1", Turn: t2, Tool: "mail", Text: `{"text":"x"}`, Outcome: parley.OutcomeOK}},
	})
	l.add(t4, "", parley.TurnQueued{TurnRequest: ask("four")})
	l.turn(t3, "three", "3")
	back := parley.Rewind{ID: "01JREWIND00000000000000002", What: parley.RewindBoth, To: 1, Turn: t1, By: "local"}
	l.add("", "", parley.SessionRewinding{Rewind: back})
	l.rewind(t, parley.SessionRewound{Rewind: back, Files: []parley.FileRewound{{Path: "a.md", Outcome: parley.FileRestored, Before: "d3"}}})
	at := int64(len(l.events))
	l.rewind(t, parley.SessionRewound{Rewind: parley.Rewind{ID: "01JREWIND00000000000000003", What: parley.RewindBoth, To: at - 1, Undoes: at, By: "local"}})
}

// TestRewind follows what is skipped, and what prompts know, through rewinds that are taken back.
func TestRewind(t *testing.T) {
	t.Parallel()
	l := newTape()
	rewoundLog(t, l)
	var s parley.Session
	var view parley.Transcript
	type seen struct {
		Known []string // what prompts know
		Shown []string // the turns that are not taken back
		Taken bool
	}
	var got []seen
	for _, e := range l.events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		view.Apply(e)
		if e.Type != "session.rewound" && e.Type != "turn.completed" {
			continue
		}
		now := seen{Taken: s.Taken != nil}
		for _, x := range s.History {
			now.Known = append(now.Known, x.Reply)
		}
		for _, v := range view.Turns {
			if v.Rewound == 0 {
				now.Shown = append(now.Shown, v.Message)
			}
			if v.Rewound != s.Skipped(v.Seq) && v.Status != parley.StatusPending {
				t.Errorf("after event %d, turn %q is taken back by %d, and by %d in the session", e.Seq, v.Message, v.Rewound, s.Skipped(v.Seq))
			}
		}
		got = append(got, now)
		if e.Type == "session.rewound" && (s.Provider != nil || s.Kept != nil) {
			t.Errorf("after event %d the state of a provider or runtime is left", e.Seq)
		}
	}
	want := []seen{
		{Known: []string{"1"}, Shown: []string{"one"}},
		{Known: []string{"1", "2"}, Shown: []string{"one", "two"}},
		{Known: []string{"1"}, Shown: []string{"one"}, Taken: true},
		{Known: []string{"1", "3"}, Shown: []string{"one", "four", "three"}}, // "four" waits
		{Shown: []string{"four"}},
		{Known: []string{"1", "3"}, Shown: []string{"one", "four", "three"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.History[1].Taken == nil || s.History[1].Taken.Effects[0].Tool != "mail" || !slices.Equal(s.History[1].Taken.Files, []string{"a.md"}) {
		t.Errorf("the turn after the rewind was told %+v", s.History[1].Taken)
	}
	if last, _ := s.LastRewind(); last.Seq != s.Seq || !s.QueueHeld() || s.Totals.Turns != 3 || s.Rewinding != nil || s.Info().Rewound == nil {
		t.Errorf("the session is %+v", s.Info())
	}
}

// TestRewindRemembers rewinds random sessions to random points, and undoes some of that. Then the
// session knows exactly what it knew there, and the transcript shows the same turns.
func TestRewindRemembers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(80) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		l := newTape()
		l.events = nil
		created := parley.SessionCreated{App: "a", User: "local", MaxOpenTurns: 4}
		if rnd.IntN(2) == 0 {
			created.Memory.LastK = 1 // it keeps five exchanges
		}
		l.add("", "", created)
		rewinds := []int64{}
		for n := range 40 {
			s := foldTo(t, l.events, int64(len(l.events)))
			id := parley.TurnID(fmt.Sprintf("01JTURN%019d", n))
			word := fmt.Sprint("word ", n)
			switch rnd.IntN(10) {
			case 0:
				l.add("", "", parley.MemoryUpdated{Pins: &[]parley.Pin{{Label: "p", Text: word}}})
			case 1:
				if len(s.History) > 0 {
					u := parley.MemoryUpdated{Summary: &word, Facts: &[]parley.Fact{{Text: word}}, Through: s.History[rnd.IntN(len(s.History))].Seq}
					l.add("", "", u)
				}
			case 2:
				if len(s.History) > 0 {
					l.add("", "", parley.ContextCompacted{Through: s.History[0].Seq})
				}
			case 3, 4:
				what := []parley.RewindWhat{parley.RewindBoth, parley.RewindConversation, parley.RewindFiles}[rnd.IntN(3)]
				var r parley.Rewind
				if len(rewinds) > 0 && rnd.IntN(2) == 0 {
					last := rewinds[rnd.IntN(len(rewinds))]
					r = parley.Rewind{What: what, To: last - 1, Undoes: last}
				} else {
					var begun []int64
					for _, e := range l.events {
						if e.Type == "turn.started" {
							begun = append(begun, e.Seq-1)
						}
					}
					if begun == nil {
						continue
					}
					r = parley.Rewind{What: what, To: begun[rnd.IntN(len(begun))]}
				}
				if s.Skipped(r.To) != 0 && s.Skipped(r.To+1) != 0 {
					continue // it was taken back
				}
				l.rewind(t, parley.SessionRewound{Rewind: r})
				rewinds = append(rewinds, int64(len(l.events)))
				if r.What == parley.RewindFiles {
					continue
				}
				got, then := foldTo(t, l.events, int64(len(l.events))), foldTo(t, l.events, r.To)
				if diff := cmp.Diff(knows(then), knows(got)); diff != "" {
					t.Fatalf("seed %d, event %d, back to %d (-then +now):\n%s", seed, len(l.events), r.To, diff)
				}
				if a, b := shown(l.events[:r.To]), shown(l.events); !slices.Equal(a, b) {
					t.Fatalf("seed %d, event %d, back to %d: shown were %v, and now are %v", seed, len(l.events), r.To, a, b)
				}
			case 5:
				if s.Last != nil {
					l.asks(id, withRetry(ask("again "+word), s.Last.ID), word)
				}
			default:
				l.turn(id, "question "+word, word)
			}
		}
	}
}

// knows is what prompts are made of.
func knows(s parley.Session) any {
	return struct {
		Summary string
		Facts   []parley.Fact
		Pins    []parley.Pin
		History []parley.Exchange
		Bytes   int
		Preview string
		Last    *parley.TurnRef
		Answers map[string]string
	}{s.Summary, append([]parley.Fact{}, s.Facts...), append([]parley.Pin{}, s.Pins...), append([]parley.Exchange{}, s.History...), s.HistoryBytes, s.Preview, s.Last, s.Answered}
}

func shown(events []parley.Event) (list []string) {
	var v parley.Transcript
	for _, e := range events {
		v.Apply(e)
	}
	for _, t := range v.Turns {
		if t.Rewound == 0 {
			list = append(list, t.Message)
		}
	}
	return list
}

// TestRewindRefused: a log that rewinds to where it cannot is not folded.
func TestRewindRefused(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]parley.SessionRewound{
		"before the first event": {Rewind: parley.Rewind{What: parley.RewindBoth}},
		"to itself":              {Rewind: parley.Rewind{What: parley.RewindBoth, To: 7}},
		"to what is to come":     {Rewind: parley.Rewind{What: parley.RewindBoth, To: 70}},
	} {
		l := newTape().turn(t1, "one", "1").add("", "", p)
		s := foldTo(t, l.events, 6)
		if err := s.Apply(l.events[6]); parley.CodeOf(err) != parley.CodeInvalid || s.Seq != 6 {
			t.Errorf("%s: %v, at %d", name, err, s.Seq)
		}
	}
	l := start(newTape(), t1, "one").add("", "", parley.SessionRewound{Rewind: parley.Rewind{What: parley.RewindBoth, To: 1}})
	s := foldTo(t, l.events, 4)
	if err := s.Apply(l.events[4]); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("while a turn is open: %v", err)
	}
}

// TestTakenBackIsBounded: what prompts say about rewinds does not grow with their number.
func TestTakenBackIsBounded(t *testing.T) {
	t.Parallel()
	l := newTape().turn(t1, "one", "1")
	for i := range 40 {
		p := parley.SessionRewound{Rewind: parley.Rewind{What: parley.RewindFiles, To: 1}, EffectsMore: 1}
		for j := range 10 {
			p.Effects = append(p.Effects, parley.EffectLeft{Call: parley.CallID(fmt.Sprint(i, "-", j)), Tool: "mail", Outcome: parley.OutcomeOK})
			p.Files = append(p.Files, parley.FileRewound{Path: fmt.Sprint(i, "-", j), Outcome: parley.FileRestored})
		}
		l.add("", "", p)
	}
	s := foldTo(t, l.events, int64(len(l.events)))
	if k := s.Taken; len(k.Effects) != 50 || k.EffectsMore != 350+40 || len(k.Files) != 50 || k.FilesMore != 350 {
		t.Errorf("%d effects and %d more, %d files and %d more", len(k.Effects), k.EffectsMore, len(k.Files), k.FilesMore)
	}
}
