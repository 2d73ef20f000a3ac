package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// GuardOptions of [Guard].
type GuardOptions struct {
	// Hosts are the host names, without port, that requests may use. Nil disables the
	// check, for example behind a login or on a Unix socket. Loopback names and addresses
	// are always allowed.
	Hosts []string
	// Origins are the foreign pages that may call, in the form of the Origin header
	// ("http://localhost:5173"). "*" is not supported: with credentials it would open the
	// server to every page.
	Origins []string
	// Redact removes secrets from the bodies of refusals, which may quote their input.
	// Other bodies come from the log, which has none. Nil: no body is redacted.
	Redact func(body []byte) []byte
	// Detail reports whether the clients of a request's path look for the message of an error under
	// detail. Whatever refuses such a request says it there, too. Nil: no path has such clients.
	Detail func(r *http.Request) bool
	Logger *slog.Logger
}

// Guard wraps every door of a listener.
//
// Without a login, pages of other origins must not reach the server. The Host check stops
// names that were made to point here (DNS rebinding). A request that changes something is
// refused when the browser says that it comes from a page that is neither ours nor
// listed, and so is the handshake of a WebSocket. Such a page gets answers uncompressed, since
// their size must not reveal their content.
//
// A handler that panics costs its request, and the server goes on.
func Guard(next http.Handler, o GuardOptions) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &guard{next, o}
}

type guard struct {
	next http.Handler
	o    GuardOptions
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := &tracker{ResponseWriter: w, redact: g.o.Redact}
	if g.o.Detail != nil {
		t.detail = func() bool { return g.o.Detail(r) }
	}
	defer g.recover(t, r)
	if !g.answered(t, r) {
		g.next.ServeHTTP(t, r)
	}
}

// answered reports whether Guard has answered the request.
func (g *guard) answered(w http.ResponseWriter, r *http.Request) bool {
	if g.o.Hosts != nil && !hostAllowed(r.Host, g.o.Hosts) {
		WriteError(w, parley.Errorf(parley.CodeForbidden, "this server is not called %q", parley.Cut(r.Host, 100)).
			WithHint("use the address that the server printed when it started; when a proxy on this machine asks for that name, add it to hosts in parley.yaml"))
		return true
	}
	if err := unreadable(r); err != nil {
		WriteError(w, err)
		return true
	}
	return crossOrigin(w, r, g.o.Origins)
}

// unreadable returns an error for requests that no door can handle.
func unreadable(r *http.Request) error {
	switch coding := r.Header.Get("Content-Encoding"); {
	case r.RequestURI == "*" && r.Method != http.MethodOptions:
		return parley.Errorf(parley.CodeInvalid, "%s * has no target", parley.Cut(r.Method, 20)).WithHint("ask for a path; OPTIONS alone takes *")
	case badQuery(r) != nil:
		return parley.Errorf(parley.CodeInvalid, "the query of the URL cannot be read: %w", badQuery(r)).
			WithHint("write %%25 for a percent sign, %%26 for & and %%3B for a semicolon")
	case twice(r) != "":
		return parley.Errorf(parley.CodeInvalid, "the query parameter %q is given twice", twice(r)).WithField(twice(r)).
			WithHint("give it once; a list is separated by commas")
	case oddParameter(r) != "":
		return parley.Errorf(parley.CodeInvalid, "the query parameter %q is not text in UTF-8", oddParameter(r)).WithField(oddParameter(r)).
			WithHint("send UTF-8, as %%C3%%A9 for \u00e9")
	case oddHeader(r) != "":
		return parley.Errorf(parley.CodeInvalid, "the header %s is given twice, or is not text in UTF-8", oddHeader(r)).WithField(oddHeader(r)).
			WithHint("send it once, in letters and digits")
	case !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0):
		return parley.Errorf(parley.CodeInvalid, "the path is not text in UTF-8").WithHint("escape what is not ASCII, as %%C3%%A9 for \u00e9, and leave out %%00")
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return &refusedAs{parley.Errorf(parley.CodeInvalid, "this server does not accept the body's Content-Encoding").
			WithHint("send the body as it is"), http.StatusUnsupportedMediaType}
	}
	return nil
}

// onceHeaders say what a request is about. Of two values, a proxy may take another one
// than this server.
var onceHeaders = []string{keyHeader, "Last-Event-ID", "Mcp-Session-Id"}

// oddHeader is the name of one of them that is given twice or is not text, or "".
func oddHeader(r *http.Request) string {
	for _, name := range onceHeaders {
		if all := r.Header.Values(name); len(all) > 1 || len(all) == 1 && !utf8.ValidString(all[0]) {
			return name
		}
	}
	return ""
}

// badQuery finds mistakes that url.Values silently drops.
func badQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	_, err := url.ParseQuery(r.URL.RawQuery)
	return err
}

// keyHeader is the one header whose text is kept.
const keyHeader = "Idempotency-Key"

// twice is a query parameter that comes more than once, of which one would count; or
// none.
func twice(r *http.Request) string {
	return parameter(r, func(_ string, values []string) bool { return len(values) > 1 })
}

// oddParameter is a query parameter that is not text in UTF-8, which would become
// another text.
func oddParameter(r *http.Request) string {
	return parameter(r, func(name string, values []string) bool {
		return !utf8.ValidString(name) || slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) })
	})
}

// parameter is the first of the query's parameters, by name, that is wrong.
func parameter(r *http.Request, wrong func(name string, values []string) bool) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	all := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if wrong(name, all[name]) {
			return parley.Cut(strings.ToValidUTF8(name, "\uFFFD"), 100)
		}
	}
	return ""
}

// refusedAs is a refusal with a more exact status than its code's.
type refusedAs struct {
	error
	status int
}

func (e *refusedAs) Unwrap() error { return e.error }

// HTTPStatus implements withStatus.
func (e *refusedAs) HTTPStatus() int { return e.status }

func (g *guard) recover(t *tracker, r *http.Request) {
	if v := recover(); v != nil {
		recovered(t, r, g.o.Logger, v)
	}
}

// exposed lists the response headers that a listed page may read besides those that
// browsers always show: all that our clients or MCP clients need.
const exposed = "Parley-Session, Parley-Turn, Parley-Scripted, Mcp-Session-Id, WWW-Authenticate, Retry-After, Location, ETag, Content-Disposition, Allow"

// crossOrigin answers preflights, sets the CORS headers, and refuses what pages of other
// origins must not do. It reports whether it answered the request.
func crossOrigin(w http.ResponseWriter, r *http.Request, origins []string) bool {
	origin := originOf(r)
	h := w.Header()
	h.Add("Vary", "Origin")
	listed := origin != "" && slices.Contains(origins, origin)
	if listed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Expose-Headers", exposed)
	}
	if r.Method == http.MethodOptions {
		if listed {
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
			if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
				h.Set("Access-Control-Allow-Headers", asked)
			}
			h.Add("Vary", "Access-Control-Request-Headers")
			h.Set("Access-Control-Max-Age", "600")
		}
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	if listed || !fromElsewhere(r, origin) {
		return false
	}
	// A WebSocket is no safe GET, and its handshake has no preflight: what the page says over it may
	// change things, and the page reads the answers.
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && !wire.Upgrades(r) {
		r.Header.Del("Accept-Encoding") // see wire.Compressed
		return false                    // a page that is not listed cannot read the answer
	}
	refuseOrigin(w, origin, "change anything")
	return true
}

func refuseOrigin(w http.ResponseWriter, origin, what string) {
	WriteError(w, parley.Errorf(parley.CodeForbidden, "pages of %s may not %s here", cmp.Or(parley.Cut(origin, 100), "elsewhere"), what).
		WithHint("add the origin to PARLEY_CORS_ORIGINS to allow it"))
}

// OwnPages protects a door that pages of other origins must not even read, as MCP
// requires for all methods.
func OwnPages(next http.Handler, origins []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := originOf(r); !slices.Contains(origins, origin) && fromElsewhere(r, origin) {
			refuseOrigin(w, origin, "ask for anything")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// originOf is the page's origin. Several origins, which no browser sends, never match
// ours.
func originOf(r *http.Request) string {
	if all := r.Header["Origin"]; len(all) > 1 {
		return strings.Join(all, ", ")
	}
	return r.Header.Get("Origin")
}

// fromElsewhere reports whether a browser says that the request comes from a page of
// another origin. Other clients say nothing.
//
// Sec-Fetch-Site is the browser's own judgement and is right behind any proxy, but only
// https and loopback pages send it. Otherwise the page's origin is compared with the host
// that the browser asked for: Host, or the header in which a proxy that changes Host
// passes it on. A page cannot set that header itself: the browser would send a preflight
// first, and crossOrigin accepts that for listed pages only.
func fromElsewhere(r *http.Request, origin string) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "same-origin" {
		return false
	}
	if origin != "" {
		scheme, host, _ := strings.Cut(origin, "://")
		if scheme != "http" && scheme != "https" || host == "" {
			return true // null, or a page in a file: not served by this server
		}
		return !strings.EqualFold(host, r.Host) && !strings.EqualFold(host, r.Header.Get("X-Forwarded-Host"))
	}
	return site != "" && site != "none"
}

// HostName returns the name in a Host header, in lower case and without the port.
func HostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func hostAllowed(host string, names []string) bool {
	name := HostName(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil && a.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// recovered turns a panic into a log line and, if nothing was written yet, an answer. A
// stream that broke in the middle is cut, so that its reader notices.
func recovered(t *tracker, r *http.Request, log *slog.Logger, v any) {
	if err, ok := v.(error); ok && err == http.ErrAbortHandler {
		panic(v)
	}
	if r.Context().Err() == nil { // otherwise it was writing to a client that has gone
		log.ErrorContext(r.Context(), "panic in a handler", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	}
	if t.wrote {
		panic(http.ErrAbortHandler)
	}
	WriteError(t, parley.Errorf(parley.CodeInternal, "something went wrong in the server").WithHint("the server's log has the cause"))
}

// tracker records whether the answer has begun, and redacts refusals.
type tracker struct {
	http.ResponseWriter
	redact  func([]byte) []byte
	detail  func() bool // nil: no
	wrote   bool
	refused bool
}

func (t *tracker) WriteHeader(status int) {
	if !t.wrote && status >= http.StatusBadRequest && t.redact != nil {
		t.refused = true
		t.Header().Del("Content-Length") // of the original body
	}
	t.wrote = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracker) Write(b []byte) (int, error) {
	t.wrote = true
	if !t.refused {
		return t.ResponseWriter.Write(b)
	}
	if _, err := t.ResponseWriter.Write(t.redact(b)); err != nil { // a refusal is written in one piece
		return 0, err
	}
	return len(b), nil
}

// WantsDetail reports whether the client looks for the message of an error under detail, too.
func (t *tracker) WantsDetail() bool { return t.detail != nil && t.detail() }

// wantsDetail reports whether an error that is written to w has its message under detail, too, which
// the Guard before w knows.
func wantsDetail(w http.ResponseWriter) bool {
	for {
		if t, ok := w.(*tracker); ok {
			return t.WantsDetail()
		}
		under, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = under.Unwrap()
	}
}

// Unwrap is for http.ResponseController.
func (t *tracker) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Flush serves callers that assert http.Flusher.
func (t *tracker) Flush() {
	t.wrote = true
	_ = http.NewResponseController(t.ResponseWriter).Flush()
}
