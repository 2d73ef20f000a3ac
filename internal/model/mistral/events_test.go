package mistral_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
)

// converse reads a conversation's stream.
func converse(t testing.TB, body string) got {
	t.Helper()
	var g got
	var said, thought strings.Builder
	ends := 0
	h := host(t, client(t, "http://127.0.0.1:1"), suiteApp(), "none")
	h.ReadConversation(context.Background(), strings.NewReader(body), modeltest.Ask(), func(d seam.ModelDelta, err error) bool {
		if ends > 0 {
			t.Errorf("went on after its end with %+v, %v", d, err)
		}
		if err != nil || d.Reply != nil {
			ends++
		}
		if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) {
			t.Errorf("got %q and %q", d.Text, d.Thinking)
		}
		said.WriteString(d.Text)
		thought.WriteString(d.Thinking)
		g.reply, g.err = d.Reply, err
		return err == nil
	})
	if ends != 1 {
		t.Errorf("ended %d times", ends)
	}
	g.text, g.thinking = said.String(), thought.String()
	return g
}

func TestConversation_recorded_replies(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct {
		reply seam.Reply
		state map[string]any
	}{
		// In the order of the outputs, not of their fragments.
		"conversation.sse": {seam.Reply{
			Model: "m", StopReason: "tool_use",
			Parts: []parley.Part{
				text(`Hi "there" 😀`), text(" It says so."),
				{Type: parley.PartToolCall, ProviderID: "abc123XYZ", Name: "look_up", Input: json.RawMessage(`{"id":7}`)},
			},
			Usage:     parley.Usage{InputTokens: 98, OutputTokens: 29},
			Citations: []parley.Citation{{Source: "web_search", Ref: "https://example.org/x", Quote: "T"}},
		}, map[string]any{"conversation": "conv_1", "agent": "helper", "pending": []any{"abc123XYZ"}}},
		"handoff.sse": {seam.Reply{
			Model: "m", StopReason: "tool_use",
			Parts: []parley.Part{
				{Type: parley.PartToolCall, ProviderID: "NqCFiwvSV", Name: "look_up", Input: json.RawMessage(`{"id":7}`)},
				{Type: parley.PartHandoff, Name: "expert"},
			},
			Usage: parley.Usage{InputTokens: 1, OutputTokens: 2},
		}, map[string]any{"conversation": "conv_1", "agent": "helper", "handed_to": "expert", "lost": true}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			g := converse(t, golden(t, file))
			if g.err != nil {
				t.Fatal(g.err)
			}
			var state map[string]any
			if err := json.Unmarshal(g.reply.State, &state); err != nil {
				t.Fatal(err)
			}
			for _, k := range []string{"fleet", "first", "turns", "seen", "messages"} {
				delete(state, k)
			}
			g.reply.State = nil
			if diff := cmp.Diff(want.reply, *g.reply); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.state, state); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// happened returns an event of a conversation.
func happened(kind, fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, fields)
}

func TestConversation_oddities(t *testing.T) {
	t.Parallel()
	var (
		begins = happened("conversation.response.started", `"conversation_id":"conv_1"`)
		ends   = happened("conversation.response.done", `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"connector_tokens":null}`)
		hi     = happened("message.output.delta", `"output_index":0,"agent_id":"ag_helper","content":"hi"`)
		begun  = happened("agent.handoff.started", `"output_index":1,"id":"handoff_1","previous_agent_id":"ag_helper"`)
		handed = happened("agent.handoff.done", `"output_index":1,"id":"handoff_1","next_agent_id":"ag_expert","next_agent_name":"expert"`)
		other  = happened("message.output.delta", `"output_index":2,"agent_id":"ag_expert","content":"I am another"`)
		expert = parley.Part{Type: parley.PartHandoff, Name: "expert"}
		asCall = func(name string) string {
			return happened("function.call.delta", `"output_index":1,"tool_call_id":"abc123XYZ","name":"`+name+`","arguments":"{\"reason\":\"why\"}"`)
		}
		byCall  = parley.Part{Type: parley.PartHandoff, Name: "expert", Text: "why", ProviderID: "abc123XYZ"}
		unnamed = happened("agent.handoff.done", `"output_index":1,"id":"handoff_1","next_agent_id":"ag_nobody","next_agent_name":"nobody"`)
	)
	for name, c := range map[string]struct {
		stream string
		parts  []parley.Part
		stop   string
		state  bool // the conversation can go on
		code   parley.Code
	}{
		"a stray [DONE]":                    {begins + hi + ends + "data: [DONE]\n\n", []parley.Part{text("hi")}, "end_turn", true, ""},
		"an event that we do not know":      {begins + happened("something.new", `"x":1`) + hi + ends, []parley.Part{text("hi")}, "end_turn", true, ""},
		"no id of a conversation":           {hi + ends, []parley.Part{text("hi")}, "end_turn", false, ""},
		"ends before done":                  {begins + hi, nil, "", false, parley.CodeUnavailable},
		"ends with [DONE] alone":            {begins + hi + "data: [DONE]\n\n", nil, "", false, parley.CodeUnavailable},
		"an error in the stream":            {begins + hi + happened("conversation.response.error", `"message":"Response failed","code":3000`), nil, "", false, parley.CodeUnavailable},
		"the limit in the stream":           {begins + happened("conversation.response.error", `"message":"Rate limit exceeded","code":1300`), nil, "", false, parley.CodeRateLimited},
		"not JSON":                          {begins + "event: message.output.delta\ndata: {\"type\n\n", nil, "", false, parley.CodeUnavailable},
		"a handoff":                         {begins + hi + begun + handed + ends, []parley.Part{text("hi"), expert}, "tool_use", true, ""},
		"a handoff that only began":         {begins + begun + ends, []parley.Part{expert}, "tool_use", true, ""},
		"a server that goes on":             {begins + begun + handed + other + ends, []parley.Part{expert}, "tool_use", false, ""},
		"a server that hands on":            {begins + begun + handed + begun + handed + ends, []parley.Part{expert}, "tool_use", false, ""},
		"a handoff to nobody":               {begins + begun + unnamed + ends, nil, "", false, parley.CodeModel},
		"as a call, by the name":            {begins + asCall("expert") + ends, []parley.Part{byCall}, "tool_use", true, ""},
		"as a call, by the id":              {begins + asCall("handoff_ag_expert") + ends, []parley.Part{byCall}, "tool_use", true, ""},
		"as a call, by a verb and the name": {begins + asCall("transfer_to_expert") + ends, []parley.Part{byCall}, "tool_use", true, ""},
		"a call of nothing that is offered": {begins + asCall("experts") + ends, []parley.Part{{Type: parley.PartToolCall, Name: "experts", Input: json.RawMessage(`{"reason":"why"}`), ProviderID: "abc123XYZ"}}, "tool_use", true, ""},
		"a confirmation of its own":         {begins + happened("function.call.delta", `"name":"x","tool_call_id":"a","arguments":"{}","confirmation_status":"pending"`), nil, "", false, parley.CodeModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := converse(t, c.stream)
			if c.code != "" {
				if parley.CodeOf(g.err) != c.code || g.reply != nil {
					t.Errorf("got %v, want %s", g.err, c.code)
				}
				return
			}
			if g.err != nil {
				t.Fatal(g.err)
			}
			if diff := cmp.Diff(c.parts, g.reply.Parts); diff != "" || g.reply.StopReason != c.stop || (g.reply.State != nil) != c.state {
				t.Errorf("%s, state %s (-want +got):\n%s", g.reply.StopReason, g.reply.State, diff)
			}
		})
	}
}

func FuzzConversation(f *testing.F) {
	f.Add(golden(f, "conversation.sse"))
	f.Add(golden(f, "handoff.sse"))
	f.Add(happened("function.call.delta", `"arguments":[]`) + happened("conversation.response.done", ""))
	f.Fuzz(func(t *testing.T, body string) {
		g := converse(t, body)
		if (g.reply == nil) == (g.err == nil) {
			t.Fatalf("got %v and %v", g.reply, g.err)
		}
		if g.reply == nil {
			return
		}
		if len(parley.PartsText(g.reply.Parts)) != len(g.text) {
			t.Errorf("streamed %q, replied %q", g.text, parley.PartsText(g.reply.Parts))
		}
	})
}
