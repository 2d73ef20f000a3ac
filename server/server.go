// Package server makes programs like parley, with apps and tools of your own inside.
//
//	func main() { server.Main(server.App(files), server.Tools("crm", crm)) }
//
// Such a program has every command, flag and door of parley. Command parley is one of them. Package tool
// makes tools of Go functions.
package server

import (
	"io/fs"
	"net/http"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/program"
	"github.com/parley-server/parley/internal/tool/function"
	"github.com/parley-server/parley/tool"
)

// Part is something that a program brings: the results of [App] and [Tools].
type Part interface{ app.Part }

// Main is the program parley with parts of your own. It reads the command line, does what that says,
// and ends the process; it does not return. Call it once, first thing in main. A part that cannot
// be is reported on standard error with exit code 2, before anything else is done.
func Main(parts ...Part) {
	list := make([]app.Part, len(parts))
	for i, p := range parts {
		list[i] = p
	}
	program.Main(list...)
}

// App brings apps: fsys has a folder for each, with its app.yaml, or is itself the folder of one,
// whose app.yaml then has to say name:. Usually it is an embed.FS. It is read when the program
// starts, and must not change. A folder of the same name in the folder --apps takes its place.
func App(fsys fs.FS) Part { return app.App{Folders: fsys} }

// Mount brings the page of an app in Go, in place of the folder that page: names in its app.yaml. It is
// served at an origin of its own, which the program prints when it starts: by default
// http://NAME.localhost at the server's port. There h gets all requests but those below /v1/, which is
// the API for the app's sessions, and /parley/, which has the module client.js. Requests reach h without
// a key. Their bodies are limited as the API's are, and the response has headers that keep the page to its
// origin, which h may change.
func Mount(name string, h http.Handler) Part { return app.App{Name: name, Page: h} }

// Tools brings tools of your own: any app may list the kind under tools in its app.yaml, and its
// agents the names of the tools:
//
//	tools:
//	  crm: {}
//	agents:
//	  clerk: {prompt: clerk.md, tools: [find_contact]}
//
// A kind has lower-case letters, digits, - and _. The kinds that every program has, such as http and mcp,
// are taken. All apps and users share the set.
func Tools(kind string, set tool.Set) Part {
	list := make([]function.Tool, len(set))
	for i, t := range set {
		list[i] = t
	}
	return app.App{Tools: map[string]app.Open{kind: func(app.ToolDeps) (app.Service, error) {
		made, err := function.Make(list)
		return app.Service{Toolset: made}, err
	}}}
}
