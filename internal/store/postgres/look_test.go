package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

func TestParse_shows_no_password(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]postgres.Address{
		"postgres://ana:s3cr%40t@db.example/parley?sslmode=disable":              {Shown: "postgres://ana@db.example/parley", Password: "s3cr@t"},
		"postgresql://ana@db.example:6543/parley?password=s3cret":                {Shown: "postgres://ana@db.example:6543/parley", Password: "s3cret"},
		"postgres://ana:s3cret@[::1]/parley":                                     {Shown: "postgres://ana@[::1]:5432/parley", Password: "s3cret"},
		"postgres://ana@/parley?host=/run/postgresql&sslmode=disable&password=p": {Shown: "postgres://ana@/parley?host=/run/postgresql", Password: "p"},
	} {
		got, err := postgres.Parse(dsn)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", dsn, err, diff)
		}
	}
	for _, dsn := range []string{"postgres://ana:s3cret@db.example:port/parley", "postgres://ana:s3%cret@db/parley", "postgres://ana:s3cret@db/x?sslmode=maybe"} {
		_, err := postgres.Parse(dsn)
		if parley.CodeOf(err) != parley.CodeInvalid || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: got %v, want invalid and no word of the password", dsn, err)
		}
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	got, err := postgres.Look(t.Context(), dsn)
	if err != nil || got.Version == "" || got.Old || got.SynchronousCommit != "on" || got.ReadOnly {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = postgres.Look(t.Context(), dsn+"&options=-csynchronous_commit%3Doff")
	if err != nil || got.SynchronousCommit != "off" {
		t.Errorf("with it off: got %+v, %v", got, err)
	}
	if _, err := postgres.Look(t.Context(), "postgres://ana:s3cret@127.0.0.1:1/parley"); parley.CodeOf(err) != parley.CodeUnavailable || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("nobody there: got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := postgres.Look(ended, dsn); err == nil {
		t.Error("no one asked it")
	}
}
