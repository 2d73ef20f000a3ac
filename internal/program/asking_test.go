package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/tui"
)

// TestFollow_of_a_turn_that_waits_already: events before an open question are printed before the
// command asks it. A question that was answered meanwhile is not asked. A reader that is slower
// than the server sees a turn in this state.
func TestFollow_of_a_turn_that_waits_already(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	say := func(seq int64, p parley.Payload) {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		e := parley.Event{Session: "s", Turn: "t", Seq: seq, Type: p.EventType(), Data: data}
		fmt.Fprintf(&log, "id: %d\nevent: %s\ndata: %s\n\n", seq, e.Type, e.AppendJSON(nil))
	}
	opened := func(seq int64, id parley.InteractionID) {
		say(seq, parley.InteractionOpened{Interaction: parley.Interaction{ID: id, Kind: parley.KindPermission, Title: "May I, " + string(id) + "?"}})
	}
	say(1, parley.TurnStarted{})
	opened(2, "past")
	say(3, parley.InteractionAnswered{ID: "past"})
	opened(4, "one")
	opened(5, "two")

	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(log.Bytes())
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer web.Close()
	turn := parley.TurnInfo{ID: "t", SessionID: "s", FirstSeq: 1, LastSeq: 5, Interactions: []parley.InteractionID{"one", "two"}}
	for _, c := range []struct {
		first parley.InteractionID
		seen  int64
		lines int
		asks  parley.InteractionID
	}{{"", 0, 5, "one"}, {"two", 0, 5, "two"}, {"", 2, 3, "one"}, {"", 5, 0, "one"}} {
		var out bytes.Buffer
		r := &runner{
			l: &link{Client: client.New(client.Options{BaseURL: web.URL})}, t: tui.Open(strings.NewReader(""), &out, &out, os.Getenv),
			json: true, answerWith: "answer", first: c.first, seen: c.seen,
		}
		err := r.follow(t.Context(), turn)
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitWaits || !strings.Contains(err.Error(), "May I, "+string(c.asks)+"?") {
			t.Errorf("%+v: ended with %v", c, err)
		}
		if n := strings.Count(out.String(), "\n"); n != c.lines {
			t.Errorf("%+v: %d lines, want %d:\n%s", c, n, c.lines, &out)
		}
	}
}

// TestRun_while_the_server_stops: a server that is about to stop refuses the session, and then
// the turn. The command waits for the server that comes after it.
func TestRun_while_the_server_stops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	posts := 0
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts++
		}
		switch {
		case r.Method == http.MethodPost && posts%2 == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"code":"unavailable","message":"the server is shutting down"}}`)
		case r.URL.Path == "/v1/sessions":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"id":"s"}`)
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"id":"t","session_id":"s","first_seq":1,"last_seq":1,"status":"running"}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			e := parley.NewEvent("t", "", parley.TurnCompleted{Response: parley.Response{Message: "the answer"}})
			e.Session, e.Seq = "s", 1
			fmt.Fprintf(w, "id: 1\nevent: %s\ndata: %s\n\n", e.Type, e.AppendJSON(nil))
		}
	})}}
	web.Start()
	defer web.Close()
	own := dial(t.Context(), &taker{h: holder{Socket: socket}, waits: true}, config.Settings{})
	defer own.close()
	var out, errs bytes.Buffer
	r := newRunner(&cobra.Command{}, own, tui.Open(strings.NewReader(""), &out, &errs, func(string) string { return "" }), false)
	if err := r.run(t.Context(), "app", "", parley.Send{Message: "hello"}); err != nil || out.String() != "the answer\n" || posts != 4 {
		t.Errorf("%v, %q after %d requests\n%s", err, &out, posts, &errs)
	}
}

// TestRun_says_that_it_waits: the server dies before the session exists, and before the turn
// exists. The command waits both times, says so, and makes no promise about a turn.
func TestRun_says_that_it_waits(t *testing.T) {
	t.Parallel()
	var posts atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && posts.Add(1)%2 == 1:
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/v1/sessions":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"id":"s"}`)
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"id":"t","session_id":"s","first_seq":1,"last_seq":1,"status":"running"}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			e := parley.NewEvent("t", "", parley.TurnCompleted{Response: parley.Response{Message: "the answer"}})
			e.Session, e.Seq = "s", 1
			fmt.Fprintf(w, "id: 1\nevent: %s\ndata: %s\n\n", e.Type, e.AppendJSON(nil))
		}
	}))
	defer web.Close()
	l := &link{}
	l.Client = client.New(client.Options{BaseURL: web.URL, Retry: time.Millisecond, Away: l.tell})
	var out, errs bytes.Buffer
	r := newRunner(&cobra.Command{}, l, tui.Open(strings.NewReader(""), &out, &errs, func(string) string { return "" }), false)
	if err := r.run(t.Context(), "app", "", parley.Send{Message: "hello"}); err != nil || out.String() != "the answer\n" {
		t.Errorf("%v, %q", err, &out)
	}
	wait := noAnswer + ".\nThe server is back.\n"
	if want := wait + wait + "session s, turn t\n"; errs.String() != want {
		t.Errorf("got %q, want %q", &errs, want)
	}
}
