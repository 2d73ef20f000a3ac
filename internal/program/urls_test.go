package program

import (
	"net"
	"slices"
	"testing"
)

// TestURLsOf: the addresses printed at the start can be opened.
func TestURLsOf(t *testing.T) {
	t.Parallel()
	var own []net.Addr
	for _, cidr := range []string{"127.0.0.1/8", "::1/128", "fe80::1/64", "2001:db8::7/64", "192.168.1.7/24", "172.17.0.1/16", "10.0.0.1/8"} {
		ip, n, err := net.ParseCIDR(cidr)
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	for at, want := range map[string][]string{
		"127.0.0.1:8000":   {"http://127.0.0.1:8000"},
		"[::1]:8000":       {"http://[::1]:8000"},
		"192.168.1.7:8000": {"http://192.168.1.7:8000"},
		"[::]:8000":        {"http://localhost:8000", "http://192.168.1.7:8000", "http://172.17.0.1:8000", "http://10.0.0.1:8000"},
		"0.0.0.0:80":       {"http://localhost:80", "http://192.168.1.7:80", "http://172.17.0.1:80", "http://10.0.0.1:80"},
	} {
		a, err := net.ResolveTCPAddr("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if got := urlsOf(a, own); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", at, got, want)
		}
		if got := urlsOf(a, own[3:4]); want[0] == "http://localhost:80" && !slices.Equal(got, []string{"http://localhost:80", "http://[2001:db8::7]:80"}) {
			t.Errorf("%s over IPv6: %v", at, got)
		}
		if got := urlsOf(a, nil); got[0] != want[0] || len(got) != 1 {
			t.Errorf("%s without others: %v", at, got)
		}
	}
}
