package program_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// descriptors counts the open file descriptors of the process. It returns 0 where they cannot
// be counted.
func (s *process) descriptors() int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil && runtime.GOOS == "linux" {
		s.t.Fatal(err)
	}
	return len(list)
}

// TestConnections_that_do_nothing: a client without a key opens far more connections than the
// server allows. Clients with a key are served during the attack, and everything is as before after
// it.
func TestConnections_that_do_nothing(t *testing.T) {
	t.Parallel()
	const bound = 150
	p := newPlace(t, "PARLEY_AUTH_MODE=keys", "PARLEY_API_KEYS=watch@ana=a-key-from-outside-of-here", fmt.Sprintf("PARLEY_LIMITS_MAX_CONNECTIONS=%d", bound))
	s := p.serve()
	key := []string{"Authorization", "Bearer a-key-from-outside-of-here"}
	if got := s.who(key...); got != "ana" {
		t.Fatal(got)
	}
	http.DefaultClient.CloseIdleConnections()
	before := s.descriptors()
	for name, say := range map[string]string{
		"one byte of a body":    "POST /v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"one byte of a message": "POST /chat HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"one byte of an import": "POST /v1/sessions/import HTTP/1.1\r\nHost: a\r\nContent-Type: application/zip\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nP",
		"nothing":               "",
		"half a head":           "GET /v1/sessions HTTP/1.1\r\nHost: a\r\nX-Half: ",
		"one request each":      "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
		"many in one":           strings.Repeat("GET /v1/sessions HTTP/1.1\r\nHost: a\r\n\r\n", 20),
		"half an MCP message":   "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		var held []net.Conn
		for range 1200 {
			c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatalf("%s: %d connections, then %v", name, len(held), err)
			}
			held = append(held, c)
			_, _ = io.WriteString(c, say)
		}
		if got := s.who(key...); got != "ana" {
			t.Errorf("%s: the owner of a key got %s", name, got)
		}
		if n := s.descriptors(); n > before+bound+20 {
			t.Errorf("%s: %d descriptors, %d before", name, n, before)
		}
		for _, c := range held {
			_ = c.Close()
		}
		s.until("the descriptors to come back", func() bool { return s.descriptors() <= before+20 })
	}
	if code, _, errs := p.run("session", "list"); code != 0 {
		t.Errorf("by the socket: %s", errs)
	}
}

// TestBody_that_stops: the server ends a request whose body stops, and gives the reason if the
// client still reads.
func TestBody_that_stops(t *testing.T) {
	t.Parallel()
	s := newPlace(t).serve()
	began := time.Now()
	var all []net.Conn
	paths := []string{"/v1/sessions", "/chat", "/v1/sessions/import", "/nothing", "/healthz"}
	for _, path := range paths {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		kind := "application/json"
		if strings.HasSuffix(path, "import") {
			kind = "application/zip"
		}
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", path, kind)
		all = append(all, c)
	}
	for i, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(within))
		b, err := io.ReadAll(c)
		late, ok := errors.AsType[net.Error](err)
		if ok && late.Timeout() {
			t.Errorf("%s is open after %s", paths[i], time.Since(began))
		}
		if i < 3 && (!strings.HasPrefix(string(b), "HTTP/1.1 408 ") || !strings.Contains(string(b), `"code":"timeout"`) || !strings.Contains(string(b), `"hint":"send`) || strings.Contains(string(b), "127.0.0.1")) {
			t.Errorf("%s: %s", paths[i], b)
		}
	}
}

// memory returns the current and the peak resident memory of the process, in bytes. The peak
// counts from the last call. Both are 0 where they cannot be read.
func (s *process) memory() (now, most int64) {
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err == nil {
		err = os.WriteFile(proc+"clear_refs", []byte("5"), 0)
	}
	if err != nil && runtime.GOOS == "linux" {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d", &kib); err == nil {
			now = kib << 10
		} else if _, err := fmt.Sscanf(line, "VmHWM: %d", &kib); err == nil {
			most = kib << 10
		}
	}
	return now, most
}

// TestStreams_that_nobody_reads: the maximum number of streams, all unread, follow a log that
// is larger than a socket buffer. The server holds little memory for them, and a client that
// does read has the whole log long before they end by themselves. A stream that was dropped for
// memory resumes from its cursor and misses nothing.
func TestStreams_that_nobody_reads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ limit, unread, sessions int }{
		"all places":                  {10, 15, 1},   // and less memory than answers may use: the limit on streams is reached first
		"all memory":                  {300, 400, 1}, // a few streams may keep an event in memory
		"all places, of all sessions": {10, 15, 2},
		"all memory, of all sessions": {300, 400, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				size  = 800_000          // bytes of one event
				byOwn = 30 * time.Second // after this time, a stream that reads nothing ends by itself
			)
			// Twice the memory of answers and streams, because the heap may grow to that, plus the
			// connections and the server's own work.
			most := int64(min(c.unread*size, 200<<20) + 24<<20)
			p := newPlace(t, fmt.Sprintf("PARLEY_LIMITS_MAX_STREAMS=%d", c.limit))
			p.withDesk("http://127.0.0.1:1", "0s")
			s := p.serve()
			var ids, want []string
			for range c.sessions {
				id := s.session("desk-manual")
				for range 4 / c.sessions {
					s.settle(s.send(id, fmt.Sprintf("say 8 %d", size/8)).ID)
				}
				ids, want = append(ids, string(id)), append(want, s.log(id)...)
			}
			slices.Sort(want) // events of different sessions have no order
			path := "/v1/sessions/" + ids[0] + "/events"
			if c.sessions > 1 {
				path = "/v1/stream?sessions=" + strings.Join(ids, ",")
			}
			http.DefaultClient.CloseIdleConnections()
			before, _ := s.memory()
			files := s.descriptors()
			began := time.Now()
			held, leave := s.unread(path, c.unread)
			if len(held) < c.limit {
				t.Fatalf("%d streams of %d that there may be are open", len(held), c.limit)
			}
			s.until("a reader to have all of it", func() bool { return len(s.follow(path, "", len(want))) == len(want) })
			if took := time.Since(began); took > byOwn*4/5 {
				t.Errorf("a reader had the log after %s; by then those that nobody reads have ended by themselves", took)
			}
			if _, high := s.memory(); high-before > most {
				t.Errorf("the memory has grown by %d MiB for %d streams over events of %d bytes", (high-before)>>20, c.unread, size)
			}
			var got []string
			cursor := ""
			if !slices.ContainsFunc(held, func(r *http.Response) bool {
				got, cursor = eventsOf(r.Body, len(want))
				return len(got) < len(want)
			}) {
				t.Fatalf("of %d streams that nobody read none was dropped: all have the %d events", len(held), len(want))
			}
			var rest []string
			s.until("the one that was dropped to have the rest", func() bool {
				rest = s.follow(path, cursor, len(want)-len(got))
				return len(got)+len(rest) == len(want)
			})
			got = append(got, rest...)
			if slices.Sort(got); !slices.Equal(want, got) {
				t.Errorf("the events after a reconnection at %s differ from the log", cursor)
			}
			leave()
			http.DefaultClient.CloseIdleConnections()
			s.until("the descriptors to come back", func() bool { return s.descriptors() <= files+10 })
		})
	}
}

// unread opens n streams and reads only the heads of the answers, so each one got a place or
// was refused. It returns the streams that got one. Their sockets keep the default buffers: a
// socket made with a small buffer stays slow to read.
func (s *process) unread(path string, n int) (streams []*http.Response, leave func()) {
	s.t.Helper()
	var conns []net.Conn
	leave = func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	s.t.Cleanup(leave)
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			s.t.Fatal(err)
		}
		conns = append(conns, c)
		_ = c.SetReadDeadline(time.Now().Add(within))
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", path)
	}
	for _, c := range conns {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			streams = append(streams, resp)
		}
	}
	return streams, leave
}

// follow reads a stream from a cursor until it has that many events or the stream ends.
func (s *process) follow(path, cursor string, events int) []string {
	ctx, stop := context.WithTimeout(s.t.Context(), within)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	got, _ := eventsOf(resp.Body, events)
	return got
}

// eventsOf reads server-sent events until it has most of them with an id, or the stream ends. A
// frame counts once it is complete.
func eventsOf(r io.Reader, most int) (events []string, cursor string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	id, data := "", ""
	for len(events) < most && lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), ": "); name == "id" {
			id = value
		} else if name == "data" {
			data = value
		} else if lines.Text() == "" {
			if id != "" {
				events, cursor = append(events, data), id
			}
			id, data = "", ""
		}
	}
	return events, cursor
}
