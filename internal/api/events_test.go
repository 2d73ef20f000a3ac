package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

type page struct {
	Events []parley.Event `json:"events"`
	Next   int64          `json:"next"`
	More   bool           `json:"more"`
}

func TestEvents_pages_put_together_are_the_log(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "one")
	w.turn(s.ID, "two")
	all := w.rig.Log(s.ID)
	path := "/v1/sessions/" + string(s.ID) + "/events"
	for limit := 1; limit <= len(all)+1; limit++ {
		var got []parley.Event
		for after, more := int64(0), true; more; {
			var p page
			w.call(200, &p, "GET", fmt.Sprintf("%s?after=%d&limit=%d", path, after, limit), "")
			if len(p.Events) > limit {
				t.Fatalf("limit %d: got %d events", limit, len(p.Events))
			}
			got = append(got, p.Events...)
			after, more = p.Next, p.More
		}
		if diff := cmp.Diff(jsonOf(all), jsonOf(got)); diff != "" {
			t.Fatalf("limit %d (-log +pages):\n%s", limit, diff)
		}
	}
	var ends, none page
	w.call(200, &ends, "GET", path+"?types=turn.completed,session.*", "")
	var types []string
	for _, e := range ends.Events {
		types = append(types, string(e.Type))
	}
	if diff := cmp.Diff([]string{"session.created", "turn.completed", "turn.completed"}, types); diff != "" {
		t.Errorf("chosen types (-want +got):\n%s", diff)
	}
	if ends.More || ends.Next != int64(len(all)) {
		t.Errorf("chosen types: next %d, more %v; want %d and no more", ends.Next, ends.More, len(all))
	}
	w.call(200, &none, "GET", fmt.Sprintf("%s?after=%d", path, len(all)), "")
	if len(none.Events) != 0 || none.More || none.Next != int64(len(all)) {
		t.Errorf("at the end: got %+v", none)
	}
}

// TestEvents_streams_resume_behind_every_event cuts a stream after each event and resumes it from
// that event's id. Together the two parts are the log, in every form of stream.
func TestEvents_streams_resume_behind_every_event(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "one two three")
	all := jsonOf(w.rig.Log(s.ID))
	path := "/v1/sessions/" + string(s.ID) + "/events"
	for cut := range len(all) {
		for _, form := range []struct {
			name   string
			path   string
			header []string
			read   func(r io.Reader, n int) []string
		}{
			{"sse_header", path, []string{"Accept", "text/event-stream", "Last-Event-ID", fmt.Sprint(cut)}, readSSE},
			{"sse_query", fmt.Sprintf("%s?format=sse&after=%d", path, cut), nil, readSSE},
			{"sse_header_wins", path + "?after=0", []string{"Accept", "text/event-stream", "Last-Event-ID", fmt.Sprint(cut)}, readSSE},
			{"sse_without_deltas", fmt.Sprintf("%s?format=sse&deltas=false&after=%d", path, cut), nil, readSSE},
			{"stream", fmt.Sprintf("%s/stream?after=%d", path, cut), nil, readSSE},
			{"stream_whatever_is_accepted", fmt.Sprintf("%s/stream?after=%d", path, cut), []string{"Accept", "application/json"}, readSSE},
			{"lines", fmt.Sprintf("%s/lines?after=%d", path, cut), nil, readLines},
			{"ndjson", fmt.Sprintf("%s?after=%d", path, cut), []string{"Accept", "application/x-ndjson"}, readLines},
		} {
			resp := w.ask("GET", form.path, "", form.header...)
			if resp.StatusCode != 200 {
				t.Fatalf("%s after %d: status %d", form.name, cut, resp.StatusCode)
			}
			if diff := cmp.Diff(all[cut:], form.read(resp.Body, len(all)-cut)); diff != "" {
				t.Errorf("%s after %d (-log +stream):\n%s", form.name, cut, diff)
			}
			resp.Body.Close()
		}
	}
}

func readSSE(r io.Reader, n int) []string {
	var out []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	event := false
	for len(out) < n && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "id: ") {
			event = true
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event {
			out = append(out, data)
			event = false
		}
	}
	return out
}

func readLines(r io.Reader, n int) []string {
	var out []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for len(out) < n && lines.Scan() {
		var e parley.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Seq > 0 {
			out = append(out, lines.Text())
		}
	}
	return out
}

func TestEvents_whoever_joins_in_the_middle_gets_the_text_so_far(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, gated(gate), enginetest.App())
	s := w.session(`{"app":"test"}`)
	first := w.ask("POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"go"}`, "Accept", "text/event-stream", "Content-Type", "application/json")
	lines := bufio.NewScanner(first.Body)
	for lines.Scan() && lines.Text() != "event: model.delta" && lines.Text() != "event: model.partial" { // "one " was published
	}
	late := w.ask("GET", "/v1/sessions/"+string(s.ID)+"/events?format=sse", "")
	in := bufio.NewScanner(late.Body)
	for in.Scan() && in.Text() != "event: model.partial" {
	}
	in.Scan()
	var d parley.Delta
	if err := json.Unmarshal([]byte(strings.TrimPrefix(in.Text(), "data: ")), &d); err != nil || d.Text != "one " {
		t.Errorf("partial: got %q (%v), want the text so far", in.Text(), err)
	}
	close(gate)
	for in.Scan() && in.Text() != "event: turn.completed" {
	}
	if in.Err() != nil {
		t.Error(in.Err())
	}
}

func TestStream_carries_several_sessions_and_resumes_each(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	a, b := w.session(`{"app":"test"}`), w.session(`{"app":"test"}`)
	w.turn(a.ID, "one")
	w.turn(b.ID, "two")
	all := append(jsonOf(w.rig.Log(a.ID)), jsonOf(w.rig.Log(b.ID))...)
	resp := w.ask("GET", "/v1/stream?sessions="+string(a.ID)+","+string(b.ID)+":0", "")
	if resp.StatusCode != 200 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	// The stream is cut in the middle and resumed from the last frame's id.
	half := len(all) / 2
	var got []string
	var id string
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	for seen := false; len(got) < half && in.Scan(); {
		if v, ok := strings.CutPrefix(in.Text(), "id: "); ok {
			id, seen = v, true
		}
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && seen {
			got = append(got, data)
			seen = false
		}
	}
	resp.Body.Close()
	rest := w.ask("GET", "/v1/stream?sessions="+string(a.ID)+","+string(b.ID), "", "Last-Event-ID", id)
	got = append(got, readSSE(rest.Body, len(all)-half)...)
	slices.Sort(all) // events of different sessions have no order
	slices.Sort(got)
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("events (-logs +streams):\n%s", diff)
	}
	w.call(404, nil, "GET", "/v1/stream?sessions="+string(a.ID)+",nothing", "")
	w.call(400, nil, "GET", "/v1/stream", "")
	w.call(400, nil, "GET", "/v1/stream?sessions="+string(a.ID)+":x", "")
}

func TestStreams_are_limited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) { o.MaxStreams = 1 })
	s := w.session(`{"app":"test"}`)
	path := "/v1/sessions/" + string(s.ID)
	open := w.ask("GET", path+"/events?format=sse", "")
	readSSE(open.Body, 1)
	h := w.call(429, nil, "GET", path+"/events?format=ndjson", "")
	if h.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.call(429, nil, "POST", path+"/turns", `{"message":"x"}`, "Accept", "text/event-stream", "Content-Type", "application/json")
	if n := len(w.rig.Log(s.ID)); n != 1 {
		t.Errorf("a refused stream left %d events, want the session's first alone", n)
	}
	w.call(200, nil, "GET", path+"/events", "")
	open.Body.Close()
}

// TestStreams_of_one_user: the streams of one user leave room for other users.
func TestStreams_of_one_user(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) { o.MaxStreams = 8 })
	paths := map[string]string{}
	for _, user := range []string{"ana", "ben"} {
		s, _, err := w.rig.Engine.Create(t.Context(), parley.Principal{User: user, Org: "acme"}, parley.CreateSession{App: "test"})
		if err != nil {
			t.Fatal(err)
		}
		paths[user] = "/v1/sessions/" + string(s.ID) + "/events?format=sse"
	}
	open := func(user string) *http.Response {
		resp := w.ask("GET", paths[user], "", "Test-User", user)
		if resp.StatusCode == 200 {
			readSSE(resp.Body, 1)
		}
		return resp
	}
	var first *http.Response
	for range 2 {
		first = open("ana")
	}
	if resp := open("ana"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %d, want 429 with Retry-After", resp.StatusCode)
	}
	if resp := open("ben"); resp.StatusCode != 200 {
		t.Errorf("got %d for another user", resp.StatusCode)
	}
	first.Body.Close() // this releases its stream
	for resp := open("ana"); resp.StatusCode != 200; resp = open("ana") {
		resp.Body.Close()
	}
}

func TestStream_asked_for_by_head_ends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	for path, want := range map[string]int{
		string(s.ID) + "/events?format=sse": 200, string(s.ID) + "/events/stream": 200, "nothing/events/stream": 404, string(s.ID) + "/events/stream?format=sse": 400,
		string(s.ID) + "/events/lines": 200,
	} {
		if resp := w.ask("HEAD", "/v1/sessions/"+path, ""); resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// slowStore answers after a second.
type slowStore struct{ seam.Store }

func (s slowStore) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error) {
	time.Sleep(time.Second)
	return s.Store.Session(ctx, p, id)
}

func (s slowStore) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	time.Sleep(time.Second)
	return s.Store.Read(ctx, p, id, after, limit)
}

// TestStream_of_a_session_that_is_not_there: also where the store is slow, the answer is a refusal,
// and no stream that fails.
func TestStream_of_a_session_that_is_not_there(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig := enginetest.New(t, enginetest.Echo, enginetest.App())
		defer rig.Close()
		_, reader := eventlog.New(slowStore{rig.Store}, nil, eventlog.Options{})
		s := api.New(api.Options{Engine: rig.Engine, Reader: reader, Principal: func(context.Context) (parley.Principal, error) { return parley.Local, nil }})
		for _, path := range []string{"/v1/sessions/nope/events/stream", "/v1/sessions/nope/events/lines", "/v1/sessions/nope/events?format=sse", "/v1/stream?sessions=nope", "/v1/sessions/nope/events/stream?view=sdk"} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, http.NoBody))
			if w.Code != http.StatusNotFound {
				t.Errorf("%s: got %d %s", path, w.Code, w.Body)
			}
		}
	})
}
