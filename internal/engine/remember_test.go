package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// windows are the rig's models with context windows of as many tokens as their names say.
type windows struct{ enginetest.Models }

func (w windows) Model(name string) (seam.Model, error) {
	m, err := w.Models.Model(name)
	if err != nil {
		return nil, err
	}
	var tokens int64
	if _, err := fmt.Sscanf(name, "test/%d", &tokens); err != nil {
		return m, nil
	}
	return wide{m, tokens}, nil
}

type wide struct {
	seam.Model
	tokens int64
}

func (w wide) Info() seam.ModelInfo {
	info := w.Model.Info()
	info.ContextTokens = w.tokens
	return info
}

func wideOptions(model enginetest.Model) func(*engine.Options) {
	return func(o *engine.Options) {
		w := windows{enginetest.Models{F: model}}
		o.Models, o.Runtimes = w, enginetest.Loop(w)
	}
}

// earlier counts the questions of earlier turns in a prompt.
func earlier(r seam.Request) (n int) {
	for _, m := range r.Messages {
		if m.Role == parley.RoleUser {
			n++
		}
	}
	return n - 1
}

// TestLargeModelsGetMoreOfTheLog: with the same settings, a model with ten times the context
// gets ten times the exchanges, and no more in a longer session. For a small model
// nothing changes: a summary replaces the exchanges that leave its prompt.
func TestLargeModelsGetMoreOfTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window, summary int64
		perTurn         int64 // most tokens of a prompt
		turns           int
		least, most     int // fewest and most exchanges in a prompt after these turns
		condensed       bool
	}{
		"32k, summed":               {32_000, 300, 0, 30, 3, 6, true},
		"32k, the last":             {32_000, 0, 0, 30, 3, 3, false},
		"200k, summed":              {200_000, 300, 0, 30, 3, 6, true},
		"2M, summed":                {2_000_000, 300, 0, 30, 29, 29, false},
		"2M, the last":              {2_000_000, 0, 0, 30, 29, 29, false},
		"2M, summed, long":          {2_000_000, 300, 0, 150, 30, 60, true},
		"2M, the last, long":        {2_000_000, 0, 0, 90, 30, 30, false},
		"2M, short prompts":         {2_000_000, 300, 8_000, 30, 6, 20, true},
		"2M, the last, short":       {2_000_000, 0, 8_000, 30, 6, 20, false},
		"100M is bounded like 2M":   {100_000_000, 0, 0, 90, 30, 30, false},
		"400k gets twice as much":   {400_000, 0, 0, 30, 6, 6, false},
		"8k, summed, never below K": {8_000, 300, 0, 30, 3, 6, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var last seam.Request
				model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
					if r.Agent == parley.MemoryAgent {
						return reader(ctx, r, say)
					}
					last = r
					say("answer " + strings.Repeat("word ", 100))
					return seam.Reply{}, nil
				}
				app := enginetest.App(func(a *parley.App) {
					a.Model = fmt.Sprint("test/", c.window)
					a.Memory = parley.MemoryOptions{LastK: 6, SummaryTokens: c.summary}
					a.Budgets.MaxTokensPerTurn = c.perTurn
				})
				r := enginetest.New(t, model, app, wideOptions(model))
				defer r.Close()
				s := r.Session()
				before := 0
				for n := range c.turns {
					if got := r.Await(r.Send(s.ID, fmt.Sprint("question ", n)).ID); got.Status != parley.StatusCompleted {
						t.Fatalf("turn %d: %+v", n, got.Error)
					}
					// With a summary, every exchange that leaves the prompt is in it.
					switch got := earlier(last); {
					case c.summary == 0:
					case got == before+1 || n == 0:
						before = got
					case !strings.Contains(last.System, "Summary of earlier turns"):
						t.Fatalf("turn %d has %d exchanges after %d, and no summary", n, got, before)
					default:
						before = got
					}
				}
				if got := earlier(last); got < c.least || got > c.most {
					t.Errorf("the last prompt has %d earlier exchanges, want %d to %d", got, c.least, c.most)
				}
				types := enginetest.Types(r.Log(s.ID))
				if condensed := strings.Contains(types, "memory.updated"); condensed != c.condensed || strings.Contains(types, "context.compacted") {
					t.Errorf("condensed: %v, want %v", condensed, c.condensed)
				}
			})
		})
	}
}

// TestSmallModelTakesOver: a small model summarizes the history that a large model had in its
// prompt, in a request that fits the small one.
func TestSmallModelTakesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []seam.Request
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if r.Agent == parley.MemoryAgent {
				asked = append(asked, r)
				return reader(ctx, r, say)
			}
			say("answer " + strings.Repeat("long ", 1500))
			return seam.Reply{}, nil
		}
		app := enginetest.App(remembering, func(a *parley.App) { a.Model = "test/2000000" })
		r := enginetest.New(t, model, app, wideOptions(model))
		defer r.Close()
		s := r.Session()
		for n := range 40 {
			r.Await(r.Send(s.ID, fmt.Sprint("question ", n)).ID)
		}
		if len(asked) != 0 {
			t.Fatalf("it was condensed %d times", len(asked))
		}
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "and now?", Model: "test/8000"})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || len(asked) != 1 {
			t.Fatalf("%d requests to condense: %+v", len(asked), got.Error)
		}
		size := len(asked[0].System) + len(asked[0].Messages[0].Text())
		if int64(size/3)+asked[0].MaxTokens > 8_000 {
			t.Errorf("the request to condense has %d bytes for a model of 8,000 tokens", size)
		}
		for _, want := range []string{"user: question 0\nassistant: answer", "user: question 36\nassistant: answer"} {
			if !strings.Contains(asked[0].Messages[0].Text(), want) {
				t.Errorf("%q is not in it:\n%s", want, asked[0].Messages[0].Text())
			}
		}
	})
}

// place is the test's service, with calls that are about known things.
type place struct {
	*enginetest.Service
	asked *[][]string // what each request for snippets was about
}

func (p place) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	res, err := p.Service.Run(ctx, r)
	res.About = []string{"thing." + r.Name, "thing.door", "thing." + r.Name, "", strings.Repeat("x", 300)}
	for i := range 10 {
		res.About = append(res.About, fmt.Sprint("more.", i))
	}
	return res, err
}

func (p place) Retrieve(_ context.Context, _ parley.Principal, _ string, about []string, _ int) (found []parley.Snippet, _ error) {
	*p.asked = append(*p.asked, about)
	for _, id := range about {
		found = append(found, parley.Snippet{Source: "place", Ref: id, Text: "is shut", Pinned: true})
	}
	return append(found, parley.Snippet{Source: "place", Ref: "thing.else", Text: "is open"}), nil
}

// TestNextTurnKnowsWhatItWasAbout: the prompt of a turn has the current state of the things that
// the previous turn was about, and a line for each of its tool results. This also holds after a
// crash, with condensed steps, in a fork and in an import.
func TestNextTurnKnowsWhatItWasAbout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last seam.Request
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			last = r
			return secretary(ctx, r, say)
		}
		var asked [][]string
		service := &enginetest.Service{}
		options := func(o *engine.Options) {
			enginetest.With(place{service, &asked})(o)
			byHand(o)
		}
		app := enginetest.App(keeping, func(a *parley.App) { a.Memory.Retrieve = true })
		r := enginetest.New(t, model, app, options)
		s := r.Session()
		r.Await(r.Send(s.ID, "look around").ID)
		r.Await(r.Send(s.ID, "put it down").ID)

		const lines = "[tool calls of this turn and what they returned, shortened]\n- put {\"text\":\"hi\"}: put hi"
		const pinned = "## What the turn before was about, as it is now\n[place thing.put] is shut\n[place thing.door] is shut\n[place more.0] is shut"
		told := func(what string, id parley.SessionID, message string) {
			t.Helper()
			if got := r.Await(r.Send(id, message).ID); got.Status != parley.StatusCompleted {
				t.Fatalf("%s: %+v", what, got.Error)
			}
			var text []string
			for _, m := range last.Messages {
				for _, p := range m.Parts {
					text = append(text, p.Text)
				}
			}
			prompt := strings.Join(text, "\n")
			if !strings.Contains(prompt, lines) {
				t.Errorf("%s: no lines of the results:\n%s", what, prompt)
			}
			if !strings.Contains(text[len(text)-1], pinned) || !strings.Contains(text[len(text)-1], "## Looked up for this question\n[place thing.else] is open") {
				t.Errorf("%s: what it was about is not pinned:\n%s", what, text[len(text)-1])
			}
			if about := asked[len(asked)-1]; len(about) > parley.MaxAbout {
				t.Errorf("%s: it is about %d things", what, len(about))
			}
		}
		told("the next turn", s.ID, "a plan")
		told("and one more, as nothing else was asked about", s.ID, "and another")
		if len(asked[0]) != 0 || len(asked[1]) == 0 || asked[1][0] != "thing.look" {
			t.Errorf("asked about %v", asked)
		}

		want := state(t, r, s.ID)
		store := r.Mem.Clone()
		store.ForgetStates()
		r.Kill()
		r = enginetest.Over(t, store, service, model, app, options)
		if diff := cmp.Diff(want, state(t, r, s.ID)); diff != "" {
			t.Errorf("after a crash (-before +after):\n%s", diff)
		}
		told("after a crash", s.ID, "go on")
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		told("in a fork", fork.ID, "words there")
		imported, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(s.ID)})
		if err != nil {
			t.Fatal(err)
		}
		told("in an import", imported.ID, "words elsewhere")

		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
		time.Sleep(25 * time.Hour)
		if done := sweep(t, r); done.Condensed == 0 {
			t.Fatalf("swept %+v", done)
		}
		store = r.Mem.Clone()
		store.ForgetStates()
		r.Kill()
		r = enginetest.Over(t, store, service, model, app, options)
		defer r.Close()
		told("with its steps condensed", s.ID, "words at last")
	})
}
