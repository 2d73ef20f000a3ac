package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/schedule"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/storecopy"
)

func newStore(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Copy the store of a server that is stopped"}
	group(cmd)
	cmd.AddCommand(storeCopy(f))
	return cmd
}

func storeCopy(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "copy FROM TO", Short: "Copy everything from SQLite to PostgreSQL, or back",
		Long: `Copy everything in a store to an empty one: sessions and their files, keys,
encrypted secrets, devices and schedules, the tables of apps.

FROM and TO are sqlite://FOLDER, where FOLDER is a data folder, or
postgres://user@host/database. A password is better in PGPASSWORD. The servers of
both must be stopped. Every table and every session is compared at the end.

A copy that was interrupted, in whatever way, goes on when the same command is run
again; until it is complete no server opens the target. What is not in the store
stays in the data folder: keys.json, archive, checkpoints.db, workspaces, platform.
Go on with the same --data, or copy these.

  parley store copy sqlite:///var/lib/parley postgres://parley@db/parley`,
		Args: listed(cobra.ExactArgs(2), "parley store copy --help has an example"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			return f.kit.storeCopy(cmd.Context(), s, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// copySide is one store of a copy.
type copySide struct {
	kind, shown string
	at          string // the folder, or the address
	secret      string
	own         *lock
	store       seam.Copyable
}

func sideOf(text string) (*copySide, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		a, err := postgres.Parse(text)
		if err != nil {
			return nil, usage(err)
		}
		return &copySide{kind: "postgres", shown: a.Shown, at: text, secret: a.Password}, nil
	case ok && scheme == "sqlite" && rest != "":
		dir, err := filepath.Abs(rest)
		if err != nil {
			return nil, usage(err)
		}
		if filepath.Base(dir) == sqlite.FileName {
			dir = filepath.Dir(dir)
		}
		return &copySide{kind: "sqlite", shown: "sqlite://" + dir, at: dir}, nil
	}
	return nil, usage(parley.Errorf(parley.CodeInvalid, "a store is sqlite://FOLDER or postgres://user@host/database").
		WithHint("FOLDER is the data folder, which has %s", sqlite.FileName))
}

func (c *copySide) open(ctx context.Context, source bool, k *kit, log *slog.Logger) (err error) {
	if c.kind == "postgres" {
		host, _ := os.Hostname() // for people; may be empty
		store, err := postgres.Open(ctx, c.at, postgres.Options{Logger: log, Still: true, Sole: fmt.Sprintf("%s, process %d on %s", nameInDatabase("store copy"), os.Getpid(), host)})
		if err != nil {
			return named(config.Settings{Store: c.at}, err)
		}
		c.store = store
	} else {
		if _, err := os.Stat(filepath.Join(c.at, sqlite.FileName)); source && err != nil {
			return parley.Errorf(parley.CodeNotFound, "there is no %s in %s", sqlite.FileName, c.at).WithHint("name the data folder of the server, or its %s", sqlite.FileName)
		}
		c.own, err = takeLock(c.at, "store copy")
		if held, ok := errors.AsType[*errHeld](err); ok {
			return parley.Errorf(parley.CodeConflict, "%s: %w", c.at, held).WithHint("stop it first: a store is copied while nobody uses it")
		}
		if err != nil {
			return err
		}
		store, err := sqlite.Open(ctx, c.at, sqlite.Options{Logger: log, Guard: c.own.held, Still: true})
		if err != nil {
			return err
		}
		c.store = store
	}
	for _, a := range k.apps {
		if a.Tables != nil {
			if _, err := c.store.Tables(ctx, a.Name, a.Tables); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *copySide) close() error {
	var err error
	if c.store != nil {
		err = c.store.Close()
	}
	if c.own != nil {
		c.own.release()
	}
	return err
}

func (k *kit) storeCopy(ctx context.Context, s config.Settings, from, to string, out, says io.Writer) (err error) {
	a, err := sideOf(from)
	if err != nil {
		return err
	}
	b, err := sideOf(to)
	if err != nil {
		return err
	}
	if a.kind == b.kind && a.shown == b.shown {
		return usage(parley.Errorf(parley.CodeInvalid, "%s cannot be copied to itself", a.shown))
	}
	log := newLogger(s, says)
	redactorOf(log, s).Add("from", a.secret)
	redactorOf(log, s).Add("to", b.secret)
	for _, side := range []*copySide{a, b} {
		defer func() { err = errors.Join(err, side.close()) }()
		if err := side.open(ctx, side == a, k, log); err != nil {
			return err
		}
	}
	fmt.Fprintf(says, "from %s\nto   %s\n", a.shown, b.shown)
	p := &progress{out: says, now: time.Now}
	if file, ok := says.(*os.File); ok {
		p.live = term.IsTerminal(int(file.Fd()))
	}
	r, err := storecopy.Copy(ctx, a.store, b.store, storecopy.Options{Said: p.said, Made: schedule.Untouched})
	p.end()
	if err != nil {
		if ctx.Err() != nil {
			return parley.Errorf(parley.CodeCancelled, "the copy was interrupted: %w", err).WithHint("run the same command again, which goes on where it was")
		}
		return err
	}
	if r.Before {
		fmt.Fprintln(out, "the target was a complete copy already; it was compared again")
	}
	fmt.Fprintf(out, "%d sessions with %d events; all tables and all sessions are the same on both sides\nchecksum %s\n", r.Sessions, r.Events, r.Checksum)
	return archiveNote(ctx, out, a, b, r.Condensed)
}

// archiveNote says whether condensed sessions miss their archive in the data folder of a copy.
func archiveNote(ctx context.Context, out io.Writer, a, b *copySide, condensed []parley.SessionID) error {
	if b.kind != "sqlite" {
		return nil
	}
	have, err := archive.NewFolder(datafolder.New(b.at, nil)).Sessions(ctx)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(condensed), func(id parley.SessionID) bool { return slices.Contains(have, id) })
	if len(missing) == 0 {
		return nil
	}
	where := "of the data folder that the server had"
	if a.kind == "sqlite" {
		where = "of " + a.at
	}
	fmt.Fprintf(out, "%d sessions have condensed steps without an archive in %s: copy the folder %s %s there, unless old steps were deleted\n", len(missing), b.at, archive.FolderName, where)
	return nil
}

// progress shows how far something is: on a terminal in one line, elsewhere now and then.
type progress struct {
	out   io.Writer
	live  bool
	now   func() time.Time
	last  time.Time
	table string
	shown bool // a line without its end
}

const (
	liveEvery = 100 * time.Millisecond
	saidEvery = 5 * time.Second
)

func (p *progress) said(at storecopy.Progress) {
	every := saidEvery
	if p.live {
		every = liveEvery
	}
	now := p.now()
	if name := at.Step + at.Table; name == p.table && at.Done < at.Rows && now.Sub(p.last) < every {
		return
	} else if p.last = now; name != p.table {
		p.table = name
	}
	line := fmt.Sprintf("%s %s", at.Step, at.Table)
	if at.Done > 0 || at.Step == "copy" {
		line += fmt.Sprintf(": %d of %d", at.Done, at.Rows)
	}
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		p.shown = true
		return
	}
	fmt.Fprintln(p.out, line)
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
