package edge

import (
	"log/slog"
	"net"
	"testing"
)

// from is a connection with another address. Tests only have loopback connections, which do not
// count against the limit.
type from struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return f.addr }
func (f *from) Close() error         { f.closed = true; return nil }

// TestPerAddress: when one address, or one IPv6 network, opens too many connections, only its
// own are closed. Loopback and Unix sockets do not count.
func TestPerAddress(t *testing.T) {
	t.Parallel()
	s := &conns{o: Options{Connections: 100, PerAddress: 2, Logger: slog.New(slog.DiscardHandler)}, open: map[*conn]struct{}{}, at: map[string]int{}}
	dial := func(addr net.Addr) *from {
		f := &from{addr: addr}
		if s.add(f) == nil {
			t.Fatalf("%v is not let in", addr)
		}
		return f
	}
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1234} }
	for _, c := range []struct {
		name    string
		addrs   [3]net.Addr
		bounded bool
	}{
		{"one of IPv4", [3]net.Addr{tcp("192.0.2.1"), tcp("192.0.2.1"), tcp("192.0.2.1")}, true},
		{"one of IPv4 in two forms", [3]net.Addr{tcp("192.0.2.2"), tcp("::ffff:192.0.2.2"), tcp("192.0.2.2")}, true},
		{"a network of IPv6", [3]net.Addr{tcp("2001:db8::1"), tcp("2001:db8::2"), tcp("2001:db8::3")}, true},
		{"networks of IPv6", [3]net.Addr{tcp("2001:db8:0:1::1"), tcp("2001:db8:0:2::1"), tcp("2001:db8:0:3::1")}, false},
		{"several of IPv4", [3]net.Addr{tcp("192.0.2.3"), tcp("192.0.2.4"), tcp("192.0.2.5")}, false},
		{"loopback", [3]net.Addr{tcp("127.0.0.1"), tcp("127.0.0.1"), tcp("127.0.0.1")}, false},
		{"a socket", [3]net.Addr{&net.UnixAddr{}, &net.UnixAddr{}, &net.UnixAddr{}}, false},
	} {
		before := s.count()
		first, second, third := dial(c.addrs[0]), dial(c.addrs[1]), dial(c.addrs[2])
		want := 3
		if c.bounded {
			want = 2
		}
		if first.closed != c.bounded || second.closed || third.closed || s.count() != before+want {
			t.Errorf("%s: closed %v, %v, %v, and %d are open, want %d", c.name, first.closed, second.closed, third.closed, s.count()-before, want)
		}
	}
}
