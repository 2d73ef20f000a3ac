package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/api/apitest"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// world is the API over a whole engine in memory, behind a real listener.
type world struct {
	t   *testing.T
	rig *enginetest.Rig
	api *api.Server
	url string
}

type userKey struct{}

// asUser stands for a login: the Test-User header names the user.
func asUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("Test-User")
		if user == "" {
			user = "ana"
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

func newWorld(t *testing.T, model enginetest.Model, app parley.App, change ...func(*api.Options)) *world {
	t.Helper()
	w := &world{t: t, rig: enginetest.New(t, model, app)}
	o := api.Options{
		Engine: w.rig.Engine, Reader: w.rig.Reader, Blobs: w.rig.Store, Version: "test",
		Principal: func(ctx context.Context) (parley.Principal, error) {
			user, _ := ctx.Value(userKey{}).(string)
			if user == "nobody" {
				return parley.Principal{}, parley.Errorf(parley.CodeUnauthenticated, "no key was sent")
			}
			return parley.Principal{User: user, Org: "acme"}, nil
		},
		Import: func(ctx context.Context, p parley.Principal, s archive.Session) (parley.SessionInfo, error) {
			return w.rig.Engine.Import(ctx, p, engine.Imported(s))
		},
	}
	for _, f := range change {
		f(&o)
	}
	w.api = api.New(o)
	srv := httptest.NewServer(apitest.Of(t, w.api).Handler(t, api.Guard(asUser(w.api), api.GuardOptions{Hosts: []string{}, Origins: []string{"http://localhost:5173"}})))
	w.url = srv.URL
	t.Cleanup(func() {
		w.rig.Close() // ends the streams
		srv.Close()
	})
	return w
}

// ask makes a request. header lists names and values in turn.
func (w *world) ask(method, path, body string, header ...string) *http.Response {
	w.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, in)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// call makes a request, checks its status and decodes its JSON answer into v.
func (w *world) call(want int, v any, method, path, body string, header ...string) http.Header {
	w.t.Helper()
	resp := w.ask(method, path, body, header...)
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != want {
		w.t.Fatalf("%s %s: got %d, want %d: %s", method, path, resp.StatusCode, want, raw)
	}
	if v != nil {
		if err := json.Unmarshal(raw, v); err != nil {
			w.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return resp.Header
}

func (w *world) session(body string) parley.SessionInfo {
	w.t.Helper()
	var s parley.SessionInfo
	w.call(201, &s, "POST", "/v1/sessions", body)
	return s
}

// turn sends a message and waits for the end of its turn.
func (w *world) turn(id parley.SessionID, message string) parley.TurnInfo {
	w.t.Helper()
	body, _ := json.Marshal(parley.Send{Message: message})
	var t parley.TurnInfo
	w.call(202, &t, "POST", "/v1/sessions/"+string(id)+"/turns", string(body))
	w.call(200, &t, "POST", "/v1/turns/"+string(t.ID)+"/await", `{"timeout_ms":60000}`)
	return t
}

func TestSession_life(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	var made, again, got parley.SessionInfo
	w.call(201, &made, "POST", "/v1/sessions", `{"app":"test","outside_id":"browser-1","title":"First"}`)
	w.call(200, &again, "POST", "/v1/sessions", `{"app":"test","outside_id":"browser-1"}`)
	if made.ID == "" || again.ID != made.ID || made.Title != "First" {
		t.Errorf("an outside id that is known: got %+v after %+v", again, made)
	}
	path := "/v1/sessions/" + string(made.ID)
	w.call(200, &got, "PATCH", path, `{"title":"Second","preferences":{"tone":"dry"}}`)
	if got.Title != "Second" {
		t.Errorf("title: got %q", got.Title)
	}
	w.call(200, &got, "GET", path, "")
	if got.Title != "Second" || got.Status != parley.Active {
		t.Errorf("read: got %+v", got)
	}
	other := w.session(`{"app":"test"}`)
	var list struct{ Sessions []parley.SessionInfo }
	w.call(200, &list, "GET", "/v1/sessions?app=test&status=active&limit=10", "")
	if len(list.Sessions) != 2 || list.Sessions[0].ID != other.ID {
		t.Errorf("list: got %d sessions, the newest %s", len(list.Sessions), list.Sessions[0].ID)
	}
	w.call(200, &list, "GET", "/v1/sessions?limit=10&before="+url.QueryEscape(list.Sessions[1].UpdatedAt.Format(time.RFC3339Nano)), "")
	if len(list.Sessions) != 0 {
		t.Errorf("before the oldest: got %d sessions", len(list.Sessions))
	}
	w.call(200, &got, "POST", path+"/end", `{"reason":"done"}`)
	if got.Status != parley.Ended {
		t.Errorf("end: got %s", got.Status)
	}
	w.call(409, nil, "POST", path+"/turns", `{"message":"hello"}`)
	w.call(204, nil, "DELETE", path, "")
	w.call(404, nil, "GET", path, "")
	w.call(404, nil, "DELETE", path, "")
}

func TestTurn_send_await_and_list(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	var turn parley.TurnInfo
	h := w.call(202, &turn, "POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"hello"}`)
	if turn.SessionID != s.ID || h.Get("Parley-Turn") != string(turn.ID) || h.Get("Parley-Session") != string(s.ID) {
		t.Errorf("got turn %+v, headers %v", turn, h)
	}
	w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	if turn.Status != parley.StatusCompleted || turn.Response == nil || turn.Response.Message != "you said: hello" {
		t.Errorf("after await: got %s, %+v", turn.Status, turn.Response)
	}
	var list struct{ Turns []parley.TurnInfo }
	w.call(200, &list, "GET", "/v1/sessions/"+string(s.ID)+"/turns?status=completed", "")
	if len(list.Turns) != 1 || list.Turns[0].ID != turn.ID {
		t.Errorf("list: got %+v", list.Turns)
	}
	var retried parley.TurnInfo
	w.call(202, &retried, "POST", "/v1/turns/"+string(turn.ID)+"/retry", "")
	if retried.RetryOf != turn.ID {
		t.Errorf("retry: got %+v", retried)
	}
	w.call(200, nil, "POST", "/v1/turns/"+string(retried.ID)+"/await", "")
	w.call(409, nil, "POST", "/v1/turns/"+string(turn.ID)+"/resume", "")
}

// sseEvents reads a stream of events to its end.
func sseEvents(t *testing.T, r io.Reader) (events []parley.Event, names []string, ids []string) {
	t.Helper()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(raw), "\n\n") {
		var id, name, data string
		for line := range strings.SplitSeq(block, "\n") {
			switch field, value, _ := strings.Cut(line, ": "); field {
			case "id":
				id = value
			case "event":
				name = value
			case "data":
				data = value
			}
		}
		if name == "" {
			continue
		}
		names = append(names, name)
		ids = append(ids, id)
		if id != "" {
			var e parley.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			events = append(events, e)
		}
	}
	return events, names, ids
}

func TestTurn_as_a_stream_ends_with_the_turn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "before") // events of an earlier turn must not be in the stream
	path := "/v1/sessions/" + string(s.ID) + "/turns"
	w.streamsTurn(s.ID, path, "Accept", "text/event-stream")
	w.streamsTurn(s.ID, path+"/stream")
	w.streamsTurn(s.ID, path+"/stream", "Accept", "application/json, */*") // some clients send this with every request
}

func (w *world) streamsTurn(id parley.SessionID, path string, header ...string) {
	t := w.t
	t.Helper()
	resp := w.ask("POST", path, `{"message":"hello you"}`, append(header, "Content-Type", "application/json")...)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	events, names, _ := sseEvents(t, resp.Body)
	turn := parley.TurnID(resp.Header.Get("Parley-Turn"))
	for _, e := range events {
		if e.Turn != turn {
			t.Errorf("event %d is of turn %q", e.Seq, e.Turn)
		}
	}
	if names[0] != "turn.started" || names[len(names)-1] != "turn.completed" {
		t.Errorf("frames: got %v", names)
	}
	var want []parley.Event
	for _, e := range w.rig.Log(id) {
		if e.Turn == turn {
			want = append(want, e)
		}
	}
	if diff := cmp.Diff(jsonOf(want), jsonOf(events)); diff != "" {
		t.Errorf("events (-log +stream):\n%s", diff)
	}
}

func jsonOf(events []parley.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, string(e.AppendJSON(nil)))
	}
	return out
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	var s1, s2 parley.SessionInfo
	w.call(201, &s1, "POST", "/v1/sessions", `{"app":"test"}`, "Idempotency-Key", "s")
	w.call(200, &s2, "POST", "/v1/sessions", `{"app":"test"}`, "Idempotency-Key", "s")
	if s1.ID != s2.ID {
		t.Errorf("sessions: %s and %s", s1.ID, s2.ID)
	}
	w.call(422, nil, "POST", "/v1/sessions", `{"app":"test","title":"another"}`, "Idempotency-Key", "s")
	path := "/v1/sessions/" + string(s1.ID) + "/turns"
	var t1, t2 parley.TurnInfo
	w.call(202, &t1, "POST", path, `{"message":"hello"}`, "Idempotency-Key", "k")
	w.call(200, nil, "POST", "/v1/turns/"+string(t1.ID)+"/await", "")
	w.call(202, &t2, "POST", path, `{"message":"hello"}`, "Idempotency-Key", "k")
	if t1.ID != t2.ID {
		t.Errorf("turns: %s and %s", t1.ID, t2.ID)
	}
	w.call(422, nil, "POST", path, `{"message":"goodbye"}`, "Idempotency-Key", "k")
	var again parley.TurnInfo
	w.call(202, &t2, "POST", "/v1/turns/"+string(t1.ID)+"/retry", "", "Idempotency-Key", "r")
	w.call(200, nil, "POST", "/v1/turns/"+string(t2.ID)+"/await", "")
	w.call(202, &again, "POST", "/v1/turns/"+string(t1.ID)+"/retry", "", "Idempotency-Key", "r")
	if again.ID != t2.ID {
		t.Errorf("retries: %s and %s", t2.ID, again.ID)
	}
	var f1, f2 parley.SessionInfo
	w.call(201, &f1, "POST", "/v1/sessions/"+string(s1.ID)+"/fork", `{"title":"copy"}`, "Idempotency-Key", "f")
	w.call(201, &f2, "POST", "/v1/sessions/"+string(s1.ID)+"/fork", `{"title":"copy"}`, "Idempotency-Key", "f")
	if f1.ID != f2.ID || f1.ID == s1.ID {
		t.Errorf("forks: %s and %s of %s", f1.ID, f2.ID, s1.ID)
	}
}

// gated is a model that says a word, waits for its gate, and says another.
func gated(gate <-chan struct{}) enginetest.Model {
	return func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("one ")
		select {
		case <-gate:
		case <-ctx.Done():
			return seam.Reply{}, context.Cause(ctx)
		}
		say("two")
		return seam.Reply{StopReason: "end_turn"}, nil
	}
}

func TestTurn_busy_queue_and_cancel(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, gated(gate), enginetest.App())
	s := w.session(`{"app":"test","busy":"enqueue","max_open_turns":3}`)
	path := "/v1/sessions/" + string(s.ID)
	var first, second, third parley.TurnInfo
	w.call(202, &first, "POST", path+"/turns", `{"message":"a"}`)
	w.call(409, nil, "POST", path+"/turns", `{"message":"no","busy":"reject"}`)
	w.call(202, &second, "POST", path+"/turns", `{"message":"b"}`)
	w.call(202, &third, "POST", path+"/turns", `{"message":"c"}`)
	h := w.call(409, nil, "POST", path+"/turns", `{"message":"d"}`)
	if second.Status != parley.StatusPending {
		t.Errorf("the second turn is %s", second.Status)
	}
	_ = h
	var q struct {
		Queue []struct {
			ID      parley.TurnID
			Message string
		}
	}
	w.call(200, &q, "GET", path+"/queue", "")
	if len(q.Queue) != 2 || q.Queue[0].ID != second.ID || q.Queue[1].Message != "c" {
		t.Errorf("queue: got %+v", q)
	}
	w.call(204, nil, "DELETE", path+"/queue/"+string(second.ID), "")
	w.call(404, nil, "DELETE", path+"/queue/"+string(second.ID), "")
	var got parley.TurnInfo
	w.call(200, &got, "POST", "/v1/turns/"+string(first.ID)+"/await", `{"timeout_ms":1}`)
	if !got.Status.Open() {
		t.Errorf("at the timeout the turn is %s", got.Status)
	}
	w.call(200, &got, "POST", "/v1/turns/"+string(first.ID)+"/cancel", `{"reason":"enough"}`)
	w.call(200, &got, "POST", "/v1/turns/"+string(first.ID)+"/await", "")
	if got.Status != parley.StatusCancelled || got.Reason != "enough" {
		t.Errorf("after cancel: got %s, %q", got.Status, got.Reason)
	}
	close(gate)
}

func TestInteraction_is_answered(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if got := enginetest.Results(r); len(got) > 0 {
			say(got[0])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}
	w := newWorld(t, model, enginetest.App(func(a *parley.App) {
		a.Policy = parley.Policy{Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
	}))
	s := w.session(`{"app":"test"}`)
	turn := w.turn(s.ID, "mail it")
	if turn.Status != parley.StatusWaiting {
		t.Fatalf("the turn is %s, want waiting", turn.Status)
	}
	var in struct{ Interactions []seam.InteractionRow }
	w.call(200, &in, "GET", "/v1/interactions", "")
	if len(in.Interactions) != 1 {
		t.Fatalf("inbox: got %d", len(in.Interactions))
	}
	first := string(in.Interactions[0].ID)
	path := "/v1/interactions/" + first
	next := in
	w.call(200, &next, "GET", "/v1/interactions?cursor="+seam.InteractionQuery{}.Mark(in.Interactions[0]).Cursor(), "")
	if len(next.Interactions) != 0 {
		t.Errorf("after the last: got %d", len(next.Interactions))
	}
	for _, path := range []string{"/v1/interactions", "/v1/sessions"} {
		var e struct{ Error parley.ErrorInfo }
		if w.call(400, &e, "GET", path+"?cursor=absent", ""); e.Error.Field != "cursor" || e.Error.Hint == "" {
			t.Errorf("%s: got %+v", path, e)
		}
	}
	var row seam.InteractionRow
	w.call(200, &row, "GET", path, "")
	w.call(400, nil, "POST", path+"/answer", `{"choice":""}`)
	w.call(400, nil, "POST", path+"/answer", `{"choice":"maybe"}`)
	w.call(200, &row, "POST", path+"/answer", `{"choice":"allow"}`)
	if row.Open || row.Answer == nil || row.Answer.Choice != "allow" {
		t.Errorf("answered: got %+v", row)
	}
	w.call(200, nil, "POST", path+"/answer", `{"choice":"allow"}`)
	w.call(409, nil, "POST", path+"/answer", `{"choice":"deny"}`)
	w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	if _, _, mails := w.rig.Service.Counts(); turn.Status != parley.StatusCompleted || mails != 1 {
		t.Errorf("got %s, %d mails", turn.Status, mails)
	}
}

func TestRules_are_listed_and_revoked(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if len(enginetest.Results(r)) > 0 {
			say("done")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}
	w := newWorld(t, model, enginetest.App(func(a *parley.App) {
		a.Policy = parley.Policy{Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
	}))
	s := w.session(`{"app":"test"}`)
	path := "/v1/sessions/" + string(s.ID)
	list := func() []parley.Rule {
		t.Helper()
		var got struct{ Rules []parley.Rule }
		w.call(200, &got, "GET", path+"/rules", "")
		return got.Rules
	}
	if got := list(); got == nil || len(got) != 0 {
		t.Errorf("before anything was granted: %#v", got)
	}
	turn := w.turn(s.ID, "mail it")
	w.call(200, nil, "POST", "/v1/interactions/"+string(turn.Interactions[0])+"/answer", `{"choice":"allow_session"}`)
	w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	want := []parley.Rule{{Verdict: parley.Allow, Tool: "mail", Reason: "allowed for this session by ana"}}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
	w.call(400, nil, "PATCH", path, `{"rules":[{"verdict":"allow"}]}`)
	w.call(200, nil, "PATCH", path, `{"rules":[]}`)
	if got := list(); len(got) != 0 {
		t.Errorf("after all were revoked: %+v", got)
	}
	if again := w.turn(s.ID, "mail it"); again.Status != parley.StatusWaiting {
		t.Errorf("a call after that: %s, want it to be asked for", again.Status)
	}
}

func TestArtifact_is_only_ever_a_file(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("<script>alert(1)</script>", 2000)
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if len(enginetest.Results(r)) > 0 {
			say("seen")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": text})}}, nil
	}
	w := newWorld(t, model, enginetest.App())
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "look")
	var id parley.ArtifactID
	for _, e := range w.rig.Log(s.ID) {
		if p, _ := e.Payload(); e.Type == "artifact.stored" {
			id = p.(parley.ArtifactStored).ID
		}
	}
	resp := w.ask("GET", "/v1/artifacts/"+string(id), "")
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || string(body) != "seen "+text {
		t.Fatalf("got %d, %d bytes", resp.StatusCode, len(body))
	}
	if d := resp.Header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment; filename=") {
		t.Errorf("Content-Disposition: %q", d)
	}
	if n := resp.Header.Get("X-Content-Type-Options"); n != "nosniff" {
		t.Errorf("X-Content-Type-Options: %q", n)
	}
	plain := w.ask("GET", "/v1/artifacts/"+string(id)+"?inline=true", "")
	if d := plain.Header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment; filename=") {
		t.Errorf("inline, of what is no page: Content-Disposition %q", d)
	}
	again := w.ask("GET", "/v1/artifacts/"+string(id), "", "If-None-Match", resp.Header.Get("ETag"))
	if again.StatusCode != 304 {
		t.Errorf("with its ETag: got %d", again.StatusCode)
	}
}

func TestExport_and_import_give_the_same_conversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test","title":"Kept","outside_id":"mine"}`)
	w.turn(s.ID, "one")
	w.turn(s.ID, "two")
	resp := w.ask("GET", "/v1/sessions/"+string(s.ID)+"/export", "")
	zip, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/zip" {
		t.Fatalf("export: %d, %v", resp.StatusCode, err)
	}
	var copied parley.SessionInfo
	w.call(201, &copied, "POST", "/v1/sessions/import", string(zip), "Content-Type", "application/zip", "Test-User", "bob")
	if copied.ID == s.ID || copied.User != "bob" || copied.Title != "Kept" || copied.OutsideID != "" {
		t.Errorf("imported: got %+v", copied)
	}
	said := func(id parley.SessionID) []string {
		var v parley.Transcript
		for _, e := range w.rig.Log(id) {
			v.Apply(e)
		}
		var out []string
		for _, t := range v.Turns {
			out = append(out, t.Message, t.Answer)
		}
		return out
	}
	if diff := cmp.Diff(said(s.ID), said(copied.ID)); diff != "" {
		t.Errorf("messages (-original +copy):\n%s", diff)
	}
	w.call(404, nil, "GET", "/v1/sessions/"+string(copied.ID), "")
	w.call(400, nil, "POST", "/v1/sessions/import", "no zip", "Content-Type", "application/zip")
	var first, again parley.SessionInfo
	keyed := func(status int, to any, body, query string) {
		t.Helper()
		w.call(status, to, "POST", "/v1/sessions/import"+query, body, "Content-Type", "application/zip", "Test-User", "bob", "Idempotency-Key", "k")
	}
	keyed(201, &first, string(zip), "")
	keyed(201, &again, string(zip), "")
	if first.ID != again.ID || first.ID == copied.ID {
		t.Errorf("with a key the sessions are %s and %s", first.ID, again.ID)
	}
	keyed(422, nil, string(zip)+" ", "")
	keyed(422, nil, string(zip), "?workspace=other")
}

func TestServer_says_what_it_is(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App(func(a *parley.App) { a.Examples = []string{"Hello?"}; a.Wires = []string{"chat"} }),
		func(o *api.Options) {
			o.Notices = []string{"No login."}
			o.Missing = func(string) error {
				return parley.Errorf(parley.CodeUnavailable, "the program is not installed").WithHint("install it in /opt")
			}
		})
	var apps struct{ Apps []api.AppInfo }
	w.call(200, &apps, "GET", "/v1/apps", "")
	if len(apps.Apps) != 1 {
		t.Fatalf("apps: %+v", apps)
	}
	a := apps.Apps[0]
	if a.Name != "test" || a.Model.Scripted || a.Agents[0].Name != "lead" || a.Examples[0] != "Hello?" || a.Wires[0] != "chat" ||
		a.Notices[0] != "No login." || strings.Join(a.Modes, " ") != "default acceptEdits plan" || len(a.Notices) != 1 {
		t.Errorf("app: %+v", a)
	}
	if want := map[string]string{a.Runtime: "the program is not installed"}; !maps.Equal(a.RuntimesMissing, want) {
		t.Errorf("what is missing: %v, want %v", a.RuntimesMissing, want)
	}
	w.call(200, &a, "GET", "/v1/apps/test", "")
	w.call(404, nil, "GET", "/v1/apps/other", "")
	raw, _ := json.Marshal(a)
	if bytes.Contains(raw, []byte("Be useful")) {
		t.Error("a prompt is shown")
	}
	var models struct{ Models []seam.ModelInfo }
	w.call(200, &models, "GET", "/v1/models", "")
	var server struct{ Version string }
	w.call(200, &server, "GET", "/v1/server", "")
	if len(models.Models) != 1 || server.Version != "test" {
		t.Errorf("models %+v, server %+v", models, server)
	}
	w.call(200, nil, "GET", "/healthz", "", "Test-User", "nobody")
	w.call(200, nil, "GET", "/readyz", "", "Test-User", "nobody")
	w.call(401, nil, "GET", "/v1/sessions", "", "Test-User", "nobody")
}

// TestAwait_for_no_time looks at a running turn without waiting for it.
func TestAwait_for_no_time(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, gated(gate), enginetest.App())
	s := w.session(`{"app":"test"}`)
	var turn parley.TurnInfo
	w.call(202, &turn, "POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"hello"}`)
	w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", `{"timeout_ms":0}`)
	if !turn.Status.Open() {
		t.Errorf("got %s", turn.Status)
	}
	close(gate)
	w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	if turn.Status != parley.StatusCompleted {
		t.Errorf("got %s", turn.Status)
	}
}
