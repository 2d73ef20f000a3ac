package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/web"
)

// built is a small site as Vite leaves it.
func built() fstest.MapFS {
	return fstest.MapFS{
		".gitkeep":              {},
		"index.html":            {Data: []byte("the apps")},
		"index.html.br":         {Data: []byte("br of the apps")},
		"index.html.gz":         {Data: []byte("gz of the apps")},
		"app.html":              {Data: []byte(`<title>Parley</title> type="image/svg+xml" href="./favicon.svg"`)},
		"favicon.svg":           {Data: []byte("icon")},
		"theme.js":              {Data: []byte("theme")},
		"sidecar.js":            {Data: []byte("panel")},
		"assets/chaos-1a2b.js":  {Data: []byte("script")},
		"assets/inter-9z.woff2": {Data: []byte("font")},
	}
}

// looks knows two apps, one of them with a look of its own.
func looks(app string) (web.Look, bool) {
	switch app {
	case "chaos":
		return web.Look{Title: `Chaos </title><script>`}, true
	case "mine":
		return web.Look{Title: "Mine", Accent: "#1f6feb", Logo: []byte("<svg onload='x'/>"), LogoType: "image/svg+xml"}, true
	}
	return web.Look{}, false
}

const (
	pageOfChaos   = `<title>Chaos &lt;/title&gt;&lt;script&gt;</title> type="image/svg+xml" href="./favicon.svg"`
	pageOfMine    = `<title>Mine</title> type="image/svg+xml" href="./logo"`
	pageOfUnknown = `<title>Parley</title> type="image/svg+xml" href="./favicon.svg"`
)

type answer struct {
	Status                                    int
	Body, Type, Cache, Encoding, Vary, Target string
}

func get(t *testing.T, site fs.FS, method, path string, header ...string) (answer, http.Header) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept", "text/html") // as a browser
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	web.New(site, looks).ServeHTTP(w, r)
	h := w.Header()
	return answer{
		Status: w.Code, Body: w.Body.String(), Type: h.Get("Content-Type"), Cache: h.Get("Cache-Control"),
		Encoding: h.Get("Content-Encoding"), Vary: h.Get("Vary"), Target: h.Get("Location"),
	}, h
}

const (
	html    = "text/html; charset=utf-8"
	script  = "text/javascript; charset=utf-8"
	forGood = "public, max-age=31536000, immutable"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path string
		header     []string
		want       answer
	}{
		{"list_of_apps", "/", nil, answer{Status: 200, Body: "the apps", Type: html, Cache: "no-cache", Vary: "Accept-Encoding"}},
		{"page_of_an_app", "/apps/chaos/", nil, answer{Status: 200, Body: pageOfChaos, Type: html, Cache: "no-cache"}},
		{"page_of_an_app_of_ones_own", "/apps/mine/", nil, answer{Status: 200, Body: pageOfMine, Type: html, Cache: "no-cache"}},
		{"logo", "/apps/mine/logo", nil, answer{Status: 200, Body: "<svg onload='x'/>", Type: "image/svg+xml", Cache: "no-cache"}},
		{"colours", "/apps/chaos/look.css", nil, answer{Status: 200, Type: "text/css; charset=utf-8", Cache: "no-cache"}},
		{"app_without_slash", "/apps/chaos", nil, answer{Status: 302, Target: "./chaos/"}},
		{"no_way_out", "/apps/https:example.com", nil, answer{Status: 302, Target: "./https:example.com/"}},
		{"deeper_path_goes_back_to_the_app", "/apps/chaos/a/b", nil, answer{Status: 302, Target: "./../"}},
		{"app_that_is_not_served", "/apps/home/", nil, answer{Status: 404, Body: pageOfUnknown, Type: html, Cache: "no-cache"}},
		{"file_of_its_page", "/apps/home/theme.js", nil, answer{Status: 200, Body: "theme", Type: script, Cache: "no-cache"}},
		{"hashed_file_is_kept_for_good", "/assets/chaos-1a2b.js", nil, answer{Status: 200, Body: "script", Type: script, Cache: forGood}},
		{"file_below_the_app", "/apps/chaos/assets/inter-9z.woff2", nil, answer{Status: 200, Body: "font", Type: "font/woff2", Cache: forGood}},
		{"unhashed_file_is_asked_for_again", "/apps/chaos/theme.js", nil, answer{Status: 200, Body: "theme", Type: script, Cache: "no-cache"}},
		{"no_way_up", "/apps/chaos/../../../etc/passwd", nil, answer{Status: 302, Target: "./../../../../"}},
		{"brotli", "/", []string{"Accept-Encoding", "gzip, br"}, answer{Status: 200, Body: "br of the apps", Type: html, Cache: "no-cache", Encoding: "br", Vary: "Accept-Encoding"}},
		{"gzip", "/", []string{"Accept-Encoding", "gzip;q=0.5, br;q=0"}, answer{Status: 200, Body: "gz of the apps", Type: html, Cache: "no-cache", Encoding: "gzip", Vary: "Accept-Encoding"}},
		{"nothing_accepted", "/", []string{"Accept-Encoding", "*;q=0"}, answer{Status: 200, Body: "the apps", Type: html, Cache: "no-cache", Vary: "Accept-Encoding"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, _ := get(t, built(), http.MethodGet, c.path, c.header...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("GET %s (-want +got):\n%s", c.path, diff)
			}
		})
	}
}

// TestHandler_sidecar: pages of other origins may load the panel's script, and nothing else.
func TestHandler_sidecar(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][3]string{
		"/sidecar.js": {"cross-origin", "*", "public, max-age=300, stale-while-revalidate=86400"},
		"/theme.js":   {"same-origin", "", "no-cache"},
	} {
		_, h := get(t, built(), http.MethodGet, path)
		got := [3]string{h.Get("Cross-Origin-Resource-Policy"), h.Get("Access-Control-Allow-Origin"), h.Get("Cache-Control")}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestSidecar_size: what a page of others has to load for the panel, compressed.
func TestSidecar_size(t *testing.T) {
	t.Parallel()
	const most = 120_000
	for _, name := range []string{"sidecar.js.br", "sidecar.js.gz"} {
		info, err := fs.Stat(web.FS(), name)
		if err != nil {
			t.Skip("the pages are not built: run make build")
		}
		if info.Size() >= most {
			t.Errorf("%s has %d bytes, and may have %d", name, info.Size(), most)
		}
	}
}

func TestHandler_head_has_no_body(t *testing.T) {
	t.Parallel()
	got, h := get(t, built(), http.MethodHead, "/apps/chaos/")
	want := answer{Status: 200, Type: html, Cache: "no-cache"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("HEAD (-want +got):\n%s", diff)
	}
	if got := h.Get("Content-Length"); got != strconv.Itoa(len(pageOfChaos)) {
		t.Errorf("Content-Length: got %q, want %d", got, len(pageOfChaos))
	}
}

func TestHandler_refuses_to_be_written_to(t *testing.T) {
	t.Parallel()
	got, h := get(t, built(), http.MethodPost, "/")
	if got.Status != http.StatusMethodNotAllowed || h.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d, Allow %q", got.Status, h.Get("Allow"))
	}
}

func TestHandler_unchanged_page_is_not_sent_again(t *testing.T) {
	t.Parallel()
	_, first := get(t, built(), http.MethodGet, "/", "Accept-Encoding", "br")
	again, _ := get(t, built(), http.MethodGet, "/", "Accept-Encoding", "br", "If-None-Match", "W/"+first.Get("ETag"))
	if diff := cmp.Diff(answer{Status: 304, Cache: "no-cache", Vary: "Accept-Encoding"}, again); diff != "" {
		t.Errorf("with its ETag (-want +got):\n%s", diff)
	}
	plain, _ := get(t, built(), http.MethodGet, "/", "If-None-Match", first.Get("ETag"))
	if plain.Status != http.StatusOK {
		t.Errorf("the ETag of another encoding matched: got %d, want 200", plain.Status)
	}
}

func TestHandler_without_a_build_says_what_to_do(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/apps/chaos/"} {
		got, _ := get(t, fstest.MapFS{".gitkeep": {}}, http.MethodGet, path)
		if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "make build") {
			t.Errorf("GET %s: got %d %q, want 503 that names make build", path, got.Status, got.Body)
		}
	}
}

func TestHandler_every_answer_is_guarded(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/apps/chaos/", "/assets/chaos-1a2b.js", "/nothing"} {
		_, h := get(t, built(), http.MethodGet, path)
		csp := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("GET %s: Content-Security-Policy %q", path, csp)
		}
		if got := h.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("GET %s: X-Content-Type-Options %q", path, got)
		}
	}
	_, h := get(t, built(), http.MethodGet, "/apps/mine/logo")
	if got := h.Get("Content-Security-Policy"); !strings.HasSuffix(got, "; sandbox") || !strings.HasPrefix(got, "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a logo, which may be a document, could run: %q, %q", got, h.Get("X-Content-Type-Options"))
	}
}

// The embedded pages, when they are built, must live under the policy: no
// script, style or handler of theirs may be inline, and what they load is here.
func TestEmbedded_pages_are_whole_and_have_nothing_inline(t *testing.T) {
	t.Parallel()
	pages, err := fs.Glob(web.FS(), "*.html")
	if err != nil {
		t.Fatal(err)
	}
	loads := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, name := range pages {
		page, err := fs.ReadFile(web.FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"<script>", "<style", " style=", " onload="} {
			if strings.Contains(string(page), bad) {
				t.Errorf("%s contains %q", name, bad)
			}
		}
		for _, m := range loads.FindAllStringSubmatch(string(page), -1) {
			file, relative := strings.CutPrefix(m[1], "./")
			if file == "look.css" || file == "app.webmanifest" {
				continue // each app has its own
			}
			if _, err := fs.Stat(web.FS(), file); err != nil || !relative {
				t.Errorf("%s loads %q, which is not a file beside it", name, m[1])
			}
		}
	}
}

// TestNothing_leads_back: where there is no page, a browser gets a small one. Its policy admits
// its style, and its links lead to the root, also below the prefix of a proxy.
func TestNothing_leads_back(t *testing.T) {
	t.Parallel()
	for path, root := range map[string]string{
		"/nope":                       "./",
		"/app.html":                   "./", // the page of an app has one address
		"/.gitkeep":                   "./", // hidden files stay hidden
		"/a/b":                        "./../",
		"/assets/chaos-old.js":        "./../",
		"/apps/chaos/logo":            "./../../", // it has none
		"/apps/chaos/assets/old":      "./../../../",
		"/apps/chaos/%3Cscript%3E.js": "./../../",
	} {
		got, h := get(t, built(), http.MethodGet, path)
		body := got.Body
		got.Body = ""
		if want := (answer{Status: 404, Type: html, Cache: "no-store"}); got != want {
			t.Errorf("GET %s: got %+v, want %+v", path, got, want)
		}
		if !strings.Contains(body, "There is nothing at this address") || !strings.Contains(body, `<a href="`+root+`">All apps</a>`) ||
			!strings.Contains(body, `src="`+root+`theme.js"`) || strings.Contains(body, "script>.js") {
			t.Errorf("GET %s: %s", path, body)
		}
		_, style, _ := strings.Cut(body, "<style>")
		style, _, _ = strings.Cut(style, "</style>")
		sum := sha256.Sum256([]byte(style))
		if hash := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(h.Get("Content-Security-Policy"), hash) {
			t.Errorf("GET %s: the policy %q does not admit the page's style, which needs %s", path, h.Get("Content-Security-Policy"), hash)
		}
	}
}

// TestProgramsGetTheOneShape answers a program, which takes anything, as every
// other route does.
func TestProgramsGetTheOneShape(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/nope", nil)
	r.Header.Set("Accept", "*/*")
	w := httptest.NewRecorder()
	web.New(web.FS(), looks).ServeHTTP(w, r)
	want := `{"error":{"code":"not_found","message":"There is nothing at this address.","hint":"the apps are listed at /"}}` + "\n"
	if w.Code != http.StatusNotFound || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// TestWorker: the worker of the pages is asked for again each time, below every prefix, and loads
// and asks nothing but this server.
func TestWorker(t *testing.T) {
	t.Parallel()
	site := web.New(fstest.MapFS{"app.html": {Data: []byte("x")}, "worker.js": {Data: []byte("self")}, "offline.html": {Data: []byte("none")}}, func(string) (web.Look, bool) { return web.Look{}, true })
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/worker.js", nil))
	h := w.Header()
	if w.Code != http.StatusOK || h.Get("Cache-Control") != "no-cache" || !strings.Contains(h.Get("Content-Type"), "javascript") || !strings.Contains(h.Get("Content-Security-Policy"), "connect-src 'self'") {
		t.Errorf("%d %v", w.Code, h)
	}
	page := httptest.NewRecorder()
	site.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/offline.html", nil))
	if page.Code != http.StatusOK || page.Body.String() != "none" {
		t.Errorf("the page without a connection: %d %s", page.Code, page.Body)
	}
}
