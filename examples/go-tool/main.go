// Command go-tool is a server whose agent has tools in Go: it knows your contacts, and adds some after
// asking.
//
//	CONTACTS=contacts.json go run . serve
package main

import (
	"cmp"
	"embed"
	"os"

	"github.com/parley-server/parley/server"
)

// The app: a folder with its app.yaml, a prompt, and rules for the scripted model.
//
//go:embed contacts
var files embed.FS

func main() {
	b := &book{path: cmp.Or(os.Getenv("CONTACTS"), "contacts.json")}
	server.Main(server.App(files), server.Tools("contacts", b.tools()))
}
