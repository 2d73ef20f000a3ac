//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// TestElicitOfPrompts: a server of the older era asks a question while it makes the text of a
// prompt. The person whose call is under way at the same time is not asked.
func TestElicitOfPrompts(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	called, end := make(chan struct{}), make(chan struct{})
	s.AddTool(&sdk.Tool{Name: "wait", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		close(called)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "waited"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "ask"}, func(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		said := "not asked"
		if res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Mode: "form", Message: "Your name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}); err == nil {
			said = res.Action
		}
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: said}}}}, nil
	})
	at := httptest.NewServer(older(handler(s)))
	t.Cleanup(at.Close)
	set, err := mcp.New(mcp.Options{Name: "test", URL: at.URL, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r := over(t, set)
	d := &desk{says: func(parley.Interaction) (parley.Answer, error) {
		return parley.Answer{Choice: parley.ChoiceAnswered}, nil
	}}
	done := make(chan toolbox.Result, 1)
	go func() { done <- r.call("wait", in{}, func(r *seam.Run) { r.Ask = d.ask }) }()
	<-called
	r.commands(1)
	said, err := set.Expand(t.Context(), "mcp__test__ask", "")
	close(end)
	r.want(<-done, parley.OutcomeOK, "waited")
	if said != "not asked" || err != nil {
		t.Errorf("the prompt says %q, %v", said, err)
	}
	if len(d.asked) > 0 {
		t.Errorf("somebody else was asked: %+v", d.asked)
	}
}

// TestLostAfterAQuestion: a server of the newer era asks, and cannot be reached when the answer is
// sent. It has begun the call, so the call is not made again, and its outcome is unknown.
func TestLostAfterAQuestion(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "write", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Params.InputResponses["q"] == nil {
			calls.Add(1)
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Mode: "form", Message: "Go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}}, nil
		}
		return &sdk.CallToolResult{}, nil
	})
	at := httptest.NewServer(handler(s))
	t.Cleanup(at.Close)
	set, err := mcp.New(mcp.Options{Name: "test", URL: at.URL, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r := over(t, set)
	d := &desk{says: func(parley.Interaction) (parley.Answer, error) {
		at.CloseClientConnections()
		at.Listener.Close()
		return parley.Answer{Choice: parley.ChoiceAnswered}, nil
	}}
	r.want(r.call("write", in{}, func(r *seam.Run) { r.Ask = d.ask }), parley.OutcomeUnknown, "after it had asked for something")
	if n := calls.Load(); n != 1 {
		t.Errorf("called %d times", n)
	}
}

// TestElicitNumber: what is not a number that JSON can hold is asked for again.
func TestElicitNumber(t *testing.T) {
	t.Parallel()
	for era, wrap := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			box := asking(t, wrap, &sdk.ElicitParams{Mode: "form", Message: "How much?", RequestedSchema: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}`)})
			said := []string{"NaN", "-inf", "1.5"}
			d := &desk{}
			d.says = func(parley.Interaction) (parley.Answer, error) {
				return parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"n": said[len(d.asked)-1]}}, nil
			}
			if res := run(t, box, d, "write", 1); res.Output != `accept {"n":1.5}` {
				t.Errorf("got %+v", res.ToolResult)
			}
		})
	}
}
