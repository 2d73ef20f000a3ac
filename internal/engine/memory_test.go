package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

func remembering(a *parley.App) {
	a.Memory = parley.MemoryOptions{LastK: 6, SummaryTokens: 300}
}

// reader answers only from its prompt: it says which of the words of "note …" messages are in
// it. As the memory agent it keeps notes as facts.
func reader(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	text := r.System
	for _, m := range r.Messages {
		text += "\n" + m.Text()
	}
	if r.Agent == parley.MemoryAgent {
		type fact struct {
			Text   string `json:"text"`
			Source string `json:"source"`
		}
		facts := []fact{}
		for _, line := range strings.Split(text, "\n") {
			if _, note, ok := strings.Cut(line, "remember "); ok {
				note, _, _ = strings.Cut(note, " [")
				facts = append(facts, fact{Text: "remember " + note, Source: "the user"})
			}
		}
		raw, err := json.Marshal(map[string]any{"summary": "The user counts.", "facts": facts})
		if err != nil {
			return seam.Reply{}, err
		}
		say("Here it is:\n" + string(raw))
		return seam.Reply{Usage: parley.Usage{InputTokens: int64(len(text)), OutputTokens: 10}}, nil
	}
	if strings.Contains(text, "remember the number 4711") {
		say("4711")
	} else {
		say("I do not know")
	}
	return seam.Reply{Usage: parley.Usage{InputTokens: int64(len(text)), OutputTokens: 1}}, nil
}

// TestFactOfTurnThree asks for a fact of turn 3 after a thousand turns. The fact is in the
// prompt, and a turn costs no more than after ten turns.
func TestFactOfTurnThree(t *testing.T) {
	rigged(t, reader, enginetest.App(remembering), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		cost := func() int64 {
			info, err := r.Engine.Session(ctx, enginetest.User, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			return info.Totals.Usage.Tokens()
		}
		var early, late int64
		for n := 1; n <= 1000; n++ {
			message := fmt.Sprintf("turn %04d", n)
			if n == 3 {
				message = "remember the number 4711"
			}
			if n == 11 {
				early = cost()
			}
			if n == 21 {
				early = cost() - early
			}
			if n == 991 {
				late = cost()
			}
			got := r.Await(r.Send(s.ID, message).ID)
			if got.Status != parley.StatusCompleted {
				t.Fatalf("turn %d: %+v", n, got.Error)
			}
			if n > 3 && got.Response.Message != "4711" {
				t.Fatalf("turn %d says %q", n, got.Response.Message)
			}
			if got.Spent.Steps != 1 {
				t.Fatalf("turn %d took %d steps", n, got.Spent.Steps)
			}
		}
		late = cost() - late
		if late > early*11/10 {
			t.Errorf("ten turns cost %d tokens after 1,000, %d after 20", late, early)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestUselessMemory uses a memory model that says nothing useful, or fails. The turn continues.
// The exchanges go into a summary made without that model, and nothing loops.
func TestUselessMemory(t *testing.T) {
	t.Parallel()
	for name, memory := range map[string]enginetest.Model{
		"nonsense": func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
			say("no")
			return seam.Reply{}, nil
		},
		"an error": func(context.Context, seam.Request, func(string)) (seam.Reply, error) {
			return seam.Reply{}, parley.Errorf(parley.CodeModel, "no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
				if r.Agent == parley.MemoryAgent {
					return memory(ctx, r, say)
				}
				return enginetest.Echo(ctx, r, say)
			}
			rigged(t, model, enginetest.App(remembering), func(t *testing.T, r *enginetest.Rig) {
				s := r.Session()
				for n := range 10 {
					if got := r.Await(r.Send(s.ID, fmt.Sprint("message ", n)).ID); got.Status != parley.StatusCompleted {
						t.Fatalf("%+v", got.Error)
					}
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				var st parley.Session
				for _, e := range log {
					if err := st.Apply(e); err != nil {
						t.Fatal(err)
					}
				}
				if !strings.Contains(st.Summary, "message 0") || len(st.History) > 7 {
					t.Errorf("summary %q, %d exchanges", st.Summary, len(st.History))
				}
			})
		})
	}
}

func TestPinsAndPreferencesAreInThePrompt(t *testing.T) {
	var prompt string
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		prompt = r.System + r.Messages[len(r.Messages)-1].Text()
		return enginetest.Echo(ctx, r, say)
	}
	rigged(t, model, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session(func(c *parley.CreateSession) { c.Preferences = map[string]any{"tone": "dry"} })
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Pins: &[]parley.Pin{{Label: "house", Text: "in Ulm"}}}); err != nil {
			t.Fatal(err)
		}
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x", Hints: map[string]any{"areas": []string{"bedroom"}}})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		for _, want := range []string{"house: in Ulm", `"tone":"dry"`, `"areas":["bedroom"]`} {
			if !strings.Contains(prompt, want) {
				t.Errorf("%q is not in the prompt:\n%s", want, prompt)
			}
		}
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Pins: &[]parley.Pin{{Text: strings.Repeat("x", 1<<20)}}}); code(err) != parley.CodeTooLarge {
			t.Errorf("a pin of 1 MiB: %v", err)
		}
	})
}

// TestEndNotes: a model adds citations and follow-ups. They come as fields and never as text,
// neither in the answer nor in the stream.
func TestEndNotes(t *testing.T) {
	model := func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		for _, w := range []string{"It flickers. ``", "` is a fence\n\n", "`", "``par", "ley\n{\"citations\":[{\"source\":\"ha\",\"ref\":\"light.x\"}],", "\"follow_ups\":[\"Why?\"]}\n```\n"} {
			say(w)
		}
		return seam.Reply{}, nil
	}
	rigged(t, model, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		shown := make(chan string, 1)
		go func() {
			var b strings.Builder
			for f, err := range r.Reader.Follow(ctx, enginetest.User, s.ID, 1) {
				if err != nil || f.Event != nil && f.Event.Type == "turn.completed" {
					break
				}
				if f.Delta != nil {
					b.WriteString(f.Delta.Text)
				}
			}
			shown <- b.String()
		}()
		synctest.Wait() // it follows before there is an event to see
		got := r.Await(r.Send(s.ID, "why?").ID)
		want := "It flickers. ``` is a fence"
		if got.Response.Message != want || len(got.Response.Citations) != 1 || len(got.Response.FollowUps) != 1 {
			t.Errorf("got %+v", got.Response)
		}
		if text := strings.TrimSpace(<-shown); text != want {
			t.Errorf("shown on the way: %q", text)
		}
	})
}

func TestCrashWhileCondensing(t *testing.T) {
	t.Parallel()
	var messages []string
	for n := range 5 {
		messages = append(messages, fmt.Sprint("turn ", n))
	}
	messages[2] = "remember the number 4711"
	app := enginetest.App(remembering, func(a *parley.App) { a.Memory.LastK = 2 })
	enginetest.CrashEverywhere(t, enginetest.Scenario{App: app, Model: always(reader), Messages: messages, Options: func(*engine.Options) {}})
}
