// Package oauth simulates an authorization server and a service that it protects, on loopback, for
// tests.
//
// It is as strict as OAuth 2.1 permits: it requires PKCE with S256, exact redirect addresses, and a
// resource in each request, and accepts each code and refresh token once. If a refresh token is
// used again, everything that came from its login is revoked.
package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is the authorization server. Its fields are set before it is used, or under Lock.
type Server struct {
	*httptest.Server
	sync.Mutex

	User       string        // who is logged in in the browser
	Deny       bool          // the user does not consent
	TTL        time.Duration // of an access token; 0: 1 h
	Issuer     string        // the issuer in answers; "": the server itself; "-": none
	Unregister bool          // clients cannot register themselves
	// Look fetches the document of a client whose id is its address; nil: no such document is
	// fetched.
	Look    func(address string) ([]byte, error)
	Secrets bool // clients get a secret
	Down    bool // requests for tokens fail

	clients   map[string]*client
	codes     map[string]*grant
	refreshes map[string]*login
	used      map[string]*login // refresh tokens that were replaced
	access    map[string]*token

	Renewed, Issued, Revoked int
}

type client struct {
	secret    string
	redirects []string
}

type grant struct {
	client, redirect, challenge, resource, scope string
	login                                        *login
}

type login struct {
	user, client, resource, scope string
	over                          bool
}

type token struct {
	*login
	until time.Time
}

// New starts a server. The caller closes it.
func New() *Server {
	s := &Server{
		User: "ana", clients: map[string]*client{}, codes: map[string]*grant{}, refreshes: map[string]*login{}, used: map[string]*login{}, access: map[string]*token{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", s.metadata)
	mux.HandleFunc("POST /register", s.register)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /revoke", s.revoke)
	s.Server = httptest.NewServer(mux)
	return s
}

// Client registers a client as an operator would.
func (s *Server) Client(id, secret string, redirects ...string) {
	s.Lock()
	defer s.Unlock()
	s.clients[id] = &client{secret, redirects}
}

// EndTokens makes all access tokens invalid, and if all is set, the logins, too.
func (s *Server) EndTokens(all bool) {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.access {
		t.until = time.Time{}
		t.over = t.over || all
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code})
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	s.Lock()
	defer s.Unlock()
	m := map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "revocation_endpoint": s.URL + "/revoke",
		"code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic"},
		"authorization_response_iss_parameter_supported": true,
	}
	if s.Secrets {
		m["token_endpoint_auth_methods_supported"] = []string{"client_secret_basic"}
	}
	if !s.Unregister {
		m["registration_endpoint"] = s.URL + "/register"
	}
	if s.Look != nil {
		m["client_id_metadata_document_supported"] = true
	}
	answer(w, http.StatusOK, m)
}

// known returns the client with an id, which may be fetched.
func (s *Server) known(id string) *client {
	if s.clients[id] != nil || s.Look == nil || !strings.HasPrefix(id, "https://") {
		return s.clients[id]
	}
	raw, err := s.Look(id)
	var says struct {
		ID        string   `json:"client_id"`
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
		Way       string   `json:"token_endpoint_auth_method"`
	}
	if err != nil || json.Unmarshal(raw, &says) != nil || says.ID != id || says.Name == "" || says.Way != "none" {
		return nil
	}
	return &client{redirects: says.Redirects}
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Redirects []string `json:"redirect_uris"`
		Way       string   `json:"token_endpoint_auth_method"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Redirects) == 0 {
		refuse(w, "invalid_client_metadata")
		return
	}
	s.Lock()
	defer s.Unlock()
	id, c := "client-"+rand.Text(), &client{redirects: in.Redirects}
	out := map[string]any{"client_id": id, "redirect_uris": in.Redirects, "token_endpoint_auth_method": in.Way}
	if s.Secrets {
		c.secret = "client-secret-" + rand.Text()
		out["client_secret"] = c.secret
	}
	s.clients[id] = c
	answer(w, http.StatusCreated, out)
}

// authorize is the page on which the user would consent.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.Lock()
	defer s.Unlock()
	c := s.known(q.Get("client_id"))
	if c == nil || !slices.Contains(c.redirects, q.Get("redirect_uri")) {
		http.Error(w, "unknown client", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	switch s.Issuer {
	case "":
		back.Set("iss", s.URL)
	case "-":
	default:
		back.Set("iss", s.Issuer)
	}
	switch {
	case s.Deny:
		back.Set("error", "access_denied")
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("resource") == "":
		back.Set("error", "invalid_request")
	default:
		code := "code-" + rand.Text()
		s.codes[code] = &grant{
			q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("resource"), q.Get("scope"),
			&login{user: s.User, client: q.Get("client_id"), resource: q.Get("resource"), scope: q.Get("scope")},
		}
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// who returns the client of a request if it proves its identity.
func (s *Server) who(r *http.Request) string {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if c := s.known(id); c == nil || c.secret != secret {
		return ""
	}
	return id
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	if s.Down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	id := s.who(r)
	if id == "" {
		refuse(w, "invalid_client")
		return
	}
	var in *login
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		g := s.codes[r.PostFormValue("code")]
		delete(s.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if g == nil || g.client != id || g.redirect != r.PostFormValue("redirect_uri") || g.resource != r.PostFormValue("resource") ||
			g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse(w, "invalid_grant")
			return
		}
		in = g.login
		s.Issued++
	case "refresh_token":
		old := r.PostFormValue("refresh_token")
		if again := s.used[old]; again != nil {
			again.over = true
		}
		in = s.refreshes[old]
		if in == nil || in.over || in.client != id || in.resource != r.PostFormValue("resource") {
			refuse(w, "invalid_grant")
			return
		}
		delete(s.refreshes, old)
		s.used[old] = in
		s.Renewed++
	default:
		refuse(w, "unsupported_grant_type")
		return
	}
	ttl := s.TTL
	if ttl == 0 {
		ttl = time.Hour
	}
	access, refresh := "access-of-"+in.user+"-"+rand.Text(), "refresh-of-"+in.user+"-"+rand.Text()
	s.access[access] = &token{in, time.Now().Add(ttl)}
	s.refreshes[refresh] = in
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(ttl.Seconds()), "refresh_token": refresh, "scope": in.scope})
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	if s.who(r) == "" {
		refuse(w, "invalid_client")
		return
	}
	if in := s.refreshes[r.PostFormValue("token")]; in != nil {
		in.over = true
	}
	s.Revoked++
	answer(w, http.StatusOK, map[string]string{})
}

// Holder returns the user, the resource and the scope of the token in a request; "" without a valid
// token.
func (s *Server) Holder(r *http.Request) (user, resource, scope string) {
	s.Lock()
	defer s.Unlock()
	t := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if t == nil || t.over || !time.Now().Before(t.until) {
		return "", "", ""
	}
	return t.user, t.resource, t.scope
}

// Protect is a service for those who have a token for it. Its metadata is at the well-known path.
func (s *Server) Protect(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := "http://" + r.Host + path
		known := "/.well-known/oauth-protected-resource" + path
		if r.URL.Path == known {
			answer(w, http.StatusOK, map[string]any{"resource": resource, "authorization_servers": []string{s.URL}, "scopes_supported": []string{"notes"}})
			return
		}
		if _, of, _ := s.Holder(r); of != resource {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+known+`"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Visit opens a link as the user's browser does, and returns the address to which the browser is
// redirected.
func (s *Server) Visit(link string) (*url.URL, error) {
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(link)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	return resp.Location()
}
