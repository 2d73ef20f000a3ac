package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/toolbox"
)

// curious lets the agents of an app ask questions.
func curious(a *parley.App) {
	def := a.Agents["lead"]
	def.Tools = append(def.Tools, ask.Tool)
	a.Agents["lead"] = def
	decls, err := ask.New().Tools(ctx)
	if err != nil {
		panic(err)
	}
	a.Tools = append(a.Tools, decls...)
}

// asker asks two questions and repeats the answers.
func asker(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if res := enginetest.Results(r); len(res) > 0 {
		say("told: " + res[len(res)-1])
		return seam.Reply{}, nil
	}
	type option struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	}
	type question struct {
		Question    string   `json:"question"`
		Header      string   `json:"header"`
		Options     []option `json:"options"`
		MultiSelect bool     `json:"multiSelect"`
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call(ask.Tool, map[string]any{"questions": []question{
		{"Which lamp?", "Lamp", []option{{"Ceiling", "the big one"}, {"Bedside", "the small one"}}, true},
		{"When?", "Time", []option{{"Now", ""}, {"Later", ""}}, false},
	}})}}, nil
}

// TestQuestion: a question outlives the process that asked it. The first answer counts, and becomes
// the tool's result in the CLI's form.
func TestQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, asker, enginetest.App(curious))
		s := r.Session()
		turn := r.Await(r.Send(s.ID, "go").ID)
		if turn.Status != parley.StatusWaiting || len(turn.Interactions) != 1 {
			t.Fatalf("got %+v", turn)
		}
		store := r.Mem.Clone()
		r.Kill()
		r = enginetest.Over(t, store, r.Service, asker, enginetest.App(curious))
		defer r.Close()
		if _, err := r.Engine.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		open, err := r.Engine.Interaction(ctx, enginetest.User, turn.Interactions[0])
		if err != nil {
			t.Fatal(err)
		}
		want := []parley.Question{
			{Question: "Which lamp?", Header: "Lamp", MultiSelect: true, Options: []parley.Option{{Label: "Ceiling", Description: "the big one"}, {Label: "Bedside", Description: "the small one"}}},
			{Question: "When?", Header: "Time", Options: []parley.Option{{Label: "Now"}, {Label: "Later"}}},
		}
		if diff := cmp.Diff(want, open.Questions); diff != "" || open.Kind != parley.KindQuestion || open.Title != "2 questions" || !open.Open {
			t.Errorf("it asks %+v (-want +got):\n%s", open, diff)
		}
		answer := func(a parley.Answer) error {
			_, err := r.Engine.Answer(ctx, enginetest.User, open.ID, parley.AnswerInteraction{Answer: a})
			return err
		}
		for name, bad := range map[string]parley.Answer{
			"a choice it does not offer": {Choice: parley.ChoiceAllow},
			"no answers":                 {Choice: parley.ChoiceAnswered},
			"one of two":                 {Choice: parley.ChoiceAnswered, Answers: map[string]string{"When?": "Now"}},
			"one too many":               {Choice: parley.ChoiceAnswered, Answers: map[string]string{"When?": "Now", "Which lamp?": "Ceiling", "Why?": "x"}},
			"too long":                   {Choice: parley.ChoiceAnswered, Answers: map[string]string{"When?": strings.Repeat("x", 5000), "Which lamp?": "Ceiling"}},
			"answers to a no":            {Choice: parley.ChoiceDeny, Answers: map[string]string{"When?": "Now"}},
		} {
			if e, ok := errors.AsType[*parley.Error](answer(bad)); !ok || e.Code != parley.CodeInvalid && e.Code != parley.CodeTooLarge || e.Field == "" {
				t.Errorf("%s: got %v", name, e)
			}
		}
		good := parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Which lamp?": "Ceiling, Bedside", "When?": "tomorrow at eight"}}
		if err := answer(good); err != nil {
			t.Fatal(err)
		}
		if err := answer(parley.Answer{Choice: parley.ChoiceDeny}); !errors.Is(err, parley.ErrConflict) {
			t.Errorf("another answer gets %v", err)
		}
		end := r.Await(turn.ID)
		if end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, `"answers":{"When?":"tomorrow at eight","Which lamp?":"Ceiling, Bedside"}`) ||
			!strings.HasPrefix(end.Response.Message, `told: {"questions":[{"question":"Which lamp?"`) {
			t.Errorf("got %+v", end)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

func TestQuestionDeclined(t *testing.T) {
	rigged(t, asker, enginetest.App(curious), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn := r.Await(r.Send(s.ID, "go").ID)
		say(t, r, s.ID, "leave it", parley.BusySteer)
		r.Await(turn.ID)
		want := "AskUserQuestion error"
		if got := enginetest.Outcomes(r.Log(s.ID)); len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
		said := false
		for _, ev := range r.Log(s.ID) {
			said = said || ev.Type == "tool.ended" && strings.Contains(string(ev.Data), "did not choose, and said: leave it")
		}
		if !said {
			t.Error("the model does not get the user's words")
		}
	})
}

func TestNobodyToAsk(t *testing.T) {
	app := enginetest.App(curious, func(a *parley.App) { a.Policy.Unattended = true })
	rigged(t, asker, app, func(t *testing.T, r *enginetest.Rig) {
		end := r.Await(r.Send(r.Session().ID, "go").ID)
		if end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "there is nobody to ask") {
			t.Errorf("got %+v %v", end, end.Response)
		}
	})
}

// inquirer is a tool that asks the given questions in one call, either one after the other or all
// at once.
type inquirer struct {
	keys   []string
	asks   []parley.Interaction
	atOnce bool
}

func (q inquirer) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: "inquire", Description: "Ask.", Effect: parley.EffectRead,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
	}}, nil
}

func (q inquirer) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var said []string
	var asked error
	for i, in := range q.asks {
		in.Key = q.keys[i]
		a, err := r.Ask(ctx, in)
		if err != nil && !q.atOnce {
			return parley.ToolResult{}, err
		}
		asked = errors.Join(asked, err)
		said = append(said, a.Choice+a.Text)
	}
	if asked != nil {
		return parley.ToolResult{}, asked
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: strings.Join(said, ", ")}, nil
}

// TestQuestionsOfOneCall: each question of a call gets its own answer, also after a crash.
// Questions that are asked at once may be answered in any order. Two questions with one key are the
// tool's mistake.
func TestQuestionsOfOneCall(t *testing.T) {
	question := func(title string) parley.Interaction {
		return parley.Interaction{Kind: parley.KindQuestion, Title: title, Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny}}
	}
	confirm := parley.Interaction{Kind: parley.KindConfirmation, Title: "Sure?", Choices: []string{parley.ChoiceAllow, parley.ChoiceDeny}}
	for name, tc := range map[string]struct {
		keys []string
		asks []parley.Interaction
		want string
	}{
		"three questions": {[]string{"a", "b", "c"}, []parley.Interaction{question("A"), question("B"), question("C")}, "done: answered to A, answered to B, answered to C"},
		"three at once":   {[]string{"a", "b", "c"}, []parley.Interaction{question("A"), question("B"), question("C")}, "done: answered to A, answered to B, answered to C"},
		"a confirmation":  {[]string{"", "sure"}, []parley.Interaction{question("A"), confirm}, "done: answered to A, allow to Sure?"},
		"one key":         {[]string{"", ""}, []parley.Interaction{question("A"), question("B")}, `has asked under the key "question" already`},
		"a permission":    {[]string{"a"}, []parley.Interaction{{Kind: parley.KindPermission, Title: "May I?"}}, "asked about a call but not by it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := inquirer{tc.keys, tc.asks, name == "three at once"}
				app := enginetest.App(func(a *parley.App) {
					def := a.Agents["lead"]
					def.Tools = []string{"inquire"}
					a.Agents = map[string]parley.AgentDef{"lead": def}
					a.Tools, _ = q.Tools(ctx)
				})
				box := func(o *engine.Options) {
					b, err := toolbox.New([]seam.Toolset{q}, toolbox.Options{})
					if err != nil {
						t.Fatal(err)
					}
					o.Tools = map[string]*toolbox.Box{"test": b}
				}
				r := enginetest.New(t, mailer("inquire"), app, box)
				id := r.Session().ID
				turn := r.Await(r.Send(id, "go").ID)
				for left := len(tc.asks); left > 0; left-- {
					if turn.Status != parley.StatusWaiting {
						break
					}
					synctest.Wait() // the turn waits from its first question on
					disk := r.Mem.Clone()
					r.Kill()
					r = enginetest.Over(t, disk, r.Service, mailer("inquire"), app, box)
					open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
					want := 1
					if q.atOnce {
						want = left
					}
					if err != nil || len(open) != want {
						t.Fatalf("%d open, want %d, %v", len(open), want, err)
					}
					last := open[len(open)-1]
					if _, err := r.Engine.Answer(ctx, enginetest.User, last.ID, parley.AnswerInteraction{
						Answer: parley.Answer{Choice: last.Choices[0], Text: " to " + last.Title},
					}); err != nil {
						t.Fatal(err)
					}
					turn = r.Await(turn.ID)
				}
				defer r.Close()
				if turn.Status != parley.StatusCompleted || !strings.Contains(turn.Response.Message, tc.want) {
					t.Errorf("got %s %+v, want %q", turn.Status, turn.Response, tc.want)
				}
			})
		})
	}
}
