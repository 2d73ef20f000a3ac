package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/userfiles"
)

// lakesOf says which apps have lakes, and opens them.
func (p *plan) lakesOf() userfiles.Lakes {
	return userfiles.Lakes{
		Of: func(app string) bool {
			now, ok := p.latest.Load(app)
			a, is := now.(*config.App)
			return ok && is && slices.ContainsFunc(a.Toolsets, func(t config.Toolset) bool { return t.Kind == "lake" })
		},
		Open: func(ctx context.Context, dir string) (*lake.Lake, error) {
			all := p.lakes.Load()
			if all == nil {
				return nil, parley.Errorf(parley.CodeUnavailable, "the server has no data folder yet")
			}
			return all.In(ctx, dir)
		},
	}
}

// maxInspected is how many lakes of an app doctor looks at: each takes a few hundredths of a second.
const maxInspected = 50

// inspectLakes says what stands in the way of changes in the lakes of an app.
func inspectLakes(ctx context.Context, a *config.App) (list []app.Finding) {
	if a.Workspaces == nil {
		return nil
	}
	var dirs []string
	for _, s := range a.Workspaces.Shared {
		if !s.ReadOnly {
			dirs = append(dirs, s.Dir)
		}
	}
	for _, pattern := range []struct{ root, below string }{{a.Workspaces.Root, "*/*"}, {a.Workspaces.Granted.Dir, "*"}} {
		if pattern.root == "" {
			continue
		}
		found, err := filepath.Glob(filepath.Join(pattern.root, pattern.below))
		if err == nil {
			dirs = append(dirs, found...)
		}
	}
	private, err := os.MkdirTemp("", "parley-lakes-")
	if err != nil {
		return []app.Finding{{Check: "lake", Warn: err}}
	}
	defer os.RemoveAll(private) //nolint:errcheck // among the temporary files
	slices.Sort(dirs)
	for _, dir := range dirs[:min(len(dirs), maxInspected)] {
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			continue
		}
		if _, err := gitrepo.Look(ctx, gitrepo.Options{Dir: dir, Private: private}); err != nil && !errors.Is(err, gitrepo.ErrNone) {
			list = append(list, app.Finding{Check: "lake", Warn: parley.Errorf(parley.CodeOf(err), "%s: the lake %s cannot be changed: %w", a.Name, dir, err).WithHint("%s", parley.Info(err).Hint)})
		}
	}
	return list
}
