package wiki_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/wiki"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want []string // line, kind, target, heading, text, and what is written there
	}{
		{"[[Ana]]", []string{`1 wiki "Ana" "" "" Ana`}},
		{"a [[people/Ana#Work|she]] b", []string{`1 wiki "people/Ana" "Work" "she" people/Ana`}},
		{"![[picture.png]]\n\n[[ Ana ]]", []string{`1 wiki "picture.png" "" "" picture.png`, `3 wiki "Ana" "" ""  Ana `}},
		{"[[#Here]] [[]] [[|x]] [[a", []string{`1 wiki "" "Here" "" `}},
		{"| a | b |\n|---|---|\n| [[x\\|y]] | z |\n", []string{`3 wiki "x" "" "y" x`}},
		{"[text](a%20b.md#top \"title\")", []string{`1 markdown "a b.md" "top" "text" a%20b.md#top`}},
		{"[text](<a b.md>) ![p](../p.png) [u](a\\(b.md)", []string{`1 markdown "a b.md" "" "text" a b.md`, `1 markdown "../p.png" "" "p" ../p.png`, `1 markdown "a(b.md" "" "u" a\(b.md`}},
		{"see [it][1] and [1]\n\n[1]: a.md 'title'\n", []string{`3 markdown "a.md" "" "1" a.md`}},
		{"> - one\n>   [two\n>   three](b.md)\n", []string{`2 markdown "b.md" "" "two three" b.md`}},
		{"[**bold [[Ana]]**](b.md)", []string{`1 markdown "b.md" "" "bold Ana" b.md`, `1 wiki "Ana" "" "" Ana`}},
		// None of these is a link to a file.
		{"`[[Ana]]` and ``[a](b.md)``\n\n    [[Ana]]\n\n```\n[[Ana]]\n```\n\n<!-- [[Ana]] -->\n\n\\[[Ana]] \\[a](b.md)", nil},
		{"<div>\n[[Ana]]\n</div>\n", nil},
		{"[a](https://example.com/b.md) [b](mailto:a@b.c) [c](//x/y) <https://example.com> [d](#here)", []string{`1 markdown "" "here" "d" #here`}},
	} {
		var got []string
		for _, l := range wiki.Parse([]byte(c.body), 1, 0).Links {
			kind := "markdown"
			if l.Wiki {
				kind = "wiki"
			}
			got = append(got, fmt.Sprintf("%d %s %q %q %q %s", l.Line, kind, l.To, l.Heading, l.Text, c.body[l.Start:l.End]))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: %s", c.body, diff)
		}
	}
	n := wiki.Parse([]byte("Title\n===\n\n## Two `x`\n"), 1, 0)
	if n.Title != "Title" || strings.Join(n.Headings, "|") != "Title|Two x" {
		t.Errorf("got %+v", n)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	files := []string{"Ana.md", "docs/ana.md", "docs/old/ANA.md", "lake/Zoe\u0308.md", "lake/my note.md", "pictures/ana.png"}
	alike := func(to string) (list []string) {
		for _, f := range files {
			if wiki.Key(f) == wiki.Key(to) {
				list = append(list, f)
			}
		}
		return list
	}
	for _, c := range []struct {
		from, to string
		wiki     bool
		want     string
	}{
		{"README.md", "ana", true, "Ana.md"},
		{"docs/a.md", "Ana", true, "docs/ana.md"},
		{"docs/a.md", "/Ana", true, "Ana.md"},
		{"docs/old/x/a.md", "Ana", true, "Ana.md"},
		{"README.md", "old/ana", true, "docs/old/ANA.md"},
		{"README.md", "docs/ana.md", true, "docs/ana.md"},
		{"README.md", "zo\u00eb", true, "lake/Zoe\u0308.md"},
		{"README.md", "ana.png", true, "pictures/ana.png"},
		{"README.md", "bo", true, ""},
		{"docs/a.md", "ana.md", false, "docs/ana.md"},
		{"docs/a.md", "../Ana.md", false, "Ana.md"},
		{"docs/a.md", "/Ana.md", false, "Ana.md"},
		{"docs/a.md", "../../Ana.md", false, ""},
		{"docs/a.md", "../lake/my note", false, "lake/my note.md"},
		{"docs/a.md", "../lake/zo\u00eb.md", false, "lake/Zoe\u0308.md"},
		{"docs/a.md", "nothing.md", false, ""},
		{"docs/a.md", "", false, "docs/a.md"},
	} {
		if got := wiki.Resolve(c.from, wiki.Link{Wiki: c.wiki, To: c.to}, alike(c.to)); got != c.want {
			t.Errorf("%s in %s (wiki %v): got %q, want %q", c.to, c.from, c.wiki, got, c.want)
		}
	}
}

// FuzzParse: no note makes the parser fail, and what it says of a link is there.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"[[a|b]]", "[a](b)", "[a]: b\n[a]", "> - [x](<y>)\n", "\t[[a]]", "| [[a\\|b]] |\n|-|\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		lines := strings.Count(body, "\n") + 1
		end := 0
		for _, l := range wiki.Parse([]byte(body), 1, 0).Links {
			if l.Line < 1 || l.Line > lines || l.Start < 0 || l.End < l.Start || l.End > len(body) || l.To == "" && l.Heading == "" && l.Wiki {
				t.Fatalf("%q: %+v", body, l)
			}
			end = max(end, l.End)
		}
	})
}
