package crm

import (
	"context"
	"errors"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Issuer returns an [Options].Trust for the tokens that an OpenID provider signs for an audience. It
// asks the provider where its keys are, with ctx, which must last as long as the server.
func Issuer(ctx context.Context, url, audience string) (func(ctx context.Context, token string) (email string, err error), error) {
	provider, err := oidc.NewProvider(ctx, url)
	if err != nil {
		return nil, err
	}
	verifier := provider.Verifier(&oidc.Config{ClientID: audience})
	return func(ctx context.Context, token string) (string, error) {
		t, err := verifier.Verify(ctx, token)
		if err != nil {
			return "", err
		}
		var claims struct {
			Email string `json:"email"`
		}
		if err := t.Claims(&claims); err != nil {
			return "", err
		}
		if claims.Email == "" {
			return "", errors.New("the token names no email")
		}
		return claims.Email, nil
	}, nil
}
