package dial

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-server/parley"
)

// TestAllow: which address may stand for a host, by what the operator has named.
func TestAllow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, private string
		open, closed  []string
	}{
		{
			"api.example.com", "",
			[]string{"93.184.215.14:443", "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443", "8.8.8.8:8080"},
			[]string{
				"127.0.0.1:80", "[::1]:80", "10.0.0.1:80", "192.168.1.1:80", "172.16.0.1:80", "169.254.169.254:80", "[::ffff:127.0.0.1]:80", "0.0.0.0:80",
				"[fe80::1%eth0]:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "[fc00::1]:80", "100.64.0.1:80", "[64:ff9b::7f00:1]:80", "224.0.0.1:80", "255.255.255.255:80", "nonsense",
			},
		},
		{
			"crm.internal", "crm.internal",
			[]string{"10.0.0.1:80", "127.0.0.1:80", "[fd12::1]:80", "100.64.0.1:80", "93.184.215.14:443"},
			[]string{"169.254.169.254:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "192.0.0.192:80", "[fe80::1]:80", "0.0.0.0:80"},
		},
		{"api.example.com", "crm.internal", []string{"93.184.215.14:443"}, []string{"10.0.0.1:80"}},
		{"CRM.Internal.", "crm.internal", []string{"10.0.0.1:80"}, nil},
		{"BÜCHER.intern", "xn--bcher-kva.intern", []string{"10.0.0.1:80"}, nil},
		{"xn--bcher-kva.intern", "bücher。intern.", []string{"10.0.0.1:80"}, nil},
		{"crm_1.internal", "CRM_1.internal", []string{"10.0.0.1:80"}, nil},
		{"crm.internal", "10.1.0.0/16", []string{"10.1.2.3:80", "[::ffff:10.1.2.3]:80"}, []string{"10.2.0.1:80", "127.0.0.1:80"}},
		{"crm.internal", "169.254.0.0/16", nil, []string{"169.254.169.254:80"}},
		{"crm.internal", "169.254.169.254", []string{"169.254.169.254:80"}, []string{"169.254.169.253:80"}},
		{"127.0.0.1", "", []string{"127.0.0.1:80"}, []string{"127.0.0.2:80", "10.0.0.1:80"}},
		{"::1", "", []string{"[::1]:80"}, []string{"127.0.0.1:80"}},
		{"localhost", "", []string{"127.0.0.1:80", "[::1]:80"}, []string{"169.254.169.254:80"}},
	} {
		var private []string
		if c.private != "" {
			private = []string{c.private}
		}
		g, err := New([]string{c.host}, private)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.open {
			if err := g.allow(clean(c.host), a); err != nil {
				t.Errorf("%s with private %q: %s is refused: %v", c.host, c.private, a, err)
			}
		}
		for _, a := range c.closed {
			if err := g.allow(clean(c.host), a); parley.CodeOf(err) != parley.CodeForbidden {
				t.Errorf("%s with private %q: %s is let through: %v", c.host, c.private, a, err)
			}
		}
	}
	for _, wrong := range []string{"", "http://crm", "crm:80", "*.internal", "10.0.0.0/99"} {
		if _, err := New(nil, []string{wrong}); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("private %q: %v", wrong, err)
		}
	}
}

// TestClient: a connection is looked at when it is made, a host that is not named is
// not reached, and a redirect is an answer like any other.
func TestClient(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reached.Add(1); r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		}
	}))
	defer web.Close()
	get := func(g *Guard, url string) (int, error) {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := g.Client(true).Do(r)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	named, err := New([]string{"127.0.0.1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := get(named, web.URL+"/moved"); code != http.StatusTemporaryRedirect || err != nil || reached.Load() != 1 {
		t.Errorf("a redirect: %d, %v after %d requests", code, err, reached.Load())
	}
	other, err := New([]string{"api.example.com"}, []string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(other, web.URL); parley.CodeOf(err) != parley.CodeForbidden || !strings.Contains(err.Error(), "not among the hosts") {
		t.Errorf("a host that is not named: %v", err)
	}
	// As a name is that stands for another address by now.
	rebound := &Guard{hosts: []string{"127.0.0.1"}}
	if _, err := get(rebound, web.URL); parley.CodeOf(err) != parley.CodeForbidden || !strings.Contains(err.Error(), "not a public address") {
		t.Errorf("an address that is not public: %v", err)
	}
	if reached.Load() != 1 {
		t.Errorf("%d requests arrived", reached.Load())
	}
}

// TestNamesInOtherScripts are the hosts that HTTP clients connect to under their names
// for the DNS, and no others that look like them.
func TestNamesInOtherScripts(t *testing.T) {
	t.Parallel()
	g, err := New([]string{"Bücher.example", "１２７.0.0.1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop() // nothing is connected to
	for address, named := range map[string]bool{
		"xn--bcher-kva.example:80": true, "bücher.example:80": true, "BÜCHER.EXAMPLE.:80": true, "127.0.0.1:80": true,
		"bucher.example:80": false, "xn--bcher-kva.example.com:80": false,
	} {
		_, err := g.dial(stopped, "tcp", address)
		if refused := parley.CodeOf(err) == parley.CodeForbidden; refused == named {
			t.Errorf("%s: %v", address, err)
		}
	}
	r, err := http.NewRequestWithContext(stopped, http.MethodGet, "http://bücher.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Client(true).Do(r); err == nil || strings.Contains(err.Error(), "is not among the hosts") { //nolint:bodyclose // there is none
		t.Errorf("by the client: %v", err)
	}
}

// TestPublic: any host may be reached at a public address, and no other address is reached
// but by an exception, which holds for the name that it names and, if it says so, one port.
func TestPublic(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "http://crm", "crm:0", "crm:http", "crm:70000", "*.internal", "10.0.0.0/8", "a@b", "fe80::zz"} {
		if _, err := Public([]string{wrong}, nil); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("allow %q: %v", wrong, err)
		}
	}
	public := []string{"93.184.215.14:443", "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443"}
	private := []string{
		"127.0.0.1:80", "127.8.8.8:80", "[::1]:80", "10.0.0.1:80", "192.168.1.1:80", "172.16.0.1:80", "169.254.169.254:80", "[::ffff:127.0.0.1]:80", "[::127.0.0.1]:80", "0.0.0.0:80", "[::]:80",
		"[fe80::1%eth0]:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "[fc00::1]:80", "100.64.0.1:80", "[64:ff9b::7f00:1]:80", "[64:ff9b:1::7f00:1]:80", "[2002:7f00:1::]:80", "[2001:0:7f00:1::]:80",
		"224.0.0.1:80", "[ff02::1]:80", "255.255.255.255:80", "192.0.0.192:80", "198.18.0.1:80", "203.0.113.7:80", "[2001:db8::1]:80", "nonsense",
	}
	for _, c := range []struct {
		host         string
		allow        []string
		named        bool
		open, closed []string
	}{
		{host: "example.com", open: public, closed: private},
		{host: "example.com", allow: []string{"docs.intern", "127.0.0.1"}, open: public, closed: private},
		{host: "docs.intern", allow: []string{"Docs.Intern."}, named: true, open: []string{"10.0.0.1:80", "127.0.0.1:80", "93.184.215.14:80"}, closed: []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "224.0.0.1:80", "0.0.0.0:80"}},
		{host: "169.254.169.254", allow: []string{"169.254.169.254"}, named: true, open: []string{"169.254.169.254:80"}, closed: []string{"169.254.169.253:80"}},
		{host: "::1", allow: []string{"[::1]:8080"}, named: true, open: []string{"[::1]:8080"}},
	} {
		g, err := Public(c.allow, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.open {
			if err := g.allowAny(clean(c.host), a, c.named); err != nil {
				t.Errorf("%s with allow %q: %s is refused: %v", c.host, c.allow, a, err)
			}
		}
		for _, a := range c.closed {
			if err := g.allowAny(clean(c.host), a, c.named); parley.CodeOf(err) != parley.CodeForbidden {
				t.Errorf("%s with allow %q: %s is let through: %v", c.host, c.allow, a, err)
			}
		}
	}
}

// TestPublicPorts are those that a guard of the web connects to.
func TestPublicPorts(t *testing.T) {
	t.Parallel()
	g, err := Public([]string{"127.0.0.1:25", "docs.intern"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop() // nothing is connected to
	for address, open := range map[string]bool{
		"example.com:80": true, "example.com:443": true, "example.com:8080": true, "example.com:50000": true, "docs.intern:25": true, "127.0.0.1:25": true,
		"example.com:25": false, "example.com:22": false, "example.com:6379": false, "example.com:6667": false, "example.com:70000": false, "127.0.0.1:26": false,
	} {
		_, err := g.dial(stopped, "tcp", address)
		if refused := parley.CodeOf(err) == parley.CodeForbidden; refused == open {
			t.Errorf("%s: %v", address, err)
		}
	}
}
