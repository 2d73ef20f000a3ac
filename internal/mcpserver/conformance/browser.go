package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/vault"
)

// browser is a person who agrees to everything.
type browser struct {
	who   parley.Principal
	all   *login.Logins
	login *login.Login
}

func newBrowser(url, id, secret string) (*browser, error) {
	v, err := vault.Open(mem.New(), []string{base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))})
	if err != nil {
		return nil, err
	}
	b := &browser{who: parley.Principal{User: "suite"}}
	b.all = login.New(login.Options{
		Vault: func() *vault.Vault { return v }, Base: func() (string, error) { return "http://localhost:3000", nil },
	})
	b.login, err = b.all.At(login.Place{Principal: b.who, Scope: vault.Scope{App: "suite"}}, login.Server{
		Name: "suite", URL: url, Hosts: []string{"localhost", "127.0.0.1"}, ClientID: id, ClientSecret: secret,
	})
	return b, err
}

// visit does what a call needs first.
func (b *browser) visit(ctx context.Context, tools *mcp.Toolset, name string) error {
	ask, err := tools.Prepare(ctx, seam.Run{Name: name, Principal: b.who})
	if err != nil || ask == nil {
		return err
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ask.URL, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		return fmt.Errorf("the authorization server sends nobody back: %w", err)
	}
	q := back.Query()
	_, err = b.all.Finish(ctx, b.who, parley.LoginAnswer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")})
	return err
}
