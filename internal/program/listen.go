package program

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/edge"
)

// newServer is the edge of one listener. Each has its own limits, so that the owner's
// socket accepts connections when the network's listener is full.
func newServer(h http.Handler, l config.Limits, log *slog.Logger) *edge.Server {
	return edge.New(h, edge.Options{
		Connections: l.MaxConnections, PerAddress: l.MaxConnectionsPerAddress, UploadRate: int(l.MinUploadRate),
		Refuse: api.Unread, Logger: log,
	})
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func listenTCP(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "%w", err).WithHint("choose another address with --addr, such as 127.0.0.1:0 for any free port")
	}
	return l, nil
}

// listenSocket listens in the data folder. The caller holds its lock, so an existing
// socket was left by a dead process.
func listenSocket(dir string) (net.Listener, string, error) {
	path, err := socketPath(dir)
	if err != nil {
		return nil, "", err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", parley.Errorf(parley.CodeUnavailable, "remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, "", inFolder("listen on the data folder's socket", err, "the folder's file system must support sockets; name another folder with --data")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, "", parley.Errorf(parley.CodeUnavailable, "protect the socket: %w", err)
	}
	return l, path, nil
}

// socketOf is a socket that belongs to its data folder. If another folder has replaced
// it, the socket at its path is another server's.
type socketOf struct {
	net.Listener
	held func() error
}

func (s socketOf) Close() error {
	if u, ok := s.Listener.(*net.UnixListener); ok && s.held() != nil {
		u.SetUnlinkOnClose(false)
	}
	return s.Listener.Close()
}

// pipeListener is a listener inside the process, for in-memory connections.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipe() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipeListener) Addr() net.Addr { return pipeAddr{} }

func (p *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "in-process" }
