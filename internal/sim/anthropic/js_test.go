package anthropic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/anthropic"
	"github.com/parley-server/parley/internal/sim/nodetest"
)

// actor is a brain that follows the last word of the user's message.
type actor struct {
	asked atomic.Int32
	once  sync.Once
}

func (*actor) Info() seam.ModelInfo { return seam.ModelInfo{Name: "test/actor"} }

func (a *actor) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		a.asked.Add(1)
		last := r.Messages[len(r.Messages)-1]
		reply := &seam.Reply{Usage: parley.Usage{InputTokens: 11, OutputTokens: 7, CacheReadTokens: 5}}
		say := func(thinking, text string) bool {
			if thinking != "" && !yield(seam.ModelDelta{Thinking: thinking}, nil) {
				return false
			}
			for word := range strings.SplitAfterSeq(text, " ") {
				if !yield(seam.ModelDelta{Text: word}, nil) {
					return false
				}
			}
			return true
		}
		fail := func(err error) { yield(seam.ModelDelta{}, err) }
		if last.Role == parley.RoleTool {
			var told []string
			for _, p := range last.Parts {
				told = append(told, p.Name+p.Text)
			}
			if !say("", "You told me "+strings.Join(told, " ")) {
				return
			}
			yield(seam.ModelDelta{Reply: reply}, nil)
			return
		}
		switch word := last.Text(); word {
		case "tool":
			if !say("I need to know.", "I look.") {
				return
			}
			for _, q := range []string{"é", "b"} {
				reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartToolCall, Name: r.Tools[0].Name, Input: json.RawMessage(`{"query":"` + q + `"}`)})
			}
		case "handoff":
			reply.Parts = []parley.Part{{Type: parley.PartHandoff, Name: r.Handoffs[0].Agent, Text: "it knows"}}
		case "picture":
			f, err := r.Open(ctx, last.Parts[0].Artifact)
			if err != nil {
				fail(err)
				return
			}
			if !say("", fmt.Sprintf("%s of %d bytes", f.MediaType, len(f.Body))) {
				return
			}
		case "429":
			fail(parley.Errorf(parley.CodeRateLimited, "slow down").WithRetry(3 * time.Second))
			return
		case "529":
			fail(parley.Errorf(parley.CodeUnavailable, "overloaded"))
			return
		case "500":
			fail(parley.Errorf(parley.CodeUnavailable, "it broke"))
			return
		case "late":
			if say("", "one two") {
				fail(parley.Errorf(parley.CodeUnavailable, "overloaded"))
			}
			return
		case "cut":
			if say("", "one two") {
				fail(io.ErrUnexpectedEOF)
			}
			return
		case "once":
			first := false
			a.once.Do(func() { first = true })
			if first {
				fail(parley.Errorf(parley.CodeUnavailable, "overloaded"))
				return
			}
			if !say("", "At last.") {
				return
			}
		case "hang":
			if !say("", "one two") {
				return
			}
			<-ctx.Done()
			fail(ctx.Err())
			return
		default:
			if !say("Let me see.", "Google OAuth, 語 😀.") {
				return
			}
		}
		yield(seam.ModelDelta{Reply: reply}, nil)
	}
}

// TestOfficialClient: the provider's own client accepts every answer.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	s := anthropic.New(anthropic.Options{Key: "sk-right", Brain: &actor{}})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	got := nodetest.Run(t, srv.URL, "sk-right")
	type m = map[string]any
	list := func(v ...any) []any { return v }
	no := func(class string, status, kind any, after any) m {
		request := "string"
		if status == nil && kind == nil {
			request = "undefined"
		}
		return m{"class": class, "status": status, "type": kind, "request": request, "after": after}
	}
	invalid := no("BadRequestError", 400.0, "invalid_request_error", nil)
	want := m{
		"whole": m{"kinds": list("text"), "text": "Google OAuth, 語 😀.", "stop": "end_turn", "role": "assistant", "model": "claude-sonnet-5-5", "usage": list(11.0, 7.0)},
		"stream": m{
			"kinds": list("thinking", "text"), "thought": "Let me see.", "signed": true, "text": "Google OAuth, 語 😀.", "deltas": true, "stop": "end_turn",
			"usage": list(11.0, 7.0, 5.0),
		},
		"events": list("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"),
		"tools": m{
			"kinds": list("thinking", "text", "tool_use", "tool_use"), "stop": "tool_use", "inputs": list(m{"query": "é"}, m{"query": "b"}),
			"text": "You told me look_up[é] look_up[b]",
		},
		"handoff":    m{"name": "transfer_to_expert", "input": m{"reason": "it knows"}, "stop": "tool_use"},
		"picture":    "image/png of 8 bytes",
		"count":      true,
		"models":     m{"ids": list("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-sonnet-4-6", "claude-haiku-4-5"), "thinks": true},
		"badKey":     no("AuthenticationError", 401.0, "authentication_error", nil),
		"noModel":    no("NotFoundError", 404.0, "not_found_error", nil),
		"invalid":    invalid,
		"unanswered": invalid,
		"forged":     invalid,
		"slowDown":   no("RateLimitError", 429.0, "rate_limit_error", "3"),
		"overloaded": no("InternalServerError", 529.0, "overloaded_error", nil),
		"broken":     no("InternalServerError", 500.0, "api_error", nil),
		"late":       m{"class": "APIError", "status": nil, "type": "overloaded_error", "request": "string", "after": nil},
		"cut":        no("AnthropicError", nil, nil, nil),
		"retried":    "At last.",
		"left":       no("APIUserAbortError", nil, nil, nil),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the client found (-want +got):\n%s", diff)
	}
}
