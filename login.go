package parley

import "time"

// Login is a user's login at another service, such as an MCP server. Its tokens are kept
// encrypted, and are in nothing that is shown.
type Login struct {
	ID        string    `json:"id"`
	App       string    `json:"app"`
	Workspace Workspace `json:"workspace,omitempty"` // whose file names the server; empty: the app's does
	Server    string    `json:"server"`              // as the file names it
	Resource  string    `json:"resource"`            // its address
	Issuer    string    `json:"issuer,omitempty"`    // the authorization server; empty: nobody was logged in yet
	Scopes    []string  `json:"scopes,omitempty"`    // that were asked for
	Since     time.Time `json:"since,omitzero"`      // zero: nobody is logged in
	Until     time.Time `json:"until,omitzero"`      // the present token lasts; zero: not known, or nobody is logged in
	Renews    bool      `json:"renews,omitempty"`    // it is renewed by itself
	Waiting   bool      `json:"waiting,omitempty"`   // a login has begun, and is not finished
}

// LoginAnswer is what a user's browser brings back from an authorization server: the query of
// the address to which that sent it.
type LoginAnswer struct {
	State string `json:"state"`
	Code  string `json:"code,omitempty"`
	// Issuer is the authorization server that answers (RFC 9207); empty: it did not say.
	Issuer string `json:"iss,omitempty"`
	Error  string `json:"error,omitempty"` // in place of a code, such as access_denied
}

// LoginFinished is a login after its answer was taken.
type LoginFinished struct {
	Login  Login `json:"login"`
	Denied bool  `json:"denied,omitempty"` // the user, or the authorization server, did not want it
}
