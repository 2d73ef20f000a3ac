// Package notes is the app for the notes of persons: its wire at /api/claude, and the vault that
// they are in.
//
// A vault is a folder with one for each person, which is the workspace of that person's sessions.
// The app's settings say who may use which person's vault. The sessions themselves belong to the
// login that made them. A session of one person is unknown in requests about another.
package notes

import (
	"net/http"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/tool/linkedin"
)

// name is the name of the app's folder.
const name = "notes"

// App is what this app brings.
func App() app.App {
	v := &vaults{}
	return app.App{
		Name:     name,
		Tools:    map[string]app.Open{"vault": v.open},
		Wires:    map[string]app.Mount{wireName: mount},
		Fetching: v.fetching,
		Touching: v.touching,
		Demo:     demo,
	}
}

func mount(m app.Mux, d app.Deps) {
	v, tools := vaultOf(d), linkedinOf(d)
	o := Options{
		App: d.App, Engine: d.Engine, Follow: d.Reader.Follow, Principal: d.Principal, Person: v.person, Fail: d.Fail, Open: d.Open,
		Limits: d.Limits,
	}
	if tools != nil {
		o.Accounts = tools
	}
	h := New(o)
	m.Handle(http.MethodPost+" "+ChatPath, handler(h.Chat))
	m.Handle(http.MethodPost+" "+StreamPath, handler(h.Stream))
	m.Handle(http.MethodPost+" "+ClearPath, handler(h.Clear))
	m.Handle(http.MethodGet+" "+HistoryPath, handler(h.History))
	m.Handle(http.MethodGet+" "+AccountPath, handler(h.Account))
	m.Handle(http.MethodPost+" "+AccountPath, handler(h.Login))
	m.Handle(http.MethodDelete+" "+AccountPath, handler(h.Logout))
	m.Return(linkedin.CallbackPath)
	m.Handle(http.MethodGet+" "+linkedin.CallbackPath, handler(h.Callback(tools, v.check).ServeHTTP))
	describe(m)
}

// handler is a handler of this wire, whose errors have their message under detail.
type handler func(w http.ResponseWriter, r *http.Request)

var _ app.Detailed = handler(nil)

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h(w, r) }

// HasDetail implements [app.Detailed].
func (handler) HasDetail() {}
