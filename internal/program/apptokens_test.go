package program

import (
	"context"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
)

// TestTokens_of_several_apps: a token that two apps accept is always for the same one, and an API that
// cannot be asked keeps out no users of another app.
func TestTokens_of_several_apps(t *testing.T) {
	t.Parallel()
	takes := func(of string) accept {
		return func(_ context.Context, token string) (app.Identity, bool, error) {
			return app.Identity{Principal: parley.Principal{User: of + ":1"}}, token == "good", nil
		}
	}
	down := accept(func(context.Context, string) (app.Identity, bool, error) {
		return app.Identity{}, false, parley.Errorf(parley.CodeUnavailable, "the API is down")
	})
	p := &plan{}
	for of, verify := range map[string]accept{"a": down, "b": takes("b"), "c": takes("c"), "d": down} {
		p.accepted.Store(of, verify)
	}
	for range 50 {
		who, ok, err := tokens{p}.Verify(t.Context(), "good")
		if !ok || err != nil || who.App != "b" || who.User != "b:1" {
			t.Fatalf("got %+v, %v, %v", who, ok, err)
		}
	}
	if _, ok, err := (tokens{p}).Verify(t.Context(), "wrong"); ok || parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("while it is not known whose it is: %v, %v", ok, err)
	}
	p.accepted.Delete("a")
	p.accepted.Delete("d")
	if _, ok, err := (tokens{p}).Verify(t.Context(), "wrong"); ok || err != nil {
		t.Errorf("of nobody: %v, %v", ok, err)
	}
}
