package lake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/lake"
)

func TestFront(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a:\n ", 1) + strings.Repeat("[", 20) + strings.Repeat("]", 20)
	for _, c := range []struct {
		name, body string
		want       lake.Entity // without path, version and size
		faults     []string    // line and rule
	}{
		{"none", "# Hello\n", lake.Entity{Kind: "note", Title: "Hello"}, nil},
		{"no heading", "hello\n", lake.Entity{Kind: "note", Title: "x"}, nil},
		{"empty", "", lake.Entity{Kind: "note", Title: "x"}, nil},
		{"empty front matter", "---\n---\nhello", lake.Entity{Kind: "note", Title: "x"}, nil},
		{
			"all", "---\ntitle: T\nkind: person\ntags: [b, '#a', b]\nowner: ana\nstatus: draft\ncreated: 2026-01-02\nupdated: 2026-01-02T10:00:00+01:00\nnumber: 3\n---\n# Other\n",
			lake.Entity{
				Kind: "person", Title: "T", Tags: []string{"a", "b"}, Owner: "ana", Status: "draft", Created: "2026-01-02", Updated: "2026-01-02T09:00:00Z",
				Front: map[string]any{"title": "T", "kind": "person", "tags": []any{"b", "#a", "b"}, "owner": "ana", "status": "draft", "created": "2026-01-02", "updated": "2026-01-02T10:00:00+01:00", "number": int64(3)},
			},
			nil,
		},
		{"a byte order mark and CRLF", "\ufeff---\r\ntitle: T\r\ntags: a, b\r\n---\r\nhello\r\n", lake.Entity{Kind: "note", Title: "T", Tags: []string{"a", "b"}, Front: map[string]any{"title": "T", "tags": "a, b"}}, nil},
		{"a rule is no front matter", "hello\n---\ntitle: T\n---\n", lake.Entity{Kind: "note", Title: "x"}, nil},
		{"no end", "---\ntitle: T\n", lake.Entity{Kind: "note", Title: "x"}, []string{"1 front-matter"}},
		{"not YAML", "---\ntitle: T\na: [\n---\n", lake.Entity{Kind: "note", Title: "x"}, []string{"4 front-matter"}},
		{"a list", "---\n- a\n---\n", lake.Entity{Kind: "note", Title: "x"}, []string{"2 front-matter"}},
		{"a bomb", "---\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\n", lake.Entity{Kind: "note", Title: "x"}, []string{"3 front-matter"}},
		{"deep", "---\n" + deep + "\n---\n", lake.Entity{Kind: "note", Title: "x"}, []string{"3 front-matter"}},
		{"many", "---\na: [" + strings.Repeat("1,", 3000) + "1]\n---\n", lake.Entity{Kind: "note", Title: "x"}, []string{"2 front-matter"}},
		{"large", "---\na: " + strings.Repeat("x", 70<<10) + "\n---\n", lake.Entity{Kind: "note", Title: "x"}, []string{"1 front-matter"}},
		{"a bad date", "---\nstatus: s\ncreated: yesterday\n---\n", lake.Entity{Kind: "note", Title: "x", Status: "s", Front: map[string]any{"status": "s", "created": "yesterday"}}, []string{"3 date"}},
		{"bad values", "---\nowner: [a]\ntags: {a: b}\n---\n", lake.Entity{Kind: "note", Title: "x", Front: map[string]any{"owner": []any{"a"}, "tags": map[string]any{"a": "b"}}}, []string{"2 front-matter", "3 front-matter"}},
		{"not text", "a\x00b", lake.Entity{Kind: "note", Title: "x"}, []string{"1 not-text"}},
		{"not a number for JSON", "---\na: .nan\nb: .inf\n---\n", lake.Entity{Kind: "note", Title: "x", Front: map[string]any{"a": ".nan", "b": ".inf"}}, nil},
	} {
		got := lake.Parse("lake/x.md", []byte(c.body))
		var faults []string
		for _, f := range got.Faults {
			faults = append(faults, fmt.Sprint(f.Line, " ", f.Rule))
		}
		got.Path, got.Version, got.Size, got.Faults = "", "", 0, nil
		if c.want.Tags == nil {
			c.want.Tags = []string{}
		}
		if diff := cmp.Diff(c.want, got) + cmp.Diff(c.faults, faults); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
