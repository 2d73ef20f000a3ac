package major

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/claim"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/sim/company"
	"github.com/parley-server/parley/internal/tidy"
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
		now := time.Now()
		if err := LayLake(context.Background(), s, git, now); err != nil {
			return nil, err
		}
		return nil, layProposal(context.Background(), s, now)
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

// layProposal makes the proposal that waits in the demo's lake, as if Tachikoma had looked through it in the night. There is
// one at most: what people have applied or rejected stays so.
func layProposal(ctx context.Context, s *config.Settings, now time.Time) error {
	private, err := os.MkdirTemp("", "parley-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(private) //nolint:errcheck // a folder of its own
	l, err := lake.Open(ctx, filepath.Join(s.WorkspacesRoot(), workspace.UserFolder(parley.Local), "lake"), lake.Options{Private: private})
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // nothing was changed
	repo, err := l.Repo(ctx)
	if err != nil {
		return err
	}
	if have, err := repo.Stacks(ctx, "tachikoma/"); err != nil || len(have) > 0 {
		return err
	}
	found, err := tidy.Scan(ctx, l, now)
	if err != nil {
		return err
	}
	asked := tidy.Asked{ID: "0-first-night", At: now, By: parley.Local.User, App: name}
	world := claim.World{Name: found.Name, Day: now}
	for _, c := range found.Candidates { // as the agent judges them that has no provider
		if why, yes := world.Contradict(c.Under()); yes {
			asked.Judged = append(asked.Judged, tidy.Judged{ID: c.ID, Contradicts: true, Here: c.Says, There: c.OtherSays, Why: why})
		}
	}
	if _, err := tidy.Propose(ctx, l, asked); err != nil {
		return parley.Errorf(parley.CodeUnavailable, "make the demo's proposal: %w", err)
	}
	return nil
}
