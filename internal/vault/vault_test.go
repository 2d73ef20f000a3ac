package vault_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/vault"
)

var (
	ana   = parley.Principal{User: "ana", Org: "acme"}
	bob   = parley.Principal{User: "bob", Org: "acme"}
	ana2  = parley.Principal{User: "ana", Org: "other"}
	crm   = vault.Scope{App: "crm"}
	inner = vault.Scope{App: "crm", Workspace: "garden"}
)

func keyOf(c byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{c}, 32)) }

// over runs a test over each store.
func over(t *testing.T, run func(t *testing.T, s seam.Store)) {
	t.Parallel()
	t.Run("mem", func(t *testing.T) { t.Parallel(); run(t, mem.New()) })
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		run(t, s)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s, err := postgres.Open(t.Context(), pgtest.Start(t), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		run(t, s)
	})
}

func open(t *testing.T, s vault.Store, keys ...string) *vault.Vault {
	t.Helper()
	v, err := vault.Open(s, keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func put(t *testing.T, v *vault.Vault, p parley.Principal, s vault.Scope, name, secret string) {
	t.Helper()
	if err := v.Put(t.Context(), p, s, name, secret); err != nil {
		t.Fatal(err)
	}
}

func gets(t *testing.T, v *vault.Vault, p parley.Principal, s vault.Scope, name, want string) {
	t.Helper()
	if got, err := v.Get(t.Context(), p, s, name); err != nil || got != want {
		t.Errorf("%s of %v in %v: got %q, %v", name, p, s, got, err)
	}
}

func lacks(t *testing.T, v *vault.Vault, p parley.Principal, s vault.Scope, name string, code parley.Code) {
	t.Helper()
	if got, err := v.Get(t.Context(), p, s, name); parley.CodeOf(err) != code || got != "" {
		t.Errorf("%s of %v in %v: got %q, %v, want %s", name, p, s, got, err, code)
	}
}

func TestScopes(t *testing.T) {
	over(t, func(t *testing.T, s seam.Store) {
		v := open(t, s, keyOf(1))
		put(t, v, ana, crm, "token", "old-secret-of-ana")
		put(t, v, ana, crm, "token", "secret-of-ana")
		put(t, v, ana, inner, "token", "secret-of-the-garden")
		put(t, v, bob, crm, "token", "secret-of-bob")
		gets(t, v, ana, crm, "token", "secret-of-ana")
		gets(t, v, ana, inner, "token", "secret-of-the-garden")
		gets(t, v, bob, crm, "token", "secret-of-bob")
		for _, c := range []struct {
			p parley.Principal
			s vault.Scope
		}{{bob, inner}, {ana2, crm}, {ana, vault.Scope{App: "other"}}, {parley.Principal{}, crm}, {parley.System(), crm}} {
			lacks(t, v, c.p, c.s, "token", parley.CodeNotFound)
		}
		rows, err := s.Sealed(t.Context(), parley.System())
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if bytes.Contains(row.Body, []byte("secret")) {
				t.Errorf("the store has it: %q", row.Body)
			}
		}
		if err := v.Remove(t.Context(), ana, inner, "token"); err != nil {
			t.Fatal(err)
		}
		lacks(t, v, ana, inner, "token", parley.CodeNotFound)
		if err := v.Forget(t.Context(), ana); err != nil {
			t.Fatal(err)
		}
		lacks(t, v, ana, crm, "token", parley.CodeNotFound)
		gets(t, v, bob, crm, "token", "secret-of-bob")
		if list, err := v.List(t.Context(), bob); err != nil || len(list) != 1 || list[0] != (vault.Entry{Scope: crm, Name: "token"}) {
			t.Errorf("got %v, %v", list, err)
		}
	})
}

// TestKeys: another key says so and loses nothing; a new one before the old one takes over.
func TestKeys(t *testing.T) {
	over(t, func(t *testing.T, s seam.Store) {
		put(t, open(t, s, keyOf(1)), ana, crm, "token", "secret-of-ana")
		for name, wrong := range map[string]*vault.Vault{"another key": open(t, s, keyOf(2)), "no key": open(t, s)} {
			lacks(t, wrong, ana, crm, "token", parley.CodeUnavailable)
			if err := wrong.Put(t.Context(), ana, crm, "token", "replaced"); parley.CodeOf(err) != parley.CodeUnavailable {
				t.Errorf("%s: %v", name, err)
			}
		}
		if done, left, err := open(t, s, keyOf(2)).Reseal(t.Context()); done != 0 || left != 1 || err != nil {
			t.Errorf("with another key: %d, %d, %v", done, left, err)
		}
		gets(t, open(t, s, keyOf(1)), ana, crm, "token", "secret-of-ana")
		both := open(t, s, keyOf(2), keyOf(1))
		gets(t, both, ana, crm, "token", "secret-of-ana")
		if done, left, err := both.Reseal(t.Context()); done != 1 || left != 0 || err != nil {
			t.Errorf("with both: %d, %d, %v", done, left, err)
		}
		gets(t, open(t, s, keyOf(2)), ana, crm, "token", "secret-of-ana")
		lacks(t, open(t, s, keyOf(1)), ana, crm, "token", parley.CodeUnavailable)
	})
}

// TestMoved: what somebody moves in the database, or changes, does not open.
func TestMoved(t *testing.T) {
	t.Parallel()
	s := mem.New()
	v := open(t, s, keyOf(1))
	put(t, v, ana, crm, "token", "secret-of-ana")
	rows, err := s.Sealed(t.Context(), ana)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*seam.Sealed){
		func(r *seam.Sealed) { r.User = "bob" }, func(r *seam.Sealed) { r.Org = "other" }, func(r *seam.Sealed) { r.Workspace = "garden" },
		func(r *seam.Sealed) { r.Name = "other" }, func(r *seam.Sealed) { r.Body[len(r.Body)-1]++ },
	} {
		row := rows[0]
		row.Body = bytes.Clone(row.Body)
		change(&row)
		if err := s.PutSealed(t.Context(), parley.System(), row); err != nil {
			t.Fatal(err)
		}
		lacks(t, v, parley.Principal{User: row.User, Org: row.Org}, vault.Scope{App: row.App, Workspace: parley.Workspace(row.Workspace)}, row.Name, parley.CodeInternal)
	}
}

// TestLimits: they hold however many come at once.
func TestLimits(t *testing.T) {
	t.Parallel()
	v := open(t, mem.New(), keyOf(1))
	for _, c := range []struct{ name, secret string }{{"", "x"}, {"n", ""}, {"n", strings.Repeat("x", vault.MaxSecret+1)}, {strings.Repeat("n", vault.MaxName+1), "x"}} {
		if err := v.Put(t.Context(), ana, crm, c.name, c.secret); err == nil {
			t.Errorf("%d bytes under a name of %d were taken", len(c.secret), len(c.name))
		}
	}
	var wg sync.WaitGroup
	for i := range 2 * vault.MaxEntries {
		wg.Go(func() {
			if err := v.Put(t.Context(), ana, crm, fmt.Sprint(i), "x"); err != nil && parley.CodeOf(err) != parley.CodeQuota {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := v.List(t.Context(), ana); err != nil || len(list) != vault.MaxEntries {
		t.Errorf("%d are kept, %v", len(list), err)
	}
	put(t, v, bob, crm, "n", "x")
	if _, err := vault.Open(mem.New(), []string{"short"}); parley.CodeOf(err) != parley.CodeInvalid || strings.Contains(err.Error(), "short") {
		t.Errorf("a bad key: %v", err)
	}
	if got := vault.ParseKeys("# new\n a \n\nb"); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("got %q", got)
	}
}
