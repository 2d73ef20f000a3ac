//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
)

// TestStatus: what each kind of failure says about a call. The server's tools can be listed; only
// the call of note fails.
func TestStatus(t *testing.T) {
	t.Parallel()
	answer := func(status int) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status) }
	}
	for name, c := range map[string]struct {
		fail    func(w http.ResponseWriter)
		outcome parley.Outcome
	}{
		"refused":      {answer(http.StatusForbidden), parley.OutcomeError},
		"gone":         {answer(http.StatusGone), parley.OutcomeError},
		"timeout":      {answer(http.StatusRequestTimeout), parley.OutcomeUnknown},
		"overloaded":   {answer(http.StatusServiceUnavailable), parley.OutcomeUnknown},
		"moved":        {func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(307) }, parley.OutcomeUnknown},
		"cut":          {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, parley.OutcomeUnknown},
		"no such tool": {func(w http.ResponseWriter) { rpcError(w, -32602) }, parley.OutcomeError},
		"failed":       {func(w http.ResponseWriter) { rpcError(w, -32603) }, parley.OutcomeUnknown},
		"no answer":    {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }, parley.OutcomeUnknown},
		"no JSON":      {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); fmt.Fprint(w, "{") }, parley.OutcomeUnknown},
	} {
		for era, wrap := range map[string]func(http.Handler) http.Handler{"": asItIs, ", legacy": older} {
			t.Run(name+era, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				r := service(t, func(h http.Handler) http.Handler {
					return atCall(wrap(h), func(w http.ResponseWriter, _ *http.Request) bool {
						calls.Add(1)
						c.fail(w)
						return true
					})
				})
				res := r.call("note", in{})
				r.want(res, c.outcome, "")
				if calls.Load() != 1 {
					t.Errorf("the call was sent %d times", calls.Load())
				}
				r.want(r.call("echo", in{"text": "and on"}), parley.OutcomeOK, "and on")
			})
		}
	}
}

// lastID has the id of a call that atCall has seen.
type lastID struct {
	http.ResponseWriter
	id json.RawMessage
}

func rpcError(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, w.(*lastID).id, code) //nolint:errorlint // not an error
}

// atCall shows calls of note to f, which may answer them.
func atCall(next http.Handler, f func(w http.ResponseWriter, r *http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if r.Method == http.MethodPost {
			var body strings.Builder
			buf := make([]byte, 4096)
			for {
				n, err := r.Body.Read(buf)
				body.Write(buf[:n])
				if err != nil {
					break
				}
			}
			_ = json.Unmarshal([]byte(body.String()), &q)
			r.Body = readCloser{strings.NewReader(body.String())}
		}
		if q.Method == "tools/call" && q.Params.Name == "note" && f(&lastID{w, q.ID}, r) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// TestForgotten: a server of the older era forgets its sessions, as after a restart. The call is
// refused for this reason only, so it is made again in a new session.
func TestForgotten(t *testing.T) {
	t.Parallel()
	var forget atomic.Bool
	var times atomic.Int64
	r := service(t, func(h http.Handler) http.Handler {
		return atCall(older(h), func(w http.ResponseWriter, _ *http.Request) bool {
			times.Add(1)
			if forget.CompareAndSwap(true, false) {
				http.Error(w, "session not found", http.StatusNotFound)
				return true
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"noted"}]}}`, w.(*lastID).id) //nolint:errorlint // not an error
			return true
		})
	})
	forget.Store(true)
	r.want(r.call("note", in{}), parley.OutcomeOK, "noted")
	if times.Load() != 2 {
		t.Errorf("sent %d times", times.Load())
	}
}

// TestDown: a call of a server that no longer exists has provably done nothing.
func TestDown(t *testing.T) {
	t.Parallel()
	at := httptest.NewServer(handler(newTestServer(nil)))
	set, err := mcp.New(mcp.Options{Name: "test", URL: at.URL, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r := over(t, set)
	at.CloseClientConnections()
	go at.Close()
	for range 3 {
		if res := r.callBy(t.Context(), "note", in{}, time.Now().Add(within)); res.Outcome == parley.OutcomeError {
			return
		}
	}
	t.Error("no call ended as an error")
}

// TestOptions: a mistake is reported with the name of the wrong option.
func TestOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]mcp.Options{
		"url":          {Name: "test", URL: "ftp://a"},
		"run":          {Name: "test"},
		"name":         {Name: "a b", URL: "http://a"},
		"private":      {Name: "test", URL: "http://a", Private: []string{"*"}},
		"oauth":        {Name: "test", URL: "http://a", OAuth: &mcp.OAuth{ClientID: "a"}},
		"oauth.issuer": {Name: "test", URL: "http://a", OAuth: &mcp.OAuth{ClientID: "a", ClientSecret: "b", Issuer: "c"}},
	} {
		if _, err := mcp.New(o); err == nil || parley.Info(err).Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	set, err := mcp.New(mcp.Options{Name: "test", Run: []string{"/absent"}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if err := set.Look(); err == nil || parley.Info(err).Field != "run" {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestBearer: the token goes to the server's address and nowhere else.
func TestBearer(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	r := service(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token-1" || r.Header.Get("X-Org") != "acme" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			atCall(h, func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Location", other.URL)
				w.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}).ServeHTTP(w, r)
		})
	}, func(o *mcp.Options) {
		o.Bearer, o.Headers = httpcall.Secret{Value: "token-1"}, map[string]string{"X-Org": "acme"}
	})
	r.want(r.call("echo", in{"text": "in"}), parley.OutcomeOK, "in")
	r.want(r.call("note", in{}), parley.OutcomeUnknown, "")
	if elsewhere.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// TestCallersToken: each call has its caller's token on a connection of its own, and the
// operator's token lists the tools and makes no call.
func TestCallersToken(t *testing.T) {
	t.Parallel()
	for era, wrap := range map[string]func(http.Handler) http.Handler{"new": asItIs, "legacy": older} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			owner := map[string]string{} // of each session of the server
			called := map[string]int{}
			r := service(t, func(h http.Handler) http.Handler {
				h = wrap(h)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					token, id := r.Header.Get("Authorization"), r.Header.Get("Mcp-Session-Id")
					mu.Lock()
					if id != "" && owner[id] != "" && owner[id] != token {
						t.Errorf("session %s is of %s and was used by %s", id, owner[id], token)
					}
					if id != "" {
						owner[id] = token
					}
					mu.Unlock()
					if token == "Bearer wrong-token" || token == "" {
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					atCall(h, func(w http.ResponseWriter, _ *http.Request) bool {
						mu.Lock()
						defer mu.Unlock()
						called[token]++
						rpcError(w, -32602)
						return true
					}).ServeHTTP(w, r)
				})
			}, func(o *mcp.Options) {
				o.Bearer, o.Listing = httpcall.Secret{Credential: "CRM"}, "operator"
			})
			as := func(token string) func(*seam.Run) {
				return func(run *seam.Run) {
					run.Credential = func(name, host string) (string, error) {
						if name != "CRM" || host != "127.0.0.1" {
							t.Errorf("asked for %s to %s", name, host)
						}
						if token == "" {
							return "", parley.Errorf(parley.CodeUnauthenticated, "it is gone")
						}
						return token, nil
					}
				}
			}
			r.want(r.call("note", in{"text": "a"}, as("ana-token")), parley.OutcomeError, "refused the call")
			r.want(r.call("note", in{"text": "b"}, as("bob-token")), parley.OutcomeError, "refused the call")
			r.want(r.call("note", in{"text": "c"}, as("wrong-token")), parley.OutcomeError, "cannot be used")
			r.want(r.call("note", in{"text": "d"}, as("")), parley.OutcomeError, "it is gone")
			mu.Lock()
			defer mu.Unlock()
			if called["Bearer ana-token"] != 1 || called["Bearer bob-token"] != 1 || len(called) != 2 {
				t.Errorf("called: %v", called)
			}
		})
	}
}

// issuer is an authorization server for tests.
type issuer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []url.Values
	valid string // the token that is valid now
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":"%[2]s/authorize","token_endpoint":"%[2]s/token","response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, i.URL, i.URL)
		case "/token":
			id, secret, _ := r.BasicAuth()
			_ = r.ParseForm()
			if id != "parley" || secret != "client-secret" || r.Form.Get("grant_type") != "client_credentials" {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"error":"invalid_client","error_description":"who?"}`)
				return
			}
			i.mu.Lock()
			defer i.mu.Unlock()
			i.asked = append(i.asked, r.Form)
			i.valid = fmt.Sprintf("token-%d", len(i.asked))
			fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, i.valid)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) check(r *http.Request) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.valid != "" && r.Header.Get("Authorization") == "Bearer "+i.valid
}

// TestLogin: a token is obtained with the client's credentials, for this server alone, and a new
// one when it is no longer accepted. A call that was refused because of its token is made once.
func TestLogin(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var host atomic.Value // where the server is reached
	var times atomic.Int64
	r := service(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host.Store(r.Host)
			switch {
			case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools"]}`, "http://"+r.Host+"/mcp", i.URL)
			case !i.check(r):
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+`/.well-known/oauth-protected-resource/mcp"`)
				w.WriteHeader(http.StatusUnauthorized)
			default:
				atCall(h, func(w http.ResponseWriter, _ *http.Request) bool {
					times.Add(1)
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":"noted"}]}}`, w.(*lastID).id) //nolint:errorlint // not an error
					return true
				}).ServeHTTP(w, r)
			}
		})
	}, func(o *mcp.Options) {
		o.OAuth = &mcp.OAuth{ClientID: "parley", ClientSecret: "client-secret", Issuer: i.URL}
	})
	r.want(r.call("echo", in{"text": "in"}), parley.OutcomeOK, "in")
	i.mu.Lock()
	got := len(i.asked)
	first := i.asked[0]
	i.valid = "revoked"
	i.mu.Unlock()
	if at := fmt.Sprintf("http://%s/mcp", host.Load()); got != 1 || first.Get("resource") != at || first.Get("scope") != "tools" {
		t.Errorf("asked %d times, for %v", got, first)
	}
	r.want(r.call("note", in{}), parley.OutcomeOK, "noted")
	if times.Load() != 1 {
		t.Errorf("the call arrived %d times", times.Load())
	}
}

// TestLogin_renewal: if an expired token cannot be renewed, the call is not made. The error gives
// the reason, without the library's words and the body of the answer. A call that waits for
// another's request for a token can stop waiting.
func TestLogin_renewal(t *testing.T) {
	t.Parallel()
	var token atomic.Pointer[func(http.ResponseWriter)] // answers requests for a token
	answer := func(f func(w http.ResponseWriter)) { token.Store(&f) }
	short := func(w http.ResponseWriter) { // it has expired before it comes
		fmt.Fprint(w, `{"access_token":"token","token_type":"Bearer","expires_in":1}`)
	}
	answer(short)
	i := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/token" {
			fmt.Fprintf(w, `{"issuer":"http://%[1]s","authorization_endpoint":"http://%[1]s/authorize","token_endpoint":"http://%[1]s/token","response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, r.Host)
			return
		}
		(*token.Load())(w)
	}))
	t.Cleanup(i.Close)
	r := service(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/.well-known/") {
				w.WriteHeader(http.StatusNotFound)
			} else if r.Header.Get("Authorization") != "Bearer token" {
				w.Header().Set("WWW-Authenticate", "Bearer")
				w.WriteHeader(http.StatusUnauthorized)
			} else {
				h.ServeHTTP(w, r)
			}
		})
	}, func(o *mcp.Options) {
		o.OAuth = &mcp.OAuth{ClientID: "parley", ClientSecret: "client-secret", Issuer: i.URL}
	})
	refused := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status); fmt.Fprint(w, body) }
	}
	r.want(r.call("echo", in{"text": "in"}), parley.OutcomeOK, "in")
	for body, says := range map[string]string{
		`{"error":"invalid_client","error_description":"the secret is too old"}`: "gave no token: invalid_client the secret is too old",
		`you sent client-secret`: "gave no token: it answered 400 Bad Request",
	} {
		answer(refused(400, body))
		res := r.call("echo", in{"text": "in"})
		if !strings.Contains(res.Output, says) || strings.Contains(res.Output, "oauth2") || strings.Contains(res.Output, "client-secret") || res.Outcome != parley.OutcomeError {
			t.Errorf("got %s: %s", res.Outcome, res.Output)
		}
	}
	// The authorization server takes its time.
	asked, gate := make(chan struct{}, 100), make(chan struct{})
	answer(func(w http.ResponseWriter) {
		asked <- struct{}{}
		<-gate
		short(w)
	})
	var first sync.WaitGroup
	first.Go(func() { r.want(r.call("echo", in{"text": "in"}), parley.OutcomeOK, "in") })
	<-asked
	ctx, leave := context.WithCancelCause(t.Context())
	leave(errors.New("it left"))
	if res := r.callBy(ctx, "echo", in{"text": "in"}, time.Now().Add(within)); res.Outcome == parley.OutcomeOK {
		t.Errorf("a call that left: %s", res.Output)
	}
	close(gate)
	first.Wait()
}

// TestLogin_elsewhere: the secret goes only to an authorization server that the operator named
// or that is at the server's own host.
func TestLogin_elsewhere(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	there := strings.Replace(i.URL, "127.0.0.1", "localhost", 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"resource":"http://%s/mcp","authorization_servers":[%q]}`, r.Host, there)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+`/.well-known/oauth-protected-resource/mcp"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(srv.Close)
	for _, c := range []struct{ issuer, says string }{
		{"", "localhost is not among the hosts"},
		{i.URL, "does not take tokens of " + i.URL},
	} {
		set, err := mcp.New(mcp.Options{Name: "test", URL: srv.URL + "/mcp", Logger: quiet, OAuth: &mcp.OAuth{ClientID: "parley", ClientSecret: "client-secret", Issuer: c.issuer}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "client-secret") {
			t.Errorf("got %v, want %q", err, c.says)
		}
		set.Close()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.asked) != 0 {
		t.Errorf("the secret was sent: %v", i.asked)
	}
}
