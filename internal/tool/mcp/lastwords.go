//go:build unix

package mcp

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

const (
	maxLastLines = 12       // of a program's last output, in an error
	maxLastWords = maxShown // bytes of them
)

// boilerplate matches lines that do not tell why a program ended.
var boilerplate = []*pattern.Regexp{
	// npm's advertising, its warnings about other packages, and the place of its own log.
	pattern.New(`^npm notice\b`),
	pattern.New(`(?i)^npm warn (exec|deprecated)\b`),
	pattern.New(`(?i)^npm err(or|!)( \w+)? +(a complete log of this run\b.*|/\S*-debug-\d+\.log|note that you can also install from a|tarball, folder, http url, or git folder\.?)$`),
	pattern.New(`(?i)^npm (err(or|!)|warn)( [45]\d\d)?$`),
	// The stack below an error of a JavaScript program, and the version of Node.
	pattern.New(`^at .*(:\d+:\d+|<anonymous>|native)\)?$`),
	pattern.New(`^Node\.js v\d\S*$`),
}

// lastWords returns the lines at the end of a program's standard error that may tell why it ended.
// The secrets must have been removed from text before.
func lastWords(text string) string {
	var lines []string
	size := 0
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		line = strings.TrimSpace(line)
		if line == "" || slices.ContainsFunc(boilerplate, func(r *pattern.Regexp) bool { return r.MatchString(line) }) {
			continue
		}
		if size += len(line); size > maxLastWords && len(lines) > 0 || len(lines) == maxLastLines {
			break
		}
		size++ // the line's end
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}
