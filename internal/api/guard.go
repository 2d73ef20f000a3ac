package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// GuardOptions of [Guard].
type GuardOptions struct {
	// Hosts are the names, without port, under which the listener may be asked
	// for. Nil checks none, as behind a login or on a socket in the file system.
	// Loopback names and addresses are always among them.
	Hosts []string
	// Origins are the pages of elsewhere that may call, as the browser names
	// them ("http://localhost:5173"). "*" is not understood: with credentials it
	// would open the server to every page there is.
	Origins []string
	// Redact takes the secrets out of the body of a refusal, which may say what it
	// was given. What is no refusal comes from the log, which has none. Nil: no body is looked at.
	Redact func(body []byte) []byte
	Logger *slog.Logger
}

// Guard stands before every door of a listener.
//
// Where no login protects the server, a page of elsewhere must not reach it: the
// Host check stops names that were made to point here (DNS rebinding), and a
// request that changes something is refused when a browser says that it comes
// from a page that is neither ours nor listed. What such a page may ask for it gets
// uncompressed, as it must not learn from its size what is in it.
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
	defer g.recover(t, r)
	if !g.answered(t, r) {
		g.next.ServeHTTP(t, r)
	}
}

// answered reports whether the request ends here.
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

// unreadable says what no door behind takes.
func unreadable(r *http.Request) error {
	switch coding := r.Header.Get("Content-Encoding"); {
	case r.RequestURI == "*" && r.Method != http.MethodOptions:
		return parley.Errorf(parley.CodeInvalid, "%s * asks for nothing", parley.Cut(r.Method, 20))
	case badQuery(r) != nil:
		return parley.Errorf(parley.CodeInvalid, "the query of the address can not be read: %w", badQuery(r)).
			WithHint("write %%25 for a percent sign, %%26 for & and %%3B for a semicolon")
	case !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0):
		return parley.Errorf(parley.CodeInvalid, "the path is not text in UTF-8")
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return &refusedAs{parley.Errorf(parley.CodeInvalid, "the body's Content-Encoding is not one that this server takes").
			WithHint("send the body as it is"), http.StatusUnsupportedMediaType}
	}
	return nil
}

// badQuery says what url.Values leave out without a word.
func badQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	_, err := url.ParseQuery(r.URL.RawQuery)
	return err
}

// refusedAs is a refusal with a closer status than its code's.
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

// exposed are the headers of answers that a listed page may read beside those that
// browsers always show: each that a client of ours, or of MCP, needs to go on.
const exposed = "Parley-Session, Parley-Turn, Mcp-Session-Id, WWW-Authenticate, Retry-After, Location, ETag, Content-Disposition, Allow"

// crossOrigin answers preflights, sets the CORS headers, and refuses what a page
// of elsewhere must not do. It reports whether the request is answered.
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
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		r.Header.Del("Accept-Encoding") // see wire.Compressed
		return false                    // a page that is not listed can not read what it gets
	}
	refuseOrigin(w, origin, "change anything")
	return true
}

func refuseOrigin(w http.ResponseWriter, origin, what string) {
	WriteError(w, parley.Errorf(parley.CodeForbidden, "pages of %s may not %s here", cmp.Or(parley.Cut(origin, 100), "elsewhere"), what).
		WithHint("add the origin to PARLEY_CORS_ORIGINS when it is meant to"))
}

// OwnPages stands before a door that no page of elsewhere may even ask to read,
// as MCP wants it for all methods.
func OwnPages(next http.Handler, origins []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := originOf(r); !slices.Contains(origins, origin) && fromElsewhere(r, origin) {
			refuseOrigin(w, origin, "ask for anything")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// originOf is the page's origin; several, which no browser sends, are none of ours.
func originOf(r *http.Request) string {
	if all := r.Header["Origin"]; len(all) > 1 {
		return strings.Join(all, ", ")
	}
	return r.Header.Get("Origin")
}

// fromElsewhere reports whether a browser says that the request was made by a
// page of another origin. What is no browser says nothing.
//
// Sec-Fetch-Site is the browser's own judgement and holds behind any proxy, but
// only pages of https and loopback send it. Else the page's origin is compared
// with the name that the browser asked for: Host, or what a proxy that changes
// Host has put beside it. A page can not set the latter: for a header that is not
// its own a browser asks first, and crossOrigin answers that for listed ones only.
func fromElsewhere(r *http.Request, origin string) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "same-origin" {
		return false
	}
	if origin != "" {
		scheme, host, _ := strings.Cut(origin, "://")
		if scheme != "http" && scheme != "https" || host == "" {
			return true // null, or a page in a file: it has no server, so not this one
		}
		return !strings.EqualFold(host, r.Host) && !strings.EqualFold(host, r.Header.Get("X-Forwarded-Host"))
	}
	return site != "" && site != "none"
}

func hostAllowed(host string, names []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil && a.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// recovered turns a panic into a log line and, where nothing was written yet,
// an answer. A stream that broke in the middle is cut, so that its reader knows.
func recovered(t *tracker, r *http.Request, log *slog.Logger, v any) {
	if err, ok := v.(error); ok && err == http.ErrAbortHandler {
		panic(v)
	}
	if r.Context().Err() == nil { // else: writing to a client that has gone
		log.ErrorContext(r.Context(), "panic in a handler", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	}
	if t.wrote {
		panic(http.ErrAbortHandler)
	}
	WriteError(t, parley.Errorf(parley.CodeInternal, "something went wrong in the server").WithHint("the server's log has the cause"))
}

// tracker knows whether the answer has begun, and redacts it when it is a refusal.
type tracker struct {
	http.ResponseWriter
	redact  func([]byte) []byte
	wrote   bool
	refused bool
}

func (t *tracker) WriteHeader(status int) {
	if !t.wrote && status >= http.StatusBadRequest && t.redact != nil {
		t.refused = true
		t.Header().Del("Content-Length") // of the body before
	}
	t.wrote = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracker) Write(b []byte) (int, error) {
	t.wrote = true
	if !t.refused {
		return t.ResponseWriter.Write(b)
	}
	if _, err := t.ResponseWriter.Write(t.redact(b)); err != nil { // a refusal is written at once
		return 0, err
	}
	return len(b), nil
}

// Unwrap is for http.ResponseController.
func (t *tracker) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Flush is for those who ask by assertion.
func (t *tracker) Flush() {
	t.wrote = true
	_ = http.NewResponseController(t.ResponseWriter).Flush()
}
