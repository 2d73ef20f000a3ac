package openai_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

func says(stop string, parts ...parley.Part) modeltest.Behaviour {
	return modeltest.Behaviour{Reply: seam.Reply{Parts: parts, StopReason: stop, Usage: parley.Usage{InputTokens: 11, OutputTokens: 7}}}
}

func text(s string) parley.Part { return parley.Part{Type: parley.PartText, Text: s} }

func call(id parley.CallID, name, input string) parley.Part {
	return parley.Part{Type: parley.PartToolCall, Call: id, Name: name, Input: json.RawMessage(input)}
}

func result(id parley.CallID, name, text string) parley.Part {
	return parley.Part{Type: parley.PartToolResult, Call: id, Name: name, Text: text}
}

func by(role parley.Role, parts ...parley.Part) parley.Message {
	return parley.Message{Role: role, Parts: parts}
}

// rig returns a client of a simulated server.
func rig(t testing.TB, so sim.Options, o openai.Options) (*openai.Client, *sim.Server) {
	t.Helper()
	if so.Brain == nil {
		so.Brain = modeltest.Brain(says("end_turn", text("Well.")))
	}
	s := sim.New(so)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	o.BaseURL, o.Key = srv.URL+s.Prefix(), cmp.Or(o.Key, key)
	if o.Dialect == "" {
		o.Dialect = cmp.Or(speeches[so.Dialect].as, openai.Dialect(so.Dialect))
	}
	return client(t, o), s
}

// ends returns the reply of a stream that must end well.
func ends(t testing.TB, m seam.Model, r seam.Request) *seam.Reply {
	t.Helper()
	o := read(t, m, r)
	if o.Error != nil {
		t.Fatalf("got %+v", *o.Error)
	}
	return o.Reply
}

func files(_ context.Context, id parley.ArtifactID) (seam.File, error) {
	switch id {
	case "png":
		return seam.File{Name: "a.png", MediaType: "image/png", Body: []byte("\x89PNG\r\n\x1a\n")}, nil
	case "pdf":
		return seam.File{Name: "paper.pdf", MediaType: "application/pdf", Body: []byte("%PDF-1.4\n")}, nil
	case "svg":
		return seam.File{Name: "a.svg", MediaType: "image/svg+xml", Body: []byte("<svg/>")}, nil
	case "txt":
		return seam.File{Name: "a.txt", MediaType: "text/plain", Body: []byte("a")}, nil
	case "huge":
		return seam.File{Name: "a.png", MediaType: "image/png", Body: make([]byte, 20<<20+1)}, nil
	}
	return seam.File{}, parley.Errorf(parley.CodeNotFound, "no file %s", id)
}

// TestRequests compares the requests in each dialect with testdata.
func TestRequests(t *testing.T) {
	t.Parallel()
	warm := 0.3
	for d, sp := range speeches {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			c, s := rig(t, sim.Options{Dialect: d}, openai.Options{Extra: map[string]json.RawMessage{"user": json.RawMessage(`"u<1>"`)}, Dialect: cmp.Or(sp.as, openai.Dialect(d))})
			if d == sim.Gemini { // it rejects unknown fields
				c, s = rig(t, sim.Options{Dialect: d}, openai.Options{})
			}
			i := info(sp.model)
			i.Files = sp.files
			r := modeltest.Ask()
			r.Temperature, r.Effort, r.MaxTokens, r.Open = &warm, "low", 100_000, files
			r.Tools = append(r.Tools, parley.ToolDecl{Name: "web.search", Description: "a <b>"})
			r.Messages[0].Parts = append(r.Messages[0].Parts, parley.Part{Type: parley.PartImage, Artifact: "png"})
			if sp.files {
				r.Messages[0].Parts = append(r.Messages[0].Parts, parley.Part{Type: parley.PartFile, Artifact: "pdf"})
			}
			seal := func(p parley.Part, s string) parley.Part {
				p.Provider, p.Signature = "openai", json.RawMessage(strings.ReplaceAll(strings.ReplaceAll(s, "D", string(cmp.Or(sp.as, openai.Dialect(d)))), "M", sp.model))
				return p
			}
			r.Messages = append(r.Messages,
				by(parley.RoleAssistant,
					seal(parley.Part{Type: parley.PartThinking, Text: "Hm <hm>."}, `{"dialect":"D","model":"M","field":"reasoning_content"}`),
					seal(parley.Part{Type: parley.PartThinking, Text: "not for you"}, `{"dialect":"D","model":"another","field":"reasoning"}`),
					text("I look."), call("01KAJ2C5V7Q3ZC5WJ4V9K8QH01", "web.search", `{"q": "a"}`), call("01KAJ2C5V7Q3ZC5WJ4V9K8QH02", "count", `7`)),
				by(parley.RoleTool, result("01KAJ2C5V7Q3ZC5WJ4V9K8QH01", "web.search", "A"), result("01KAJ2C5V7Q3ZC5WJ4V9K8QH02", "count", "")),
				parley.Text(parley.RoleUser, "One."), parley.Text(parley.RoleUser, "Two."),
			)
			ends(t, c.Model(i), r)
			var got bytes.Buffer
			if err := json.Indent(&got, s.LastBody(), "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", "requests", string(d)+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNames has tools with names that no wire accepts. The model can call them all the same.
func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long.", 30)
	tools := []string{"a.b", "a_b", "a/b", "été", long + "1", long + "2", "transfer_to_expert", "-x", "9", "plain"}
	var wire []string
	seen := func(r seam.Request) {
		for _, x := range r.Tools {
			wire = append(wire, x.Name)
		}
		for _, x := range r.Handoffs {
			wire = append(wire, "transfer_to_"+x.Agent)
		}
	}
	for _, d := range []sim.Dialect{sim.OpenAI, sim.Gemini} {
		b := says("end_turn", text("Well."))
		b.Seen = seen
		c, _ := rig(t, sim.Options{Dialect: d, Brain: modeltest.Brain(b)}, openai.Options{})
		r := modeltest.Ask()
		r.Tools = nil
		for _, n := range tools {
			r.Tools = append(r.Tools, parley.ToolDecl{Name: n})
		}
		r.Handoffs = []seam.Handoff{{Agent: "expert"}, {Agent: "the other.one"}}
		wire = nil
		ends(t, c.Model(info("m")), r)
		if len(wire) != 12 {
			t.Fatalf("got %q", wire)
		}
		asked := slices.Clone(wire)

		// The model calls all of them.
		var all []parley.Part
		for _, n := range asked {
			all = append(all, call("", n, `{}`))
		}
		c, _ = rig(t, sim.Options{Dialect: d, Brain: modeltest.Brain(says("tool_use", all...))}, openai.Options{})
		var got []string
		for _, p := range ends(t, c.Model(info("m")), r).Parts {
			got = append(got, string(p.Type)+" "+p.Name)
		}
		var want []string
		for _, n := range tools {
			want = append(want, "tool_call "+n)
		}
		want = append(want, "handoff expert", "handoff the other.one")
		slices.Sort(got) // the simulation recognises handoffs only by their names
		slices.Sort(want)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d, diff)
		}
	}
}

// TestIDs has calls with invalid ids, or with ids of another provider.
func TestIDs(t *testing.T) {
	t.Parallel()
	var got []string
	b := says("end_turn", text("Well."))
	b.Seen = func(r seam.Request) {
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				if p.Type == parley.PartToolCall {
					got = append(got, p.ProviderID)
				}
			}
		}
	}
	c, _ := rig(t, sim.Options{Dialect: sim.OpenAI, Brain: modeltest.Brain(b)}, openai.Options{})
	r := modeltest.Ask()
	with := func(p parley.Part, id string) parley.Part { p.ProviderID = id; return p }
	for _, id := range []string{"1", "2"} { // the same in each step
		r.Messages = append(r.Messages,
			by(parley.RoleAssistant,
				with(call(parley.CallID("A"+id), "count", `{}`), "call_0"), with(call(parley.CallID("B"+id), "count", `{}`), "call_0"),
				with(call(parley.CallID("C"+id), "count", `{}`), strings.Repeat("x", 41)), with(call(parley.CallID("D"+id), "count", `{}`), "a b"),
				call(parley.CallID(strings.Repeat("E", 60)+id), "count", `{}`)),
			by(parley.RoleTool, result(parley.CallID("A"+id), "count", "1"), result(parley.CallID("B"+id), "count", "1"), result(parley.CallID("C"+id), "count", "1"),
				result(parley.CallID("D"+id), "count", "1"), result(parley.CallID(strings.Repeat("E", 60)+id), "count", "1")))
	}
	ends(t, c.Model(info("gpt-4.1")), r)
	want := []string{"call_0", "call_B1", "call_C1", "call_D1", "", "call_A2", "call_B2", "call_C2", "call_D2", ""}
	for _, i := range []int{4, 9} {
		if !strings.HasPrefix(got[i], "call_") || len(got[i]) > 40 || got[4] == got[9] {
			t.Errorf("got %q for an id that is too long", got[i])
		}
		got[i] = ""
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLearns has models that reject a field that others accept. The call is repeated without
// it, and the next call leaves it out at once.
func TestLearns(t *testing.T) {
	t.Parallel()
	warm := 0.3
	for name, c := range map[string]struct {
		d       sim.Dialect
		refuses []string
		first   int
		lacks   []string
		has     []string
	}{
		"all that may be left out":    {sim.VLLM, []string{"temperature", "reasoning_effort", "stream_options"}, 4, []string{"temperature", "reasoning_effort", "stream_options"}, []string{"max_tokens"}},
		"a new name for a bound":      {sim.VLLM, []string{"max_tokens"}, 2, []string{"max_tokens"}, []string{"max_completion_tokens"}},
		"an old name for a bound":     {sim.OpenAI, []string{"max_completion_tokens"}, 2, []string{"max_completion_tokens"}, []string{"max_tokens"}},
		"several calls at once":       {sim.LlamaCpp, []string{"parallel_tool_calls"}, 2, []string{"parallel_tool_calls"}, []string{"temperature"}},
		"an extra that is forbidden":  {sim.Odd, nil, 2, []string{"stream_options"}, []string{"temperature"}},
		"nothing":                     {sim.Ollama, nil, 1, nil, []string{"temperature", "stream_options", "reasoning_effort"}},
		"what is known of the family": {sim.OpenAI, nil, 1, []string{"reasoning_effort"}, []string{"temperature", "max_completion_tokens"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, s := rig(t, sim.Options{Dialect: c.d, Refuses: c.refuses}, openai.Options{})
			r := modeltest.Ask()
			r.Temperature, r.Effort = &warm, "low"
			m := cl.Model(info("gpt-4.1"))
			ends(t, m, r)
			if got := s.Requests(); got != c.first {
				t.Errorf("the first call took %d requests, want %d", got, c.first)
			}
			ends(t, m, r)
			if got := s.Requests(); got != c.first+1 {
				t.Errorf("the second call took %d requests, want 1", got-c.first)
			}
			var body map[string]json.RawMessage
			if err := json.Unmarshal(s.LastBody(), &body); err != nil {
				t.Fatal(err)
			}
			for _, k := range c.lacks {
				if body[k] != nil {
					t.Errorf("%s was sent", k)
				}
			}
			for _, k := range c.has {
				if body[k] == nil {
					t.Errorf("%s was not sent", k)
				}
			}
		})
	}
}

// TestThinkers: OpenAI's thinking models and the fields they are known to reject.
func TestThinkers(t *testing.T) {
	t.Parallel()
	warm := 0.3
	c, s := rig(t, sim.Options{Dialect: sim.OpenAI}, openai.Options{})
	r := modeltest.Ask()
	r.Temperature, r.Effort = &warm, "high"
	ends(t, c.Model(info("gpt-5.4-mini")), r)
	if got := s.Requests(); got != 1 {
		t.Errorf("it took %d requests, want 1", got)
	}
	var body struct {
		Temperature *float64
		Effort      string           `json:"reasoning_effort"`
		Messages    []map[string]any `json:"messages"`
	}
	if err := json.Unmarshal(s.LastBody(), &body); err != nil {
		t.Fatal(err)
	}
	if body.Temperature != nil || body.Effort != "high" || body.Messages[0]["role"] != "developer" {
		t.Errorf("got %+v", body)
	}
}

// TestRefusalOfAValue: a rejected value is not taken for a rejected field; the caller is told
// what is wrong with it.
func TestRefusalOfAValue(t *testing.T) {
	t.Parallel()
	c, s := rig(t, sim.Options{Dialect: sim.VLLM}, openai.Options{})
	s.SetFault(sim.Fault{Status: 400, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"error":{"message":"max_tokens is too large: 200000. This model supports at most 4096 completion tokens.","type":"BadRequestError","param":"max_tokens","code":400}}`})
	o := read(t, c.Model(info("m")), modeltest.Ask())
	if o.Error == nil || o.Error.Code != parley.CodeInvalid || s.Requests() != 1 {
		t.Errorf("got %+v after %d requests, want one that is invalid", o.Error, s.Requests())
	}
}

// TestSeals: a seal is sent back to the model that made it, and to no other.
func TestSeals(t *testing.T) {
	t.Parallel()
	for _, d := range []sim.Dialect{sim.Gemini, sim.OpenRouter, sim.VLLM} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			b := says("tool_use", parley.Part{Type: parley.PartThinking, Text: "Let me <see> 語."}, call("", "look_up", `{"query":"<a>"}`), call("", "count", `{}`))
			c, s := rig(t, sim.Options{Dialect: d, Brain: modeltest.Brain(b)}, openai.Options{})
			r := modeltest.Ask()
			m := c.Model(info("m-1"))
			reply := ends(t, m, r)
			for i := range reply.Parts {
				if reply.Parts[i].Type == parley.PartToolCall {
					reply.Parts[i].Call = parley.CallID("01A" + string(rune('0'+i)))
					r.Messages = append(r.Messages[:1], by(parley.RoleAssistant, reply.Parts...))
				}
			}
			tool := by(parley.RoleTool)
			for _, p := range reply.Parts {
				if p.Type == parley.PartToolCall {
					tool.Parts = append(tool.Parts, result(p.Call, p.Name, "1"))
				}
			}
			r.Messages = append(r.Messages, tool)
			// As read from a log, which escapes HTML characters.
			raw, err := json.Marshal(r.Messages)
			if err != nil {
				t.Fatal(err)
			}
			r.Messages = nil
			if err := json.Unmarshal(raw, &r.Messages); err != nil {
				t.Fatal(err)
			}
			ends(t, m, r) // the simulation checks the signatures
			mine := string(s.LastBody())
			sealed := map[sim.Dialect]string{sim.Gemini: "thought_signature", sim.OpenRouter: "reasoning_details", sim.VLLM: "Let me <see>"}[d]
			if !strings.Contains(mine, sealed) || strings.Contains(mine, "skip_thought") {
				t.Errorf("%q was not given back: %s", sealed, mine)
			}
			ends(t, c.Model(info("m-2")), r)
			other := string(s.LastBody())
			if d != sim.Gemini && strings.Contains(other, sealed) || d == sim.Gemini && !strings.Contains(other, "skip_thought") {
				t.Errorf("another model got %s", other)
			}
		})
	}
}

// TestAttachments has files that no server accepts.
func TestAttachments(t *testing.T) {
	t.Parallel()
	c, s := rig(t, sim.Options{Dialect: sim.OpenAI}, openai.Options{})
	o, os := rig(t, sim.Options{Dialect: sim.Ollama}, openai.Options{})
	both := seam.ModelInfo{Name: "openai/gpt-4.1", ContextTokens: 1, MaxOutputTokens: 1, Images: true, Files: true}
	none := both
	none.Images, none.Files = false, false
	image, file := parley.PartImage, parley.PartFile
	for _, x := range []struct {
		m    seam.Model
		kind parley.PartType
		id   parley.ArtifactID
		code parley.Code
	}{
		{c.Model(none), image, "png", parley.CodeInvalid},
		{c.Model(none), file, "pdf", parley.CodeInvalid},
		{o.Model(both), file, "pdf", parley.CodeInvalid}, // its wire has no documents
		{c.Model(both), image, "svg", parley.CodeInvalid},
		{c.Model(both), file, "txt", parley.CodeInvalid},
		{c.Model(both), image, "huge", parley.CodeTooLarge},
		{c.Model(both), image, "gone", parley.CodeNotFound},
	} {
		r := modeltest.Ask()
		r.Open = files
		r.Messages[0].Parts = append(r.Messages[0].Parts, parley.Part{Type: x.kind, Artifact: x.id})
		got := parley.Code("")
		for _, err := range x.m.Stream(t.Context(), r) {
			got = parley.CodeOf(err)
		}
		if got != x.code {
			t.Errorf("%s %s: got %q, want %s", x.kind, x.id, got, x.code)
		}
	}
	if n := s.Requests() + os.Requests(); n != 0 {
		t.Errorf("%d requests were sent all the same", n)
	}
}

// TestSearch lets the server search the web, if it can.
func TestSearch(t *testing.T) {
	t.Parallel()
	r := modeltest.Ask()
	r.ServerTools = []string{"web_search"}
	for d, key := range map[sim.Dialect]string{sim.OpenAI: `"web_search_options":{}`, sim.OpenRouter: `"plugins":[{"id":"web"}]`} {
		c, s := rig(t, sim.Options{Dialect: d}, openai.Options{})
		ends(t, c.Model(info("m")), r)
		if !bytes.Contains(s.LastBody(), []byte(key)) {
			t.Errorf("%s: got %s", d, s.LastBody())
		}
	}
	c, s := rig(t, sim.Options{Dialect: sim.Ollama}, openai.Options{})
	if o := read(t, c.Model(info("m")), r); o.Error == nil || o.Error.Code != parley.CodeInvalid || s.Requests() != 0 {
		t.Errorf("got %+v", o.Error)
	}
}

// TestLearnsWhatHelped: the client forgets changes that did not help.
func TestLearnsWhatHelped(t *testing.T) {
	t.Parallel()
	c, s := rig(t, sim.Options{Dialect: sim.VLLM, Refuses: []string{"tools", "max_tokens"}}, openai.Options{})
	m := c.Model(info("m"))
	for _, n := range []int{1, 2} { // tools cannot be left out
		if o := read(t, m, modeltest.Ask()); o.Error == nil || s.Requests() != n {
			t.Errorf("got %+v after %d requests", o.Error, s.Requests())
		}
	}
	r := modeltest.Ask()
	r.Tools, r.Handoffs = nil, nil
	ends(t, m, r)
	if got := s.Requests(); got != 4 {
		t.Errorf("got %d requests, want 4", got)
	}
}
