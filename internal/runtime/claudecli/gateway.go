package claudecli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// gateway is the only way from CLIs to models. It listens on loopback. Each process has a token of
// its own, which ends with it; the keys of providers stay here. Only the endpoint for model calls
// exists.
type gateway struct {
	mu     sync.Mutex
	byKey  map[string]*process
	server *http.Server
	url    string
	at     int // its port
}

// maxBody limits a request of a CLI, in bytes. It is the limit of Anthropic's API.
const maxBody = 32 << 20

// start listens, unless it does already.
func (g *gateway) start() (url string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.server != nil {
		return g.url, nil
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", parley.Errorf(parley.CodeUnavailable, "the gateway for the Claude CLI cannot listen on loopback: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", g.messages)
	g.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	g.url = "http://" + l.Addr().String()
	g.at = l.Addr().(*net.TCPAddr).Port
	go func() { _ = g.server.Serve(l) }() // it ends with close
	return g.url, nil
}

// port is where it listens, after start.
func (g *gateway) port() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at
}

func (g *gateway) close() {
	g.mu.Lock()
	s := g.server
	g.mu.Unlock()
	if s != nil {
		_ = s.Close() // whatever is under way has lost its turn
	}
}

// admit makes the token of a process.
func (g *gateway) admit(p *process) (token string) {
	token = "parley-" + rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byKey == nil {
		g.byKey = map[string]*process{}
	}
	g.byKey[token] = p
	return token
}

func (g *gateway) expel(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byKey, token)
}

// messages serves one model call.
func (g *gateway) messages(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && key == "" {
		key = bearer
	}
	g.mu.Lock()
	p := g.byKey[key]
	g.mu.Unlock()
	if p == nil || key == "" {
		refuse(w, http.StatusUnauthorized, "authentication_error", "the token is not one of a running process")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return // the CLI is gone
	case len(body) > maxBody:
		refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "Request exceeds the maximum size")
		return
	}
	t, err := p.await(r.Context(), func(t *turn) { t.serving.Add(1) })
	if err != nil {
		// 403 is not tried again by the CLI.
		refuse(w, http.StatusForbidden, "permission_error", parley.Info(err).Message)
		return
	}
	defer t.serving.Done()
	t.model(w, r, body)
}

// refuse writes an error as Anthropic's API does.
func refuse(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": text}}) // the CLI may be gone
}

// local sends a request to a handler of this process and returns its response, whose body is
// written while it is read.
func local(ctx context.Context, h http.Handler, req *http.Request) (*http.Response, error) {
	pr, pw := io.Pipe()
	w := &pipeWriter{pw: pw, head: http.Header{}, began: make(chan struct{})}
	go func() {
		defer func() {
			var end error
			if p := recover(); p != nil { // http.ErrAbortHandler cuts the connection
				end = io.ErrUnexpectedEOF
			}
			w.WriteHeader(http.StatusOK)
			_ = pw.CloseWithError(end)
		}()
		h.ServeHTTP(w, req.WithContext(ctx))
	}()
	select {
	case <-w.began:
		return &http.Response{StatusCode: w.status, Header: w.sent, Body: pr, Request: req, ProtoMajor: 1, ProtoMinor: 1}, nil
	case <-ctx.Done():
		_ = pr.CloseWithError(ctx.Err())
		return nil, context.Cause(ctx)
	}
}

// pipeWriter is the http.ResponseWriter of local.
type pipeWriter struct {
	pw     *io.PipeWriter
	head   http.Header
	once   sync.Once
	began  chan struct{}
	status int
	sent   http.Header
}

func (w *pipeWriter) Header() http.Header { return w.head }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.head.Clone()
		close(w.began)
	})
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pw.Write(b)
}

// Flush implements http.Flusher. Nothing is held back.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }
