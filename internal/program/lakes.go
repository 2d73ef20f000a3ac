package program

import (
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
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
