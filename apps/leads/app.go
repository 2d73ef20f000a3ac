// Package leads is the app that works with a company's own API for its users: its wire at /ws/codex,
// and the conversations at /api/chat/conversations.
//
// The app's only tool makes requests to that API, on behalf of the user who chats: each chat brings
// the user's token, which is held in memory only. What the API can do is in the app's skills. A
// request that changes something is shown to the user, and sent when they confirm it, once.
package leads

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley/internal/app"
)

// name is the name of the app's folder.
const name = "leads"

// App is what this app brings.
func App() app.App {
	return app.App{
		Name:  name,
		Wires: map[string]app.Mount{wireName: mount},
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
	describe(m)
}

func describe(m app.Mux) {
	m.Describe(&huma.Operation{
		OperationID: "codex", Method: http.MethodGet, Path: Path, Summary: "Chat over a WebSocket",
		Description: "The client says {\"type\": \"chat\", \"message\", \"token\", \"orgId\"?, \"apiBaseUrl\"?, \"sessionId\"?} and {\"type\": \"reset\", \"sessionId\"}. " +
			"Each chat is authenticated by its own token, and answered by session.id {sessionId}, turn.started, agent.action {action, command or tool, status}, " +
			"agent.text {text, status} with the whole text so far, and turn.completed {text, usage} or error {message}. " +
			"A write waits for the user: the text is then {\"type\": \"confirm\", \"id\", \"title\", \"summary\", \"method\", \"path\", \"body\"}, and the chat \"CONFIRM_ACTION: ID\" sends exactly that, once. " +
			"Any other chat declines it. A connection without a valid chat is closed after 30 seconds.",
		Responses: map[string]*huma.Response{"101": {Description: "The connection is a WebSocket now."}},
	}, http.StatusServiceUnavailable, http.StatusUpgradeRequired)
}
