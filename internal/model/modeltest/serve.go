package modeltest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Serve serves a provider's simulated API on loopback. It handles faults in the bytes: Hang,
// Cut, Fault and Bytewise. closed is closed when the first connection has ended.
//
// The handler must flush after each event of a stream, because faults are placed by counting
// flushes.
func Serve(t *testing.T, h http.Handler, b Behaviour) (srv *httptest.Server, closed <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{})
	var once sync.Once
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(h, b, w, r)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed || s == http.StateHijacked {
			once.Do(func() { close(ended) })
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, ended
}

func serve(h http.Handler, b Behaviour, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		h.ServeHTTP(w, r)
		return
	}
	switch {
	case b.Hang:
		_, _ = io.Copy(io.Discard, r.Body)
		if b.taken != nil {
			select {
			case b.taken <- struct{}{}:
			default:
			}
		}
		<-r.Context().Done()
		return
	case b.Fault == FaultPage, b.Fault == FaultGateway:
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if b.Fault == FaultGateway {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title><h1>It works!</h1>")
		return
	}
	bad := &badWriter{ResponseWriter: w, b: b}
	h.ServeHTTP(bad, r)
	if bad.over && b.Fault == "" {
		panic(http.ErrAbortHandler)
	}
}

var errOver = errors.New("modeltest: the connection has ended")

// badWriter corrupts an answer.
type badWriter struct {
	http.ResponseWriter
	b       Behaviour
	flushes int
	over    bool
}

// Unwrap is for http.ResponseController.
func (w *badWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *badWriter) Flush() {
	w.flushes++
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// FlushError is the method http.ResponseController tries first.
func (w *badWriter) FlushError() error { w.Flush(); return nil }

func (w *badWriter) Write(p []byte) (int, error) {
	if w.over {
		return 0, errOver
	}
	if w.flushes > 2*some {
		switch {
		case w.b.Cut:
			w.over = true
			_, _ = w.ResponseWriter.Write(p[:len(p)/2])
			_ = http.NewResponseController(w.ResponseWriter).Flush()
			return 0, errOver
		case w.b.Fault == FaultEnd:
			w.over = true
			return 0, errOver
		case w.b.Fault == FaultChunk:
			w.over = true
			_, _ = io.WriteString(w.ResponseWriter, "data: {\"type\":\"content_block_delta\",\"oops\": nu\n\n")
			return 0, errOver
		}
	}
	if !w.b.Bytewise {
		return w.ResponseWriter.Write(p)
	}
	for i := range p {
		if _, err := w.ResponseWriter.Write(p[i : i+1]); err != nil {
			return i, err
		}
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return len(p), nil
}
