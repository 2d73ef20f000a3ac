package program

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sim/oidc"
)

// attacker tries to be Ana, who is signed in and has a session with a marker.
type attacker struct {
	*signed
	ana     *browser
	session string
	key     oidc.Key
	own     *rsa.PrivateKey
	claims  map[string]any // of a valid token of Ana's
}

// forge writes a token by hand.
func forge(header string, claims []byte, sign func(input string) []byte) string {
	b64 := base64.RawURLEncoding.EncodeToString
	input := b64([]byte(header)) + "." + b64(claims)
	return input + "." + b64(sign(input))
}

func (a *attacker) raw() []byte {
	raw, err := json.Marshal(a.claims)
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

// rs256 signs with a key.
func (a *attacker) rs256(k *rsa.PrivateKey) func(string) []byte {
	return func(input string) []byte {
		sum := sha256.Sum256([]byte(input))
		sig, err := rsa.SignPKCS1v15(rand.Reader, k, 5 /* crypto.SHA256 */, sum[:])
		if err != nil {
			a.t.Fatal(err)
		}
		return sig
	}
}

func hs256(secret []byte) func(string) []byte {
	return func(input string) []byte {
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(input))
		return m.Sum(nil)
	}
}

func unsigned(string) []byte { return nil }

// with changes claims; nil removes one.
func (a *attacker) with(change map[string]any) map[string]any {
	c := maps.Clone(a.claims)
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// saw is what an attack sees: the status and the code of the error. It fails the test if that is
// Ana's session.
func (a *attacker) saw(resp *http.Response) string {
	a.t.Helper()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err.Error()
	}
	if strings.Contains(string(raw), marker) {
		a.t.Errorf("it reads what Ana said: %.300s", raw)
	}
	var body struct{ Error parley.ErrorInfo }
	_ = json.Unmarshal(raw, &body)
	if to := resp.Header.Get("Location"); to != "" {
		return fmt.Sprintf("%d to %s", resp.StatusCode, strings.Replace(to, a.url, "", 1))
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, body.Error.Code))
}

// bearer shows a token.
func (a *attacker) bearer(token string) string {
	a.t.Helper()
	return a.saw(a.browser().do("GET", "/v1/sessions/"+a.session, "", "Authorization", "Bearer "+token))
}

// TestAttacks_on_tokens_and_sign_ins: each attack with what it expects and what it sees.
func TestAttacks_on_tokens_and_sign_ins(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	a := &attacker{signed: s, ana: s.signIn("ana"), key: s.as.Keys()[0]}
	a.session = string(read[parley.SessionInfo](t, a.ana.own("POST", "/v1/sessions", `{"app":"home","title":"`+marker+`"}`)).ID)
	a.claims = s.as.Claims("ana", audience)
	a.claims["org_id"] = "north"
	var err error
	if a.own, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if got := a.browser().do("GET", "/v1/sessions/"+a.session, "", "Authorization", "Bearer "+s.as.Mint(a.claims)); got.StatusCode != 200 {
		t.Fatalf("her own token: %s", got.Status)
	}
	der, err := x509.MarshalPKIXPublicKey(&a.key.Private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	kid, n := a.key.ID, base64.RawURLEncoding.EncodeToString(a.own.N.Bytes())
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	const refused = "401 unauthenticated"
	own := oidc.Key{ID: kid, Private: a.own}
	stranger := oidc.New()
	stranger.URL = "https://evil.example.com"

	for _, one := range []struct {
		name, want string
		do         func() string
	}{
		// Signatures and headers.
		{"the algorithm none", refused, func() string { return a.bearer(forge(`{"alg":"none"}`, a.raw(), unsigned)) }},
		{"the algorithm nOnE", refused, func() string { return a.bearer(forge(`{"alg":"nOnE","kid":"`+kid+`"}`, a.raw(), unsigned)) }},
		{"HMAC with the public key", refused, func() string { return a.bearer(forge(`{"alg":"HS256","kid":"`+kid+`"}`, a.raw(), hs256(public))) }},
		{"HMAC with the public key in DER", refused, func() string { return a.bearer(forge(`{"alg":"HS256","kid":"`+kid+`"}`, a.raw(), hs256(der))) }},
		{"another key under the same id", refused, func() string { return a.bearer(s.as.Sign(own, "at+jwt", a.claims)) }},
		{"a key in the header (jwk)", refused, func() string {
			return a.bearer(forge(`{"alg":"RS256","jwk":{"kty":"RSA","e":"AQAB","n":"`+n+`"}}`, a.raw(), a.rs256(a.own)))
		}},
		{"a URL of keys in the header (jku)", refused, func() string {
			return a.bearer(forge(`{"alg":"RS256","kid":"mine","jku":"https://evil.example.com/jwks"}`, a.raw(), a.rs256(a.own)))
		}},
		{"a URL of a certificate in the header (x5u)", refused, func() string {
			return a.bearer(forge(`{"alg":"RS256","kid":"mine","x5u":"https://evil.example.com/cert"}`, a.raw(), a.rs256(a.own)))
		}},
		{"a path as the id of the key", refused, func() string {
			return a.bearer(forge(`{"alg":"HS256","kid":"../../../../dev/null"}`, a.raw(), hs256(nil)))
		}},
		{"SQL as the id of the key", refused, func() string {
			return a.bearer(forge(`{"alg":"HS256","kid":"x' UNION SELECT 'a"}`, a.raw(), hs256([]byte("a"))))
		}},
		{"an extension that nobody knows (crit)", refused, func() string {
			return a.bearer(forge(`{"alg":"RS256","kid":"`+kid+`","crit":["x"],"x":1}`, a.raw(), a.rs256(a.key.Private)))
		}},
		{"the JSON form of a signature", refused, func() string { return a.bearer(`{"payload":"e30","signatures":[]}`) }},
		{"a signature cut off", refused, func() string { return a.bearer(s.as.Mint(a.claims)[:100]) }},
		{"a flood of unknown keys", "200 refused, at most 1 request to the issuer: true, her own token 200", func() string {
			s.as.Lock()
			before := s.as.Sets
			s.as.Unlock()
			wrong := 0
			for i := range 200 {
				got := a.bearer(forge(fmt.Sprintf(`{"alg":"RS256","kid":"k%d"}`, i), a.raw(), a.rs256(a.own)))
				if got == refused || got == "429 rate_limited" {
					wrong++
				}
			}
			s.as.Lock()
			sets := s.as.Sets - before
			s.as.Unlock()
			resp := a.browser().do("GET", "/v1/sessions/"+a.session, "", "Authorization", "Bearer "+s.as.Mint(a.claims))
			return fmt.Sprintf("%d refused, at most 1 request to the issuer: %t, her own token %d", wrong, sets <= 1, resp.StatusCode)
		}},
		// Claims.
		{"another issuer", refused, func() string { return a.bearer(stranger.Mint(stranger.Claims("ana", audience))) }},
		{"the issuer with a slash", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"iss": s.as.URL + "/"}))) }},
		{"another audience", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"aud": "other"}))) }},
		{"no audience", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"aud": nil}))) }},
		{"an expired token", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"exp": at(-31 * time.Second)}))) }},
		{"no end (exp)", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"exp": nil}))) }},
		{"not valid yet (nbf)", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"nbf": at(time.Minute)}))) }},
		{"issued in the future (iat)", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"iat": at(time.Minute)}))) }},
		{"two subjects", refused, func() string {
			return a.bearer(forge(`{"alg":"RS256","kid":"`+kid+`"}`, []byte(strings.Replace(string(a.raw()), "{", `{"sub":"bea",`, 1)), a.rs256(a.key.Private)))
		}},
		{"an audience in other letters", refused, func() string {
			return a.bearer(s.as.Mint(a.with(map[string]any{"aud": "other", "AUD": audience})))
		}},
		{"an ID token", refused, func() string { return a.bearer(s.as.Sign(a.key, "JWT", a.with(map[string]any{"nonce": "x"}))) }},
		{"a logout token", refused, func() string { return a.bearer(s.as.Sign(a.key, "logout+jwt", a.claims)) }},
		{"a token of 40 KiB", refused, func() string { return a.bearer(s.as.Mint(a.with(map[string]any{"x": strings.Repeat("x", 30<<10)}))) }},
		{"an organisation that is not the token's", "403 forbidden", func() string {
			return a.saw(a.browser().do("GET", "/v1/sessions", "", "Authorization", "Bearer "+s.as.Mint(a.claims), "X-Org-Id", "acme:north"))
		}},
		{"a user named as a key's user", "404 not_found", func() string {
			var made parley.SessionInfo
			s.must(&made, "ana", "POST", "/v1/sessions", `{"app":"home","title":"`+marker+`"}`)
			return a.saw(a.browser().do("GET", "/v1/sessions/"+string(made.ID), "", "Authorization", "Bearer "+s.as.Mint(a.claims)))
		}},
		// Where tokens are shown.
		{"a token in the query", refused, func() string {
			return a.saw(a.browser().do("GET", "/v1/sessions/"+a.session+"?access_token="+s.as.Mint(a.claims), ""))
		}},
		{"a token in the form", refused, func() string {
			return a.saw(a.browser().do("POST", "/v1/sessions", "access_token="+s.as.Mint(a.claims), "Content-Type", "application/x-www-form-urlencoded"))
		}},
		{"two different credentials", "400 invalid", func() string {
			return a.saw(a.browser().do("GET", "/v1/sessions/"+a.session, "", "Authorization", "Bearer "+s.as.Mint(a.claims), "X-API-Key", s.keys["bea"]))
		}},
		{"a token as the cookie", refused, func() string {
			return a.saw(a.browser().do("GET", "/v1/sessions/"+a.session, "", "Cookie", a.ana.cookie().Name+"="+s.as.Mint(a.claims)))
		}},
		{"the cookie as a token", refused, func() string { return a.bearer(a.ana.cookie().Value) }},
		// Sign-ins.
		{"a form of another site (CSRF)", "403 forbidden", func() string {
			return a.saw(a.ana.do("POST", "/v1/sessions", `{"app":"home"}`, "Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site"))
		}},
		{"a page of the same site (CSRF)", "403 forbidden", func() string {
			return a.saw(a.ana.do("GET", "/v1/sessions/"+a.session, "", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"))
		}},
		{"a WebSocket of another site", "403 forbidden", func() string {
			return a.saw(a.ana.do("GET", "/v1/sessions/"+a.session+"/ws", "", "Upgrade", "websocket", "Connection", "Upgrade",
				"Sec-Websocket-Version", "13", "Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Origin", "https://evil.example.com"))
		}},
		{"a cookie that was planted before signing in", refused, func() string {
			b := s.browser()
			b.cookies[a.ana.cookie().Name] = &http.Cookie{Name: a.ana.cookie().Name, Value: "planted"}
			b.do("GET", s.begin(b, "bea", "/"), "")
			return a.saw(s.browser().do("GET", "/v1/me", "", "Cookie", a.ana.cookie().Name+"=planted"))
		}},
		{"an answer of the provider twice", "303 to /#signin=failed", func() string {
			b := s.browser()
			back := s.begin(b, "bea", "/")
			kept := maps.Clone(b.cookies)
			b.do("GET", back, "")
			b.cookies = kept
			return a.saw(b.do("GET", back, ""))
		}},
		{"an answer in another browser", "303 to /#signin=failed", func() string {
			mine := s.browser()
			return a.saw(s.browser().do("GET", s.begin(mine, "bea", "/"), ""))
		}},
		{"an answer in another browser that signs in, too", "303 to /#signin=failed", func() string {
			mine, hers := s.browser(), s.browser()
			back := s.begin(mine, "bea", "/")
			s.begin(hers, "ana", "/")
			return a.saw(hers.do("GET", back, ""))
		}},
		{"the code of another login", "303 to /x#signin=failed", func() string {
			mine, hers := s.browser(), s.browser()
			stolen, _ := url.Parse(s.begin(hers, "ana", "/"))
			back, _ := url.Parse(s.begin(mine, "bea", "/x"))
			q := back.Query()
			q.Set("code", stolen.Query().Get("code"))
			back.RawQuery = q.Encode()
			return a.saw(mine.do("GET", back.String(), ""))
		}},
		{"an answer of another provider (iss)", "303 to /x#signin=failed", func() string {
			b := s.browser()
			back, _ := url.Parse(s.begin(b, "bea", "/x"))
			q := back.Query()
			q.Set("iss", "https://evil.example.com")
			back.RawQuery = q.Encode()
			return a.saw(b.do("GET", back.String(), ""))
		}},
		{"an answer without the provider's name", "303 to /x#signin=failed", func() string {
			b := s.browser()
			back, _ := url.Parse(s.begin(b, "bea", "/x"))
			q := back.Query()
			q.Del("iss")
			back.RawQuery = q.Encode()
			return a.saw(b.do("GET", back.String(), ""))
		}},
		{"an ID token of another login (nonce)", "303 to /x#signin=failed", func() string {
			s.as.Lock()
			s.as.Nonce = func() string { return "another" }
			s.as.Unlock()
			b := s.browser()
			got := a.saw(b.do("GET", s.begin(b, "bea", "/x"), ""))
			s.as.Lock()
			s.as.Nonce = nil
			s.as.Unlock()
			return got
		}},
		{"returning to another site", "400 400 400 400 400", func() string {
			var got []string
			for _, to := range []string{"//evil.example.com", "/\\evil.example.com", "https://evil.example.com", "javascript:alert(1)", "/\tx//evil.example.com"} {
				got = append(got, fmt.Sprint(s.browser().do("GET", "/v1/signin/acme?to="+url.QueryEscape(to), "").StatusCode))
			}
			return strings.Join(got, " ")
		}},
		{"a cookie after signing out", refused, func() string {
			b := s.signIn("ana")
			kept := maps.Clone(b.cookies)
			b.own("POST", "/v1/signout", "")
			b.cookies = kept
			return a.saw(b.own("GET", "/v1/me", ""))
		}},
		{"a key after it was revoked", refused, func() string {
			if err := s.house.access.Keys.Revoke("bea-laptop"); err != nil {
				t.Fatal(err)
			}
			return a.saw(s.browser().do("GET", "/v1/me", "", "X-API-Key", s.keys["bea"]))
		}},
	} {
		got := one.do()
		t.Logf("%-48s expected %-30s saw %s", one.name, one.want, got)
		// After ten wrong ones from an address, a further one is refused so.
		if got != one.want && (one.want != refused || got != "429 rate_limited") {
			t.Errorf("%s: got %s, want %s", one.name, got, one.want)
		}
	}
	if me := a.ana.own("GET", "/v1/sessions/"+a.session, ""); me.StatusCode != http.StatusOK {
		t.Errorf("Ana herself, after all attacks: %s", me.Status)
	}
}
