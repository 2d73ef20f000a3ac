package mcpserver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// Waiting is an open interaction as told to a host that cannot show a form.
type Waiting struct {
	InteractionID  string          `json:"interactionId"`
	ContinuationID string          `json:"continuationId"`
	Kind           string          `json:"kind" jsonschema:"question, permission, confirmation, credential or unknown"`
	Title          string          `json:"title"`
	Detail         string          `json:"detail,omitempty" jsonschema:"what the title says, in the ids of the tool"`
	Text           string          `json:"text,omitempty"`
	Tool           string          `json:"tool,omitempty" jsonschema:"the tool whose call it is about"`
	Input          map[string]any  `json:"input,omitempty" jsonschema:"the input of that call"`
	Reaches        []string        `json:"reaches,omitempty" jsonschema:"what that call acts on"`
	Choices        []string        `json:"choices,omitempty"`
	Questions      []AskedQuestion `json:"questions,omitempty"`
	Sampling       string          `json:"sampling,omitempty" jsonschema:"the server that would get a reply of the app's model; only a person can allow it"`
	Credentials    []string        `json:"credentials,omitempty" jsonschema:"names of the secrets that are asked for; never ask for their values in the conversation"`
	ExpiresAt      int64           `json:"expiresAt,omitempty"`
}

// AskedQuestion is one question of an interaction.
type AskedQuestion struct {
	Question    string        `json:"question"`
	Header      string        `json:"header"`
	Options     []AskedOption `json:"options"`
	MultiSelect bool          `json:"multiSelect,omitempty"`
}

// AskedOption is one answer that is offered.
type AskedOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

func waitingOf(in parley.Interaction) Waiting {
	w := Waiting{
		InteractionID: string(in.ID), ContinuationID: string(in.Turn), Kind: string(in.Kind), Title: in.Title, Detail: in.Detail, Text: in.Text,
		Tool: in.Tool, Reaches: in.Reaches, Sampling: in.Sampling, Credentials: in.Credentials, ExpiresAt: millis(in.ExpiresAt),
	}
	_ = json.Unmarshal(in.Input, &w.Input) // there need not be one
	if in.Kind != parley.KindQuestion {
		w.Choices = choices(in)
	}
	for _, q := range in.Questions {
		asked := AskedQuestion{Question: q.Question, Header: q.Header, Options: []AskedOption{}, MultiSelect: q.MultiSelect}
		for _, o := range q.Options {
			asked.Options = append(asked.Options, AskedOption(o))
		}
		w.Questions = append(w.Questions, asked)
	}
	return w
}

// holder is the turn whose interactions a turn waits for: itself, or the running
// turn that it is queued behind.
func (a *App) holder(ctx context.Context, p parley.Principal, t parley.TurnInfo) (parley.TurnInfo, error) {
	if t.Status != parley.StatusPending {
		return t, nil
	}
	s, err := a.o.Engine.State(ctx, p, t.SessionID)
	if err != nil || s.Turn == nil || s.Turn.ID == t.ID {
		return t, err
	}
	return a.o.Engine.Turn(ctx, p, s.Turn.ID)
}

// waitingFor lists the open interactions that block a turn.
func (a *App) waitingFor(ctx context.Context, p parley.Principal, t parley.TurnInfo) ([]Waiting, error) {
	t, err := a.holder(ctx, p, t)
	if err != nil || t.Status != parley.StatusWaiting {
		return nil, err
	}
	var list []Waiting
	for _, id := range t.Interactions {
		row, err := a.o.Engine.Interaction(ctx, p, id)
		if err != nil {
			return nil, err
		}
		if row.Open {
			list = append(list, waitingOf(row.Interaction))
		}
	}
	return list, nil
}

// news reports whether a turn waits for something that is not in known.
func news(t parley.TurnInfo, known []parley.InteractionID) bool {
	return slices.ContainsFunc(t.Interactions, func(id parley.InteractionID) bool { return !slices.Contains(known, id) })
}

// howToGoOn tells a host's model what it can do about open interactions.
func (a *App) howToGoOn(list []Waiting) string {
	id := list[0].ContinuationID
	onward := "; then call " + a.name("await_continuation") + " with continuation_id " + id + ". To wait for an answer that is given elsewhere, call it with these interactions as known"
	if slices.ContainsFunc(list, func(w Waiting) bool { return a.mayAnswer(parley.InteractionKind(w.Kind), w.Sampling) }) {
		return "Ask the user, and give the answer with " + a.name("answer") + onward + "."
	}
	return "Only a person can answer, on a page or in a terminal of the server: tell the user" + onward + "."
}

// mayAnswer reports whether a host's model may answer in a person's name. It may not
// approve acts unless the operator allows it, since it would approve its own; and it
// never provides secrets. A question in which a server asks for a reply from the model
// (sampling) is such an act.
func (a *App) mayAnswer(kind parley.InteractionKind, sampling string) bool {
	return kind == parley.KindQuestion && sampling == "" || a.o.Approvals && kind != parley.KindCredential
}

// busyWith adds to a refusal what a busy session waits for, if that is a human:
// it will be busy until somebody answers.
func (a *App) busyWith(ctx context.Context, r request, id parley.SessionID, e *toolError) *toolError {
	if e.info.Code != parley.CodeBusy {
		return e
	}
	s, err := a.o.Engine.State(ctx, r.who, id)
	if err != nil || s.Turn == nil {
		return e
	}
	t, err := a.o.Engine.Turn(ctx, r.who, s.Turn.ID)
	if err != nil {
		return e
	}
	if list, err := a.waitingFor(ctx, r.who, t); err == nil && len(list) > 0 {
		e.info.Message += "; it " + a.waitsFor(ctx, r.who, t)
		e.info.Hint = a.howToGoOn(list)
	}
	return e
}

type answerIn struct {
	InteractionID string   `json:"interaction_id" jsonschema:"of an entry of waiting_for"`
	Answers       []string `json:"answers,omitempty" jsonschema:"one for each question, in their order: the label of an option, several joined by commas, or other words"`
	Choice        string   `json:"choice,omitempty" jsonschema:"deny declines to answer; of what is no question, one of its choices"`
	Text          string   `json:"text,omitempty" jsonschema:"told to the agent with the choice"`
}

type answerOut struct {
	Status         string `json:"status" jsonschema:"answered"`
	ContinuationID string `json:"continuation_id" jsonschema:"what goes on now; wait for it"`
}

// answerOpen answers an open question for the user of the host.
func (a *App) answerOpen(ctx context.Context, r request, in answerIn) (answerOut, *mcp.CallToolResult, error) {
	row, err := a.o.Engine.Interaction(ctx, r.who, parley.InteractionID(in.InteractionID))
	if err == nil {
		if _, bad := a.session(ctx, r, string(row.Session)); bad != nil {
			err = bad
		}
	}
	if parley.CodeOf(err) == parley.CodeNotFound {
		err = notFound("interaction", in.InteractionID)
	}
	if err != nil {
		return answerOut{}, nil, err
	}
	given, err := r.credentials()
	if err != nil {
		return answerOut{}, nil, err
	}
	if row.Kind == parley.KindCredential && len(given) > 0 && in.Choice != parley.ChoiceDeny { // from the host's settings, not from its model
		in = answerIn{Choice: parley.ChoiceAnswered}
	} else if !a.mayAnswer(row.Kind, row.Sampling) {
		what := string(row.Kind)
		if row.Sampling != "" {
			what += " for a reply of the model"
		}
		e := parley.Errorf(parley.CodeForbidden, "a %s is for a person to answer, and not for the model of a host", what).WithField("interaction_id")
		if row.Kind == parley.KindCredential {
			return answerOut{}, nil, e.WithHint("give the secret on a page or in a terminal of the server, or in the settings of the host, as the header %s", parley.CredentialsHeader)
		}
		return answerOut{}, nil, e.WithHint("answer on a page or in a terminal of the server, or in a host that shows forms; mcp.approvals in parley.yaml lets hosts answer, too")
	}
	answer := parley.Answer{Choice: in.Choice, Text: in.Text}
	if row.Kind == parley.KindQuestion && in.Choice == "" {
		answer.Choice = parley.ChoiceAnswered
	}
	if answer.Choice == parley.ChoiceAnswered && row.Kind == parley.KindQuestion {
		if len(in.Answers) != len(row.Questions) {
			return answerOut{}, nil, parley.Errorf(parley.CodeInvalid, "answers has %d entries for %d questions", len(in.Answers), len(row.Questions)).
				WithField("answers").WithHint("one text for each question, in their order; choice deny declines")
		}
		answer.Answers = map[string]string{}
		for n, q := range row.Questions {
			answer.Answers[q.Question] = in.Answers[n]
		}
	} else if len(in.Answers) > 0 {
		return answerOut{}, nil, parley.Errorf(parley.CodeInvalid, "answers are given with the choice %q", parley.Cut(in.Choice, 40)).
			WithField("answers").WithHint("they belong to a question, without a choice")
	}
	if _, err := a.o.Engine.Answer(ctx, r.who, row.ID, parley.AnswerInteraction{Answer: answer, Credentials: given, Client: ClientName}); err != nil {
		return answerOut{}, nil, err
	}
	return answerOut{"answered", string(row.Turn)}, nil, nil
}
