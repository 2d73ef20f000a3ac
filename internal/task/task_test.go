package task_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/task"
)

func app(tools ...string) parley.App {
	return parley.App{Name: "test", Agents: map[string]parley.AgentDef{
		"lead":   {Name: "lead", Tools: tools},
		"finder": {Name: "finder", Description: "Finds things.", AsTool: true},
		"writer": {Name: "writer", AsTool: true},
	}}
}

func TestDecls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tools []string
		want  []string
	}{
		"nothing":          {nil, nil},
		"other tools":      {[]string{"look", "lead"}, nil}, // lead is no tool
		"an agent":         {[]string{"finder"}, []string{"finder prompt"}},
		"Task":             {[]string{"Task"}, []string{"Task description,prompt,subagent_type"}},
		"all, in an order": {[]string{"writer", "Task", "AgentOutputTool", "finder"}, []string{"AgentOutputTool agentId", "Task description,prompt,subagent_type", "finder prompt", "writer prompt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, d := range task.Decls(app(tc.tools...)) {
				var schema struct {
					Required   []string                  `json:"required"`
					Properties map[string]map[string]any `json:"properties"`
				}
				if err := json.Unmarshal(d.InputSchema, &schema); err != nil {
					t.Fatal(err)
				}
				for _, p := range schema.Required {
					if schema.Properties[p] == nil {
						t.Errorf("%s requires %s, which it does not describe", d.Name, p)
					}
				}
				if d.Effect != parley.EffectRead || d.Run != parley.RunRuntime || d.Description == "" {
					t.Errorf("got %+v", d)
				}
				got = append(got, d.Name+" "+strings.Join(schema.Required, ","))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	d := task.Decls(app("Task"))[0]
	if want := "- finder: Finds things.\n- writer: The agent writer."; !strings.Contains(d.Description, want) {
		t.Errorf("got %q, want the agents in it:\n%s", d.Description, want)
	}
	if !strings.Contains(string(d.InputSchema), `"enum":["finder","writer"]`) {
		t.Errorf("the agents are not named in %s", d.InputSchema)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", task.MaxPrompt)
	for name, tc := range map[string]struct {
		tool, input string
		want        task.Task
		err         string
	}{
		"Task":                 {"Task", `{"description":"Find it","prompt":"Find the spec.","subagent_type":"finder"}`, task.Task{Agent: "finder", Title: "Find it", Prompt: "Find the spec."}, ""},
		"in the background":    {"Task", `{"description":"Find it","prompt":"Find.","subagent_type":"finder","run_in_background":true}`, task.Task{Agent: "finder", Title: "Find it", Prompt: "Find.", Background: true}, ""},
		"an agent by its name": {"finder", `{"prompt":"Find."}`, task.Task{Agent: "finder", Title: "Find.", Prompt: "Find."}, ""},
		"a long title":         {"finder", `{"prompt":"` + strings.Repeat("ü", 100) + `"}`, task.Task{Agent: "finder", Title: parley.Cut(strings.Repeat("ü", 100), 80), Prompt: strings.Repeat("ü", 100)}, ""},
		"the longest prompt":   {"finder", `{"prompt":"` + long + `"}`, task.Task{Agent: "finder", Title: parley.Cut(long, 80), Prompt: long}, ""},
		"a longer one":         {"finder", `{"prompt":"x` + long + `"}`, task.Task{}, fmt.Sprintf("prompt has %d bytes, more than %d", task.MaxPrompt+1, task.MaxPrompt)},
		"no prompt":            {"finder", `{"prompt":" \n"}`, task.Task{}, "prompt is empty"},
		"nobody":               {"Task", `{"prompt":"x"}`, task.Task{}, `there is no agent "" for tasks`},
		"an unknown agent":     {"Task", `{"prompt":"x","subagent_type":"` + strings.Repeat("n", 300) + `"}`, task.Task{}, `there is no agent "` + parley.Cut(strings.Repeat("n", 300), 80) + `" for tasks`},
		"no tool":              {"Task", `{"prompt":"x","subagent_type":"lead"}`, task.Task{}, `there is no agent "lead" for tasks`},
		"another field":        {"finder", `{"prompt":"x","model":"big"}`, task.Task{}, `the input does not fit the schema: json: unknown field "model"`},
		"no object":            {"finder", `[]`, task.Task{}, "the input does not fit the schema: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := app()
			got, err := task.Parse(&a, tc.tool, json.RawMessage(tc.input))
			says(t, err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseOutput(t *testing.T) {
	t.Parallel()
	for input, tc := range map[string]struct {
		wait time.Duration
		err  string
	}{
		`{"agentId":"lead/x"}`:                                   {150 * time.Second, ""},
		`{"agentId":"lead/x","block":true}`:                      {150 * time.Second, ""},
		`{"agentId":"lead/x","block":false}`:                     {0, ""},
		`{"agentId":"lead/x","block":false,"wait_up_to":9}`:      {0, ""},
		`{"agentId":"lead/x","wait_up_to":0.5}`:                  {500 * time.Millisecond, ""},
		`{"agentId":"lead/x","wait_up_to":300}`:                  {300 * time.Second, ""},
		`{"agentId":"lead/x","wait_up_to":300.1}`:                {0, "wait_up_to is 300.1, not between 0 and 300 seconds"},
		`{"agentId":"lead/x","wait_up_to":-1}`:                   {0, "wait_up_to is -1, not between 0 and 300 seconds"},
		`{"agentId":"lead/x","wait_up_to":"long"}`:               {0, "the input does not fit the schema: "},
		`{"agentId":"lead/x","wait_up_to":9,"wait_up_to_ms":10}`: {0, "the input does not fit the schema: "},
	} {
		got, err := task.ParseOutput(json.RawMessage(input))
		says(t, err, tc.err)
		if tc.err == "" && got != (task.Output{Agent: "lead/x", Wait: tc.wait}) {
			t.Errorf("%s: got %+v", input, got)
		}
	}
}

// says checks that err begins with want; empty: that there is none.
func says(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil && want != "" || err != nil && (want == "" || !strings.HasPrefix(err.Error(), want)) {
		t.Errorf("got error %v, want %q", err, want)
	}
}
