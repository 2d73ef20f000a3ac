package edge

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

// piece is what a client has Options.WriteWithin for. It is small, so that a slow
// line has time for a large answer.
const piece = 64 << 10

// Write implements net.Conn. A client that takes nothing is cut.
func (c *conn) Write(b []byte) (int, error) {
	if !c.handled.Load() && c.of.o.Refuse != nil {
		if own := c.reworded(b); own != nil {
			_, err := c.write(own)
			return len(b), err
		}
	}
	return c.write(b)
}

func (c *conn) write(b []byte) (int, error) {
	done := 0
	for {
		part := b[done:min(len(b), done+piece)]
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.of.o.WriteWithin)); err != nil {
			return done, err
		}
		if c.cut.Load() {
			return done, os.ErrDeadlineExceeded
		}
		n, err := c.Conn.Write(part)
		if done += n; err != nil || done == len(b) {
			return done, err
		}
	}
}

// SetWriteDeadline implements net.Conn. One that has passed ends a write of
// several pieces, too.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.cut.Store(!t.IsZero() && !t.After(time.Now()))
	return c.Conn.SetWriteDeadline(t)
}

// reworded returns our wording of a refusal that net/http writes by itself, in one write. It
// returns nil if b is no such refusal. net/http's own text has nothing of the request in it.
func (c *conn) reworded(b []byte) []byte {
	line, _, _ := bytes.Cut(b, []byte("\r\n"))
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return nil
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil || status < http.StatusBadRequest {
		return nil
	}
	_, said, _ := bytes.Cut(line, []byte(": "))
	kind, body := c.of.o.Refuse(status, string(said))
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), kind, len(body), body)
}

// CloseWrite lets net/http say goodbye before it closes: an answer that is on its
// way when the rest of a request comes in would be lost else.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.closed.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.drop(c)
	})
	return c.Conn.Close()
}
