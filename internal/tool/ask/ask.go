// Package ask is the tool with which a model asks the user structured questions with options.
// The user may also answer in free text. The turn waits for the answer, across restarts and
// however long it takes.
//
// The tool's name and the forms of its input and output are those of the Claude CLI's
// AskUserQuestion.
package ask

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Tool is the name of the one tool.
const Tool = "AskUserQuestion"

var (
	//go:embed ask.md
	description string
	//go:embed input.json
	inputSchema string
	//go:embed output.json
	outputSchema string
)

// Toolset holds the one tool. It needs seam.Run.Ask.
type Toolset struct{}

// New makes a toolset.
func New() Toolset { return Toolset{} }

// Tools implements seam.Toolset.
func (Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name:         Tool,
		Description:  strings.TrimSpace(description),
		InputSchema:  json.RawMessage(inputSchema),
		OutputSchema: json.RawMessage(outputSchema),
		Effect:       parley.EffectRead,
		Asks:         true,
		Cost:         "free",
		Safety:       "waits for the user",
	}}, nil
}

// question is a question as models write it.
type question struct {
	Question    string          `json:"question"`
	Header      string          `json:"header"`
	Options     []parley.Option `json:"options"`
	MultiSelect bool            `json:"multiSelect"`
}

// Run implements seam.Toolset.
func (Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var in struct {
		Questions []question `json:"questions"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("input: %w", err))
	}
	asked := parley.Interaction{Kind: parley.KindQuestion, Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny}}
	seen := map[string]bool{}
	for _, q := range in.Questions {
		if seen[q.Question] {
			return parley.ToolResult{}, seam.NotSent(fmt.Errorf("the question %q is asked twice", q.Question))
		}
		seen[q.Question] = true
		asked.Questions = append(asked.Questions, parley.Question(q))
	}
	asked.Title = in.Questions[0].Question
	if n := len(in.Questions); n > 1 {
		asked.Title = fmt.Sprintf("%d questions", n)
	}
	answer, err := r.Ask(ctx, asked)
	if err != nil {
		return parley.ToolResult{}, err
	}
	if answer.Choice != parley.ChoiceAnswered {
		said := "The user did not answer."
		if answer.Text != "" {
			said = "The user did not choose, and said: " + answer.Text
		}
		return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: said, Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: said}}, nil
	}
	out, err := json.Marshal(struct {
		Questions []question        `json:"questions"`
		Answers   map[string]string `json:"answers"`
	}{in.Questions, answer.Answers})
	if err != nil {
		return parley.ToolResult{}, fmt.Errorf("write the answers: %w", err)
	}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: string(out), Data: out}, nil
}
