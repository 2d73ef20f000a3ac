package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
)

const key = "sk-test-of-the-key-0123456789"

var provider = transport.Provider{Name: "Acme", Key: key}

func post(t *testing.T, ctx context.Context, url string) (*http.Response, error) { //nolint:revive // t first, as everywhere in tests
	t.Helper()
	return provider.Post(ctx, transport.NewClient(), url, http.Header{"Authorization": {"Bearer " + key}}, []byte(`{}`))
}

// is checks an error's code and text, that it has a hint, and that the key is not in it.
func is(t *testing.T, err error, code parley.Code, says string) {
	t.Helper()
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, says) || e.Hint == "" {
		t.Errorf("got %#v, want %s with %q and a hint", err, code, says)
	}
	if strings.Contains(fmt.Sprintf("%+v %v", e, errors.Unwrap(e)), key) {
		t.Errorf("the key is in %+v", e)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + closed.Addr().String() + "/?key=" + key
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	hangs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(hangs.Close)
	for url, want := range map[string]struct {
		code parley.Code
		says string
	}{
		gone:                            {parley.CodeUnavailable, "no connection to Acme"},
		"http://no-such-host.invalid/x": {parley.CodeUnavailable, "the name of Acme's server was not found: no-such-host.invalid"},
		secure.URL:                      {parley.CodeModel, "the certificate of Acme's server is not trusted"},
		strings.Replace(plain.URL, "http:", "https:", 1): {parley.CodeModel, "does not speak TLS"},
		hangs.URL:       {parley.CodeUnavailable, "ended in the middle"},
		"http://[::1:x": {parley.CodeInvalid, "the address of Acme is malformed"},
	} {
		resp, err := post(t, t.Context(), url)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: got an answer", url)
			continue
		}
		is(t, err, want.code, want.says)
	}
}

func TestCancelledIsTheContextsOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if resp, err := post(t, ctx, "http://127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		if err == nil {
			resp.Body.Close()
		}
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]parley.Code{
		400: parley.CodeInvalid, 401: parley.CodeUnauthenticated, 402: parley.CodeForbidden, 403: parley.CodeForbidden, 404: parley.CodeNotFound,
		408: parley.CodeUnavailable, 409: parley.CodeUnavailable, 413: parley.CodeTooLarge, 422: parley.CodeInvalid, 429: parley.CodeRateLimited,
		500: parley.CodeUnavailable, 503: parley.CodeUnavailable, 529: parley.CodeUnavailable, 302: parley.CodeModel, 418: parley.CodeModel,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			fmt.Fprintf(w, "no,\n your key %s is %s", key, strings.Repeat("é", 2000))
		}))
		t.Cleanup(srv.Close)
		resp, err := post(t, t.Context(), srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		e := provider.Refusal(resp, func(_ int, body []byte) (parley.Code, string) { return "", string(body) })
		is(t, e, code, "no, your key [redacted] is é")
		if len(e.Message) > 700 {
			t.Errorf("%d: a message of %d bytes", status, len(e.Message))
		}
		again := code == parley.CodeRateLimited || code == parley.CodeUnavailable
		if again != (e.RetryAfter == 7*time.Second) {
			t.Errorf("%d: retry after %s", status, e.RetryAfter)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "3", 3 * time.Second},
		{"Retry-After", "0.25", 250 * time.Millisecond},
		{"Retry-After", "Sat, 21 Nov 2026 08:01:00 GMT", time.Minute},
		{"Retry-After", "Sat, 21 Nov 2026 07:00:00 GMT", 0},
		{"Retry-After", "-4", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After", "soon", 0},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
		{"X", "", 0},
	} {
		if got := transport.RetryAfter(http.Header{http.CanonicalHeaderKey(c.name): {c.value}}, now); got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.name, c.value, got, c.want)
		}
	}
}

// TestMalformed: the message reads as a sentence, with or without a noun for what was sent.
func TestMalformed(t *testing.T) {
	t.Parallel()
	p := transport.Provider{Name: "Acme", Key: "secret"}
	for what, want := range map[string]string{
		"a chunk":                     "the answer of Acme cannot be read: a chunk",
		"something that is no stream": "the answer of Acme cannot be read: something that is no stream",
	} {
		e := p.Malformed(what, errors.New("near secret"))
		if e.Message != want || e.Code != parley.CodeUnavailable || e.Hint == "" || e.Err.Error() != "near [redacted]" {
			t.Errorf("got %q %s %q %v", e.Message, e.Code, e.Hint, e.Err)
		}
	}
}
