package program

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/extension"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// extensions returns the scope.Source of the extensions that folders of files add to an app.
func (p *plan) extensions(app *config.App, log *slog.Logger) scope.Source {
	platform := p.settings.PlatformFolder()
	return func(_ context.Context, at scope.Place) ([]seam.Toolset, error) {
		var levels []extension.Level
		add := func(name string, open func() (*os.Root, error)) {
			if name == "app" || slices.Contains(app.Extensions, name) {
				levels = append(levels, extension.Level{Name: name, Open: rooted(open), Dir: dirOf(open)})
			}
		}
		add("platform", func() (*os.Root, error) { return os.OpenRoot(platform) })
		if app.Dir != "" {
			add("app", func() (*os.Root, error) { return os.OpenRoot(app.Dir) })
		} else {
			levels = append(levels, extension.Level{Name: "app", Open: func() (fs.FS, func(), error) { return app.Files, func() {}, nil }})
		}
		add("user", func() (*os.Root, error) { return at.Folders.OpenUser(at.Principal) })
		if at.Workspace != "" {
			add("workspace", func() (*os.Root, error) {
				root, err := at.Folders.Open(at.Principal, at.Workspace)
				if parley.CodeOf(err) == parley.CodeNotFound {
					err = fs.ErrNotExist
				}
				return root, err
			})
		}
		log := log.With("app", at.App, "user", at.Principal.User, "workspace", at.Workspace)
		hooks := &extension.Hooks{
			Gate: p.gate(app, at), Value: p.value, Places: hookPlaces,
			Clean: func(text string) string { text, _ = p.red.String(text); return text },
		}
		return []seam.Toolset{extension.New(extension.Options{Levels: levels, Hooks: hooks, Logger: log})}, nil
	}
}

// rooted returns a function that opens a folder such that no path leads out of it.
func rooted(open func() (*os.Root, error)) func() (fs.FS, func(), error) {
	return func() (fs.FS, func(), error) {
		root, err := open()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil, fs.ErrNotExist
		case err != nil:
			return nil, nil, err
		}
		return root.FS(), func() { _ = root.Close() }, nil
	}
}

// hookPlaces limits how many hooks run at once in this process. On a small machine more would
// only slow each other down.
var hookPlaces = make(hook.Places, 16)

// dirOf returns a function that returns where a folder is on disk now, or "".
func dirOf(open func() (*os.Root, error)) func() string {
	return func() string {
		root, err := open()
		if err != nil {
			return ""
		}
		defer root.Close() //nolint:errcheck // nothing was written
		dir, err := filepath.Abs(root.Name())
		if err != nil {
			return ""
		}
		return dir
	}
}
