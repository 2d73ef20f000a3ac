package program

import (
	"net/http"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/doors"
	"github.com/parley-server/parley/web"
)

// pages serves the apps' pages: "/" is the page of the only app, or else the list of
// apps. The page of an app that is not served says why, to those who may know.
func pages(t *doors.Table, list []parley.App, d doorDeps) {
	served := d.roll.has
	site := web.New(web.FS(), func(name string) (web.Look, bool) {
		if !served(name) {
			return web.Look{}, false
		}
		return d.plan.look(name), true
	})
	t.Page("/apps/{app}/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("app")
		if served(name) || site.Shows(r) {
			site.ServeHTTP(w, r)
			return
		}
		if _, err := d.principal(r.Context()); err != nil { // the list of apps is for those who are known
			api.WriteError(w, parley.Errorf(parley.CodeNotFound, "there is no page at %s", parley.Cut(r.URL.Path, 200)).
				WithHint("log in at /, which lists the apps"))
			return
		}
		d.noApp(w, name)
	}))
	t.Page("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && len(list) == 1 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.Header().Set("Location", "apps/"+list[0].Name+"/") // relative: a proxy may have put a prefix before us
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusFound)
			return
		}
		site.ServeHTTP(w, r)
	}))
}

// page is what an app's file says about its page.
func (p *plan) page(name string) (*config.App, bool) {
	a, ok := p.latest.Load(name)
	if !ok {
		return nil, false
	}
	return a.(*config.App), true
}

// look is how the page of an app looks.
func (p *plan) look(name string) web.Look {
	a, ok := p.page(name)
	if !ok {
		return web.Look{Title: name}
	}
	return web.Look{Title: a.Title, Description: a.Description, Accent: a.Page.Accent, Logo: a.Page.Logo, LogoType: a.Page.Type}
}

// shown is what clients learn about the page of an app.
func (p *plan) shown(name string) api.AppPage {
	a, ok := p.page(name)
	if !ok {
		return api.AppPage{}
	}
	return api.AppPage{Accent: a.Page.Accent, Logo: a.Page.Logo != nil, URL: p.ownPage(name), Approvals: a.Workspaces != nil}
}
