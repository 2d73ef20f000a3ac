package major

import (
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/sim/company"
	"github.com/parley-server/parley/internal/workspace"
)

// demo prepares what parley demo has for the app: the lake of a small company.
func demo(*pflag.FlagSet) func(*config.Settings, *slog.Logger) (func(), error) {
	return func(s *config.Settings, log *slog.Logger) (func(), error) {
		git, err := exec.LookPath("git")
		if err != nil {
			log.Info("there is no git program, so the app major has no lake")
			return nil, nil
		}
		return nil, LayLake(context.Background(), s, git, time.Now())
	}
}

// LayLake makes the demo's lake, as the loopback user's workspace that sessions get by default, if there is none. The
// days in it are those before now.
func LayLake(ctx context.Context, s *config.Settings, git string, now time.Time) error {
	root := s.WorkspacesRoot()
	l, err := company.Demo(now)
	if err == nil {
		err = l.Lay(ctx, filepath.Join(root, workspace.UserFolder(parley.Local), "lake"), git)
	}
	if err != nil {
		return parley.Errorf(parley.CodeUnavailable, "make the demo's lake: %w", err)
	}
	return nil
}
