package wire_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/wire"
)

const turn = parley.TurnID("t1")

// house is a log with a door in front of it.
type house struct {
	t   testing.TB
	w   *eventlog.Writer
	r   *eventlog.Reader
	seq map[parley.SessionID]int64
	url string
	srv *httptest.Server

	ended chan struct{} // gets one for each stream that ended
}

// newHouse serves /one (SSE), /lines (NDJSON) and /many on loopback.
func newHouse(t testing.TB, o wire.Options) *house {
	t.Helper()
	h := &house{t: t, seq: map[parley.SessionID]int64{}, ended: make(chan struct{}, 1000)}
	h.w, h.r = eventlog.New(mem.New(), redact.New(), eventlog.Options{})
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, string(parley.CodeOf(err))+" "+err.Error(), http.StatusTeapot)
		}
	}
	one := func(serve func(http.ResponseWriter, *http.Request, wire.Frames, wire.Options) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			defer func() { h.ended <- struct{}{} }()
			after, err := wire.Cursor(r)
			if err == nil {
				o := o
				if o.Keep, err = wire.Types(r.URL.Query().Get("types")); err == nil {
					session := parley.SessionID(r.URL.Query().Get("session"))
					err = serve(w, r, h.r.Follow(r.Context(), parley.Local, session, after), o)
				}
			}
			answer(w, err)
		}
	}
	mux.HandleFunc("/one", one(wire.ServeSSE))
	mux.HandleFunc("/lines", one(wire.ServeNDJSON))
	mux.HandleFunc("/many", func(w http.ResponseWriter, r *http.Request) {
		places, err := wire.Places(r)
		if err == nil {
			var frames func(context.Context) wire.Frames
			if frames, err = h.r.FollowMany(r.Context(), parley.Local, places, true); err == nil {
				err = wire.ServeMany(w, r, frames(r.Context()), places, o)
			}
		}
		answer(w, err)
	})
	h.srv = httptest.NewServer(mux)
	h.url = h.srv.URL
	t.Cleanup(func() {
		h.r.Hangup()
		h.srv.Close()
		if err := h.w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h.open("s1")
	return h
}

func (h *house) open(id parley.SessionID) {
	e := parley.NewEvent("", "", parley.SessionCreated{App: "chaos", User: "local"})
	h.send(id, seam.Batch{Create: true, Owner: "node", Index: seam.Index{
		Session: &parley.SessionInfo{ID: id, App: "chaos", User: "local", Status: parley.Active},
	}}, e)
}

func (h *house) send(id parley.SessionID, b seam.Batch, events ...parley.Event) {
	h.t.Helper()
	b.Session, b.After, b.Epoch = id, h.seq[id], 1
	var numbered []parley.Event
	for i, e := range events {
		e.Session, e.Seq, e.Time = id, b.After+1+int64(i), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		numbered = append(numbered, e)
	}
	if err := h.w.Append(context.Background(), parley.Local, b, h.w.Redact(numbered...)); err != nil {
		h.t.Fatal(err)
	}
	h.seq[id] += int64(len(events))
}

func (h *house) append(events ...parley.Event) { h.send("s1", seam.Batch{}, events...) }

func (h *house) say(call, text string) {
	h.w.Publish(parley.Delta{Session: "s1", Turn: turn, Call: parley.CallID(call), Text: text})
}

func started(call parley.CallID) parley.Event {
	return parley.NewEvent(turn, "lead", parley.ModelStarted{Call: call, Model: "m"})
}

func replied(call parley.CallID, text string) parley.Event {
	return parley.NewEvent(turn, "lead", parley.ModelReplied{Call: call, Model: "m", Parts: parley.Text("", text).Parts})
}

func steered(text string) parley.Event {
	return parley.NewEvent(turn, "", parley.TurnSteered{Message: parley.Text(parley.RoleUser, text)})
}

func completed() parley.Event { return parley.NewEvent(turn, "", parley.TurnCompleted{}) }

// get opens a stream and returns its response.
func (h *house) get(ctx context.Context, path, last string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp
}

// body reads a whole stream that ends by itself.
func (h *house) body(path string) string {
	h.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	resp := h.get(ctx, path, "")
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatalf("%v after %q", err, b)
	}
	return string(b)
}
