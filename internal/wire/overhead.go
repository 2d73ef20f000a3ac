package wire

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// Every frame costs about the same CPU time, however little it carries. The library does not
// report frames that carry nothing, such as unsolicited pongs and empty fragments. So the bytes
// that a client sends in addition to the text of its messages are limited: to overhead at once,
// and to overheadRate per second on average. A frame's header has at most 14 bytes.
const (
	overhead     = 64 << 10
	overheadRate = 4 << 10
)

// metered gives the library connections that count the bytes read.
type metered struct {
	http.ResponseWriter
	over func() // called once, when the limit is exceeded
	conn *meter
}

// Hijack implements [http.Hijacker].
func (m *metered) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(m.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	m.conn = &meter{Conn: conn, over: sync.OnceFunc(m.over), at: time.Now()}
	return m.conn, rw, nil
}

// meter counts the bytes read from a connection that are not text of a message.
type meter struct {
	net.Conn
	over func()

	mu     sync.Mutex
	beside int // bytes beyond the text, less those that overheadRate has allowed since
	at     time.Time
}

// Read implements [net.Conn]. After the limit was exceeded it reads nothing more.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.mu.Lock()
	now := time.Now()
	m.beside = max(m.beside-int(now.Sub(m.at).Seconds()*overheadRate), 0) + n
	m.at = now
	full := m.beside > overhead
	m.mu.Unlock()
	if full {
		m.over()
		return 0, tooMuch
	}
	return n, err
}

// text subtracts n bytes that were text.
func (m *meter) text(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beside = max(m.beside-n, 0)
}
