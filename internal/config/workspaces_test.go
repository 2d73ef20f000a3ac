package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/workspace"
)

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := filepath.Join(dir, "apps", "mine")
	for name, tc := range map[string]struct {
		app, settings string
		want          *workspace.Options
		wrong         string
	}{
		"none":            {app: "", want: nil},
		"as the server's": {app: "workspaces: {}", want: &workspace.Options{Root: filepath.Join(dir, "data", "workspaces")}},
		"the setting":     {app: "workspaces: {}", settings: "workspaces_dir: /srv/w", want: &workspace.Options{Root: "/srv/w"}},
		"its own": {app: "workspaces: {root: vaults, default: main}", settings: "workspaces_dir: /srv/w", want: &workspace.Options{
			Root: filepath.Join(mine, "vaults"), Default: "main",
		}},
		"shared": {app: "workspaces: {default: shared/Hand Book, shared: {Hand Book: /srv/h, rules: {dir: rules, read_only: true}}}", want: &workspace.Options{
			Root: filepath.Join(dir, "data", "workspaces"), Default: "shared/Hand Book",
			Shared: map[string]workspace.Shared{"Hand Book": {Dir: "/srv/h"}, "rules": {Dir: filepath.Join(mine, "rules"), ReadOnly: true}},
		}},
		"a root outside":     {app: "workspaces: {root: ../w}", wrong: `app.yaml:4: workspaces.root: "../w" leads out of the app's folder`},
		"a default path":     {app: "workspaces: {default: ../x}", wrong: `app.yaml:4: workspaces.default: "../x" cannot be a workspace's name`},
		"a default not here": {app: "workspaces: {default: shared/x}", wrong: `app.yaml:4: workspaces.default: there is no workspace "shared/x"`},
		"a shared path":      {app: "workspaces: {shared: {../x: /srv}}", wrong: `app.yaml:4: workspaces.shared.../x: "../x" cannot be a workspace's name`},
		"a shared nothing":   {app: "workspaces: {shared: {x: {}}}", wrong: `app.yaml:4: workspaces.shared.x: has no dir; name the folder`},
		"granted": {
			app: "workspaces: {granted: {dir: /srv/n, except: [claude], placeholder: person_root, to: {petra: [ana, {user: bob, org: acme}]}}}",
			want: &workspace.Options{Granted: workspace.Granted{
				Dir: "/srv/n", Except: []string{"claude"}, Placeholder: "person_root",
				To: map[string][]parley.Principal{"petra": {{User: "ana"}, {User: "bob", Org: "acme"}}},
			}},
		},
		"granted by the settings": {
			app:      "workspaces: {root: vaults, granted: {dir: notes, except: [claude], to: {petra: [ana]}}}",
			settings: "app: {mine: {granted: {dir: /srv/notes, to: {max: [bob]}}}}",
			want: &workspace.Options{Root: filepath.Join(mine, "vaults"), Granted: workspace.Granted{
				Dir: "/srv/notes", Except: []string{"claude"}, To: map[string][]parley.Principal{"max": {{User: "bob"}}},
			}},
		},
		"granted without a folder": {app: "workspaces: {granted: {to: {petra: [ana]}}}", wrong: `app.yaml:4: workspaces.granted: has no dir; name the folder`},
		"granted to a path":        {app: "workspaces: {granted: {dir: notes, to: {../x: [ana]}}}", wrong: `"../x" cannot be a workspace's name`},
		"granted to nobody":        {app: "workspaces: {granted: {dir: notes, to: {x: [{org: acme}]}}}", wrong: `workspaces.granted.to.x: names a user without a name`},
		"granted somewhere":        {app: "workspaces: {granted: {dir: notes}}", settings: "app: {mine: {granted: {dir: notes}}}", wrong: `has to be an absolute path`},
		"another key":              {app: "workspaces: {roots: x}", wrong: `did you mean root`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apps := filepath.Join(t.TempDir(), "apps")
			if err := os.MkdirAll(filepath.Join(apps, "mine"), 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"app.yaml": small + tc.app + "\n", "p.md": "x"} {
				if err := os.WriteFile(filepath.Join(apps, "mine", file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := load(t, nil, "apps: "+apps+"\ndata: "+filepath.Join(dir, "data")+"\n"+tc.settings)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("got %v\nwant %s", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			is := got[0].Workspaces
			if tc.want != nil && tc.want.Shared == nil {
				tc.want.Shared = map[string]workspace.Shared{}
			}
			if is != nil { // the app is in another folder in each test
				is.Root = strings.Replace(is.Root, filepath.Join(apps, "mine"), mine, 1)
				for name, s := range is.Shared {
					s.Dir = strings.Replace(s.Dir, filepath.Join(apps, "mine"), mine, 1)
					is.Shared[name] = s
				}
			}
			if diff := cmp.Diff(tc.want, is, cmpopts.EquateComparable(parley.Principal{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestExtensionsOfAnApp: an app with workspaces reads all levels unless it says otherwise; one
// without them has no levels of its users.
func TestExtensionsOfAnApp(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"":                                 "",
		"workspaces: {}":                   "platform user workspace",
		"workspaces: {}\nextensions: []":   "",
		"extensions: [platform]":           "platform",
		"extensions: [platfrom]":           `extensions[0]: "platfrom" is not one of platform, user, workspace`,
		"extensions: [user]":               "extensions[0]: the app has no workspaces; add workspaces, or leave this out",
		"extensions: [platform, platform]": `extensions[1]: "platform" is listed twice`,
	} {
		apps, err := load(t, folder("mine/app.yaml", small+yaml+"\n", "mine/p.md", "x"), "")
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		default:
			got = strings.Join(apps[0].Extensions, " ")
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: got %q, want %q", yaml, got, want)
		}
	}
}
