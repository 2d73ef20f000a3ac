// Package web holds Parley's pages and serves them.
//
// The pages are a Vite build that is embedded from dist. A checkout without
// Node still compiles: dist then holds only its placeholder, and the handler
// says how to build the pages in place of showing them.
//
// [Handler] answers GET and HEAD of "/" (the list of apps), "/apps/{app}/"
// (the page of an app that has one) and the files that these pages load. The
// pages name their files relative to themselves, so they work below any prefix
// that a proxy adds. Hashed files are cached for good, pages are asked for
// again each time, and text is sent as it was compressed at build time. Every
// response carries a content security policy under which only our own scripts,
// styles and fonts load and only our own server is spoken to.
//
// It knows nothing of sessions and asks for no identity: the pages hold no
// data. It does not know which apps are switched on; who mounts it refuses the
// others first.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
)

//go:embed all:dist
var dist embed.FS

// FS returns the built pages: index.html, one {app}.html for each app that has
// a page, and assets/. It holds no page when they are not built.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name above is not a valid path
	}
	return sub
}

// Handler serves the embedded pages. It is safe for concurrent use.
func Handler() http.Handler { return New(FS()) }

// New serves the pages in fsys, which is read once: each file's hash becomes
// its ETag.
func New(fsys fs.FS) http.Handler {
	s := &site{fsys: fsys, files: map[string]file{}}
	// An unreadable tree is the same as one that is not built: a page says so.
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(path.Base(name), ".") {
			s.add(name)
		}
		return err
	})
	return s
}

type site struct {
	fsys  fs.FS
	files map[string]file // by path in fsys
}

type file struct {
	etag string // of the plain form, without quotes
	size int64
}

func (s *site) add(name string) {
	f, err := s.fsys.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return
	}
	s.files[name] = file{etag: hex.EncodeToString(h.Sum(nil)[:12]), size: n}
}

// policy lets a page load only what this server sends. frame-ancestors is
// 'self' because Home Assistant shows an add-on's page in a frame of its own
// origin. Pictures are blobs where the server asks for a key, which only fetch
// can send. Styles set by scripts through the DOM are not inline styles to it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	page, rest := "index", strings.TrimPrefix(r.URL.Path, "/")
	if after, ok := strings.CutPrefix(rest, "apps/"); ok {
		app, inside, slash := strings.Cut(after, "/")
		if !slash && app != "" && reads {
			// The dot keeps a name with a colon from being read as a scheme.
			redirect(w, "./"+url.PathEscape(app)+"/")
			return
		}
		if page, rest = app, inside; !slash {
			rest = app // no page is here
		}
	}
	there := rest == "" && (page == "index" || s.has(page+".html")) || s.has(rest) && path.Ext(rest) != ".html"
	switch {
	case !reads:
		if !there {
			say(w, r, http.StatusNotFound, "There is nothing at this address.", "the routes of the API are listed at /docs")
			return
		}
		h.Set("Allow", "GET, HEAD")
		say(w, r, http.StatusMethodNotAllowed, "Pages are only read.", "use GET")
	case rest == "":
		s.page(w, r, page)
	case s.has(rest) && path.Ext(rest) != ".html":
		s.file(w, r, rest)
	case page != "index" && path.Ext(rest) == "" && !strings.HasPrefix(rest, "assets/"):
		// The page keeps its place in the fragment, so a deeper path is an old or
		// mistyped link; relative, because a proxy may have put a prefix before us.
		redirect(w, "./"+strings.Repeat("../", strings.Count(rest, "/")))
	default:
		say(w, r, http.StatusNotFound, "There is nothing at this address.", "the apps are listed at /")
	}
}

func (s *site) has(name string) bool {
	_, ok := s.files[name]
	return ok
}

// page sends the page of an app; index is the list of apps.
func (s *site) page(w http.ResponseWriter, r *http.Request, page string) {
	name := page + ".html"
	switch {
	case !s.has("index.html"):
		say(w, r, http.StatusServiceUnavailable,
			"The pages are not built into this binary. Run `make build`, which needs Node, and start it again.\n"+
				"Everything else works without them: see /openapi.json", "")
	case !s.has(name) || strings.Contains(page, "/"):
		say(w, r, http.StatusNotFound, "The app "+strconv.Quote(page)+" has no page.", "the apps are listed at /")
	default:
		s.file(w, r, name)
	}
}

// file sends one file in the best form that the client accepts.
func (s *site) file(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // the name changes with the content
	} else {
		h.Set("Cache-Control", "no-cache") // kept, but asked about each time
	}
	sent, etag := name, s.files[name].etag
	if s.has(name+".br") || s.has(name+".gz") {
		h.Set("Vary", "Accept-Encoding")
		switch accept := r.Header.Get("Accept-Encoding"); {
		case s.has(name+".br") && Accepts(accept, "br"):
			h.Set("Content-Encoding", "br")
			sent, etag = name+".br", etag+"-br"
		case s.has(name+".gz") && Accepts(accept, "gzip"):
			h.Set("Content-Encoding", "gzip")
			sent, etag = name+".gz", etag+"-gz"
		}
	}
	h.Set("ETag", `"`+etag+`"`)
	if matches(r.Header.Get("If-None-Match"), `"`+etag+`"`) {
		h.Del("Content-Encoding")
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	f, err := s.fsys.Open(sent)
	if err != nil {
		say(w, r, http.StatusInternalServerError, "The page could not be read.", "")
		return
	}
	defer f.Close()
	h.Set("Content-Length", strconv.FormatInt(s.files[sent].size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = io.Copy(w, f) // if the client has gone, there is no one to send an error to
	}
}

// Accepts reports whether an Accept-Encoding header allows coding
// (RFC 9110, section 12.5.3): named, or covered by "*", and not with q=0.
func Accepts(header, coding string) bool {
	wild := false
	for item := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(item), ";")
		q := strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
		wanted := true
		if v, err := strconv.ParseFloat(q, 64); err == nil {
			wanted = v > 0
		}
		switch name = strings.TrimSpace(name); {
		case strings.EqualFold(name, coding):
			return wanted
		case name == "*":
			wild = wanted
		}
	}
	return wild
}

// matches reports whether an If-None-Match header names etag. The comparison
// is the weak one, since a proxy may have weakened what we sent.
func matches(header, etag string) bool {
	for item := range strings.SplitSeq(header, ",") {
		item = strings.TrimSpace(item)
		if item == "*" || strings.TrimPrefix(item, "W/") == etag {
			return true
		}
	}
	return false
}

// contentType does not ask the system's table, which differs between machines.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".json":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".woff2":
		return "font/woff2"
	}
	return "application/octet-stream"
}

// redirect sends a relative Location, which http.Redirect would make absolute
// and so lose a proxy's prefix.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

// say answers with a sentence: as text to a browser, and to other clients in the one shape of
// errors.
func say(w http.ResponseWriter, r *http.Request, status int, text, hint string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "text/html") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text+" "+strings.ToUpper(hint[:min(1, len(hint))])+hint[min(1, len(hint)):]+"\n")
		return
	}
	code := map[int]parley.Code{
		http.StatusNotFound: parley.CodeNotFound, http.StatusMethodNotAllowed: parley.CodeInvalid, http.StatusServiceUnavailable: parley.CodeUnavailable,
	}[status]
	if code == "" {
		code = parley.CodeInternal
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]parley.ErrorInfo{"error": {Code: code, Message: text, Hint: hint}})
}
