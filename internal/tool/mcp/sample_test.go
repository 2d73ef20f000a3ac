//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

//lint:file-ignore SA1019 sampling is deprecated, and servers ask for it

// wanting is a toolset over a server whose tools ask for a reply of the model. wrap chooses the era.
func wanting(t *testing.T, wrap func(http.Handler) http.Handler, sampling bool, p *sdk.CreateMessageWithToolsParams) *toolbox.Box {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for name, reads := range map[string]bool{"look": true, "write": false} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: reads}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				if c := r.ClientCapabilities(); (c.Sampling != nil) != sampling || sampling && (c.Sampling.Tools != nil || c.Sampling.Context != nil) {
					return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("capabilities %+v", c.Sampling)}}}, nil
				}
				switch res := r.Params.InputResponses["q"].(type) {
				case nil:
					return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": p}}, nil
				case *sdk.CreateMessageResult:
					raw, err := json.Marshal(res)
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(raw)}}}, err
				case *sdk.CreateMessageWithToolsResult:
					raw, err := json.Marshal(res)
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(raw)}}}, err
				default:
					return nil, fmt.Errorf("got %T", res)
				}
			})
	}
	return asked(t, wrap(handler(s)), func(o *mcp.Options) { o.Sampling = sampling })
}

// oracle replies as a model would.
type oracle struct {
	mu    sync.Mutex
	asked []parley.Sampling
	says  func(q parley.Sampling) (parley.Sampled, error)
}

func (o *oracle) sample(_ context.Context, q parley.Sampling) (parley.Sampled, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, q)
	return o.says(q)
}

func (o *oracle) run(t *testing.T, box *toolbox.Box, tool string) toolbox.Result {
	r := seam.Run{Call: "c1", Name: "mcp__test__" + tool, Input: json.RawMessage(`{}`), Principal: parley.Principal{User: "ana"}}
	if o != nil {
		r.Sample = o.sample
	}
	return box.Run(t.Context(), r, time.Now().Add(within))
}

func says(text string) *sdk.CreateMessageWithToolsParams {
	return &sdk.CreateMessageWithToolsParams{MaxTokens: 100, Messages: []*sdk.SamplingMessageV2{{Role: "user", Content: []sdk.Content{&sdk.TextContent{Text: text}}}}}
}

// TestSample: a server gets a reply of the model in the middle of a call, in both eras, with the
// model's name and why it ended.
func TestSample(t *testing.T) {
	t.Parallel()
	for era, wrap := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			p := says("What is the capital of France?")
			p.SystemPrompt, p.IncludeContext, p.Temperature, p.StopSequences = "Be brief.", "allServers", 0.3, []string{"x"}
			p.ModelPreferences = &sdk.ModelPreferences{Hints: []*sdk.ModelHint{{Name: "sonnet"}, {}, {Name: "claude"}}, SpeedPriority: 1}
			box := wanting(t, wrap, true, p)
			o := &oracle{says: func(parley.Sampling) (parley.Sampled, error) {
				return parley.Sampled{Model: "claude-x", Text: "Paris", StopReason: "max_tokens"}, nil
			}}
			var got map[string]any
			res := o.run(t, box, "write")
			if err := json.Unmarshal([]byte(res.Output), &got); err != nil {
				t.Fatalf("%+v", res.ToolResult)
			}
			want := map[string]any{"content": map[string]any{"type": "text", "text": "Paris"}, "model": "claude-x", "role": "assistant", "stopReason": "maxTokens"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			q := o.asked[0]
			if !strings.HasPrefix(q.Key, "model-") || !strings.HasSuffix(q.Key, "-1") {
				t.Errorf("key %q", q.Key)
			}
			q.Key = ""
			if diff := cmp.Diff(parley.Sampling{
				Server: "test", System: "Be brief.", Messages: []parley.Message{parley.Text(parley.RoleUser, "What is the capital of France?")}, MaxTokens: 100, Hints: []string{"sonnet", "claude"},
			}, q); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSampleNot: a server that may not have replies is not told that it could ask. One that gets no
// reply is told so, without the internal reason. A call of the newer era ends there.
func TestSampleNot(t *testing.T) {
	t.Parallel()
	tools, picture := says("go"), says("go")
	tools.Tools = []*sdk.Tool{{Name: "x", InputSchema: json.RawMessage(`{"type":"object"}`)}}
	picture.Messages[0].Content = []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: []byte("x")}}
	no := func(e *parley.Error) *oracle {
		return &oracle{says: func(parley.Sampling) (parley.Sampled, error) { return parley.Sampled{}, e }}
	}
	declined := parley.Errorf(parley.CodeForbidden, "the user did not allow it: my secret plan")
	for era, wrap := range eras {
		for name, c := range map[string]struct {
			off  bool
			p    *sdk.CreateMessageWithToolsParams
			o    *oracle
			want string // for the server of the older era
			said string // to our model, in the newer one
		}{
			"off":       {true, says("go"), no(nil), "", "which is not allowed"},
			"no model":  {false, says("go"), nil, "rejected", "there is no model here"},
			"declined":  {false, says("go"), no(declined), "rejected", "secret plan"},
			"tools":     {false, tools, no(nil), "tools are not supported", "tools are not supported"},
			"a picture": {false, picture, no(nil), "only text", "only text"},
			"a budget":  {false, says("go"), no(parley.Errorf("budget_usd", "0.1 of 0.2 are used")), "did not reply", "0.1 of 0.2"},
		} {
			box := wanting(t, wrap, !c.off, c.p)
			res := c.o.run(t, box, "look")
			want := c.want
			if era == "newer" {
				want = c.said
			}
			if res.Outcome != parley.OutcomeError || !strings.Contains(res.Output, want) {
				t.Errorf("%s, %s: got %+v", era, name, res.ToolResult)
			}
			if era == "older" && (strings.Contains(res.Output, "secret plan") || strings.Contains(res.Output, "0.1")) {
				t.Errorf("%s, %s: the server was told %s", era, name, res.Output)
			}
		}
	}
	// A write whose server got no reply has failed, because the server is not waiting.
	if res := no(declined).run(t, wanting(t, same, true, says("go")), "write"); res.Outcome != parley.OutcomeError {
		t.Errorf("a write: %+v", res.ToolResult)
	}
}

// TestSampleAgain: a read that has to wait ends, and asks under the same key when it is made again.
func TestSampleAgain(t *testing.T) {
	t.Parallel()
	for era, wrap := range eras {
		box := wanting(t, wrap, true, says("go"))
		waits := true
		o := &oracle{says: func(parley.Sampling) (parley.Sampled, error) {
			if waits {
				return parley.Sampled{}, seam.ErrParked
			}
			return parley.Sampled{Text: "now"}, nil
		}}
		if res := o.run(t, box, "look"); res.Outcome == parley.OutcomeOK {
			t.Errorf("%s: %+v", era, res.ToolResult)
		}
		waits = false
		if res := o.run(t, box, "look"); !strings.Contains(res.Output, "now") || len(o.asked) != 2 || o.asked[0].Key != o.asked[1].Key {
			t.Errorf("%s: %+v after %+v", era, res.ToolResult, o.asked)
		}
	}
}

// TestSampleTooOften: a call gets ten replies, and may ask for two at once.
func TestSampleTooOften(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var mu sync.Mutex
		var errs []error
		n := 0
		var work sync.WaitGroup
		for range 12 {
			work.Go(func() {
				_, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "go"}}}})
				mu.Lock()
				defer mu.Unlock()
				if n++; err != nil {
					n, errs = n-1, append(errs, err)
				}
			})
		}
		work.Wait()
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(n, " ", errors.Join(errs...))}}}, nil
	})
	box := asked(t, older(handler(s)), func(o *mcp.Options) { o.Sampling = true })
	o := &oracle{says: func(parley.Sampling) (parley.Sampled, error) { return parley.Sampled{Text: "x"}, nil }}
	res := o.run(t, box, "ask")
	keys := map[string]bool{}
	for _, q := range o.asked {
		keys[q.Key] = true
	}
	if !strings.HasPrefix(res.Output, "10 ") || strings.Count(res.Output, "10 times") != 2 || len(keys) != 10 {
		t.Errorf("got %+v after %d keys", res.ToolResult, len(keys))
	}
}
