// Package server builds programs like parley that contain your own apps and tools.
//
//	func main() { server.Main(server.App(files), server.Tools("crm", crm)) }
//
// Such a program has every command, flag and door of parley; the command parley is itself built
// this way. Package tool makes tools from Go functions.
package server

import (
	"io/fs"
	"net/http"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/program"
	"github.com/parley-server/parley/internal/tool/function"
	"github.com/parley-server/parley/tool"
)

// Part is something that you add to the program: a result of [App], [Mount] or [Tools].
type Part interface{ app.Part }

// Main runs the program parley with your own parts added. It reads the command line, runs the
// command and ends the process; it does not return. Call it once, at the beginning of main. An
// invalid part is reported on standard error with exit code 2 before anything else happens.
func Main(parts ...Part) {
	list := make([]app.Part, len(parts))
	for i, p := range parts {
		list[i] = p
	}
	program.Main(list...)
}

// App adds apps. fsys has a folder with an app.yaml for each app. Or it is itself the folder of
// one app, whose app.yaml must then set name:. Usually fsys is an embed.FS. It is read when the
// program starts and must not change. A folder of the same name in the folder given by --apps
// replaces an app.
func App(fsys fs.FS) Part { return app.App{Folders: fsys} }

// Mount adds the page of an app as a Go handler, instead of the folder that page: names in its
// app.yaml. The page gets its own origin, which the program prints when it starts: by default
// http://NAME.localhost at the server's port.
//
// h gets all requests to that origin except those below /v1/, the API for the app's sessions,
// and below /parley/, which serves the module client.js. Requests reach h without
// authentication. Their bodies have the same limits as the API's. Before h is called, the
// response gets headers that confine the page to its origin; h may change them.
func Mount(name string, h http.Handler) Part { return app.App{Name: name, Page: h} }

// Tools adds your own tools under a kind. Any app may list the kind under tools in its
// app.yaml, and its agents the names of the tools:
//
//	tools:
//	  crm: {}
//	agents:
//	  clerk: {prompt: clerk.md, tools: [find_contact]}
//
// A kind consists of lower-case letters, digits, - and _. It must not be one of the kinds that
// every program has, such as http and mcp. All apps and users share the set.
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
