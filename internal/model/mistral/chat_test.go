package mistral_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/mistral"
)

func call(id, provider, name, input string) parley.Part {
	return parley.Part{Type: parley.PartToolCall, Call: parley.CallID(id), ProviderID: provider, Name: name, Input: json.RawMessage(input)}
}

func result(id, name, out string) parley.Part {
	return parley.Part{Type: parley.PartToolResult, Call: parley.CallID(id), Name: name, Text: out}
}

func says(role parley.Role, parts ...parley.Part) parley.Message {
	return parley.Message{Role: role, Parts: parts}
}

// body returns the request body, as JSON.
func body(t *testing.T, r seam.Request) map[string]any {
	t.Helper()
	raw, err := mistral.Body(t.Context(), client(t, "http://127.0.0.1:1").Model(info), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Validate(raw); err != nil {
		t.Errorf("the provider would refuse it: %v\n%s", err, raw)
	}
	var b map[string]any
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

type o = map[string]any

func TestRequest_to_the_key(t *testing.T) {
	t.Parallel()
	warm := 0.3
	r := seam.Request{
		System: "You <help>.", MaxTokens: 100, Temperature: &warm, Effort: "high",
		Tools:    []parley.ToolDecl{{Name: "crm.look up", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}, {Name: "transfer_to_expert"}},
		Handoffs: []seam.Handoff{{Agent: "expert", Description: "knows"}},
		Messages: []parley.Message{
			says(parley.RoleUser, text("q"), text("more")),
			says(parley.RoleAssistant, text("I look."), call("A", "abc123XYZ", "crm.look up", `{"a":1}`), call("B", "abc123XYZ", "gone", ``),
				parley.Part{Type: parley.PartThinking, Text: "foreign", Provider: "anthropic", Signature: json.RawMessage(`"x"`)}),
			says(parley.RoleTool, result("A", "crm.look up", "found"), result("B", "gone", "")),
			says(parley.RoleUser, text("go on")),
			says(parley.RoleAssistant, parley.Part{Type: parley.PartThinking, Text: "hm", Provider: "mistral", Signature: json.RawMessage(`{"signature":"s"}`)},
				parley.Part{Type: parley.PartHandoff, Call: "C", ProviderID: "toolu_01", Name: "expert", Text: "why"}),
			says(parley.RoleTool, result("C", "expert", "control passed")),
		},
	}
	got := body(t, r)
	ms := got["messages"].([]any)
	callAt := func(i, n int) string { return ms[i].(o)["tool_calls"].([]any)[n].(o)["id"].(string) }
	nameAt := func(i int) string { return got["tools"].([]any)[i].(o)["function"].(o)["name"].(string) }
	second, third, look, hand := callAt(2, 1), callAt(7, 0), nameAt(0), nameAt(2)
	if !strings.HasPrefix(look, "crm_look_up_") || !strings.HasPrefix(hand, "transfer_to_expert_") {
		t.Errorf("names: %q and %q", look, hand)
	}
	fn := func(id, name, args string) o {
		return o{"id": id, "type": "function", "function": o{"name": name, "arguments": args}}
	}
	want := o{
		"model": "mistral-medium-latest", "max_tokens": 100.0, "temperature": 0.3, "reasoning_effort": "high", "stream": true,
		"tools": []any{
			o{"type": "function", "function": o{"name": look, "description": "d", "parameters": o{"type": "object"}}},
			o{"type": "function", "function": o{"name": "transfer_to_expert", "description": "", "parameters": o{"type": "object", "properties": o{}}}},
			o{"type": "function", "function": o{
				"name": hand, "description": "Hands the conversation over to the agent expert. knows",
				"parameters": o{"type": "object", "properties": o{"reason": o{"type": "string", "description": "why, in a few words"}}},
			}},
		},
		"messages": []any{
			o{"role": "system", "content": "You <help>."},
			o{"role": "user", "content": []any{o{"type": "text", "text": "q"}, o{"type": "text", "text": "more"}}},
			o{"role": "assistant", "content": "I look.", "tool_calls": []any{fn("abc123XYZ", look, `{"a":1}`), fn(second, "gone", "{}")}},
			o{"role": "tool", "tool_call_id": "abc123XYZ", "name": look, "content": "found"},
			o{"role": "tool", "tool_call_id": second, "name": "gone", "content": "(no output)"},
			o{"role": "assistant", "content": "Understood."},
			o{"role": "user", "content": "go on"},
			o{
				"role": "assistant", "content": []any{o{"type": "thinking", "thinking": []any{o{"type": "text", "text": "hm"}}, "signature": "s"}},
				"tool_calls": []any{fn(third, hand, `{"reason":"why"}`)},
			},
			o{"role": "tool", "tool_call_id": third, "name": hand, "content": "control passed"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got, body(t, r)); diff != "" {
		t.Errorf("not the same twice:\n%s", diff)
	}
}

func TestRequest_names_come_back(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very.long.", 12)
	r := modeltest.Ask()
	r.Tools = append(r.Tools, parley.ToolDecl{Name: long + "a"}, parley.ToolDecl{Name: long + "b"}, parley.ToolDecl{Name: "crm.put"}, parley.ToolDecl{Name: "crm_put"})
	var want []parley.Part
	_, c := serve(t, sim.Options{Brain: brain(func(_ context.Context, r seam.Request) (seam.Reply, error) {
		var reply seam.Reply
		for _, d := range r.Tools {
			reply.Parts = append(reply.Parts, call("", "", d.Name, `{}`))
		}
		return reply, nil
	})})
	for _, d := range r.Tools {
		want = append(want, call("", "", d.Name, `{}`))
	}
	g := read(t.Context(), c.Model(info), r)
	if g.err != nil {
		t.Fatal(g.err)
	}
	for i := range g.reply.Parts {
		g.reply.Parts[i].ProviderID = ""
	}
	if diff := cmp.Diff(want, g.reply.Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRequest_files(t *testing.T) {
	t.Parallel()
	var asked seen
	_, c := serve(t, sim.Options{Brain: brain(func(_ context.Context, r seam.Request) (seam.Reply, error) {
		asked.note(r)
		return seam.Reply{Parts: []parley.Part{text("I see.")}}, nil
	})})
	r := modeltest.Ask()
	r.Open = func(_ context.Context, id parley.ArtifactID) (seam.File, error) {
		switch id {
		case "large":
			return seam.File{Body: make([]byte, 10<<20+1)}, nil
		case "none":
			return seam.File{}, errors.New("gone")
		}
		return seam.File{Name: "f", MediaType: "image/png", Body: []byte("bytes of " + id)}, nil
	}
	part := func(kind parley.PartType, id parley.ArtifactID) parley.Part {
		return parley.Part{Type: kind, Artifact: id, MediaType: "image/png", Name: "n"}
	}
	r.Messages = []parley.Message{says(parley.RoleUser, text("look"), part(parley.PartImage, "a"), part(parley.PartFile, "b"))}
	if g := read(t.Context(), c.Model(info), r); g.err != nil {
		t.Fatal(g.err)
	}
	got := asked.all()[0]
	for i, want := range []string{"bytes of a", "bytes of b"} {
		f, err := got.Open(t.Context(), got.Messages[0].Parts[i+1].Artifact)
		if err != nil || string(f.Body) != want || f.MediaType != "image/png" {
			t.Errorf("got %+v, %v", f, err)
		}
	}
	blind := info
	blind.Images, blind.Files = false, false
	for name, c := range map[string]struct {
		m     seam.Model
		parts []parley.Part
		code  parley.Code
	}{
		"a model without images": {c.Model(blind), []parley.Part{part(parley.PartImage, "a")}, parley.CodeInvalid},
		"a model without files":  {c.Model(blind), []parley.Part{part(parley.PartFile, "a")}, parley.CodeInvalid},
		"too large":              {c.Model(info), []parley.Part{part(parley.PartImage, "large")}, parley.CodeTooLarge},
		"not there":              {c.Model(info), []parley.Part{part(parley.PartImage, "none")}, parley.CodeInvalid},
		"too many": {c.Model(info), []parley.Part{
			part(parley.PartImage, "1"), part(parley.PartImage, "2"), part(parley.PartImage, "3"), part(parley.PartImage, "4"), part(parley.PartImage, "5"),
			part(parley.PartImage, "6"), part(parley.PartImage, "7"), part(parley.PartImage, "8"), part(parley.PartImage, "9"),
		}, parley.CodeInvalid},
	} {
		r.Messages = []parley.Message{says(parley.RoleUser, append([]parley.Part{text("look")}, c.parts...)...)}
		if g := read(t.Context(), c.m, r); parley.CodeOf(g.err) != c.code {
			t.Errorf("%s: got %v", name, g.err)
		}
	}
}

// randomHistory returns a random history that is valid by our rules.
func randomHistory(rnd *rand.Rand) []parley.Message {
	n := 0
	blank := func(s string) string {
		if rnd.IntN(6) == 0 {
			return "[cut off]"
		}
		return s
	}
	ms := []parley.Message{says(parley.RoleUser, text("question"))}
	for range rnd.IntN(8) {
		var parts, results []parley.Part
		if rnd.IntN(3) == 0 {
			parts = append(parts, parley.Part{Type: parley.PartThinking, Text: "t", Provider: []string{"mistral", "anthropic"}[rnd.IntN(2)], Signature: json.RawMessage(`{}`)})
		}
		if rnd.IntN(2) == 0 {
			parts = append(parts, text(blank("I look")))
		}
		for range rnd.IntN(4) {
			n++
			id := fmt.Sprintf("01K%d", n)
			if rnd.IntN(4) == 0 {
				parts = append(parts, parley.Part{Type: parley.PartHandoff, Call: parley.CallID(id), Name: "expert"})
			} else {
				parts = append(parts, call(id, []string{"", "abc123XYZ", "toolu_01x", "call_0"}[rnd.IntN(4)], []string{"look_up", "gone.tool"}[rnd.IntN(2)], `{"a":"<b>"}`))
			}
			results = append(results, result(id, parts[len(parts)-1].Name, []string{"", "out", "It is unknown whether this call took effect."}[rnd.IntN(3)]))
		}
		if len(results) == 0 {
			parts = append(parts, text("done"))
		}
		ms = append(ms, says(parley.RoleAssistant, parts...))
		if results != nil {
			ms = append(ms, says(parley.RoleTool, results...))
		}
		if results == nil || rnd.IntN(2) == 0 {
			ms = append(ms, says(parley.RoleUser, text("[handed over by expert]"), text("and this")))
		}
	}
	return ms
}

func TestRequest_any_history_is_valid(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		r := modeltest.Ask()
		r.Messages = randomHistory(rnd)
		body(t, r)
		if t.Failed() {
			raw, _ := json.MarshalIndent(r.Messages, "", " ")
			t.Fatalf("%s", raw)
		}
	}
}
