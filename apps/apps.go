// Package apps holds the apps that come with Parley, one folder each: app.yaml,
// prompts, demo data and the rules of the scripted model. A folder of a user's
// own is read in the same way.
package apps

import (
	"embed"
	"io/fs"
)

//go:embed */app.yaml */prompts */data */script.yaml */.agents
var files embed.FS

// FS returns the folders, by the apps' names.
func FS() fs.FS { return files }
