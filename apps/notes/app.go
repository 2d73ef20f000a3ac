// Package notes is the app for the notes of persons: its wire at /api/claude, and the vault that
// they are in.
//
// A vault is a folder with one for each person, which is the workspace of that person's sessions.
// Who may use which person's is said by the app's settings. The sessions themselves belong to the
// login that made them. A session of one person is unknown in requests about another.
package notes

import (
	"net/http"

	"github.com/parley-server/parley/internal/app"
)

// name is the name of the app's folder.
const name = "notes"

// App is what this app brings.
func App() app.App {
	return app.App{
		Name:  name,
		Tools: map[string]app.Open{"vault": openVault},
		Wires: map[string]app.Mount{wireName: mount},
		Demo:  demo,
	}
}

func mount(m app.Mux, d app.Deps) {
	h := New(Options{
		App: d.App, Engine: d.Engine, Follow: d.Reader.Follow, Principal: d.Principal, Person: vaultOf(d).person, Fail: d.Fail, Open: d.Open,
		Limits: d.Limits,
	})
	m.Handle(http.MethodPost+" "+ChatPath, http.HandlerFunc(h.Chat))
	m.Handle(http.MethodPost+" "+StreamPath, http.HandlerFunc(h.Stream))
	m.Handle(http.MethodPost+" "+ClearPath, http.HandlerFunc(h.Clear))
	m.Handle(http.MethodGet+" "+HistoryPath, http.HandlerFunc(h.History))
	describe(m)
}
