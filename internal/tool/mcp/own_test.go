//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/parley-server/parley/internal/login"
)

// TestLogin_is_waited_for: while one request asks for a token, the others wait for it, each no
// longer than its own deadline.
func TestLogin_is_waited_for(t *testing.T) {
	t.Parallel()
	l := newOwn(OAuth{}, Options{}.clean, login.Search{Client: http.DefaultClient, Resource: "http://a"})
	l.issued, l.token = issuer{"a", &clientcredentials.Config{}}, &oauth2.Token{}
	leave, err := l.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	left := errors.New("it left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	source, err := l.TokenSource(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Token(); !errors.Is(err, left) {
		t.Errorf("a token: got %v", err)
	}
	if err := l.Authorize(ctx, &http.Request{}, &http.Response{Body: io.NopCloser(strings.NewReader(""))}); !errors.Is(err, left) {
		t.Errorf("a login: got %v", err)
	}
}

// TestSecretsAreRemovedBeforeTheCut: a server's text is shortened. A secret that crosses the cut is
// removed as a whole.
func TestSecretsAreRemovedBeforeTheCut(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-0815-4711-0042-password"
	o := Options{Clean: func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }}
	if got := o.clean(strings.Repeat("a", 100)+"s3\u200bcr3t"+secret[len("s3cr3t"):], 110); strings.Contains(got, "s3") {
		t.Errorf("cut in an error of the protocol: %q", got)
	}
	for name, c := range map[string]struct{ before, after int }{
		"the first words": {before: maxShown - len(secret)/2},
		"the last words":  {before: 10, after: maxError - len(secret)/2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := fmt.Sprintf(`{ head -c %d /dev/zero | tr '\0' a; printf %s; head -c %d /dev/zero | tr '\0' z; } >&2; exit 1`, c.before, secret, c.after)
			set, err := New(Options{
				Name: "test", Run: []string{"sh", "-c", script}, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
				Clean: o.Clean,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			_, err = set.Tools(t.Context())
			if err == nil || !strings.Contains(err.Error(), "it said: ") {
				t.Fatalf("got %v", err)
			}
			for n := 4; n <= len(secret); n++ {
				if strings.Contains(err.Error(), secret[:n]) || strings.Contains(err.Error(), secret[len(secret)-n:]) {
					t.Fatalf("a part of the secret is in %.300s", err)
				}
			}
		})
	}
}
