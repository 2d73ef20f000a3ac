package mcpserver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// modernEra is the first version of the protocol without sessions.
const modernEra = "2026-07-28"

func modern(r request) bool { return r.ProtocolVersion() >= modernEra }

// canAsk reports whether the host can put a form before a person.
func canAsk(r request) bool {
	c := r.ClientCapabilities()
	// A host of 2025-06-18 names neither of the two, and means forms.
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// open returns the interactions of a waiting turn that the host may ask about, and adds
// the others to skip.
func (a *App) open(ctx context.Context, p parley.Principal, t parley.TurnInfo, skip []parley.InteractionID) ([]parley.Interaction, []parley.InteractionID, error) {
	var list []parley.Interaction
	for _, id := range t.Interactions {
		if slices.Contains(skip, id) {
			continue
		}
		row, err := a.o.Engine.Interaction(ctx, p, id)
		if err != nil {
			return nil, skip, err
		}
		switch {
		case row.Kind == parley.KindCredential || row.Kind == parley.KindClient:
			skip = append(skip, id) // a form is no place for a secret, and a client is no person
		case row.Open:
			list = append(list, row.Interaction)
		}
	}
	return list, skip, nil
}

// waitsFor says in words what a turn waits for.
func (a *App) waitsFor(ctx context.Context, p parley.Principal, t parley.TurnInfo) string {
	var said []string
	for _, id := range t.Interactions {
		row, err := a.o.Engine.Interaction(ctx, p, id)
		if err == nil && row.Open {
			said = append(said, fmt.Sprintf("%s: %s (interaction %s)", row.Kind, row.Title, id))
		}
	}
	if len(said) == 0 {
		return "the turn waits for a human"
	}
	return "waits for a human: " + strings.Join(said, "; ")
}

// form is an interaction as a form.
func form(in parley.Interaction, version string) *mcp.ElicitParams {
	message := in.Title
	if in.Detail != "" {
		message += "\n" + in.Detail
	}
	if in.Text != "" {
		message += "\n\n" + in.Text
	}
	if len(in.Input) > 0 {
		message += "\n\n" + in.Tool + " " + indented(in.Input)
	}
	fields := map[string]any{}
	required := []string{}
	if in.Kind == parley.KindQuestion {
		for n, q := range in.Questions {
			name := fmt.Sprintf("q%d", n+1)
			fields[name], fields[name+"_other"] = question(q, version), map[string]any{
				"type": "string", "title": q.Header + ": own words", "description": "In place of the options, or beside them.",
			}
		}
	} else {
		fields["choice"] = map[string]any{"type": "string", "title": "Answer", "enum": choices(in)}
		fields["text"] = map[string]any{"type": "string", "title": "Message", "description": "Told to the agent; may be left out."}
		required = append(required, "choice")
	}
	return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{"type": "object", "properties": fields, "required": required}}
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

func choices(in parley.Interaction) []string {
	if len(in.Choices) > 0 {
		return in.Choices
	}
	return []string{parley.ChoiceAllow, parley.ChoiceDeny}
}

// question is one question as a field: its options to choose from, and where
// the protocol has it, more than one of them.
func question(q parley.Question, version string) map[string]any {
	labels := []string{}
	about := q.Question
	for _, o := range q.Options {
		labels = append(labels, o.Label)
		if o.Description != "" {
			about += "\n" + o.Label + ": " + o.Description
		}
	}
	f := map[string]any{"type": "string", "title": q.Header, "description": about}
	switch {
	case len(labels) == 0:
	case !q.MultiSelect:
		f["enum"] = labels
	case version >= "2025-11-25":
		f["type"], f["items"] = "array", map[string]any{"type": "string", "enum": labels}
	default:
		f["description"] = about + "\nSeveral, joined by commas: " + strings.Join(labels, ", ")
	}
	return f
}

// answerOf reads a filled form. ok is false if the person dismissed it, or if it does not
// answer the question.
func answerOf(in parley.Interaction, res *mcp.ElicitResult) (answer parley.Answer, ok bool) {
	text, _ := res.Content["text"].(string)
	switch res.Action {
	case "decline":
		if in.Kind == parley.KindUnknown {
			return parley.Answer{Choice: parley.ChoiceLeave}, true
		}
		return parley.Answer{Choice: parley.ChoiceDeny}, len(in.Choices) == 0 || slices.Contains(in.Choices, parley.ChoiceDeny)
	case "accept":
	default:
		return answer, false
	}
	if in.Kind != parley.KindQuestion {
		choice, _ := res.Content["choice"].(string)
		return parley.Answer{Choice: choice, Text: text}, slices.Contains(choices(in), choice)
	}
	answer = parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{}}
	for n, q := range in.Questions {
		name := fmt.Sprintf("q%d", n+1)
		var said []string
		switch v := res.Content[name].(type) {
		case string:
			said = append(said, v)
		case []any:
			for _, one := range v {
				if s, ok := one.(string); ok {
					said = append(said, s)
				}
			}
		}
		if own, _ := res.Content[name+"_other"].(string); own != "" {
			said = append(said, own)
		}
		said = slices.DeleteFunc(said, func(s string) bool { return s == "" })
		if len(said) > 0 {
			answer.Answers[q.Question] = strings.Join(said, ", ")
		}
	}
	return answer, len(answer.Answers) == len(in.Questions)
}

// elicit asks a host of the older era. asked is false if it should not be asked about
// this interaction again. An answer by another client withdraws the question. The time that
// the person takes is added to over, until which the store is waited for.
func (a *App) elicit(ctx context.Context, r request, t parley.TurnInfo, in parley.Interaction, over *time.Time) (asked bool, err error) {
	timed, cancel := context.WithTimeout(ctx, maxPerson)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for f, err := range a.o.Reader.FollowEvents(timed, r.who, t.SessionID, t.LastSeq) {
			if err != nil || f.Event != nil && closes(*f.Event, in) {
				cancel()
				return
			}
		}
	}()
	began := time.Now()
	res, err := r.Session.Elicit(timed, form(in, r.ProtocolVersion()))
	*over = over.Add(time.Since(began))
	cancel()
	<-gone
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		var row seam.InteractionRow
		e := a.lasting(ctx, *over, func() (err error) {
			row, err = a.o.Engine.Interaction(ctx, r.who, in.ID)
			return err
		})
		return e == nil && !row.Open, e // answered elsewhere; or the host could not
	}
	answer, ok := answerOf(in, res)
	if !ok {
		return false, nil
	}
	err = a.lasting(ctx, *over, func() (err error) { // a person is not to be asked again for that
		asked, err = a.answer(ctx, r.who, in.ID, answer)
		return err
	})
	return asked, err
}

// closes reports whether an event ends an interaction.
func closes(e parley.Event, in parley.Interaction) bool {
	if e.Turn != in.Turn {
		return false
	}
	p, err := e.Payload()
	if err != nil {
		return false
	}
	switch p := p.(type) {
	case parley.InteractionAnswered:
		return p.ID == in.ID
	case parley.InteractionExpired:
		return p.ID == in.ID
	case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired:
		return true
	}
	return false
}

// answer passes on a person's answer; it is not an error if somebody else was first.
// taken is false of an answer that is refused, such as a text that is too long: the
// interaction is still open.
func (a *App) answer(ctx context.Context, p parley.Principal, id parley.InteractionID, answer parley.Answer) (taken bool, err error) {
	_, err = a.o.Engine.Answer(ctx, p, id, parley.AnswerInteraction{Answer: answer, Client: ClientName})
	switch parley.CodeOf(err) {
	case parley.CodeConflict:
		return true, nil
	case parley.CodeInvalid, parley.CodeTooLarge:
		return false, nil
	}
	return err == nil, err
}

// state is what a host of the newer era carries for us while a person answers.
type state struct {
	Tool string                 `json:"tool"`
	Turn parley.TurnID          `json:"turn"`
	Skip []parley.InteractionID `json:"skip,omitempty"` // put aside by the person
	User parley.Principal       `json:"user"`
	Till int64                  `json:"till"` // seconds since 1970
}

// stateFor is as long as a person may take; the interaction may stay open longer.
const stateFor = 24 * time.Hour

// inputRequired is the result that makes the host ask and call again.
func (a *App) inputRequired(r request, t parley.TurnInfo, open []parley.Interaction, skip []parley.InteractionID) *mcp.CallToolResult {
	res := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}
	for _, in := range open {
		res.InputRequests[string(in.ID)] = form(in, r.ProtocolVersion())
	}
	body, _ := json.Marshal(state{Tool: r.Params.Name, Turn: t.ID, Skip: skip, User: r.who, Till: time.Now().Add(stateFor).Unix()}) // plain data
	res.RequestState = seal(a.o.Key, body)
	return res
}

func seal(key, body []byte) string {
	return base64.RawURLEncoding.EncodeToString(body) + "." + base64.RawURLEncoding.EncodeToString(mac(key, body))
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

func unseal(key []byte, sealed string) ([]byte, bool) {
	body, sum, ok := strings.Cut(sealed, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	got, err2 := base64.RawURLEncoding.DecodeString(sum)
	return raw, ok && err == nil && err2 == nil && hmac.Equal(got, mac(key, raw))
}

// goingOn returns the turn of a call that is repeated with a person's answers. The state
// it carries is trusted only once it is proved to be ours, for this user and this tool.
func (a *App) goingOn(r request) (parley.TurnID, bool, error) {
	s, going, err := a.carried(r)
	return s.Turn, going, err
}

func (a *App) carried(r request) (state, bool, error) {
	var s state
	if r.Params.RequestState == "" {
		return s, false, nil
	}
	body, ok := unseal(a.o.Key, r.Params.RequestState)
	if !ok || json.Unmarshal(body, &s) != nil || s.Tool != r.Params.Name || s.User != r.who || time.Now().Unix() > s.Till {
		return state{}, false, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not one that this server gave for this call"}
	}
	return s, true, nil
}

// answers applies what a person answered to the forms of the last round. Missing or
// invalid answers are asked for again.
func (a *App) answers(ctx context.Context, r request, id parley.TurnID) (skip []parley.InteractionID, err error) {
	s, going, err := a.carried(r)
	if err != nil || !going {
		return nil, err
	}
	if s.Turn != id {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not one that this server gave for this call"}
	}
	t, err := a.o.Engine.Turn(ctx, r.who, id)
	if err != nil {
		return nil, err
	}
	skip = s.Skip
	for key, given := range r.Params.InputResponses {
		in := parley.InteractionID(key)
		res, ok := given.(*mcp.ElicitResult)
		if !ok || !slices.Contains(t.Interactions, in) {
			continue
		}
		row, err := a.o.Engine.Interaction(ctx, r.who, in)
		if err != nil {
			return nil, err
		}
		if res.Action == "cancel" {
			skip = append(skip, in)
			continue
		}
		if answer, ok := answerOf(row.Interaction, res); ok {
			taken, err := a.answer(ctx, r.who, in, answer)
			if err != nil {
				return nil, err
			}
			if !taken {
				skip = append(skip, in)
			}
		}
	}
	return skip, nil
}
