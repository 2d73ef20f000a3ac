// Package leads is the app that works with a company's own API for its users: its wire at /ws/codex,
// and the conversations at /api/chat/conversations.
//
// The app's only tool makes requests to that API, on behalf of the user who chats: each chat brings
// the user's token, which is held in memory only. What the API can do is in the app's skills. A
// request that changes something is shown to the user, and sent when they confirm it, once.
package leads

import (
	"net/http"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/conversations"
)

// name is the name of the app's folder.
const name = "leads"

// App is what this app brings.
func App() app.App {
	d := &Demo{}
	return app.App{
		Name:   name,
		Wires:  map[string]app.Mount{wireName: mount},
		Tables: conversations.Migrations,
		Demo:   d.prepare, Listening: d.Listening, Look: d.Look,
	}
}

func mount(m app.Mux, d app.Deps) {
	api := apiOf(d, d.App)
	who := access{app: d.App, api: api, bearer: d.Bearer, principal: d.Principal}
	o := Options{
		App: d.App, Engine: d.Engine, Follow: d.Reader.Follow, Read: d.Reader.Read, Whose: who.whose, Fail: d.Fail, Open: d.Open, Limits: d.Limits,
	}
	if api != nil {
		o.API = api
	}
	m.Unlock(Path)
	m.Handle(http.MethodGet+" "+Path, Socket(o))
	c := Conversations{Store: conversations.New(d.Tables, nil), Principal: d.Principal, Fail: d.Fail, Limits: d.Limits, Named: api != nil && api.Identities() != nil}
	m.Handle(http.MethodGet+" "+ConversationsPath, route(c.List))
	m.Handle(http.MethodPost+" "+ConversationsPath, route(c.Create))
	m.Handle(http.MethodGet+" "+ConversationsPath+"/{id}", route(c.Get))
	m.Handle(http.MethodPut+" "+ConversationsPath+"/{id}", route(c.Update))
	m.Handle(http.MethodDelete+" "+ConversationsPath+"/{id}", route(c.Delete))
	describe(m)
}
