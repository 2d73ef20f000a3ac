// Package dial makes HTTP clients that reach only services that an operator has named, or
// only the public internet.
//
// Text from a model, a page or a tool's description never decides where a connection of the
// first kind goes: a [Guard] of [New] is made from the operator's files. A tool that reads
// pages has to go wherever it is told, so a guard of [Public] allows every host with a
// public address, and no other. Both check the address of each connection as it is made, so
// neither a redirect nor a changed DNS entry gets around them. Redirects are not followed.
// No proxy is used, because the guard would then see only the proxy's address.
package dial

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"github.com/parley-server/parley"
)

// Guard decides where connections may go. It is safe for concurrent use.
type Guard struct {
	hosts    []string       // hosts that may be reached
	private  []string       // those of hosts that may resolve to a private address
	prefixes []netip.Prefix // addresses that may be reached although they are not public
	anyHost  bool           // every host may be reached, at ports of the web
	resolver *net.Resolver  // nil: the system's
}

// New makes a guard that allows connections to hosts, which are names or addresses without
// a port. Their addresses must be public, except for those that private names: one of the
// hosts, an address, or a prefix such as 10.1.0.0/16. A host that is itself an address, or
// localhost, counts as named there.
//
// The address of a cloud's metadata service, which hands out credentials, is allowed only
// when that very address is among hosts or private. A name that resolves to it, or a
// prefix that contains it, is not enough.
func New(hosts, private []string) (*Guard, error) {
	g := &Guard{}
	for _, h := range hosts {
		h = clean(h)
		g.hosts = append(g.hosts, h)
		if a, err := netip.ParseAddr(h); err == nil {
			g.prefixes = append(g.prefixes, exactly(a))
		} else if h == "localhost" {
			g.private = append(g.private, h)
		}
	}
	for _, p := range private {
		if prefix, err := netip.ParsePrefix(p); err == nil {
			g.prefixes = append(g.prefixes, prefix.Masked())
			continue
		}
		if a, err := netip.ParseAddr(p); err == nil {
			g.prefixes = append(g.prefixes, exactly(a))
			continue
		}
		name := clean(p)
		if name == "" || strings.ContainsAny(name, "/:*") {
			return nil, parley.Errorf(parley.CodeInvalid, "%q is not a host name, an address, or a prefix such as 10.1.0.0/16", p)
		}
		g.private = append(g.private, name)
	}
	return g, nil
}

// Public makes a guard that allows connections to every host whose address is public, at
// ports 80 and 443 and at those from 1024 up on which no other service is known. allow names
// exceptions: a host or an address, which may then have any address but that of a metadata
// service, at every port, or with a port ("127.0.0.1:8080") at that one only. r looks up names;
// nil means the system does.
func Public(allow []string, r *net.Resolver) (*Guard, error) {
	g := &Guard{anyHost: true, resolver: r}
	for _, entry := range allow {
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			host, port = entry, ""
		}
		name := clean(host)
		_, notAddr := netip.ParseAddr(name)
		n, notPort := strconv.ParseUint(port, 10, 16)
		if name == "" || strings.ContainsAny(name, "/*@") || notAddr != nil && strings.Contains(name, ":") || port != "" && (notPort != nil || n == 0) {
			return nil, parley.Errorf(parley.CodeInvalid, "%q is not a host or an address, with or without a port, such as docs.intern or 127.0.0.1:8080", entry)
		}
		if port != "" {
			name = net.JoinHostPort(name, strconv.FormatUint(n, 10))
		}
		g.private = append(g.private, name)
	}
	return g, nil
}

// others are ports from 1024 up that browsers do not connect to, since another protocol is
// spoken there (the Fetch standard, "bad port"), and those of data bases and caches.
var others = []string{
	"1719", "1720", "1723", "2049", "3659", "4045", "4190", "5060", "5061", "6000", "6566", "6665", "6666", "6667", "6668", "6669", "6679", "6697", "10080",
	"2375", "2376", "3306", "5432", "5672", "6379", "9042", "11211", "27017",
}

// web reports whether a port may be one of the web.
func web(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && (n == 80 || n == 443 || n >= 1024 && !slices.Contains(others, strconv.FormatUint(n, 10)))
}

func exactly(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

// clean returns a host in the form used for comparison and for looking it up, which is
// ASCII: a name in another script in its form for the DNS (RFC 5891), as HTTP clients have
// it when they connect.
func clean(host string) string {
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = strings.TrimSuffix(ascii, ".") // a dot of another script is one, too
	}
	return strings.ToLower(host) // also of a host that is no DNS name, such as an address
}

const (
	connectTimeout = 10 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeader      = 64 << 10 // bytes of an answer's header
	maxIdle        = 32       // connections to one host, as for models
)

// Client makes a client. Its requests have no timeout but that of their context. With
// fresh, each request has a connection of its own. A failure to connect then proves that
// the request was not sent, and the transport never sends it again by itself.
func (g *Guard) Client(fresh bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: g.dial, TLSHandshakeTimeout: connectTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle,
			MaxResponseHeaderBytes: maxHeader, DisableKeepAlives: fresh, ForceAttemptHTTP2: !fresh,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, refused("%s is not an address: %s", address, err)
	}
	host = clean(host)
	allow := g.allow
	switch named := slices.Contains(g.private, host) || slices.Contains(g.private, net.JoinHostPort(host, port)); {
	case !g.anyHost && !slices.Contains(g.hosts, host):
		return nil, refused("%s is not among the hosts that the app's file names", host)
	case g.anyHost && !named && !web(port):
		return nil, parley.Errorf(parley.CodeForbidden, "port %s is not one at which pages are served", parley.Cut(port, 10))
	case g.anyHost:
		allow = func(host, address string) error { return g.allowAny(host, address, named) }
	}
	d := &net.Dialer{Timeout: connectTimeout, Resolver: g.resolver, Control: func(_, address string, _ syscall.RawConn) error { return allow(host, address) }}
	return d.DialContext(ctx, network, net.JoinHostPort(host, port))
}

// public knows the registries of non-public addresses.
var public = ssrf.New()

// metadata are the addresses of clouds' metadata services outside of the link-local range:
// AWS and Google (IPv6), Alibaba, Oracle. Link-local ones have 169.254.169.254. Sources: the
// providers' pages on instance metadata.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd20:ce::254/128"), netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("192.0.0.192/32"),
}

// shared is the address space between a provider and its customers (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")

// allow checks a connection to an address that host resolved to.
func (g *Guard) allow(host, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return refused("%s is not an address: %s", address, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	if slices.Contains(g.prefixes, exactly(ip)) {
		return nil
	}
	if slices.ContainsFunc(metadata, within) || ip.IsLinkLocalUnicast() {
		return refused("%s is %s, where machines keep credentials or neighbours answer; only the address itself can be named under private", host, ip)
	}
	if slices.ContainsFunc(g.prefixes, within) {
		return nil
	}
	if slices.Contains(g.private, host) && (ip.IsPrivate() || ip.IsLoopback() || shared.Contains(ip)) {
		return nil
	}
	if public.SafeAddr(ip) != nil {
		return refused("%s is %s, which is not a public address", host, ip)
	}
	return nil
}

// allowAny checks a connection to an address that a host of the web resolved to. named says
// that the host is an exception.
func (g *Guard) allowAny(host, address string, named bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return parley.Errorf(parley.CodeForbidden, "%s is not an address: %w", address, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch {
	case named && host == ip.String():
		return nil
	case named && !slices.ContainsFunc(metadata, within) && (ip.IsPrivate() || ip.IsLoopback() || shared.Contains(ip)):
		return nil
	case public.SafeAddr(ip) != nil:
		which := host
		if host != ip.String() {
			which += " is " + ip.String() + ", which"
		}
		return parley.Errorf(parley.CodeForbidden, "%s is not a public address", which).
			WithHint("only the public web can be reached; whoever runs the app can allow a host in its app.yaml")
	}
	return nil
}

func refused(format string, args ...any) error {
	return parley.Errorf(parley.CodeForbidden, format, args...).
		WithHint("name the host under private in app.yaml if it may resolve to an address of a private network")
}
