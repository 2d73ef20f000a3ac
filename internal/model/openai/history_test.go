package openai_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

// keeps answers each request with a word, and keeps the last request.
type keeps struct{ body []byte }

func (k *keeps) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions") {
		k.body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	return answers{"text/event-stream", []byte(`data: {"choices":[{"delta":{"content":"Well."},"finish_reason":"stop"}]}` + "\n\n")}.RoundTrip(r)
}

// story builds a history as the loop may send it: turns with steps, calls of several providers,
// handoffs, thoughts, cut answers, and all kinds of results.
type story struct {
	*rand.Rand
	calls int
}

func pick[T any](s *story, of ...T) T { return of[s.IntN(len(of))] }

func (s *story) text() string {
	return pick(s, "Yes.", "語 \u0000 <b> \"q\" \\", " ", "", "It is\n[cut off]", strings.Repeat("long ", 50))
}

func (s *story) spoken() (parts []parley.Part, results []parley.Part) {
	seals := []string{"", `{"dialect":"gemini","model":"m","extra":{"google":{"thought_signature":"x"}}}`, `{"dialect":"ollama","model":"m","field":"reasoning"}`, `{"seal":1}`, `[]`}
	if s.IntN(3) == 0 {
		p := parley.Part{Type: pick(s, parley.PartThinking, parley.PartProvider), Text: s.text(), Provider: pick(s, "", "openai", "anthropic")}
		if seal := pick(s, seals...); !strings.Contains(seal, "gemini") {
			p.Signature = json.RawMessage(seal)
		}
		parts = append(parts, p)
	}
	if s.IntN(2) == 0 {
		parts = append(parts, text(s.text()))
	}
	for range s.IntN(4) {
		s.calls++
		id := pick(s, parley.CallID(fmt.Sprintf("01KAJ2C5V7Q3ZC5WJ4V9K8Q%03d", s.calls)), parley.CallID(fmt.Sprint("é", s.calls, strings.Repeat("x", 50))))
		p := parley.Part{
			Type: parley.PartToolCall, Call: id, ProviderID: pick(s, "", "0", "call_1", "toolu_01A", "a.b", strings.Repeat("y", 60)),
			Name: pick(s, "look_up", "count", "gone", "web.search", "a b"), Input: json.RawMessage(pick(s, "", "{}", `{"q":"<a>"}`, `"text"`, `[1]`, "null", "7")),
			Provider: pick(s, "", "anthropic"),
		}
		if s.IntN(5) == 0 {
			p = parley.Part{Type: parley.PartHandoff, Call: id, Name: pick(s, "expert", "gone.agent"), Text: s.text()}
		}
		parts = append(parts, p)
		r := result(id, p.Name, s.text())
		if s.IntN(4) == 0 {
			r.Text, r.Input = "", json.RawMessage(`{"n":1}`)
		}
		r.IsError = s.IntN(4) == 0
		results = append(results, r)
	}
	return parts, results
}

func (s *story) messages() (ms []parley.Message) {
	ms = append(ms, parley.Text(parley.RoleUser, "What is it?"))
	for range s.IntN(8) {
		parts, results := s.spoken()
		if len(parts) > 0 {
			ms = append(ms, by(parley.RoleAssistant, parts...))
		}
		if len(results) > 0 {
			ms = append(ms, by(parley.RoleTool, results...))
		}
		if s.IntN(2) == 0 {
			ms = append(ms, parley.Text(parley.RoleUser, s.text()))
		}
	}
	return append(ms, parley.Text(parley.RoleUser, "Go on."))
}

// TestAnyHistory: histories that no provider wrote are valid by the rules of each.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	for d, sp := range speeches {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			k := &keeps{}
			c := client(t, openai.Options{Key: key, BaseURL: "http://h/v1", Dialect: cmp.Or(sp.as, openai.Dialect(d)), HTTP: &http.Client{Transport: k}})
			m := c.Model(info("m"))
			for seed := range uint64(150) {
				s := &story{Rand: rand.New(rand.NewPCG(seed, 7))}
				r := modeltest.Ask()
				r.Messages = s.messages()
				r.Tools = append(r.Tools, parley.ToolDecl{Name: "web.search"})
				if seed%5 == 0 {
					r.Tools, r.Handoffs, r.System = nil, nil, ""
				}
				ends(t, m, r)
				body := k.body
				if d == sim.Odd {
					body = without(t, body, "stream_options")
				}
				if err := sim.ValidateAs(d, body); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, body)
				}
				if bytes.Contains(k.body, []byte(`"seal"`)) {
					t.Fatalf("seed %d: another's seal was sent", seed)
				}
			}
		})
	}
}

func without(t *testing.T, body []byte, key string) []byte {
	t.Helper()
	var b map[string]json.RawMessage
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	delete(b, key)
	out, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNothingToAnswer is refused before a request is sent.
func TestNothingToAnswer(t *testing.T) {
	t.Parallel()
	c, s := rig(t, sim.Options{Dialect: sim.OpenAI}, openai.Options{})
	for _, err := range c.Model(info("m")).Stream(t.Context(), seam.Request{System: "You help."}) {
		if parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("got %v", err)
		}
	}
	if s.Requests() != 0 {
		t.Error("it was sent all the same")
	}
}
