package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// plan tells the upstream what to produce. It is written as a user's message, so that it passes
// through an agent server unchanged.
type plan struct {
	id     string
	tokens int
	every  time.Duration // between two tokens; 0: as fast as it goes
}

const planForm = "stream %s %d %d"

func (p plan) String() string {
	return fmt.Sprintf(planForm, p.id, p.tokens, p.every.Microseconds())
}

// readPlan finds the last plan in a text, which may be a provider's request.
func readPlan(text string) (p plan, err error) {
	var micros int64
	at := max(0, strings.LastIndex(text, "stream "))
	if _, err := fmt.Sscanf(text[at:], planForm, &p.id, &p.tokens, &micros); err != nil {
		return p, fmt.Errorf("%q is no plan: %w", text, err)
	}
	p.every = time.Duration(micros) * time.Microsecond
	return p, nil
}

// words are the tokens, in turn: typical in length, and without JSON escapes.
var words = []string{" the", " session", " keeps", " its", " log", " and", " a", " reader", " goes", " on", " from", " any", " number", ".", " So", " it"}

func word(i int) string { return words[i%len(words)] }

// upstream produces tokens as server-sent events and records when.
type upstream struct {
	mu   sync.Mutex
	sent map[string][]int64 // wall clock in nanoseconds, by plan and token
}

func serveUpstream(ctx context.Context, _ []string, ready func(string, func() int)) error {
	u := &upstream{sent: map[string][]int64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tokens", func(w http.ResponseWriter, r *http.Request) { u.say(w, r, bare) })
	mux.HandleFunc("POST "+chatPath, u.chat)
	mux.HandleFunc("GET /v1/models", u.models)
	mux.HandleFunc("POST /put", u.put)
	mux.HandleFunc("GET /sent", u.times)
	if err := u.wires(mux); err != nil {
		return err
	}
	return serve(ctx, mux, ready, func() int { return 0 })
}

// serve listens on loopback until ctx ends.
func serve(ctx context.Context, h http.Handler, ready func(string, func() int), loaded func() int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	ready(l.Addr().String(), loaded)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	err = srv.Close() // streams are cut off: nobody needs their ends
	<-done
	return err
}

const maxAsk = 1 << 20

// say answers in one of the forms.
func (u *upstream) say(w http.ResponseWriter, r *http.Request, f form) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAsk))
	if err != nil {
		return
	}
	p, err := readPlan(string(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	u.produce(w, r, p, f)
}

// produce sends the tokens of a plan.
func (u *upstream) produce(w http.ResponseWriter, r *http.Request, p plan, f form) {
	_, _ = w.Write(f.head)
	flush := http.NewResponseController(w)
	sent := make([]int64, 0, p.tokens)
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.sent[p.id] = sent
	}()
	began := time.Now()
	wait := time.NewTimer(0)
	defer wait.Stop()
	var line []byte
	for i := range p.tokens {
		if p.every > 0 {
			wait.Reset(time.Until(began.Add(time.Duration(i) * p.every)))
			select {
			case <-wait.C:
			case <-r.Context().Done():
				return
			}
		}
		line = append(line[:0], f.before...)
		line = append(line, word(i)...)
		line = append(line, f.behind...)
		sent = append(sent, time.Now().UnixNano())
		if _, err := w.Write(line); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
	}
	_, _ = w.Write(f.tail)
}

// times returns when the tokens of a plan were produced.
func (u *upstream) times(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	u.mu.Lock()
	sent := u.sent[id]
	delete(u.sent, id)
	u.mu.Unlock()
	_ = json.NewEncoder(w).Encode(sent)
}
