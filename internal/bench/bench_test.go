package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

func TestPlanIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	want := plan{id: "p3-proxy-7", tokens: 100, every: 20 * time.Millisecond}
	got, err := readPlan(want.String())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(plan{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := readPlan("hello"); err == nil {
		t.Error("hello was read as a plan")
	}
}

// Whatever form tokens come in, each is heard once, when all of it is there.
func TestTokensAreHeardInEveryForm(t *testing.T) {
	t.Parallel()
	all := word(0) + word(1) + word(2)
	delta := func(kind, text string) string {
		return "event: " + kind + "\ndata: {\"session\":\"s\",\"call\":\"c\",\"n\":1,\"text\":\"" + text + "\"}\n\n"
	}
	for name, c := range map[string]struct {
		stream string
		want   int
	}{
		"straight":              {"data: \"" + word(0) + "\"\n\ndata: \"" + word(1) + "\"\n\ndata: \"" + word(2) + "\"\n\ndata: [DONE]\n\n", 3},
		"OpenAI's wire":         {string(chatForm.before) + word(0) + string(chatForm.behind) + string(chatForm.before) + word(1) + string(chatForm.behind) + string(chatForm.tail), 2},
		"joined":                {delta("model.delta", all), 3},
		"held back":             {delta("model.delta", all[:len(all)-1]), 2},
		"partial, then the end": {delta("model.partial", word(0)+word(1)) + delta("model.delta", word(2)), 3},
		"partial again":         {delta("model.delta", word(0)) + delta("model.partial", word(0)+word(1)), 2},
		"only the reply": {"id: 5\nevent: model.replied\ndata: {\"session\":\"s\",\"seq\":5,\"data\":{\"call\":\"c\",\"parts\":[{\"type\":\"text\",\"text\":\"" +
			all + "\"}],\"stop_reason\":\"end_turn\"}}\n\n", 3},
		"other events": {"id: 1\nevent: turn.started\ndata: {\"message\":{\"parts\":[{\"type\":\"text\",\"text\":\"" + all + "\"}]}}\n\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := heard{plan: plan{tokens: 3}}
			if err := h.read(strings.NewReader(c.stream), nil); err != nil {
				t.Fatal(err)
			}
			if len(h.at) != c.want {
				t.Errorf("heard %d tokens, want %d", len(h.at), c.want)
			}
		})
	}
}

// The measured turns do what they are named for, whatever else the loop tells the model.
func TestTurnsDoWhatTheyAreToldTo(t *testing.T) {
	t.Parallel()
	h, err := build(t.Context(), setting{dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for message, calls := range map[string]int{"hello": 0, "tools": rounds} {
		s, _, err := h.engine.Create(t.Context(), person, parley.CreateSession{App: "bench"})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			if err := h.turn(t.Context(), s.ID, message); err != nil {
				t.Fatal(err)
			}
			if err := h.allWereMade(t.Context(), s.ID, calls*(n+1)); err != nil {
				t.Errorf("turn %d of %q: %v", n+1, message, err)
			}
		}
	}
}

func TestRatioIsTheMedianOfTheRounds(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := report{w: &out}
	// In the second round the machine was busy with something else.
	r.pairs("figure", []float64{1, 40, 1}, []float64{1.2, 44, 1.4}, millis, atMost(1.3))
	r.pairs("rate", []float64{100}, []float64{40}, rate, atLeast(0.5))
	r.pairs("nothing", []float64{-1}, []float64{2}, millis, atMost(3))
	var got [][]string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"figure", "1", "ms", "1.4", "ms", "1.20x", "1.3x", "ok"},
		{"rate", "100/s", "40/s", "0.40x", "0.5x", "short"},
		{"nothing", "-1", "ms", "2", "ms", "-", "3x", "short"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.short != 2 {
		t.Errorf("%d are short, want 2", r.short)
	}
}

// TestCompare: each figure of a table is compared with that of the other commit by its ratio, or
// else its value, and by whether more of it is better.
func TestCompare(t *testing.T) {
	t.Parallel()
	table := func(scale float64, more func(*report)) string {
		var out strings.Builder
		r := report{w: &out}
		r.head("a machine, 2 CPUs")
		r.pairs("added latency per token, p50, paced 16 x 50 tokens/s", []float64{1}, []float64{1.2 * scale}, millis, atMost(1.3))
		r.pairs("turns/s with 3 rounds", []float64{100}, []float64{50 * scale}, rate, atLeast(0.5))
		r.within("memory after start", -1, 30e6*scale, mega, 40e6)
		r.line("kill: acknowledged events lost by SIGKILL", "-", count(0), "-", "0", true)
		if more != nil {
			more(&r)
		}
		r.foot(time.Second)
		return out.String()
	}
	runs, noise := 0, []float64{1, 3, 1} // the machine was busy in the second round
	var out strings.Builder
	err := compare(t.Context(), &out, func(_ context.Context, then bool) (string, error) {
		scale := noise[runs/2]
		runs++
		if then {
			return table(scale, func(r *report) { r.within("an old figure", -1, 5, millis, 9) }), nil
		}
		return table(1.1*scale, func(r *report) { r.within("a new figure", -1, 5, millis, 9) }), nil
	})
	if err != nil || runs != 2*againstRounds {
		t.Fatal(runs, err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "round") && !strings.HasPrefix(line, "figure") && !strings.HasPrefix(line, "-") {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
	}
	want := []string{
		"added latency per token, p50, paced 16 x 50 tokens/s 1.20x 1.32x +10% worse",
		"turns/s with 3 rounds 0.50x 0.55x +10%",
		"memory after start 28.6 MB 31.5 MB +10% worse",
		"kill: acknowledged events lost by SIGKILL 0 0 -",
		"a new figure - 5 ms new",
		"an old figure 5 ms - gone",
		"2 worse by more than 5%",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
