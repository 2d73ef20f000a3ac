package web_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/web"
)

// names is a name server in memory: what a name stands for, in the order in which it is asked.
// The last answer stays.
type names struct {
	mu    sync.Mutex
	addrs map[string][][]string
}

// resolver asks it, and nobody else.
func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go n.serve(there)
		return here, nil
	}}
}

func (n *names) serve(c net.Conn) { // as over TCP, with the length before each message
	defer c.Close()
	for {
		var size [2]byte
		if _, err := readFull(c, size[:]); err != nil {
			return
		}
		msg := make([]byte, int(size[0])<<8|int(size[1]))
		if _, err := readFull(c, msg); err != nil {
			return
		}
		out := n.answer(msg)
		if _, err := c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...)); err != nil {
			return
		}
	}
}

func readFull(c net.Conn, b []byte) (int, error) {
	for n := 0; n < len(b); {
		m, err := c.Read(b[n:])
		if n += m; err != nil {
			return n, err
		}
	}
	return len(b), nil
}

func (n *names) answer(raw []byte) []byte {
	var q dnsmessage.Message
	if err := q.Unpack(raw); err != nil || len(q.Questions) != 1 {
		return nil
	}
	ask := q.Questions[0]
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true, RCode: dnsmessage.RCodeNameError}, Questions: q.Questions}
	n.mu.Lock()
	defer n.mu.Unlock()
	name := strings.TrimSuffix(strings.ToLower(ask.Name.String()), ".")
	if list, ok := n.addrs[name]; ok {
		out.RCode = dnsmessage.RCodeSuccess
		for _, a := range list[0] {
			ip := netip.MustParseAddr(a)
			head := dnsmessage.ResourceHeader{Name: ask.Name, Type: ask.Type, Class: ask.Class}
			switch {
			case ask.Type == dnsmessage.TypeA && ip.Is4():
				out.Answers = append(out.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: ip.As4()}})
			case ask.Type == dnsmessage.TypeAAAA && ip.Is6():
				out.Answers = append(out.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
			}
		}
		if len(list) > 1 && ask.Type == dnsmessage.TypeA {
			n.addrs[name] = list[1:]
		}
	}
	packed, err := out.Pack()
	if err != nil {
		panic(err)
	}
	return packed
}

// site serves pages at a host that may be reached, whose names are those of the site.
type site struct {
	*httptest.Server
	port string
}

func newSite(t *testing.T, h http.HandlerFunc) site {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return site{s, port}
}

// at is a URL of the site under a name.
func (s site) at(name, path string) string { return "http://" + name + ":" + s.port + path }

// newTools makes a toolset that may reach site.example and www.site.example at the site, and
// whose names all stand for this machine.
func newTools(t *testing.T, s site, o web.Options) *web.Toolset {
	t.Helper()
	here := [][]string{{"127.0.0.1"}}
	dns := &names{addrs: map[string][][]string{"site.example": here, "www.site.example": here, "other.example": here}}
	o.Resolver = dns.resolver()
	o.Allow = append(o.Allow, "site.example:"+s.port, "www.site.example:"+s.port)
	tools, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}

// call is a call of a tool, whose files are collected.
type call struct {
	seam.Run
	files []seam.File
}

func newCall(t *testing.T, tool string, input any) *call {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	c := &call{Run: seam.Run{Call: "c1", Name: tool, Input: raw, Principal: parley.Principal{User: "ana"}, App: "mine"}}
	c.Keep = func(f seam.File) error {
		c.files = append(c.files, f)
		return nil
	}
	return c
}

func fetch(t *testing.T, tools *web.Toolset, url string) (string, error) {
	t.Helper()
	res, err := tools.Run(t.Context(), newCall(t, web.Fetch, map[string]string{"url": url, "prompt": "what is it?"}).Run)
	return res.Output, err
}

// inside is what stands in the fence of a result, which must be whole.
func inside(t *testing.T, out string) (text, before, after string) {
	t.Helper()
	from := strings.Index(out, "\n<web-content-")
	if from < 0 {
		t.Fatalf("no fence:\n%s", out)
	}
	name, rest, _ := strings.Cut(out[from+2:], ">\n")
	text, after, ok := strings.Cut(rest, "\n</"+name+">")
	if !ok || strings.Contains(text, name) || strings.Contains(after, name) {
		t.Fatalf("the fence is open:\n%s", out)
	}
	return text, out[:from], after
}
