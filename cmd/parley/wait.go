package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// roomEvery is how often a server that could not open its store tries again.
const roomEvery = time.Second

// buildOnceThereIsRoom is build, which on a full disk waits until it can. Meanwhile
// the door is open: the server says that it lives, and answers everything else with
// what is wrong. It is nil without an error when ctx ended first.
func (p *plan) buildOnceThereIsRoom(ctx context.Context, notices []string, door net.Listener, listening func(), log *slog.Logger) (*house, error) {
	h, err := p.build(ctx, notices, log)
	if !errors.Is(err, sqlite.ErrLater) {
		return h, err
	}
	log.Error("the store can not be opened; the server waits", "err", err, "hint", parley.Info(err).Hint)
	listening()
	srv := newServer(notYet(err), p.settings.Limits, log)
	lent := &lentListener{Listener: door}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(lent) }()
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for errors.Is(err, sqlite.ErrLater) {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-tick.C:
			h, err = p.build(ctx, notices, log)
		}
	}
	_ = srv.Close()
	<-done
	if ctx.Err() != nil && h == nil {
		return nil, nil
	}
	if err == nil {
		err = lent.back()
		log.Info("the store could be opened")
	}
	return h, err
}

// notYet answers as a server does whose store has no room: in the shape of all
// errors.
func notYet(err error) http.Handler {
	info := parley.Info(err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if r.URL.Path == "/healthz" {
			_, _ = w.Write([]byte(`{"status":"ok"}` + "\n"))
			return
		}
		w.Header().Set("Retry-After", strconv.Itoa(int(max(roomEvery, time.Duration(info.RetryAfterMS)*time.Millisecond)/time.Second)))
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]parley.ErrorInfo{"error": info})
	})
}

// lentListener is a listener that a server may close and that goes on afterwards.
type lentListener struct{ net.Listener }

type deadlined interface{ SetDeadline(time.Time) error }

func (l *lentListener) Close() error {
	if d, ok := l.Listener.(deadlined); ok {
		return d.SetDeadline(time.Unix(1, 0)) // Accept returns
	}
	return l.Listener.Close()
}

// back makes the listener listen again.
func (l *lentListener) back() error {
	if d, ok := l.Listener.(deadlined); ok {
		return d.SetDeadline(time.Time{})
	}
	return nil
}
