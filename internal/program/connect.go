package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// link is a command's access to a data folder: a client of the process that owns it, or
// of the command itself if that had to open the folder.
type link struct {
	*client.Client
	settings  config.Settings
	server    *taker            // how the process that has the folder is reached; nil: it was this one from the start
	transport http.RoundTripper // to address, for requests outside the native API
	close     func() error
	away      func(error) // see client.Options.Away; nil: nobody wants to know
}

// tell passes on that the server is away, or back.
func (l *link) tell(err error) {
	if l.away != nil {
		l.away(err)
	}
}

// own reports whether this process has the data folder.
func (l *link) own() bool { return l.server == nil || l.server.taken() != nil }

// telling is a client of the owner that waits for it, and tells away about that.
func (l *link) telling(away func(error)) *client.Client {
	if l.server == nil {
		return l.Client
	}
	return client.New(client.Options{BaseURL: address, Transport: l.transport, Patience: awayFor, Insist: true, Away: away})
}

// address stands for the owner, however it is reached.
const address = "http://parley"

// access is what a command may do to a data folder that no server has open.
type access int

const (
	mayMake  access = 1 << iota // create the folder; without this it must exist
	recovers                    // recover after a crash
	stays                       // it ends with its client, not by itself: it never takes a folder over
	listens                     // while it has the folder, other commands may use it
)

// connect finds the owner of the data folder, or becomes it.
func (f *flags) connect(cmd *cobra.Command, how access) (*link, error) {
	s, err := f.settings(cmd)
	if err != nil {
		return nil, err
	}
	tidy := func() {}
	if how&mayMake == 0 {
		has, err := hasData(s.Data)
		if err == nil && !has {
			s, tidy, err = elsewhere(s)
		}
		if err != nil {
			return nil, err
		}
	}
	l, err := f.reach(cmd, s, how)
	if err != nil {
		tidy()
		return nil, err
	}
	end := l.close
	l.close = func() error { defer tidy(); return end() }
	return l, nil
}

// hasData reports whether a server or command has used the folder before. It returns an
// error if the path is not a folder or cannot be read.
func hasData(dir string) (bool, error) {
	if err := notFolder(dir); err != nil {
		return false, err
	}
	for _, name := range []string{lockFile, sqlite.FileName} {
		_, err := os.Stat(filepath.Join(dir, name))
		if err == nil {
			return true, nil
		}
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err // the path is of a file in it
		}
		return false, parley.Errorf(parley.CodeUnavailable, "the data folder %s: %w", dir, err).
			WithHint("name another with --data or PARLEY_DATA, or check its permissions")
	}
	return false, nil
}

// notFolder returns an error if the data folder is something else.
func notFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return parley.Errorf(parley.CodeInvalid, "the data folder %s is a file", dir).WithHint("name another with --data or PARLEY_DATA")
	}
	return nil
}

// elsewhere handles a missing data folder for a command that only reads. It fails, since
// a mistyped name must not create a folder. But if the logs are in PostgreSQL there is
// something to read; the lock is then taken in a temporary folder.
func elsewhere(s config.Settings) (config.Settings, func(), error) {
	at, err := storeOf(s)
	if err != nil {
		return s, nil, err
	}
	if at.kind != "postgres" {
		what := "does not exist"
		if _, err := os.Stat(s.Data); err == nil {
			what = "holds no sessions"
		}
		return s, nil, parley.Errorf(parley.CodeNotFound, "the data folder %s %s", s.Data, what).
			WithHint("name another with --data or PARLEY_DATA; parley serve, demo and run create one")
	}
	if s.Data, err = os.MkdirTemp("", "parley-"); err != nil {
		return s, nil, parley.Errorf(parley.CodeUnavailable, "make a temporary folder: %w", err)
	}
	return s, func() { _ = os.RemoveAll(s.Data) }, nil
}

// reach finds the owner of the folder in s, or becomes it. It waits for another command
// that is the owner, which nothing can be asked of.
func (f *flags) reach(cmd *cobra.Command, s config.Settings, how access) (*link, error) {
	ctx := cmd.Context()
	began := time.Now()
	var before holder
	found, said := began, false // when it was before who had the folder
	for {
		own, err := takeLock(s.Data, cmd.Name())
		if err == nil {
			return f.open(cmd, s, own, how)
		}
		held, ok := errors.AsType[*errHeld](err)
		if !ok {
			return nil, err
		}
		h := held.holder
		if h.Socket != "" {
			if l := dial(ctx, f.takes(cmd, h, s, how), s); l != nil {
				f.notUsed(cmd, h)
				return l, nil
			}
		}
		if h.PID != before.PID {
			before, found = h, time.Now()
		}
		switch {
		case h.ends() && time.Since(began) > inUseWithin:
			return nil, parley.Errorf(parley.CodeUnavailable, "%w, which has not ended within %s", held, inUseWithin).
				WithHint("wait until it has ended, or stop it; commands beside a running server (parley serve) need not wait for each other")
		case h.ends() && !said:
			said = true
			fmt.Fprintf(cmd.ErrOrStderr(), "parley: waiting for %s, which has the data folder open\n", h)
		case !h.ends() && time.Since(found) > startWithin, time.Since(began) > inUseWithin+startWithin:
			return nil, parley.Errorf(parley.CodeUnavailable, "%w, which does not answer", held).
				WithHint("wait for it, stop it, or look at its log")
		}
		if err := pauseInUse(ctx); err != nil {
			return nil, err
		}
	}
}

// notUsed says which flags of a command mean nothing, because a server with settings of
// its own does the work.
func (f *flags) notUsed(cmd *cobra.Command, h holder) {
	for _, name := range unused(cmd) {
		fmt.Fprintf(cmd.ErrOrStderr(), "parley: --%s is not used: %s %s; %s\n", name, h, asStarted, notStarted)
	}
}

const (
	asStarted  = "has the data folder open, and works as it was started"
	notStarted = "stop it, or name another folder with --data"
)

// unused returns the flags of a command that a server with settings of its own does not read.
func unused(cmd *cobra.Command) (list []string) {
	for _, name := range []string{"apps", "store"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			list = append(list, name)
		}
	}
	return list
}

// dial connects to the owner's socket; nil when nobody listens there.
func dial(ctx context.Context, t *taker, s config.Settings) *link {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", t.h.Socket)
	if err != nil {
		return nil
	}
	_ = conn.Close()
	transport := &http.Transport{DialContext: t.dial}
	l := &link{
		settings: s, server: t, transport: transport,
		close: func() error {
			defer transport.CloseIdleConnections()
			if at := t.taken(); at != nil {
				return at.close()
			}
			return nil
		},
	}
	l.Client = l.telling(l.tell)
	return l
}

// open makes this process the owner.
func (f *flags) open(cmd *cobra.Command, s config.Settings, own *lock, how access) (*link, error) {
	at, err := f.here(cmd, s, own, how&recovers != 0)
	if err != nil {
		return nil, err
	}
	if how&listens != 0 {
		if err := at.listen(s, own); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "parley: until this command ends, no other one can use the data folder:", err)
		}
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return at.pipe.dial(ctx) }}
	return &link{
		Client:    client.New(client.Options{BaseURL: address, Transport: transport}),
		settings:  s,
		transport: transport,
		close: func() error {
			defer transport.CloseIdleConnections()
			return at.close()
		},
	}, nil
}

// with runs do over a link and closes it.
func (f *flags) with(cmd *cobra.Command, how access, do func(ctx context.Context, l *link) error) error {
	l, err := f.connect(cmd, how)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(cmd.Context())
	defer end(nil)
	if l.server != nil {
		l.server.fail = end
	}
	return errors.Join(do(ctx, l), l.close())
}
