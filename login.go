package parley

import "time"

// Login is a user's login at another service, such as an MCP server. Its tokens are stored
// encrypted and are never shown.
type Login struct {
	ID        string    `json:"id"`
	App       string    `json:"app"`
	Workspace Workspace `json:"workspace,omitempty"` // the workspace whose file names the server; empty: the app's settings name it
	Server    string    `json:"server"`              // its name in that file
	Resource  string    `json:"resource"`            // the server's URL
	Issuer    string    `json:"issuer,omitempty"`    // the authorization server; empty: the user has never logged in
	Scopes    []string  `json:"scopes,omitempty"`    // the scopes that were requested
	Since     time.Time `json:"since,omitzero"`      // zero: not logged in
	Until     time.Time `json:"until,omitzero"`      // when the present token expires; zero: not known, or not logged in
	Renews    bool      `json:"renews,omitempty"`    // the token is renewed automatically
	Waiting   bool      `json:"waiting,omitempty"`   // a login has begun and is not finished
}

// LoginAnswer is the query with which an authorization server redirects the user's browser back
// to this server.
type LoginAnswer struct {
	State string `json:"state"`
	Code  string `json:"code,omitempty"`
	// Issuer is the authorization server that answers (RFC 9207). Empty: it did not name itself.
	Issuer string `json:"iss,omitempty"`
	Error  string `json:"error,omitempty"` // instead of a code; such as access_denied
}

// LoginFinished is a login after the authorization server's answer was processed.
type LoginFinished struct {
	Login     Login `json:"login"`
	Denied    bool  `json:"denied,omitempty"`    // the user or the authorization server refused
	Continues bool  `json:"continues,omitempty"` // a call waited for this login; its turn goes on
}
