package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

type userKey struct{}

func newChat(t *testing.T, model enginetest.Model) (*enginetest.Rig, string) {
	t.Helper()
	rig := enginetest.New(t, model, enginetest.App())
	chat := chaos.Chat(chaos.Options{
		App: "test", Engine: rig.Engine, Follow: rig.Reader.Follow, Fail: api.WriteError, Ping: time.Millisecond,
		Principal: func(ctx context.Context) (parley.Principal, error) {
			return parley.Principal{User: ctx.Value(userKey{}).(string), Org: "acme"}, nil
		},
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("Test-User")
		if user == "" {
			user = "ana"
		}
		chat.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	}))
	t.Cleanup(func() { rig.Close(); srv.Close() })
	return rig, srv.URL + chaos.Path
}

func post(t *testing.T, url, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestChat_one_question(t *testing.T) {
	t.Parallel()
	rig, url := newChat(t, enginetest.Echo)
	resp := post(t, url, `{"session_id":"8d1c8a2e-any text","message":"hello"}`)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %q, %v", resp.StatusCode, resp.Header.Get("Content-Type"), err)
	}
	got := parse(t, string(body))
	if got[0] != (frame{event: "agent_start", data: `{"agent":"lead"}`}) || got[len(got)-1] != (frame{event: "done", data: "{}"}) {
		t.Errorf("frames: %v", got)
	}
	if text := tokens(t, got); text != "you said: hello" {
		t.Errorf("tokens joined: %q", text)
	}
	turn, err := rig.Engine.Turn(t.Context(), enginetest.User, parley.TurnID(resp.Header.Get("Parley-Turn")))
	if err != nil || turn.Status != parley.StatusCompleted || string(turn.SessionID) != resp.Header.Get("Parley-Session") || turn.Client != "chat" {
		t.Errorf("the turn of the headers: %+v, %v", turn, err)
	}
	again := post(t, url, `{"session_id":"8d1c8a2e-any text","message":"again"}`)
	if again.Header.Get("Parley-Session") != resp.Header.Get("Parley-Session") {
		t.Error("the same session_id led to another session")
	}
	other := post(t, url, `{"session_id":"8d1c8a2e-any text","message":"mine"}`, "Test-User", "bob")
	if other.StatusCode != 200 || other.Header.Get("Parley-Session") == resp.Header.Get("Parley-Session") {
		t.Error("another user's session_id led to this user's session")
	}
}

func TestChat_refuses_before_the_stream(t *testing.T) {
	t.Parallel()
	_, url := newChat(t, enginetest.Echo)
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		says       string
	}{
		{"no_json", "hello", nil, 400, "not valid JSON"},
		{"nothing", "", nil, 400, "not valid JSON"},
		{"two_objects", `{"session_id":"a","message":"b"}{}`, nil, 400, "not valid JSON"},
		{"no_session", `{"message":"b"}`, nil, 400, `\"session_id\" is missing`},
		{"empty_session", `{"session_id":"","message":"b"}`, nil, 400, `\"session_id\" is missing`},
		{"session_too_long", `{"session_id":"` + strings.Repeat("é", 129) + `","message":"b"}`, nil, 400, "128 characters"},
		{"no_message", `{"session_id":"a"}`, nil, 400, "message is empty"},
		{"blank_message", `{"session_id":"a","message":" "}`, nil, 400, "message is empty"},
		{"wrong_type", `{"session_id":"a","message":7}`, nil, 400, `\"message\" is a number`},
		{"unknown_field", `{"session_id":"a","message":"b","mood":"x"}`, nil, 400, `\"mood\" is not known`},
		{"mode", `{"session_id":"a","message":"b","mode":"bypassPermissions"}`, nil, 400, `"field":"mode"`},
		{"policy", `{"session_id":"a","message":"b","policy":{"modes":["bypassPermissions"]}}`, nil, 400, `"field":"policy"`},
		{"message_too_large", `{"session_id":"a","message":"` + strings.Repeat("x", 300<<10) + `"}`, nil, 413, "bytes"},
		{"body_too_large", `{"session_id":"a","message":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413, "bytes"},
		{"a_list", `[]`, nil, 400, "the body is a JSON array; it must be an object"},
		{"a_form", `session_id=a`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "application/json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			resp := post(t, url, c.body, c.header...)
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || !bytes.Contains(body, []byte(c.says)) || !bytes.HasPrefix(body, []byte(`{"error":{"code":`)) {
				t.Errorf("got %d %s, want %d saying %q", resp.StatusCode, body, c.status, c.says)
			}
		})
	}
}

func waiting(gate <-chan struct{}) enginetest.Model {
	return func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("one ")
		select {
		case <-gate:
		case <-ctx.Done():
			return seam.Reply{}, context.Cause(ctx)
		}
		say("two")
		return seam.Reply{}, nil
	}
}

func TestChat_busy_is_a_status_and_a_client_that_goes_away_ends_nothing(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	rig, url := newChat(t, waiting(gate))
	first := post(t, url, `{"session_id":"a","message":"go"}`)
	lines := bufio.NewScanner(first.Body)
	for lines.Scan() && lines.Text() != "event: token" {
	}
	second := post(t, url, `{"session_id":"a","message":"me too"}`)
	if body, _ := io.ReadAll(second.Body); second.StatusCode != 409 || !bytes.Contains(body, []byte(`"busy"`)) {
		t.Errorf("while a turn runs: got %d %s", second.StatusCode, body)
	}
	first.Body.Close() // the client disconnects
	close(gate)
	turn := rig.Await(parley.TurnID(first.Header.Get("Parley-Turn")))
	if turn.Status != parley.StatusCompleted || turn.Response.Message != "one two" {
		t.Errorf("its turn: got %s, %+v", turn.Status, turn.Response)
	}
}

func TestChat_cancel_is_an_error_on_the_wire(t *testing.T) {
	t.Parallel()
	rig, url := newChat(t, waiting(nil))
	resp := post(t, url+"?ping=1&cursor=1", `{"session_id":"a","message":"go"}`)
	lines := bufio.NewScanner(resp.Body)
	pinged := false
	for !pinged && lines.Scan() {
		pinged = lines.Text() == ": ping"
	}
	if !pinged {
		t.Fatal("no ping, though it was asked for")
	}
	if _, err := rig.Engine.Cancel(t.Context(), enginetest.User, parley.TurnID(resp.Header.Get("Parley-Turn")), "enough"); err != nil {
		t.Fatal(err)
	}
	var rest []string
	for lines.Scan() {
		if line := lines.Text(); line != "" && line != ": ping" {
			rest = append(rest, line)
		}
	}
	if n := len(rest); n < 3 || !strings.HasPrefix(rest[n-3], "id: ") {
		t.Fatalf("the end of the stream: %q", rest)
	}
	want := []string{"event: error", `data: {"message":"the turn was cancelled: enough"}`}
	if diff := cmp.Diff(want, rest[len(rest)-2:]); diff != "" {
		t.Errorf("the end of the stream (-want +got):\n%s", diff)
	}
}

// FuzzChat: whatever the request is, the answer is one error of the one shape, or a stream.
func FuzzChat(f *testing.F) {
	f.Add([]byte(`{"session_id":"a","message":"b"}`))
	f.Add([]byte(`{"session_id":1,"message":null}`))
	f.Add([]byte(`{"session_id":"\ud800","message":"\u0000"}`))
	f.Add([]byte(`[[[[`))
	h := chaos.Chat(chaos.Options{
		App: "test", Engine: none{}, Fail: api.WriteError,
		Principal: func(context.Context) (parley.Principal, error) { return parley.Local, nil },
	})
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, chaos.Path, bytes.NewReader(body)))
		if w.Code != 400 && w.Code != 413 && w.Code != 404 || !bytes.HasPrefix(w.Body.Bytes(), []byte(`{"error":{"code":"`)) {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	})
}

// TestChat_length_that_is_too_large: a body whose declared length is too large is refused before
// its bytes arrive.
func TestChat_length_that_is_too_large(t *testing.T) {
	t.Parallel()
	h := chaos.Chat(chaos.Options{
		App: "test", Engine: none{}, Fail: api.WriteError,
		Principal: func(context.Context) (parley.Principal, error) { return parley.Local, nil },
	})
	r := httptest.NewRequest(http.MethodPost, chaos.Path, iotest.ErrReader(errors.New("its bytes were waited for")))
	r.ContentLength = 99_999_999_999_999
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s, want 413", w.Code, w.Body)
	}
}

// none is an engine without sessions.
type none struct{ chaos.Engine }

func (none) Create(context.Context, parley.Principal, parley.CreateSession) (parley.SessionInfo, bool, error) {
	return parley.SessionInfo{}, false, parley.Errorf(parley.CodeNotFound, "there is no app")
}

func (none) Send(context.Context, parley.Principal, parley.SessionID, parley.Send) (parley.TurnInfo, error) {
	return parley.TurnInfo{}, parley.Errorf(parley.CodeNotFound, "there is no session")
}
