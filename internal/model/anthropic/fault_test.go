package anthropic_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/anthropic"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/anthropic"
)

// provider starts a provider whose brain says "Well".
func provider(t *testing.T, o sim.Options) (*sim.Server, *httptest.Server) {
	t.Helper()
	if o.Brain == nil {
		o.Brain = modeltest.Brain(modeltest.Behaviour{Reply: seam.Reply{
			Parts: []parley.Part{{Type: parley.PartText, Text: "Well, well."}}, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 5, OutputTokens: 3},
		}})
	}
	o.Key = key
	s := sim.New(o)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault sim.Fault
		code  parley.Code
		after time.Duration
		says  string
	}{
		"429 with a hint":             {sim.Fault{Status: 429, Message: "slow down", Header: http.Header{"Retry-After": {"7"}}}, parley.CodeRateLimited, 7 * time.Second, "slow down"},
		"429 for the month's money":   {sim.Fault{Status: 429, Body: `{"type":"error","error":{"type":"rate_limit_error","message":"cap","details":{"error_code":"enforced_spend_limit_reached"}}}`}, parley.CodeForbidden, 0, "cap"},
		"529":                         {sim.Fault{Status: 529, Message: "Overloaded"}, parley.CodeUnavailable, 0, "Overloaded"},
		"529 with a hint":             {sim.Fault{Status: 529, Header: http.Header{"Retry-After": {"2"}}}, parley.CodeUnavailable, 2 * time.Second, ""},
		"500":                         {sim.Fault{Status: 500, Message: "Internal server error"}, parley.CodeUnavailable, 0, "Internal server error"},
		"504":                         {sim.Fault{Status: 504}, parley.CodeUnavailable, 0, ""},
		"401":                         {sim.Fault{Status: 401, Message: "invalid x-api-key " + key}, parley.CodeUnauthenticated, 0, "[redacted]"},
		"402":                         {sim.Fault{Status: 402}, parley.CodeForbidden, 0, ""},
		"403":                         {sim.Fault{Status: 403}, parley.CodeForbidden, 0, ""},
		"404":                         {sim.Fault{Status: 404, Message: "model: claude-x"}, parley.CodeNotFound, 0, "claude-x"},
		"413":                         {sim.Fault{Status: 413}, parley.CodeTooLarge, 0, ""},
		"400 for a long prompt":       {sim.Fault{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, parley.CodeTooLarge, 0, "210000"},
		"400 for an empty purse":      {sim.Fault{Status: 400, Message: "Your credit balance is too low to access the Anthropic API."}, parley.CodeForbidden, 0, "credit"},
		"a redirect":                  {sim.Fault{Status: 302, Body: "elsewhere", Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, parley.CodeModel, 0, "302"},
		"a page of a proxy":           {sim.Fault{Status: 502, Body: "<html>bad gateway</html>"}, parley.CodeUnavailable, 0, "status 502"},
		"JSON where a stream is due":  {sim.Fault{Header: http.Header{"Content-Type": {"application/json"}}}, parley.CodeUnavailable, 0, "not a stream"},
		"cut before the first event":  {sim.Fault{Then: sim.ThenCut}, parley.CodeUnavailable, 0, "ended in the middle"},
		"cut in the middle":           {sim.Fault{Then: sim.ThenCut, After: 4}, parley.CodeUnavailable, 0, "ended in the middle"},
		"an end in the middle":        {sim.Fault{Then: sim.ThenEnd, After: 4}, parley.CodeUnavailable, 0, "ended in the middle"},
		"a chunk that is none":        {sim.Fault{Then: sim.ThenChunk, After: 4}, parley.CodeUnavailable, 0, "cannot be read"},
		"overload in the middle":      {sim.Fault{Then: sim.ThenError, After: 4, Type: "overloaded_error", Message: "Overloaded"}, parley.CodeUnavailable, 0, "Overloaded"},
		"too many in the middle":      {sim.Fault{Then: sim.ThenError, After: 4, Type: "rate_limit_error", Message: "slow down"}, parley.CodeRateLimited, 0, "slow down"},
		"an end just before the last": {sim.Fault{Then: sim.ThenEnd, After: 8}, parley.CodeUnavailable, 0, "ended in the middle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, srv := provider(t, sim.Options{})
			s.Fault(c.fault)
			m := client(t, srv.URL).Model(known("claude-sonnet-5-5"))
			modeltest.Failure{Code: c.code, After: c.after, Says: c.says}.Check(t, m, key, func() int { return s.Counts().Requests })
		})
	}
}

// TestRefusedSettingsAreLearned: when a model rejects a setting, the client learns it once.
func TestRefusedSettingsAreLearned(t *testing.T) {
	t.Parallel()
	warm := 0.3
	for name, c := range map[string]struct {
		model    sim.Model
		r        func(*seam.Request)
		requests int    // requests needed to learn it, besides the two calls
		has, not string // in later requests
	}{
		"a temperature that the table allows": {
			sim.Model{ID: "claude-sonnet-4-6", MaxTokens: 64_000, Adaptive: true, Effort: true},
			func(r *seam.Request) { r.Temperature = &warm }, 1, "", `"temperature"`,
		},
		"a temperature that the table knows to be refused": {
			sim.Model{ID: "claude-opus-4-7", MaxTokens: 64_000, Adaptive: true, Effort: true},
			func(r *seam.Request) { r.Temperature = &warm }, 0, "", `"temperature"`,
		},
		"a model of tomorrow that thinks within a budget": {
			sim.Model{ID: "claude-tale-6", MaxTokens: 64_000, Enabled: true},
			func(r *seam.Request) { r.Effort = "high" }, 1, `"budget_tokens"`, `"effort"`,
		},
		"a model of tomorrow that thinks by effort": {
			sim.Model{ID: "claude-tale-6", MaxTokens: 64_000, Adaptive: true, Effort: true},
			func(r *seam.Request) { r.Effort = "high" }, 1, `"adaptive"`, `"budget_tokens"`,
		},
		"thinking that the table has wrong": {
			sim.Model{ID: "claude-haiku-4-9", MaxTokens: 64_000, Adaptive: true, Effort: true},
			func(r *seam.Request) { r.Effort = "high" }, 2, `"adaptive"`, `"budget_tokens"`,
		},
		"an effort that the table has wrong": {
			sim.Model{ID: "claude-opus-5-9", MaxTokens: 64_000, Adaptive: true},
			func(r *seam.Request) { r.Effort = "high" }, 2, `"adaptive"`, `"effort"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b modeltest.Bodies
			s, srv := provider(t, sim.Options{Models: []sim.Model{c.model}, Asked: b.Take})
			m := client(t, srv.URL).Model(known(c.model.ID))
			r := modeltest.Ask()
			c.r(&r)
			for range 2 {
				if _, _, err := stream(t, m, r); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.Counts().Requests; n != 2+c.requests {
				t.Errorf("took %d requests, want %d", n, 2+c.requests)
			}
			for _, body := range b.All() {
				if !strings.Contains(body, c.has) || strings.Contains(body, c.not) {
					t.Errorf("sent %s, want %s and no %s", body, c.has, c.not)
				}
			}
			if len(b.All()) != 2 {
				t.Errorf("%d requests were taken, want 2", len(b.All()))
			}
		})
	}
}

// TestRefusalsAreNotRetriedBlindly: a rejection for another reason does not lead to another
// attempt.
func TestRefusalsAreNotRetriedBlindly(t *testing.T) {
	t.Parallel()
	warm := 0.3
	s, srv := provider(t, sim.Options{})
	refusal := sim.Fault{Status: 400, Message: "`temperature` is not supported for this model."}
	s.Fault(sim.Fault{Status: 400, Message: "messages.0: no"}, refusal, refusal)
	m := client(t, srv.URL).Model(known("claude-sonnet-4-6"))
	r := modeltest.Ask()
	r.Temperature = &warm
	if _, _, err := stream(t, m, r); parley.CodeOf(err) != parley.CodeInvalid || s.Counts().Requests != 1 {
		t.Errorf("got %v after %d requests", err, s.Counts().Requests)
	}
	// If the model also rejects the request without the setting, there is no third attempt.
	if _, _, err := stream(t, m, r); parley.CodeOf(err) != parley.CodeInvalid || s.Counts().Requests != 3 {
		t.Errorf("got %v after %d requests", err, s.Counts().Requests)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	_, srv := provider(t, sim.Options{})
	other, err := anthropic.New(anthropic.Options{Key: "sk-other", BaseURL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m    seam.Model
		want parley.Code
	}{
		"well":       {client(t, srv.URL).Model(known("claude-sonnet-5-5")), ""},
		"no such":    {client(t, srv.URL).Model(known("claude-x/y")), parley.CodeNotFound},
		"bad key":    {other.Model(known("claude-sonnet-5-5")), parley.CodeUnauthenticated},
		"nobody":     {client(t, "http://127.0.0.1:1").Model(known("claude-sonnet-5-5")), parley.CodeUnavailable},
		"wrong path": {client(t, srv.URL+"/nowhere").Model(known("claude-sonnet-5-5")), parley.CodeNotFound},
	} {
		err := c.m.(seam.Checker).Check(t.Context())
		if parley.CodeOf(err) != c.want || err != nil && parley.Info(err).Hint == "" {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	_, srv := provider(t, sim.Options{Models: []sim.Model{
		{ID: "claude-b", MaxInput: 2, MaxTokens: 1}, {ID: "claude-a", MaxInput: 4, MaxTokens: 3, NoMedia: true},
	}})
	got, err := client(t, srv.URL).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tools := []string{"web_search", "web_fetch"}
	want := []seam.ModelInfo{
		{Name: "anthropic/claude-a", Provider: "anthropic", ContextTokens: 4, MaxOutputTokens: 3, ServerTools: tools},
		{Name: "anthropic/claude-b", Provider: "anthropic", ContextTokens: 2, MaxOutputTokens: 1, Images: true, Files: true, ServerTools: tools},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

func TestCountTokens(t *testing.T) {
	t.Parallel()
	_, srv := provider(t, sim.Options{})
	for _, id := range []string{"claude-sonnet-5-5", "claude-haiku-4-5"} {
		m := client(t, srv.URL).Model(known(id)).(seam.TokenCounter)
		warm := 0.3
		r := modeltest.Ask()
		r.Temperature = &warm
		few, err := m.CountTokens(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.System = strings.Repeat("word ", 1000)
		if many, err := m.CountTokens(t.Context(), r); err != nil || few <= 0 || many < few+1000 {
			t.Errorf("%s: counted %d and %d, %v", id, few, many, err)
		}
	}
}
