package wire

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// A frame costs a processor much the same however little it carries. Those that carry nothing, such
// as pongs that nobody asked for and empty pieces of a message, are not shown by the library. So
// what a client sends beside the text of its messages is limited in bytes: overhead at once, and
// overheadRate a second over some time. A head has at most 14 bytes.
const (
	overhead     = 64 << 10
	overheadRate = 4 << 10
)

// metered gives the library connections that count what is read.
type metered struct {
	http.ResponseWriter
	over func() // called once, when there is too much beside the text
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

// meter counts what is read from a connection and is no text.
type meter struct {
	net.Conn
	over func()

	mu     sync.Mutex
	beside int // bytes, less what time has allowed since
	at     time.Time
}

// Read implements [net.Conn]. Once there was too much it reads nothing more.
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

// text says that n of the bytes were text.
func (m *meter) text(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beside = max(m.beside-n, 0)
}
