package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/sim/company"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// shore is the API over lakes: the company's in ana's default workspace, a shared one, and a read-only one.
type shore struct {
	*world
	ana    string // the folder of ana's lake
	shared string
	lakes  *lake.Lakes
}

func newShore(t *testing.T) *shore {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git program")
	}
	dir := t.TempDir()
	s := &shore{ana: filepath.Join(dir, "users", "ana=acme", "lake"), shared: filepath.Join(dir, "shared")}
	private, locked := filepath.Join(dir, "private"), filepath.Join(dir, "locked")
	for _, d := range []string{private, s.shared, locked} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := company.Demo(company.Reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Lay(t.Context(), s.ana, git); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{s.shared, locked} {
		if err := os.WriteFile(filepath.Join(d, "README.md"), []byte("# Shared\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := workspace.New(workspace.Options{Root: filepath.Join(dir, "users"), Default: "lake", Shared: map[string]workspace.Shared{"team": {Dir: s.shared}, "locked": {Dir: locked, ReadOnly: true}}})
	if err != nil {
		t.Fatal(err)
	}
	s.lakes = lake.New(lake.Options{Private: private, Fresh: -1})
	s.world = newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		e := o.Engine
		o.Files = userfiles.New(userfiles.Options{
			Apps: func() []string { return []string{"plain", "test"} },
			Folders: func(app string) (*workspace.Folders, error) {
				if app == "test" || app == "plain" {
					return folders, nil
				}
				_, err := e.App(app)
				return nil, err
			},
			Lakes: userfiles.Lakes{Of: func(app string) bool { return app == "test" }, Open: s.lakes.In},
		})
	})
	t.Cleanup(func() {
		if err := s.lakes.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const support = "docs/support-hours.md"

// of is the path of an operation, with pairs of query parameters.
func of(op string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return "/v1/entities" + op + "?" + q.Encode()
}

func (s *shore) refusal(want int, method, path, body string, header ...string) parley.ErrorInfo {
	s.t.Helper()
	resp := s.ask(method, path, body, append(header, "Content-Type", "application/json")...)
	got := problem(s.t, resp)
	if resp.StatusCode != want || got.Message == "" {
		s.t.Fatalf("%s %s: got %d %+v, want %d", method, path, resp.StatusCode, got, want)
	}
	return got
}

// asks makes a change, which must be answered with a status.
func (s *shore) asks(want int, method, path string, body any, header ...string) (made parley.EntityChanged) {
	s.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.call(want, &made, method, path, string(raw), append(header, "Content-Type", "application/json")...)
	return made
}

// TestEntities: each query of a lake has the same answer each time, in pages that lack nothing and repeat nothing, and an
// ETag with which it is asked for again only when it has changed.
func TestEntities(t *testing.T) {
	t.Parallel()
	s := newShore(t)
	for _, path := range []string{
		of("", "kind", "decision", "limit", "5"), of("/search", "q", "error budget"), of("/entity", "path", support), of("/links", "path", support), of("/backlinks", "path", support),
		of("/history", "path", support), of("/diff", "path", support, "to", "HEAD"), of("/validate"), of("/tree", "path", "lake"), of("/graph", "kind", "customer"), of("/tags"),
	} {
		if strings.Contains(path, "HEAD") {
			var h lake.History
			s.call(200, &h, "GET", of("/history", "path", support), "")
			path = of("/diff", "path", support, "to", h.Revisions[0].Commit)
		}
		first, second := s.ask("GET", path, ""), s.ask("GET", path, "")
		a, _ := io.ReadAll(first.Body)
		b, _ := io.ReadAll(second.Body)
		tag := first.Header.Get("ETag")
		if first.StatusCode != 200 || string(a) != string(b) || tag == "" || tag != second.Header.Get("ETag") {
			t.Errorf("GET %s: %d %.200s\nand then %.200s", path, first.StatusCode, a, b)
		}
		if again := s.ask("GET", path, "", "If-None-Match", `"x", W/`+tag); again.StatusCode != 304 {
			t.Errorf("GET %s again: %d", path, again.StatusCode)
		} else if raw, _ := io.ReadAll(again.Body); len(raw) > 0 {
			t.Errorf("GET %s again has a body: %s", path, raw)
		}
	}
	var paths []string
	for after := ""; ; {
		var page lake.List
		s.call(200, &page, "GET", of("", "limit", "37", "after", after), "")
		for _, e := range page.Entities {
			paths = append(paths, e.Path)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for i := range paths {
		if i > 0 && paths[i] <= paths[i-1] {
			t.Errorf("%s comes after %s", paths[i], paths[i-1])
		}
	}
	if len(paths) != 210 {
		t.Errorf("the lake has %d entities", len(paths))
	}
	var hits lake.Hits
	s.call(200, &hits, "GET", of("/search", "q", "backups kept 35 days"), "")
	if len(hits.Hits) == 0 || hits.Hits[0].Path != "docs/backups.md" {
		t.Errorf("backups: %+v", hits.Hits)
	}
	var e parley.Entity
	s.call(200, &e, "GET", of("/entity", "path", "docs/support-hours", "app", "test", "workspace", "lake"), "")
	if e.Title != "Support hours" || e.Owner != "Samir Haddad" || e.Kind != "doc" || !strings.Contains(e.Body, "07:00 to 19:00") || len(e.Links) < 2 {
		t.Errorf("the entity is %+v", e)
	}
	var back lake.Backlinks
	s.call(200, &back, "GET", of("/backlinks", "path", support), "")
	if len(back.Links) < 5 || back.Links[0].Title == "" {
		t.Errorf("the links to it are %+v", back.Links)
	}
	var faults lake.Faults
	s.call(200, &faults, "GET", of("/validate", "paths", "lake/customers,docs"), "")
	if len(faults.Faults) != 2 || faults.Faults[0].Rule != "broken-link" {
		t.Errorf("the faults are %+v", faults.Faults)
	}
}

// TestEntityChanges: a change is a commit of its user, made once with a key. A change that is based on an older version is
// merged, or refused, and the refusal names the version that there is.
func TestEntityChanges(t *testing.T) {
	t.Parallel()
	s := newShore(t)
	text := "---\ntitle: Tea\nkind: doc\nowner: Nora Kelly\n---\n# Tea\n\nOne.\n\nTwo.\n\nThree.\n"
	path := of("/entity", "path", "docs/tea.md")
	made := s.asks(201, "POST", of(""), parley.WriteEntity{Path: "docs/tea.md", Body: text, Reason: "How tea is made"}, "Idempotency-Key", "k1")
	again := s.asks(201, "POST", of(""), parley.WriteEntity{Path: "docs/tea.md", Body: text, Reason: "How tea is made"}, "Idempotency-Key", "k1")
	if again.Commit != made.Commit || !again.Repeated || made.Repeated || made.Version == "" {
		t.Errorf("made %+v, and again %+v", made, again)
	}
	for _, body := range []string{`{"path":"docs/tea.md","body":"other"}`, string(must(t, parley.WriteEntity{Path: "docs/tea.md", Body: text, Reason: "Why else"}))} {
		if got := s.refusal(422, "POST", of(""), body, "Idempotency-Key", "k1"); got.Field != "Idempotency-Key" || strings.Contains(got.Message, "api-") {
			t.Errorf("another change with the key: %+v", got)
		}
	}
	if got := s.refusal(409, "POST", of(""), `{"path":"docs/tea.md","body":"other"}`); string(got.Current) != made.Version || got.Field != "path" {
		t.Errorf("a second one: %+v", got)
	}
	edit := func(old, new string) string { return strings.Replace(text, old, new, 1) }
	one := s.asks(200, "PUT", path, parley.WriteEntity{Body: edit("One.", "1."), Version: made.Version})
	two := s.asks(200, "PUT", path, parley.WriteEntity{Body: edit("Three.", "3."), Version: made.Version})
	if one.Merged || !two.Merged {
		t.Errorf("the first change %+v, the second %+v", one, two)
	}
	var e parley.Entity
	h := s.call(200, &e, "GET", path, "")
	if !strings.Contains(e.Body, "1.\n\nTwo.\n\n3.") || h.Get("ETag") != `"`+two.Version+`"` {
		t.Errorf("merged: %s", e.Body)
	}
	if got := s.refusal(409, "PUT", path, string(must(t, parley.WriteEntity{Body: edit("One.", "One, but another."), Version: made.Version}))); string(got.Current) != two.Version || got.Field != "version" {
		t.Errorf("a change that does not fit: %+v", got)
	}
	if got := s.refusal(412, "PUT", path, string(must(t, parley.WriteEntity{Body: text})), "If-Match", `"`+one.Version+`"`); string(got.Current) != two.Version || got.Field != "If-Match" {
		t.Errorf("If-Match with an older version: %+v", got)
	}
	for _, match := range []string{`"x", "y"`, "\"" + strings.Repeat("0", 40) + "\""} {
		for method, body := range map[string]string{"PUT": `{"body":"x"}`, "DELETE": ""} {
			if got := s.refusal(412, method, path, body, "If-Match", match); string(got.Current) != two.Version {
				t.Errorf("%s with If-Match %s: %+v", method, match, got)
			}
		}
	}
	s.refusal(400, "PUT", path, `{"body":"x"}`)
	for _, c := range []struct{ method, path, body, field string }{
		{"GET", of("/diff", "path", "docs/tea.md", "from", "nothing"), "", "from"},
		{"GET", of("/diff", "path", "docs/tea.md", "to", "nothing"), "", "to"},
		{"GET", of("/diff", "path", "docs/tea.md", "from", one.Commit, "to", "nothing"), "", "to"},
		{"GET", of("/history", "path", "docs/tea.md", "after", "nothing"), "", "after"},
		{"GET", of("/search", "q", `"`), "", "q"},
		{"POST", of("/entity/move", "path", "docs/tea.md"), `{"to":"../tea.md"}`, "to"},
		{"POST", of("/entity/move", "path", "docs/tea.md"), `{"to":"docs/tea"}`, "to"},
		{"POST", of("/entity/move", "path", "docs/tea.md"), `{"to":".tea.md"}`, "to"},
		{"POST", of(""), `{"path":"docs/coffee.md","body":"x","reason":"Parley-Key: x"}`, "reason"},
	} {
		if got := s.refusal(400, c.method, c.path, c.body); got.Field != c.field {
			t.Errorf("%s %s %s: %+v", c.method, c.path, c.body, got)
		}
	}
	s.refusal(404, "PUT", of("/entity", "path", "docs/coffee.md"), `{"body":"x","version":"`+one.Version+`"}`)
	three := s.asks(200, "PUT", path, parley.WriteEntity{Body: edit("Two.", "2.")}, "If-Match", `W/"`+two.Version+`"`)
	link := s.asks(201, "POST", of(""), parley.WriteEntity{Path: "docs/breaks.md", Body: "---\ntitle: Breaks\nkind: doc\n---\nSee [tea](tea.md) and [[tea]].\n"})
	moved := s.asks(200, "POST", of("/entity/move", "path", "docs/tea.md"), parley.MoveEntity{To: "docs/kitchen/tea.md", Reason: "A folder for the kitchen"}, "If-Match", `"`+three.Version+`"`)
	if diff := cmp.Diff([]string{"docs/breaks.md"}, moved.Rewritten); diff != "" || moved.Path != "docs/kitchen/tea.md" {
		t.Errorf("moved: %+v %s", moved, diff)
	}
	s.call(200, &e, "GET", of("/entity", "path", link.Path), "")
	for _, l := range e.Links {
		if l.Path != moved.Path {
			t.Errorf("after the move a link leads to %q", l.Path)
		}
	}
	s.asks(200, "DELETE", of("/entity", "path", moved.Path, "version", moved.Version, "reason", "Nobody drinks it"), nil)
	s.refusal(404, "GET", of("/entity", "path", moved.Path), "")
	var hist lake.History
	s.call(200, &hist, "GET", of("/history", "path", moved.Path), "")
	if len(hist.Revisions) != 6 || hist.Revisions[1].MovedFrom != "docs/tea.md" || hist.Revisions[2].MovedFrom != "" || !hist.Revisions[0].Deleted || hist.Revisions[0].Reason != "Nobody drinks it" || hist.Revisions[0].Author != "ana" {
		t.Errorf("the history is %+v", hist.Revisions)
	}
	s.call(200, &e, "GET", of("/history/entity", "path", moved.Path, "commit", hist.Revisions[1].Commit), "")
	if !strings.Contains(e.Body, "2.") {
		t.Errorf("it was %q", e.Body)
	}
}

// TestEntityFeed: the changes of a lake come in the order of its commits, each once, over pages and over a stream that is cut
// after each of them; also those that are made with git.
func TestEntityFeed(t *testing.T) {
	t.Parallel()
	s := newShore(t)
	var whole []string
	for cursor := ""; ; {
		var f lake.Feed
		s.call(200, &f, "GET", of("/changes", "cursor", cursor, "limit", "100"), "")
		for _, c := range f.Changes {
			whole = append(whole, c.Commit)
		}
		if cursor = f.Cursor; !f.More {
			break
		}
	}
	var unknown lake.Feed
	s.call(200, &unknown, "GET", of("/changes", "cursor", strings.Repeat("0", 40), "limit", "1"), "")
	if !unknown.Reset || len(unknown.Changes) != 1 || unknown.Changes[0].Commit != whole[0] {
		t.Errorf("behind a commit that is not there: %+v", unknown)
	}
	if got := s.refusal(400, "GET", of("/changes", "cursor", "nonsense"), ""); got.Field != "cursor" {
		t.Errorf("behind what is no commit: %+v", got)
	}
	if len(whole) < 250 {
		t.Errorf("the feed has %d changes", len(whole))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func(cursor string, header ...string) *bufio.Scanner {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, "GET", s.url+of("/changes/stream", "cursor", cursor), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", err, resp)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return bufio.NewScanner(resp.Body)
	}
	next := func(in *bufio.Scanner) (c parley.LakeChange) {
		t.Helper()
		id := ""
		for in.Scan() {
			if v, ok := strings.CutPrefix(in.Text(), "id: "); ok {
				id = v
			}
			if v, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(v), &c); err != nil || id != c.Cursor {
					t.Fatalf("%v: %q of %q", err, v, id)
				}
				return c
			}
		}
		t.Fatal("the stream ended: ", in.Err())
		return c
	}
	at := whole[len(whole)-4]
	for _, want := range whole[len(whole)-3:] { // cut after each
		if at = next(open("", "Last-Event-ID", at)).Commit; at != want {
			t.Errorf("after a cut the stream has %s, want %s", at, want)
		}
	}
	live := open("now")
	s.asks(201, "POST", of(""), parley.WriteEntity{Path: "docs/one.md", Body: "one"})
	if got := next(live); got.Author != "ana" || len(got.Changed) != 1 || got.Changed[0] != (parley.LakeTouched{Path: "docs/one.md", What: "created"}) {
		t.Errorf("the live change is %+v", got)
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", s.ana, "-c", "user.name=Wiebke", "-c", "user.email=w@example.com", "commit", "-q", "--allow-empty", "-m", "By hand")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := next(live); got.Author != "Wiebke" || got.Reason != "By hand" {
		t.Errorf("the change by hand is %+v", got)
	}
}

// TestEntitiesOfOthers: a lake is that of its workspace. Nobody reaches another's, or leaves it by a path; a read-only one
// is not changed; and an app without lakes has none.
func TestEntitiesOfOthers(t *testing.T) {
	t.Parallel()
	s := newShore(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(s.ana, "docs", "link.md")); err != nil {
		t.Fatal(err)
	}
	var e parley.Entity
	s.call(200, &e, "GET", of("/entity", "path", support), "")
	s.refusal(404, "GET", of("/entity", "path", support), "", "Test-User", "bob") // his own lake is empty
	s.refusal(400, "GET", of("/entity", "path", support, "workspace", "ana=acme/lake"), "", "Test-User", "bob")
	s.refusal(401, "GET", of(""), "", "Test-User", "nobody")
	var list lake.List
	s.call(200, &list, "GET", of(""), "", "Test-User", "bob")
	if len(list.Entities) != 0 {
		t.Errorf("bob's lake has %+v", list.Entities)
	}
	s.asks(201, "POST", of("", "workspace", "shared/team"), parley.WriteEntity{Path: "Café.md", Body: "x"}, "Test-User", "bob")
	s.call(200, &list, "GET", of("", "workspace", "shared/team"), "")
	if len(list.Entities) != 2 {
		t.Errorf("the shared lake has %+v", list.Entities)
	}
	s.refusal(409, "POST", of("", "workspace", "shared/team"), `{"path":"CAFE\u0301.md","body":"y"}`) // one name on some file systems
	s.refusal(403, "POST", of("", "workspace", "shared/locked"), `{"path":"a.md","body":"y"}`)
	s.refusal(403, "DELETE", of("/entity", "workspace", "shared/locked", "path", "README.md"), "")
	s.refusal(400, "GET", of("", "app", "plain"), "")
	s.refusal(404, "GET", of("", "app", "nothing"), "")
	for _, bad := range []string{"../x.md", "/etc/passwd", "docs/../../x.md", ".git/config", "docs/link.md", "docs/link", "a\x00.md", "..\\x.md"} {
		for _, op := range []string{"/entity", "/links", "/backlinks", "/history", "/diff"} {
			resp := s.ask("GET", of(op, "path", bad), "")
			if raw, _ := io.ReadAll(resp.Body); resp.StatusCode < 400 || resp.StatusCode >= 500 || strings.Contains(string(raw), "root:") {
				t.Errorf("GET %s of %q: %d %.200s", op, bad, resp.StatusCode, raw)
			}
		}
		resp := s.ask("POST", of(""), string(must(t, parley.WriteEntity{Path: bad, Body: "x"})), "Content-Type", "application/json")
		if resp.StatusCode < 400 || resp.StatusCode >= 500 {
			t.Errorf("POST %q: %d", bad, resp.StatusCode)
		}
	}
}

func must(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
