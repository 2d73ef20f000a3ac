package edge_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/edge"
)

// within bounds every wait in a test.
const within = time.Minute

// grace is longer than a busy machine keeps a test from going on between two lines.
const grace = time.Second

type rig struct {
	t             *testing.T
	srv           *edge.Server
	network, addr string
	slow          chan error // the error that ended a handler's read of a body
}

// newRig serves /known, which reads its body; /stranger, which refuses without reading it;
// /stream, which is known and never ends; and /big.
func newRig(t *testing.T, o edge.Options) *rig { return newRigAt(t, "tcp", "127.0.0.1:0", o) }

func newRigAt(t *testing.T, network, address string, o edge.Options) *rig {
	t.Helper()
	r := &rig{t: t, slow: make(chan error, 10_000)}
	mux := http.NewServeMux()
	mux.HandleFunc("/known", func(w http.ResponseWriter, q *http.Request) {
		edge.Known(q.Context())
		n, err := io.Copy(io.Discard, q.Body)
		if err != nil {
			r.slow <- err
			w.WriteHeader(http.StatusRequestTimeout)
			return
		}
		fmt.Fprint(w, n)
	})
	mux.HandleFunc("/stranger", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	mux.HandleFunc("/read-stream", func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		fmt.Fprintln(w, "open")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, q *http.Request) {
		edge.Known(q.Context())
		fmt.Fprintln(w, "open")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		r.slow <- err
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
		_, err := w.Write(make([]byte, 1<<20))
		r.slow <- err
	})
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	r.network, r.addr = network, l.Addr().String()
	r.srv = edge.New(mux, o)
	done := make(chan error, 1)
	go func() { done <- r.srv.Serve(l) }()
	t.Cleanup(func() {
		_ = r.srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) dial(say string) *client {
	r.t.Helper()
	c, err := net.Dial(r.network, r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(within))
	_, _ = io.WriteString(c, say) // on a busy machine the server may have given it up; the test reads what the server says
	return &client{Conn: c, r: bufio.NewReader(c)}
}

type client struct {
	net.Conn
	r *bufio.Reader
}

// answer reads one answer; its status is 0 if the connection has ended.
func (c *client) answer() (int, string) {
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// gone waits for the connection to end, possibly after more data.
func (c *client) gone() error {
	_, err := io.Copy(io.Discard, c.r)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return err
	}
	return nil
}

const half = "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx"

func post(path string) string { return fmt.Sprintf(half, path) }

// TestServer_ends_what_does_not_go_on: each client holds a connection and then does nothing
// more.
func TestServer_ends_what_does_not_go_on(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{Grace: 50 * time.Millisecond, Idle: 50 * time.Millisecond, WriteWithin: 50 * time.Millisecond})
	for name, say := range map[string]string{
		"nothing":                      "",
		"half a head":                  "GET /known HTTP/1.1\r\nHost: a\r\nX-",
		"half a body, known":           post("/known"),
		"half a body, stranger":        post("/stranger"),
		"half a body, nowhere":         post("/nowhere"),
		"no body at all":               "POST /known HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
		"a continue that never comes":  "POST /known HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
		"a chunk that does not end":    "POST /known HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\nx",
		"chunks without a last":        "POST /known HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
		"a chunk of unknown size":      "POST /stranger HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"trailers without an end":      "POST /known HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
		"nothing after a request":      "GET /stranger HTTP/1.1\r\nHost: a\r\n\r\n",
		"half a request after another": "GET /stranger HTTP/1.1\r\nHost: a\r\n\r\nGET /",
		"half a body after another":    "GET /stranger HTTP/1.1\r\nHost: a\r\n\r\n" + post("/known"),
		"an answer that nobody reads":  "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "an answer") {
				r.dial("GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
				return
			}
			if err := r.dial(say).gone(); err != nil {
				t.Errorf("it is still open: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		waitFor(t, "all connections to end", func() bool { return r.srv.Connections() == 0 })
	})
}

func TestServer_says_that_a_body_is_late(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{Grace: grace})
	c := r.dial(post("/known"))
	if status, _ := c.answer(); status != http.StatusRequestTimeout {
		t.Errorf("got %d", status)
	}
	err := <-r.slow
	if s, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err); !ok || s.HTTPStatus() != http.StatusRequestTimeout || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}
}

// TestServer_lets_a_steady_upload_finish: an upload that keeps the rate may take longer than the
// grace period.
func TestServer_lets_a_steady_upload_finish(t *testing.T) {
	t.Parallel()
	const size, rate = 192 << 10, 32 << 10
	r := newRig(t, edge.Options{Grace: grace, UploadRate: rate})
	c := r.dial(fmt.Sprintf("POST /known HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
	tick := time.NewTicker(20 * time.Millisecond) // 102 KiB/s, three times the required rate
	defer tick.Stop()
	began := time.Now()
	for sent := 0; sent < size; sent += 2 << 10 {
		<-tick.C
		if _, err := c.Write(make([]byte, 2<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if status, body := c.answer(); status != 200 || body != fmt.Sprint(size) {
		t.Errorf("after %s: got %d %s", time.Since(began), status, body)
	}
}

// TestServer_ends_a_trickle: a byte now and then is too slow for an upload.
func TestServer_ends_a_trickle(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{Grace: 200 * time.Millisecond, UploadRate: 1 << 20})
	c := r.dial("POST /known HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = c.Write([]byte("x"))
			case <-stop:
				return
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	if err := <-r.slow; err == nil {
		t.Error("it was read to its end")
	}
}

// TestServer_closes_the_weakest_first: to make room for a new connection, idle ones are closed
// first, then unfinished requests, then uploads. A stream is never closed for one.
func TestServer_closes_the_weakest_first(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{Connections: 4})
	stream := r.dial("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
	if line, err := stream.r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	upload := r.dial(post("/known"))
	waitFor(t, "the upload", func() bool { return r.srv.Phases()["known"] == 2 })
	fresh := r.dial("GET / HT")
	idle := r.dial("GET /stranger HTTP/1.1\r\nHost: a\r\n\r\n")
	if status, _ := idle.answer(); status != 401 {
		t.Fatal(status)
	}
	waitFor(t, "an idle one", func() bool { return r.srv.Phases()["idle"] == 1 && r.srv.Phases()["fresh"] == 1 })
	for _, c := range []struct {
		name string
		*client
	}{{"idle", idle}, {"fresh", fresh}} {
		next := r.dial("")
		if err := c.gone(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		waitFor(t, "the new one", func() bool { return r.srv.Connections() == 4 })
		_, _ = io.WriteString(next, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
		if status, err := http.ReadResponse(next.r, nil); err != nil || status.StatusCode != 200 {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	last := r.dial("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
	if err := upload.gone(); err != nil {
		t.Error(err)
	}
	if status, err := http.ReadResponse(last.r, nil); err != nil || status.StatusCode != 200 {
		t.Fatal(err)
	}
	// No connection may be closed for it, so the new one is closed.
	none := r.dial("")
	if err := none.gone(); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(stream, "x"); err != nil || r.srv.Connections() != 4 {
		t.Errorf("%v, %d open", err, r.srv.Connections())
	}
}

// TestServer_under_attack holds far more connections than there is room for, in every way that
// holds one. Correct requests are served beside them.
func TestServer_under_attack(t *testing.T) {
	t.Parallel()
	const bound = 100
	r := newRig(t, edge.Options{Connections: bound})
	for i, say := range []string{"", "GET / HTTP/1.1\r\nX: ", post("/stranger"), post("/known"), "GET /stranger HTTP/1.1\r\nHost: a\r\n\r\n"} {
		for range 240 {
			c, err := net.Dial(r.network, r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, say)
		}
		c := r.dial("POST /known HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
		if status, body := c.answer(); status != 200 || body != "5" {
			t.Errorf("attack %d: got %d %s", i, status, body)
		}
		if n := r.srv.Connections(); n > bound {
			t.Errorf("attack %d: %d connections are open", i, n)
		}
	}
}

// TestServer_on_a_socket: a Unix socket has the same deadlines and the same limit.
func TestServer_on_a_socket(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "unix", filepath.Join(t.TempDir(), "s"), edge.Options{Connections: 4, Grace: grace})
	for _, say := range []string{"", "GET /", post("/known"), post("/stranger")} {
		var held []*client
		for range 12 {
			held = append(held, r.dial(say))
		}
		for _, c := range held {
			if err := c.gone(); err != nil {
				t.Errorf("%q: %v", say, err)
			}
		}
	}
	c := r.dial("POST /known HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
	if status, body := c.answer(); status != 200 || body != "5" {
		t.Errorf("got %d %s", status, body)
	}
}

// TestServer_rewords_what_is_no_request: errors that net/http itself writes are replaced by
// ours.
func TestServer_rewords_what_is_no_request(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{MaxHead: 16 << 10, Refuse: func(status int, said string) (string, []byte) {
		b, _ := json.Marshal(map[string]any{"status": status, "said": said})
		return "application/json", b
	}})
	for name, c := range map[string]struct {
		say    string
		status int
		said   string
	}{
		"no HTTP":            {"hello\r\n\r\n", 400, ""},
		"a long URL":         {"GET /" + strings.Repeat("a", 20<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 431, ""},
		"a long header":      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", 431, ""},
		"a bad escape":       {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400, ""},
		"no host":            {"GET / HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"two hosts":          {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, ""},
		"an odd host":        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed Host header"},
		"an odd coding":      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, ""},
		"two codings":        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501, ""},
		"two lengths":        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400, ""},
		"a negative length":  {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nx", 400, ""},
		"another version":    {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, ""},
		"an odd expectation": {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: tea\r\n\r\nx", 417, ""},
		"a header of spaces": {"GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n", 400, ""},
		"a bare return":      {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400, ""},
		"after a good one":   {"GET /stranger HTTP/1.1\r\nHost: a\r\n\r\nhello\r\n\r\n", 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := r.dial(c.say)
			if strings.HasPrefix(name, "after") {
				if status, _ := conn.answer(); status != 401 {
					t.Fatal(status)
				}
			}
			resp, err := http.ReadResponse(conn.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var got struct {
				Status int
				Said   string
			}
			err = json.NewDecoder(resp.Body).Decode(&got)
			if err != nil || resp.StatusCode != c.status || got.Status != c.status || !strings.Contains(got.Said, c.said) ||
				resp.Header.Get("Content-Type") != "application/json" || !resp.Close {
				t.Errorf("got %d %v, %+v, %v", resp.StatusCode, resp.Header, got, err)
			}
		})
	}
}

// TestServer_a_long_answer_outlives_the_body: the body's deadline must not end a long answer.
func TestServer_a_long_answer_outlives_the_body(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{Grace: grace})
	for _, path := range []string{"/stream", "/read-stream"} { // read to its end by net/http, and by the handler
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c := r.dial("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(grace * 3 / 2))
			_, err = io.Copy(io.Discard, resp.Body)
			if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
				t.Errorf("the answer ended: %v", err)
			}
		})
	}
}

// TestServer_cut_by_its_handler: a handler sets a deadline to end its answer. The deadline that
// each write gets does not replace it.
func TestServer_cut_by_its_handler(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{})
	r.dial("GET /cut HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-r.slow; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(within)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("waited for %s", what)
		}
	}
}
