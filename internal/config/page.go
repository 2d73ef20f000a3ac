package config

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// Limits of what an app shows on its page: bytes, and numbers of questions. Every client of the
// app reads all of it when it starts.
const (
	maxTitle       = 120
	maxDescription = 2 << 10
	maxQuestion    = 2 << 10 // bytes of an example or a follow-up
	maxQuestions   = 50
	maxLogo        = 64 << 10 // bytes; the logo is shown a few millimetres wide
)

// Page is how an app looks on its page.
type Page struct {
	Accent string // "#rrggbb"; "" is Parley's own
	Logo   []byte // nil: none
	Type   string // the media type of Logo
	Own    string // folder, in the app's folder, with the app's own page; "": none
}

var accent = pattern.New(`^#[0-9a-f]{6}$`)

// page reads what people see of the app on its page.
func (a *App) page(f appFile) {
	a.line("title", a.Title, maxTitle)
	a.bytes("description", f.Description, maxDescription)
	for at, list := range map[string][]string{"examples": f.Examples, "follow_ups": f.FollowUps} {
		if len(list) > maxQuestions {
			a.d.at(at, "has %d questions, more than %d", len(list), maxQuestions)
		}
		for i, q := range list {
			a.bytes(fmt.Sprintf("%s[%d]", at, i), q, maxQuestion)
		}
	}
	a.Page.Accent = strings.ToLower(f.Accent)
	// Without quotes, YAML reads the text from the # on as a comment.
	if _, there := a.d.lines["accent"]; there && !accent.MatchString(a.Page.Accent) {
		a.d.at("accent", "%q is not a colour; write it like \"#1f6feb\", in quotes", parley.Cut(f.Accent, 40))
	}
	if f.Logo != "" {
		a.logo(f.Logo)
	}
	if f.Page != "" {
		a.ownPage(path.Clean(f.Page))
	}
}

// ownPage finds the folder of the app's own page. What is in it is read for each request.
func (a *App) ownPage(dir string) {
	if !fs.ValidPath(dir) || dir == "." {
		a.d.at("page", "%q is not a folder inside the app's folder; serving the app's folder itself would show its settings", parley.Cut(dir, 100))
		return
	}
	info, err := fs.Stat(a.Files, path.Join(dir, "index.html"))
	if err != nil || !info.Mode().IsRegular() {
		a.d.at("page", "the folder %s has no index.html", parley.Cut(dir, 100))
		return
	}
	a.Page.Own = dir
}

// OwnPage opens the folder of the app's own page. No name and no link in it leads out of it.
// Call closes after use.
func (a *App) OwnPage() (fsys fs.FS, closes func(), err error) {
	if a.Dir == "" {
		fsys, err = fs.Sub(a.Files, a.Page.Own)
		return fsys, func() {}, err
	}
	app, err := os.OpenRoot(a.Dir)
	if err != nil {
		return nil, nil, err
	}
	defer app.Close()
	root, err := app.OpenRoot(filepath.FromSlash(a.Page.Own))
	if err != nil {
		return nil, nil, err
	}
	return root.FS(), func() { _ = root.Close() }, nil
}

// PageURL parses a value of Settings.Pages that is a URL. ok is false for an address to listen
// at.
func PageURL(value string) (u *url.URL, ok bool) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, false
	}
	return u, true
}

// pages checks where the pages of apps are served. Each needs its own origin, because pages of
// one origin could act as each other.
func (o *overrides) pages() {
	used := map[string]string{}
	for _, app := range slices.Sorted(maps.Keys(o.s.Pages)) {
		value, at := o.s.Pages[app], "pages."+app
		name := value
		if u, ok := PageURL(value); ok {
			name = strings.ToLower(u.Hostname())
			if name == "localhost" || slices.ContainsFunc(o.s.Hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
				o.bad(at, "%s is a name of the server itself; give the page its own name", name)
			}
		} else if _, port, err := net.SplitHostPort(value); err != nil || port == "" || strings.Contains(value, "/") {
			o.bad(at, "expected an address to listen at, such as 127.0.0.1:8001, or a URL, such as https://desk.example.com")
		} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			o.bad(at, "the port must be a number up to 65535, and is %q", port)
		} else if value == o.s.Addr && port != "0" {
			o.bad(at, "is the address of the server itself; give the page its own address")
		} else if port == "0" {
			continue // port 0: each page gets another port
		}
		if other, ok := used[name]; ok {
			o.bad(at, "the page of %s is served there; give each page its own address", other)
		}
		used[name] = app
	}
}

func (a *App) bytes(at, text string, most int) {
	if len(text) > most {
		a.d.at(at, "has %d bytes, more than %d", len(text), most)
	}
}

// line checks a text that is shown on one line of a page.
func (a *App) line(at, text string, most int) {
	a.bytes(at, text, most)
	if strings.ContainsFunc(text, unicode.IsControl) {
		a.d.at(at, "has a line break or another control character")
	}
}

// logo reads a picture in the app's folder. It detects the type from the bytes, because the
// name may be wrong.
func (a *App) logo(name string) {
	raw, err := readFile(a.Files, name, maxLogo)
	if err != nil {
		a.d.at("logo", "%s", err)
		return
	}
	kind := http.DetectContentType(raw)
	switch {
	case kind == "image/png" || kind == "image/jpeg" || kind == "image/webp":
	case !strings.HasPrefix(kind, "text/html") && isSVG(raw):
		kind = "image/svg+xml"
	default:
		a.d.at("logo", "%s is not a PNG, JPEG, WebP or SVG picture", name)
		return
	}
	a.Page.Logo, a.Page.Type = raw, kind
}

// isSVG reports whether raw is an XML document whose root element is svg.
func isSVG(raw []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(raw))
	d.Strict = false
	for {
		t, err := d.RawToken()
		if err != nil {
			return false
		}
		if root, ok := t.(xml.StartElement); ok {
			return root.Name.Local == "svg"
		}
	}
}
