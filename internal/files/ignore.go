package files

import (
	"io"
	"os"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxIgnore limits the bytes read of a file with rules.
const maxIgnore = 64 << 10

// ignore is a rule of a .gitignore or .ignore file, as git documents it
// (https://git-scm.com/docs/gitignore).
type ignore struct {
	dir     string // of the file with the rule; "" is the first folder
	pattern string // for doublestar, relative to dir
	negate  bool
	onlyDir bool
}

// readIgnore reads the rules in a folder.
func readIgnore(dir *os.Root, at string) (rules []*ignore) {
	for _, name := range []string{".gitignore", ".ignore"} { // the latter is used by ripgrep and others, and wins
		f, _, err := place{dir, name, name, false}.open()
		if err != nil {
			continue
		}
		body, _ := io.ReadAll(io.LimitReader(f, maxIgnore))
		_ = f.Close()
		for line := range strings.Lines(string(body)) {
			if r := parseIgnore(at, strings.TrimRight(line, "\r\n")); r != nil {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// parseIgnore is the rule of a line, or nil.
func parseIgnore(dir, line string) *ignore {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = strings.TrimSuffix(line, " ")
	}
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	r := &ignore{dir: dir}
	if rest, ok := strings.CutPrefix(line, "!"); ok {
		r.negate, line = true, rest
	}
	if rest, ok := strings.CutSuffix(line, "/"); ok {
		r.onlyDir, line = true, rest
	}
	if !strings.Contains(line, "/") {
		line = "**/" + line
	}
	line = strings.TrimPrefix(line, "/")
	// Braces mean nothing in these files; an "a/**" does not match a itself.
	line = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line)
	if rest, ok := strings.CutSuffix(line, "/**"); ok {
		line = rest + "/**/*"
	}
	if line == "" || !doublestar.ValidatePattern(line) {
		return nil
	}
	r.pattern = line
	return r
}

// ignored reports whether the last rule that matches a path ignores it.
func ignored(rules []*ignore, name string, dir bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		r := rules[i]
		if r.onlyDir && !dir {
			continue
		}
		rel := name
		if r.dir != "" {
			var below bool
			if rel, below = strings.CutPrefix(name, r.dir+"/"); !below {
				continue
			}
		}
		if doublestar.MatchUnvalidated(r.pattern, rel) {
			return !r.negate
		}
	}
	return false
}
