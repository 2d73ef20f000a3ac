package engine_test

import (
	"log/slog"
	"testing"

	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// eachStore runs f over each store and then closes the store.
func eachStore(t *testing.T, f func(t *testing.T, store seam.Store)) {
	for name, open := range map[string]func(t *testing.T) (seam.Store, error){
		"mem": func(*testing.T) (seam.Store, error) { return mem.New(), nil },
		"sqlite": func(t *testing.T) (seam.Store, error) {
			return sqlite.Open(ctx, t.TempDir(), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
		},
		"postgres": func(t *testing.T) (seam.Store, error) {
			return postgres.Open(ctx, pgtest.Start(t), postgres.Options{Logger: slog.New(slog.DiscardHandler)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close() //nolint:errcheck // the test is over
			f(t, store)
		})
	}
}
