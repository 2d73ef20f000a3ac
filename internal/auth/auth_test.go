package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

// said records what a door behind [auth.Door] learns about a request.
type said struct {
	User, Org, Name, Key string
	Headers              string // the Supervisor's, as far as they came through
	Code                 parley.Code
}

func behind(t *testing.T, o auth.Options) http.Handler {
	t.Helper()
	o.Fail = func(w http.ResponseWriter, err error) {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(said{Code: parley.CodeOf(err)})
	}
	return auth.Door(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := auth.Of(r.Context())
		_ = json.NewEncoder(w).Encode(said{
			User: who.User, Org: who.Org, Name: who.Name, Key: who.Key, Code: parley.CodeOf(err),
			Headers: strings.Join([]string{r.Header.Get("X-Remote-User-Id"), r.Header.Get("X-Ingress-Path")}, ""),
		})
	}), o)
}

func ask(t *testing.T, h http.Handler, from string, header ...string) (int, http.Header, said) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/v1/sessions", nil)
	r.RemoteAddr = from
	for i := 0; i < len(header); i += 2 {
		if header[i] == "X-Method" {
			r.Method = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var s said
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return w.Code, w.Header(), s
}

const (
	secret     = "pk_abcdefghijklmnopqrstuvwxyz"
	scrape     = "pk_zyxwvutsrqponmlkjihgfedcba"
	elsewhere  = "192.168.1.9:40000"
	loopback   = "127.0.0.1:40000"
	theMaster  = "172.30.32.2:40000"
	anaAtHome  = "6f1b2c3d4e5f60718293a4b5c6d7e8f9"
	ingressTo  = "/api/hassio_ingress/s3cr3t-Token_"
	otherAddon = "172.30.33.7:40000"
)

func TestWhoAsks(t *testing.T) {
	t.Parallel()
	keys, err := auth.OpenKeys(t.TempDir()+"/keys.json", []auth.Fixed{{Name: "laptop", Secret: secret, User: "ana", Org: "acme"}, {Name: "phone", Secret: scrape, User: "ana"}})
	if err != nil {
		t.Fatal(err)
	}
	ana := said{User: "ana", Org: "acme", Key: "laptop"}
	local := said{User: "local"}
	nobody, twoKeys := said{Code: parley.CodeUnauthenticated}, said{Code: parley.CodeInvalid}
	for _, c := range []struct {
		name   string
		mode   auth.Mode
		from   string
		header []string
		want   said
	}{
		{"no login: everybody is local", auth.ModeNone, loopback, nil, local},
		{"no login, and a key", auth.ModeNone, loopback, []string{"Authorization", "Bearer " + secret}, ana},
		{"no login, and a key that is not known", auth.ModeNone, loopback, []string{"Authorization", "Bearer pk_nobody"}, nobody},
		{"no login, and somebody else's token", auth.ModeNone, loopback, []string{"Authorization", "Bearer none"}, local},
		{"no login, and another scheme", auth.ModeNone, loopback, []string{"Authorization", "Basic YTpi"}, local},
		{"no login: a stranger's word does not count", auth.ModeNone, loopback, []string{"X-Remote-User-Id", anaAtHome, "X-Ingress-Path", "/x"}, local},

		{"keys: nobody without one", auth.ModeKeys, loopback, nil, nobody},
		{"keys: a bearer token", auth.ModeKeys, elsewhere, []string{"Authorization", "bearer " + secret}, ana},
		{"keys: X-API-Key", auth.ModeKeys, elsewhere, []string{"X-API-Key", secret}, ana},
		{"keys: the same twice", auth.ModeKeys, elsewhere, []string{"X-API-Key", secret, "Authorization", "Bearer " + secret}, ana},
		{"keys: two different ones", auth.ModeKeys, elsewhere, []string{"X-API-Key", secret, "Authorization", "Bearer pk_other"}, twoKeys},
		{"keys: two X-API-Key", auth.ModeKeys, elsewhere, []string{"X-API-Key", secret, "X-API-Key", "pk_other"}, twoKeys},
		{"keys: two X-API-Key, the right one last", auth.ModeKeys, elsewhere, []string{"X-API-Key", "pk_other", "X-API-Key", secret}, twoKeys},
		{"keys: two bearer tokens", auth.ModeKeys, elsewhere, []string{"Authorization", "Bearer " + secret, "Authorization", "Bearer pk_other"}, twoKeys},
		{"keys: another of a user", auth.ModeKeys, elsewhere, []string{"X-API-Key", secret, "X-API-Key", scrape}, twoKeys},
		{"keys: the same X-API-Key twice", auth.ModeKeys, elsewhere, []string{"X-API-Key", secret, "X-API-Key", "", "X-API-Key", secret}, ana},
		{"keys: behind another scheme", auth.ModeKeys, elsewhere, []string{"Authorization", "Basic YTpi", "Authorization", "Bearer " + secret}, ana},
		{"no login, and two tokens", auth.ModeNone, loopback, []string{"X-API-Key", "a", "X-API-Key", "b"}, twoKeys},
		{"keys: a wrong one", auth.ModeKeys, elsewhere, []string{"Authorization", "Bearer " + secret + "x"}, nobody},
		{"keys: a part of one", auth.ModeKeys, elsewhere, []string{"Authorization", "Bearer " + secret[:20]}, nobody},
		{"keys: another scheme", auth.ModeKeys, elsewhere, []string{"Authorization", "Basic " + secret}, nobody},
		{"keys: the Supervisor's word does not count", auth.ModeKeys, theMaster, []string{"X-Remote-User-Id", anaAtHome}, nobody},

		{
			"ingress: the user that the Supervisor names", auth.ModeIngress, theMaster,
			[]string{"X-Remote-User-Id", anaAtHome, "X-Remote-User-Name", "ana", "X-Remote-User-Display-Name", "Ana B."},
			said{User: anaAtHome, Name: "Ana B.", Headers: anaAtHome},
		},
		{"ingress: by name only", auth.ModeIngress, theMaster, []string{"X-Remote-User-Id", anaAtHome, "X-Remote-User-Name", "ana"}, said{User: anaAtHome, Name: "ana", Headers: anaAtHome}},
		{"ingress: nobody named", auth.ModeIngress, theMaster, nil, local},
		{"ingress: over IPv6", auth.ModeIngress, "[::ffff:172.30.32.2]:40000", nil, local},
		{"ingress: a name that cannot be one", auth.ModeIngress, theMaster, []string{"X-Remote-User-Id", "a b\"<"}, nobody},
		{"ingress: the server's own name", auth.ModeIngress, theMaster, []string{"X-Remote-User-Id", "system"}, nobody},
		{"ingress: another add-on may not say so", auth.ModeIngress, otherAddon, []string{"X-Remote-User-Id", anaAtHome}, nobody},
		{"ingress: not even by way of a proxy", auth.ModeIngress, otherAddon, []string{"X-Remote-User-Id", anaAtHome, "X-Forwarded-For", "172.30.32.2"}, nobody},
		{"ingress: elsewhere a key", auth.ModeIngress, elsewhere, []string{"Authorization", "Bearer " + secret, "X-Remote-User-Id", anaAtHome, "X-Ingress-Path", "/x"}, ana},
		{"ingress: loopback is elsewhere", auth.ModeIngress, loopback, nil, nobody},
		{"no address at all", auth.ModeIngress, "@", []string{"X-Remote-User-Id", anaAtHome}, nobody},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, header, got := ask(t, behind(t, auth.Options{Mode: c.mode, Verifiers: []auth.Verifier{keys}}), c.from, c.header...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			refused := c.want.Code != ""
			challenged := c.want.Code == parley.CodeUnauthenticated // more keys do not help a malformed request
			if (status == http.StatusUnauthorized) != refused || (header.Get("WWW-Authenticate") != "") != challenged {
				t.Errorf("got %d, WWW-Authenticate %q", status, header.Get("WWW-Authenticate"))
			}
		})
	}
}

func TestSupervisorOfATest(t *testing.T) {
	t.Parallel()
	h := behind(t, auth.Options{Mode: auth.ModeIngress, Supervisor: netip.MustParseAddr("127.0.0.1")})
	if _, _, got := ask(t, h, loopback, "X-Remote-User-Id", anaAtHome); got.User != anaAtHome {
		t.Errorf("got %+v", got)
	}
	if status, _, _ := ask(t, h, theMaster, "X-Remote-User-Id", anaAtHome); status != http.StatusUnauthorized {
		t.Errorf("the real one: got %d", status)
	}
}

// TestOpen: an open path is served to every client. A door behind it that asks for the identity
// still learns that there is none.
func TestOpen(t *testing.T) {
	t.Parallel()
	h := behind(t, auth.Options{Mode: auth.ModeKeys, Open: func(*http.Request) bool { return true }})
	if status, _, got := ask(t, h, elsewhere); status != http.StatusOK || got.Code != parley.CodeUnauthenticated || got.User != "" {
		t.Errorf("got %d %+v", status, got)
	}
}

func TestForgottenDoorIsClosed(t *testing.T) {
	t.Parallel()
	p, err := auth.Principal(t.Context())
	if (p != parley.Principal{}) || parley.CodeOf(err) != parley.CodeUnauthenticated {
		t.Errorf("without a Door: %+v, %v", p, err)
	}
}

// away is a verifier that cannot decide. It must not admit a request, and the next verifier
// must not decide in its place.
type away struct{}

func (away) Verify(_ context.Context, _ string) (auth.Identity, bool, error) {
	return auth.Identity{}, false, parley.Errorf(parley.CodeUnavailable, "the issuer does not answer")
}

func TestVerifierThatCanNotTell(t *testing.T) {
	t.Parallel()
	keys, err := auth.OpenKeys(t.TempDir()+"/keys.json", []auth.Fixed{{Name: "laptop", Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []auth.Mode{auth.ModeNone, auth.ModeKeys, auth.ModeIngress} {
		h := behind(t, auth.Options{Mode: mode, Verifiers: []auth.Verifier{away{}, keys}})
		if _, header, got := ask(t, h, elsewhere, "Authorization", "Bearer "+secret); got.Code != parley.CodeUnavailable || header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: got %+v", mode, got)
		}
	}
}

func TestPathPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, to, want string }{
		{ingressTo, "/v1/turns/T", ingressTo + "/v1/turns/T"},
		{ingressTo + "/", "/v1/turns/T", ingressTo + "/v1/turns/T"},
		{ingressTo, "./apps/", "./apps/"},
		{ingressTo, "https://example.com/", "https://example.com/"},
		{ingressTo, "//example.com/", "//example.com/"},
		{"", "/v1", "/v1"},
		{"/", "/v1", "/v1"},
		{"//evil.example", "/v1", "/v1"},
		{"https://evil.example", "/v1", "/v1"},
		{"/a//b", "/v1", "/v1"},
		{"/a/../b", "/v1", "/v1"},
		{`/a"b`, "/v1", "/v1"},
		{"/a<b>", "/v1", "/v1"},
		{"/a'b", "/v1", "/v1"},
		{`/a\b`, "/v1", "/v1"},
		{"/a b", "/v1", "/v1"},
		{"/" + strings.Repeat("a", 300), "/v1", "/v1"},
	} {
		t.Run(c.prefix+" "+c.to, func(t *testing.T) {
			t.Parallel()
			keys, err := auth.OpenKeys(t.TempDir()+"/keys.json", []auth.Fixed{{Name: "laptop", Secret: secret}})
			if err != nil {
				t.Fatal(err)
			}
			h := auth.Door(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", c.to)
				w.WriteHeader(http.StatusFound)
				_, _ = io.WriteString(w, "there")
			}), auth.Options{Mode: auth.ModeIngress, Verifiers: []auth.Verifier{keys}})
			// From other addresses the header is not trusted and has no effect.
			for from, want := range map[string]string{theMaster: c.want, elsewhere: c.to} {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.RemoteAddr = from
				r.Header.Set("X-Ingress-Path", c.prefix)
				r.Header.Set("X-API-Key", secret)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if got := w.Header().Get("Location"); got != want {
					t.Errorf("from %s: got %q, want %q", from, got, want)
				}
			}
		})
	}
}

// TestPathPrefixStreams: a response below a prefix still streams.
func TestPathPrefixStreams(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	srv := httptest.NewServer(auth.Door(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "one\n")
		w.(http.Flusher).Flush()
		<-more
		fmt.Fprint(w, "two\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}), auth.Options{Mode: auth.ModeIngress, Supervisor: netip.MustParseAddr("127.0.0.1")}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Ingress-Path", ingressTo)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 4)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "one\n" {
		t.Errorf("got %q, %v", first, err)
	}
	close(more)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "two\n" {
		t.Errorf("got %q, %v", rest, err)
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("Bearer "+secret, secret, anaAtHome, ingressTo)
	f.Add("bearer", "", "", "//")
	f.Fuzz(func(t *testing.T, authorization, own, user, path string) {
		h := auth.Door(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who, err := auth.Of(r.Context())
			if err != nil || who.User == "" || who.User == "system" || who.IsSystem() {
				t.Errorf("let in as %+v, %v", who, err)
			}
			w.Header().Set("Location", "/v1")
			w.WriteHeader(http.StatusFound)
		}), auth.Options{Mode: auth.ModeIngress, Fail: func(w http.ResponseWriter, err error) { w.WriteHeader(http.StatusUnauthorized) }})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = theMaster
		for name, v := range map[string]string{"Authorization": authorization, "X-Api-Key": own, "X-Remote-User-Id": user, "X-Ingress-Path": path} {
			r.Header[name] = []string{v}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); w.Code == http.StatusFound && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\"'<>\\ \r\n")) {
			t.Errorf("Location %q for %q", to, path)
		}
	})
}

// TestKeysForTheMetrics: a key for the metrics opens only the metrics, in every mode. Paths
// that need no identity are served to it as to a request without a key.
func TestKeysForTheMetrics(t *testing.T) {
	t.Parallel()
	keys, err := auth.OpenKeys(t.TempDir()+"/keys.json", []auth.Fixed{{Name: "prometheus", Secret: scrape, Metrics: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []auth.Mode{auth.ModeNone, auth.ModeKeys, auth.ModeIngress} {
		forbidden := said{Code: parley.CodeForbidden}
		o := auth.Options{Mode: mode, Verifiers: []auth.Verifier{keys}}
		if _, _, got := ask(t, behind(t, o), elsewhere, "X-API-Key", scrape); got != forbidden {
			t.Errorf("%s: got %+v", mode, got)
		}
		o.Open = func(*http.Request) bool { return true }
		if status, _, got := ask(t, behind(t, o), elsewhere, "X-API-Key", scrape); got != forbidden || status != http.StatusOK {
			t.Errorf("%s: what is open: got %d %+v", mode, status, got)
		}
		o.Open, o.Metrics = nil, func(*http.Request) bool { return true }
		if status, _, got := ask(t, behind(t, o), elsewhere, "X-API-Key", scrape); got.Key != "prometheus" || status != http.StatusOK {
			t.Errorf("%s: the metrics: got %d %+v", mode, status, got)
		}
	}
	for _, f := range []auth.Fixed{{Name: "p", Secret: scrape, Metrics: true, User: "ana"}, {Name: "p", Secret: scrape, Metrics: true, Org: "acme"}} {
		if _, err := auth.OpenKeys(t.TempDir()+"/keys.json", []auth.Fixed{f}); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if _, _, err := keys.Create(auth.Key{Name: "q", User: "ana", Metrics: true}, time.Now()); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("created with a user: %v", err)
	}
}
