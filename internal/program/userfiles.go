package program

import (
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// userFiles are the files of the apps' workspaces, as users reach them without an agent.
func userFiles(e *engine.Engine, apps *scope.Scopes) *userfiles.Files {
	return userfiles.New(userfiles.Options{
		Apps: apps.Names,
		Folders: func(name string) (*workspace.Folders, error) {
			app, ok := apps.App(name)
			if !ok {
				_, err := e.App(name) // says what is there instead
				return nil, err
			}
			return app.Folders(), nil
		},
	})
}
