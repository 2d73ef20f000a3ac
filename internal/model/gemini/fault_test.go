package gemini_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/gemini"
)

// serve starts a provider whose brain says "Well".
func serve(t *testing.T, o sim.Options) (*sim.Server, *httptest.Server) {
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
		"429 with a hint in its body":      {sim.Fault{Status: 429, Error: sim.Error{Message: "You exceeded your current quota", Retry: 7 * time.Second}}, parley.CodeRateLimited, 7 * time.Second, "quota"},
		"429 with a hint of a fraction":    {sim.Fault{Status: 429, Error: sim.Error{Retry: 34074824 * time.Microsecond}}, parley.CodeRateLimited, 34074824 * time.Microsecond, ""},
		"429 with a hint in its head":      {sim.Fault{Status: 429, Header: http.Header{"Retry-After": {"3"}}}, parley.CodeRateLimited, 3 * time.Second, ""},
		"429 with a hint of a week":        {sim.Fault{Status: 429, Error: sim.Error{Retry: 7 * 24 * time.Hour}}, parley.CodeRateLimited, 24 * time.Hour, ""},
		"429 in a list":                    {sim.Fault{Status: 429, Body: `[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2s"}]}}]`}, parley.CodeRateLimited, 2 * time.Second, "slow down"},
		"503":                              {sim.Fault{Status: 503, Error: sim.Error{Message: "The model is overloaded."}}, parley.CodeUnavailable, 0, "overloaded"},
		"529":                              {sim.Fault{Status: 529, Body: "overloaded"}, parley.CodeUnavailable, 0, "status 529"},
		"500":                              {sim.Fault{Status: 500, Error: sim.Error{Status: "INTERNAL", Message: "An internal error has occurred."}}, parley.CodeUnavailable, 0, "internal error"},
		"504":                              {sim.Fault{Status: 504, Error: sim.Error{Message: "Deadline expired"}}, parley.CodeUnavailable, 0, "Deadline"},
		"400 for a wrong key":              {sim.Fault{Status: 400, Error: sim.Error{Reason: "API_KEY_INVALID", Message: "API key not valid: " + key}}, parley.CodeUnauthenticated, 0, "[redacted]"},
		"401":                              {sim.Fault{Status: 401}, parley.CodeUnauthenticated, 0, ""},
		"403":                              {sim.Fault{Status: 403, Error: sim.Error{Message: "no"}}, parley.CodeForbidden, 0, "no"},
		"403 for no key":                   {sim.Fault{Status: 403, Error: sim.Error{Message: "Method doesn't allow unregistered callers"}}, parley.CodeUnauthenticated, 0, ""},
		"404":                              {sim.Fault{Status: 404, Error: sim.Error{Message: "models/gemini-x is not found"}}, parley.CodeNotFound, 0, "gemini-x"},
		"400 for where one is":             {sim.Fault{Status: 400, Error: sim.Error{Status: "FAILED_PRECONDITION", Message: "User location is not supported for the API use."}}, parley.CodeForbidden, 0, "location"},
		"400 for a long prompt":            {sim.Fault{Status: 400, Error: sim.Error{Message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}, parley.CodeTooLarge, 0, "1200000"},
		"400 for a large one":              {sim.Fault{Status: 400, Error: sim.Error{Message: "Request payload size exceeds the limit: 20971520 bytes."}}, parley.CodeTooLarge, 0, "20971520"},
		"400":                              {sim.Fault{Status: 400, Error: sim.Error{Message: "no such field"}}, parley.CodeInvalid, 0, "no such field"},
		"a redirect":                       {sim.Fault{Status: 302, Body: "elsewhere", Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, parley.CodeModel, 0, "302"},
		"a page of a proxy":                {sim.Fault{Status: 502, Body: "<html>bad gateway</html>"}, parley.CodeUnavailable, 0, "status 502"},
		"JSON where a stream is due":       {sim.Fault{Header: http.Header{"Content-Type": {"application/json"}}}, parley.CodeUnavailable, 0, "not a stream"},
		"cut before the first chunk":       {sim.Fault{Then: sim.ThenCut}, parley.CodeUnavailable, 0, "ended in the middle"},
		"cut in the middle":                {sim.Fault{Then: sim.ThenCut, After: 2}, parley.CodeUnavailable, 0, "ended in the middle"},
		"an end in the middle":             {sim.Fault{Then: sim.ThenEnd, After: 2}, parley.CodeUnavailable, 0, "ended in the middle"},
		"an end just before the last":      {sim.Fault{Then: sim.ThenEnd, After: 3}, parley.CodeUnavailable, 0, "ended in the middle"},
		"a chunk that is none":             {sim.Fault{Then: sim.ThenChunk, After: 2}, parley.CodeUnavailable, 0, "cannot be read"},
		"overload in the middle":           {sim.Fault{Then: sim.ThenError, After: 2, Error: sim.Error{Status: "UNAVAILABLE", Message: "Overloaded", Retry: time.Second}}, parley.CodeUnavailable, time.Second, "Overloaded"},
		"too many, in no chunk":            {sim.Fault{Then: sim.ThenBare, After: 2, Error: sim.Error{Status: "RESOURCE_EXHAUSTED", Message: "slow down", Retry: time.Second}}, parley.CodeRateLimited, time.Second, "slow down"},
		"a call that the model got wrong":  {sim.Fault{Finish: "MALFORMED_FUNCTION_CALL", Why: "Malformed function call: x("}, parley.CodeUnavailable, 0, "x("},
		"an end that nobody can explain":   {sim.Fault{Finish: "OTHER"}, parley.CodeUnavailable, 0, "without saying why"},
		"a history that the provider lost": {sim.Fault{Status: 400, Error: sim.Error{Message: "Corrupted thought signature."}}, parley.CodeInvalid, 0, "Corrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, srv := serve(t, sim.Options{})
			s.Fault(c.fault)
			m := client(t, srv.URL).Model(known(own))
			modeltest.Failure{Code: c.code, After: c.after, Says: c.says}.Check(t, m, key, func() int { return s.Counts().Requests })
		})
	}
}

func TestBlockedPromptIsARefusal(t *testing.T) {
	t.Parallel()
	s, srv := serve(t, sim.Options{})
	s.Fault(sim.Fault{Blocked: "SAFETY", Why: "Not that."}, sim.Fault{Blocked: "OTHER"})
	m := client(t, srv.URL).Model(known(own))
	for _, want := range []string{"Not that.", ""} {
		if text, reply, err := stream(t, m, modeltest.Ask()); err != nil || text != want || reply.StopReason != "refusal" || reply.Usage.InputTokens == 0 {
			t.Errorf("got %q, %+v, %v", text, reply, err)
		}
	}
}

// TestThinkingIsLearned: the client learns once which form of thinking a model takes.
func TestThinkingIsLearned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model    sim.Model
		effort   string
		requests int    // requests needed to learn it, besides the two calls
		has, not string // in later requests
	}{
		"a level":                    {sim.Model{ID: "gemini-9-flash", Level: true}, "medium", 0, `"thinkingLevel":"MEDIUM"`, "thinkingBudget"},
		"no level between":           {sim.Model{ID: "gemini-3-pro-preview", Level: true, NoMedium: true}, "medium", 0, `"thinkingLevel":"HIGH"`, "thinkingBudget"},
		"a budget":                   {sim.Model{ID: "gemini-2.5-pro", Budget: true}, "low", 0, `"thinkingBudget":2048`, "thinkingLevel"},
		"a model that does not":      {sim.Model{ID: "gemini-2.0-flash"}, "high", 0, `"maxOutputTokens"`, "thinkingConfig"},
		"nobody asks":                {sim.Model{ID: "gemini-3.8-flash", Level: true}, "", 0, `"maxOutputTokens"`, "thinkingConfig"},
		"a new model with a budget":  {sim.Model{ID: "gemini-9-flash", Budget: true}, "high", 1, `"thinkingBudget":24576`, "thinkingLevel"},
		"a new model with none":      {sim.Model{ID: "gemini-9-nano"}, "high", 1, `"maxOutputTokens"`, "thinkingConfig"},
		"an old model with no more":  {sim.Model{ID: "gemini-2.5-pro"}, "high", 1, `"maxOutputTokens"`, "thinkingConfig"},
		"an effort that nobody uses": {sim.Model{ID: "gemini-9-flash", Level: true}, "max", 0, `"thinkingLevel":"HIGH"`, "thinkingBudget"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.model.MaxOutput = 65_536
			var b modeltest.Bodies
			s, srv := serve(t, sim.Options{Models: []sim.Model{c.model}, Asked: b.Take})
			m := client(t, srv.URL).Model(known(c.model.ID))
			r := modeltest.Ask()
			r.Effort = c.effort
			for range 2 {
				if _, _, err := stream(t, m, r); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.Counts().Requests; n != 2+c.requests || len(b.All()) != 2 {
				t.Errorf("took %d requests, want %d", n, 2+c.requests)
			}
			for _, body := range b.All() {
				if !strings.Contains(body, c.has) || strings.Contains(body, c.not) {
					t.Errorf("sent %s, want %s and no %s", body, c.has, c.not)
				}
			}
		})
	}
}

// TestRefusalsAreNotRetriedBlindly: a rejection for another reason does not lead to another
// attempt. A rejected form of thinking leads to a limited number of attempts.
func TestRefusalsAreNotRetriedBlindly(t *testing.T) {
	t.Parallel()
	s, srv := serve(t, sim.Options{})
	thinks := sim.Fault{Status: 400, Error: sim.Error{Message: "Thinking level is not supported for this model."}}
	m := client(t, srv.URL).Model(known(own))
	r := modeltest.Ask()
	s.Fault(thinks)
	if _, _, err := stream(t, m, r); parley.CodeOf(err) != parley.CodeInvalid || s.Counts().Requests != 1 {
		t.Errorf("got %v after %d requests", err, s.Counts().Requests)
	}
	r.Effort = "high"
	s.Fault(thinks, thinks, thinks)
	if _, _, err := stream(t, m, r); parley.CodeOf(err) != parley.CodeInvalid || s.Counts().Requests != 4 {
		t.Errorf("got %v after %d requests", err, s.Counts().Requests)
	}
}

// TestRefusedSealsAreReplaced: when the provider rejects its own seal, the session goes on
// without it.
func TestRefusedSealsAreReplaced(t *testing.T) {
	t.Parallel()
	var b modeltest.Bodies
	s, srv := serve(t, sim.Options{Asked: b.Take})
	m := client(t, srv.URL).Model(known(own))
	r := modeltest.Ask()
	r.Messages = append(r.Messages,
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{
			{Type: parley.PartThinking, Text: "Hm.", Provider: "gemini", Signature: sealed(`{"model":"` + own + `"}`)},
			{Type: parley.PartToolCall, Call: "01A", ProviderID: "x", Provider: "gemini", Name: "count", Signature: sealed(`{"model":"` + own + `","thoughtSignature":"b2xk"}`)},
		}},
		parley.Message{Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01A", Text: "1"}}},
	)
	text, _, err := stream(t, m, r)
	if err != nil || text != "Well, well." || s.Counts().Requests != 2 {
		t.Fatalf("got %q, %v after %d requests", text, err, s.Counts().Requests)
	}
	if body := b.All()[0]; strings.Contains(body, "b2xk") || strings.Contains(body, "Hm.") || !strings.Contains(body, `"thoughtSignature":"skip_thought_signature_validator"`) {
		t.Errorf("sent %s", body)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	_, srv := serve(t, sim.Options{})
	other, err := gemini.New(gemini.Options{Key: "AIzaOther", BaseURL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m    seam.Model
		want parley.Code
	}{
		"well":         {client(t, srv.URL).Model(known(own)), ""},
		"its version":  {client(t, srv.URL+"/v1beta/").Model(known("models/" + own)), ""},
		"no such":      {client(t, srv.URL).Model(known("gemini-x/y:z?")), parley.CodeNotFound},
		"nobody tuned": {client(t, srv.URL).Model(known("tunedModels/x")), parley.CodeNotFound},
		"bad key":      {other.Model(known(own)), parley.CodeUnauthenticated},
		"nobody":       {client(t, "http://127.0.0.1:1").Model(known(own)), parley.CodeUnavailable},
		"wrong path":   {client(t, srv.URL+"/nowhere").Model(known(own)), parley.CodeNotFound},
	} {
		err := c.m.(seam.Checker).Check(t.Context())
		if parley.CodeOf(err) != c.want || err != nil && parley.Info(err).Hint == "" {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestList: only models that generate answers are listed, over any number of pages.
func TestList(t *testing.T) {
	t.Parallel()
	var many []sim.Model
	for range 1001 {
		many = append(many, sim.Model{ID: "gemini-b", MaxInput: 2, MaxOutput: 1})
	}
	_, srv := serve(t, sim.Options{Models: append(many, sim.Model{ID: "gemma-a", MaxInput: 4, MaxOutput: 3})})
	got, err := client(t, srv.URL).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1002 {
		t.Errorf("got %d models", len(got))
	}
	want := []seam.ModelInfo{
		{Name: "gemini/gemini-b", Provider: "gemini", ContextTokens: 2, MaxOutputTokens: 1, Images: true, Files: true},
		{Name: "gemini/gemma-a", Provider: "gemini", ContextTokens: 4, MaxOutputTokens: 3},
	}
	got = slices.CompactFunc(got, func(a, b seam.ModelInfo) bool { return a.Name == b.Name })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

func TestCountTokens(t *testing.T) {
	t.Parallel()
	_, srv := serve(t, sim.Options{})
	for _, id := range []string{own, "gemini-2.0-flash"} {
		m := client(t, srv.URL).Model(known(id)).(seam.TokenCounter)
		warm := 0.3
		r := modeltest.Ask()
		r.Temperature, r.Effort = &warm, "high"
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
