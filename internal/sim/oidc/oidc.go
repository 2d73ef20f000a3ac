// Package oidc simulates an OpenID provider, for tests and the demo: discovery, keys that rotate,
// the code flow with PKCE, userinfo, logout, and tokens with any claims, also those of Clerk.
//
// It is as strict as its specifications permit: it requires PKCE with S256, exact redirect
// addresses and a nonce, and accepts each code once and for a minute. It asks for no password: a person picks one
// of the users, or [Server.Auto] is logged in at once.
package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// User is somebody who can log in.
type User struct {
	ID    string // sub
	Name  string
	Email string
	Org   string   // the active organisation; "": none
	Orgs  []string // all
}

// Client is an application that users log in to.
type Client struct {
	ID, Secret string   // Secret "": a public client
	Redirects  []string // one at a loopback address without a port is for every port (RFC 8252, 7.3)
	After      []string // where a logout may lead
}

// Server is the provider. Its fields are set before it is used, or under Lock.
type Server struct {
	sync.Mutex

	URL     string // also the issuer
	Users   []User
	Auto    string           // the id of the user who is logged in without a question; "": a page asks
	Deny    bool             // the user does not consent
	Down    bool             // every request is answered 503
	NoIssue bool             // answers do not name the issuer (RFC 9207)
	Nonce   func() string    // replaces the nonce in ID tokens; nil: the one that was sent
	TTL     time.Duration    // of tokens; 0: 1 h
	Now     func() time.Time // nil: time.Now
	API     string           // aud of access tokens; "": none are JWTs

	clients map[string]Client
	keys    []Key // the newest first
	codes   map[string]*grant
	tokens  map[string]User // opaque access tokens

	Documents, Sets, Exchanged int // requests
}

// Key is a signing key.
type Key struct {
	ID      string
	Private *rsa.PrivateKey
	Hidden  bool // not published
}

type grant struct {
	client, redirect, challenge, nonce string
	user                               User
	until                              time.Time
}

// New makes a provider with one key. Its handler is the Server; Start serves it.
func New(users ...User) *Server {
	s := &Server{Users: users, clients: map[string]Client{}, codes: map[string]*grant{}, tokens: map[string]User{}}
	s.Rotate()
	return s
}

// Start serves the provider on loopback until the returned server is closed.
func (s *Server) Start() *httptest.Server {
	srv := httptest.NewServer(s)
	s.URL = srv.URL
	return srv
}

// Register adds a client.
func (s *Server) Register(c Client) {
	s.Lock()
	defer s.Unlock()
	s.clients[c.ID] = c
}

// Rotate makes a new key, with which tokens are signed from now on. The older ones stay published.
func (s *Server) Rotate() Key {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the system has no randomness
	}
	s.Lock()
	defer s.Unlock()
	k := Key{ID: rand.Text()[:8], Private: private}
	s.keys = append([]Key{k}, s.keys...)
	return k
}

// Withdraw stops publishing a key.
func (s *Server) Withdraw(id string) {
	s.Lock()
	defer s.Unlock()
	for i := range s.keys {
		s.keys[i].Hidden = s.keys[i].Hidden || s.keys[i].ID == id
	}
}

// Keys are all keys, the newest first.
func (s *Server) Keys() []Key {
	s.Lock()
	defer s.Unlock()
	return slices.Clone(s.keys)
}

func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *Server) ttl() time.Duration {
	if s.TTL > 0 {
		return s.TTL
	}
	return time.Hour
}

// Claims are those of a valid access token of a user for an audience.
func (s *Server) Claims(user, audience string) map[string]any {
	s.Lock()
	defer s.Unlock()
	return s.claims(user, audience)
}

func (s *Server) claims(user, audience string) map[string]any {
	now := s.now()
	return map[string]any{
		"iss": s.URL, "sub": user, "aud": audience, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(s.ttl()).Unix(), "jti": rand.Text(),
	}
}

// Clerk are the claims of a session token of Clerk, of version 1 or 2, for the page at origin and
// with org as the active organisation, if it is not empty.
func (s *Server) Clerk(version int, user, origin, org string) map[string]any {
	s.Lock()
	defer s.Unlock()
	c := s.claims(user, "")
	delete(c, "aud")
	c["azp"], c["sid"], c["fva"], c["exp"] = origin, "sess_"+rand.Text()[:12], []int{0, -1}, s.now().Add(time.Minute).Unix()
	if version == 1 {
		delete(c, "jti")
		if org != "" {
			c["org_id"], c["org_role"], c["org_slug"], c["org_permissions"] = org, "org:admin", "acme", []string{"org:dashboard:read"}
		}
		return c
	}
	c["v"], c["sts"], c["pla"], c["fea"] = 2, "active", "o:pro", "o:dashboard,o:teams"
	if org != "" {
		c["o"] = map[string]any{"id": org, "rol": "admin", "slg": "acme", "per": "manage,read", "fpm": "3,2"}
	}
	return c
}

// Mint signs claims with the newest key, with the header of an access token.
func (s *Server) Mint(claims map[string]any) string {
	return s.Sign(s.Keys()[0], "at+jwt", claims)
}

// Sign signs claims with a key.
func (s *Server) Sign(k Key, typ string, claims map[string]any) string {
	opts := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": k.ID, "typ": typ}}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: k.Private}, opts)
	if err != nil {
		panic(err) // the key is ours
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		panic(err) // a test's claims
	}
	jws, err := signer.Sign(raw)
	if err != nil {
		panic(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	if s.Down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /.well-known/openid-configuration":
		s.document(w)
	case "GET /jwks", "GET /.well-known/jwks.json":
		s.jwks(w)
	case "GET /authorize", "POST /authorize":
		s.authorize(w, r)
	case "POST /token":
		s.token(w, r)
	case "GET /userinfo":
		s.userinfo(w, r)
	case "GET /logout", "POST /logout":
		s.logout(w, r)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func refuse(w http.ResponseWriter, code string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code})
}

func (s *Server) document(w http.ResponseWriter) {
	s.Documents++
	answer(w, http.StatusOK, map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "jwks_uri": s.URL + "/jwks",
		"userinfo_endpoint": s.URL + "/userinfo", "end_session_endpoint": s.URL + "/logout",
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"client_secret_basic", "client_secret_post", "none"},
		"scopes_supported":                               []string{"openid", "profile", "email"},
		"authorization_response_iss_parameter_supported": !s.NoIssue,
	})
}

func (s *Server) jwks(w http.ResponseWriter) {
	s.Sets++
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range s.keys {
		if !k.Hidden {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: &k.Private.PublicKey, KeyID: k.ID, Algorithm: "RS256", Use: "sig"})
		}
	}
	answer(w, http.StatusOK, set)
}

// choose is the page on which a person picks who to be. The request's own parameters are kept.
var choose = template.Must(template.New("choose").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sign in</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:22rem;margin:12vh auto;padding:0 1rem;color:#1c2024;background:#fff}
h1{font-size:1.25rem}p{color:#60646c}button{display:block;width:100%;margin:.5rem 0;padding:.75rem 1rem;font:inherit;text-align:left;border:1px solid #d9d9e0;border-radius:.5rem;background:none;color:inherit;cursor:pointer}
button:hover{background:#f0f0f3}small{display:block;color:#60646c}@media(prefers-color-scheme:dark){body{color:#edeef0;background:#111113}p,small{color:#b0b4ba}button{border-color:#43484e}button:hover{background:#212225}}</style>
<h1>Sign in to {{.Client}}</h1><p>This provider is simulated: pick who to be.</p><form method="post">{{range $k, $v := .Fields}}<input type="hidden" name="{{$k}}" value="{{$v}}">{{end}}
{{range .Users}}<button name="user" value="{{.ID}}">{{.Name}}<small>{{.Email}}</small></button>{{end}}<button name="user" value="-">Cancel</button></form></html>`))

// sends reports whether a client registered an address to return to.
func (c Client) sends(to string) bool {
	if slices.Contains(c.Redirects, to) {
		return true
	}
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.Hostname() != "127.0.0.1" {
		return false
	}
	u.Host = u.Hostname()
	return slices.Contains(c.Redirects, u.String())
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Method == http.MethodPost {
		_ = r.ParseForm()
		q = r.PostForm
	}
	c, ok := s.clients[q.Get("client_id")]
	if !ok || !c.sends(q.Get("redirect_uri")) {
		http.Error(w, "unknown client, or an address that it did not register", http.StatusBadRequest)
		return
	}
	back := url.Values{}
	if q.Get("state") != "" {
		back.Set("state", q.Get("state"))
	}
	if !s.NoIssue {
		back.Set("iss", s.URL)
	}
	picked := s.Auto
	if q.Has("user") {
		picked = q.Get("user")
	}
	i := slices.IndexFunc(s.Users, func(u User) bool { return u.ID == picked })
	switch {
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("nonce") == "" ||
		!slices.Contains(strings.Fields(q.Get("scope")), "openid"):
		back.Set("error", "invalid_request")
	case s.Deny || picked == "-":
		back.Set("error", "access_denied")
	case i < 0:
		fields := map[string]string{}
		for k := range q {
			if k != "user" {
				fields[k] = q.Get(k)
			}
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = choose.Execute(w, map[string]any{"Client": c.ID, "Fields": fields, "Users": s.Users})
		return
	default:
		code := "code-" + rand.Text()
		s.codes[code] = &grant{c.ID, q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("nonce"), s.Users[i], s.now().Add(time.Minute)}
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.Exchanged++
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id) // RFC 6749, 2.3.1
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	c, ok := s.clients[id]
	if !ok || subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1 {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	if r.PostFormValue("grant_type") != "authorization_code" {
		refuse(w, "unsupported_grant_type")
		return
	}
	g := s.codes[r.PostFormValue("code")]
	delete(s.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if g == nil || g.client != id || g.redirect != r.PostFormValue("redirect_uri") || s.now().After(g.until) ||
		g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		refuse(w, "invalid_grant")
		return
	}
	access := "opaque-" + rand.Text()
	if s.API != "" {
		claims := s.claims(g.user.ID, s.API)
		maps.Copy(claims, orgs(g.user))
		access = s.signed("at+jwt", claims)
	}
	s.tokens[access] = g.user
	claims := s.claims(g.user.ID, id)
	maps.Copy(claims, orgs(g.user))
	claims["nonce"], claims["auth_time"], claims["name"], claims["email"] = g.nonce, s.now().Unix(), g.user.Name, g.user.Email
	if s.Nonce != nil {
		claims["nonce"] = s.Nonce()
	}
	answer(w, http.StatusOK, map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(s.ttl().Seconds()), "scope": "openid profile email", "id_token": s.signed("JWT", claims),
	})
}

// signed is Sign with the newest key, under the lock.
func (s *Server) signed(typ string, claims map[string]any) string {
	return s.Sign(s.keys[0], typ, claims)
}

func orgs(u User) map[string]any {
	c := map[string]any{}
	if u.Org != "" {
		c["org_id"] = u.Org
	}
	if len(u.Orgs) > 0 {
		c["orgs"] = u.Orgs
	}
	return c
}

func (s *Server) userinfo(w http.ResponseWriter, r *http.Request) {
	u, ok := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token"})
		return
	}
	claims := orgs(u)
	claims["sub"], claims["name"], claims["email"] = u.ID, u.Name, u.Email
	answer(w, http.StatusOK, claims)
}

// logout ends the session at the provider (OIDC RP-Initiated Logout 1.0).
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	c, to := s.clients[r.FormValue("client_id")], r.FormValue("post_logout_redirect_uri")
	if to == "" || !slices.Contains(c.After, to) {
		http.Error(w, "You are logged out.", http.StatusOK)
		return
	}
	if state := r.FormValue("state"); state != "" {
		to += "?state=" + url.QueryEscape(state)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
