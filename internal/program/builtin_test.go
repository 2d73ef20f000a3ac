package program

import (
	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/apps/major"
	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/app"
)

// stock are the parts of cmd/parley.
var stock = []app.Part{app.App{Folders: apps.FS()}, chaos.App(), home.App(), leads.App(), major.App(), notes.App()}

func builtin() *kit { return kitOf(stock...) }

// kitOf is newKit for parts that fit together.
func kitOf(parts ...app.Part) *kit {
	k, err := newKit(parts...)
	if err != nil {
		panic(err)
	}
	return k
}
