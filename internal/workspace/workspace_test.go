package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/workspace"
)

var ana, bob = parley.Principal{User: "ana", Org: "acme"}, parley.Principal{User: "bob"}

// folders returns workspaces below a root that has ana's "vault" and "Notes", bob's "vault", and
// files and links beside them; and a shared "handbook".
func folders(t *testing.T, change ...func(*workspace.Options)) (f *workspace.Folders, root string) {
	t.Helper()
	root = t.TempDir()
	write := func(path, text string) {
		full := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o700), os.WriteFile(full, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("users/ana=acme/vault/whose", "ana's")
	write("users/ana=acme/Notes/whose", "ana's notes")
	write("users/ana=acme/.agents/whose", "no workspace")
	write("users/ana=acme/file", "no workspace")
	write("users/bob/vault/whose", "bob's")
	write("users/ana/vault/whose", "that ana's who has no organisation")
	write("handbook/whose", "everybody's")
	for link, to := range map[string]string{
		"users/ana=acme/bobs": "../bob/vault", "users/ana=acme/out": root, "users/ana=acme/vault/up": "../../bob/vault/whose", "users/eve": "bob",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	o := workspace.Options{
		Root:   filepath.Join(root, "users"),
		Shared: map[string]workspace.Shared{"handbook": {Dir: filepath.Join(root, "handbook"), ReadOnly: true}},
	}
	for _, c := range change {
		c(&o)
	}
	f, err := workspace.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f, root
}

func TestOpen(t *testing.T) {
	t.Parallel()
	f, _ := folders(t)
	for name, tc := range map[string]struct {
		who  parley.Principal
		what parley.Workspace
		want string      // content of its file "whose"
		code parley.Code // or what is wrong
	}{
		"one's own":                          {ana, "vault", "ana's", ""},
		"another of one's own":               {ana, "Notes", "ana's notes", ""},
		"the same name of another":           {bob, "vault", "bob's", ""},
		"the same user without organisation": {parley.Principal{User: "ana"}, "vault", "that ana's who has no organisation", ""},
		"shared":                             {bob, "shared/handbook", "everybody's", ""},
		"another's":                          {bob, "Notes", "", parley.CodeNotFound},
		"in another case":                    {ana, "notes", "", parley.CodeNotFound},
		"missing":                            {ana, "other", "", parley.CodeNotFound},
		"of nobody known":                    {parley.Principal{User: "eric"}, "vault", "", parley.CodeNotFound},
		"a link to another's":                {ana, "bobs", "", parley.CodeNotFound},
		"a link out":                         {ana, "out", "", parley.CodeNotFound},
		"of a user who is a link":            {parley.Principal{User: "eve"}, "vault", "", parley.CodeNotFound},
		"a file":                             {ana, "file", "", parley.CodeNotFound},
		"shared, missing":                    {ana, "shared/other", "", parley.CodeNotFound},
		"shared as one's own":                {ana, "handbook", "", parley.CodeNotFound},
		"hidden":                             {ana, ".agents", "", parley.CodeInvalid},
		"up":                                 {ana, "..", "", parley.CodeInvalid},
		"up and down":                        {ana, "../bob/vault", "", parley.CodeInvalid},
		"absolute":                           {ana, "/etc", "", parley.CodeInvalid},
		"shared, up":                         {ana, "shared/../users", "", parley.CodeInvalid},
		"empty":                              {ana, "", "", parley.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := f.Open(tc.who, tc.what)
			if tc.code != "" {
				e, ok := errors.AsType[*parley.Error](err)
				if !ok || e.Code != tc.code || e.Field != "workspace" || e.Hint == "" {
					t.Fatalf("got %#v, want %s", err, tc.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close() //nolint:errcheck // nothing was written
			got, err := root.ReadFile("whose")
			if err != nil || string(got) != tc.want {
				t.Errorf("got %q, %v", got, err)
			}
			for _, path := range []string{"up", "../../bob/vault/whose", "/etc/passwd"} {
				if got, err := root.ReadFile(path); err == nil {
					t.Errorf("%s leads to %q", path, got)
				}
			}
			dir, err := f.Dir(tc.who, tc.what)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "whose")); err != nil || string(got) != tc.want {
				t.Errorf("in %s there is %q, %v", dir, got, err)
			}
		})
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	f, _ := folders(t)
	for _, tc := range []struct {
		who  parley.Principal
		want []parley.Workspace
	}{
		{ana, []parley.Workspace{"Notes", "vault", "shared/handbook"}},
		{bob, []parley.Workspace{"vault", "shared/handbook"}},
		{parley.Principal{User: "eve"}, []parley.Workspace{"shared/handbook"}},
	} {
		got, err := f.List(tc.who)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%v: %v\n%s", tc.who, err, diff)
		}
	}
	_, err := f.Open(bob, "Notes")
	if e, _ := errors.AsType[*parley.Error](err); e == nil || e.Hint != "workspaces here: vault, shared/handbook" {
		t.Errorf("the hint is %+v", e)
	}
	if !f.ReadOnly("shared/handbook") || f.ReadOnly("vault") {
		t.Error("only the handbook is read-only")
	}
}

// TestDefault: the default workspace is made once, also by many at once, and only below a root
// whose parent is there.
func TestDefault(t *testing.T) {
	t.Parallel()
	var gone error
	f, root := folders(t, func(o *workspace.Options) {
		o.Root = filepath.Join(filepath.Dir(o.Root), "data", "workspaces")
		o.Default, o.There = "main", func() error { return gone }
	})
	if err := f.Check(ana, "main"); parley.CodeOf(err) != parley.CodeUnavailable || strings.Contains(err.Error(), root) {
		t.Errorf("without the folder above: %v", err)
	}
	if err := os.Mkdir(filepath.Join(root, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	gone = parley.Errorf(parley.CodeUnavailable, "the data folder was removed or replaced")
	if err := f.Check(ana, "main"); !errors.Is(err, gone) {
		t.Errorf("after the data folder was replaced: %v", err)
	}
	gone = nil
	if err := f.Check(ana, "other"); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("another workspace: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := f.Check(ana, "main"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	info, err := os.Stat(filepath.Join(root, "data", "workspaces", "ana=acme", "main"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info, err)
	}
	if list, err := f.List(bob); err != nil || len(list) != 1 {
		t.Errorf("bob has %v, %v", list, err)
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	var none *workspace.Folders
	if err := none.Check(ana, "vault"); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("got %v", err)
	}
	if list, err := none.List(ana); err != nil || list != nil || none.Default() != "" || none.ReadOnly("shared/x") {
		t.Errorf("got %v, %v", list, err)
	}
	for _, o := range []workspace.Options{
		{Default: "shared/x"},
		{Default: ".."},
		{Shared: map[string]workspace.Shared{"a/b": {}}},
	} {
		if _, err := workspace.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestDir_without_links: processes see their folder without the links that lead to it, so this is how its
// path is compared with theirs.
func TestDir_without_links(t *testing.T) {
	t.Parallel()
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(real, "users", "bob", "vault"), 0o700), os.Mkdir(filepath.Join(real, "handbook"), 0o700), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	f, err := workspace.New(workspace.Options{Root: filepath.Join(link, "users"), Shared: map[string]workspace.Shared{"handbook": {Dir: filepath.Join(link, "handbook")}}})
	if err != nil {
		t.Fatal(err)
	}
	for space, want := range map[parley.Workspace]string{"vault": "users/bob/vault", "shared/handbook": "handbook"} {
		if got, err := f.Dir(parley.Principal{User: "bob"}, space); err != nil || got != filepath.Join(real, want) {
			t.Errorf("%s: %s %v", space, got, err)
		}
	}
}

// TestAt: a folder's path names the workspace of the user in it, also by a link, and nobody else's. The user's default is made.
func TestAt(t *testing.T) {
	t.Parallel()
	f, root := folders(t, func(o *workspace.Options) { o.Default = "desk" })
	bob := parley.Principal{User: "bob"}
	users := filepath.Join(root, "users")
	for path, want := range map[string]parley.Workspace{
		"users/bob/vault": "vault", "users/ana=acme/bobs": "vault", "handbook": "shared/handbook", "users/bob/desk/": "desk", "users/bob/../bob/vault": "vault",
		"users/ana=acme/vault": "", "users/ana=acme/desk": "", "users/bob": "", "users": "", "": "", "users/bob/none": "", "handbook/whose": "", "a\x00b": "",
	} {
		got, err := f.At(bob, filepath.Join(root, path))
		if e := parley.Info(err); got != want || want == "" && (e.Code != parley.CodeNotFound || e.Field != "workspace" || strings.Contains(e.Hint, root)) {
			t.Errorf("%q: %q, %+v", path, got, e)
		}
	}
	if _, err := os.Stat(filepath.Join(users, "ana=acme", "desk")); err == nil {
		t.Error("another's workspace was made")
	}
	if got, err := (*workspace.Folders)(nil).At(bob, root); got != "" || parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("of an app without workspaces: %q, %v", got, err)
	}
}
