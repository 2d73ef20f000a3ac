package client

import (
	"context"
	"net/http"

	"github.com/parley-server/parley"
)

// Logins lists the user's logins at other services, such as MCP servers.
func (c *Client) Logins(ctx context.Context) ([]parley.Login, error) {
	list, err := get[struct {
		Logins []parley.Login `json:"logins"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/logins"})
	return list.Logins, err
}

// FinishLogin passes on the answer with which an authorization server redirected a browser.
func (c *Client) FinishLogin(ctx context.Context, a parley.LoginAnswer) (parley.LoginFinished, error) {
	return get[parley.LoginFinished](ctx, c, call{method: http.MethodPost, path: "/v1/logins", body: a})
}

// ForgetLogin removes a login. revoked reports whether its tokens were also revoked at the
// authorization server. It returns CodeNotFound if there is no login with that id.
func (c *Client) ForgetLogin(ctx context.Context, id string) (revoked bool, err error) {
	done, err := get[struct {
		Revoked bool `json:"revoked"`
	}](ctx, c, call{method: http.MethodDelete, path: p("/v1/logins/%s", id)})
	return done.Revoked, err
}

// ForgetLogins removes all of the user's logins, and everything else that is stored encrypted
// for the user.
func (c *Client) ForgetLogins(ctx context.Context) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodDelete, path: "/v1/logins"})
	return err
}
