package gemini_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/gemini"
	"github.com/parley-server/parley/internal/sim/nodetest"
)

// actor is a brain that follows the last word of the user's message.
type actor struct{ once sync.Once }

func (*actor) Info() seam.ModelInfo { return seam.ModelInfo{Name: "test/actor"} }

func (a *actor) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		gone := false
		say := func(thinking, text string) {
			if thinking != "" && !gone {
				gone = !yield(seam.ModelDelta{Thinking: thinking}, nil)
			}
			for word := range strings.SplitAfterSeq(text, " ") {
				gone = gone || !yield(seam.ModelDelta{Text: word}, nil)
			}
		}
		reply, err := a.act(ctx, r, say)
		switch {
		case gone:
		case err != nil:
			yield(seam.ModelDelta{}, err)
		default:
			reply.Usage = parley.Usage{InputTokens: 11, OutputTokens: 7, CacheReadTokens: 5, ReasoningTokens: 2}
			yield(seam.ModelDelta{Reply: &reply}, nil)
		}
	}
}

func (a *actor) act(ctx context.Context, r seam.Request, say func(thinking, text string)) (reply seam.Reply, err error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == parley.RoleTool {
		var told []string
		for _, p := range last.Parts {
			told = append(told, p.Name+p.Text)
		}
		say("", "You told me "+strings.Join(told, " "))
		return reply, nil
	}
	switch word := last.Text(); word {
	case "tool":
		say("I need to know.", "I look.")
		for _, q := range []string{"é", "b"} {
			reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartToolCall, Name: r.Tools[0].Name, Input: json.RawMessage(`{"query":"` + q + `"}`)})
		}
	case "handoff":
		reply.Parts = []parley.Part{{Type: parley.PartHandoff, Name: r.Handoffs[0].Agent, Text: "it knows"}}
	case "picture":
		f, err := r.Open(ctx, last.Parts[0].Artifact)
		if err != nil {
			return reply, err
		}
		say("", fmt.Sprintf("%s of %d bytes", f.MediaType, len(f.Body)))
	case "blocked":
		reply.StopReason = "refusal"
	case "429":
		return reply, parley.Errorf(parley.CodeRateLimited, "slow down").WithRetry(3 * time.Second)
	case "503":
		return reply, parley.Errorf(parley.CodeUnavailable, "overloaded")
	case "500":
		return reply, parley.Errorf(parley.CodeModel, "it broke")
	case "late":
		say("", "one two")
		return reply, parley.Errorf(parley.CodeUnavailable, "overloaded")
	case "cut":
		say("", "one two")
		return reply, io.ErrUnexpectedEOF
	case "once":
		first := false
		a.once.Do(func() { first = true })
		if first {
			return reply, parley.Errorf(parley.CodeUnavailable, "overloaded")
		}
		say("", "At last.")
	case "hang":
		say("", "one two")
		<-ctx.Done()
		return reply, ctx.Err()
	default:
		say("Let me see.", "Google OAuth, 語 😀.")
	}
	return reply, nil
}

// TestOfficialClient: the provider's own client accepts every answer.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	s := gemini.New(gemini.Options{Key: "right", Brain: &actor{}})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	got := nodetest.Run(t, srv.URL, "right")
	type m = map[string]any
	list := func(v ...any) []any { return v }
	no := func(status float64, rpc string) m { return m{"class": "ApiError", "status": status, "rpc": rpc} }
	invalid := no(400, "INVALID_ARGUMENT")
	const text = "Google OAuth, 語 😀."
	want := m{
		"whole": m{
			"text": text, "keys": list("text", "text+thoughtSignature"), "role": "model", "finish": "STOP", "model": "gemini-3.8-flash", "id": "string",
			"usage": list(16.0, 5.0, 5.0, 2.0, 23.0),
		},
		"stream": m{"text": text, "thought": "Let me see.", "many": true, "finish": "STOP", "usage": list(16.0, 5.0, 5.0, 2.0, 23.0), "signed": true},
		"tools": m{
			"keys": list("text+thought", "text", "functionCall+thoughtSignature", "functionCall"), "finish": "STOP", "args": list(m{"query": "é"}, m{"query": "b"}),
			"text": "You told me look_up[é] look_up[b]",
		},
		"chat":        m{"before": text, "calls": 2.0, "apart": invalid, "after": "You told me look_upno look_upno"},
		"oldModel":    m{"ids": list(nil, nil), "keys": list("text", "functionCall", "functionCall")},
		"handoff":     list("transfer_to_expert", m{"reason": "it knows"}),
		"picture":     "image/png of 8 bytes",
		"placeholder": "You told me look_upx",
		"count":       true,
		"models": m{
			"names": list("models/gemini-embedding-001", "models/gemini-3.8-flash", "models/gemini-3.1-pro-preview", "models/gemini-3-pro-preview", "models/gemini-2.5-flash", "models/gemini-2.0-flash"),
			"one":   list("models/gemini-3.8-flash", 1048576.0, 65536.0, true, true),
		},
		"blocked":    "SAFETY",
		"badKey":     invalid,
		"noModel":    no(404, "NOT_FOUND"),
		"bothWays":   invalid,
		"unanswered": invalid,
		"unsigned":   invalid,
		"forged":     invalid,
		"slowDown":   m{"class": "ApiError", "status": 429.0, "rpc": "RESOURCE_EXHAUSTED", "after": "3s"},
		"overloaded": no(503, "UNAVAILABLE"),
		"broken":     no(500, "INTERNAL"),
		"late":       no(503, "UNAVAILABLE"),
		"cut":        m{"class": "TypeError", "status": nil},
		"retried":    "At last.",
		"left":       m{"class": "DOMException", "status": nil},
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("what the client found (-want +got):\n%s", diff)
	}
}
