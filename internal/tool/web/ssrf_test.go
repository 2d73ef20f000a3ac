package web_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/web"
)

// forbidden listens where nothing may be reached, on this machine.
type forbidden struct {
	port    string
	reached atomic.Int32
}

func newForbidden(t *testing.T) *forbidden {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forbidden{}
	if _, f.port, err = net.SplitHostPort(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	listeners := []net.Listener{l}
	if l6, err := net.Listen("tcp", "[::1]:"+f.port); err == nil { // not every machine has IPv6
		listeners = append(listeners, l6)
	}
	for _, l := range listeners {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				f.reached.Add(1)
				_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
				_ = c.Close()
			}
		}()
	}
	return f
}

// TestSSRF: none of these reaches what listens on this machine, or anything else that is not
// public. Names stand for what an attacker, or a resolver that takes numbers for addresses,
// would have them stand for.
func TestSSRF(t *testing.T) {
	t.Parallel()
	f := newForbidden(t)
	here := [][]string{{"127.0.0.1"}}
	dns := &names{addrs: map[string][][]string{
		"localhost": here, "LOCALHOST": here, "foo.localhost": here, "localhost.localdomain": here, "2130706433": here, "0x7f000001": here, "017700000001": here, "127.1": here,
		"0177.0.0.1": here, "0x7f.0.0.1": here, "0": {{"0.0.0.0"}}, "127.0.0.1.nip.example": here, "six.example": {{"::1"}}, "mapped.example": {{"::ffff:127.0.0.1"}},
		"ten.example": {{"10.0.0.1"}}, "both.example": {{"203.0.113.7", "127.0.0.1"}}, "rebind.example": {{"203.0.113.7"}, {"127.0.0.1"}},
		"metadata.google.internal": {{"169.254.169.254"}}, "metadata": {{"169.254.169.254"}}, "instance-data": {{"169.254.169.254"}}, "xn--r8jz45g.example": here,
	}}
	hops := 0
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/to": // anywhere
			w.Header().Set("Location", r.URL.Query().Get("u"))
			w.WriteHeader(http.StatusFound)
		case "/loop":
			hops++
			http.Redirect(w, r, "/loop", http.StatusMovedPermanently)
		case "/header":
			w.Header().Set("X", strings.Repeat("a", 1<<20))
		case "/loris":
			w.Header().Set("Content-Type", "text/plain")
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte("a"))
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		case "/silent":
			<-r.Context().Done()
		case "/bomb":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb(t))
		case "/twice": // packed once more than the client unpacks
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip, gzip")
			_, _ = w.Write(bomb(t))
		case "/long":
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Length", "99999999999")
		}
	})
	tools, err := web.New(web.Options{Allow: []string{"site.example:" + s.port, "127.0.0.1:" + s.port}, Resolver: dns.resolver()})
	if err != nil {
		t.Fatal(err)
	}
	dns.addrs["site.example"] = here
	tools.SetLimit(300 * time.Millisecond)

	forms := []string{ // F is the port
		"http://127.0.0.1:F/", "http://127.8.9.1:F/", "http://localhost:F/", "http://LOCALHOST:F/", "http://localhost.:F/", "http://foo.localhost:F/", "http://localhost.localdomain:F/",
		"http://2130706433:F/", "http://0x7f000001:F/", "http://017700000001:F/", "http://0177.0.0.1:F/", "http://0x7f.0.0.1:F/", "http://127.1:F/", "http://0:F/", "http://0.0.0.0:F/",
		"http://[::1]:F/", "http://[::]:F/", "http://[0:0:0:0:0:0:0:1]:F/", "http://[::ffff:127.0.0.1]:F/", "http://[::ffff:7f00:1]:F/", "http://[::127.0.0.1]:F/", "http://[::1%25lo]:F/",
		"http://[64:ff9b::7f00:1]:F/", "http://[2002:7f00:1::]:F/", "http://[fe80::1%25eth0]:F/", "http://[fd00:ec2::254]/latest/",
		"http://127.0.0.1.nip.example:F/", "http://six.example:F/", "http://mapped.example:F/", "http://ten.example/", "http://both.example:F/", "http://rebind.example:F/", "http://rebind.example:F/again",
		"http://metadata.google.internal/computeMetadata/v1/", "http://metadata/", "http://instance-data/latest/meta-data/", "http://169.254.169.254/latest/meta-data/", "http://100.100.100.200/", "http://100.64.0.1/",
		"http://192.168.1.1/", "http://10.0.0.1:F/", "http://172.16.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://198.18.0.1/",
		"http://user:pass@127.0.0.1:F/", "http://example.com@127.0.0.1:F/", "http://127.0.0.1:F@site.example/", `http://site.example\@127.0.0.1:F/`, "http://site.example#@127.0.0.1:F/", "http://①②⑦.⓪.⓪.①:F/", "http://例え.example:F/",
		"http://127.0.0.1%00.example:F/", "http://127.0.0.1\t:F/", "http:127.0.0.1:F", "//127.0.0.1:F/", "127.0.0.1:F", "http:///127.0.0.1:F/",
		"file:///etc/passwd", "gopher://127.0.0.1:F/_GET", "ftp://127.0.0.1:F/", "unix:///var/run/docker.sock", "http+unix://%2Fvar%2Frun%2Fdocker.sock/info", "dict://127.0.0.1:F/", "data:text/plain,secret", "javascript:alert(1)", "jar:http://127.0.0.1:F!/", "ws://127.0.0.1:F/",
		"http://site.example:22/", "http://site.example:6379/",
		"S/to?u=http://127.0.0.1:F/", "S/to?u=//127.0.0.1:F/", "S/to?u=http://site.example:F/", "S/to?u=http://www.site.example:F/", "S/to?u=file:///etc/passwd", "S/to?u=gopher://127.0.0.1:F/", "S/to?u=http://a:b@127.0.0.1:F/", "S/to?u=http://169.254.169.254/",
		"S/loop", "S/header", "S/loris", "S/silent", "S/bomb", "S/twice", "S/long",
	}
	for _, form := range forms {
		url := strings.ReplaceAll(strings.Replace(form, "S/", "http://site.example:"+s.port+"/", 1), ":F", ":"+f.port)
		began := time.Now()
		out, err := fetch(t, tools, url)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %s", form, took)
		}
		if strings.Contains(out, "secret") || strings.Contains(fmt.Sprint(err), "secret") && !strings.HasPrefix(form, "data:") {
			t.Errorf("%s: got the secret: %s %v", form, out, err)
		}
		switch shown := strings.HasPrefix(form, "S/to?u=http:") || strings.HasPrefix(form, "S/to?u=//"); {
		case shown && err == nil:
			if text, _, _ := inside(t, out); !strings.HasPrefix(text, "Moved to: http") {
				t.Errorf("%s: %s", form, out)
			}
		case err == nil:
			t.Errorf("%s is fetched: %s", form, out)
		case parley.CodeOf(err) == parley.CodeInternal:
			t.Errorf("%s: the model is not told what is wrong: %v", form, err)
		}
	}
	if n := f.reached.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	if hops > 6 {
		t.Errorf("the loop was followed %d times", hops)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(forms)))); n != len(forms) || n < 30 {
		t.Errorf("%d attempts, of which %d differ", len(forms), n)
	}
	t.Logf("%d attempts", len(forms))

	// The listener would have answered.
	open, err := web.New(web.Options{Allow: []string{"rebind.example"}, Resolver: dns.resolver()})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := fetch(t, open, "http://rebind.example:"+f.port+"/"); err != nil || !strings.Contains(out, "secret") || f.reached.Load() != 1 {
		t.Errorf("with an exception: %s %v", out, err)
	}
}

// bomb is 64 MiB of zeros, packed: eight times what is read.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	block := make([]byte, 1<<20)
	for range 64 {
		if _, err := z.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
