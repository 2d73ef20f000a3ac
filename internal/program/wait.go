package program

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// roomEvery is how often a server without disk space tries to start again.
const roomEvery = time.Second

// onceThereIsRoom does what needs disk space, and on a full disk repeats it until it
// succeeds. Meanwhile the door answers that the process is alive, and everything else
// with the error. It returns ctx's cause if that ends first.
func onceThereIsRoom(ctx context.Context, door net.Listener, listening func(), limits config.Limits, log *slog.Logger, do func() error) error {
	err := do()
	if !passes(err) {
		return err
	}
	log.Error("the server cannot begin yet and waits", "err", err, "hint", parley.Info(err).Hint)
	listening()
	srv := newServer(notYet(err), limits, log)
	lent := &lentListener{Listener: door}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(lent) }()
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for passes(err) {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-tick.C:
			err = do()
		}
	}
	_ = srv.Close()
	<-done
	if err == nil {
		err = lent.back()
		log.Info("the server could begin")
	}
	return err
}

// passes reports whether err may go away by itself, for example once there is space
// again.
func passes(err error) bool {
	return errors.Is(err, sqlite.ErrLater) || noRoom(err)
}

func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// inFolder is the error of a file that the server keeps in the data folder beside its
// store.
func inFolder(what string, err error, hint string) error {
	e := parley.Errorf(parley.CodeUnavailable, what+": %w", err).WithHint("%s", hint)
	if noRoom(err) {
		e.Message = "there is no room in the data folder"
		return e.WithHint("free disk space there; a server that waits for it goes on by itself once that is done").WithRetry(roomEvery)
	}
	return e
}

// notYet answers requests while the store has no room, in the one shape of errors.
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

// lentListener is a listener that survives being closed by a server.
type lentListener struct{ net.Listener }

type deadlined interface{ SetDeadline(time.Time) error }

func (l *lentListener) Close() error {
	if d, ok := l.Listener.(deadlined); ok {
		return d.SetDeadline(time.Unix(1, 0)) // Accept returns
	}
	return l.Listener.Close()
}

// back makes the listener usable again.
func (l *lentListener) back() error {
	if d, ok := l.Listener.(deadlined); ok {
		return d.SetDeadline(time.Time{})
	}
	return nil
}
