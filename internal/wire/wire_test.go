package wire_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

func TestServeSSE_to_the_letter(t *testing.T) {
	t.Parallel()
	h := newHouse(t, wire.Options{Until: wire.EndOf(turn, 0)})
	h.append(started("c1"))
	h.say("c1", "so\nfar")
	h.w.Publish(parley.Delta{Session: "s1", Call: "c1", Kind: parley.DeltaThinking, Text: "hm"})
	resp := h.get(t.Context(), "/one?session=s1", "1")
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	got := ""
	until := func(s string) {
		for !strings.HasSuffix(got, s) {
			line, err := in.ReadString('\n')
			if got += line; err != nil {
				t.Fatalf("%v after %q", err, got)
			}
		}
	}
	until("\"hm\"}\n\n")
	h.say("c1", "!")
	until("\"!\"}\n\n")
	h.w.Publish(parley.Delta{Session: "s1", Call: "c1", Kind: parley.DeltaThinking, Text: "ok"})
	until("\"ok\"}\n\n")
	h.append(replied("c1", "so\nfar!"), completed())
	rest, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	want := `retry: 1000

id: 2
event: model.started
data: {"session":"s1","seq":2,"turn":"t1","agent":"lead","time":"2026-01-02T03:04:05Z","type":"model.started","data":{"call":"c1","model":"m","context":"","reserved":{"input_tokens":0,"output_tokens":0}}}

event: model.partial
data: {"session":"s1","turn":"t1","agent":"lead","call":"c1","n":2,"text":"so\nfar"}

event: model.partial
data: {"session":"s1","turn":"t1","agent":"lead","call":"c1","kind":"thinking","n":2,"text":"hm"}

event: model.delta
data: {"session":"s1","turn":"t1","agent":"lead","call":"c1","n":3,"text":"!"}

event: model.thinking
data: {"session":"s1","turn":"t1","agent":"lead","call":"c1","kind":"thinking","n":4,"text":"ok"}

id: 3
event: model.replied
data: {"session":"s1","seq":3,"turn":"t1","agent":"lead","time":"2026-01-02T03:04:05Z","type":"model.replied","data":{"call":"c1","model":"m","parts":[{"type":"text","text":"so\nfar!"}],"usage":{"input_tokens":0,"output_tokens":0}}}

id: 4
event: turn.completed
data: {"session":"s1","seq":4,"turn":"t1","time":"2026-01-02T03:04:05Z","type":"turn.completed","data":{"response":{"message":""},"usage":{"input_tokens":0,"output_tokens":0}}}

`
	if diff := cmp.Diff(want, got+string(rest)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	head := map[string]string{}
	for _, k := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering"} {
		head[k] = resp.Header.Get(k)
	}
	wantHead := map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
	if diff := cmp.Diff(wantHead, head); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
}

func TestServeNDJSON_is_one_object_a_line(t *testing.T) {
	t.Parallel()
	h := newHouse(t, wire.Options{Until: wire.EndOf(turn, 0)})
	h.append(started("c1"))
	h.say("c1", "hi")
	h.append(started("c2"), replied("c1", "hi"))
	h.say("c2", "a\nb")
	h.append(completed())
	var types []string
	for line := range strings.Lines(h.body("/lines?session=s1")) {
		var v struct{ Type string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		types = append(types, v.Type)
	}
	want := []string{"session.created", "model.started", "model.started", "model.replied", "turn.completed"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
}

func TestServe_forms_of_frames_that_are_no_events(t *testing.T) {
	t.Parallel()
	frames := func(yield func(eventlog.Frame, error) bool) {
		d := &parley.Delta{Session: "s", Call: "c", Kind: parley.DeltaProgress, N: 7, Text: "half"}
		_ = yield(eventlog.Frame{Delta: d, More: true}, nil) &&
			yield(eventlog.Frame{Delta: d, Partial: true, More: true}, nil) &&
			yield(eventlog.Frame{Reset: &eventlog.ResetInfo{Session: "s", After: 3, Reason: "slow reader"}}, nil) &&
			yield(eventlog.Frame{}, parley.Errorf(parley.CodeUnavailable, "stopping").WithHint("wait"))
	}
	got := map[string]string{}
	for name, serve := range map[string]func(http.ResponseWriter, *http.Request, wire.Frames, wire.Options) error{
		"sse": wire.ServeSSE, "ndjson": wire.ServeNDJSON,
	} {
		rec := httptest.NewRecorder()
		if err := serve(rec, httptest.NewRequest("GET", "/", nil), frames, wire.Options{Retry: -1}); err != nil {
			t.Error(err)
		}
		got[name] = rec.Body.String()
	}
	const delta = `"session":"s","call":"c","kind":"progress","n":7,"text":"half"}`
	want := map[string]string{
		"sse": "event: tool.progress\ndata: {" + delta + "\n\nevent: model.partial\ndata: {" + delta + "\n\n" +
			`event: reset` + "\n" + `data: {"session":"s","after":3,"reason":"slow reader"}` + "\n\n" +
			"event: error\n" + `data: {"error":{"code":"unavailable","message":"stopping","hint":"wait"}}` + "\n\n",
		"ndjson": `{"type":"tool.progress",` + delta + "\n" + `{"type":"model.partial",` + delta + "\n" +
			`{"type":"reset","session":"s","after":3,"reason":"slow reader"}` + "\n" +
			`{"type":"error","error":{"code":"unavailable","message":"stopping","hint":"wait"}}` + "\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServe_returns_an_error_that_comes_first(t *testing.T) {
	t.Parallel()
	h := newHouse(t, wire.Options{})
	for path, want := range map[string]string{
		"/one?session=nope":           "not_found",
		"/one?session=s1&after=9":     "stale or foreign cursor",
		"/one?session=s1&after=01":    `"01" is not a cursor`,
		"/one?session=s1&after=-1":    "is not a cursor",
		"/one?session=s1&types=x":     "no event type",
		"/lines?session=nope":         "not_found",
		"/many?sessions=s1:1,nope:0":  "not_found",
		"/many?sessions=s1:x":         "is not a cursor",
		"/many?sessions=s1,s1":        "named twice",
		"/many?sessions=s1,":          "names no session",
		"/many":                       "no session is named",
		"/many?sessions=" + list(51):  "51 sessions exceed the limit of 50",
		"/many?sessions=s1:1&x=s1:99": "",
	} {
		ctx, stop := context.WithCancel(t.Context())
		resp := h.get(ctx, path, "")
		got := ""
		if resp.StatusCode == http.StatusTeapot {
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			got = string(b)
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %d %q, want %q", path, resp.StatusCode, got, want)
		}
		stop()
		resp.Body.Close()
	}
}

func list(n int) string {
	var ids []string
	for i := range n {
		ids = append(ids, "x"+strconv.Itoa(i))
	}
	return strings.Join(ids, ",")
}

func TestCursor_header_wins_over_query(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/?after=3", nil)
	r.Header.Set("Last-Event-ID", "5")
	if n, err := wire.Cursor(r); n != 5 || err != nil {
		t.Errorf("got %d, %v, want 5", n, err)
	}
}

func TestTypes_leaves_out_the_others_and_delays_nothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, wire.Options{Until: wire.EndOf("t2", 0)})
	h.append(started("c1"), replied("c1", "x"), completed(), steered("y"), parley.NewEvent("t2", "", parley.TurnCompleted{}))
	var ids []string
	for line := range strings.Lines(h.body("/one?session=s1&types=session.*,turn.completed")) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	if diff := cmp.Diff([]string{"1", "4", "6"}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

// TestEndOf_an_interruption: a turn.interrupted event ends the stream if the turn will not be resumed
// automatically. Older logs do not say so; there it is the end too.
func TestEndOf_an_interruption(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bool{`{"reason":"the server stopped"}`: true, `{"resumes":true}`: false} {
		for seq, newer := range map[int64]bool{6: false, 7: true, 8: true} {
			e := parley.Event{Turn: "t", Seq: seq, Type: "turn.interrupted", Data: []byte(data)}
			if got := wire.EndOf("t", 7)(eventlog.Frame{Event: &e}); got != (want && newer) {
				t.Errorf("%s as event %d: got %v", data, seq, got)
			}
		}
	}
}

// TestServeMessages: messages that are not from a log take any carrier's form, too. Messages that
// come together are written together, at once. No more are asked for when the client is gone.
func TestServeMessages(t *testing.T) {
	t.Parallel()
	lists := [][]wire.Message{{{Data: []byte(`{"a":1}`)}, {Event: "b", Data: []byte(`{"c":2}`)}}, {{Data: []byte(`{"d":3}`)}}}
	for want, c := range map[string]*wire.Carrier{
		"data: {\"a\":1}\n\nevent: b\ndata: {\"c\":2}\n\n|data: {\"d\":3}\n\n|": wire.SSE,
		"{\"a\":1}\n{\"type\":\"b\",\"c\":2}\n|{\"d\":3}\n|":                    wire.NDJSON,
	} {
		w := &writes{ResponseRecorder: httptest.NewRecorder()}
		wire.ServeMessages(w, httptest.NewRequest(http.MethodGet, "/", nil), slices.Values(lists), c, wire.Options{Retry: -1})
		if w.all != want {
			t.Errorf("it wrote %q, want %q", w.all, want)
		}
	}
	asked := 0
	wire.ServeMessages(&writes{ResponseRecorder: httptest.NewRecorder(), err: errors.New("gone")}, httptest.NewRequest(http.MethodGet, "/", nil), func(yield func([]wire.Message) bool) {
		for asked++; yield(lists[0]); asked++ {
		}
	}, wire.SSE, wire.Options{})
	if asked != 1 {
		t.Errorf("%d lists were asked for", asked)
	}
}

// writes marks where each write ends.
type writes struct {
	*httptest.ResponseRecorder
	all string
	err error
}

func (w *writes) Write(p []byte) (int, error) {
	w.all += string(p) + "|"
	return len(p), w.err
}
