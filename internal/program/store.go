package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
)

// storePlace is where logs are stored, as the setting store says.
type storePlace struct {
	kind   string // a name of the table of stores
	shown  string // for people, without a password
	secret string // must appear in nothing that we store or show
}

// storeOf parses the setting. Its errors do not quote the setting, which may be a URL
// with a password.
func storeOf(s config.Settings) (storePlace, error) {
	scheme, _, address := strings.Cut(s.Store, "://")
	if address && (scheme == "postgres" || scheme == "postgresql") {
		a, err := postgres.Parse(s.Store)
		if err != nil {
			return storePlace{}, usage(err)
		}
		return storePlace{kind: "postgres", shown: a.Shown, secret: a.Password}, nil
	}
	if _, ok := stores[s.Store]; !ok || s.Store == "postgres" {
		name := s.Store
		if address || strings.ContainsAny(name, " =@") {
			name = "that address"
		}
		return storePlace{}, usage(parley.Errorf(parley.CodeInvalid, "there is no store %q", name).WithField("store").
			WithHint("write sqlite, mem, or postgres://user:password@host/database"))
	}
	return storePlace{kind: s.Store, shown: s.Store}, nil
}

// openPostgres reserves the database for this process, as the lock of the data folder
// does with SQLite: one server per database, until several can share its sessions. It
// waits for a command that has the database, as for one that has the folder. Its error
// names the database.
func openPostgres(ctx context.Context, s config.Settings, own *lock, log *slog.Logger) (seam.Store, error) {
	host, _ := os.Hostname() // for people; may be empty
	sole := fmt.Sprintf("%s, process %d on %s", nameInDatabase(own.h.Command), os.Getpid(), host)
	began, said := time.Now(), false
	store, err := postgres.Open(ctx, s.Store, postgres.Options{Logger: log, Sole: sole, Await: func(holder string) bool {
		waits := endsByName(holder) && time.Since(began) < inUseWithin
		if waits && !said {
			said = true
			log.Warn("the database is in use; waiting until it is free", "by", holder, "within", inUseWithin)
		}
		return waits
	}})
	if err != nil {
		return nil, named(s, err)
	}
	return store, nil
}

// openTables opens the tables that apps have of their own.
func (p *plan) openTables(ctx context.Context, store seam.Store) error {
	p.tables = map[string]seam.Tables{}
	for _, a := range p.kit.apps {
		if a.Tables == nil {
			continue
		}
		t, err := store.Tables(ctx, a.Name, a.Tables)
		if errors.Is(err, seam.ErrNoTables) {
			return nil
		}
		if err != nil {
			return err
		}
		p.tables[a.Name] = t
	}
	return nil
}

// named adds to an error the database it is about.
func named(s config.Settings, err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok {
		return err
	}
	a, perr := postgres.Parse(s.Store)
	if perr != nil {
		return usage(err)
	}
	out := *e
	out.Message += " (" + a.Shown + ")"
	out.Hint = strings.ReplaceAll(out.Hint, "; the server goes on by itself once that is done", "")
	return &out
}

// store checks the store of logs.
func (d *doctor) store(ctx context.Context, s config.Settings) {
	p, err := storeOf(s)
	switch {
	case err != nil:
		d.fail("store", err)
		return
	case p.kind == "mem":
		d.warn("store", "mem forgets everything when the server stops")
		return
	case p.kind != "postgres":
		d.ok("store", "%s", p.shown)
		return
	}
	looks, err := postgres.Look(ctx, s.Store)
	if err != nil {
		d.fail("store", named(s, err))
		return
	}
	switch {
	case looks.Old:
		d.fail("store", parley.Errorf(parley.CodeInvalid, "%s is PostgreSQL %s", p.shown, looks.Version).WithHint("use version 14 or newer"))
		return
	case looks.ReadOnly:
		d.fail("store", parley.Errorf(parley.CodeInvalid, "%s is read-only", p.shown).WithHint("name the primary server"))
		return
	}
	d.ok("store", "PostgreSQL %s at %s", looks.Version, p.shown)
	switch looks.SynchronousCommit {
	case "off":
		d.warn("commits", "synchronous_commit is off at that server; Parley turns it on for itself")
	default:
		d.ok("commits", "synchronous_commit is %s", looks.SynchronousCommit)
	}
}
