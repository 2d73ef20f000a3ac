package linkedin

import (
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// How long codes and tokens live.
const (
	CodeTTL    = 30 * time.Minute
	TokenTTL   = 60 * 24 * time.Hour
	RefreshTTL = 365 * 24 * time.Hour
)

type grant struct {
	member, redirect string
	scopes           []string
	until            time.Time
}

type token struct {
	member  string
	scopes  []string
	made    time.Time
	until   time.Time
	revoked bool
}

func (t *token) may(scope string) bool { return slices.Contains(t.scopes, scope) }

// EndTokens makes all access tokens expire, or revokes them and all refresh tokens.
func (s *Server) EndTokens(revoke bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.until, t.revoked = time.Time{}, t.revoked || revoke
	}
	if revoke {
		clear(s.renewals)
	}
}

// Secrets returns every token and code that was ever given out.
func (s *Server) Secrets() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.tokens {
		list = append(list, v)
	}
	for v := range s.renewals {
		list = append(list, v)
	}
	return list
}

var page = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>LinkedIn (simulated)</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:10vh auto;padding:0 1.2rem}
.note{border:1px solid #c9a227;border-radius:.5rem;padding:.5rem .8rem;font-size:.9em}h1{font-size:1.35rem}
select,button{font:inherit;padding:.55rem .9rem;border-radius:.5rem;border:1px solid #888}select{width:100%;margin-top:.3rem}
button[value=allow]{background:#0a66c2;border-color:#0a66c2;color:#fff}li{margin:.2rem 0}</style>
<p class="note">This is a simulation on this machine. It is not LinkedIn, and nothing leaves your computer.</p>
<h1>Allow access to your LinkedIn account?</h1><p>Parley asks for:</p><ul>{{range .scopes}}<li>{{.}}</li>{{end}}</ul>
<form method="post"><p><label>Log in as <select name="member">{{range .members}}<option value="{{.ID}}">{{.Name}}</option>{{end}}</select></label></p>
<p><button name="answer" value="allow">Allow</button> <button name="answer" value="cancel">Cancel</button></p></form>
`))

// registered reports whether browsers may be sent to an address.
func (s *Server) registered(back string) bool {
	if slices.Contains(s.o.Redirects, back) {
		return true
	}
	u, err := url.Parse(back)
	if err != nil || s.o.Back == "" || u.Path != s.o.Back || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// authorize is the consent page, and the answer to it.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back := q.Get("redirect_uri")
	if q.Get("client_id") != s.o.ClientID || !s.registered(back) {
		http.Error(w, "Bummer, something went wrong. The redirect_uri does not match the registered value, or the client_id is unknown.", http.StatusBadRequest)
		return
	}
	to := url.Values{}
	if q.Has("state") {
		to.Set("state", q.Get("state"))
	}
	leave := func() { http.Redirect(w, r, back+"?"+to.Encode(), http.StatusFound) }
	no := func(code, text string) {
		to.Set("error", code)
		to.Set("error_description", text)
		leave()
	}
	scopes := strings.FieldsFunc(q.Get("scope"), func(c rune) bool { return c == ' ' || c == ',' })
	known := []string{"openid", "profile", "email", "w_member_social"}
	if s.set.Reading {
		known = append(known, "r_member_social")
	}
	for _, scope := range scopes {
		if !slices.Contains(known, scope) {
			no("unauthorized_scope_error", `Scope "`+scope+`" is not authorized for your application`)
			return
		}
	}
	if q.Get("response_type") != "code" || len(scopes) == 0 {
		no("invalid_request", "response_type must be code, and a scope must be named")
		return
	}
	answer, member := s.set.Consent, s.set.Member
	if r.Method == http.MethodPost {
		answer = r.PostFormValue("answer")
		if m := r.PostFormValue("member"); m != "" {
			member = m
		}
	}
	switch _, known := s.member(member); {
	case answer == "":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, map[string]any{"scopes": scopes, "members": s.o.Members})
	case answer != "allow":
		no("user_cancelled_authorize", "The user cancelled the authorization")
	case !known:
		no("user_cancelled_login", "The user cancelled LinkedIn login")
	default:
		code := random("AQT")
		s.codes[code] = &grant{member, back, scopes, s.o.Now().Add(CodeTTL)}
		to.Set("code", code)
		leave()
	}
}

func oauthError(w http.ResponseWriter, status int, code, text string) {
	reply(w, status, map[string]string{"error": code, "error_description": text})
}

func (s *Server) accessToken(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/x-www-form-urlencoded" {
		oauthError(w, http.StatusBadRequest, "invalid_request", "A required parameter \"grant_type\" is missing")
		return
	}
	if r.PostFormValue("client_id") != s.o.ClientID || r.PostFormValue("client_secret") != s.o.ClientSecret {
		oauthError(w, http.StatusUnauthorized, "invalid_client", "Client authentication failed")
		return
	}
	now := s.o.Now()
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		code := r.PostFormValue("code")
		g := s.codes[code]
		delete(s.codes, code)
		if g == nil || now.After(g.until) || g.redirect != r.PostFormValue("redirect_uri") {
			oauthError(w, http.StatusBadRequest, "invalid_grant", "Unable to retrieve access token: appid/redirect uri/code verifier does not match authorization code. Or authorization code expired.")
			return
		}
		s.counts.Logins++
		out := s.issue(g.member, g.scopes)
		if s.set.Refreshing {
			v := random("AQW")
			s.renewals[v] = &token{member: g.member, scopes: g.scopes, made: now, until: now.Add(RefreshTTL)}
			out["refresh_token"], out["refresh_token_expires_in"] = v, int(RefreshTTL.Seconds())
		}
		reply(w, http.StatusOK, out)
	case "refresh_token":
		v := r.PostFormValue("refresh_token")
		t := s.renewals[v]
		if t == nil || now.After(t.until) {
			oauthError(w, http.StatusBadRequest, "invalid_grant", "The provided refresh token is invalid, expired or revoked")
			return
		}
		s.counts.Refreshes++
		out := s.issue(t.member, t.scopes)
		out["refresh_token"], out["refresh_token_expires_in"] = v, int(t.until.Sub(now).Seconds())
		reply(w, http.StatusOK, out)
	default:
		oauthError(w, http.StatusBadRequest, "unsupported_grant_type", "The grant type is not supported")
	}
}

func (s *Server) issue(member string, scopes []string) map[string]any {
	v, now := random("AQX"), s.o.Now()
	s.tokens[v] = &token{member: member, scopes: scopes, made: now, until: now.Add(TokenTTL)}
	said := slices.Sorted(slices.Values(scopes))
	return map[string]any{"access_token": v, "expires_in": int(TokenTTL.Seconds()), "scope": strings.Join(said, ","), "token_type": "Bearer"}
}

func (s *Server) introspect(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("client_id") != s.o.ClientID || r.PostFormValue("client_secret") != s.o.ClientSecret {
		oauthError(w, http.StatusUnauthorized, "invalid_client", "Client authentication failed")
		return
	}
	t := s.tokens[r.PostFormValue("token")]
	if t == nil {
		reply(w, http.StatusOK, map[string]any{"active": false})
		return
	}
	status := "active"
	switch {
	case t.revoked:
		status = "revoked"
	case s.o.Now().After(t.until):
		status = "expired"
	}
	reply(w, http.StatusOK, map[string]any{
		"active": status == "active", "status": status, "auth_type": "3L", "client_id": s.o.ClientID, "scope": strings.Join(t.scopes, ","),
		"authorized_at": t.made.Unix(), "created_at": t.made.Unix(), "expires_at": t.until.Unix(),
	})
}

// bearer returns the token of a request, or answers that it is not valid.
func (s *Server) bearer(w http.ResponseWriter, r *http.Request) *token {
	v, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t := s.tokens[v]
	switch {
	case !ok || v == "":
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", http.StatusUnauthorized, "Empty oauth2_access_token")
	case t == nil:
		refuse(w, http.StatusUnauthorized, "INVALID_ACCESS_TOKEN", 65600, "Invalid access token")
	case t.revoked:
		refuse(w, http.StatusUnauthorized, "REVOKED_ACCESS_TOKEN", 65601, "The token used in the request has been revoked by the user")
	case s.o.Now().After(t.until):
		refuse(w, http.StatusUnauthorized, "EXPIRED_ACCESS_TOKEN", 65602, "The token used in the request has expired")
	default:
		return t
	}
	return nil
}

func (s *Server) userinfo(w http.ResponseWriter, r *http.Request) {
	t := s.bearer(w, r)
	if t == nil {
		return
	}
	if !t.may("openid") || !t.may("profile") {
		denied(w, "userinfo.GET.NO_VERSION")
		return
	}
	m, _ := s.member(t.member)
	given, family, _ := strings.Cut(m.Name, " ")
	out := map[string]any{
		"sub": m.ID, "name": m.Name, "given_name": given, "family_name": family, "locale": map[string]string{"country": "US", "language": "en"},
	}
	if t.may("email") {
		out["email"], out["email_verified"] = m.Email, "true"
	}
	reply(w, http.StatusOK, out)
}

func denied(w http.ResponseWriter, what string) {
	refuse(w, http.StatusForbidden, "ACCESS_DENIED", 100, "Not enough permissions to access: "+what)
}
