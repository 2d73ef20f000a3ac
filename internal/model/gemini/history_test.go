package gemini_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/gemini"
)

// asking is a transport that records requests and returns nothing useful.
type asking func(body []byte)

func (a asking) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a(body)
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody, Request: r}, nil
}

// TestAnyHistoryIsAccepted: every request that is valid by the loop's own rules is valid for
// the provider.
func TestAnyHistoryIsAccepted(t *testing.T) {
	t.Parallel()
	var refused error
	c, err := gemini.New(gemini.Options{Key: key, HTTP: &http.Client{Transport: asking(func(body []byte) {
		if refused = sim.Validate(body); refused != nil {
			refused = fmt.Errorf("%w\n%s", refused, body)
		}
	})}})
	if err != nil {
		t.Fatal(err)
	}
	m := c.Model(known(own))
	rapid.Check(t, func(t *rapid.T) {
		for range m.Stream(t.Context(), history(t)) {
			break
		}
		if refused != nil {
			t.Fatal(refused)
		}
	})
}

func history(t *rapid.T) seam.Request {
	calls := 0
	text := rapid.SampledFrom([]string{"Well.", " ", "", "a\n", "\n[cut off]", "語 \x00 😀", "half \xe8", "ends in a space "})
	names := rapid.SampledFrom([]string{"count", "crm.update", "crm_update", "transfer_to_expert", "7th", "-", "x é", "a.very.long.name.of.a.tool.that.nobody.would.give.to.a.tool.of.theirs.or.would.they"})
	inputs := rapid.SampledFrom([]string{`{"a":1}`, `{}`, ``, `"cut`, `"text"`, `null`, `[1]`, `7`})
	by := rapid.SampledFrom([]string{"", "gemini", "openai"})
	// Seals of an older model are not sent to another.
	seals := rapid.SampledFrom([]string{"", `{"model":"gemini-2.5-pro","thoughtSignature":"AA=="}`, `{"model":"` + own + `"}`, `"opaque"`})
	r := seam.Request{MaxTokens: rapid.Int64Range(0, 100_000).Draw(t, "max"), Effort: rapid.SampledFrom([]string{"", "low", "high"}).Draw(t, "effort")}
	if rapid.Bool().Draw(t, "tools") {
		for _, n := range rapid.SliceOfNDistinct(names, 0, 4, rapid.ID[string]).Draw(t, "declared") {
			r.Tools = append(r.Tools, parley.ToolDecl{Name: n})
		}
		r.Handoffs = []seam.Handoff{{Agent: "expert"}}
	}
	if rapid.Bool().Draw(t, "served") {
		r.ServerTools = []string{"web_search", "web_fetch"}
	}
	if rapid.Bool().Draw(t, "system") {
		r.System = text.Draw(t, "prompt")
	}
	if rapid.Bool().Draw(t, "warm") {
		warm := rapid.Float64Range(-1, 3).Draw(t, "temperature")
		r.Temperature = &warm
	}
	for range rapid.IntRange(0, 8).Draw(t, "messages") {
		if rapid.Bool().Draw(t, "user") {
			r.Messages = append(r.Messages, parley.Text(parley.RoleUser, text.Draw(t, "said")))
			continue
		}
		said, told := parley.Message{Role: parley.RoleAssistant}, parley.Message{Role: parley.RoleTool}
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			p := parley.Part{Provider: by.Draw(t, "by")}
			if p.Provider != "" {
				p.Signature = json.RawMessage(seals.Draw(t, "seal"))
			}
			switch p.Type = rapid.SampledFrom([]parley.PartType{parley.PartText, parley.PartThinking, parley.PartToolCall, parley.PartHandoff, parley.PartProvider}).Draw(t, "part"); p.Type {
			case parley.PartText, parley.PartThinking:
				p.Text = text.Draw(t, "answer")
			case parley.PartProvider:
				p.Signature = json.RawMessage(`{"model":"` + own + `","part":{"executableCode":{"code":"1"}}}`)
			default:
				calls++
				p.Call = parley.CallID(fmt.Sprintf("01CALL%d", calls))
				p.ProviderID = rapid.SampledFrom([]string{"", "0", "call_01CALL2", "call.1"}).Draw(t, "id")
				if p.Name = "expert"; p.Type == parley.PartToolCall {
					p.Name, p.Input = names.Draw(t, "tool"), json.RawMessage(inputs.Draw(t, "input"))
				} else {
					p.Text = text.Draw(t, "reason")
				}
				res := parley.Part{Type: parley.PartToolResult, Call: p.Call, Text: text.Draw(t, "result"), IsError: rapid.Bool().Draw(t, "failed")}
				if rapid.Bool().Draw(t, "json") {
					res.Input = json.RawMessage(inputs.Draw(t, "output"))
				}
				told.Parts = append(told.Parts, res)
			}
			said.Parts = append(said.Parts, p)
		}
		r.Messages = append(r.Messages, said)
		if told.Parts != nil {
			r.Messages = append(r.Messages, told)
		}
	}
	r.Messages = append(r.Messages, parley.Text(parley.RoleUser, "Go on."))
	return r
}
