package librarian

import (
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// runAsked is a request for one command, in quotes. Without quotes, "run" may be about anything.
var runAsked = pattern.New("(?is)^(?:run|execute)\\s+(?:(?:the|this)\\s+)?(?:(?:shell\\s+)?command\\b|in (?:bash|the shell)\\b)?\\s*:?\\s*(?:`([^`]+)`|\"([^\"]+)\"|'([^']+)')$")

const (
	bash     = "Bash"
	maxShown = 4 << 10 // bytes of what a command wrote
)

// command runs a command that the request has in quotes or backticks. Whether it may be run is the tool's approval's to decide.
func (u *turn) command(q string) (say string, mine, ok bool) {
	m := runAsked.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	command := strings.TrimSpace(m[1] + m[2] + m[3])
	if command == "" {
		return "", false, true
	}
	u.note = "I run it."
	r, ok := u.one(bash, map[string]any{"command": command})
	if !ok {
		return "", true, false
	}
	wrote := strings.TrimRight(strings.TrimLeft(r.Output, "\n"), " \n")
	switch {
	case r.Failed && declined(firstLine(wrote)):
		return "You said no, so it was not run. (" + firstLine(wrote) + ")", true, true
	case r.Failed:
		return "The command failed:\n\n" + fenced(wrote), true, true
	case wrote == "":
		return "The command ran, and wrote nothing.", true, true
	}
	return "It writes:\n\n" + fenced(wrote), true, true
}

// fenced is text as it is, in a fence that it cannot close.
func fenced(text string) string {
	rest := ""
	if len(text) > maxShown {
		text, rest = strings.ToValidUTF8(text[:maxShown], ""), "\n\nThat is the beginning: the call has the rest."
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence + rest
}
