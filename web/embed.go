// Package web holds Parley's pages and serves them.
//
// The pages are a Vite build that is embedded from dist. A checkout without
// Node still compiles: dist then holds only its placeholder, and the handler
// says how to build the pages in place of showing them.
//
// A [Site] answers GET and HEAD of "/" (the list of apps), "/apps/{app}/" (the
// page of an app), "/login.html" (where a browser comes back to from a login at another service), "/account.html" (what acts as a person),
// "/offline.html" (which browsers keep for when there is no connection) and the files that these pages load. Below the page of an app
// are its logo, its colours as look.css, and app.webmanifest. The page of an app
// that is not served has the status 404, and asks the server why. The
// pages name their files relative to themselves, so they work below any prefix
// that a proxy adds. Hashed files are cached for good, pages are asked for
// again each time, and text is sent as it was compressed at build time. Pages of
// other origins may load "/sidecar.js", and nothing else. Every
// response carries a content security policy under which only our own scripts,
// styles and fonts load and only our own server is spoken to.
//
// It knows nothing of sessions and asks for no identity: the pages hold no
// data but what an app says about itself.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-server/parley"
)

//go:embed all:dist
var dist embed.FS

// FS returns the built pages: index.html, app.html, which is the page of every
// app, and assets/. It holds no page when they are not built.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name above is not a valid path
	}
	return sub
}

// Looks says how the page of an app looks; false: there is no such app. It is called for each
// request.
type Looks func(app string) (Look, bool)

// Site serves pages. It is safe for concurrent use.
type Site struct {
	fsys  fs.FS
	looks Looks
	files map[string]file // by path in fsys
	app   string          // app.html, before it has an app's title
}

// New serves the pages in fsys, which must not change: each file's hash becomes
// its ETag.
func New(fsys fs.FS, looks Looks) *Site {
	s := &Site{fsys: fsys, looks: looks, files: map[string]file{}}
	// An unreadable tree is the same as one that is not built: a page says so.
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(path.Base(name), ".") {
			s.add(name, d)
		}
		return err
	})
	raw, _ := fs.ReadFile(fsys, appPage)
	s.app = string(raw)
	return s
}

// appPage is the page of every app. What is replaced in it is in the form of web/app.html.
const (
	appPage     = "app.html"
	loginPage   = "login.html"
	accountPage = "account.html"
	offlinePage = "offline.html" // what the worker shows without a connection
	sidecar     = "sidecar.js"   // the panel for pages of others
	noTitle     = "<title>Parley</title>"
	noLogo      = `type="image/svg+xml" href="./favicon.svg"`
)

type file struct {
	etag func() string // of the plain form, without quotes; made when it is first asked for
	size int64
}

func (s *Site) add(name string, d fs.DirEntry) {
	info, err := d.Info()
	if err != nil {
		return
	}
	s.files[name] = file{size: info.Size(), etag: sync.OnceValue(func() string {
		f, err := s.fsys.Open(name)
		if err != nil {
			return "" // what is sent then says so
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return ""
		}
		return hex.EncodeToString(h.Sum(nil)[:12])
	})}
}

// policy lets a page load only what this server sends. frame-ancestors is
// 'self' because Home Assistant shows an add-on's page in a frame of its own
// origin. Pictures are blobs where the server asks for a key, which only fetch
// can send. Styles set by scripts through the DOM are not inline styles to it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; manifest-src 'self'; worker-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	app, rest, inApp := split(r.URL.Path)
	if inApp && app == "" { // the slash after the app's name is missing
		if rest != "" && reads {
			// The dot keeps a name with a colon from being read as a scheme.
			redirect(w, "./"+url.PathEscape(rest)+"/")
			return
		}
		inApp = false
	}
	plain := !inApp && (rest == loginPage || rest == accountPage || rest == offlinePage)
	there := rest == "" || s.isFile(rest) || inApp && isOwn(rest) || plain
	switch {
	case !reads:
		if !there {
			say(w, r, http.StatusNotFound, "There is nothing at this address.", "the routes of the API are listed at /docs")
			return
		}
		h.Set("Allow", "GET, HEAD")
		say(w, r, http.StatusMethodNotAllowed, "Pages are only read.", "use GET")
	case rest == "" && inApp:
		s.page(w, r, app)
	case rest == "":
		s.plain(w, r, "index.html")
	case plain:
		s.plain(w, r, rest)
	case s.isFile(rest):
		s.file(w, r, rest)
	case inApp && isOwn(rest):
		s.own(w, r, app, rest)
	case inApp && path.Ext(rest) == "" && !strings.HasPrefix(rest, "assets/"):
		// The page keeps its place in the fragment, so a deeper path is an old or
		// mistyped link; relative, because a proxy may have put a prefix before us.
		redirect(w, "./"+strings.Repeat("../", strings.Count(rest, "/")))
	default:
		nothing(w, r)
	}
}

// split finds the app in a path and the rest of the path. Without a slash after the app's name,
// rest is the name.
func split(p string) (app, rest string, inApp bool) {
	p = strings.TrimPrefix(p, "/")
	after, ok := strings.CutPrefix(p, "apps/")
	if !ok {
		return "", p, false
	}
	app, rest, slash := strings.Cut(after, "/")
	if !slash {
		return "", app, true
	}
	return app, rest, true
}

// Shows reports whether the Site answers a request for the path of an app that is not served: the
// page, when a browser asks for it, and the files that it loads.
func (s *Site) Shows(r *http.Request) bool {
	_, rest, _ := split(r.URL.Path)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	return reads && (rest == "" && strings.Contains(r.Header.Get("Accept"), "text/html") || s.isFile(rest) || rest == "look.css")
}

// isFile reports whether the build has a file that is served as it is.
func (s *Site) isFile(name string) bool { return s.has(name) && path.Ext(name) != ".html" }

// isOwn reports whether each app has its own file of that name.
func isOwn(name string) bool {
	return name == "look.css" || name == "logo" || name == "app.webmanifest"
}

func (s *Site) has(name string) bool {
	_, ok := s.files[name]
	return ok
}

// plain sends a page that is the same for everybody: the list of apps, the page to which a login
// redirects, or the one where a person sees what acts as them.
func (s *Site) plain(w http.ResponseWriter, r *http.Request, name string) {
	if !s.has(name) {
		unbuilt(w, r)
		return
	}
	s.file(w, r, name)
}

func unbuilt(w http.ResponseWriter, r *http.Request) {
	say(w, r, http.StatusServiceUnavailable,
		"The pages are not built into this binary. Run `make build`, which needs Node, and start it again.\n"+
			"Everything else works without them: see /openapi.json", "")
}

// page sends the page of an app.
func (s *Site) page(w http.ResponseWriter, r *http.Request, app string) {
	if s.app == "" {
		unbuilt(w, r)
		return
	}
	status, page := http.StatusNotFound, s.app
	if look, ok := s.looks(app); ok {
		status = http.StatusOK
		page = strings.Replace(page, noTitle, "<title>"+html.EscapeString(look.Title)+"</title>", 1)
		if look.Logo != nil {
			page = strings.Replace(page, noLogo, `type="`+look.LogoType+`" href="./logo"`, 1)
		}
	}
	send(w, r, status, contentType(appPage), []byte(page))
}

// own sends a file that each app has its own of, such as the logo.
func (s *Site) own(w http.ResponseWriter, r *http.Request, app, name string) {
	look, ok := s.looks(app)
	switch {
	case name == "look.css": // also for an app that is not served, because its page loads it
		send(w, r, http.StatusOK, contentType(name), accented(look.Accent))
	case ok && name == "logo" && look.Logo != nil:
		// A picture may be a document of XML. Opened by itself, it can neither run anything nor load anything.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		send(w, r, http.StatusOK, look.LogoType, look.Logo)
	case ok && name == "app.webmanifest":
		send(w, r, http.StatusOK, contentType(name), manifest(look))
	default:
		nothing(w, r)
	}
}

// manifest lets browsers install the page of an app.
func manifest(look Look) []byte {
	type icon struct {
		Src     string `json:"src"`
		Sizes   string `json:"sizes,omitempty"`
		Type    string `json:"type"`
		Purpose string `json:"purpose,omitempty"`
	}
	icons := []icon{
		{"./favicon.svg", "any", "image/svg+xml", ""},
		{"./icon-192.png", "192x192", "image/png", ""},
		{"./icon-512.png", "512x512", "image/png", "any maskable"},
	}
	if look.Logo != nil {
		icons = append([]icon{{"./logo", "any", look.LogoType, ""}}, icons[1:]...)
	}
	body, _ := json.Marshal(map[string]any{ // strings always encode
		"name": look.Title, "short_name": look.Title, "description": look.Description, "start_url": "./", "scope": "./",
		"display": "standalone", "background_color": "#0a0a0a", "theme_color": "#0a0a0a", "icons": icons,
	})
	return body
}

// send sends a body that was made for this request. Clients revalidate it each time.
func send(w http.ResponseWriter, r *http.Request, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:12]) + `"`
	if status == http.StatusOK {
		h.Set("ETag", etag)
		if matches(r.Header.Get("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // if the client has gone, there is no one to send an error to
	}
}

// file sends one file in the best form that the client accepts.
func (s *Site) file(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	switch {
	case strings.HasPrefix(name, "assets/"):
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // the name changes with the content
	case name == sidecar:
		forPages(h)
	default:
		h.Set("Cache-Control", "no-cache") // kept, but asked about each time
	}
	sent, etag := name, s.files[name].etag()
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

// forPages sets the headers of a file that pages of other origins load. It holds nobody's data. A page
// shows it without a request for five minutes, so that it does not wait for it on each of its own pages.
func forPages(h http.Header) {
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Allow-Origin", "*") // for tags with an integrity or crossorigin attribute
	h.Set("Cache-Control", "public, max-age=300, stale-while-revalidate=86400")
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
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".txt", ".md", ".ts":
		return "text/plain; charset=utf-8"
	case ".csv":
		return "text/csv; charset=utf-8"
	case ".json", ".map":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".webp":
		return "image/webp"
	case ".avif":
		return "image/avif"
	case ".gif":
		return "image/gif"
	case ".ico":
		return "image/x-icon"
	case ".woff":
		return "font/woff"
	case ".woff2":
		return "font/woff2"
	case ".wasm":
		return "application/wasm"
	case ".pdf":
		return "application/pdf"
	case ".mp3":
		return "audio/mpeg"
	case ".mp4":
		return "video/mp4"
	case ".webm":
		return "video/webm"
	}
	return "application/octet-stream"
}

// redirect sends a relative Location, which http.Redirect would make absolute
// and so lose a proxy's prefix.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

//go:embed missing.html
var missingPage string

// missingStyle is the hash of the page's style, by which the policy lets it in (CSP level 3).
var missingStyle = func() string {
	_, style, _ := strings.Cut(missingPage, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// nothing answers a request for a page that does not exist: to a browser with a small page
// that leads back to the apps. Its links are relative, because a proxy may have put a prefix
// before us.
func nothing(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		say(w, r, http.StatusNotFound, "There is nothing at this address.", "the apps are listed at /")
		return
	}
	root := "./" + strings.Repeat("../", strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/"))
	h := w.Header()
	h.Set("Content-Security-Policy", strings.Replace(policy, "style-src 'self'", "style-src "+missingStyle, 1))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", contentType(".html"))
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, strings.ReplaceAll(missingPage, `="./`, `="`+root))
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
		http.StatusNotFound: parley.CodeNotFound, http.StatusForbidden: parley.CodeForbidden, http.StatusMethodNotAllowed: parley.CodeInvalid, http.StatusServiceUnavailable: parley.CodeUnavailable,
	}[status]
	if code == "" {
		code = parley.CodeInternal
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := map[string]any{"error": parley.ErrorInfo{Code: code, Message: text, Hint: hint}}
	if wantsDetail(w) {
		body["detail"] = text
	}
	_ = json.NewEncoder(w).Encode(body)
}

// wantsDetail reports whether the client of w looks for the message of an error under detail, too. A
// writer of the server's knows that.
func wantsDetail(w http.ResponseWriter) bool {
	for {
		if d, ok := w.(interface{ WantsDetail() bool }); ok {
			return d.WantsDetail()
		}
		under, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = under.Unwrap()
	}
}
