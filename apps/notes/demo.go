package notes

import (
	"context"
	"log/slog"
	"maps"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/parley-server/parley/internal/config"
)

// demo prepares what parley demo has for the app: a vault of two persons.
func demo(*pflag.FlagSet) func(*config.Settings, *slog.Logger) (func(), error) {
	return func(s *config.Settings, log *slog.Logger) (func(), error) {
		git, err := exec.LookPath("git")
		if err != nil {
			git = ""
		}
		return nil, Demo{Git: git}.Furnish(context.Background(), s, log)
	}
}

// Demo is the demo of the app.
type Demo struct {
	Git string           // the git program; "": there is none
	Now func() time.Time // nil: time.Now
}

// Furnish makes the vault in the data folder, unless it is there or the settings name another.
func (d Demo) Furnish(ctx context.Context, s *config.Settings, log *slog.Logger) error {
	own := s.App[name]
	if own.Granted.Dir != "" {
		return nil
	}
	dir, err := filepath.Abs(filepath.Join(s.Data, "demo", "notes"))
	if err != nil {
		return err
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Git == "" {
		log.Info("there is no git program, so the demo's notes have no history")
	}
	if err := LayVault(ctx, dir, d.Git, d.Now()); err != nil {
		return err
	}
	own.Granted.Dir = dir
	if s.App = maps.Clone(s.App); s.App == nil {
		s.App = map[string]config.AppSettings{}
	}
	s.App[name] = own
	return nil
}
