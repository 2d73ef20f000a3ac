package household_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/model/scripted/household"
)

const found = `4 of 4 entities match, the best first:
- light.bedroom = off · Bedroom lights · group · since 2026-11-22 07:40:00Z
- light.left = off · Left · Bedroom · hue · since 2026-11-22 07:40:00Z
- light.right = off · Right · Bedroom · hue · since 2026-11-22 07:40:00Z
- light.both = off · Left, Right, and up · Bedroom · hue · since 2026-11-22 07:40:00Z
areas: Bedroom, Kitchen (also galley)
on the floor Upper floor: Bedroom
index: live
now: Sunday 2026-11-22 09:00Z (UTC)`

// turnOn is a request, with the results of its look-ups.
func turnOn(results ...household.Result) household.Turn {
	return household.Turn{
		Question: "Turn on the bedroom light.", Tools: []string{"index_search", "ha_state_query", "ha_call_service", "AskUserQuestion"},
		Results: append([]household.Result{
			{Tool: "index_search", Input: map[string]any{"query": "bedroom light"}, Output: found},
			{Tool: "ha_state_query", Input: map[string]any{"domain": "light", "limit": 100}, Output: found},
		}, results...),
	}
}

// If several things fit a request, the person is asked which one is meant. The options
// are known by their labels, whatever those contain. Text that is no label is the
// person's own words, and chooses nothing.
func TestChoosing(t *testing.T) {
	t.Parallel()
	asked := household.Answer(turnOn())
	if len(asked.Calls) != 1 || asked.Calls[0].Tool != "AskUserQuestion" || asked.Say != "Four things fit, and nothing says which of them is meant." {
		t.Fatalf("it asks nobody: %+v", asked)
	}
	var in struct {
		Questions []struct {
			Question string           `json:"question"`
			Options  []map[string]any `json:"options"`
		} `json:"questions"`
	}
	raw, err := json.Marshal(asked.Calls[0].Input)
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil || len(in.Questions) != 1 || in.Questions[0].Question != "Which one shall I turn on?" || in.Questions[0].Options[0]["label"] != "Bedroom lights" {
		t.Fatalf("it asks %s: %v", raw, err)
	}
	for _, o := range in.Questions[0].Options {
		if strings.Contains(fmt.Sprint(o), "light.") {
			t.Errorf("an option for a householder has an id: %v", o)
		}
	}
	for answer, want := range map[string]string{
		"Left":                   `{"service":"light.turn_on","target":{"entity_id":"light.left"}}`,
		"Right, Left":            `{"service":"light.turn_on","target":{"entity_id":["light.left","light.right"]}}`,
		"Left, Right, and up":    `{"service":"light.turn_on","target":{"entity_id":"light.both"}}`,
		"Left, Right, not today": "do not know what to do by this answer:\n\n> not today",
		"the Left":               "> the Left",
		"":                       "because nothing was chosen",
	} {
		out, err := json.Marshal(map[string]any{"questions": in.Questions, "answers": map[string]string{"Which one shall I turn on?": answer}})
		if err != nil {
			t.Fatal(err)
		}
		got := household.Answer(turnOn(household.Result{Tool: "AskUserQuestion", Output: string(out)}))
		text := got.Say
		for _, c := range got.Calls {
			raw, _ := json.Marshal(c.Input)
			text += string(raw)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%q: got %s, want %s", answer, text, want)
		}
	}
	got := household.Answer(turnOn(household.Result{Tool: "AskUserQuestion", Output: "Denied: the user declined, and said: leave it", Failed: true}))
	twice := turnOn(household.Result{Tool: "AskUserQuestion", Output: "Denied: the user declined, and said: none of them", Failed: true})
	twice.Question += "\nnone of them"
	if say := household.Answer(twice).Say; strings.Count(say, "nothing was chosen") != 1 {
		t.Errorf("what was said while it was asked is answered twice: %s", say)
	}
	if !strings.Contains(got.Say, "nothing was chosen") || !strings.Contains(got.Say, "> leave it") {
		t.Errorf("of a refusal: %+v", got)
	}
}

// The answer is what the result shows, even if that is not what was asked for.
func TestReporting(t *testing.T) {
	t.Parallel()
	in := map[string]any{"service": "light.turn_on", "target": map[string]any{"entity_id": "light.left"}}
	for output, want := range map[string]string{
		"Home Assistant has carried out light.turn_on.\n- light.left (Left): off → on {\"brightness\":128}, since 2026-11-22 09:00:00Z":                                                                  "Done: the left is on now, at 50 % (it was off).",
		"Home Assistant has carried out light.turn_on.\n- light.left (Left): off → unavailable, since 2026-11-22 09:00:00Z. It does NOT show the state that was asked for: the device cannot be reached": "The left does not show what was asked for: it is not answering, because it cannot be reached.",
		"Home Assistant has carried out light.turn_on.\n- light.left (Left): on → on, since 2026-11-22 07:00:00Z. It was so before":                                                                      "The left was on before already.",
	} {
		got := household.Answer(turnOn(household.Result{Tool: "ha_call_service", Input: in, Output: output}))
		if !strings.HasPrefix(got.Say, want) {
			t.Errorf("got %s\nwant %s", got.Say, want)
		}
	}
	for output, want := range map[string]string{
		"Denied: This call is not allowed: light.turn_on is not in the app's list (policy.allowlisted_services)": "**Nothing was changed.** I am not allowed to turn on the left from here. Whoever runs Parley can allow it.\n\n> **Evidence**",
		"Denied: The user did not allow this call: it is late.":                                                  "**Nothing was changed.** You did not allow me to turn on the left.\n\nYou said:\n\n> it is late.",
		"Denied: The user did not allow this call.":                                                              "**Nothing was changed.** You did not allow me to turn on the left.",
		"It is unknown whether this call took effect.":                                                           "**It is not known whether this happened:** to turn on the left.",
		"Failed: Home Assistant refused: light.left is broken":                                                   "> Failed: Home Assistant refused: Left is broken",
	} {
		got := household.Answer(turnOn(household.Result{Tool: "ha_call_service", Input: in, Output: output, Failed: true}))
		if !strings.Contains(got.Say, want) {
			t.Errorf("got %s\nwant %s", got.Say, want)
		}
	}
}

// A yes agrees to what was offered or asked. After anything else it changes nothing in
// the house, however often it is repeated.
func TestAYesAgreesToAnOffer(t *testing.T) {
	t.Parallel()
	const done = "Done: the left is on now, at 40 % (it was off)."
	say := func(question, last string, more ...household.Exchange) household.Reply {
		turn := turnOn()
		turn.Question, turn.Earlier = question, append([]household.Exchange{{Question: "Turn on the left lamp.", Answer: last}}, more...)
		return household.Answer(turn)
	}
	for _, yes := range []string{"yes", "Sure!", "ok", "do it", "Yes. Do it.", "go ahead", "please", "great", "thanks", "ok, great", "yes thanks", "perfect", "fine"} {
		for _, last := range []string{done, done + "\n\nNothing called desk is in this house. Did you mean Left?", "The left was on before already.", "Nothing was changed: it cannot be reached."} {
			got := say(yes, last)
			if len(got.Calls) > 0 || strings.Contains(got.Say, "I know this house") || got.Say == "" {
				t.Errorf("%q to %q: %+v", yes, last, got)
			}
		}
	}
	const offer = "Nothing was changed: nothing called lefft is in this house. Did you mean Left?"
	if got := say("yes", offer); len(got.Calls) != 1 {
		t.Errorf("a yes to an offer is no wish: %+v", got)
	}
	if got := say("yes", offer, household.Exchange{Question: "thanks", Answer: "You are welcome."}); len(got.Calls) > 0 {
		t.Errorf("a yes to an older offer is a wish: %+v", got)
	}
	if got := say("again", done); len(got.Calls) != 1 {
		t.Errorf("what is wished again is not done: %+v", got)
	}
}

// Two things of one name are told apart by their rooms, and the answer is understood.
func TestChoosingBetweenRooms(t *testing.T) {
	t.Parallel()
	const lamps = "2 of 2 entities match, the best first:\n- light.one = off · Lamp · Bedroom · hue · since 2026-11-22 07:40:00Z\n" +
		"- light.two = off · Lamp · Kitchen · hue · since 2026-11-22 07:40:00Z\nareas: Bedroom, Kitchen\nindex: live\nnow: Sunday 2026-11-22 09:00Z (UTC)"
	turn := household.Turn{
		Question: "Turn on the lamp.", Tools: []string{"index_search", "ha_state_query", "ha_call_service", "AskUserQuestion"},
		Results: []household.Result{
			{Tool: "index_search", Input: map[string]any{"query": "lamp"}, Output: lamps},
			{Tool: "ha_state_query", Input: map[string]any{"domain": "light", "limit": 100}, Output: lamps},
		},
	}
	asked := household.Answer(turn)
	if len(asked.Calls) != 1 || asked.Calls[0].Tool != "AskUserQuestion" {
		t.Fatalf("it asks nobody: %+v", asked)
	}
	input, err := json.Marshal(asked.Calls[0].Input)
	if err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSuffix(string(input), "}") + `,"answers":{"Which one shall I turn on?":"Lamp, Kitchen"}}`
	turn.Results = append(turn.Results, household.Result{Tool: "AskUserQuestion", Output: out})
	got := household.Answer(turn)
	if len(got.Calls) != 1 || !strings.Contains(fmt.Sprint(got.Calls[0].Input), "light.two") || strings.Contains(fmt.Sprint(got.Calls[0].Input), "light.one") {
		t.Errorf("of %s: got %+v", input, got)
	}
}

// What the sun will do comes from Home Assistant's own forecast. The past does not tell
// it.
func TestTheSunAhead(t *testing.T) {
	t.Parallel()
	const bare = "1 of 1 entities match, the best first:\n- sun.sun = above_horizon · Sun · since 2026-11-22 07:34:00Z\n"
	const times = `  {"next_rising":"2026-11-23T07:36:00+00:00","next_setting":"2026-11-22T16:31:00+00:00"}` + "\n"
	const rest = "areas: Bedroom\nindex: live\nnow: Sunday 2026-11-22 10:57Z (UTC)"
	for question, want := range map[string]string{
		"When will the sun set today?":           "The sun next sets today at 16:31.",
		"At what time will the sun go down?":     "The sun next sets today at 16:31.",
		"When will the sun rise tomorrow?":       "The sun next rises tomorrow at 07:36.",
		"When does the sun set?":                 "The sun next sets today at 16:31.",
		"What time is the sun going to come up?": "The sun next rises tomorrow at 07:36.",
	} {
		for list, want := range map[string]string{bare + times + rest: want, bare + rest: "I cannot tell when the sun "} {
			turn := household.Turn{Question: question, Tools: []string{"index_search", "ha_state_query"}}
			got := household.Answer(turn)
			for range 4 {
				for _, c := range got.Calls {
					turn.Results = append(turn.Results, household.Result{Tool: c.Tool, Input: c.Input, Output: list})
				}
				got = household.Answer(turn)
			}
			if !strings.HasPrefix(got.Say, want) {
				t.Errorf("%s: %s\nwant %s", question, got.Say, want)
			}
		}
	}
}

// TestSearchesName: words of an answer that name nothing are not searched for.
func TestSearchesName(t *testing.T) {
	t.Parallel()
	got := household.Answer(household.Turn{
		Question: "Why did the bedroom lights flicker last night?", Tools: []string{"index_search"},
		Earlier: []household.Exchange{{Question: "Turn on the kitchen light.", Answer: "Nothing was changed, because nothing was chosen."}},
	})
	var queries []string
	for _, c := range got.Calls {
		queries = append(queries, fmt.Sprint(c.Input["query"]))
	}
	if want := []string{"bedroom lights", "kitchen light"}; !slices.Equal(queries, want) {
		t.Errorf("got %q, want %q", queries, want)
	}
}

// No question makes Answer panic or call tools without end.
func FuzzAnswer(f *testing.F) {
	for _, q := range []string{"Is the light on?", "", "and", "?!", "turn", "Why?", "how much did the left use last night", "set the bedroom to 21 and 30 °C", "…", "é", "a. b. c. d", "it's cold"} {
		f.Add(q, "Which lamps were it?", found)
	}
	f.Fuzz(func(t *testing.T, before, question, output string) {
		turn := household.Turn{Question: question, Earlier: []household.Exchange{{Question: before}}, Tools: []string{"ha_call_service"}}
		for range 12 {
			r := household.Answer(turn)
			if len(r.Calls) == 0 {
				if r.Say == "" {
					t.Errorf("%q, %q: says nothing", before, question)
				}
				return
			}
			for _, c := range r.Calls {
				turn.Results = append(turn.Results, household.Result{Tool: c.Tool, Input: c.Input, Output: output})
			}
		}
		t.Errorf("%q, %q: it asks for ever: %+v", before, question, household.Answer(turn))
	})
}
