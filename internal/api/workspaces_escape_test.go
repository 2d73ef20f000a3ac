package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/files/filestest"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// trapped is the API over a vault full of traps, in top, which is granted to ana as shared/vault.
func trapped(t *testing.T) (w *world, top string) {
	t.Helper()
	top = t.TempDir()
	filestest.Furnish(t, top)
	folders, err := workspace.New(workspace.Options{Granted: workspace.Granted{Dir: top, To: map[string][]parley.Principal{"vault": {{User: "ana", Org: "acme"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		o.Files = userfiles.New(userfiles.Options{
			Apps: func() []string { return []string{"test"} }, Folders: func(string) (*workspace.Folders, error) { return folders, nil },
		})
	}), top
}

// TestFilesEscapes tries each path that leads out in each place where a request has one: nothing
// outside is read, listed, changed, moved or deleted, and nothing in .git.
func TestFilesEscapes(t *testing.T) {
	t.Parallel()
	w, top := trapped(t)
	secret := string(files.VersionOf([]byte("SECRET\n")))
	mine := string(files.VersionOf([]byte("mine\n")))
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	evil := "EVIL"
	before := filestest.Everything(t, top, "")
	tried := 0
	for _, p := range filestest.Outside {
		file := func(op, path string, pairs ...string) string {
			return at(op, "shared/vault", append(pairs, "path", path)...)
		}
		ws := func(op string) string { return at(op, p, "path", "secret") }
		for _, r := range [][3]string{
			{"GET", file("tree", p, "depth", "64", "ignored", "true"), ""},
			{"GET", at("tree", "shared/vault", "after", p), ""},
			{"GET", file("tree", "a", "after", p), ""},
			{"GET", file("file", p), ""},
			{"GET", file("content", p), ""},
			{"PUT", file("file", p), encode(parley.WriteFile{Text: &evil})},
			{"PUT", file("file", p+"/new.md"), encode(parley.WriteFile{Text: &evil})},
			{"PUT", file("file", p), encode(parley.WriteFile{Text: &evil, Version: parley.Digest(secret)})},
			{"DELETE", file("file", p, "version", secret), ""},
			{"DELETE", file("file", p), ""},
			{"POST", file("file/move", p), encode(parley.MoveFile{To: "stolen.md", Version: parley.Digest(secret)})},
			{"POST", file("file/move", "a/b/c.md"), encode(parley.MoveFile{To: p, Version: "stale"})},
			{"GET", ws("tree"), ""},
			{"GET", ws("file"), ""},
			{"GET", at("file", "shared/"+p, "path", "secret"), ""},
			{"PUT", at("file", "shared/../"+p, "path", "x.md"), encode(parley.WriteFile{Text: &evil})},
			{"POST", "/v1/workspaces", encode(parley.CreateWorkspace{App: "test", Name: parley.Workspace(p)})},
		} {
			tried++
			resp := w.ask(r[0], r[1], r[2], "Content-Type", "application/json")
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if said := string(body); strings.Contains(said, "SECRET") || strings.Contains(said, "root:") || strings.Contains(said, top) || strings.Contains(said, secret) || resp.StatusCode >= 500 {
				t.Errorf("%s %s %s: %d %.300s", r[0], r[1], r[2], resp.StatusCode, said)
			}
		}
		// A file is moved to where it may be, and nowhere else.
		resp := w.ask("PUT", file("file", "mover.md"), encode(parley.WriteFile{Base64: []byte("EVIL")}), "Content-Type", "application/json")
		if resp.StatusCode >= 300 {
			t.Fatal(resp.Status)
		}
		tried++
		w.ask("POST", file("file/move", "mover.md"), encode(parley.MoveFile{To: p, Version: files.VersionOf([]byte("EVIL"))}), "Content-Type", "application/json")
	}
	if diff := cmp.Diff(before, filestest.Everything(t, top, filepath.Join(top, "vault"))); diff != "" {
		t.Error("something outside, or in .git, has changed:", diff)
	}
	// The file itself can be reached.
	w.call(http.StatusNoContent, nil, "DELETE", at("file", "shared/vault", "path", "a/b/c.md", "version", mine), "")
	t.Logf("%d paths, %d attempts", len(filestest.Outside), tried)
}

// TestFilesEscapeRaces: while a folder and a file are swapped for links to the outside all the time,
// no request reads, lists, changes, moves or deletes anything there.
func TestFilesEscapeRaces(t *testing.T) {
	t.Parallel()
	w, top := trapped(t)
	vault := filepath.Join(top, "vault")
	for name, body := range map[string]string{"other/note.md": "SECRET\n", "secret.md": "SECRET\n", "vault/sub2/note.md": "mine\n", "vault/file.md": "mine\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for name, to := range map[string]string{"sub2": "../other", "file.md": "../secret.md"} {
		real, fake := filepath.Join(vault, name), filepath.Join(vault, name+".fake")
		if err := os.Symlink(to, fake); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Rename(real, real+".kept")
				_ = os.Rename(fake, real)
				_ = os.Rename(real, fake)
				_ = os.Rename(real+".kept", real)
			}
		})
	}
	secret := string(files.VersionOf([]byte("SECRET\n")))
	for n := range 40 {
		name := []string{"sub2/note.md", "file.md"}[n%2]
		for _, r := range [][3]string{
			{"GET", at("tree", "shared/vault", "path", "sub2", "ignored", "true"), ""},
			{"GET", at("file", "shared/vault", "path", name), ""},
			{"GET", at("content", "shared/vault", "path", name), ""},
			{"PUT", at("file", "shared/vault", "path", name), `{"text":"EVIL","version":"` + secret + `"}`},
			{"PUT", at("file", "shared/vault", "path", "sub2/new.md"), `{"text":"mine"}`},
			{"POST", at("file/move", "shared/vault", "path", name), `{"to":"stolen.md","version":"` + secret + `"}`},
			{"DELETE", at("file", "shared/vault", "path", name, "version", secret), ""},
		} {
			resp := w.ask(r[0], r[1], r[2], "Content-Type", "application/json")
			if body, err := io.ReadAll(resp.Body); err != nil || strings.Contains(string(body), "SECRET") || strings.Contains(string(body), secret) || strings.Contains(string(body), "secret.md") {
				t.Errorf("%s %s: %s %v", r[0], r[1], body, err)
			}
		}
	}
	close(stop)
	wg.Wait()
	for _, name := range []string{"other/note.md", "secret.md", "other/secret.md"} {
		if body, err := os.ReadFile(filepath.Join(top, name)); err != nil || string(body) != "SECRET\n" {
			t.Errorf("%s is %q, %v", name, body, err)
		}
	}
	if list, err := os.ReadDir(filepath.Join(top, "other")); err != nil || len(list) != 2 {
		t.Errorf("outside: %v, %v", list, err)
	}
}
