// Package plan is the tools with which a model goes into plan mode, where nothing is changed, and
// out of it again when the user has approved its plan.
//
// The names and inputs are those of the Claude CLI's EnterPlanMode and ExitPlanMode. The turn waits
// for the approval as for any question, and the answer chooses the mode in which the session goes
// on. Any other answer leaves it in plan mode, and the model is told what the user said.
package plan

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Names of the tools.
const (
	Enter = parley.ToolEnterPlan
	Exit  = parley.ToolExitPlan
)

var (
	//go:embed enter.md
	enter string
	//go:embed exit.md
	exit string
	//go:embed enter.json
	enterInput string
	//go:embed exit.json
	exitInput string
)

// Toolset holds the two tools.
type Toolset struct{}

// New makes a toolset.
func New() Toolset { return Toolset{} }

// Tools implements seam.Toolset. Without a user to ask there is no way out of plan mode, so neither is
// offered then.
func (Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	decl := func(name, about, input string) parley.ToolDecl {
		return parley.ToolDecl{
			Name: name, Description: strings.TrimSpace(about), InputSchema: json.RawMessage(input), Effect: parley.EffectRead, Asks: true, Cost: "free",
		}
	}
	in, out := decl(Enter, enter, enterInput), decl(Exit, exit, exitInput)
	in.Safety, out.Safety = "nothing is changed from then on", "waits for the user"
	return []parley.ToolDecl{in, out}, nil
}

// Run implements seam.Toolset.
func (Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	if r.Name == Enter {
		return entered(r), nil
	}
	return exited(ctx, r)
}

func entered(r seam.Run) parley.ToolResult {
	switch {
	case r.Mode == parley.ModePlan:
		return parley.ToolResult{Output: "The session is in plan mode already. " + next}
	case !slices.Contains(r.Modes, parley.ModePlan):
		return refused("The session does not offer plan mode. Say what you would do, and ask whether to do it.")
	}
	return parley.ToolResult{Output: "The session is in plan mode: nothing is changed until the user has approved a plan. " + next, Mode: parley.ModePlan}
}

const next = "Look at what you need and ask what is unclear. Then call " + Exit + " with the plan."

func refused(text string) parley.ToolResult {
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: text, Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: text}}
}

// question is what the user is asked about a plan.
const question = "Carry out this plan?"

// answers are the ways out of plan mode, and what the session does then.
var answers = []struct {
	parley.Option
	mode parley.PermissionMode
}{
	{parley.Option{Label: "Yes", Description: "You are asked before changes, as the app's rules say."}, parley.ModeDefault},
	{parley.Option{Label: "Yes, and change files without asking", Description: "The permission mode is acceptEdits then."}, parley.ModeAcceptEdits},
	{parley.Option{Label: "Yes, and ask nothing", Description: "The permission mode is bypassPermissions then."}, parley.ModeBypassPermissions},
}

const keep = "No, keep planning"

func exited(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var in struct {
		Plan string `json:"plan"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("input: %w", err))
	}
	// The mode may have been changed by somebody else while the user was asked; the answer counts
	// nonetheless.
	if r.Mode != parley.ModePlan && r.Attempt <= 1 {
		return refused("The session is not in plan mode, so there is no plan to approve. Go on."), nil
	}
	if strings.TrimSpace(in.Plan) == "" {
		return refused("The plan is empty. Say in it what you are going to do."), nil
	}
	q := parley.Question{Question: question, Header: "Plan"}
	for _, a := range answers {
		if slices.Contains(r.Modes, a.mode) {
			q.Options = append(q.Options, a.Option)
		}
	}
	q.Options = append(q.Options, parley.Option{Label: keep, Description: "Nothing is changed. Answer in your own words to say what to change in the plan."})
	answer, err := r.Ask(ctx, parley.Interaction{
		Kind: parley.KindQuestion, Key: "plan", Title: question, Text: in.Plan,
		Questions: []parley.Question{q}, Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny},
	})
	if err != nil {
		return parley.ToolResult{}, err
	}
	said := answer.Text
	if answer.Choice == parley.ChoiceAnswered {
		said = answer.Answers[question]
		for _, a := range answers {
			if said == a.Label && slices.Contains(r.Modes, a.mode) {
				return parley.ToolResult{Output: "The user has approved the plan. The permission mode is " + string(a.mode) + ". Carry it out.", Mode: a.mode}, nil
			}
		}
	}
	text := "The user has not approved the plan."
	if said != "" && said != keep {
		text += " The user said: " + said
	}
	return refused(text + " The session stays as it is. Change the plan, and call " + Exit + " again."), nil
}
