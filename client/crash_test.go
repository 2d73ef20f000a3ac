package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// lost performs the request; the server then crashes before it answers.
func lost(next http.Handler, w http.ResponseWriter, r *http.Request) {
	next.ServeHTTP(&short{ResponseWriter: w, left: 0}, r)
}

// serveLosing is serve with a server that crashes after the requests that match, before it
// answers.
func serveLosing(t testing.TB, match func(*http.Request) bool) (*client.Client, *enginetest.Rig) {
	t.Helper()
	return serve(t, enginetest.Echo, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if match(r) {
				lost(next, w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
}

// TestSendAndWait_through_a_crash: the server crashes after it stored the message, while
// the client waits. The message starts one turn, and its answer arrives.
func TestSendAndWait_through_a_crash(t *testing.T) {
	t.Parallel()
	var sends, awaits atomic.Int64
	c, rig := serveLosing(t, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/turns") && r.Method == http.MethodPost && sends.Add(1) == 1 ||
			strings.HasSuffix(r.URL.Path, "/await") && awaits.Add(1) <= 3
	})
	s := session(t, c)
	got, err := c.SendAndWait(t.Context(), s.ID, parley.Send{Message: "hello"})
	if err != nil || got.Status != parley.StatusCompleted || got.Response.Message != "you said: hello" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if n := strings.Count(enginetest.Types(rig.Log(s.ID)), "turn.started"); n != 1 || sends.Load() != 2 {
		t.Errorf("%d turns began after %d requests", n, sends.Load())
	}
}

// TestSendAndWait_while_a_turn_is_about_to_go_on: the server says that the turn was interrupted
// and goes on by itself. The client waits, and does not ask again and again.
func TestSendAndWait_while_a_turn_is_about_to_go_on(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var on atomic.Bool // the turn went on
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := `"interrupted","resumes":true`
		if asked.Add(1); on.Load() {
			status = `"completed"`
		}
		_, _ = io.WriteString(w, `{"id":"T","session_id":"S","status":`+status+`}`)
	}))
	t.Cleanup(web.Close)
	c := client.New(client.Options{BaseURL: web.URL})
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, leave)
	began := time.Now()
	got, err := c.SendAndWait(ctx, "S", parley.Send{Message: "hello"})
	if most := int64(time.Since(began)/(100*time.Millisecond)) + 2; got.Status != parley.StatusInterrupted || !errors.Is(err, context.Canceled) || asked.Load() > most {
		t.Errorf("left: got %s, %v, after %d requests", got.Status, err, asked.Load())
	}
	time.AfterFunc(300*time.Millisecond, func() { on.Store(true) })
	if got, err := c.SendAndWait(t.Context(), "S", parley.Send{Message: "hello"}); err != nil || got.Status != parley.StatusCompleted {
		t.Errorf("waited: got %s, %v", got.Status, err)
	}
}

// TestSessions_are_made_once: the answers to a creation and to a fork are lost. Both
// requests are repeated with their keys, and make one session each.
func TestSessions_are_made_once(t *testing.T) {
	t.Parallel()
	var creates, forks atomic.Int64
	c, _ := serveLosing(t, func(r *http.Request) bool {
		return r.URL.Path == "/v1/sessions" && r.Method == http.MethodPost && creates.Add(1) == 1 ||
			strings.HasSuffix(r.URL.Path, "/fork") && forks.Add(1) == 1
	})
	s, created, err := c.CreateSession(t.Context(), parley.CreateSession{App: "test"})
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	fork, err := c.ForkSession(t.Context(), s.ID, parley.ForkSession{})
	if err != nil || creates.Load() != 2 || forks.Load() != 2 {
		t.Fatalf("%v after %d and %d requests", err, creates.Load(), forks.Load())
	}
	list, err := c.Sessions(t.Context(), client.SessionFilter{})
	if err != nil || len(list) != 2 || fork.ID == s.ID {
		t.Errorf("there are %d sessions, %v", len(list), err)
	}
}

// TestRequests_through_a_proxy: an answer is lost and a proxy stands in for the server that
// crashed, then the server itself says that it cannot begin yet. Each request is repeated
// until it is done, and done once.
func TestRequests_through_a_proxy(t *testing.T) {
	t.Parallel()
	dies := map[string]func(http.Handler, http.ResponseWriter, *http.Request){
		"the connection breaks": lost,
		"the proxy loses it": func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "<html>Bad Gateway", http.StatusBadGateway)
		},
		"the proxy waits for it": func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "", http.StatusGatewayTimeout)
		},
	}
	asks := map[string]func(*client.Client, parley.SessionID) error{
		"CreateSession": func(c *client.Client, _ parley.SessionID) error {
			_, created, err := c.CreateSession(t.Context(), parley.CreateSession{App: "test", Key: "mine"})
			if err == nil && !created {
				return errors.New("it was not created")
			}
			return err
		},
		"ForkSession": func(c *client.Client, id parley.SessionID) error {
			_, err := c.ForkSession(t.Context(), id, parley.ForkSession{})
			return err
		},
		"Deliver": func(c *client.Client, id parley.SessionID) error {
			_, err := c.Deliver(t.Context(), id, parley.Send{Message: "hello"})
			return err
		},
	}
	for how, dies := range dies {
		for name, ask := range asks {
			t.Run(name+" and "+how, func(t *testing.T) {
				t.Parallel()
				var n atomic.Int64
				c, rig := serve(t, enginetest.Echo, func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method != http.MethodPost {
							next.ServeHTTP(w, r)
							return
						}
						switch n.Add(1) - 1 { // the first makes the session
						case 1:
							dies(next, w, r)
						case 2:
							http.Error(w, "<html>Bad Gateway", http.StatusBadGateway)
						case 3:
							http.Error(w, "", http.StatusServiceUnavailable)
						case 4:
							w.WriteHeader(http.StatusServiceUnavailable)
							_, _ = io.WriteString(w, `{"error":{"code":"unavailable","message":"not yet","retry_after_ms":1}}`)
						default:
							next.ServeHTTP(w, r)
						}
					})
				})
				s := session(t, c)
				if err := ask(c, s.ID); err != nil || n.Load() != 6 {
					t.Fatalf("%v after %d requests", err, n.Load()-1)
				}
				list, err := c.Sessions(t.Context(), client.SessionFilter{})
				turns := strings.Count(enginetest.Types(rig.Log(s.ID)), "turn.started")
				if err != nil || len(list)+turns != 2 {
					t.Errorf("%d sessions and %d turns, %v", len(list), turns, err)
				}
			})
		}
	}
}

// TestServer_that_cannot_do_it_now: an error from the server itself leaves no doubt about the
// outcome, so the client returns it at once.
func TestServer_that_cannot_do_it_now(t *testing.T) {
	t.Parallel()
	n := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"code":"unavailable","message":"there is no room","retry_after_ms":1000}}`)
	}))
	defer web.Close()
	c := client.New(client.Options{BaseURL: web.URL, Away: func(error) { t.Error("it waits") }})
	_, _, err := c.CreateSession(t.Context(), parley.CreateSession{App: "x"})
	if parley.CodeOf(err) != parley.CodeUnavailable || n != 1 {
		t.Errorf("CreateSession: %v after %d requests", err, n)
	}
	_, err = c.Deliver(t.Context(), "s", parley.Send{Message: "hello"})
	if parley.CodeOf(err) != parley.CodeUnavailable || n != 2 {
		t.Errorf("Deliver: %v after %d requests", err, n)
	}
}

// TestCreateSession_with_a_key_of_before: a second creation with the same key reports that
// nothing was created, because no answer was lost.
func TestCreateSession_with_a_key_of_before(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, enginetest.Echo, nil)
	for _, want := range []bool{true, false} {
		if _, created, err := c.CreateSession(t.Context(), parley.CreateSession{App: "test", Key: "mine"}); err != nil || created != want {
			t.Errorf("created %v, %v; want %v", created, err, want)
		}
	}
}

// TestTurns_are_made_once: the answers to a retry and to a cancellation are lost. Each is
// asked for again, and happens once.
func TestTurns_are_made_once(t *testing.T) {
	t.Parallel()
	var retries, cancels atomic.Int64
	c, rig := serveLosing(t, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/retry") && retries.Add(1) == 1 ||
			strings.HasSuffix(r.URL.Path, "/cancel") && cancels.Add(1) == 1
	})
	s := session(t, c)
	first, err := c.SendAndWait(t.Context(), s.ID, parley.Send{Message: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Retry(t.Context(), first.ID, "")
	if err != nil || again.RetryOf != first.ID || retries.Load() != 2 {
		t.Fatalf("got %+v, %v after %d requests", again, err, retries.Load())
	}
	if n := strings.Count(enginetest.Types(rig.Log(s.ID)), "turn.started"); n != 2 {
		t.Errorf("%d turns began", n)
	}
	if _, err := c.Cancel(t.Context(), again.ID, "enough"); err != nil || cancels.Load() != 2 {
		t.Errorf("cancel: %v after %d requests", err, cancels.Load())
	}
}

// TestResume_whose_answer_is_lost: the turn was resumed by the first request, so the second
// is refused. A refusal of the first is an error.
func TestResume_whose_answer_is_lost(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{true, false} {
		requests := 0
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch requests++; {
			case requests == 1 && lost:
				panic(http.ErrAbortHandler)
			case r.Method == http.MethodPost:
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, `{"error":{"code":"conflict","message":"turn T is running, not interrupted"}}`)
			default:
				_, _ = io.WriteString(w, `{"id":"T","status":"running","attempts":1}`)
			}
		}))
		c := client.New(client.Options{BaseURL: web.URL, Retry: time.Millisecond})
		got, err := c.Resume(t.Context(), "T")
		if lost && (err != nil || got.Status != parley.StatusRunning || requests != 3) || !lost && (parley.CodeOf(err) != parley.CodeConflict || requests != 1) {
			t.Errorf("lost %v: got %+v, %v after %d requests", lost, got, err, requests)
		}
		web.Close()
	}
}

// TestServer_that_is_not_there: a request to make a session fails at once and is not
// repeated.
func TestServer_that_is_not_there(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	web.Close()
	c := client.New(client.Options{BaseURL: web.URL, Patience: time.Hour, Away: func(error) { t.Error("it waits") }})
	if _, _, err := c.CreateSession(t.Context(), parley.CreateSession{App: "x"}); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// TestServer_that_never_comes_back: each method that follows a turn gives up when the client's
// patience ends, with an error that says so. The caller is told when the wait begins.
func TestServer_that_never_comes_back(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	base, _ := serveAt(t, enginetest.Echo, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if gone.Load() {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	away := 0
	c := client.New(client.Options{BaseURL: base, Retry: 5 * time.Millisecond, Patience: 50 * time.Millisecond, Away: func(err error) {
		if away++; err == nil {
			t.Error("it is back")
		}
	}})
	s := session(t, c)
	turn, err := c.SendAndWait(t.Context(), s.ID, parley.Send{Message: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	gone.Store(true)
	for name, do := range map[string]func(context.Context) error{
		"SendAndWait": func(ctx context.Context) error {
			_, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: "hello"})
			return err
		},
		"FollowTurn": func(ctx context.Context) error {
			for _, err := range c.FollowTurn(ctx, turn) {
				return err
			}
			return nil
		},
	} {
		away = 0
		err := do(t.Context())
		if parley.CodeOf(err) != parley.CodeUnavailable || !strings.Contains(err.Error(), "has not answered for 50ms") || parley.Info(err).Hint == "" || away != 1 {
			t.Errorf("%s: %v, told %d times", name, err, away)
		}
	}
}

// TestClient_that_insists: each method that is safe to repeat waits for a server that says it is
// unavailable, and for one that does not answer. A client that does not insist gets the error.
func TestClient_that_insists(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*client.Client) error{
		"CreateSession": func(c *client.Client) error {
			_, _, err := c.CreateSession(t.Context(), parley.CreateSession{App: "x"})
			return err
		},
		"ForkSession": func(c *client.Client) error {
			_, err := c.ForkSession(t.Context(), "s", parley.ForkSession{})
			return err
		},
		"ImportSession": func(c *client.Client) error {
			_, err := c.ImportSession(t.Context(), strings.NewReader("zip"), parley.ImportSession{App: "x"})
			return err
		},
		"Deliver": func(c *client.Client) error {
			_, err := c.Deliver(t.Context(), "s", parley.Send{Message: "hello"})
			return err
		},
		"Turn":        func(c *client.Client) error { _, err := c.Turn(t.Context(), "t"); return err },
		"Cancel":      func(c *client.Client) error { _, err := c.Cancel(t.Context(), "t", ""); return err },
		"Resume":      func(c *client.Client) error { _, err := c.Resume(t.Context(), "t"); return err },
		"Retry":       func(c *client.Client) error { _, err := c.Retry(t.Context(), "t", ""); return err },
		"Interaction": func(c *client.Client) error { _, err := c.Interaction(t.Context(), "i"); return err },
		"Answer":      func(c *client.Client) error { _, err := c.Answer(t.Context(), "i", parley.Answer{}); return err },
	} {
		for _, insists := range []bool{true, false} {
			var mu sync.Mutex // requests and keys
			requests, keys, told := 0, map[string]bool{}, 0
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				keys[r.Header.Get("Idempotency-Key")] = true
				w.Header().Set("Content-Type", "application/json")
				switch requests++; {
				case requests <= 2:
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = io.WriteString(w, `{"error":{"code":"unavailable","message":"the server is shutting down"}}`)
				case requests == 3:
					panic(http.ErrAbortHandler)
				default:
					_, _ = io.WriteString(w, "{}")
				}
			}))
			c := client.New(client.Options{BaseURL: web.URL, Retry: time.Millisecond, Insist: insists, Away: func(error) { told++ }})
			err := do(c)
			web.Close()
			mu.Lock()
			if insists && (err != nil || requests < 4 || told != 2) || !insists && (parley.CodeOf(err) != parley.CodeUnavailable || requests != 1 || told != 0) {
				t.Errorf("%s, insists %v: %v after %d requests, told %d times", name, insists, err, requests, told)
			}
			if len(keys) != 1 {
				t.Errorf("%s has the keys %v", name, keys)
			}
			mu.Unlock()
		}
	}
}

// TestImport_whose_answer_is_lost: an archive that can be read again is sent again, whole and with
// the same key. One that cannot be is sent once, and the error names its key.
func TestImport_whose_answer_is_lost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, r.Header.Get("Idempotency-Key")+" "+string(body)); len(got)%3 != 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"id":"made"}`)
	}))
	defer web.Close()
	c := client.New(client.Options{BaseURL: web.URL, Retry: time.Millisecond})
	zip := strings.NewReader("not this: zip")
	_, _ = zip.Seek(10, io.SeekStart)
	info, err := c.Import(t.Context(), zip, "")
	mu.Lock()
	if err != nil || info.ID != "made" || len(got) != 3 {
		t.Errorf("got %+v, %v after %d requests", info, err, len(got))
	}
	for _, one := range got {
		if key, body, _ := strings.Cut(one, " "); one != got[0] || key == "" || body != "zip" {
			t.Errorf("sent %q, and first %q", one, got[0])
		}
	}
	mu.Unlock()
	_, err = c.ImportSession(t.Context(), struct{ io.Reader }{strings.NewReader("zip")}, parley.ImportSession{Key: "my key"})
	mu.Lock()
	defer mu.Unlock()
	if parley.CodeOf(err) != parley.CodeUnavailable || !strings.Contains(err.Error(), "may have been imported") || !strings.Contains(parley.Info(err).Hint, "my key") || len(got) != 4 {
		t.Errorf("%v, hint %q after %d requests", err, parley.Info(err).Hint, len(got))
	}
}

// TestSendAndWait_while_the_server_restarts: while the client waits for a turn that runs, the server
// says that it cannot answer, and then is cut off. The client goes on waiting.
func TestSendAndWait_while_the_server_restarts(t *testing.T) {
	t.Parallel()
	var awaits atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := "running"
		if strings.HasSuffix(r.URL.Path, "/await") {
			switch awaits.Add(1) {
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"error":{"code":"unavailable","message":"the server starts"}}`)
				return
			case 2:
				panic(http.ErrAbortHandler)
			}
			status = "completed"
		}
		_, _ = io.WriteString(w, `{"id":"T","session_id":"S","status":"`+status+`"}`)
	}))
	t.Cleanup(web.Close)
	got, err := client.New(client.Options{BaseURL: web.URL}).SendAndWait(t.Context(), "S", parley.Send{Message: "hello"})
	if err != nil || got.Status != parley.StatusCompleted || awaits.Load() != 3 {
		t.Errorf("got %s, %v, after %d requests", got.Status, err, awaits.Load())
	}
}
