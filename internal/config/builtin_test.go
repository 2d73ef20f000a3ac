package config_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-server/parley/internal/config"
)

// TestBuiltin: a program brings folders of apps, or the folder of one, and no app twice.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	one := func(at, name string) fs.FS {
		return fstest.MapFS{at + "app.yaml": {Data: []byte(name + small)}, at + "p.md": {Data: []byte("Be good.")}}
	}
	for _, c := range []struct {
		name string
		has  []fs.FS
		want string // the apps, or what is wrong
	}{
		{"a folder of folders, and the folder of an app", []fs.FS{one("crm/", ""), one("", "name: desk\n")}, "crm desk"},
		{"the folder of an app without a name", []fs.FS{one("", "")}, "has no name:"},
		{"two of one name", []fs.FS{one("crm/", ""), one("", "name: crm\n")}, "two of them are named crm"},
		{"a name that is none", []fs.FS{one("", "name: A B\n")}, "cannot be an app's name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _, err := settings(t, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.LoadApps(c.has, config.Known{})
			var got []string
			for _, a := range list {
				got = append(got, a.Name)
			}
			if err != nil {
				got = append(got, err.Error())
			}
			if said := strings.Join(got, " "); said != c.want && (err == nil || !strings.Contains(said, c.want)) {
				t.Errorf("got %s, want %s", said, c.want)
			}
		})
	}
}
