package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// MaxOwn limits a file of an app's own page, in bytes.
const MaxOwn = 32 << 20

// ownPolicy is for pages that others wrote, at origins of their own. They load what their server
// sends and speak to it alone, so that what they learn stays there. Scripts in the page's text
// do not run, styles do: many libraries set them so. Nobody may show it in a frame, where
// people would click on what they do not see.
const ownPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; " +
	"img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; worker-src 'self' blob:; " +
	"frame-src 'self' blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// GuardOwn sets the headers of an app's own page before its handler runs, and reports whether
// the handler may get the request. A service worker may not: it would outlive the page, and
// answer for whatever is served at this address later, which may be the server's own pages.
func GuardOwn(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Content-Security-Policy", ownPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Origin-Agent-Cluster", "?1") // a process apart from pages at other ports of this host
	if r.Header.Get("Service-Worker") != "" {
		say(w, r, http.StatusForbidden, "A page of an app cannot have a service worker.", "it would answer for what is served at this address later")
		return false
	}
	return true
}

// ServeOwn answers GET and HEAD from the folder of an app's own page. It reads the folder for
// each request, and clients ask each time whether a file has changed. A path that ends in a
// slash is the index.html of that folder. Names that begin with a dot are not served.
func ServeOwn(w http.ResponseWriter, r *http.Request, fsys fs.FS) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		say(w, r, http.StatusMethodNotAllowed, "Pages are only read.", "use GET")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	info, err := fs.Stat(fsys, name) // before it is opened: opening a pipe would wait for its writer
	switch {
	case err == nil && info.IsDir() && !hidden(name):
		redirect(w, "./"+path.Base(name)+"/")
		return
	case err != nil || !info.Mode().IsRegular() || hidden(name):
		say(w, r, http.StatusNotFound, "There is nothing at this address.", "the page of this app is at /")
		return
	case info.Size() > MaxOwn:
		say(w, r, http.StatusNotFound, fmt.Sprintf("%s has more than %d MiB.", path.Base(name), MaxOwn>>20), "a page's files are smaller")
		return
	}
	f, err := fsys.Open(name)
	if err != nil {
		say(w, r, http.StatusNotFound, "There is nothing at this address.", "the page of this app is at /")
		return
	}
	defer f.Close()
	content, ok := f.(io.ReadSeeker)
	if !ok {
		say(w, r, http.StatusInternalServerError, "The file could not be read.", "")
		return
	}
	etag, err := etagOf(info, content)
	if err != nil {
		say(w, r, http.StatusInternalServerError, "The file could not be read.", "")
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", etag)
	http.ServeContent(w, r, "", time.Time{}, content)
}

// hidden reports whether a part of a name begins with a dot, as editors' and version control's
// files do.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// etagOf tells two versions of a file apart, by its time and size; of a file inside the program,
// which has no time, by its content.
func etagOf(info fs.FileInfo, content io.ReadSeeker) (string, error) {
	h := sha256.New()
	fmt.Fprint(h, info.Size(), " ", info.ModTime().UnixNano())
	if info.ModTime().IsZero() {
		if _, err := io.Copy(h, content); err != nil {
			return "", err
		}
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	}
	return `"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`, nil
}
