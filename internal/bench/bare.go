package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/parley-server/parley/internal/sse"
)

// The bare relay is the least that a server can be which keeps what Parley keeps: SQLite with fsync,
// a message is durable before the model is asked, the reply and each call of a tool are durable
// before a client sees them, text in flight is kept four times a second, and a client that comes back
// with a number gets everything after it. It has one kind of event, no users, no policy, no limits,
// no lists, no recovery and no second store. What it costs is what the promises cost.
//
// It speaks as much of the native API as the clients of this program use.
type relayServer struct {
	upstream string
	queue    chan *pending
	mu       sync.Mutex
	sessions map[string]*relaySession
}

// relaySession is a session in memory. The file has the same.
type relaySession struct {
	id     string
	mu     sync.Mutex
	frames [][]byte      // each event as a frame; event n is at n-1
	said   []chatMessage // what the model is told
	turns  bool          // a turn runs
	flight *relayCall
	grown  chan struct{} // closed and replaced whenever there is something new
}

// relayCall is a call of the model that streams.
type relayCall struct {
	text bytes.Buffer
	kept int // how much of it is in the file
}

// relayRemembers is how many messages the model is told, as the app of the measured Parley says.
const relayRemembers = 12

// relayKeeps is how often text in flight is kept.
const relayKeeps = 250 * time.Millisecond

func serveBare(ctx context.Context, args []string, ready func(string, func() int)) (err error) {
	c, err := sqlite.OpenConn(filepath.Join(args[1], "bare.db"), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	g, err := newGroup(c)
	if err != nil {
		return err
	}
	s := &relayServer{upstream: args[0], queue: make(chan *pending, 1000), sessions: map[string]*relaySession{}}
	written := make(chan error, 1)
	go func() { written <- grouped(&file{g, c}, s.queue) }()
	go s.keep(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sessions", s.create)
	mux.HandleFunc("POST /v1/sessions/{id}/turns", s.turn)
	mux.HandleFunc("GET /v1/sessions/{id}/events", s.follow)
	return serve(ctx, mux, ready, func() int { return 0 })
}

// append makes rows durable.
func (s *relayServer) append(rows ...row) {
	p := &pending{rows: rows, done: make(chan struct{})}
	s.queue <- p
	<-p.done
}

func (s *relayServer) create(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	x := &relaySession{id: fmt.Sprintf("s%08d", len(s.sessions)), grown: make(chan struct{})}
	s.sessions[x.id] = x
	s.mu.Unlock()
	s.append(row{key: x.id, body: []byte("{}")})
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"`+x.id+`"}`)
}

func (s *relayServer) session(r *http.Request) *relaySession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[r.PathValue("id")]
}

// events are appended to the session: durable first, then shown.
func (s *relayServer) events(x *relaySession, kinds ...[2]string) {
	x.mu.Lock()
	n := len(x.frames)
	x.mu.Unlock()
	var rows []row
	var frames [][]byte
	for i, k := range kinds {
		seq := strconv.Itoa(n + i + 1)
		body := []byte(`{"session":"` + x.id + `","seq":` + seq + `,"type":"` + k[0] + `","data":` + k[1] + `}`)
		rows = append(rows, row{event: true, key: x.id, seq: int64(n + i + 1), body: body})
		frames = append(frames, []byte("id: "+seq+"\nevent: "+k[0]+"\ndata: "+string(body)+"\n\n"))
	}
	s.append(rows...)
	x.mu.Lock()
	x.frames = append(x.frames, frames...)
	x.flight = nil
	x.wake()
	x.mu.Unlock()
}

// wake tells the followers; the lock is held.
func (x *relaySession) wake() {
	close(x.grown)
	x.grown = make(chan struct{})
}

func (s *relayServer) turn(w http.ResponseWriter, r *http.Request) {
	var in struct{ Message string }
	x := s.session(r)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAsk))
	if err != nil || json.Unmarshal(body, &in) != nil || x == nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	x.mu.Lock()
	from, busy := len(x.frames), x.turns
	x.turns = true
	x.mu.Unlock()
	if busy {
		http.Error(w, "busy", http.StatusConflict)
		return
	}
	text, _ := json.Marshal(in.Message)
	s.events(x, [2]string{"turn.started", `{"message":` + string(text) + `}`})
	go s.run(x, in.Message)
	s.stream(w, r, x, from, true)
}

// run carries a turn out; a client that leaves does not end it.
func (s *relayServer) run(x *relaySession, message string) {
	x.mu.Lock()
	x.said = append(x.said, chatText("user", message))
	x.said = x.said[max(0, len(x.said)-relayRemembers):]
	said := x.said
	x.mu.Unlock()
	var err error
	for call := "call"; call != "" && err == nil; {
		if call, err = s.ask(x, said); call == "" || err != nil {
			break
		}
		s.events(x, [2]string{"tool.started", `{"call":"` + call + `"}`})
		if err = post(context.Background(), s.upstream+"/put", `{"text":"kept"}`, nil); err == nil {
			s.events(x, [2]string{"tool.ended", `{"call":"` + call + `","output":"kept"}`})
			said = append(said[:len(said):len(said)], callMessage(call), resultMessage(call))
		}
	}
	if err != nil {
		text, _ := json.Marshal(err.Error())
		s.events(x, [2]string{"turn.failed", string(text)})
	}
	x.mu.Lock()
	x.turns = false
	x.wake()
	x.mu.Unlock()
}

// ask calls the model. It returns the id of the call of a tool that the reply is, or "" when the reply
// has ended the turn.
func (s *relayServer) ask(x *relaySession, said []chatMessage) (string, error) {
	resp, err := open(context.Background(), http.MethodPost, s.upstream+chatPath, string(chatRequest(said...)), "text/event-stream")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	call := &relayCall{}
	var tool string
	for f, err := range sse.Decode(resp.Body, 1<<20) {
		if err != nil {
			return "", err
		}
		if id, found := callIn(f.Data); found {
			tool = id
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal(f.Data, &chunk) != nil || len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
			continue
		}
		x.mu.Lock()
		call.text.WriteString(chunk.Choices[0].Delta.Content)
		x.flight = call
		x.wake()
		x.mu.Unlock()
	}
	if tool != "" {
		return tool, nil
	}
	text, _ := json.Marshal(call.text.String())
	x.mu.Lock()
	x.said = append(x.said[:len(x.said):len(x.said)], chatText("assistant", call.text.String()))
	x.mu.Unlock()
	s.events(x, [2]string{"model.replied", `{"parts":[{"type":"text","text":` + string(text) + `}]}`}, [2]string{"turn.completed", "{}"})
	return "", nil
}

// keep writes text in flight.
func (s *relayServer) keep(ctx context.Context) {
	tick := time.NewTicker(relayKeeps)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var rows []row
		s.mu.Lock()
		for _, x := range s.sessions {
			x.mu.Lock()
			if c := x.flight; c != nil && c.text.Len() > c.kept {
				rows = append(rows, row{key: x.id + " flight " + strconv.Itoa(c.kept), body: bytes.Clone(c.text.Bytes()[c.kept:])})
				c.kept = c.text.Len()
			}
			x.mu.Unlock()
		}
		s.mu.Unlock()
		if len(rows) > 0 {
			s.append(rows...)
		}
	}
}

func (s *relayServer) follow(w http.ResponseWriter, r *http.Request) {
	x := s.session(r)
	if x == nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	from, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // none is from the beginning
	s.stream(w, r, x, from, false)
}

// stream shows a session from a number on: events, and text as it comes.
func (s *relayServer) stream(w http.ResponseWriter, r *http.Request, x *relaySession, from int, turn bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	_, _ = io.WriteString(w, ": hello\n\n")
	var of *relayCall // the call whose text was shown up to shown
	shown := 0
	var out []byte
	for {
		out = out[:0]
		x.mu.Lock()
		grown, running := x.grown, x.turns
		for ; from < len(x.frames); from++ {
			out = append(out, x.frames[from]...)
		}
		if x.flight != of {
			of, shown = x.flight, 0
		}
		if of != nil && of.text.Len() > shown {
			kind := "model.delta"
			if shown == 0 && !turn {
				kind = "model.partial"
			}
			text, _ := json.Marshal(string(of.text.Bytes()[shown:]))
			out = append(out, "event: "+kind+"\ndata: {\"text\":"+string(text)+"}\n\n"...)
			shown = of.text.Len()
		}
		x.mu.Unlock()
		if _, err := w.Write(out); err != nil || flush.Flush() != nil || turn && !running {
			return
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}
