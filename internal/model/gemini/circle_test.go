package gemini_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/gemini"
)

// steps is a brain that gives one reply after another.
type steps struct {
	seam.Model
	replies chan []parley.Part
}

func (s steps) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	parts := <-s.replies
	return modeltest.Brain(modeltest.Behaviour{Reply: seam.Reply{Parts: parts, Usage: parley.Usage{InputTokens: 9, OutputTokens: 9}}}).Stream(ctx, r)
}

// TestSealsGoBackAsTheyCame: over many steps, everything that a model has sealed is sent back
// unchanged. The provider signs each seal, checks what comes back, and rejects nothing.
func TestSealsGoBackAsTheyCame(t *testing.T) {
	t.Parallel()
	call := func(name, input string) parley.Part {
		return parley.Part{Type: parley.PartToolCall, Name: name, Input: json.RawMessage(input)}
	}
	text := func(s string) parley.Part { return parley.Part{Type: parley.PartText, Text: s} }
	think := parley.Part{Type: parley.PartThinking, Text: "Hm <é> & \"so\"."}
	said := [][]parley.Part{
		{think, text("I look. "), call("look_up", `{"query":"é <b> & \"c\"","n":12345678901234567890,"f":1.50}`), call("count", `{}`)},
		{think, call("count", `{"z":1,"a":[null,true]}`)},
		{{Type: parley.PartHandoff, Name: "expert", Text: "it knows <more>"}},
		{think, text("It is Google, 語 😀.\n")},
		{call("count", `{}`)},
		{text("Done.")},
	}
	for _, id := range []string{own, "gemini-3-pro-preview", "gemini-2.5-flash"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			brain := steps{replies: make(chan []parley.Part, len(said))}
			for _, parts := range said {
				brain.replies <- parts
			}
			var b modeltest.Bodies
			s, srv := serve(t, sim.Options{Brain: brain, Asked: b.Take})
			m := client(t, srv.URL).Model(known(id))
			r := modeltest.Ask()
			r.Effort = "high"
			calls := 0
			for i := range said {
				_, reply, err := stream(t, m, r)
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				told := parley.Message{Role: parley.RoleTool}
				parts := logged(t, reply.Parts)
				for n, p := range parts {
					if p.Type == parley.PartToolCall || p.Type == parley.PartHandoff {
						calls++
						parts[n].Call = parley.CallID(string(rune('A' + calls)))
						told.Parts = append(told.Parts, parley.Part{Type: parley.PartToolResult, Call: parts[n].Call, Name: p.Name, Text: "1"})
					}
				}
				r.Messages = append(slices.Clone(r.Messages), parley.Message{Role: parley.RoleAssistant, Parts: parts})
				if told.Parts != nil {
					r.Messages = append(r.Messages, told)
				} else {
					r.Messages = append(r.Messages, parley.Text(parley.RoleUser, "Go on."))
				}
			}
			if n := s.Counts().Requests; n != len(said) {
				t.Errorf("took %d requests for %d steps: something was refused", n, len(said))
			}
			last := b.All()[len(b.All())-1]
			if n, want := strings.Count(last, `"thoughtSignature"`), map[bool]int{true: 5}[id != "gemini-2.5-flash"]; n != want || strings.Contains(last, "skip_thought") {
				t.Errorf("%d seals went back, want %d and no placeholder: %s", n, want, last)
			}
		})
	}
}

// logged returns parts as read from a log.
func logged(t *testing.T, parts []parley.Part) (back []parley.Part) {
	t.Helper()
	raw, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	return back
}
