package program

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/doors"
	"github.com/parley-server/parley/web"
)

// An app may bring a page of its own: a folder (page: in its app.yaml) or a handler in Go. Its
// scripts are not ours and must not act as our pages, so the page gets an origin of its own: a host
// name or a port. A request to such an origin is recognised once, at the login (auth.Options.Own),
// by its Host or its listener. It reaches the page and the part of the API that is about the page's
// app, and no other door.

const (
	apiPath    = "/v1/"
	clientPath = "/parley/" // where the module for browsers (web/src/client) is served
)

// ownOf returns the app to whose own origin a request was sent.
type ownOf func(*http.Request) (app string, own bool)

// ownNames recognises the origins that are host names. These are the names in the settings, and
// NAME.localhost, which browsers resolve to their own machine. NAME.localhost counts even if there
// is no app NAME, so that the address of a page does not become our page's when its app goes.
func ownNames(s config.Settings) ownOf {
	named := map[string]string{}
	for _, app := range names(s.Pages) {
		if u, ok := config.PageURL(s.Pages[app]); ok {
			named[strings.ToLower(u.Hostname())] = app
		}
	}
	return func(r *http.Request) (string, bool) {
		// A proxy that changes Host passes on the one that the browser asked for. If one of the two
		// is a page's, the request gets only what the page may do.
		for _, header := range append(r.Header.Values("X-Forwarded-Host"), r.Host) {
			for host := range strings.SplitSeq(header, ",") {
				name := api.HostName(strings.TrimSpace(host))
				if app := named[name]; app != "" {
					return app, true
				}
				if slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
					continue
				}
				if app, ok := strings.CutSuffix(name, ".localhost"); ok {
					return app, true
				}
			}
		}
		return "", false
	}
}

// ownAt is for a listener that serves the page of one app.
func ownAt(app string) ownOf { return func(*http.Request) (string, bool) { return app, true } }

// pageHosts returns the host names that the settings give to pages.
func pageHosts(s config.Settings) (list []string) {
	for _, app := range names(s.Pages) {
		if u, ok := config.PageURL(s.Pages[app]); ok {
			list = append(list, u.Hostname())
		}
	}
	return list
}

// pageListeners opens the ports that the settings give to pages, by app. Without a login they must
// be on loopback.
func pageListeners(s config.Settings, who *entrance) (list map[string]net.Listener, err error) {
	list = map[string]net.Listener{}
	defer func() {
		if err != nil {
			closeAll(list)
		}
	}()
	for _, app := range names(s.Pages) {
		addr := s.Pages[app]
		if _, ok := config.PageURL(addr); ok {
			continue
		}
		if who.open() && !isLoopback(addr) && len(who.notices) == 0 {
			return list, usage(parley.Errorf(parley.CodeForbidden, "pages.%s: %s can be reached from other machines, but no login is set up", app, addr).
				WithHint("make a key with `parley keys create NAME --app %s`, or listen on 127.0.0.1", app))
		}
		if list[app], err = listenTCP(addr); err != nil {
			delete(list, app)
			return list, parley.Errorf(parley.CodeOf(err), "the page of %s: %w", app, err).WithHint("give it another address under pages in parley.yaml")
		}
	}
	return list, nil
}

func closeAll(list map[string]net.Listener) {
	for _, l := range list {
		_ = l.Close()
	}
}

// pageURLs says where the pages of apps are: at an address of their own, at a name of their own, or
// by default at NAME.localhost and the server's port.
func pageURLs(s config.Settings, at net.Addr, ports map[string]net.Listener) func(app string) string {
	return func(app string) string {
		if l := ports[app]; l != nil {
			return urlsOf(l.Addr(), nil)[0] + "/"
		}
		if u, ok := config.PageURL(s.Pages[app]); ok {
			return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String()
		}
		_, port, err := net.SplitHostPort(at.String())
		if err != nil {
			return ""
		}
		return "http://" + net.JoinHostPort(app+".localhost", port) + "/"
	}
}

// ownPage is the address of the page that an app brings, or "" if it brings none.
func (p *plan) ownPage(app string) string {
	a, ok := p.page(app)
	if p.pageURL == nil || !ok || a.Page.Own == "" && p.kit.pages[app] == nil {
		return ""
	}
	return p.pageURL(app)
}

// ownPages serves the origins of the pages that apps bring.
type ownPages struct {
	p       *plan
	api     http.Handler
	browser http.Handler // serves the module for browsers
	has     func(app string) bool
	log     *slog.Logger
}

func newOwnPages(p *plan, native *api.Server, has func(app string) bool, log *slog.Logger) *ownPages {
	sub, err := fs.Sub(web.FS(), strings.Trim(clientPath, "/"))
	if err != nil {
		panic(err) // the name is valid
	}
	site := web.New(sub, func(string) (web.Look, bool) { return web.Look{}, false })
	return &ownPages{p: p, api: doors.Packed(native), browser: http.StripPrefix(strings.TrimSuffix(clientPath, "/"), site), has: has, log: log}
}

// isOpen reports whether a request to a page's origin needs no identity. Only the API has data, so
// only the API needs one.
func (o *ownPages) isOpen(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, apiPath) }

func (o *ownPages) serve(w http.ResponseWriter, r *http.Request, app string) {
	asked := r.URL.EscapedPath()
	if asked == "" || !doors.Plain(asked) {
		api.WriteError(w, parley.Errorf(parley.CodeNotFound, "there is nothing at %s", parley.Cut(r.URL.Path, 200)).
			WithHint("write the path without //, . and .."))
		return
	}
	if strings.HasPrefix(r.URL.Path, apiPath) || r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		o.api.ServeHTTP(w, r)
		return
	}
	a, ok := o.p.page(app)
	own := o.p.kit.pages[app]
	if !ok || !o.has(app) || own == nil && a.Page.Own == "" {
		api.WriteError(w, parley.Errorf(parley.CodeNotFound, "there is no page here: this address is for the page that an app named %q brings", parley.Cut(app, 60)).
			WithHint("an app brings one with page: FOLDER in its app.yaml; the server's own pages are at the address that it printed when it started"))
		return
	}
	if !web.GuardOwn(w, r) {
		return
	}
	switch {
	case strings.HasPrefix(r.URL.Path, clientPath):
		o.browser.ServeHTTP(w, r)
	case own != nil:
		if err := o.p.limits().Bound(w, r); err != nil {
			api.WriteError(w, err)
			return
		}
		own.ServeHTTP(w, r)
	default:
		fsys, done, err := a.OwnPage()
		if err != nil {
			o.log.Warn("the folder of an app's page cannot be read", "app", app, "err", err)
			api.WriteError(w, parley.Errorf(parley.CodeUnavailable, "the folder of the page cannot be read").WithHint("the server's log has the cause"))
			return
		}
		defer done()
		web.ServeOwn(w, r, fsys)
	}
}

// sayPages returns lines for the operator that name the address of each page.
func (h *house) sayPages(local bool) (lines []string) {
	for _, a := range h.apps {
		at := h.plan.ownPage(a.Name)
		if at == "" {
			continue
		}
		line := fmt.Sprintf("page of %s: %s", a.Name, at)
		if h.plan.settings.Pages[a.Name] == "" && !local {
			line += " on this machine; for others, name an address under pages in parley.yaml"
		}
		lines = append(lines, line)
	}
	return lines
}
