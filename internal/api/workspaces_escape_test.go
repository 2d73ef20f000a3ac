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

// TestFilesSpelling: a name is the one on disk, byte for byte. Another case or another Unicode form of it reaches neither a
// workspace nor a file, and takes nothing away from the file that there is.
func TestFilesSpelling(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	jsonType := []string{"Content-Type", "application/json"}
	const nfc, nfd = "caf\u00e9/r\u00e9sum\u00e9.md", "cafe\u0301/re\u0301sume\u0301.md"
	info := c.write(201, "main", nfc, "composed", "")
	for _, other := range []string{nfd, "CAF\u00c9/r\u00e9sum\u00e9.md", "caf\u00e9/R\u00c9SUM\u00c9.md", "caf\u00e9/re\u0301sume\u0301.md", "cafe\u0301/r\u00e9sum\u00e9.md", "caf\u00e9/r\u00e9sum\u00e9.MD"} {
		for op, body := range map[string][2]string{
			"file": {"GET", ""}, "content": {"GET", ""}, "history": {"GET", ""}, "tree": {"GET", ""},
		} {
			resp := c.ask(body[0], at(op, "main", "path", other), body[1])
			if got := resp.StatusCode; got != 404 && (op != "history" || got != 200) {
				t.Errorf("%s of %+q: %d", op, other, got)
			}
		}
		// Who means the file by another spelling changes nothing: the version does not fit a file that is not there.
		for _, r := range [][3]string{
			{"PUT", at("file", "main", "path", other), `{"text":"EVIL","version":"` + string(info.Version) + `"}`},
			{"DELETE", at("file", "main", "path", other, "version", string(info.Version)), ""},
			{"POST", at("file/move", "main", "path", other), `{"to":"x.md","version":"` + string(info.Version) + `"}`},
		} {
			if resp := c.ask(r[0], r[1], r[2], jsonType...); resp.StatusCode != 404 && resp.StatusCode != 409 {
				t.Errorf("%s %+q: %d", r[0], other, resp.StatusCode)
			}
		}
	}
	// Two spellings are two files, where the file system can have both.
	c.write(201, "main", nfd, "decomposed", "")
	for path, want := range map[string]string{nfc: "composed", nfd: "decomposed"} {
		var got parley.FileContent
		if c.call(200, &got, "GET", at("file", "main", "path", path), ""); got.Text == nil || *got.Text != want || got.Path != path {
			t.Errorf("%+q is %+v", path, got)
		}
	}
	c.call(http.StatusNoContent, nil, "DELETE", at("file", "main", "path", nfd, "version", string(files.VersionOf([]byte("decomposed")))), "")
	var tree parley.FileTree
	c.call(200, &tree, "GET", at("tree", "main", "depth", "2"), "")
	var names []string
	for _, e := range tree.Entries {
		names = append(names, e.Path)
	}
	if diff := cmp.Diff([]string{"cafe\u0301", "caf\u00e9", nfc}, names); diff != "" {
		t.Errorf("after one of them was deleted (-want +got):\n%s", diff)
	}
	// Workspaces: neither found nor made by another spelling.
	c.call(201, nil, "POST", "/v1/workspaces", `{"app":"test","name":"Second Brain"}`, jsonType...)
	for _, ws := range []string{"MAIN", "Main", "second brain", "shared/Handbook", "shared/PETRA", "Shared/handbook"} {
		if resp := c.ask("GET", at("tree", ws), ""); resp.StatusCode != 404 && resp.StatusCode != 400 {
			t.Errorf("the workspace %s: %d", ws, resp.StatusCode)
		}
	}
	for name, want := range map[string]int{"MAIN": 409, "Main": 409, "second brain": 409, "SECOND BRAIN": 409, "Second Brain": 409, "ma\u00efn": 400, "mai\u0308n": 400, "m\uff41in": 400, "\u017fecond Brain": 400, "third": 201} {
		raw, err := json.Marshal(parley.CreateWorkspace{App: "test", Name: parley.Workspace(name)})
		if err != nil {
			t.Fatal(err)
		}
		if resp := c.ask("POST", "/v1/workspaces", string(raw), jsonType...); resp.StatusCode != want {
			t.Errorf("making %+q: %d, want %d", name, resp.StatusCode, want)
		}
	}
	// Another user has the names to himself.
	c.call(201, nil, "POST", "/v1/workspaces", `{"app":"test","name":"SECOND BRAIN"}`, append(jsonType, "Test-User", "bob")...)
}
