package auth

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/parley-server/parley"
)

const (
	// flowWithin is how long a person has to log in at the provider.
	flowWithin = 10 * time.Minute
	// maxUsed limits how many finished logins are remembered, 50 bytes each for flowWithin.
	maxUsed = 100_000
	// maxTo limits the address that a login returns to, in bytes.
	maxTo = 2000
)

// Login is how browsers sign in at an issuer: by the code flow of OIDC with PKCE.
type Login struct {
	ClientID, Secret string   // Secret "": a public client
	Scopes           []string // openid is always among them; nil: openid, profile, email
	Title            string   // for people; "": the issuer's name
	// EndSession sends a browser that signs out to the issuer, which ends its session there. The
	// issuer has to know this server's address as one to return to.
	EndSession bool
}

// Flow signs browsers in. The state of a login is in a cookie that only this process can read, so
// a flood of logins that nobody finishes holds nothing here. A restart interrupts those under way.
type Flow struct {
	issuers *Issuers
	signIns *SignIns
	base    func() (string, error)
	fail    func(http.ResponseWriter, error)
	log     *slog.Logger
	now     func() time.Time
	seal    cipher.AEAD

	mu    sync.Mutex
	used  map[[sha256.Size]byte]time.Time // states that were used, and until when they matter
	swept time.Time
}

// FlowOptions of [NewFlow]. All but Now and Logger are required.
type FlowOptions struct {
	Issuers *Issuers
	SignIns *SignIns
	Base    func() (string, error) // the URL at which browsers reach the server
	Fail    func(http.ResponseWriter, error)
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: none
}

// The paths of a flow. The issuer's name is in the wildcard issuer.
const (
	WaysPath     = "/v1/signin"
	BeginPath    = "/v1/signin/{issuer}"
	CallbackPath = "/v1/signin/{issuer}/callback"
)

// flowState is what a browser keeps while its user is at the provider.
type flowState struct {
	Issuer   string    `json:"i"`
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	To       string    `json:"t"`
	Until    time.Time `json:"u"`
}

// Way is a way to sign in, as anybody may know it.
type Way struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Path  string `json:"path"` // relative to the server's own
}

// NewFlow makes the flow of these issuers that have a Login.
func NewFlow(o FlowOptions) (*Flow, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	f := &Flow{issuers: o.Issuers, signIns: o.SignIns, base: o.Base, fail: o.Fail, log: o.Logger, now: o.Now, seal: seal, used: map[[sha256.Size]byte]time.Time{}}
	if f.now == nil {
		f.now = time.Now
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	return f, nil
}

// Ways are the ways to sign in.
func (f *Flow) Ways() []Way {
	list := []Way{}
	for _, is := range f.issuers.list {
		if is.Login != nil {
			list = append(list, Way{is.Name, cmp.Or(is.Login.Title, is.Name), "v1/signin/" + is.Name})
		}
	}
	return list
}

// ServeWays tells a page how its user can sign in. Anybody may know it.
func (f *Flow) ServeWays(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(struct { // the client may be gone
		Ways []Way `json:"ways"`
	}{f.Ways()})
}

func (f *Flow) issuer(r *http.Request) (*issuer, error) {
	name := r.PathValue("issuer")
	for _, is := range f.issuers.list {
		if is.Name == name && is.Login != nil {
			return is, nil
		}
	}
	return nil, parley.Errorf(parley.CodeNotFound, "nobody can sign in with %q here", parley.Cut(name, 60)).WithHint("%s lists the ways to sign in", WaysPath)
}

// Begin sends a browser to the provider. The query parameter to is the path of the page to return to.
func (f *Flow) Begin(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	is, err := f.issuer(r)
	if err != nil {
		f.fail(w, err)
		return
	}
	to := r.URL.Query().Get("to")
	if !localPath(to) {
		f.fail(w, parley.Errorf(parley.CodeInvalid, "a login returns to a page of this server only").WithField("to").WithHint("give a path, such as /apps/home/"))
		return
	}
	base, err := f.base()
	if err != nil {
		f.fail(w, err)
		return
	}
	// The cookie has to be set at the address that the provider sends the browser back to.
	if u, err := url.Parse(base); err == nil && !strings.EqualFold(u.Host, r.Host) && r.URL.Query().Get("moved") == "" {
		h.Set("Location", base+"/v1/signin/"+is.Name+"?moved=1&to="+url.QueryEscape(to))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	client, err := is.client(r.Context(), base)
	if err != nil {
		f.back(w, r, base, to, is, err)
		return
	}
	st := flowState{Issuer: is.Name, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: to, Until: f.now().Add(flowWithin)}
	raw, err := json.Marshal(st)
	if err != nil {
		f.fail(w, err)
		return
	}
	name, secure := Cookie(base)
	setCookie(w, name+"-signin", base64.RawURLEncoding.EncodeToString(f.seal.Seal(nil, nil, raw, nil)), secure, flowWithin)
	h.Set("Location", client.AuthCodeURL(st.State, oidc.Nonce(st.Nonce), oauth2.S256ChallengeOption(st.Verifier)))
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

// Check asks an issuer for its document and its keys, and returns what is wrong with it and with
// how this server uses it: errors that keep users out, and warnings. base is the URL at which
// browsers reach the server; "": it is not known.
func (i *Issuers) Check(ctx context.Context, name, base string) (warnings []string, wrong error) {
	at := slices.IndexFunc(i.list, func(is *issuer) bool { return is.Name == name })
	if at < 0 {
		return nil, parley.Errorf(parley.CodeNotFound, "there is no issuer %q", name)
	}
	is := i.list[at]
	if _, _, err := is.keys.fetch(ctx); err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "its keys cannot be had: %w", err).
			WithHint("compare auth.issuers.%s.issuer with the provider's page; name its host under private if its address is not public", name)
	}
	if is.Login == nil {
		return nil, nil
	}
	d, err := is.keys.document(ctx)
	switch {
	case err != nil:
		return nil, parley.Errorf(parley.CodeUnavailable, "nobody can sign in: %w", err)
	case d.Authorization == "" || d.Token == "":
		return nil, parley.Errorf(parley.CodeInvalid, "nobody can sign in: its document names no endpoints for that")
	case len(d.Challenges) > 0 && !slices.Contains(d.Challenges, "S256"):
		return nil, parley.Errorf(parley.CodeInvalid, "nobody can sign in: it does not support PKCE with S256")
	case base == "":
		return nil, parley.Errorf(parley.CodeInvalid, "nobody can sign in: the server does not know its own URL").WithHint("set public_url in parley.yaml, such as https://parley.example.com")
	}
	if is.Login.EndSession && d.EndSession == "" {
		warnings = append(warnings, "end_session is set, and it has no endpoint for that: signing out ends at this server")
	}
	if len(is.Audience) == 0 && !is.Clerk {
		warnings = append(warnings, "no audience is set: people can sign in, and tokens that programs send are refused")
	}
	return warnings, nil
}

// localPath reports whether a path leads to a page of this server, however a browser reads it.
func localPath(to string) bool {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || len(to) > maxTo || strings.ContainsAny(to, "\\\x7f") ||
		strings.ContainsFunc(to, func(r rune) bool { return r < ' ' }) {
		return false
	}
	u, err := url.Parse(to)
	return err == nil && u.Scheme == "" && u.Host == "" && u.User == nil
}

// client is this server as a client of the issuer.
func (is *issuer) client(ctx context.Context, base string) (*oauth2.Config, error) {
	d, err := is.keys.discover(ctx)
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "the issuer %s cannot be reached: %w", is.Name, err).WithRetry(retryEvery)
	}
	if d.Authorization == "" || d.Token == "" {
		return nil, parley.Errorf(parley.CodeUnavailable, "the issuer %s has no endpoint for logins", is.Name)
	}
	if len(d.Challenges) > 0 && !slices.Contains(d.Challenges, "S256") {
		return nil, parley.Errorf(parley.CodeUnavailable, "the issuer %s does not support PKCE with S256", is.Name)
	}
	scopes := is.Login.Scopes
	if scopes == nil {
		scopes = []string{"openid", "profile", "email"}
	}
	if !slices.Contains(scopes, "openid") {
		scopes = append([]string{"openid"}, scopes...)
	}
	style := oauth2.AuthStyleInHeader // the default of OIDC (Core, 9)
	if is.Login.Secret == "" || len(d.TokenAuth) > 0 && !slices.Contains(d.TokenAuth, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: is.Login.ClientID, ClientSecret: is.Login.Secret, Scopes: scopes, RedirectURL: base + "/v1/signin/" + is.Name + "/callback",
		Endpoint: oauth2.Endpoint{AuthURL: d.Authorization, TokenURL: d.Token, AuthStyle: style},
	}, nil
}

// Callback takes the browser back from the provider, and signs it in.
func (f *Flow) Callback(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the address has a code
	is, err := f.issuer(r)
	if err != nil {
		f.fail(w, err)
		return
	}
	base, err := f.base()
	if err != nil {
		f.fail(w, err)
		return
	}
	name, secure := Cookie(base)
	st, err := f.state(one(r, name+"-signin"), is, r.URL.Query())
	setCookie(w, name+"-signin", "", secure, 0)
	if err != nil {
		f.back(w, r, base, "/", is, err)
		return
	}
	who, err := f.finish(r.Context(), is, base, st, r.URL.Query())
	if err != nil {
		f.back(w, r, base, st.To, is, err)
		return
	}
	cookie, err := f.signIns.Begin(who, r.UserAgent(), one(r, name))
	if err != nil {
		f.back(w, r, base, st.To, is, err)
		return
	}
	f.log.Info("a browser signed in", "issuer", is.Name, "user", who.User, "org", who.Org)
	setCookie(w, name, cookie, secure, f.signIns.max)
	h.Set("Location", base+st.To)
	w.WriteHeader(http.StatusSeeOther)
}

// state opens the browser's cookie and checks that the answer belongs to it. It is used up then.
func (f *Flow) state(cookie string, is *issuer, q url.Values) (st flowState, err error) {
	strange := parley.Errorf(parley.CodeUnauthenticated, "this answer belongs to no login that this browser began in the last %s", flowWithin).WithHint("sign in again")
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return st, strange
	}
	raw, err := f.seal.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(raw, &st) != nil {
		return flowState{}, strange
	}
	now := f.now()
	if st.Issuer != is.Name || !now.Before(st.Until) || len(q["state"]) != 1 || subtle.ConstantTimeCompare([]byte(st.State), []byte(q.Get("state"))) != 1 {
		return flowState{}, strange
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) >= time.Minute {
		maps.DeleteFunc(f.used, func(_ [sha256.Size]byte, until time.Time) bool { return !now.Before(until) })
		f.swept = now
	}
	sum := sha256.Sum256([]byte(st.State))
	if until, used := f.used[sum]; used && now.Before(until) {
		return flowState{}, strange
	}
	if len(f.used) >= maxUsed {
		return flowState{}, parley.Errorf(parley.CodeRateLimited, "too many people sign in at once").WithRetry(time.Minute)
	}
	f.used[sum] = st.Until
	return st, nil
}

// errDenied says that the user did not log in at the provider.
var errDenied = errors.New("denied")

// finish exchanges the code for an ID token and returns who that is.
func (f *Flow) finish(ctx context.Context, is *issuer, base string, st flowState, q url.Values) (Identity, error) {
	d, err := is.keys.discover(ctx)
	if err != nil {
		return Identity{}, parley.Errorf(parley.CodeUnavailable, "the issuer %s cannot be reached: %w", is.Name, err).WithRetry(retryEvery)
	}
	// Another provider may have sent the browser here, to get the code of this one (RFC 9207).
	if got, sent := q["iss"]; sent && (len(got) != 1 || got[0] != is.URL) || !sent && d.SendsIssuer {
		return Identity{}, refusedToken("the answer is not the issuer's (iss)")
	}
	if code := q.Get("error"); code != "" {
		f.log.Info("a login was not finished", "issuer", is.Name, "error", parley.Cut(code, 60))
		return Identity{}, errDenied
	}
	client, err := is.client(ctx, base)
	if err != nil {
		return Identity{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, is.keys.client), 2*fetchWithin)
	defer cancel()
	got, err := client.Exchange(ctx, q.Get("code"), oauth2.VerifierOption(st.Verifier))
	if err != nil {
		if said, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
			return Identity{}, refusedToken("the issuer does not take the code: %s", cmp.Or(said.ErrorCode, said.Response.Status))
		}
		return Identity{}, parley.Errorf(parley.CodeUnavailable, "the issuer %s cannot be reached: %w", is.Name, err).WithRetry(retryEvery)
	}
	token, _ := got.Extra("id_token").(string)
	return is.idToken(ctx, token, st.Nonce)
}

// idToken returns who an ID token is for (OIDC Core, 3.1.3.7).
func (is *issuer) idToken(ctx context.Context, token, nonce string) (Identity, error) {
	c, err := is.checked(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	us := is.Login.ClientID
	switch {
	case c.typ == "at+jwt":
		return Identity{}, refusedToken("it is an access token, and an ID token was expected")
	case !slices.Contains(c.Audience, us):
		return Identity{}, refusedToken("it is for another application (aud)")
	case len(c.Audience) > 1 && c.Party == "", c.Party != "" && c.Party != us:
		return Identity{}, refusedToken("it was made for another client (azp)")
	case c.Nonce == nil || subtle.ConstantTimeCompare([]byte(*c.Nonce), []byte(nonce)) != 1:
		return Identity{}, refusedToken("it belongs to another login (nonce)")
	case c.Events != nil:
		return Identity{}, refusedToken("it is no ID token")
	}
	return is.identity(c)
}

// back sends the browser to the page with a word that says what went wrong. The details are in the
// log, since anybody can make up an address.
func (f *Flow) back(w http.ResponseWriter, r *http.Request, base, to string, is *issuer, err error) {
	why := "failed"
	switch {
	case errors.Is(err, errDenied):
		why = "denied"
	case parley.CodeOf(err) == parley.CodeUnavailable:
		why = "unavailable"
	case parley.CodeOf(err) == parley.CodeForbidden:
		why = "forbidden"
	}
	if why != "denied" && r.Context().Err() == nil {
		f.log.Warn("a login failed", "issuer", is.Name, "err", err)
	}
	page, _, _ := strings.Cut(to, "#")
	w.Header().Set("Location", base+page+"#signin="+why)
	w.WriteHeader(http.StatusSeeOther)
}

// SignOut ends the sign-in of the browser that made the request of a context. It returns the cookie
// to send, which removes its own, and the URL at which the issuer ends its session; "" if it is
// not to.
func (f *Flow) SignOut(ctx context.Context) (next string, gone http.Cookie, err error) {
	who, err := Of(ctx)
	if err != nil {
		return "", gone, err
	}
	if who.SignIn == "" {
		return "", gone, parley.Errorf(parley.CodeInvalid, "this request was not made with a sign-in").WithHint("DELETE /v1/me/keys/{name} revokes a key")
	}
	base, err := f.base()
	if err != nil {
		return "", gone, err
	}
	if err := f.signIns.Revoke(who.Principal, who.SignIn); err != nil && parley.CodeOf(err) != parley.CodeNotFound {
		return "", gone, err
	}
	name, secure := Cookie(base)
	for _, is := range f.issuers.list {
		if is.Name != who.Issuer || is.Login == nil || !is.Login.EndSession {
			continue
		}
		if d, err := is.keys.discover(ctx); err == nil && d.EndSession != "" {
			u, _ := url.Parse(d.EndSession) // it was checked when it was read
			q := u.Query()
			q.Set("client_id", is.Login.ClientID)
			q.Set("post_logout_redirect_uri", base+"/")
			u.RawQuery = q.Encode()
			next = u.String()
		}
	}
	return next, cookie(name, "", secure, 0), nil
}
