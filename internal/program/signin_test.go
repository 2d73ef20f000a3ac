package program

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/config"
)

// read decodes the body of a response.
func read[T any](t *testing.T, resp *http.Response) (v T) {
	t.Helper()
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s %s %v", resp.Request.Method, resp.Request.URL, resp.Status, raw, err)
	}
	return v
}

// TestSignIn_is_a_user: a browser signs in, is the user, sees its sign-in, and signs out.
func TestSignIn_is_a_user(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	b := s.browser()
	if ways := read[struct{ Ways []auth.Way }](t, b.own("GET", "/v1/signin", "")); len(ways.Ways) != 1 || ways.Ways[0] != (auth.Way{Name: "acme", Title: "Acme", Path: "v1/signin/acme"}) {
		t.Errorf("the ways are %+v", ways)
	}
	if resp := b.own("GET", "/v1/me", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("before: %s", resp.Status)
	}
	b = s.signIn("ana")
	c := b.cookie()
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != int((30*24*time.Hour).Seconds()) || len(c.Value) < 40 {
		t.Errorf("the cookie is %+v", c)
	}
	if len(b.cookies) != 1 {
		t.Errorf("the cookie of the login is still there: %v", b.cookies)
	}
	me := read[auth.Me](t, b.own("GET", "/v1/me", ""))
	if me.User != "acme:ana" || me.Org != "acme:north" || me.Name != "Ana" || me.How != "signin" || me.Expires == nil || len(me.Orgs) != 2 {
		t.Errorf("she is %+v", me)
	}
	var made parley.SessionInfo = read[parley.SessionInfo](t, b.own("POST", "/v1/sessions", `{"app":"home"}`))
	// A token for the same organisation is the same user.
	claims := s.as.Claims("ana", audience)
	claims["org_id"] = "north"
	s.keys["token"] = s.as.Mint(claims)
	if status, text, _ := s.ask("token", "GET", "/v1/sessions/"+string(made.ID), ""); status != 200 {
		t.Errorf("with a token: %d %s", status, text)
	}
	other := s.signIn("bea")
	if resp := other.own("GET", "/v1/sessions/"+string(made.ID), ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("as Bea: %s", resp.Status)
	}
	phone := s.signIn("ana")
	list := read[struct {
		SignIns []auth.OwnSignIn `json:"sign_ins"`
	}](t, phone.own("GET", "/v1/me/signins", ""))
	if len(list.SignIns) != 2 || list.SignIns[0].Current == list.SignIns[1].Current {
		t.Fatalf("her sign-ins are %+v", list)
	}
	for _, one := range list.SignIns {
		if one.Current {
			continue
		}
		if resp := other.own("DELETE", "/v1/me/signins/"+one.ID, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("Bea ends Ana's sign-in: %s", resp.Status)
		}
		if resp := phone.own("DELETE", "/v1/me/signins/"+one.ID, ""); resp.StatusCode != http.StatusNoContent {
			t.Errorf("ending her other sign-in: %s", resp.Status)
		}
	}
	if resp := b.own("GET", "/v1/me", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the browser that was signed out: %s", resp.Status)
	}
	out := read[struct{ URL string }](t, phone.own("POST", "/v1/signout", ""))
	if !strings.HasPrefix(out.URL, s.as.URL+"/logout?") || len(phone.cookies) != 0 {
		t.Errorf("after signing out: %q, cookies %v", out.URL, phone.cookies)
	}
	if at := phone.next(phone.do("GET", out.URL, "")); at != s.url+"/" {
		t.Errorf("the provider sends the browser to %s", at)
	}
	if resp := phone.own("POST", "/v1/signout", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("signing out twice: %s", resp.Status)
	}
}

// TestSignIn_ends_what_is_open: a stream and a WebSocket of a sign-in end when it is revoked, and say
// why.
func TestSignIn_ends_what_is_open(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	b := s.signIn("ana")
	made := read[parley.SessionInfo](t, b.own("POST", "/v1/sessions", `{"app":"home"}`))
	path := "/v1/sessions/" + string(made.ID)
	stream := b.own("GET", path+"/events?format=sse", "")
	lines := b.own("GET", path+"/events?format=ndjson", "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, s.url+path+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{
		"Cookie": {b.cookie().Name + "=" + b.cookie().Value}, "Origin": {s.url},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	if _, raw, err := socket.Read(ctx); err != nil || !strings.Contains(string(raw), "session.created") {
		t.Fatalf("%s, %v", raw, err)
	}
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	phone := s.signIn("ana")
	if resp := phone.own("DELETE", "/v1/me/signins/"+read[auth.Me](t, b.own("GET", "/v1/me", "")).SignIn, ""); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("ending it: %s", resp.Status)
	}
	for name, body := range map[string]io.Reader{"SSE": stream.Body, "NDJSON": lines.Body} {
		raw, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(raw), "you were signed out") || !strings.Contains(string(raw), "unauthenticated") {
			t.Errorf("the end of the %s stream is %q, %v", name, raw, err)
		}
	}
	said := ""
	for {
		_, raw, err := socket.Read(ctx)
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("the WebSocket ends with %v", err)
			}
			break
		}
		said += string(raw)
	}
	if !strings.Contains(said, "you were signed out") {
		t.Errorf("the WebSocket says %q", said)
	}
}

// TestSignIn_ended_while_a_turn_streams: when a sign-in is ended on the page of the account, the answers that it has under
// way come no further, on the native wire and on an app's own. Their turns go on.
func TestSignIn_ended_while_a_turn_streams(t *testing.T) {
	t.Parallel()
	s := newSigned(t, func(s *config.Settings) { s.Scripted.Pace = parley.Duration(200 * time.Millisecond) })
	b, phone := s.signIn("ana"), s.signIn("ana")
	made := read[parley.SessionInfo](t, b.own("POST", "/v1/sessions", `{"app":"chaos"}`))
	streams := map[string]*http.Response{
		"the session's stream":   b.own("GET", "/v1/sessions/"+string(made.ID)+"/events?format=sse", ""),
		"the stream of all":      b.own("GET", "/v1/stream?sessions="+string(made.ID), ""),
		"the seed's wire":        b.own("POST", "/chat", `{"session_id":"mine","message":"What was decided last?"}`),
		"the stream of one turn": b.own("POST", "/v1/sessions/"+string(made.ID)+"/turns/stream", `{"message":"What was decided last?"}`),
	}
	rest := map[string]*bufio.Reader{}
	for name, resp := range streams {
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", name, resp.Status)
		}
		rest[name] = bufio.NewReader(resp.Body)
		if line, err := rest[name].ReadString('\n'); err != nil {
			t.Fatalf("%s: %q, %v", name, line, err)
		}
	}
	me := read[auth.Me](t, b.own("GET", "/v1/me", "")).SignIn
	if resp := phone.own("DELETE", "/v1/me/signins/"+me, ""); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("ending it: %s", resp.Status)
	}
	for name, r := range rest {
		raw, err := io.ReadAll(r)
		if err != nil || !strings.Contains(string(raw), "signed out") {
			t.Errorf("%s ends with %.300q, %v", name, raw, err)
		}
	}
	turns := read[struct{ Turns []parley.TurnInfo }](t, phone.own("GET", "/v1/sessions/"+string(made.ID)+"/turns", ""))
	if len(turns.Turns) != 1 || turns.Turns[0].Status.Ended() {
		t.Fatalf("the turn is %+v", turns)
	}
	if resp := phone.own("POST", "/v1/turns/"+string(turns.Turns[0].ID)+"/cancel", "{}"); resp.StatusCode != http.StatusOK {
		t.Errorf("her other browser: %s", resp.Status)
	}
}
