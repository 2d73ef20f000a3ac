package mistral_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/mistral"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault sim.Fault
		code  parley.Code
		after time.Duration
		says  string
	}{
		"429 with a hint":         {sim.Fault{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, parley.CodeRateLimited, 7 * time.Second, "Rate limit exceeded"},
		"529":                     {sim.Fault{Status: 529}, parley.CodeUnavailable, 0, "Service unavailable"},
		"500":                     {sim.Fault{Status: 500}, parley.CodeUnavailable, 0, "Service unavailable"},
		"503 in words":            {sim.Fault{Status: 503, Body: "upstream connect error", Header: http.Header{"Content-Type": {"text/plain"}}}, parley.CodeUnavailable, 0, "upstream connect error"},
		"a page":                  {sim.Fault{Status: 502, Body: "<html><h1>Bad gateway</h1>", Header: http.Header{"Content-Type": {"text/html"}}}, parley.CodeUnavailable, 0, "answered with status 502"},
		"401":                     {sim.Fault{Status: 401}, parley.CodeUnauthenticated, 0, "does not accept the key"},
		"404":                     {sim.Fault{Status: 404}, parley.CodeNotFound, 0, ""},
		"no such model":           {sim.Fault{Status: 400, Body: `{"object":"error","message":"Invalid model: x","type":"invalid_model","code":"1500"}`}, parley.CodeNotFound, 0, "Invalid model"},
		"too long":                {sim.Fault{Status: 400, Body: `{"message":"Prompt contains 9 tokens, too large for model with 5 maximum context length"}`}, parley.CodeTooLarge, 0, "too large"},
		"422":                     {sim.Fault{Status: 422, Body: `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"],"msg":"Extra inputs are not permitted"}]}}`}, parley.CodeInvalid, 0, "body.x: Extra inputs are not permitted"},
		"a handoff that failed":   {sim.Fault{Status: 500, Body: `{"object":"Error","message":"Response failed during handoff orchestration","type":"invalid_request_error","code":3000}`}, parley.CodeUnavailable, 0, "handoff orchestration"},
		"cut before the end":      {sim.Fault{After: 3, Cut: true}, parley.CodeUnavailable, 0, "in the middle"},
		"cut at the first":        {sim.Fault{Cut: true}, parley.CodeUnavailable, 0, "in the middle"},
		"a stream that just ends": {sim.Fault{After: 3, End: true}, parley.CodeUnavailable, 0, "in the middle"},
		"a malformed chunk":       {sim.Fault{After: 2, Malformed: true}, parley.CodeUnavailable, 0, "cannot be read"},
		"a wrong type":            {sim.Fault{Type: "application/json"}, parley.CodeUnavailable, 0, "cannot be read"},
		"a page for a stream":     {sim.Fault{Type: "text/html"}, parley.CodeUnavailable, 0, "cannot be read"},
		"an error in the stream":  {sim.Fault{After: 2, Err: "Service tier capacity exceeded for this model."}, parley.CodeUnavailable, 0, "capacity exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cl := serve(t, sim.Options{Brain: always(text("one two three four five six"))})
			s.Fail(c.fault)
			g := read(t.Context(), cl.Model(info), modeltest.Ask())
			e, ok := errors.AsType[*parley.Error](g.err)
			if !ok || e.Code != c.code || e.RetryAfter != c.after || !strings.Contains(e.Message, c.says) || e.Hint == "" || g.reply != nil {
				t.Errorf("got %#v", g.err)
			}
			if n := len(s.Requests()); n != 1 {
				t.Errorf("%d requests: nothing is to be tried again here", n)
			}
			// The next call works as if nothing had happened.
			if g := read(t.Context(), cl.Model(info), modeltest.Ask()); g.text != "one two three four five six" {
				t.Errorf("got %q, %v", g.text, g.err)
			}
		})
	}
}

func TestHangIsEndedByTheCaller(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"before": 0, "in the middle": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := serve(t, sim.Options{Brain: always(text("one two three four"))})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.Fail(sim.Fault{After: after, Hang: true, Reached: cancel})
			if g := read(ctx, c.Model(info), modeltest.Ask()); !errors.Is(g.err, context.Canceled) || g.reply != nil {
				t.Errorf("got %v", g.err)
			}
			select {
			case <-s.Closed():
			case <-t.Context().Done():
				t.Error("the connection stays open")
			}
		})
	}
}

func TestErrorsHoldNoKey(t *testing.T) {
	t.Parallel()
	s, c := serve(t, sim.Options{Brain: always(text("x"))})
	s.Fail(sim.Fault{Status: 401, Body: `{"message":"bad key ` + key + `"}`})
	g := read(t.Context(), c.Model(info), modeltest.Ask())
	if g.err == nil || strings.Contains(fmt.Sprintf("%v %+v", g.err, errors.Unwrap(g.err)), key) {
		t.Errorf("got %v", g.err)
	}
}

func TestCheckAndList(t *testing.T) {
	t.Parallel()
	s, c := serve(t, sim.Options{Brain: always(text("x"))})
	checker := c.Model(info).(seam.Checker)
	if err := checker.Check(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
	other := info
	other.Name = "mistral/no-such-model"
	if err := c.Model(other).(seam.Checker).Check(t.Context()); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("got %v", err)
	}
	s.Fail(sim.Fault{Status: 401})
	if err := checker.Check(t.Context()); parley.CodeOf(err) != parley.CodeUnauthenticated {
		t.Errorf("got %v", err)
	}
	if err := client(t, "http://127.0.0.1:1").Model(info).(seam.Checker).Check(t.Context()); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	got, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []seam.ModelInfo{
		{Name: "mistral/mistral-medium-latest", Provider: "mistral", ContextTokens: 131072, Images: true},
		{Name: "mistral/mistral-small-latest", Provider: "mistral", ContextTokens: 131072, Images: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNew_refuses_nonsense(t *testing.T) {
	t.Parallel()
	for _, o := range []mistral.Options{
		{},
		{Key: "a b"},
		{Key: "a\n"},
		{Key: "k", BaseURL: "api.mistral.ai"},
		{Key: "k", BaseURL: "ftp://x"},
		{Key: "k", BaseURL: "https://u:p@x"},
		{Key: "k", BaseURL: "https://x?key=y"},
	} {
		if _, err := mistral.New(o); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	if _, err := mistral.New(mistral.Options{Key: "k", BaseURL: "https://api.eu.mistral.ai/v1/"}); err != nil {
		t.Error(err)
	}
}
