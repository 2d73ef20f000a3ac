package auth

import (
	"cmp"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// Headers that the Supervisor sets on a request that it lets through. It drops user
// headers that a browser sent
// (https://github.com/home-assistant/supervisor/blob/main/supervisor/api/ingress.py). Home
// Assistant itself sets the path.
const (
	userIDHeader      = "X-Remote-User-Id"
	userNameHeader    = "X-Remote-User-Name"
	displayNameHeader = "X-Remote-User-Display-Name"
	pathHeader        = "X-Ingress-Path"
)

var supervisorHeaders = []string{userIDHeader, userNameHeader, displayNameHeader, pathHeader}

// fromIngress returns the user that Home Assistant has logged in. Older Supervisors name
// no user; their requests count as the owner's, who is local.
func fromIngress(h http.Header) (Identity, error) {
	id := h.Get(userIDHeader)
	who := Identity{Principal: parley.Local, Name: shownName(cmp.Or(h.Get(displayNameHeader), h.Get(userNameHeader)))}
	if id == "" {
		return who, nil
	}
	if err := checkUser(id); err != nil {
		return Identity{}, parley.Errorf(parley.CodeUnauthenticated, "the Supervisor names an invalid user: %w", err)
	}
	who.User = id
	return who, nil
}

// shownName returns a name that is safe to show.
func shownName(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return ""
	}
	return parley.Cut(s, 100)
}

// cleanPath returns the path prefix under which the browser sees this server, without a
// trailing slash, or "" for an invalid one. It goes into headers, so only characters of a
// path are allowed.
func cleanPath(p string) string {
	p = strings.TrimRight(p, "/")
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/-_.~", r)
	}
	if !strings.HasPrefix(p, "/") || len(p) > 256 || strings.Contains(p, "//") || strings.Contains(p, "/.") || strings.ContainsFunc(p, odd) {
		return ""
	}
	return p
}

// below wraps the response to a browser that sees the server under a prefix: it adds the
// prefix to absolute paths in headers. Pages do not need this, because all their
// references are relative.
func below(w http.ResponseWriter, prefix string) http.ResponseWriter {
	if prefix = cleanPath(prefix); prefix == "" {
		return w
	}
	return &prefixed{ResponseWriter: w, prefix: prefix}
}

type prefixed struct {
	http.ResponseWriter
	prefix string
	done   bool
}

func (w *prefixed) WriteHeader(status int) {
	w.head()
	w.ResponseWriter.WriteHeader(status)
}

func (w *prefixed) Write(b []byte) (int, error) {
	w.head()
	return w.ResponseWriter.Write(b)
}

func (w *prefixed) head() {
	if w.done {
		return
	}
	w.done = true
	for _, name := range []string{"Location", "Content-Location"} {
		if to := w.Header().Get(name); strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
			w.Header().Set(name, w.prefix+to)
		}
	}
}

// Unwrap is for http.ResponseController.
func (w *prefixed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for handlers that find it by type assertion.
func (w *prefixed) Flush() {
	w.head()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
