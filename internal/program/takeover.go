package program

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley/internal/config"
)

// freeFor is how long a data folder must be free before a command takes it over from a server
// that has stopped. A restarted server, for example by a service manager, gets it first.
const freeFor = 500 * time.Millisecond

// awayFor is how long a command waits for a server that does not answer; 0: as long as any
// client does. Tests shorten it.
var awayFor time.Duration

// inProcess is a server inside this process, over a pipe.
type inProcess struct {
	pipe  *pipeListener
	close func() error
	owner http.Handler // for other commands of the folder's owner
}

// listen serves other commands, on the folder's socket.
func (at *inProcess) listen(s config.Settings, own *lock) error {
	unix, path, err := listenSocket(s.Data)
	if err != nil {
		return err
	}
	srv := newServer(at.owner, s.Limits, slog.New(slog.DiscardHandler))
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(socketOf{unix, own.held}) }()
	end := at.close
	at.close = func() error {
		_ = srv.Close()
		<-served
		return end()
	}
	return own.listening("", path)
}

// here makes this process the owner of the data folder. It serves the same doors over a pipe
// instead of a socket, so a command works the same either way. It takes over the lock own.
func (f *flags) here(cmd *cobra.Command, s config.Settings, own *lock, recover bool) (*inProcess, error) {
	ctx := cmd.Context()
	if !cmd.Flags().Changed("log-level") && s.Log.Level == "info" {
		s.Log.Level = "warn" // a command is not a server
	}
	in, err := f.kit.open(ctx, s, own, recover, newLogger(s, cmd.ErrOrStderr()))
	if err != nil {
		return nil, err
	}
	pipe := newPipe()
	srv := newServer(in.Handler, s.Limits, slog.New(slog.DiscardHandler))
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(pipe) }()
	return &inProcess{pipe: pipe, owner: in.house.owner(), close: func() error {
		err := in.house.close(ctx, in.grace)
		_ = srv.Close()
		<-served
		own.release()
		return err
	}}, nil
}

// taker connects a command to the server that has the data folder. If the server has stopped
// and the folder is free, the command takes the folder over. But if the server has already
// accepted something from the command, the command waits for the server to come back and
// follows what it does. If the folder cannot be opened, the command ends with the reason,
// because a server could not open it either. Requests whose answer was lost are repeated with
// their keys, so that nothing is done twice.
type taker struct {
	h    holder
	free func() bool // reports whether the folder exists and no process has it
	take func() (*inProcess, error)
	fail func(error) // ends the command, because it cannot take the server's place

	mu    sync.Mutex
	since time.Time // since when the folder is free; zero: it is not known to be
	waits bool      // the command waits for the server, or could not take its place
	at    *inProcess
}

// dial implements the DialContext of a transport.
func (t *taker) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at != nil {
		return t.at.pipe.dial(ctx)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", t.h.Socket)
	switch {
	case err == nil || t.waits:
		return conn, err
	case !t.free():
		t.since = time.Time{}
		return nil, err
	case t.since.IsZero():
		t.since = time.Now()
		return nil, err
	case time.Since(t.since) < freeFor:
		return nil, err
	}
	at, wrong := t.take()
	switch {
	case wrong != nil:
		t.waits = true
		t.fail(wrong)
		return nil, wrong
	case at == nil: // another process was faster
		t.since = time.Time{}
		return nil, err
	}
	t.at = at
	return at.pipe.dial(ctx)
}

// accepted notes that the server has accepted something from the command.
func (t *taker) accepted() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waits = true
	}
}

// taken returns the server in this process, or nil.
func (t *taker) taken() *inProcess {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// takes returns the taker for a command that is served by the server h.
func (f *flags) takes(cmd *cobra.Command, h holder, s config.Settings, how access) *taker {
	return &taker{
		h: h, waits: how&stays != 0,
		free: func() bool {
			there, err := hasData(s.Data)
			now, herr := holderOf(s.Data)
			return there && err == nil && now == nil && herr == nil
		},
		take: func() (*inProcess, error) {
			own, err := takeLock(s.Data, cmd.Name())
			if err != nil {
				return nil, nil //nolint:nilerr,nilnil // the next attempt sees who has it
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "parley: the server has stopped; this command works in its place")
			at, err := f.here(cmd, s, own, how&recovers != 0)
			if err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "parley: it cannot; what the server has accepted is stored, so check before you repeat the command")
			}
			return at, err
		},
	}
}
