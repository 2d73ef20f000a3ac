package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/sim/crm"
)

func TestSkillFromOpenAPI(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := filepath.Join(p.dir, "openapi.json")
	if err := os.WriteFile(file, crm.Description(), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.dir, "skills")
	run := func(code int, says string, args ...string) {
		t.Helper()
		got, out, errs := p.run(append([]string{"skill", "from-openapi"}, args...)...)
		if got != code || !strings.Contains(out+errs, says) {
			t.Errorf("%v: exit %d, want %d\n%s%s", args, got, code, out, errs)
		}
	}
	run(0, "tools.rest.writes:\n  GET /api/leads/*/unsubscribe", file, "--dir", dir, "--only", "leads,notes")
	at := filepath.Join(dir, "leads", "SKILL.md")
	made, err := os.ReadFile(at)
	if err != nil || !strings.Contains(string(made), "### `POST /api/leads`") {
		t.Fatalf("%v: %s", err, made)
	}
	if _, err := os.Stat(filepath.Join(dir, "companies")); err == nil {
		t.Error("a skill was made that was not asked for")
	}
	if err := os.WriteFile(at, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(2, "has the skills leads, notes already", file, "--dir", dir)
	if _, err := os.Stat(filepath.Join(dir, "companies")); err == nil {
		t.Error("half of the skills were written")
	}
	if now, _ := os.ReadFile(at); string(now) != "mine" {
		t.Error("it was replaced")
	}
	run(0, "3 reads, 4 writes", file, "--dir", dir, "--overwrite")
	if now, _ := os.ReadFile(at); string(now) != string(made) {
		t.Errorf("%s", now)
	}
	run(2, `no resource "lead"`, file, "--dir", dir, "--only", "lead")
	run(2, "no such file", filepath.Join(p.dir, "none.json"), "--dir", dir)
	run(2, "is not the address of an API", file, "--dir", dir, "--base-url", "crm", "--overwrite")
	if err := os.WriteFile(file, []byte("a: b"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(2, "is not an OpenAPI description", file, "--dir", dir)
	// A link in the folder leads nowhere else.
	other := t.TempDir()
	if err := os.WriteFile(file, crm.Description(), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.RemoveAll(filepath.Join(dir, "users"))
	if err := os.Symlink(other, filepath.Join(dir, "users")); err != nil {
		t.Fatal(err)
	}
	run(1, "write the skills", file, "--dir", dir, "--only", "users", "--overwrite")
	if list, _ := os.ReadDir(other); len(list) > 0 {
		t.Error("it wrote elsewhere")
	}
}
