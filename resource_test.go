package parley_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// TestMentions: only what can be a resource is a mention. All else stays what the message says.
func TestMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                         "",
		"@docs:file:///a.md":                       "docs file:///a.md",
		"Compare @docs:file:///a.md, please.":      "docs file:///a.md",
		"(see @docs:file:///a.md)":                 "docs file:///a.md",
		"\"@docs:file:///a.md\"?!":                 "docs file:///a.md",
		"@wiki:https://x.org/A_(b).":               "wiki https://x.org/A_(b)",
		"@a:x:1 @b:x:2\n@a:x:1":                    "a x:1|b x:2",
		"@docs:issue://1/comments?page=2#end":      "docs issue://1/comments?page=2#end",
		"see @docs-w1a2b3:db://t/ü":                "docs-w1a2b3 db://t/ü",
		"ana@docs:file:///a.md":                    "",
		"write to ana@example.com: now":            "",
		"@ana hello":                               "",
		"@ana: hello":                              "",
		"@ana:hello":                               "", // no scheme
		"@docs:":                                   "",
		"@docs:file:":                              "",
		"@docs:1:2":                                "",
		"@1docs:x:y":                               "",
		"@" + strings.Repeat("x", 33) + ":x:y":     "",
		"@docs:x:" + strings.Repeat("y", 2047):     "",
		"@@docs:x:y":                               "",
		"git@github.com:parley-server/parley.git":  "",
		"@docs:x:y@docs:z:w":                       "docs x:y@docs:z:w",
		"@docs:x:y\u2028@docs:z:w":                 "docs x:y", // no white space that anybody sees
		"npm i @scope/name:latest and @types/node": "",
	} {
		var got []string
		for _, r := range parley.Mentions(text) {
			got = append(got, r.Server+" "+r.URI)
		}
		if diff := cmp.Diff(want, strings.Join(got, "|")); diff != "" {
			t.Errorf("%q: %s", parley.Cut(text, 60), diff)
		}
	}
}

func FuzzMentions(f *testing.F) {
	f.Add("see @docs:file:///a.md, and (@b:x:y).")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range parley.Mentions(text) {
			if err := r.Check(); err != nil && strings.ToValidUTF8(r.URI, "") == r.URI {
				t.Errorf("%q of %q: %v", r, text, err)
			}
			if !strings.Contains(text, r.String()) {
				t.Errorf("%q is not in %q", r, text)
			}
		}
	})
}

// TestResourceRef: what names no resource is refused, and the error says where.
func TestResourceRef(t *testing.T) {
	t.Parallel()
	for field, r := range map[string]parley.ResourceRef{
		"server":  {URI: "x:y"},
		"server ": {Server: "a b", URI: "x:y"},
		"uri":     {Server: "docs"},
		"uri ":    {Server: "docs", URI: "x:" + strings.Repeat("y", parley.MaxURI)},
		"uri  ":   {Server: "docs", URI: "x:\ny"},
		"uri   ":  {Server: "docs", URI: "x:\xff"},
		"title":   {Server: "docs", URI: "x:y", Title: strings.Repeat("ü", parley.MaxTitle+1)},
		"title ":  {Server: "docs", URI: "x:y", Title: "Garden\nplan"},
		"title  ": {Server: "docs", URI: "x:y", Title: "\xff"},
	} {
		if err := r.Check(); err == nil || err.Field != strings.TrimSpace(field) {
			t.Errorf("%q: %v", r, err)
		}
	}
	if err := (parley.ResourceRef{Server: "docs", URI: "a file"}).Check(); err != nil {
		t.Error(err)
	}
}

// TestSaid: later turns have the beginning of a resource, and know that it is one.
func TestSaid(t *testing.T) {
	t.Parallel()
	m := parley.Text(parley.RoleUser, "hi")
	m.Parts = append(m.Parts,
		parley.Part{Type: parley.PartCommand, Name: "x", Text: "y"},
		parley.Part{Type: parley.PartResource, Server: "docs", URI: "x:1", Text: "short"},
		parley.Part{Type: parley.PartResource, Server: "docs", URI: "x:2", Text: strings.Repeat("ü", 5000)},
		parley.Part{Type: parley.PartImage, Server: "docs", URI: "x:2", Artifact: "A"})
	said := m.Said()
	if len(said.Parts) != 4 || said.Parts[1].Cut || !said.Parts[2].Cut || len(said.Parts[2].Text) != 4096 || len(m.Parts[3].Text) != 10000 {
		t.Errorf("got %+v", said)
	}
	if diff := cmp.Diff([]parley.ResourceRef{{Server: "docs", URI: "x:1"}, {Server: "docs", URI: "x:2"}}, said.Resources()); diff != "" {
		t.Error(diff)
	}
}
