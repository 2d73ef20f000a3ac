// Package modeltest is the conformance suite for every seam.Model.
//
// An adapter's test gives [Run] a [Harness] that makes a model whose provider behaves as a
// [Behaviour] says: a server on loopback that simulates the provider's API, or the model itself
// if there is none. The suite checks the output of Stream and, with a simulated API, what the
// provider understood.
//
// With a simulated API, [Brain] is the model behind it and [Serve] the server:
//
//	srv, closed := modeltest.Serve(t, sim.New(sim.Options{Brain: modeltest.Brain(b)}), b)
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Behaviour is what the provider does with each request.
type Behaviour struct {
	Reply seam.Reply    // the reply; its texts arrive in several fragments
	Hang  bool          // it accepts the request and never answers
	Cut   bool          // the connection ends in the middle of the text
	Err   *parley.Error // it rejects the request; the model must return the same Code and RetryAfter
	Late  bool          // Err comes only after some of the text

	// The rest is only used with a harness that sets Wire.

	Stall    bool               // it falls silent in the middle of the text
	Bytewise bool               // the answer arrives byte by byte
	Gate     <-chan struct{}    // each fragment after the first waits for a value
	Fault    Fault              // fault in the bytes of the answer
	Seen     func(seam.Request) // called with each request as the provider understood it

	taken chan struct{} // with Hang: gets a value when Serve has the request
}

// Fault is a fault in the bytes of an answer.
type Fault string

const (
	FaultPage    Fault = "a page of HTML where a stream should be"
	FaultGateway Fault = "a page of HTML with status 502"
	FaultChunk   Fault = "a chunk that cannot be read"
	FaultEnd     Fault = "an answer that ends cleanly in the middle of the text"
)

// Harness makes models.
type Harness struct {
	// New makes a model whose provider behaves as b says. closed is closed when the provider has
	// seen the first connection end; it is nil if there is none.
	New func(t *testing.T, b Behaviour) (m seam.Model, closed <-chan struct{})
	// Errors are the rejections that the provider can express. Each needs a code. [Refusals] has
	// one of each kind.
	Errors []*parley.Error
	// Late are those that it can express within a stream.
	Late []*parley.Error
	// Thinking says that the provider returns thinking.
	Thinking bool

	// Wire says that the provider's API is simulated: the whole Behaviour applies, and
	// Behaviour.Seen gets requests as the provider understood them.
	Wire bool
	// Replays says that the provider gets its own thinking back.
	Replays bool
	// Usage returns the part of a usage that the API can report. nil: input and output tokens.
	Usage func(parley.Usage) parley.Usage
}

// Refusals returns one rejection of each kind.
func Refusals() []*parley.Error {
	return []*parley.Error{
		parley.Errorf(parley.CodeRateLimited, "slow down").WithRetry(3 * time.Second),
		parley.Errorf(parley.CodeRateLimited, "slow down, for as long as you think fit"),
		parley.Errorf(parley.CodeUnavailable, "overloaded").WithRetry(2 * time.Second),
		parley.Errorf(parley.CodeUnavailable, "something broke"),
		parley.Errorf(parley.CodeInvalid, "no such thing"),
		parley.Errorf(parley.CodeUnauthenticated, "who are you"),
		parley.Errorf(parley.CodeForbidden, "not you"),
		parley.Errorf(parley.CodeNotFound, "no such model"),
		parley.Errorf(parley.CodeTooLarge, "that is too much"),
	}
}

// soon is the limit for "promptly" on a busy machine.
const soon = 20 * time.Second

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	s := suite{h}
	cases := map[string]func(*testing.T){
		"info":                        s.info,
		"text":                        s.text,
		"unicode":                     s.unicode,
		"a megabyte of text":          s.long,
		"a tool call":                 s.tool,
		"parallel tool calls":         s.parallel,
		"a handoff":                   s.handoff,
		"a reply cut off for length":  s.maxTokens,
		"a history with calls":        s.history,
		"cancel before":               s.cancelBefore,
		"cancel in mid-stream":        s.cancelMid,
		"cancel while nothing comes":  s.cancelHang,
		"the reader goes away":        s.stop,
		"a stream that just ends":     s.cut,
		"refusals keep their meaning": s.refusals,
		"many at once":                s.concurrent,
	}
	if h.Thinking {
		cases["thinking"] = s.thinking
	}
	if len(h.Late) > 0 {
		cases["refusals in mid-stream"] = s.late
	}
	if h.Wire {
		maps.Copy(cases, s.wire())
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

type suite struct{ Harness }

// Ask returns a request that every model accepts.
func Ask() seam.Request {
	return seam.Request{
		Agent: "helper", System: "You help.", MaxTokens: 1 << 20,
		Messages: []parley.Message{parley.Text(parley.RoleUser, "What is the final spec?")},
		Tools: []parley.ToolDecl{
			{Name: "look_up", Description: "looks up", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`), Effect: parley.EffectRead},
			{Name: "count", Description: "counts", InputSchema: json.RawMessage(`{"type":"object"}`), Effect: parley.EffectRead},
		},
		Handoffs: []seam.Handoff{{Agent: "expert", Description: "knows more"}},
	}
}

func says(text string) seam.Reply {
	return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: text}}, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 10, OutputTokens: 20}}
}

// got is the complete output of a stream.
type got struct {
	text, thinking string
	reply          *seam.Reply
	err            error
	deltas         int
}

// read reads a stream to its end and checks the rules for each delta.
func read(t *testing.T, ctx context.Context, m seam.Model, r seam.Request, each func(n int)) got { //nolint:revive // t first, as everywhere in tests
	t.Helper()
	var g got
	var text, thinking strings.Builder
	for d, err := range m.Stream(ctx, r) {
		if g.reply != nil || g.err != nil {
			t.Errorf("the stream went on after its end with %+v, %v", d, err)
		}
		switch {
		case err != nil:
			g.err = err
		case d.Reply != nil:
			g.reply = d.Reply
		default:
			if d.Text == "" && d.Thinking == "" {
				t.Error("got an empty delta")
			}
			if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) {
				t.Errorf("got a delta that ends inside a character: %q", d.Text)
			}
			text.WriteString(d.Text)
			thinking.WriteString(d.Thinking)
			g.deltas++
			if each != nil {
				each(g.deltas)
			}
		}
	}
	g.text, g.thinking = text.String(), thinking.String()
	if g.reply == nil && g.err == nil {
		t.Error("the stream ended with neither a reply nor an error")
	}
	return g
}

// reply reads a stream that must succeed.
func (s suite) reply(t *testing.T, b Behaviour, r seam.Request) got {
	t.Helper()
	m, _ := s.New(t, b)
	g := read(t, t.Context(), m, r, nil)
	if g.err != nil {
		t.Fatalf("got error %v", g.err)
	}
	if g.reply == nil {
		t.FailNow()
	}
	if text := parley.PartsText(g.reply.Parts); text != g.text {
		t.Errorf("streamed %d bytes of text, replied with %d", len(g.text), len(text))
	}
	for _, p := range g.reply.Parts {
		if p.Call != "" {
			t.Errorf("the model gave the call id %q, which is for the runtime to choose", p.Call)
		}
	}
	if g.reply.Model == "" {
		t.Error("the reply does not name the model")
	}
	if u := g.reply.Usage; u.InputTokens <= 0 || u.OutputTokens <= 0 {
		t.Errorf("got usage %+v, want input and output counted", u)
	}
	return g
}

func (s suite) info(t *testing.T) {
	m, _ := s.New(t, Behaviour{Reply: says("x")})
	i := m.Info()
	if i.Name == "" || i.Provider == "" || i.ContextTokens <= 0 || i.MaxOutputTokens <= 0 {
		t.Errorf("got %+v, want name, provider and limits", i)
	}
}

func (s suite) text(t *testing.T) {
	g := s.reply(t, Behaviour{Reply: says("The spec is **Google OAuth**.\n\nAsk me more.")}, Ask())
	if g.text != "The spec is **Google OAuth**.\n\nAsk me more." || g.reply.StopReason != "end_turn" {
		t.Errorf("got %q, %s", g.text, g.reply.StopReason)
	}
	if g.deltas < 2 {
		t.Errorf("got %d deltas, want the text to arrive in fragments", g.deltas)
	}
}

func (s suite) unicode(t *testing.T) {
	const text = "語 and é, e\u0301, 👩‍👩‍👧‍👦, \u2028, \"quotes\", back\\slash,\ttab, <tag> & \u0000 end — 😀"
	if g := s.reply(t, Behaviour{Reply: says(text)}, Ask()); g.text != text {
		t.Errorf("got %q, want %q", g.text, text)
	}
}

func (s suite) long(t *testing.T) {
	text := strings.Repeat("All work and no play makes a dull stream. ", 1<<20/42)
	if g := s.reply(t, Behaviour{Reply: says(text)}, Ask()); g.text != text {
		t.Errorf("got %d bytes, want the %d that were said", len(g.text), len(text))
	}
}

// parts compares the parts of a reply, inputs as JSON values.
func parts(t *testing.T, want, got []parley.Part) {
	t.Helper()
	norm := func(ps []parley.Part) []string {
		var out []string
		for _, p := range ps {
			var in any
			if len(p.Input) > 0 {
				if err := json.Unmarshal(p.Input, &in); err != nil {
					t.Errorf("input %q of %s is not JSON: %v", p.Input, p.Name, err)
				}
			}
			raw, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s %s %q %s", p.Type, p.Name, p.Text, raw))
		}
		return out
	}
	if diff := cmp.Diff(norm(want), norm(got)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func call(name, input string) parley.Part {
	return parley.Part{Type: parley.PartToolCall, Name: name, Input: json.RawMessage(input)}
}

func (s suite) calls(t *testing.T, want ...parley.Part) {
	t.Helper()
	g := s.reply(t, Behaviour{Reply: seam.Reply{Parts: want, StopReason: "tool_use", Usage: parley.Usage{InputTokens: 9, OutputTokens: 9}}}, Ask())
	parts(t, want, g.reply.Parts)
	if g.reply.StopReason != "tool_use" {
		t.Errorf("got stop reason %q, want tool_use", g.reply.StopReason)
	}
}

func (s suite) tool(t *testing.T) {
	s.calls(t, call("look_up", `{"query":"login \"system\" 語","deep":{"list":[1,2.5,null,true]}}`))
}

func (s suite) parallel(t *testing.T) {
	s.calls(t, parley.Part{Type: parley.PartText, Text: "I look at both."},
		call("look_up", `{"query":"a"}`), call("count", `{}`), call("look_up", `{"query":"b"}`))
}

func (s suite) handoff(t *testing.T) {
	s.calls(t, parley.Part{Type: parley.PartHandoff, Name: "expert", Text: "it knows more"})
}

func (s suite) thinking(t *testing.T) {
	want := []parley.Part{{Type: parley.PartThinking, Text: "Let me see."}, {Type: parley.PartText, Text: "It is Google."}}
	r := Ask()
	r.Effort = "high"
	g := s.reply(t, Behaviour{Reply: seam.Reply{Parts: want, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 9, OutputTokens: 9}}}, r)
	parts(t, want, g.reply.Parts)
	if g.thinking != "Let me see." {
		t.Errorf("streamed the thinking %q", g.thinking)
	}
}

func (s suite) maxTokens(t *testing.T) {
	r := says("The spec is")
	r.StopReason = "max_tokens"
	if g := s.reply(t, Behaviour{Reply: r}, Ask()); g.reply.StopReason != "max_tokens" {
		t.Errorf("got stop reason %q", g.reply.StopReason)
	}
}

func (s suite) history(t *testing.T) {
	r := Ask()
	r.Messages = append(r.Messages,
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{
			{Type: parley.PartText, Text: "I look."},
			{Type: parley.PartToolCall, Call: "01A", Name: "look_up", Input: json.RawMessage(`{"query":"login"}`)},
			{Type: parley.PartToolCall, Call: "01B", Name: "count", Input: json.RawMessage(`{}`)},
		}},
		parley.Message{Role: parley.RoleTool, Parts: []parley.Part{
			{Type: parley.PartToolResult, Call: "01A", Name: "look_up", Text: "Google OAuth"},
			{Type: parley.PartToolResult, Call: "01B", Name: "count", Text: "Failed: no such thing", IsError: true},
		}},
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartHandoff, Call: "01C", Name: "expert", Text: "why not"}}},
		parley.Message{Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01C", Name: "expert", Text: "control passed to expert"}}},
		parley.Text(parley.RoleUser, "[handed over by expert]\n[text of expert]\nIt is Google."),
	)
	if g := s.reply(t, Behaviour{Reply: says("It is Google.")}, r); g.text != "It is Google." {
		t.Errorf("got %q", g.text)
	}
}

func (s suite) cancelBefore(t *testing.T) {
	m, _ := s.New(t, Behaviour{Reply: says("x")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if g := read(t, ctx, m, Ask(), nil); !errors.Is(g.err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", g.err)
	}
}

func (s suite) cancelMid(t *testing.T) {
	m, closed := s.New(t, Behaviour{Reply: says(strings.Repeat("word ", 200_000))})
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
	if d := time.Since(at); d > soon {
		t.Errorf("the stream went on for %s after the cancel", d)
	}
	ends(t, closed)
	t.Logf("from the cancel to the end of the connection: %s", time.Since(at))
}

func (s suite) cancelHang(t *testing.T) {
	// A call cancelled before its request was sent may leave a connection that is kept for
	// another request. So Serve signals when it has the request. A harness without Serve waits
	// for a fixed time.
	taken := make(chan struct{}, 1)
	m, closed := s.New(t, Behaviour{Hang: true, taken: taken})
	wait := 50 * time.Millisecond
	if closed != nil {
		wait = 2 * time.Second
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := make(chan time.Time, 1)
	go func() {
		select {
		case <-taken:
		case <-time.After(wait):
		}
		at <- time.Now()
		cancel()
	}()
	if g := read(t, ctx, m, Ask(), nil); !errors.Is(g.err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", g.err)
	}
	if d := time.Since(<-at); d > soon {
		t.Errorf("took %s to end", d)
	}
	ends(t, closed)
}

func (s suite) stop(t *testing.T) {
	m, closed := s.New(t, Behaviour{Reply: says(strings.Repeat("word ", 200_000))})
	for range m.Stream(t.Context(), Ask()) {
		break
	}
	ends(t, closed)
}

func ends(t *testing.T, closed <-chan struct{}) {
	t.Helper()
	if closed == nil {
		return
	}
	select {
	case <-closed:
	case <-time.After(soon):
		t.Error("the connection to the provider stays open")
	}
}

func (s suite) cut(t *testing.T) {
	m, _ := s.New(t, Behaviour{Reply: says(strings.Repeat("word ", 100)), Cut: true})
	g := read(t, t.Context(), m, Ask(), nil)
	if g.reply != nil || parley.CodeOf(g.err) != parley.CodeUnavailable {
		t.Errorf("got reply %v and %v, want an error of code unavailable", g.reply != nil, g.err)
	}
}

func (s suite) refusals(t *testing.T) {
	for _, want := range s.Errors {
		m, _ := s.New(t, Behaviour{Err: want})
		g := read(t, t.Context(), m, Ask(), nil)
		e, ok := errors.AsType[*parley.Error](g.err)
		if !ok || e.Code != want.Code || e.RetryAfter != want.RetryAfter || e.Message == "" {
			t.Errorf("got %#v, want code %s, retry after %s", g.err, want.Code, want.RetryAfter)
		}
	}
}

func (s suite) late(t *testing.T) {
	for _, want := range s.Late {
		m, _ := s.New(t, Behaviour{Reply: says(strings.Repeat("word ", 100)), Err: want, Late: true})
		g := read(t, t.Context(), m, Ask(), nil)
		if e, ok := errors.AsType[*parley.Error](g.err); !ok || e.Code != want.Code || e.Message == "" || g.reply != nil {
			t.Errorf("got %#v, want code %s", g.err, want.Code)
		}
		if !strings.HasPrefix(g.text, "word ") {
			t.Errorf("got %q of what was said before", g.text)
		}
	}
}

func (s suite) concurrent(t *testing.T) {
	m, _ := s.New(t, Behaviour{Reply: says("The spec is Google OAuth.")})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if g := read(t, t.Context(), m, Ask(), nil); g.text != "The spec is Google OAuth." {
				t.Errorf("got %q, %v", g.text, g.err)
			}
		})
	}
	wg.Wait()
}
