package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

// TestRefusals has servers' errors before a stream begins, in their own words.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const page = "<html><head><title>502 Bad Gateway</title></head></html>"
	for _, c := range []struct {
		status int
		header http.Header
		body   string
		code   parley.Code
		says   string
		after  time.Duration
	}{
		{429, http.Header{"Retry-After": {"7"}}, `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, parley.CodeRateLimited, "Rate limit reached", 7 * time.Second},
		{429, nil, `[{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"1.5s"}]}}]`, parley.CodeRateLimited, "Quota exceeded", 1500 * time.Millisecond},
		{429, http.Header{"Retry-After": {"7"}}, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, parley.CodeForbidden, "current quota", 0},
		{402, nil, `{"error":{"code":402,"message":"Insufficient credits","metadata":{}}}`, parley.CodeForbidden, "Insufficient credits", 0},
		{403, nil, `{"error":{"code":403,"message":"moderation","metadata":{"reasons":["x"],"flagged_input":"y"}}}`, parley.CodeForbidden, "moderation", 0},
		{400, nil, `{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 210000 tokens\"}}","provider_name":"Anthropic"}}}`, parley.CodeTooLarge, "prompt is too long", 0},
		{400, nil, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, parley.CodeTooLarge, "context size", 0},
		{400, nil, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, parley.CodeUnauthenticated, "API key not valid", 0},
		{503, nil, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, parley.CodeUnavailable, "Loading model", 0},
		{529, http.Header{"Retry-After-Ms": {"250"}}, `{"error":{"code":529,"message":"Overloaded"}}`, parley.CodeUnavailable, "Overloaded", 250 * time.Millisecond},
		{500, nil, `{"error":"llama runner process has terminated"}`, parley.CodeUnavailable, "llama runner", 0},
		{502, http.Header{"Content-Type": {"text/html"}}, page, parley.CodeUnavailable, "status 502", 0},
		{404, http.Header{"Content-Type": {"text/plain"}}, "404 page not found", parley.CodeNotFound, "no chat completions at the base URL", 0},
		{404, nil, `{"error":{"message":"model 'x' not found","type":"api_error","param":null,"code":null}}`, parley.CodeNotFound, "model 'x' not found", 0},
		{422, nil, `{"detail":[{"type":"missing","loc":["body","messages"]}]}`, parley.CodeInvalid, "missing", 0},
		{400, nil, `{"object":"error","message":"Bad things","type":"BadRequestError","param":null,"code":400}`, parley.CodeInvalid, "Bad things", 0},
		{401, nil, `{"error":{"message":"Incorrect API key provided: ` + key + `"}}`, parley.CodeUnauthenticated, "[redacted]", 0},
		{302, http.Header{"Location": {"http://127.0.0.1:1/"}}, "", parley.CodeModel, "status 302", 0},
	} {
		t.Run(fmt.Sprint(c.status, c.says), func(t *testing.T) {
			t.Parallel()
			cl, s := rig(t, sim.Options{Dialect: sim.Ollama}, openai.Options{})
			s.SetFault(sim.Fault{Status: c.status, Header: c.header, Body: c.body})
			o := read(t, cl.Model(info("m")), modeltest.Ask())
			if o.Error == nil || o.Error.Code != c.code || !strings.Contains(o.Error.Message, c.says) || o.Error.RetryAfterMS != c.after.Milliseconds() {
				t.Errorf("got %+v, want %s with %q after %s", o.Error, c.code, c.says, c.after)
			}
			if raw, _ := json.Marshal(o); strings.Contains(string(raw), key) || strings.Contains(string(raw), "<html") {
				t.Errorf("got %s", raw)
			}
			if n := s.Requests(); n != 1 {
				t.Errorf("got %d requests, want 1: the loop tries again, not the model", n)
			}
		})
	}
}

// TestInTheMiddle has errors in a stream that has begun.
func TestInTheMiddle(t *testing.T) {
	t.Parallel()
	b := says("end_turn", text(strings.Repeat("word ", 50)))
	for name, f := range map[string]sim.Fault{
		"the connection breaks": {After: 6, Cut: true},
		"it just ends":          {After: 6, Close: true},
		"half a frame":          {After: 6, Raw: `data: {"choices":[{"delta":{"con`},
		"no JSON":               {After: 6, Raw: "data: oops\n\n"},
		"a page":                {After: 6, Raw: "data: <html>\n\n"},
		"another type":          {After: 6, Raw: "data: {\"choices\":7}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := rig(t, sim.Options{Dialect: sim.VLLM, Brain: modeltest.Brain(b)}, openai.Options{})
			s.SetFault(f)
			o := read(t, c.Model(info("m")), modeltest.Ask())
			if o.Reply != nil || o.Error.Code != parley.CodeUnavailable || !strings.HasPrefix(o.Text, "word ") {
				t.Errorf("got %q, %+v, want unavailable after some of the text", o.Text, o.Error)
			}
		})
	}
}

// TestAfterTheEnd has a connection that breaks after the last text: the reply is complete, only
// its usage is missing.
func TestAfterTheEnd(t *testing.T) {
	t.Parallel()
	c, s := rig(t, sim.Options{Dialect: sim.VLLM}, openai.Options{})
	s.SetFault(sim.Fault{After: 3, Cut: true}) // role, text, finish
	got := ends(t, c.Model(info("m")), modeltest.Ask())
	if parley.PartsText(got.Parts) != "Well." || !got.Usage.Estimated {
		t.Errorf("got %+v", got)
	}
}

// TestNoUsage has servers that do not report usage.
func TestNoUsage(t *testing.T) {
	t.Parallel()
	for d := range speeches {
		c, _ := rig(t, sim.Options{Dialect: d, NoUsage: true, Brain: modeltest.Brain(says("end_turn", text(strings.Repeat("word ", 60))))}, openai.Options{})
		i := info("m")
		i.TokenBytes = 4
		r := modeltest.Ask()
		r.Messages[0] = parley.Text(parley.RoleUser, strings.Repeat("word ", 800))
		u := ends(t, c.Model(i), r).Usage
		if !u.Estimated || u.OutputTokens != 75 || u.InputTokens < 1000 || u.InputTokens > 1400 {
			t.Errorf("%s: got %+v, want an estimate", d, u)
		}
	}
}

// TestCancelCloses: when a call is cancelled, the server sees it.
func TestCancelCloses(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{"before": {}, "in the middle": {After: 4, Stall: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := says("end_turn", text(strings.Repeat("word ", 50)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if f.After == 0 {
				b.Hang, b.Seen = true, func(seam.Request) { cancel() }
			}
			c, s := rig(t, sim.Options{Dialect: sim.OpenAI, Brain: modeltest.Brain(b)}, openai.Options{})
			s.SetFault(f)
			for d, err := range c.Model(info("m")).Stream(ctx, modeltest.Ask()) {
				if d.Text != "" {
					cancel()
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want context.Canceled", err)
				}
			}
			at := time.Now()
			select {
			case <-s.Closed():
				t.Logf("the server saw it after %s", time.Since(at))
			case <-time.After(time.Minute):
				t.Error("the server was not told")
			}
		})
	}
}

// TestBounds has servers that send without end.
func TestBounds(t *testing.T) {
	t.Parallel()
	frame := func(delta string) string { return `data: {"choices":[{"index":0,"delta":` + delta + "}]}\n\n" }
	for name, piece := range map[string]string{
		"text":         frame(`{"content":"` + strings.Repeat("a", 1<<20) + `"}`),
		"thinking":     frame(`{"reasoning":"` + strings.Repeat("a", 1<<20) + `"}`),
		"arguments":    frame(`{"tool_calls":[{"index":0,"function":{"arguments":"` + strings.Repeat("a", 1<<18) + `"}}]}`),
		"calls":        frame(`{"tool_calls":[` + strings.Repeat(`{"function":{"name":"f","arguments":{}}},`, 99) + `{"function":{"name":"g","arguments":{}}}]}`),
		"reasoning":    frame(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"` + strings.Repeat("a", 1<<20) + `"}]}`),
		"in one piece": "data: " + strings.Repeat(" ", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range 50 {
					if _, err := w.Write([]byte(piece)); err != nil {
						return
					}
				}
			}))
			t.Cleanup(srv.Close)
			o := read(t, client(t, openai.Options{BaseURL: srv.URL}).Model(info("m")), modeltest.Ask())
			if o.Error == nil || o.Error.Code != parley.CodeTooLarge {
				t.Errorf("got %+v, want too_large", o.Error)
			}
		})
	}
}

// TestNobodyThere has servers that cannot be reached.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	gone := srv.URL
	srv.Close()
	for url, hint := range map[string]string{gone: "check the network", "http://no-such-host.invalid/v1": "check the network"} {
		o := read(t, client(t, openai.Options{BaseURL: url}).Model(info("m")), modeltest.Ask())
		if o.Error == nil || o.Error.Code != parley.CodeUnavailable || !strings.Contains(o.Error.Hint, hint) {
			t.Errorf("%s: got %+v", url, o.Error)
		}
	}
}

// TestChecks tells errors of key, model and network apart, in each dialect.
func TestChecks(t *testing.T) {
	t.Parallel()
	check := func(m seam.Model) parley.Code { return parley.CodeOf(m.(seam.Checker).Check(t.Context())) }
	for d, sp := range speeches {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			listed, _, _ := strings.Cut(sp.model, ":nitro")
			so := sim.Options{Dialect: d, Key: key, Models: []string{listed}}
			c, s := rig(t, so, openai.Options{})
			if got := check(c.Model(info(sp.model))); got != "" {
				t.Errorf("got %s", got)
			}
			want := parley.CodeNotFound
			if d == sim.LlamaCpp { // it serves its one model under any name
				want = ""
			}
			if got := check(c.Model(info("no/such-model"))); got != want {
				t.Errorf("a model that is not there: got %q, want %q", got, want)
			}
			wrong, _ := rig(t, so, openai.Options{Key: "wrong"})
			want = parley.CodeUnauthenticated
			if d == sim.LlamaCpp || d == sim.Ollama { // they list models without a key
				want = ""
			}
			if got := check(wrong.Model(info(sp.model))); got != want {
				t.Errorf("a wrong key: got %q, want %q", got, want)
			}
			if s.Requests() != 0 {
				t.Error("a check made a call")
			}
		})
	}
	if got := check(client(t, openai.Options{BaseURL: "http://no-such-host.invalid/v1"}).Model(info("m"))); got != parley.CodeUnavailable {
		t.Errorf("nobody there: got %s", got)
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	err := client(t, openai.Options{BaseURL: srv.URL}).Model(info("m")).(seam.Checker).Check(t.Context())
	if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeNotFound || !strings.Contains(e.Hint, "/v1") {
		t.Errorf("a wrong address: got %#v", err)
	}
	ollama, _ := rig(t, sim.Options{Dialect: sim.Ollama, Models: []string{"qwen3:latest"}}, openai.Options{})
	if got := check(ollama.Model(info("qwen3"))); got != "" {
		t.Errorf("the latest: got %s", got)
	}
}

// TestList compares the models' properties as reported by their servers.
func TestList(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }
	for d, want := range map[sim.Dialect]seam.ModelInfo{
		sim.OpenAI: {Name: "acme/a/b:c", Provider: "acme"},
		sim.OpenRouter: {
			Name: "acme/a/b:c", Provider: "acme", ContextTokens: 200_000, MaxOutputTokens: 64_000, Images: true, Files: true,
			InputUSD: 3, OutputUSD: 15, CacheReadUSD: 0.3, CacheWriteUSD: 3.75, PricedAt: "2026-11-21",
		},
		sim.VLLM:     {Name: "acme/a/b:c", Provider: "acme", ContextTokens: 32_768},
		sim.LlamaCpp: {Name: "acme/a/b:c", Provider: "acme", ContextTokens: 131_072},
		sim.Gemini:   {Name: "acme/a/b:c", Provider: "acme"},
	} {
		c, _ := rig(t, sim.Options{Dialect: d, Models: []string{"a/b:c"}}, openai.Options{Name: "acme", Now: now})
		got, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		round := func(f float64) float64 { return float64(int64(f*1e6+0.5)) / 1e6 }
		for i := range got {
			for _, p := range []*float64{&got[i].InputUSD, &got[i].OutputUSD, &got[i].CacheReadUSD, &got[i].CacheWriteUSD} {
				*p = round(*p)
			}
		}
		if diff := gocmp.Diff([]seam.ModelInfo{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d, diff)
		}
	}
}

// TestCounts has the one server that counts tokens, and another that does not offer it.
func TestCounts(t *testing.T) {
	t.Parallel()
	c, _ := rig(t, sim.Options{Dialect: sim.VLLM, Key: key}, openai.Options{})
	n, err := c.Model(info("m")).(seam.TokenCounter).CountTokens(t.Context(), modeltest.Ask())
	if err != nil || n < 50 || n > 500 {
		t.Errorf("got %d, %v", n, err)
	}
	c, _ = rig(t, sim.Options{Dialect: sim.Ollama}, openai.Options{})
	if _, ok := c.Model(info("m")).(seam.TokenCounter); ok {
		t.Error("a model of Ollama's counts tokens")
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    openai.Options
		code parley.Code
	}{
		"OpenAI without a key":     {openai.Options{}, parley.CodeUnauthenticated},
		"OpenRouter without a key": {openai.Options{BaseURL: "https://openrouter.ai/api/v1"}, parley.CodeUnauthenticated},
		"a key with a line break":  {openai.Options{Key: "sk-\nx"}, parley.CodeInvalid},
		"no address":               {openai.Options{Key: "k", BaseURL: "localhost:11434"}, parley.CodeInvalid},
		"a file":                   {openai.Options{Key: "k", BaseURL: "file:///etc/passwd"}, parley.CodeInvalid},
		"a key in the address":     {openai.Options{Key: "k", BaseURL: "http://x:y@h/v1"}, parley.CodeInvalid},
		"a query":                  {openai.Options{Key: "k", BaseURL: "http://h/v1?key=x"}, parley.CodeInvalid},
		"an unknown dialect":       {openai.Options{Key: "k", Dialect: "klingon"}, parley.CodeInvalid},
		"messages as an extra":     {openai.Options{Key: "k", Extra: map[string]json.RawMessage{"messages": json.RawMessage(`[]`)}}, parley.CodeInvalid},
		"an extra that is no JSON": {openai.Options{Key: "k", Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}}, parley.CodeInvalid},
	} {
		_, err := openai.New(c.o)
		if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != c.code || e.Hint == "" {
			t.Errorf("%s: got %#v, want %s", name, err, c.code)
		}
	}
}

// TestDialects finds a server's dialect by its address.
func TestDialects(t *testing.T) {
	t.Parallel()
	got := map[string]openai.Dialect{}
	want := map[string]openai.Dialect{
		"": openai.OpenAI, "https://api.openai.com/v1/": openai.OpenAI, "https://eu.api.openai.com/v1": openai.OpenAI,
		"https://openrouter.ai/api/v1": openai.OpenRouter, "https://generativelanguage.googleapis.com/v1beta/openai/": openai.Gemini,
		"http://localhost:11434/v1": openai.Ollama, "http://192.168.1.7:11434/v1": openai.Ollama, "http://ollama:11434/v1/chat/completions": openai.Ollama,
		"http://homeassistant.local:8080/v1": openai.LlamaCpp, "http://127.0.0.1:8000/v1": openai.VLLM,
		"https://example.com:8000/v1": openai.Plain, "https://notopenai.com/v1": openai.Plain, "http://localhost:1234/v1": openai.Plain,
	}
	for url := range want {
		got[url] = client(t, openai.Options{Key: "k", BaseURL: url}).Dialect()
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDeadline: the caller's deadline is reported as such.
func TestDeadline(t *testing.T) {
	t.Parallel()
	c, s := rig(t, sim.Options{Dialect: sim.OpenAI}, openai.Options{})
	s.SetFault(sim.Fault{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, err := range c.Model(info("m")).Stream(ctx, modeltest.Ask()) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want context.DeadlineExceeded", err)
		}
	}
}
