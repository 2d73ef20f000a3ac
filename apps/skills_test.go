package apps_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/program"
	"github.com/parley-server/parley/internal/sim/crm"
	"github.com/parley-server/parley/internal/tool/openapi"
)

var updateSkills = flag.Bool("update-skills", false, "make skills of the CRM's description")

// TestSkillsAreCurrent: leads/.agents/skills is what parley skill from-openapi makes of the CRM's description.
func TestSkillsAreCurrent(t *testing.T) {
	t.Parallel()
	list, err := openapi.Skills(openapi.SkillOptions{Name: "openapi.json", Description: crm.Description(), Only: []string{"leads", "companies", "projects", "notes", "users"}})
	if err != nil {
		t.Fatal(err)
	}
	if *updateSkills {
		if err := program.WriteSkills("leads/.agents/skills", list, true); err != nil {
			t.Fatal(err)
		}
	}
	var want, got []string
	for _, s := range list {
		for _, f := range s.Files {
			path := "leads/.agents/skills/" + s.Name + "/" + f.Path
			want = append(want, path)
			have, err := os.ReadFile(filepath.FromSlash(path))
			if err != nil {
				t.Error(err)
				continue
			}
			if diff := cmp.Diff(string(f.Body), string(have)); diff != "" {
				t.Errorf("%s: make it again with go test ./apps -run TestSkillsAreCurrent -update-skills\n%s", path, diff)
			}
		}
		if !strings.Contains(string(s.Files[0].Body), "api_request") {
			t.Errorf("%s does not name the tool", s.Name)
		}
	}
	err = filepath.WalkDir("leads/.agents/skills", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
