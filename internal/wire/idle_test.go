package wire_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

func TestHead_is_sent_although_there_is_nothing_to_show(t *testing.T) {
	t.Parallel()
	for _, accepted := range []bool{false, true} {
		h := newHouse(t, wire.Options{Accepted: accepted})
		resp := h.get(t.Context(), "/one?session=s1", "1")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("got %d", resp.StatusCode)
		}
		resp.Body.Close()
	}
}

func TestShutdown_ends_streams_with_an_error_frame(t *testing.T) {
	t.Parallel()
	h := newHouse(t, wire.Options{})
	h.srv.Config.RegisterOnShutdown(h.r.Hangup)
	resp := h.get(t.Context(), "/one?session=s1", "")
	defer resp.Body.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := h.srv.Config.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(b), "\"retry_after_ms\":1000}}\n\n") || !strings.Contains(string(b), "event: error\n") {
		t.Errorf("got %q, %v", b, err)
	}
	wg.Wait()
}

func TestSlow_client_is_cut_and_delays_nobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t, wire.Options{WriteWithin: 3 * time.Second})
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /one?session=s1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	quick := &session{text: map[parley.CallID]string{}}
	var wg sync.WaitGroup
	wg.Go(func() { h.take("/one?session=s1", quick, 0) })
	big := strings.Repeat("x", 200<<10)
	for range 100 { // 20 MB: more than the sockets take
		h.append(steered(big))
	}
	h.append(steered("end"))
	wg.Wait()
	if len(quick.events) != 102 {
		t.Errorf("the quick client has %d events", len(quick.events))
	}
	// The slow client was cut: only the bytes in the sockets' buffers are left to read.
	for range 2 {
		<-h.ended
	}
	n, err := io.Copy(io.Discard, conn)
	if n > 19<<20 {
		t.Errorf("the slow client got all of its %d bytes, %v", n, err)
	}
}

// sink is a response whose content a synctest bubble can inspect.
type sink struct {
	mu   sync.Mutex
	got  strings.Builder
	head http.Header
}

func (s *sink) Header() http.Header { return s.head }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Flush()              {}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(b)
}

func TestHeartbeat_comes_after_silence_only(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		frames := make(chan eventlog.Frame)
		w := &sink{head: http.Header{}}
		var wg sync.WaitGroup
		wg.Go(func() {
			err := wire.ServeSSE(w, httptest.NewRequest("GET", "/", nil), func(yield func(eventlog.Frame, error) bool) {
				for f := range frames {
					yield(f, nil)
				}
			}, wire.Options{Retry: -1})
			if err != nil {
				t.Error(err)
			}
		})
		f := eventlog.Frame{Delta: &parley.Delta{Session: "s", Call: "c", N: 1, Text: "x"}}
		time.Sleep(10 * time.Second)
		frames <- f
		time.Sleep(14 * time.Second)
		frames <- f
		time.Sleep(31 * time.Second)
		frames <- f
		close(frames)
		wg.Wait()
		time.Sleep(time.Hour) // no more bytes may come
		const d = "event: model.delta\ndata: {\"session\":\"s\",\"call\":\"c\",\"n\":1,\"text\":\"x\"}\n\n"
		if diff := cmp.Diff(d+d+": ping\n\n: ping\n\n"+d, w.got.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestNo_heartbeat_where_none_is_asked_for(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		frames := make(chan eventlog.Frame)
		w := &sink{head: http.Header{}}
		var wg sync.WaitGroup
		wg.Go(func() {
			err := wire.Serve(w, httptest.NewRequest("GET", "/", nil), func(yield func(eventlog.Frame, error) bool) {
				for f := range frames {
					yield(f, nil)
				}
			}, wire.SSE, plain{}, &wire.Options{Heartbeat: -1, Retry: -1})
			if err != nil {
				t.Error(err)
			}
		})
		frames <- eventlog.Frame{Delta: &parley.Delta{Text: "x"}} // before the head is due
		time.Sleep(time.Minute)
		close(frames)
		wg.Wait()
		if got := w.got.String(); got != "data: x\n\n" {
			t.Errorf("got %q", got)
		}
	})
}

// plain is the wire of an app: its messages are the text in flight, and no failure is shown.
type plain struct{}

func (plain) Encode(f eventlog.Frame, send func(wire.Message)) {
	send(wire.Message{Data: []byte(f.Delta.Text)})
}

func (plain) Failed(error, func(wire.Message)) {}

// TestHead_goes_with_the_first_frames: a client gets both in one piece. If the first frame is an error, it gets that as a frame.
func TestHead_goes_with_the_first_frames(t *testing.T) {
	t.Parallel()
	steer := parley.Event{Seq: 1, Type: "turn.steered", Data: []byte(`{}`)}
	for name, test := range map[string]struct {
		frame eventlog.Frame
		err   error
		want  string
	}{
		"event": {frame: eventlog.Frame{Event: &steer}, want: "id: 1\nevent: turn.steered\n"},
		"error": {err: parley.Errorf(parley.CodeUnavailable, "away"), want: "event: error\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &flushes{ResponseRecorder: httptest.NewRecorder()}
			frames := func(yield func(eventlog.Frame, error) bool) { yield(test.frame, test.err) }
			if err := wire.ServeSSE(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), frames, wire.Options{Accepted: true}); err != nil {
				t.Fatal(err)
			}
			if w.n != 1 || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), test.want) {
				t.Errorf("got %d in %d pieces: %q", w.Code, w.n, w.Body)
			}
		})
	}
}

// flushes counts what is sent.
type flushes struct {
	*httptest.ResponseRecorder
	n int
}

func (f *flushes) FlushError() error {
	f.n++
	return nil
}
