package lake_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/seam"
	tools "github.com/parley-server/parley/internal/tool/lake"
)

// rig is a toolset over a lake in a folder.
type rig struct {
	*tools.Toolset
	t       *testing.T
	dir     string
	lakes   *lake.Lakes
	changes [][]string // announced
	n       int
}

var ana = parley.Principal{User: "ana"}

func newRig(t *testing.T, files ...string) *rig {
	t.Helper()
	g := &rig{t: t, dir: memory(t)}
	for i := 0; i < len(files); i += 2 {
		at := filepath.Join(g.dir, filepath.FromSlash(files[i]))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(files[i+1]), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	g.open(nil)
	return g
}

// memory is a folder in memory, or a temporary one: git syncs what it writes.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "laketools-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// open makes the toolset, as another process would.
func (g *rig) open(at func(string) error) {
	g.lakes = lake.New(lake.Options{Private: memory(g.t), Fresh: -1, At: at, Now: func() time.Time { return time.Unix(1795772000, 0).UTC() }})
	lakes := g.lakes
	g.t.Cleanup(func() { _ = lakes.Close() })
	g.Toolset = tools.New(tools.Options{Lakes: func() *lake.Lakes { return lakes }})
}

func (g *rig) file(name string) string {
	body, err := os.ReadFile(filepath.Join(g.dir, filepath.FromSlash(name)))
	if err != nil {
		return "(none)"
	}
	return string(body)
}

// run is a call of a tool with this input.
func (g *rig) run(call, tool string, in any) seam.Run {
	g.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		g.t.Fatal(err)
	}
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = root.Close() })
	return seam.Run{
		Call: parley.CallID(call), Name: tool, Input: raw, Principal: ana, Session: "s",
		Workspace: func() (*os.Root, error) { return root, nil },
		Changes:   func(_ context.Context, paths ...string) error { g.changes = append(g.changes, paths); return nil },
	}
}

type in map[string]any

// call makes a call and returns its output. It fails the test if the input does not fit the schema.
func (g *rig) call(tool string, input in) parley.ToolResult {
	g.t.Helper()
	g.n++
	r := g.run(fmt.Sprintf("call-%d", g.n), tool, input)
	check(g.t, g.Toolset, tool, r.Input)
	res, err := g.Run(g.t.Context(), r)
	if err != nil {
		g.t.Fatal(err)
	}
	return res
}

func (g *rig) ok(tool string, input in) string {
	g.t.Helper()
	res := g.call(tool, input)
	if res.Error != nil {
		g.t.Fatalf("%s %v: %s", tool, input, res.Output)
	}
	return res.Output
}

func check(t *testing.T, set *tools.Toolset, tool string, input []byte) {
	t.Helper()
	list, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d.Name != tool {
			continue
		}
		schema, err := jsonschema.UnmarshalJSON(strings.NewReader(string(d.InputSchema)))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("tool.json", schema); err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile("tool.json")
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(input)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return
	}
	t.Fatalf("there is no tool %s", tool)
}

const pricing = "---\ntitle: Pricing\ntags:\n  - money\nstatus: draft # for now\n---\n\n# Pricing\n\nOne price. See [[ana]].\n"

func TestTools(t *testing.T) {
	t.Parallel()
	g := newRig(t, "docs/pricing.md", pricing, "lake/ana.md", "---\nkind: person\n---\n# Ana\n", "README.md", "See [prices](docs/pricing.md) and [[nobody]].\n")
	for _, c := range []struct {
		tool string
		in   in
		want []string
	}{
		{"lake_search", in{"query": "price"}, []string{"docs/pricing.md · Pricing · doc · draft · #money", "One **price**."}},
		{"lake_search", in{"query": "price zebra"}, []string{"No entity has all of these words"}},
		{"lake_search", in{"query": "zebra"}, []string{"Nothing was found"}},
		{"lake_list", in{"kind": "person"}, []string{"lake/ana.md · Ana · person\n"}},
		{"lake_list", in{"folders": true}, []string{"docs/ · 1 entities", "README.md"}},
		{"lake_list", in{"limit": 1}, []string{"(There are more: after=README.md)"}},
		{"lake_read", in{"path": "docs/pricing"}, []string{"version ", "line 10 links to lake/ana.md", "\nOne price. See [[ana]].\n"}},
		{"lake_read", in{"path": "docs/pricing.md", "line": 8, "lines": 1}, []string{"\n# Pricing\n", "(Lines 8 to 8 of 10; go on with line=9.)"}},
		{"lake_validate", in{}, []string{"README.md:1 · broken-link · the link [[nobody]] leads to no file"}},
		{"lake_backlinks", in{"path": "docs/pricing.md"}, []string{"README.md:1 · "}},
		{"lake_create", in{"path": "lake/bo.md", "content": "# Bo\n", "reason": "Bo has joined"}, []string{"lake/bo.md was created, in commit "}},
		{"lake_update", in{"path": "docs/pricing.md", "old_string": "One price.", "new_string": "Two prices.", "front": in{"status": "final", "tags": []string{"money", "sales"}, "owner": "bo", "note": "a: b"}, "reason": "Two"}, []string{"docs/pricing.md was changed"}},
		{"lake_link", in{"path": "lake/bo.md", "to": "docs/pricing.md", "text": "the prices", "reason": "He owns it"}, []string{"lake/bo.md was changed"}},
		{"lake_link", in{"path": "lake/bo.md", "to": "docs/pricing.md", "reason": "He owns it"}, []string{"links to docs/pricing.md already, in line 5"}},
		{"lake_move", in{"path": "docs/pricing.md", "to": "docs/prices.md", "reason": "A better name"}, []string{"It is docs/prices.md now", "Links were changed in README.md, lake/bo.md."}},
		{"lake_history", in{"path": "docs/prices.md"}, []string{" · ana · A better name (moved from docs/pricing.md)\n", " · ana · Two\n"}},
		{"lake_history", in{"path": "docs/pricing.md"}, []string{" · ana · A better name (deleted)\n", " · ana · Two\n"}},
		{"lake_diff", in{"path": "docs/prices.md"}, []string{"There is no difference"}},
		{"lake_delete", in{"path": "lake/ana.md", "reason": "She has left"}, []string{"lake/ana.md was deleted"}},
	} {
		got := g.ok(c.tool, c.in)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s %v:\n%s\nwant %q", c.tool, c.in, got, want)
			}
		}
	}
	want := "---\ntitle: Pricing\ntags: [money, sales]\nstatus: final\nnote: \"a: b\"\nowner: bo\n---\n\n# Pricing\n\nTwo prices. See [[ana]].\n"
	if got := g.file("docs/prices.md"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := g.file("lake/bo.md"), "# Bo\n\n## Related\n\n- [[prices|the prices]]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, c := range []struct {
		tool        string
		in          in
		code        parley.Code
		field, want string
	}{
		{"lake_read", in{"path": "docs/nothing.md"}, parley.CodeNotFound, "path", "there is no entity"},
		{"lake_create", in{"path": "lake/bo.md", "content": "x", "reason": "r"}, parley.CodeConflict, "path", "already"},
		{"lake_create", in{"path": "lake/Bo.md", "content": "x", "reason": "r"}, parley.CodeConflict, "path", "only in case"},
		{"lake_create", in{"path": "../out.md", "content": "x", "reason": "r"}, parley.CodeInvalid, "path", "leads out"},
		{"lake_create", in{"path": "lake/x.txt", "content": "x", "reason": "r"}, parley.CodeInvalid, "path", "end the name with .md"},
		{"lake_create", in{"path": "CLAUDE.md", "content": "x", "reason": "r"}, parley.CodeForbidden, "path", "tools for files"},
		{"lake_update", in{"path": "lake/bo.md", "content": "x", "reason": "r"}, parley.CodeInvalid, "version", "version"},
		{"lake_update", in{"path": "lake/bo.md", "reason": "r"}, parley.CodeInvalid, "", "nothing says what to change"},
		{"lake_update", in{"path": "lake/bo.md", "old_string": "zebra", "new_string": "x", "reason": "r"}, parley.CodeInvalid, "old_string", "letter by letter"},
		{"lake_update", in{"path": "lake/bo.md", "content": "x", "version": "1234", "reason": "r"}, parley.CodeConflict, "version", "read it again"},
		{"lake_create", in{"path": "lake/big.md", "content": strings.Repeat("x", 2<<20), "reason": "r"}, parley.CodeTooLarge, "content", "at most"},
		{"lake_link", in{"path": "lake/bo.md", "to": "lake/nobody", "reason": "r"}, parley.CodeNotFound, "to", "there is no entity"},
		{"lake_move", in{"path": "lake/bo.md", "to": "README.md", "reason": "r"}, parley.CodeConflict, "to", "already"},
	} {
		res := g.call(c.tool, c.in)
		if res.Error == nil || res.Error.Code != c.code || res.Error.Field != c.field || !strings.Contains(res.Output, c.want) {
			t.Errorf("%s %.200v: %.200s %+v, want %s, field %q and %q", c.tool, c.in, res.Output, res.Error, c.code, c.field, c.want)
		}
	}
}

var errCrash = errors.New("crash")

// TestCrash: a call whose server dies at any point is made once, and Reconcile knows whether it was.
func TestCrash(t *testing.T) {
	t.Parallel()
	calls := []struct {
		tool string
		in   in
	}{
		{"lake_create", in{"path": "lake/new.md", "content": "# New\n", "reason": "r"}},
		{"lake_update", in{"path": "docs/pricing.md", "old_string": "One", "new_string": "Two", "reason": "r"}},
		{"lake_move", in{"path": "docs/pricing.md", "to": "lake/prices.md", "reason": "r"}},
		{"lake_delete", in{"path": "lake/ana.md", "reason": "r"}},
		{"lake_link", in{"path": "lake/first.md", "to": "docs/pricing.md", "reason": "r"}},
	}
	for _, c := range calls {
		t.Run(c.tool, func(t *testing.T) {
			t.Parallel()
			base := newRig(t, "docs/pricing.md", pricing, "lake/ana.md", "# Ana\n\n[[pricing]]\n")
			base.ok("lake_create", in{"path": "lake/first.md", "content": "# First\n", "reason": "begin"})
			for at := 0; ; at++ {
				g := newRig(t)
				if err := os.CopyFS(g.dir, os.DirFS(base.dir)); err != nil {
					t.Fatal(err)
				}
				n, passed, crashed := 0, "", false
				g.open(func(point string) error {
					if n++; n > at {
						passed, crashed = point, true
						return errCrash
					}
					return nil
				})
				// What git does is the same for each; the one with the most files goes through all points.
				if c.tool != "lake_move" && at > 0 {
					g.open(func(point string) error {
						if point == []string{"", "noted", "index put", "advanced", ""}[at] {
							passed, crashed = point, true
							return errCrash
						}
						return nil
					})
				}
				r := g.run("the-call", c.tool, c.in)
				_, err := g.Run(t.Context(), r)
				if !crashed {
					if err != nil || at < 4 {
						t.Fatalf("after %d points: %v", at, err)
					}
					return
				}
				g.open(nil)
				res, known, err := g.Reconcile(t.Context(), g.run("the-call", c.tool, c.in))
				if err != nil || !known {
					t.Fatalf("at %s: known %v, %v", passed, known, err)
				}
				again, err := g.Run(t.Context(), g.run("the-call", c.tool, c.in))
				if err != nil || again.Error != nil {
					t.Fatalf("at %s: made again: %+v %v", passed, again, err)
				}
				if res.Error == nil && res.Output != again.Output {
					t.Errorf("at %s: Reconcile says %q, the call %q", passed, res.Output, again.Output)
				}
				l, err := g.lakes.In(t.Context(), g.dir)
				if err != nil {
					t.Fatal(err)
				}
				feed, err := l.Changes(t.Context(), "", lake.Page{})
				if err != nil || len(feed.Changes) != 3 {
					t.Errorf("at %s: %d commits, want 3: %v", passed, len(feed.Changes), err)
				}
			}
		})
	}
}

// TestVet: a path that no entity can have is refused before anybody is asked about the call.
func TestVet(t *testing.T) {
	t.Parallel()
	var set tools.Toolset
	for _, c := range []struct {
		tool, input string
		ok          bool
	}{
		{"lake_create", `{"path":"../../x"}`, false},
		{"lake_create", `{"path":"/etc/x.md"}`, false},
		{"lake_create", `{"path":"docs/x"}`, false},
		{"lake_create", `{"path":".git/x.md"}`, false},
		{"lake_create", `{"path":"docs/CLAUDE.md"}`, false},
		{"lake_create", `{"path":"docs/x.md"}`, true},
		{"lake_update", `{"path":"docs/x"}`, true},
		{"lake_update", `{"path":"../x"}`, false},
		{"lake_delete", `{"path":"AGENTS.md"}`, false},
		{"lake_move", `{"path":"a.md","to":"../a.md"}`, false},
		{"lake_move", `{"path":"a","to":"docs/a.md"}`, true},
		{"lake_move", `{"path":"a","to":"docs/a"}`, false},
		{"lake_link", `{"path":"a.md","to":"b"}`, true},
		{"lake_link", `{"path":"../a.md","to":"b"}`, false},
		{"lake_read", `{"path":"../x"}`, true},
	} {
		if err := set.Vet(c.tool, json.RawMessage(c.input)); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.tool, c.input, err)
		}
	}
}
