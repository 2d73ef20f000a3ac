// Package task has the tools with which an agent's model has another agent do something:
// an agent that is declared as a tool, under its own name; Task, which names the agent in
// its input and can have it work in the background; and AgentOutputTool, which asks for
// the result of such work. The names and inputs of the last two are those of a known
// predecessor.
//
// No toolset runs these tools: the runtime does, by starting a sub-agent.
package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// The names of the tools.
const (
	Tool       = "Task"
	OutputTool = "AgentOutputTool"
)

// MaxPrompt limits the prompt of a task, in bytes: it stays in memory while the
// sub-agent works.
const MaxPrompt = 64 << 10

// How long AgentOutputTool waits unless told otherwise, and at most.
const (
	defaultWait = 150 * time.Second
	maxWait     = 300 * time.Second
)

// outputLimit leaves a sub-agent's result as it is: the loop limits it to 32 KiB.
const outputLimit = 34 << 10

// Is reports whether name is Task or AgentOutputTool.
func Is(name string) bool { return name == Tool || name == OutputTool }

// Decls declares the tools of this package that the agents of app list, in the order of
// their names.
func Decls(app parley.App) []parley.ToolDecl {
	listed := map[string]bool{}
	for _, def := range app.Agents {
		for _, name := range def.Tools {
			listed[name] = true
		}
	}
	var decls []parley.ToolDecl
	var names, lines []string
	for _, name := range slices.Sorted(maps.Keys(app.Agents)) {
		def := app.Agents[name]
		if !def.AsTool {
			continue
		}
		names = append(names, name)
		lines = append(lines, "- "+name+": "+describe(def))
		if listed[name] {
			decls = append(decls, decl(name, describe(def)+"\nIt sees nothing but the prompt, and answers with its result.", object{
				"prompt": property{"type": "string", "description": "All that the agent has to know, and what to return."},
			}, "prompt"))
		}
	}
	if listed[Tool] {
		decls = append(decls, decl(Tool, "Gives a task to another agent and returns its result. Tasks that are given in one reply run at once. The agents:\n"+strings.Join(lines, "\n"), object{
			"description":       property{"type": "string", "description": "The task in three to five words, for people."},
			"prompt":            property{"type": "string", "description": "All that the agent has to know, and what to return. It sees nothing else."},
			"subagent_type":     property{"type": "string", "enum": names, "description": "The agent."},
			"run_in_background": property{"type": "boolean", "description": "Go on at once. The result is told when it is there; " + OutputTool + " asks for it."},
		}, "description", "prompt", "subagent_type"))
	}
	if listed[OutputTool] {
		decls = append(decls, decl(OutputTool, "Returns the result of a task that runs in the background, or its state.", object{
			"agentId":    property{"type": "string", "description": "The id that " + Tool + " returned."},
			"block":      property{"type": "boolean", "description": "Wait for the result; default true."},
			"wait_up_to": property{"type": "number", "minimum": 0, "maximum": maxWait.Seconds(), "description": "Seconds to wait at most; default 150."},
		}, "agentId"))
	}
	slices.SortFunc(decls, func(a, b parley.ToolDecl) int { return strings.Compare(a.Name, b.Name) })
	return decls
}

func describe(def parley.AgentDef) string {
	if def.Description == "" {
		return "The agent " + def.Name + "."
	}
	return def.Description
}

type (
	object   map[string]property
	property map[string]any
)

func decl(name, description string, properties object, required ...string) parley.ToolDecl {
	schema, err := json.Marshal(map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	})
	if err != nil {
		panic("task: " + err.Error())
	}
	return parley.ToolDecl{Name: name, Description: description, InputSchema: schema, Effect: parley.EffectRead, Run: parley.RunRuntime, OutputLimit: outputLimit}
}

// A Task is what a sub-agent is asked to do.
type Task struct {
	Agent      string // its definition's name
	Title      string // in a few words, for people
	Prompt     string
	Background bool
}

// Parse reads the input of a call that starts a sub-agent. The error is for the model.
func Parse(app *parley.App, tool string, input json.RawMessage) (Task, error) {
	var in struct {
		Description string `json:"description"`
		Prompt      string `json:"prompt"`
		Agent       string `json:"subagent_type"`
		Background  bool   `json:"run_in_background"`
	}
	if err := decode(input, &in); err != nil {
		return Task{}, err
	}
	if tool != Tool {
		in.Agent = tool
	}
	def, ok := app.Agents[in.Agent]
	switch {
	case !ok || !def.AsTool:
		return Task{}, fmt.Errorf("there is no agent %q for tasks", parley.Cut(in.Agent, 80))
	case strings.TrimSpace(in.Prompt) == "":
		return Task{}, fmt.Errorf("prompt is empty")
	case len(in.Prompt) > MaxPrompt:
		return Task{}, fmt.Errorf("prompt has %d bytes, more than %d", len(in.Prompt), MaxPrompt)
	}
	title := in.Description
	if title == "" {
		title = in.Prompt
	}
	return Task{Agent: in.Agent, Title: parley.Cut(title, 80), Prompt: in.Prompt, Background: in.Background}, nil
}

// An Output is a question for the result of a task.
type Output struct {
	Agent parley.AgentPath
	Wait  time.Duration // 0: not at all
}

// ParseOutput reads the input of a call of AgentOutputTool. The error is for the model.
func ParseOutput(input json.RawMessage) (Output, error) {
	in := struct {
		Agent parley.AgentPath `json:"agentId"`
		Block *bool            `json:"block"`
		Wait  *float64         `json:"wait_up_to"`
	}{}
	if err := decode(input, &in); err != nil {
		return Output{}, err
	}
	out := Output{Agent: in.Agent, Wait: defaultWait}
	if in.Wait != nil {
		if *in.Wait < 0 || *in.Wait > maxWait.Seconds() {
			return Output{}, fmt.Errorf("wait_up_to is %v, not between 0 and %v seconds", *in.Wait, maxWait.Seconds())
		}
		out.Wait = time.Duration(*in.Wait * float64(time.Second))
	}
	if in.Block != nil && !*in.Block {
		out.Wait = 0
	}
	return out, nil
}

func decode(input json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(input))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the input does not fit the schema: %w", err)
	}
	return nil
}
