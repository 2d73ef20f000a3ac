package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/workspace"
)

// granted returns a vault with folders of three persons, one of which only the loopback user may
// use, and with what must not be one.
func granted(t *testing.T, change ...func(*workspace.Options)) (f *workspace.Folders, vault string) {
	t.Helper()
	vault = filepath.Join(t.TempDir(), "vault")
	for _, name := range []string{"sebastian", "petra", "nobody", "claude", ".git", "con", "café"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(vault, name), 0o700), os.WriteFile(filepath.Join(vault, name, "whose"), []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("petra", filepath.Join(vault, "linked")), os.WriteFile(filepath.Join(vault, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	o := workspace.Options{Granted: workspace.Granted{
		Dir: vault, Except: []string{"claude"}, Placeholder: "person_root",
		To: map[string][]parley.Principal{"sebastian": {ana}, "petra": {ana, bob}, "linked": {ana}, "gone": {ana}, "claude": {ana}},
	}}
	for _, c := range change {
		c(&o)
	}
	f, err := workspace.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f, vault
}

// TestGranted: a user opens and lists what is granted to that user, and nothing else, whatever it
// is called. The loopback user has all folders that can be workspaces.
func TestGranted(t *testing.T) {
	t.Parallel()
	f, vault := granted(t)
	anybody := parley.Principal{User: "ana"} // of no organisation, so another one
	for _, c := range []struct {
		who  parley.Principal
		what parley.Workspace
		code parley.Code
	}{
		{ana, "shared/sebastian", ""},
		{ana, "shared/petra", ""},
		{bob, "shared/petra", ""},
		{parley.Local, "shared/nobody", ""},
		{parley.Local, "shared/sebastian", ""},
		{bob, "shared/sebastian", parley.CodeNotFound},
		{anybody, "shared/sebastian", parley.CodeNotFound},
		{parley.Principal{}, "shared/petra", parley.CodeNotFound},
		{ana, "shared/nobody", parley.CodeNotFound},
		{ana, "shared/gone", parley.CodeNotFound},
		{ana, "shared/Petra", parley.CodeNotFound},
		{ana, "shared/linked", parley.CodeNotFound},
		{ana, "petra", parley.CodeNotFound},
		{ana, "shared/claude", parley.CodeNotFound},
		{parley.Local, "shared/claude", parley.CodeNotFound},
		{parley.Local, "shared/linked", parley.CodeNotFound},
		{parley.Local, "shared/file", parley.CodeNotFound},
		{parley.Local, "shared/.git", parley.CodeInvalid},
		{parley.Local, "shared/..", parley.CodeInvalid},
		{parley.Local, "shared/petra/../sebastian", parley.CodeInvalid},
		{parley.Local, "shared/petra/", parley.CodeInvalid},
		{parley.Local, "shared/café", parley.CodeInvalid},
		{parley.Local, "shared/petra\x00", parley.CodeInvalid},
		{parley.Local, "shared/", parley.CodeInvalid},
	} {
		root, err := f.Open(c.who, c.what)
		if parley.CodeOf(err) != c.code && (err != nil || c.code != "") {
			t.Errorf("%+v opens %q: %v, want %q", c.who, c.what, err, c.code)
		}
		if err != nil {
			continue
		}
		got, err := root.ReadFile("whose")
		if want := strings.TrimPrefix(string(c.what), "shared/"); err != nil || string(got) != want {
			t.Errorf("%+v finds %q in %q: %v", c.who, got, c.what, err)
		}
		_ = root.Close()
		if dir, err := f.Dir(c.who, c.what); err != nil || dir != filepath.Join(vault, string(got)) {
			t.Errorf("the path of %q is %q: %v", c.what, dir, err)
		}
	}
	for _, c := range []struct {
		who  parley.Principal
		want []parley.Workspace
	}{
		{parley.Local, []parley.Workspace{"shared/nobody", "shared/petra", "shared/sebastian"}},
		{ana, []parley.Workspace{"shared/petra", "shared/sebastian"}},
		{bob, []parley.Workspace{"shared/petra"}},
		{anybody, nil},
	} {
		got, err := f.List(c.who)
		if diff := cmp.Diff(c.want, got, cmp.Transformer("", func(l []parley.Workspace) string { return strings.Join(names(l), " ") })); diff != "" || err != nil {
			t.Errorf("the list of %+v: %v %s", c.who, err, diff)
		}
	}
}

func names(list []parley.Workspace) (out []string) {
	for _, w := range list {
		out = append(out, string(w))
	}
	return out
}

// TestChoose: a session that names no workspace gets the only one of its user, and is never put
// into one of several. The refusal names the user's own, and nobody else's.
func TestChoose(t *testing.T) {
	t.Parallel()
	f, _ := granted(t)
	if got, err := f.Choose(bob); got != "shared/petra" || err != nil {
		t.Errorf("bob gets %q, %v", got, err)
	}
	_, err := f.Choose(ana)
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != parley.CodeInvalid || e.Field != "workspace" || e.Hint != "workspaces here: shared/petra, shared/sebastian" {
		t.Errorf("ana gets %#v", err)
	}
	if got, err := f.Choose(parley.Principal{User: "eve"}); err == nil || strings.Contains(err.Error()+e.Hint, "nobody") {
		t.Errorf("eve gets %q, %v", got, err)
	}
	f, _ = granted(t, func(o *workspace.Options) { o.Default = "shared/petra" })
	if got, err := f.Choose(ana); got != "shared/petra" || err != nil {
		t.Errorf("with a default ana gets %q, %v", got, err)
	}
	var none *workspace.Folders
	if got, err := none.Choose(ana); got != "" || err != nil {
		t.Errorf("an app without workspaces gives %q, %v", got, err)
	}
}

// TestInPrompt: the placeholder stands for the path of the session's own workspace.
func TestInPrompt(t *testing.T) {
	t.Parallel()
	f, vault := granted(t)
	const prompt = "Your notes: {person_root}\nUse paths relative to {person_root}, not {other}."
	dir := filepath.Join(vault, "petra")
	want := "Your notes: " + dir + "\nUse paths relative to " + dir + ", not {other}."
	if got := f.InPrompt("shared/petra", prompt); got != want {
		t.Errorf("got %q", got)
	}
	for _, w := range []parley.Workspace{"", "petra", "shared/..", "shared/"} {
		if got := f.InPrompt(w, prompt); got != prompt {
			t.Errorf("in %q: %q", w, got)
		}
	}
}
