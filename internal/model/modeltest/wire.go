package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// wire returns the cases that need a simulated API.
func (s suite) wire() map[string]func(*testing.T) {
	cases := map[string]func(*testing.T){
		"what was asked arrives":          s.arrives,
		"a history of another provider's": s.foreign,
		"odd histories":                   s.odd,
		"a picture":                       func(t *testing.T) { s.media(t, parley.PartImage, "image/png", png) },
		"pictures in results":             s.pictured,
		"a document":                      func(t *testing.T) { s.media(t, parley.PartFile, "application/pdf", pdf) },
		"a picture that cannot be opened": s.closedFile,
		"effort and temperature":          s.effort,
		"a call that was cut off":         s.cutCall,
		"a reply of nothing":              s.nothing,
		"usage":                           s.usage,
		"byte by byte":                    s.bytewise,
		"a slow server":                   s.slow,
		"a server that falls silent":      s.stall,
		"the reader of a hanging server":  s.stopGated,
		"answers that are no answers":     s.garbage,
		"check and count":                 s.extras,
	}
	if s.Replays {
		cases["thinking is given back"] = s.replay
	}
	return cases
}

// seen collects what a provider understood.
type seen struct {
	mu   sync.Mutex
	reqs []seam.Request
}

func (s *seen) take(r seam.Request) { s.mu.Lock(); s.reqs = append(s.reqs, r); s.mu.Unlock() }

func (s *seen) only(t *testing.T) seam.Request {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reqs) != 1 {
		t.Fatalf("the provider was asked %d times", len(s.reqs))
	}
	return s.reqs[0]
}

// spoken is the content of a message regardless of form: APIs differ in how they split texts
// into parts and where calls stand among them.
type spoken struct {
	Role    parley.Role
	Text    string
	Calls   []string
	Results []string
	Media   []string
}

func flat(t *testing.T, r seam.Request) []spoken {
	t.Helper()
	var out []spoken
	for _, m := range r.Messages {
		if n := len(out); n == 0 || out[n-1].Role != m.Role {
			out = append(out, spoken{Role: m.Role})
		}
		x := &out[len(out)-1]
		for _, p := range m.Parts {
			switch p.Type {
			case parley.PartText:
				x.Text += squeeze(p.Text)
			case parley.PartToolCall:
				x.Calls = append(x.Calls, p.Name+" "+canonical(t, p.Input))
			case parley.PartHandoff:
				x.Calls = append(x.Calls, "-> "+p.Name+" "+p.Text)
			case parley.PartToolResult:
				x.Results = append(x.Results, squeeze(p.Text))
			case parley.PartImage, parley.PartFile:
				x.Media = append(x.Media, string(p.Type)+" "+opened(t, r, p))
			}
		}
	}
	return out
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

func canonical(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	if len(raw) == 0 {
		return "{}"
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Errorf("input %q is not JSON: %v", raw, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func opened(t *testing.T, r seam.Request, p parley.Part) string {
	t.Helper()
	if r.Open == nil {
		t.Errorf("nothing opens %s", p.Artifact)
		return ""
	}
	f, err := r.Open(t.Context(), p.Artifact)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%s %x", f.MediaType, f.Body)
}

// understood sends r and compares what the provider understood with want's messages.
func (s suite) understood(t *testing.T, r, want seam.Request) seam.Request {
	t.Helper()
	var sn seen
	if g := s.reply(t, Behaviour{Reply: says("Well."), Seen: sn.take}, r); g.text != "Well." {
		t.Errorf("got %q", g.text)
	}
	got := sn.only(t)
	if diff := cmp.Diff(flat(t, want), flat(t, got)); diff != "" {
		t.Errorf("the provider understood (-want +got):\n%s", diff)
	}
	return got
}

func result(call parley.CallID, name, text string) parley.Part {
	return parley.Part{Type: parley.PartToolResult, Call: call, Name: name, Text: text}
}

func (s suite) arrives(t *testing.T) {
	r := Ask()
	r.Messages = append(r.Messages,
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{
			{Type: parley.PartText, Text: "I look."},
			{Type: parley.PartToolCall, Call: "01KAJ2C5V7Q3ZC5WJ4V9K8QH01", Name: "look_up", Input: json.RawMessage(`{"query":"a"}`)},
			{Type: parley.PartToolCall, Call: "01KAJ2C5V7Q3ZC5WJ4V9K8QH02", Name: "count"},
		}},
		parley.Message{Role: parley.RoleTool, Parts: []parley.Part{
			result("01KAJ2C5V7Q3ZC5WJ4V9K8QH01", "look_up", "Google 語"), result("01KAJ2C5V7Q3ZC5WJ4V9K8QH02", "count", "7"),
		}},
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartHandoff, Call: "01KAJ2C5V7Q3ZC5WJ4V9K8QH03", Name: "expert", Text: "why not"}}},
		parley.Message{Role: parley.RoleTool, Parts: []parley.Part{result("01KAJ2C5V7Q3ZC5WJ4V9K8QH03", "expert", "control passed")}},
		parley.Text(parley.RoleUser, "[handed over]"),
	)
	got := s.understood(t, r, r)
	if squeeze(got.System) != squeeze(r.System) {
		t.Errorf("the provider was told %q, want %q", got.System, r.System)
	}
	type decl struct{ Name, Text, Schema string }
	decls := func(r seam.Request) (ds []decl) {
		for _, d := range r.Tools {
			ds = append(ds, decl{d.Name, d.Description, canonical(t, d.InputSchema)})
		}
		for _, h := range r.Handoffs {
			ds = append(ds, decl{Name: "-> " + h.Agent})
		}
		return ds
	}
	if diff := cmp.Diff(decls(r), decls(got)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got.MaxTokens <= 0 {
		t.Errorf("the reply may have %d tokens", got.MaxTokens)
	}
}

const elsewhere = "elsewhere"

// foreign is a session answered so far by another provider's models: parts sealed by that
// provider are left out, and the rest stays.
func (s suite) foreign(t *testing.T) {
	seal := json.RawMessage(`{"seal":"not for you"}`)
	r := Ask()
	r.Messages = append(r.Messages,
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{
			{Type: parley.PartThinking, Text: "not your thought", Signature: seal, Provider: elsewhere},
			{Type: parley.PartProvider, Name: "search", Text: "searched", Signature: seal, Provider: elsewhere},
			{Type: parley.PartText, Text: "I look."},
			{Type: parley.PartToolCall, Call: "01A", ProviderID: "call.1/é and more than sixty-four characters of an id that nobody else takes", Name: "look_up", Input: json.RawMessage(`{"query":"a"}`), Signature: seal, Provider: elsewhere},
			{Type: parley.PartToolCall, Call: "01B", ProviderID: "0", Name: "look_up", Input: json.RawMessage(`{"query":"b"}`)},
			{Type: parley.PartToolCall, Call: "01C", ProviderID: "0", Name: "count", Input: json.RawMessage(`{}`)},
		}},
		parley.Message{Role: parley.RoleTool, Parts: []parley.Part{result("01A", "look_up", "A"), result("01B", "look_up", "B"), result("01C", "count", "C")}},
		// A reply that was only a thought.
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartThinking, Text: "not your thought either", Signature: seal, Provider: elsewhere}}},
		parley.Text(parley.RoleUser, "Go on."),
	)
	want := r
	want.Messages = append(append([]parley.Message{}, r.Messages[:3]...), r.Messages[4])
	got := s.understood(t, r, want)
	raw, err := json.Marshal(got.Messages)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("not your thought")) || bytes.Contains(raw, []byte("not for you")) {
		t.Errorf("another provider's thoughts were given away: %s", raw)
	}
}

// odd tests histories that arise from cancelled turns, steering and tools with empty results.
func (s suite) odd(t *testing.T) {
	user := func(text string) parley.Message { return parley.Text(parley.RoleUser, text) }
	call := func(id parley.CallID, name, input string) parley.Part {
		return parley.Part{Type: parley.PartToolCall, Call: id, Name: name, Input: json.RawMessage(input)}
	}
	for name, ms := range map[string][]parley.Message{
		"two questions in a row":     {user("One."), user("Two.")},
		"an answer that was cut":     {user("One."), {Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartText, Text: "It is\n[cut off]", Cut: true}}}, user("[Go on.]")},
		"a result of nothing":        {user("One."), {Role: parley.RoleAssistant, Parts: []parley.Part{call("01A", "count", `{}`)}}, {Role: parley.RoleTool, Parts: []parley.Part{result("01A", "count", "")}}},
		"a result that is not known": {user("One."), {Role: parley.RoleAssistant, Parts: []parley.Part{call("01A", "count", `{}`)}}, {Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01A", Name: "count", Text: "It is unknown whether this call took effect.", IsError: true}}}},
		"a steer after results":      {user("One."), {Role: parley.RoleAssistant, Parts: []parley.Part{call("01A", "count", `{}`)}}, {Role: parley.RoleTool, Parts: []parley.Part{result("01A", "count", "1")}}, user("Faster.")},
		"input that is no object":    {user("One."), {Role: parley.RoleAssistant, Parts: []parley.Part{call("01A", "count", `"{cut"`)}}, {Role: parley.RoleTool, Parts: []parley.Part{result("01A", "count", "Failed: no object")}}},
		"a tool that is gone":        {user("One."), {Role: parley.RoleAssistant, Parts: []parley.Part{call("01A", "long_gone", `{}`)}}, {Role: parley.RoleTool, Parts: []parley.Part{result("01A", "long_gone", "1")}}},
		"steps after steps": {
			user("One."),
			{Role: parley.RoleAssistant, Parts: []parley.Part{call("01A", "count", `{}`)}},
			{Role: parley.RoleTool, Parts: []parley.Part{result("01A", "count", "1")}},
			{Role: parley.RoleAssistant, Parts: []parley.Part{call("01B", "count", `{}`)}},
			{Role: parley.RoleTool, Parts: []parley.Part{result("01B", "count", "2")}},
			{Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartText, Text: "Two."}}},
			user("And now?"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tools := range []bool{true, false} {
				r := Ask()
				if r.Messages = ms; !tools {
					r.Tools, r.Handoffs = nil, nil // as for an agent that has none and reads what another did
				}
				if g := s.reply(t, Behaviour{Reply: says("Well.")}, r); g.text != "Well." {
					t.Errorf("got %q", g.text)
				}
			}
		})
	}
}

var (
	png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89")
	pdf = []byte("%PDF-1.4\n%%EOF\n")
)

func (s suite) media(t *testing.T, kind parley.PartType, media string, body []byte) {
	var sn seen
	m, _ := s.New(t, Behaviour{Reply: says("I see."), Seen: sn.take})
	takes := m.Info().Images
	name := "picture.png"
	if kind == parley.PartFile {
		takes, name = m.Info().Files, "paper.pdf"
	}
	r := Ask()
	r.Messages = []parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{
		{Type: parley.PartText, Text: "What is this?"}, {Type: kind, Artifact: "01ART", MediaType: media, Name: name},
	}}}
	r.Open = func(_ context.Context, id parley.ArtifactID) (seam.File, error) {
		if id != "01ART" {
			return seam.File{}, parley.Errorf(parley.CodeNotFound, "no artifact %s", id)
		}
		return seam.File{Name: name, MediaType: media, Body: body}, nil
	}
	g := read(t, t.Context(), m, r, nil)
	if !takes {
		if g.reply != nil || parley.CodeOf(g.err) != parley.CodeInvalid {
			t.Errorf("got %v, want an error of code invalid: the model takes none", g.err)
		}
		return
	}
	if g.err != nil {
		t.Fatal(g.err)
	}
	if diff := cmp.Diff(flat(t, r), flat(t, sn.only(t))); diff != "" {
		t.Errorf("the provider saw (-want +got):\n%s", diff)
	}
}

// pictured is a step whose calls returned images: each arrives once, after the results and before
// what the model says next.
func (s suite) pictured(t *testing.T) {
	call := func(id parley.CallID) parley.Part {
		return parley.Part{Type: parley.PartToolCall, Call: id, Name: "look_up", Input: json.RawMessage(`{"query":"a"}`)}
	}
	image := func(of parley.CallID, id parley.ArtifactID) parley.Part {
		return parley.Part{Type: parley.PartImage, Call: of, Artifact: id, MediaType: "image/png", Name: string(id) + ".png"}
	}
	bodies := map[parley.ArtifactID]string{"one": "1", "two": "2", "three": "3"}
	for name, more := range map[string][]parley.Message{
		"the last step":     nil,
		"steered":           {parley.Text(parley.RoleUser, "Faster.")},
		"steps that follow": {{Role: parley.RoleAssistant, Parts: []parley.Part{call("01C")}}, {Role: parley.RoleTool, Parts: []parley.Part{result("01C", "look_up", "C")}}},
		"a turn that follows": {
			{Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartText, Text: "I see."}}},
			parley.Text(parley.RoleUser, "And now?"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sn seen
			m, _ := s.New(t, Behaviour{Reply: says("I see."), Seen: sn.take})
			r := Ask()
			r.Messages = append([]parley.Message{
				parley.Text(parley.RoleUser, "What is this?"),
				{Role: parley.RoleAssistant, Parts: []parley.Part{call("01A"), call("01B")}},
				{Role: parley.RoleTool, Parts: []parley.Part{
					result("01A", "look_up", "A"), image("01A", "one"), image("01A", "two"), result("01B", "look_up", "B"), image("01B", "three"),
				}},
			}, more...)
			r.Open = func(_ context.Context, id parley.ArtifactID) (seam.File, error) {
				return seam.File{Name: string(id) + ".png", MediaType: "image/png", Body: append(bytes.Clone(png), bodies[id]...)}, nil
			}
			g := read(t, t.Context(), m, r, nil)
			if !m.Info().Images {
				if g.reply != nil || parley.CodeOf(g.err) != parley.CodeInvalid {
					t.Errorf("got %v, want an error of code invalid: the model takes none", g.err)
				}
				return
			}
			if g.err != nil {
				t.Fatal(g.err)
			}
			want, got := flat(t, r), flat(t, sn.only(t))
			var media []string
			at := -1
			for i, m := range got {
				if len(m.Results) > 0 && at < 0 {
					at = i
					if diff := cmp.Diff(want[i].Results, m.Results); diff != "" {
						t.Errorf("results (-want +got):\n%s", diff)
					}
				}
				if len(m.Media) > 0 && (at < 0 || i > at+1 || m.Role == parley.RoleAssistant) {
					t.Errorf("images are in message %d, the results in %d", i, at)
				}
				media = append(media, m.Media...)
			}
			if diff := cmp.Diff(want[2].Media, media); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

func (s suite) closedFile(t *testing.T) {
	m, _ := s.New(t, Behaviour{Reply: says("I see."), Seen: func(seam.Request) { t.Error("the provider was asked nevertheless") }})
	r := Ask()
	r.Messages = []parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{{Type: parley.PartImage, Artifact: "01ART", MediaType: "image/png"}}}}
	r.Open = func(context.Context, parley.ArtifactID) (seam.File, error) {
		return seam.File{}, parley.Errorf(parley.CodeNotFound, "no such artifact")
	}
	want := parley.CodeNotFound
	if !m.Info().Images {
		want = parley.CodeInvalid
	}
	if g := read(t, t.Context(), m, r, nil); parley.CodeOf(g.err) != want {
		t.Errorf("got %v, want code %s", g.err, want)
	}
}

func (s suite) effort(t *testing.T) {
	warm := 0.3
	for _, effort := range []string{"", "low", "medium", "high"} {
		for _, heat := range []*float64{nil, &warm} {
			r := Ask()
			r.Effort, r.Temperature = effort, heat
			if g := s.reply(t, Behaviour{Reply: says("Well.")}, r); g.text != "Well." {
				t.Errorf("effort %q: got %q", effort, g.text)
			}
		}
	}
}

// A call whose arguments were cut off must be dropped.
func (s suite) cutCall(t *testing.T) {
	g := s.reply(t, Behaviour{Reply: seam.Reply{
		Parts: []parley.Part{{Type: parley.PartText, Text: "I look."}, {Type: parley.PartToolCall, Name: "look_up", Input: json.RawMessage(`{"query":"lo`)}},
		Usage: parley.Usage{InputTokens: 9, OutputTokens: 9}, StopReason: "max_tokens",
	}}, Ask())
	if g.reply.StopReason != "max_tokens" {
		t.Errorf("got stop reason %q", g.reply.StopReason)
	}
	parts(t, []parley.Part{{Type: parley.PartText, Text: "I look."}}, g.reply.Parts)
}

func (s suite) nothing(t *testing.T) {
	g := s.reply(t, Behaviour{Reply: seam.Reply{Usage: parley.Usage{InputTokens: 9, OutputTokens: 1}, StopReason: "end_turn"}}, Ask())
	if g.text != "" || len(g.reply.Parts) != 0 {
		t.Errorf("got %q and %v", g.text, g.reply.Parts)
	}
}

func (s suite) usage(t *testing.T) {
	sent := parley.Usage{InputTokens: 101, OutputTokens: 57, CacheReadTokens: 2003, CacheWriteTokens: 307, ReasoningTokens: 23}
	want := parley.Usage{InputTokens: sent.InputTokens, OutputTokens: sent.OutputTokens}
	if s.Usage != nil {
		want = s.Usage(sent)
	}
	r := says("Well.")
	r.Usage = sent
	g := s.reply(t, Behaviour{Reply: r}, Ask())
	g.reply.Usage.USD = 0
	if diff := cmp.Diff(want, g.reply.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func (s suite) bytewise(t *testing.T) {
	const text = "語 é 👩‍👩‍👧‍👦 — 😀"
	want := []parley.Part{{Type: parley.PartText, Text: text}, call("look_up", `{"query":"語 😀"}`)}
	g := s.reply(t, Behaviour{Reply: seam.Reply{Parts: want, StopReason: "tool_use", Usage: parley.Usage{InputTokens: 9, OutputTokens: 9}}, Bytewise: true}, Ask())
	parts(t, want, g.reply.Parts)
}

// Each fragment is passed on when it arrives: the provider sends the next one only after this
// one was seen.
func (s suite) slow(t *testing.T) {
	gate := make(chan struct{})
	text := strings.Repeat("word ", 20)
	m, _ := s.New(t, Behaviour{Reply: says(text), Gate: gate})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g := read(t, ctx, m, Ask(), func(n int) {
		if n < 20 {
			select {
			case gate <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	if g.err != nil || g.text != text {
		t.Errorf("got %q, %v: was a fragment held back?", g.text, g.err)
	}
}

// patience is how long to wait for something that must not hang.
const patience = time.Minute

func (s suite) stall(t *testing.T) {
	m, closed := s.New(t, Behaviour{Reply: says(strings.Repeat("word ", 100)), Stall: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	g := read(t, ctx, m, Ask(), func(n int) {
		if n == 3 {
			at = time.Now()
			cancel()
		}
	})
	if !errors.Is(g.err, context.Canceled) || g.reply != nil {
		t.Errorf("got %v and reply %v, want context.Canceled alone", g.err, g.reply != nil)
	}
	ends(t, closed)
	t.Logf("from the cancel to the end of the connection: %s", time.Since(at))
}

func (s suite) stopGated(t *testing.T) {
	m, closed := s.New(t, Behaviour{Reply: says(strings.Repeat("word ", 100)), Stall: true})
	for range m.Stream(t.Context(), Ask()) {
		break
	}
	ends(t, closed)
}

func (s suite) garbage(t *testing.T) {
	for _, f := range []Fault{FaultPage, FaultGateway, FaultChunk, FaultEnd} {
		m, _ := s.New(t, Behaviour{Reply: says(strings.Repeat("word ", 100)), Fault: f})
		g := read(t, t.Context(), m, Ask(), nil)
		e, ok := errors.AsType[*parley.Error](g.err)
		if !ok || g.reply != nil || e.Code != parley.CodeUnavailable && e.Code != parley.CodeModel || e.Message == "" || e.Hint == "" {
			t.Errorf("%s: got %#v and reply %v, want an error with a message and a hint", f, g.err, g.reply != nil)
			continue
		}
		if strings.Contains(e.Message, "It works!") || strings.Contains(e.Message, "<") {
			t.Errorf("%s: an HTML page in a message: %s", f, e.Message)
		}
	}
}

func (s suite) extras(t *testing.T) {
	m, _ := s.New(t, Behaviour{Reply: says("Well.")})
	if c, ok := m.(seam.Checker); ok {
		if err := c.Check(t.Context()); err != nil {
			t.Errorf("check: %v", err)
		}
	}
	if c, ok := m.(seam.TokenCounter); ok {
		if n, err := c.CountTokens(t.Context(), Ask()); err != nil || n <= 0 {
			t.Errorf("counted %d tokens, %v", n, err)
		}
	}
}

// Thinking goes back unchanged in the following step.
func (s suite) replay(t *testing.T) {
	first := seam.Reply{
		Parts: []parley.Part{{Type: parley.PartThinking, Text: "Let me <see> & \"count\"."}, call("look_up", `{"query":"a"}`)},
		Usage: parley.Usage{InputTokens: 9, OutputTokens: 9}, StopReason: "tool_use",
	}
	var sn seen
	m, _ := s.New(t, Behaviour{Reply: first, Seen: sn.take})
	r := Ask()
	r.Effort = "high"
	g := read(t, t.Context(), m, r, nil)
	if g.err != nil {
		t.Fatal(g.err)
	}
	// The parts pass through the log's JSON.
	raw, err := json.Marshal(g.reply.Parts)
	if err != nil {
		t.Fatal(err)
	}
	var back []parley.Part
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	id := parley.CallID("01A")
	for i := range back {
		if back[i].Type == parley.PartToolCall {
			back[i].Call = id
		}
	}
	r.Messages = append(r.Messages, parley.Message{Role: parley.RoleAssistant, Parts: back}, parley.Message{Role: parley.RoleTool, Parts: []parley.Part{result(id, "look_up", "A")}})
	if g := read(t, t.Context(), m, r, nil); g.err != nil {
		t.Fatal(g.err)
	}
	sn.mu.Lock()
	defer sn.mu.Unlock()
	again := sn.reqs[len(sn.reqs)-1]
	for _, msg := range again.Messages {
		for _, p := range msg.Parts {
			if p.Type == parley.PartThinking && p.Text == first.Parts[0].Text {
				return
			}
		}
	}
	t.Errorf("the thinking was not given back: %+v", again.Messages)
}
