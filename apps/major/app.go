// Package major is the app over a knowledge workspace: a lake of Markdown entities in git, of which it answers, and
// in which it writes down what people decide.
//
// Its tools are those that any app can have; see docs/major.md. The native API's conversations are those of this app where none is named,
// which the wire's name says.
package major

import (
	"github.com/parley-server/parley/internal/app"
)

const (
	// name is the name of the app's folder.
	name = "major"
	// wireName is the wire of the app: the part of the native API at /v1/conversations, which has no routes of its own here.
	wireName = "conversations"
)

// App is what this app brings.
func App() app.App {
	return app.App{
		Name:  name,
		Wires: map[string]app.Mount{wireName: func(app.Mux, app.Deps) {}},
		Demo:  demo,
	}
}
