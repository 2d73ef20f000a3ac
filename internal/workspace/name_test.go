package workspace_test

import (
	"encoding/hex"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/workspace"
)

func TestUserFolder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ user, org, want string }{
		{"local", "", "local"},
		{"ana@example.com", "", "ana@example.com"},
		{"ana", "acme", "ana=acme"},
		{"Ana", "", "!ana"},
		{"a/b", "", "a%2fb"},
		{"..", "", "%2e%2e"},
		{".", "", "%2e"},
		{".mcp.json", "", "%2emcp.json"},
		{"ana.", "", "ana%2e"},
		{"-rf", "", "%2drf"},
		{"ana=acme", "", "ana%3dacme"},
		{"ana", "", "ana"},
		{"", "acme", "%=acme"},
		{"con", "", "%63on"},
		{"Con", "", "!con"},
		{"com1.txt", "", "%63om1.txt"},
		{"CON.txt", "", "!c!o!n.txt"},
		{"progra~1", "", "progra%7e1"},
		{"é", "", "%c3%a9"},
		{"e\u0301", "", "e%cc%81"}, // the same to the eye
		{"a\x00b", "", "a%00b"},
	} {
		if got := workspace.UserFolder(parley.Principal{User: tc.user, Org: tc.org}); got != tc.want {
			t.Errorf("the folder of %q of %q is %q, want %q", tc.user, tc.org, got, tc.want)
		}
	}
}

// checkFolder says what is unsafe in the folder's name of p, and that p can be told from it.
func checkFolder(t *testing.T, p parley.Principal) string {
	t.Helper()
	name := workspace.UserFolder(p)
	switch {
	case name == "" || len(name) > 120:
		t.Fatalf("%+v: the name has %d bytes: %q", p, len(name), name)
	case !filepath.IsLocal(name) || filepath.Base(name) != name || strings.ContainsAny(name, `/\:*?"<>|~ `):
		t.Fatalf("%+v: %q is not one element of a path", p, name)
	case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") || strings.HasSuffix(name, "."):
		t.Fatalf("%+v: %q", p, name)
	case name != strings.ToLower(name):
		t.Fatalf("%+v: %q depends on its case", p, name)
	}
	for _, c := range name {
		if c <= ' ' || c > '~' {
			t.Fatalf("%+v: %q has a character that file systems may change", p, name)
		}
	}
	if strings.Contains(name, "==") {
		return name // its digest stands for it
	}
	user, org, _ := strings.Cut(name, "=")
	if got := (parley.Principal{User: unescaped(t, user), Org: unescaped(t, org)}); got != p {
		t.Fatalf("%q is the folder of %+v, not only of %+v", name, got, p)
	}
	return name
}

// unescaped takes back what UserFolder did to a part.
func unescaped(t *testing.T, part string) string {
	t.Helper()
	if part == "%" {
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '!':
			i++
			b.WriteString(strings.ToUpper(part[i : i+1]))
		case '%':
			raw, err := hex.DecodeString(part[i+1 : i+3])
			if err != nil {
				t.Fatalf("%q: %v", part, err)
			}
			b.Write(raw)
			i += 2
		default:
			b.WriteByte(part[i])
		}
	}
	return b.String()
}

// TestUserFolders: of many similar users, none has another's folder, in any case of letters. They
// have a folder each on disk, too.
func TestUserFolders(t *testing.T) {
	t.Parallel()
	const alphabet = "aAbB./\\=%!~-_ \x00é\u0301ßİ:con1"
	letters := []rune(alphabet)
	random := rand.New(rand.NewPCG(1, 2))
	id := func(most int) string {
		var b strings.Builder
		for range random.IntN(most) {
			b.WriteRune(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	seen := map[string]parley.Principal{}
	try := func(p parley.Principal) {
		name := strings.ToLower(checkFolder(t, p))
		if other, ok := seen[name]; ok && other != p {
			t.Fatalf("%+v and %+v have the folder %q", p, other, name)
		}
		seen[name] = p
	}
	for range 100_000 {
		try(parley.Principal{User: id(5), Org: id(3)})
	}
	for n := range 300 { // around the limit, and with the same beginning
		long := strings.Repeat("a", n)
		try(parley.Principal{User: long})
		try(parley.Principal{User: long, Org: "x"})
		try(parley.Principal{User: long + "/"})
		try(parley.Principal{User: strings.Repeat("Ä", n)})
	}
}

func FuzzUserFolder(f *testing.F) {
	f.Add("ana", "acme")
	f.Add("../..", "CON")
	f.Add(strings.Repeat("é/", 80), "")
	f.Fuzz(func(t *testing.T, user, org string) {
		checkFolder(t, parley.Principal{User: user, Org: org})
	})
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, fine := range map[string]bool{
		"vault": true, "Second Brain": true, "2026.11_notes-x": true, "a": true, strings.Repeat("a", 64): true,
		"": false, ".": false, "..": false, ".git": false, "a/b": false, `a\b`: false, "a.": false, "a ": false, " a": false, "-a": false,
		"con": false, "NUL.txt": false, "é": false, "a\x00": false, "a\nb": false, "a:b": false, strings.Repeat("a", 65): false, "shared/x": false,
	} {
		if err := workspace.CheckName(name); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}
