//go:build unix

package postgres_test

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy is a network between a store and PostgreSQL. The network can fail.
type proxy struct {
	dsn     string
	refuse  atomic.Bool // new connections
	mu      sync.Mutex
	hurting []*line
}

// line is a connection through the proxy.
type line struct {
	client, server net.Conn
	// A deaf line drops the client's data, a mute line the server's. Both then close the
	// client's connection; the server does not learn of it.
	deaf, mute atomic.Bool
}

func newProxy(t *testing.T, dsn string) *proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	must(t, err)
	q := u.Query()
	real := filepath.Join(q.Get("host"), ".s.PGSQL.5432")
	dir, err := os.MkdirTemp("", "pgproxy") // the path of t.TempDir can be too long for a socket
	must(t, err)
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	must(t, err)
	p := &proxy{dsn: u.String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if p.refuse.Load() {
				c.Close()
				continue
			}
			s, err := net.Dial("unix", real)
			if err != nil {
				c.Close()
				continue
			}
			p.carry(&all, &line{client: c, server: s})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.each(func(l *line) { l.client.Close(); l.server.Close() })
		all.Wait()
		os.RemoveAll(dir)
	})
	return p
}

func (p *proxy) carry(all *sync.WaitGroup, l *line) {
	p.mu.Lock()
	p.hurting = append(p.hurting, l)
	p.mu.Unlock()
	pipe := func(to, from net.Conn, lose *atomic.Bool) {
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if lose.Load() {
				l.client.Close()
				return
			}
			if err == nil {
				_, err = to.Write(buf[:n])
			}
			if err != nil {
				to.Close()
				return
			}
		}
	}
	all.Go(func() { pipe(l.server, l.client, &l.deaf) })
	all.Go(func() {
		pipe(l.client, l.server, &l.mute)
		// The server's remaining output must be read.
		_, _ = io.Copy(io.Discard, l.server)
	})
}

func (p *proxy) each(f func(*line)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.hurting {
		f(l)
	}
}
