package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// serve starts a whole server in memory, with the handler between in front of it.
func serve(t testing.TB, model enginetest.Model, between func(http.Handler) http.Handler, app ...func(*parley.App)) (*client.Client, *enginetest.Rig) {
	t.Helper()
	url, rig := serveAt(t, model, between, app...)
	return client.New(client.Options{BaseURL: url + "/", Retry: 5 * time.Millisecond}), rig
}

// serveAt is serve for tests that make their own client.
func serveAt(t testing.TB, model enginetest.Model, between func(http.Handler) http.Handler, app ...func(*parley.App)) (url string, rig *enginetest.Rig) {
	t.Helper()
	rig = enginetest.New(t, model, enginetest.App(app...))
	var h http.Handler = api.New(api.Options{
		Engine: rig.Engine, Reader: rig.Reader, Blobs: rig.Store, Partial: rig.Writer.Partial,
		Principal: func(context.Context) (parley.Principal, error) { return enginetest.User, nil },
		Import: func(ctx context.Context, p parley.Principal, s archive.Session) (parley.SessionInfo, error) {
			return rig.Engine.Import(ctx, p, engine.Imported(s))
		},
	})
	if between != nil {
		h = between(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(func() { rig.Close(); srv.Close() })
	return srv.URL, rig
}

func session(t testing.TB, c *client.Client) parley.SessionInfo {
	t.Helper()
	s, created, err := c.CreateSession(t.Context(), parley.CreateSession{App: "test", OutsideID: "mine"})
	if err != nil || !created {
		t.Fatalf("CreateSession: created %v, %v", created, err)
	}
	return s
}

func TestClient_sessions_and_turns(t *testing.T) {
	t.Parallel()
	c, rig := serve(t, enginetest.Echo, nil)
	ctx := t.Context()
	s := session(t, c)
	if again, created, err := c.CreateSession(ctx, parley.CreateSession{App: "test", OutsideID: "mine"}); err != nil || created || again.ID != s.ID {
		t.Errorf("the same outside id: got %s, created %v, %v", again.ID, created, err)
	}
	turn, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: "hello", Key: "k"})
	if err != nil || turn.Response == nil || turn.Response.Message != "you said: hello" {
		t.Fatalf("SendAndWait: got %+v, %v", turn, err)
	}
	if again, err := c.Send(ctx, s.ID, parley.Send{Message: "hello", Key: "k"}); err != nil || again.ID != turn.ID {
		t.Errorf("the same key: got %s, %v", again.ID, err)
	}
	if got, err := c.Turn(ctx, turn.ID); err != nil || got.Status != parley.StatusCompleted {
		t.Errorf("Turn: got %s, %v", got.Status, err)
	}
	if list, err := c.Turns(ctx, s.ID, client.TurnFilter{Statuses: []parley.TurnStatus{parley.StatusCompleted, parley.StatusFailed}, Limit: 5}); err != nil || len(list) != 1 {
		t.Errorf("Turns: got %d, %v", len(list), err)
	}
	retried, err := c.Retry(ctx, turn.ID, "again")
	if err != nil || retried.RetryOf != turn.ID {
		t.Errorf("Retry: got %+v, %v", retried, err)
	}
	if _, err := c.Await(ctx, retried.ID, time.Minute); err != nil {
		t.Error(err)
	}
	var pages [][]parley.TurnID
	for f := (client.TurnFilter{Limit: 1}); ; {
		list, next, err := c.TurnPage(ctx, s.ID, f)
		if err != nil || len(list) != 1 || len(pages) == 3 {
			t.Fatalf("TurnPage before %q: got %d turns, %v", f.Before, len(list), err)
		}
		pages = append(pages, []parley.TurnID{list[0].ID})
		if f.Before = next; next == "" {
			break
		}
	}
	if diff := cmp.Diff([][]parley.TurnID{{retried.ID}, {turn.ID}}, pages); diff != "" {
		t.Errorf("pages of turns (-want +got):\n%s", diff)
	}
	title := "Named"
	if got, err := c.UpdateSession(ctx, s.ID, parley.UpdateSession{Title: &title}); err != nil || got.Title != title {
		t.Errorf("UpdateSession: got %q, %v", got.Title, err)
	}
	fork, err := c.ForkSession(ctx, s.ID, parley.ForkSession{Title: "copy"})
	if err != nil || fork.Parent != s.ID {
		t.Errorf("ForkSession: got %+v, %v", fork, err)
	}
	if list, err := c.Sessions(ctx, client.SessionFilter{App: "test", Status: parley.Active, Limit: 10}); err != nil || len(list) != 2 || list[0].ID != fork.ID {
		t.Errorf("Sessions: got %d, %v", len(list), err)
	}
	first, next, err := c.SessionPage(ctx, client.SessionFilter{Limit: 1})
	if err != nil || len(first) != 1 || first[0].ID != fork.ID || next == "" {
		t.Errorf("the first page: got %d, %q, %v", len(first), next, err)
	}
	if list, next, err := c.SessionPage(ctx, client.SessionFilter{Limit: 1, Cursor: next}); err != nil || len(list) != 1 || list[0].ID != s.ID || next != "" {
		t.Errorf("the last page: got %d, %q, %v", len(list), next, err)
	}
	var zip bytes.Buffer
	if err := c.Export(ctx, s.ID, &zip); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Import(ctx, &zip, ""); err != nil || got.Title != title || got.ID == s.ID {
		t.Errorf("Import: got %+v, %v", got, err)
	}
	var events []parley.Event
	for at, more := int64(0), true; more; {
		page, err := c.Events(ctx, s.ID, at, client.EventFilter{Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, page.Events...)
		at, more = page.Next, page.More
	}
	if diff := cmp.Diff(lines(rig.Log(s.ID)), lines(events)); diff != "" {
		t.Errorf("Events (-log +client):\n%s", diff)
	}
	if got, err := c.EndSession(ctx, s.ID, "done"); err != nil || got.Status != parley.Ended {
		t.Errorf("EndSession: got %s, %v", got.Status, err)
	}
	if err := c.DeleteSession(ctx, s.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Session(ctx, s.ID); !errors.Is(err, parley.ErrNotFound) {
		t.Errorf("a deleted session: got %v", err)
	}
	if apps, err := c.Apps(ctx); err != nil || len(apps) != 1 || apps[0].Model.Scripted || apps[0].Model.PricedAt == "" {
		t.Errorf("Apps: got %+v, %v", apps, err)
	}
	if app, err := c.App(ctx, "test"); err != nil || app.Entry != "lead" {
		t.Errorf("App: got %+v, %v", app, err)
	}
	if models, err := c.Models(ctx); err != nil || len(models) != 1 {
		t.Errorf("Models: got %+v, %v", models, err)
	}
	if err := c.Ready(ctx); err != nil {
		t.Error(err)
	}
}

func lines(events []parley.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, string(e.AppendJSON(nil)))
	}
	return out
}

// cutter cuts each stream after a growing number of bytes, at any position.
func cutter(cuts *atomic.Int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
				next.ServeHTTP(w, r)
				return
			}
			n := cuts.Add(1)
			switch {
			case n%7 == 0:
				w.Header().Set("Retry-After", "1")
				http.Error(w, "no", http.StatusServiceUnavailable)
				return
			case n > 60:
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(&short{ResponseWriter: w, left: int(n) * 50}, r)
		})
	}
}

type short struct {
	http.ResponseWriter
	left int
}

func (s *short) Write(b []byte) (int, error) {
	if len(b) > s.left {
		_, _ = s.ResponseWriter.Write(b[:s.left])
		_ = http.NewResponseController(s.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	s.left -= len(b)
	return s.ResponseWriter.Write(b)
}

func (s *short) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func TestFollow_every_event_once_however_often_it_is_cut(t *testing.T) {
	t.Parallel()
	var cuts atomic.Int64
	c, rig := serve(t, enginetest.Echo, cutter(&cuts))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	s := session(t, c)
	for _, m := range []string{"one", "two", "three and more"} {
		if _, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: m}); err != nil {
			t.Fatal(err)
		}
	}
	want := lines(rig.Log(s.ID))
	var got []string
	for f, err := range c.Follow(ctx, s.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Event != nil {
			got = append(got, string(f.Event.AppendJSON(nil)))
		}
		if len(got) == len(want) {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-log +followed):\n%s", diff)
	}
	if cuts.Load() < 5 {
		t.Errorf("got only %d cuts", cuts.Load())
	}
}

func TestFollowTurn_text_is_the_answer_and_it_ends_by_itself(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, enginetest.Echo, nil)
	ctx := t.Context()
	s := session(t, c)
	turn, err := c.Send(ctx, s.ID, parley.Send{Message: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[parley.CallID]string{}
	var last parley.EventType
	for f, err := range c.FollowTurn(ctx, turn) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case f.Partial:
			texts[f.Delta.Call] = f.Delta.Text
		case f.Delta != nil:
			texts[f.Delta.Call] += f.Delta.Text
		default:
			last = f.Event.Type
		}
	}
	if last != "turn.completed" {
		t.Errorf("the last event is %s", last)
	}
	for _, text := range texts { // fragments may be missing, but those that arrive are right
		if !strings.HasPrefix("you said: hello", text) {
			t.Errorf("text: got %q", text)
		}
	}
}

func TestErrors_come_back_as_they_were_said(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, enginetest.Echo, nil)
	ctx := t.Context()
	_, err := c.Send(ctx, session(t, c).ID, parley.Send{Message: "  "})
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != parley.CodeInvalid || e.Field != "message" || e.Message == "" {
		t.Errorf("got %#v", err)
	}
	for f, err := range c.Follow(ctx, "nothing", 0) {
		if !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("following nothing: got %v, %v", f, err)
		}
	}
	nobody := client.New(client.Options{BaseURL: "http://127.0.0.1:1"})
	if _, err := nobody.Apps(ctx); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("nobody listens: got %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Apps(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: got %v", err)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		http.Error(w, "<html>", http.StatusBadGateway)
	}))
	defer proxy.Close()
	_, err = client.New(client.Options{BaseURL: proxy.URL}).Apps(ctx)
	if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeUnavailable || e.RetryAfter != 3*time.Second {
		t.Errorf("a proxy's page: got %#v", err)
	}
}

func TestClient_sends_its_token_and_keeps_a_prefix(t *testing.T) {
	t.Parallel()
	var path, auth atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.EscapedPath())
		auth.Store(r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{}`)
	}))
	defer srv.Close()
	c := client.New(client.Options{BaseURL: srv.URL + "/prefix/", Token: "secret"})
	if _, err := c.Session(t.Context(), "a/b"); err != nil {
		t.Fatal(err)
	}
	if path.Load() != "/prefix/v1/sessions/a%2Fb" || auth.Load() != "Bearer secret" {
		t.Errorf("got %v with %v", path.Load(), auth.Load())
	}
}

func TestClient_answers_an_interaction(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if got := enginetest.Results(r); len(got) > 0 {
			say(got[0])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}
	c, _ := serve(t, model, nil)
	ctx := t.Context()
	s, _, err := c.CreateSession(ctx, parley.CreateSession{App: "test", Policy: &parley.Policy{
		Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: "mail"})
	if err != nil || turn.Status != parley.StatusWaiting {
		t.Fatalf("got %s, %v; want a turn that waits", turn.Status, err)
	}
	list, err := c.Interactions(ctx, 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("Interactions: got %d, %v", len(list), err)
	}
	if list, next, err := c.InteractionPage(ctx, "", 1); err != nil || len(list) != 1 || next != "" {
		t.Errorf("InteractionPage: got %d, %q, %v", len(list), next, err)
	}
	if _, _, err := c.InteractionPage(ctx, "another", 1); parley.Info(err).Field != "cursor" {
		t.Errorf("an unknown cursor: got %v", err)
	}
	got, err := c.Answer(ctx, list[0].ID, parley.Answer{Choice: parley.ChoiceDeny, Text: "not now"})
	if err != nil || got.Open {
		t.Fatalf("Answer: got %+v, %v", got, err)
	}
	if turn, err = c.Await(ctx, turn.ID, time.Minute); err != nil || turn.Status != parley.StatusCompleted {
		t.Errorf("afterwards: got %s, %v", turn.Status, err)
	}
}

// TestHandle: two clients handle the calls of a session, or of all. Each call is run once,
// and an error of a write leaves open what happened.
func TestHandle(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]bool{"a session": false, "all sessions": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
				if res := enginetest.Results(r); len(res) > 0 {
					say("done: " + res[len(res)-1])
					return seam.Reply{}, nil
				}
				return seam.Reply{Parts: []parley.Part{enginetest.Call(enginetest.Last(r), map[string]string{"text": "hi"})}}, nil
			}
			c, _ := serve(t, model, nil, enginetest.ByClients)
			s := session(t, c)
			ctx, stop := context.WithCancelCause(t.Context())
			of, over := s.ID, errors.New("over")
			if all {
				of = ""
			}
			var ran atomic.Int32
			ended := make(chan error, 2)
			for range 2 {
				go func() {
					ended <- c.Handle(ctx, of, map[string]client.ToolFunc{
						"look": func(_ context.Context, call parley.Claimed) (parley.ReportCall, error) {
							ran.Add(1)
							return parley.ReportCall{Output: "seen " + string(call.Input)}, nil
						},
						"mail": func(context.Context, parley.Claimed) (parley.ReportCall, error) {
							return parley.ReportCall{}, errors.New("the mail server hung up")
						},
					})
				}()
			}
			for n := 1; n <= 3; n++ {
				turn, err := c.Send(ctx, s.ID, parley.Send{Message: "look"})
				if err != nil {
					t.Fatal(err)
				}
				for f, err := range c.FollowTurn(ctx, turn) {
					if err != nil {
						t.Fatal(err)
					}
					_ = f
				}
				if got, err := c.Turn(ctx, turn.ID); err != nil || got.Response == nil || got.Response.Message != `done: seen {"text":"hi"}` || ran.Load() != int32(n) {
					t.Fatalf("%+v, %v, and %d calls ran", got, err, ran.Load())
				}
			}
			turn, err := c.Send(ctx, s.ID, parley.Send{Message: "mail"})
			if err != nil {
				t.Fatal(err)
			}
			for f, err := range c.FollowTurn(ctx, turn) {
				if err != nil {
					t.Fatal(err)
				}
				if f.Event == nil {
					continue
				}
				if p, _ := f.Event.Payload(); f.Event.Type == "interaction.opened" && p.(parley.InteractionOpened).Kind == parley.KindUnknown {
					break
				}
			}
			stop(over)
			for range 2 {
				if err := <-ended; !errors.Is(err, over) {
					t.Errorf("Handle ended with %v", err)
				}
			}
		})
	}
}
