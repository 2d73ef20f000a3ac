package program

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/store/sqlite"
)

// front is a server that commands take for the one that has the data folder.
type front struct {
	*httptest.Server
	socket string
}

func newFront(t *testing.T, h http.Handler) *front {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	f := &front{Server: httptest.NewUnstartedServer(h), socket: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Listener.Close()
	f.Listener = l
	f.Start()
	t.Cleanup(func() { f.Close(); _ = os.RemoveAll(dir) })
	return f
}

// asks is a parley run whose requests go to a front. It waits for a server for less time than in
// production, so that a failing test fails soon.
type asks struct {
	t         *testing.T
	cmd       *exec.Cmd
	out, errs strings.Builder
	done      chan error
}

func (p *program) asks(message string) *asks {
	p.t.Helper()
	p.env = append(p.env, awayVariable+"=20s")
	a := &asks{t: p.t, cmd: p.command("run", "--app", "chaos", message), done: make(chan error, 1)}
	a.cmd.Stdout, a.cmd.Stderr = &a.out, &a.errs
	if err := a.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { a.done <- a.cmd.Wait() }()
	return a
}

// until waits for c, which must happen while the command runs.
func (a *asks) until(c <-chan struct{}, what string) {
	a.t.Helper()
	select {
	case <-c:
	case err := <-a.done:
		a.t.Fatalf("it ended before %s: %v\n%s", what, err, &a.errs)
	}
}

// answered checks that the command ended with an answer that it made itself, without a server.
func (a *asks) answered() {
	a.t.Helper()
	err := <-a.done
	errs := a.errs.String()
	if err != nil || a.out.Len() == 0 || !strings.Contains(errs, "works in its place") || strings.Contains(errs, "is back") {
		a.t.Errorf("it did not answer in the server's place: %v: %s\n%s", err, &a.out, errs)
	}
}

// stopping is a front that answers like a server that is about to stop and accepts nothing. It
// holds the folder until the command has tried to send its message.
func (p *program) stopping() (f *front, own *lock, refused chan struct{}) {
	p.t.Helper()
	p.serve().stop(p.t)
	own, err := takeLock(p.data, "serve")
	if err != nil {
		p.t.Fatal(err)
	}
	refused = make(chan struct{}, 1)
	f = newFront(p.t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"code":"unavailable","message":"the server is shutting down"}}`)
		if r.Method == http.MethodPost {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
	}))
	if err := own.listening("", f.socket); err != nil {
		p.t.Fatal(err)
	}
	return f, own, refused
}

// TestRun_when_the_folder_cannot_be_opened: a server has stopped, and the command cannot take its
// place. It says why at once, because nobody repairs the folder while it waits.
func TestRun_when_the_folder_cannot_be_opened(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	f, own, refused := p.stopping()
	a := p.asks(question1)
	a.until(refused, "it sent its message")
	if err := os.WriteFile(filepath.Join(p.data, sqlite.FileName), []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Close()
	own.release()
	err := <-a.done
	if errs := a.errs.String(); err == nil || a.out.Len() > 0 || !strings.Contains(errs, "file is not a database") ||
		!strings.Contains(errs, "it cannot; what the server has accepted is stored") || strings.Contains(errs, "has not answered") {
		t.Errorf("%v: %s\n%s", err, &a.out, errs)
	}
}

// TestRun_when_the_server_stops: a server that is stopping has not accepted the message of the
// command, or has accepted it but could not say so. The command continues in its place as soon as
// the server has released the folder. The message is sent only once.
func TestRun_when_the_server_stops(t *testing.T) {
	t.Parallel()
	t.Run("nothing was accepted", func(t *testing.T) {
		t.Parallel()
		p := newProgram(t)
		f, own, refused := p.stopping()
		a := p.asks(question1)
		a.until(refused, "it sent its message")
		f.Close()
		own.release()
		a.answered()
		oneTurn(t, p)
	})
	t.Run("the message was accepted", func(t *testing.T) {
		t.Parallel()
		p := newProgram(t)
		s := p.serve()
		h, err := holderOf(p.data)
		if err != nil || h == nil {
			t.Fatal(h, err)
		}
		socket := h.Socket
		forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "parley"})
		forward.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}}
		accepted := make(chan struct{}, 1)
		f := newFront(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/turns") {
				forward.ServeHTTP(w, r)
				return
			}
			forward.ServeHTTP(httptest.NewRecorder(), r)
			select {
			case accepted <- struct{}{}:
			default:
			}
			panic(http.ErrAbortHandler)
		}))
		h.Socket = f.socket
		named, _ := json.Marshal(h)
		if err := os.WriteFile(filepath.Join(p.data, lockFile), append(named, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		a := p.asks(question1)
		a.until(accepted, "its message was accepted")
		s.kill()
		f.Close()
		a.answered()
		oneTurn(t, p)
	})
}

// oneTurn checks that the only session has exactly one turn.
func oneTurn(t *testing.T, p *program) {
	t.Helper()
	asked := 0
	for line := range strings.Lines(p.must("session", "events", "last")) {
		if strings.Contains(line, "turn.started") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}
