package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/sim/oidc"
)

const (
	issuerURL = "https://login.example.com"
	ours      = "https://parley.example.com"
	page      = "https://app.example.com"
)

// provider is an issuer of tokens in this process, with a clock of its own.
type provider struct {
	t  *testing.T
	as *oidc.Server

	mu      sync.Mutex
	now     time.Time
	cut     error        // requests fail with this
	serves  http.Handler // instead of as; nil: as
	asked   int          // requests
	issuers *auth.Issuers
}

func newProvider(t *testing.T, is auth.Issuer) *provider {
	t.Helper()
	p := &provider{t: t, now: time.Unix(1_800_000_000, 0), as: oidc.New()}
	p.as.URL, p.as.Now = issuerURL, p.clock
	is.Name, is.URL = "acme", issuerURL
	var err error
	p.issuers, err = auth.NewIssuers([]auth.Issuer{is}, auth.IssuersOptions{Now: p.clock, Client: &http.Client{Transport: p}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.issuers.Close)
	return p
}

func plain(t *testing.T) *provider {
	t.Helper()
	return newProvider(t, auth.Issuer{Audience: []string{ours}, Org: "org_id", Orgs: "orgs"})
}

func (p *provider) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *provider) wait(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// RoundTrip implements http.RoundTripper: every host is the provider.
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.asked++
	cut, h := p.cut, p.serves
	p.mu.Unlock()
	if cut != nil {
		return nil, cut
	}
	if h == nil {
		h = p.as
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// token is a valid one with other claims; nil removes one.
func (p *provider) token(change map[string]any) string {
	return p.as.Mint(changed(p.as.Claims("ana", ours), change))
}

func changed(claims, change map[string]any) map[string]any {
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

func (p *provider) verify(token string) (auth.Identity, error) {
	p.t.Helper()
	who, ok, err := p.issuers.Verify(p.t.Context(), token)
	if err == nil && !ok {
		err = errors.New("unknown")
	}
	return who, err
}

// accepts checks that a token is accepted.
func (p *provider) accepts(token string) auth.Identity {
	p.t.Helper()
	who, err := p.verify(token)
	if err != nil {
		p.t.Fatalf("a valid token: %v", err)
	}
	return who
}

// refuses checks that a token is refused, and that the error says why.
func (p *provider) refuses(token, why string) {
	p.t.Helper()
	who, err := p.verify(token)
	if err == nil || !strings.Contains(err.Error(), why) || parley.CodeOf(err) != parley.CodeUnauthenticated || who.User != "" {
		p.t.Errorf("got %+v and %v (%s), want a refusal with %q", who, err, parley.CodeOf(err), why)
	}
}

func TestIssuers_accept_a_token_and_name_its_user(t *testing.T) {
	t.Parallel()
	p := plain(t)
	who := p.accepts(p.token(map[string]any{"org_id": "org_1", "orgs": []string{"org_2", "org_1"}, "name": "Ana"}))
	want := auth.Identity{
		Principal: parley.Principal{User: "acme:ana", Org: "acme:org_1"}, Name: "Ana", Issuer: "acme", Orgs: []string{"org_1", "org_2"},
		Expires: p.clock().Add(time.Hour + auth.DefaultLeeway).UTC(),
	}
	who.Expires = who.Expires.UTC()
	if d := cmp.Diff(want, who, cmp.Comparer(func(a, b parley.Principal) bool { return a == b }), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".until" }, cmp.Ignore())); d != "" {
		t.Error(d)
	}
	other, err := who.In("org_2")
	if err != nil || other.Org != "acme:org_2" || other.User != "acme:ana" {
		t.Errorf("in her other organisation: %+v, %v", other.Principal, err)
	}
	if _, err := who.In("org_3"); parley.CodeOf(err) != parley.CodeForbidden {
		t.Errorf("in an organisation that is not hers: %v", err)
	}
	// Other shapes of the claims.
	if who := p.accepts(p.token(map[string]any{"orgs": map[string]any{"beta": map[string]any{}, "alpha": nil}})); who.Org != "" || !slices.Equal(who.Orgs, []string{"alpha", "beta"}) {
		t.Errorf("organisations as an object: %+v", who)
	}
	if who := p.accepts(p.token(map[string]any{"org_id": []string{"a", "b"}, "aud": []string{"other", ours}, "act": map[string]any{"sub": "support"}})); who.Org != "" || len(who.Orgs) != 2 || who.By != "support" {
		t.Errorf("several organisations, and somebody who acts as her: %+v", who)
	}
	if who, err := auth.Bearer(t.Context(), " "+p.token(nil)+"\n", p.issuers); err != nil || who.User != "acme:ana" {
		t.Errorf("in a message: %+v, %v", who, err)
	}
	for _, token := range []string{"", "pk_abcdefghijklmnopqrstuvwxyz", "a.b.c", oidc.New().Mint(map[string]any{"iss": "https://elsewhere.example.com"})} {
		if _, err := auth.Bearer(t.Context(), token, p.issuers); parley.CodeOf(err) != parley.CodeUnauthenticated {
			t.Errorf("%q in a message: %v", parley.Cut(token, 20), err)
		}
	}
}

func TestIssuers_check_every_claim(t *testing.T) {
	t.Parallel()
	p := plain(t)
	at := func(d time.Duration) int64 { return p.clock().Add(d).Unix() }
	for _, c := range []struct {
		name   string
		change map[string]any
		why    string // "": it is accepted
	}{
		{"another audience", map[string]any{"aud": "https://other.example.com"}, "aud"},
		{"an audience that begins alike", map[string]any{"aud": ours + ".evil.example.com"}, "aud"},
		{"no audience", map[string]any{"aud": nil}, "aud"},
		{"an empty list as the audience", map[string]any{"aud": []string{}}, "aud"},
		{"null as the audience", map[string]any{"aud": json.RawMessage("null")}, "aud"},
		{"numbers as the audience", map[string]any{"aud": []int{1}}, "unmarshal"},
		{"no exp", map[string]any{"exp": nil}, "exp"},
		{"exp just over", map[string]any{"exp": at(-30 * time.Second)}, "expired"},
		{"exp within the leeway", map[string]any{"exp": at(-29 * time.Second)}, ""},
		{"exp as a text", map[string]any{"exp": "soon"}, "unmarshal"},
		{"exp without end", map[string]any{"exp": 1e300}, "time"},
		{"exp negative", map[string]any{"exp": -1}, "time"},
		{"exp with a fraction", map[string]any{"exp": float64(at(time.Minute)) + 0.5}, ""},
		{"nbf within the leeway", map[string]any{"nbf": at(30 * time.Second)}, ""},
		{"nbf too late", map[string]any{"nbf": at(31 * time.Second)}, "nbf"},
		{"iat in the future", map[string]any{"iat": at(31 * time.Second)}, "iat"},
		{"no iat", map[string]any{"iat": nil}, ""},
		{"no sub", map[string]any{"sub": nil}, "sub"},
		{"sub with a line", map[string]any{"sub": "ana\nbea"}, "sub"},
		{"sub too long", map[string]any{"sub": strings.Repeat("a", 256)}, "sub"},
		{"an ID token", map[string]any{"nonce": "x"}, "ID token"},
		{"a logout token", map[string]any{"events": map[string]any{}}, "logout token"},
		{"aud in other letters", map[string]any{"aud": "https://other.example.com", "AUD": ours}, "other letters"},
		{"an organisation with a line", map[string]any{"org_id": "a\nb"}, ""},
	} {
		token := p.token(c.change)
		if c.why != "" {
			if _, err := p.verify(token); err == nil || !strings.Contains(err.Error(), c.why) || parley.CodeOf(err) != parley.CodeUnauthenticated {
				t.Errorf("%s: got %v, want %q", c.name, err, c.why)
			}
			continue
		}
		if who, err := p.verify(token); c.name == "an organisation with a line" {
			if err == nil {
				t.Errorf("%s: got %+v", c.name, who)
			}
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestIssuers_read_the_tokens_of_Clerk(t *testing.T) {
	t.Parallel()
	p := newProvider(t, auth.Issuer{Clerk: true, Parties: []string{page}, Audience: []string{ours}})
	for version := 1; version <= 2; version++ {
		who := p.accepts(p.as.Mint(p.as.Clerk(version, "user_2abc", page, "org_2xyz")))
		if who.User != "acme:user_2abc" || who.Org != "acme:org_2xyz" || !slices.Equal(who.Orgs, []string{"org_2xyz"}) {
			t.Errorf("version %d: %+v", version, who)
		}
		if who = p.accepts(p.as.Mint(p.as.Clerk(version, "user_2abc", page, ""))); who.Org != "" || who.Orgs != nil {
			t.Errorf("version %d without an organisation: %+v", version, who)
		}
		p.refuses(p.as.Mint(p.as.Clerk(version, "user_2abc", "https://evil.example.com", "org_2xyz")), "azp")
		p.refuses(p.as.Mint(changed(p.as.Clerk(version, "user_2abc", page, ""), map[string]any{"azp": nil})), "azp")
	}
	p.refuses(p.as.Mint(changed(p.as.Clerk(2, "user_2abc", page, "org_2xyz"), map[string]any{"sts": "pending"})), "not finished")
	// A token of a template has an audience, and no session. Its azp is the page's, if there is one.
	p.accepts(p.as.Mint(p.as.Claims("user_2abc", ours)))
	p.refuses(p.as.Mint(p.as.Claims("user_2abc", "https://other.example.com")), "aud")
	p.refuses(p.as.Mint(changed(p.as.Clerk(2, "user_2abc", page, ""), map[string]any{"aud": "https://other.example.com"})), "aud")
	p.refuses(p.as.Mint(changed(p.as.Claims("user_2abc", ours), map[string]any{"azp": "https://evil.example.com"})), "azp")

	needs := newProvider(t, auth.Issuer{Clerk: true, Parties: []string{page}, NeedsOrg: true})
	if _, err := needs.verify(needs.as.Mint(needs.as.Clerk(2, "user_2abc", page, ""))); parley.CodeOf(err) != parley.CodeForbidden {
		t.Errorf("without an organisation: %v", err)
	}
	needs.accepts(needs.as.Mint(needs.as.Clerk(2, "user_2abc", page, "org_2xyz")))
}

// forged is a token with any header and signature.
func forged(header, claims string, sign func(input string) []byte) string {
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

func TestIssuers_refuse_forged_headers(t *testing.T) {
	t.Parallel()
	p := plain(t)
	p.accepts(p.token(nil)) // the keys are known
	before := p.requests()
	key := p.as.Keys()[0]
	raw, err := json.Marshal(p.as.Claims("ana", ours))
	if err != nil {
		t.Fatal(err)
	}
	claims := string(raw)
	der, err := x509.MarshalPKIXPublicKey(&key.Private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	nothing := func(string) []byte { return nil }
	with := func(secret []byte) func(string) []byte {
		return func(input string) []byte {
			m := hmac.New(sha256.New, secret)
			m.Write([]byte(input))
			return m.Sum(nil)
		}
	}
	hers, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	attacker := oidc.Key{ID: key.ID, Private: hers}
	for name, token := range map[string]string{
		"none":                        forged(`{"alg":"none","typ":"JWT"}`, claims, nothing),
		"None":                        forged(`{"alg":"None"}`, claims, nothing),
		"no alg":                      forged(`{"kid":"`+key.ID+`"}`, claims, nothing),
		"HS256 with the PEM":          forged(`{"alg":"HS256","kid":"`+key.ID+`"}`, claims, with(public)),
		"HS256 with the DER":          forged(`{"alg":"HS256","kid":"`+key.ID+`"}`, claims, with(der)),
		"HS256 with nothing":          forged(`{"alg":"HS256","kid":""}`, claims, with(nil)),
		"PS256 with the RS256 key":    forged(`{"alg":"PS256","kid":"`+key.ID+`"}`, claims, nothing),
		"ES256 with zeros":            forged(`{"alg":"ES256","kid":"`+key.ID+`"}`, claims, func(string) []byte { return make([]byte, 64) }),
		"another key under the id":    p.as.Sign(attacker, "JWT", p.as.Claims("ana", ours)),
		"no signature":                strings.TrimRight(p.token(nil), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
		"crit":                        forged(`{"alg":"RS256","kid":"`+key.ID+`","crit":["exp"],"exp":1}`, claims, nothing),
		"b64":                         forged(`{"alg":"RS256","kid":"`+key.ID+`","b64":false,"crit":["b64"]}`, claims, nothing),
		"alg twice":                   forged(`{"alg":"RS256","kid":"`+key.ID+`","alg":"none"}`, claims, nothing),
		"a path as the id":            forged(`{"alg":"RS256","kid":"../../../../dev/null"}`, claims, with(nil)),
		"an id for a database":        forged(`{"alg":"RS256","kid":"' UNION SELECT 'key"}`, claims, with([]byte("key"))),
		"jku":                         forged(`{"alg":"RS256","kid":"evil","jku":"https://evil.example.com/jwks"}`, claims, nothing),
		"x5u":                         forged(`{"alg":"RS256","kid":"evil","x5u":"https://evil.example.com/cert"}`, claims, nothing),
		"a logout token by its type":  p.as.Sign(key, "logout+jwt", p.as.Claims("ana", ours)),
		"a security event":            p.as.Sign(key, "application/secevent+jwt", p.as.Claims("ana", ours)),
		"longer than 16 KiB":          p.token(map[string]any{"more": strings.Repeat("a", 16<<10)}),
		"padding":                     p.token(nil) + "==",
		"a space inside":              strings.Replace(p.token(nil), ".", ". ", 1),
		"a key in the header (jwk)":   embedded(t, hers, claims),
		"a key that is not on a list": p.as.Sign(oidc.Key{ID: "other", Private: hers}, "JWT", p.as.Claims("ana", ours)),
	} {
		if who, err := p.verify(token); err == nil {
			t.Errorf("%s: accepted as %+v", name, who)
		} else if code := parley.CodeOf(err); code != parley.CodeUnauthenticated && err.Error() != "unknown" {
			t.Errorf("%s: %v (%s)", name, err, code)
		}
	}
	// Two claims of one name, signed by the issuer.
	p.refuses(signed(t, key.Private, `{"alg":"RS256","kid":"`+key.ID+`"}`, strings.Replace(claims, "{", `{"sub":"bea",`, 1)), "twice")
	if now := p.requests(); now != before {
		t.Errorf("the forged tokens caused %d requests", now-before)
	}
}

// embedded is a token that brings its own key.
func embedded(t *testing.T, k *rsa.PrivateKey, claims string) string {
	t.Helper()
	n := base64.RawURLEncoding.EncodeToString(k.N.Bytes())
	return signed(t, k, `{"alg":"RS256","kid":"own","jwk":{"kty":"RSA","kid":"own","e":"AQAB","n":"`+n+`"}}`, claims)
}

func TestIssuers_follow_the_rotation_of_keys_and_survive_floods(t *testing.T) {
	t.Parallel()
	p := plain(t)
	old := p.token(nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { p.accepts(old) })
	}
	group.Wait()
	if p.as.Sets != 1 || p.as.Documents != 1 {
		t.Errorf("20 tokens at once caused %d and %d requests", p.as.Documents, p.as.Sets)
	}
	p.as.Rotate()
	p.refuses(p.token(nil), "does not have") // within a minute of the last request
	p.wait(61 * time.Second)
	p.accepts(p.token(nil))
	p.accepts(old)
	if p.as.Sets != 2 {
		t.Errorf("%d requests", p.as.Sets)
	}
	// A flood of unknown keys: one request a minute.
	flood := func() {
		for i := range 200 {
			p.refuses(forged(`{"alg":"RS256","kid":"k`+strings.Repeat("x", i)+`"}`, `{"iss":"`+issuerURL+`"}`, func(string) []byte { return []byte("x") }), "refused")
		}
	}
	p.wait(61 * time.Second)
	flood()
	if p.as.Sets != 3 {
		t.Errorf("a flood caused %d requests", p.as.Sets-2)
	}
	p.wait(61 * time.Second)
	flood()
	p.accepts(old)
	if p.as.Sets != 4 {
		t.Errorf("two floods caused %d requests", p.as.Sets-2)
	}
	// A key that is withdrawn is refused once the keys are fetched again, after an hour.
	p.as.Withdraw(p.as.Keys()[1].ID)
	p.wait(time.Hour)
	p.verifyUntil(old, func(err error) bool { return err != nil })
}

// verifyUntil verifies until the fetch that runs beside has an effect.
func (p *provider) verifyUntil(token string, done func(error) bool) {
	p.t.Helper()
	for range 10_000 {
		if _, err := p.verify(p.renewed(token)); done(err) {
			return
		}
	}
	p.t.Fatal("it never came")
}

// renewed is the same token with a later end.
func (p *provider) renewed(token string) string {
	head, _, _ := strings.Cut(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(head)
	var h struct{ KID string }
	_ = json.Unmarshal(raw, &h)
	for _, k := range p.as.Keys() {
		if k.ID == h.KID {
			return p.as.Sign(k, "at+jwt", p.as.Claims("ana", ours))
		}
	}
	p.t.Fatal("no such key")
	return ""
}

// because reports whether the cause of an error says something that its message, which strangers get, does not.
func because(err error, why string) bool {
	cause := errors.Unwrap(err)
	return cause != nil && strings.Contains(cause.Error(), why) && !strings.Contains(err.Error(), why)
}

func TestIssuers_bridge_an_outage(t *testing.T) {
	t.Parallel()
	p := plain(t)
	p.cut = errors.New("no route to host")
	if _, err := p.verify(p.token(nil)); parley.CodeOf(err) != parley.CodeUnavailable || !because(err, "no route to host") {
		t.Errorf("before any key is known: %v", err)
	}
	if out := p.issuers.Outages(); len(out) != 1 || !strings.Contains(out[0], "Nobody can log in") {
		t.Errorf("outages: %q", out)
	}
	asked := p.requests()
	for range 50 {
		if _, err := p.verify(p.token(nil)); parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("during the outage: %v", err)
		}
	}
	if p.requests() != asked {
		t.Errorf("within 10 s of a failure there were %d more requests", p.requests()-asked)
	}
	p.cut = nil
	p.wait(11 * time.Second)
	p.accepts(p.token(nil))
	if out := p.issuers.Outages(); out != nil {
		t.Errorf("after the outage: %q", out)
	}
	p.as.Lock()
	p.as.Down = true
	p.as.Unlock()
	p.wait(2 * time.Hour)
	p.accepts(p.token(nil))
	for range 10_000 {
		if len(p.issuers.Outages()) > 0 {
			break
		}
		p.accepts(p.token(nil))
	}
	if out := p.issuers.Outages(); len(out) != 1 || !strings.Contains(out[0], "503") || !strings.Contains(out[0], "used until") {
		t.Errorf("outages: %q", out)
	}
	p.wait(23 * time.Hour)
	if _, err := p.verify(p.token(nil)); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("a day after the keys were last fetched: %v", err)
	}
}

func TestIssuers_believe_no_strange_document(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ document, set, why string }{
		"of another issuer":  {`{"issuer":"https://evil.example.com","jwks_uri":"https://login.example.com/jwks"}`, "", "is of the issuer"},
		"with a slash more":  {`{"issuer":"https://login.example.com/","jwks_uri":"https://login.example.com/jwks"}`, "", "is of the issuer"},
		"keys without https": {`{"issuer":"https://login.example.com","jwks_uri":"http://login.example.com/jwks"}`, "", "https"},
		"no keys":            {`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/jwks"}`, `{"keys":[]}`, "no key"},
		"a shared secret":    {`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/jwks"}`, `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"a"}]}`, "no key"},
		"a weak key":         {`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/jwks"}`, jwks("RSA", weak.N.Bytes(), "sig"), "no key"},
		"for encryption":     {`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/jwks"}`, jwks("RSA", curve.X.Bytes(), "enc"), "no key"},
		"not on the curve":   {`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/jwks"}`, `{"keys":[{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","kid":"a"}]}`, "no key"},
		"too large":          {`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/jwks","x":"` + strings.Repeat("x", 1<<20) + `"}`, "", "more than"},
		"not JSON":           {`<html>`, "", "JSON"},
	} {
		p := plain(t)
		p.serves = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := c.document
			if r.URL.Path == "/jwks" {
				body = c.set
			}
			_, _ = w.Write([]byte(body))
		})
		if _, err := p.verify(p.token(nil)); parley.CodeOf(err) != parley.CodeUnavailable || !because(err, c.why) {
			t.Errorf("%s: got %v, want %q", name, err, c.why)
		}
	}
}

func jwks(kty string, n []byte, use string) string {
	return `{"keys":[{"kty":"` + kty + `","e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(n) + `","use":"` + use + `","kid":"a"}]}`
}

// signed is a token whose header and claims are written by hand.
func signed(t *testing.T, k *rsa.PrivateKey, header, claims string) string {
	t.Helper()
	return forged(header, claims, func(input string) []byte {
		sum := sha256.Sum256([]byte(input))
		sig, err := rsa.SignPKCS1v15(rand.Reader, k, 5 /* crypto.SHA256 */, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return sig
	})
}

func TestIssuers_need_to_know_for_whom(t *testing.T) {
	t.Parallel()
	for _, is := range []auth.Issuer{{Name: "a", URL: issuerURL}, {Name: "a", URL: issuerURL, Clerk: true}} {
		if _, err := auth.NewIssuers([]auth.Issuer{is}, auth.IssuersOptions{}); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%+v: %v", is, err)
		}
	}
	two := []auth.Issuer{{Name: "a", URL: issuerURL, Audience: []string{"x"}}, {Name: "b", URL: issuerURL, Audience: []string{"x"}}}
	if _, err := auth.NewIssuers(two, auth.IssuersOptions{}); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("one issuer twice: %v", err)
	}
}

// TestIssuers_reach_public_addresses_only: the settings name an issuer, and its document names the
// rest, which may not lead inside.
func TestIssuers_reach_public_addresses_only(t *testing.T) {
	t.Parallel()
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request reached what is inside") }))
	t.Cleanup(inside.Close)
	var as *httptest.Server
	as = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": as.URL, "jwks_uri": inside.URL})
	}))
	t.Cleanup(as.Close)
	issuers, err := auth.NewIssuers([]auth.Issuer{{Name: "a", URL: as.URL, Audience: []string{ours}}}, auth.IssuersOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(issuers.Close)
	token := oidc.New().Mint(map[string]any{"iss": as.URL, "sub": "ana", "aud": ours, "exp": time.Now().Add(time.Hour).Unix()})
	if _, _, err := issuers.Verify(t.Context(), token); parley.CodeOf(err) != parley.CodeUnavailable || !because(err, "not a public address") {
		t.Errorf("got %v", err)
	}
}

func TestDoor_with_tokens(t *testing.T) {
	t.Parallel()
	p := plain(t)
	h := behind(t, auth.Options{Mode: auth.ModeKeys, Verifiers: []auth.Verifier{p.issuers}, Now: p.clock})
	bearer := func(token string, more ...string) (int, said) {
		status, _, s := ask(t, h, "192.0.2.1:1", append([]string{"Authorization", "Bearer " + token}, more...)...)
		return status, s
	}
	token := p.token(map[string]any{"org_id": "org_1", "orgs": []string{"org_2"}})
	if _, s := bearer(token); s.User != "acme:ana" || s.Org != "acme:org_1" {
		t.Errorf("got %+v", s)
	}
	if _, s := bearer(token, "X-Org-Id", "org_2"); s.Org != "acme:org_2" {
		t.Errorf("in another organisation: %+v", s)
	}
	if _, s := bearer(token, "X-Org-Id", "org_3"); s.Code != parley.CodeForbidden {
		t.Errorf("in an organisation that is not hers: %+v", s)
	}
	if _, s := bearer(token, "X-Org-Id", "org_1", "X-Org-Id", "org_2"); s.Code != parley.CodeInvalid {
		t.Errorf("in two organisations: %+v", s)
	}
	// Tokens that expired are not counted as wrong keys: a client renews them.
	expired := p.token(map[string]any{"exp": p.clock().Add(-time.Hour).Unix()})
	for range 30 {
		if _, s := bearer(expired); s.Code != parley.CodeUnauthenticated {
			t.Fatalf("expired: %+v", s)
		}
	}
	wrong := p.token(map[string]any{"aud": "https://other.example.com"})
	var s said
	for range 30 {
		_, s = bearer(wrong)
	}
	if s.Code != parley.CodeRateLimited {
		t.Errorf("after 30 wrong tokens: %+v", s)
	}
	if _, s := bearer(token); s.User != "acme:ana" {
		t.Errorf("a right one after 30 wrong ones: %+v", s)
	}
	// Without a login, a token for another server is ignored, and a wrong one of ours is not.
	h = behind(t, auth.Options{Mode: auth.ModeNone, Verifiers: []auth.Verifier{p.issuers}, Now: p.clock})
	if _, s := bearer(oidc.New().Mint(map[string]any{"iss": "https://elsewhere.example.com"})); s.User != "local" {
		t.Errorf("a token for another server: %+v", s)
	}
	if _, s := bearer(wrong); s.Code == "" || s.User != "" {
		t.Errorf("a wrong token of our issuer: %+v", s)
	}
}

// TestDoor_ends_what_is_open_when_the_token_expires: a stream does not outlive its token.
func TestDoor_ends_what_is_open_when_the_token_expires(t *testing.T) {
	t.Parallel()
	p := plain(t)
	began, ended := make(chan bool), make(chan error, 1)
	h := auth.Door(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}), auth.Options{Mode: auth.ModeKeys, Verifiers: []auth.Verifier{p.issuers}, Now: p.clock, Fail: func(_ http.ResponseWriter, err error) { t.Error(err) }})
	r := httptest.NewRequest(http.MethodGet, "/v1/stream", nil)
	r.Header.Set("Authorization", "Bearer "+p.token(map[string]any{"exp": p.clock().Add(-29 * time.Second).Unix()})) // for 1 s more
	h.ServeHTTP(httptest.NewRecorder(), r)
	<-began
	if err := <-ended; !strings.Contains(err.Error(), "expired") {
		t.Errorf("it ended with %v", err)
	}
}
