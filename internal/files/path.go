package files

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

const (
	maxPath  = 1024 // bytes of a path
	maxDepth = 64   // elements of a path
)

// Clean returns a path inside a folder in its canonical form: relative, with slashes, without "."
// and "..". "" and "/." are the folder itself, ".". Any other path is an error that says what is
// wrong with it.
func Clean(name string) (string, error) {
	wrong := func(format string, args ...any) (string, error) {
		return "", parley.Errorf(parley.CodeInvalid, "the path %q %s", parley.Cut(name, 200), fmt.Sprintf(format, args...)).
			WithHint("write it relative to the workspace, such as notes/today.md")
	}
	switch {
	case !utf8.ValidString(name):
		return wrong("is not valid UTF-8")
	case len(name) > maxPath:
		return wrong("has %d bytes; the limit is %d", len(name), maxPath)
	case strings.ContainsFunc(name, unicode.IsControl):
		return wrong("has a control character")
	case strings.Contains(name, `\`):
		return wrong(`has a backslash`)
	case path.IsAbs(name) || filepath.IsAbs(name):
		return wrong("is absolute")
	}
	clean := path.Clean(name)
	if clean == "." {
		return clean, nil
	}
	if clean == ".." || strings.HasPrefix(clean, "../") || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return wrong("leads out of the workspace")
	}
	elems := strings.Split(clean, "/")
	if len(elems) > maxDepth {
		return wrong("has %d elements; the limit is %d", len(elems), maxDepth)
	}
	for _, e := range elems {
		switch {
		case len(e) > 255:
			return wrong("has a name of %d bytes; the limit is 255", len(e))
		case IsGit(e):
			return "", parley.Errorf(parley.CodeForbidden, "%s is git's own; it is neither read nor changed", quoted(clean))
		case strings.HasPrefix(e, temporary):
			return wrong("is the name of a temporary file")
		}
	}
	return clean, nil
}

// Within returns a path below an absolute folder as a path relative to it, which the caller gives
// to [Clean]. Any other path is returned as it is. Only the text decides: a path is inside if it
// begins with dir, letter by letter. If its ".." lead out again, so do those of the relative path.
func Within(dir, name string) string {
	dir = filepath.ToSlash(dir)
	if len(dir) < 2 || !path.IsAbs(dir) {
		return name
	}
	rest, below := strings.CutPrefix(name, strings.TrimSuffix(dir, "/"))
	switch {
	case !below || rest != "" && rest[0] != '/':
		return name
	case strings.Trim(rest, "/") == "":
		return "."
	}
	return strings.TrimLeft(rest, "/")
}

// IsGit reports whether a name is that of git's own folder, or could reach it on some file system.
// The forms are those that git itself refuses (verify_dotfile, is_hfs_dotgit and is_ntfs_dotgit in
// its path.c and utf8.c).
func IsGit(elem string) bool {
	return same(elem, ".git") || strings.EqualFold(fold(elem), "git~1")
}

// Guarded reports whether a file at a clean path may change what agents are told or what runs:
// instructions and settings of agents, or the file of an MCP server.
func Guarded(clean string) bool {
	for elem := range strings.SplitSeq(clean, "/") {
		for _, name := range []string{".mcp.json", ".claude", ".agents", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"} {
			if same(elem, name) {
				return true
			}
		}
	}
	return false
}

// same reports whether some file system treats two names as one.
func same(elem, name string) bool { return strings.EqualFold(fold(elem), name) }

// fold removes from a name what some file systems ignore: HFS+ characters without width, NTFS dots
// and spaces at the end, and what follows a colon.
func fold(elem string) string {
	elem = strings.Map(func(r rune) rune {
		switch {
		case 0x200c <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x206a <= r && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, elem)
	elem, _, _ = strings.Cut(elem, ":")
	return strings.TrimRight(elem, ". ")
}

// sizeText is a size for people.
func sizeText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d MB", n>>20)
}
