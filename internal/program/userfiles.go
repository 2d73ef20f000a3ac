package program

import (
	"context"

	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// userFiles are the files of the apps' workspaces, as users reach them without an agent.
func (p *plan) userFiles(e *engine.Engine, apps *scope.Scopes) *userfiles.Files {
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
		Checkpoints: p.checks.Load, Session: e.Session, Lakes: p.lakesOf(),
		Repo: func(ctx context.Context, dir string) (*gitrepo.Repo, error) {
			// Of its own: who commits in the same process has another one.
			if err := p.folder.Make("history"); err != nil {
				return nil, err
			}
			return gitrepo.Open(ctx, gitrepo.Options{Dir: dir, Private: p.folder.Path("history"), Remote: gitrepo.None})
		},
	})
}
