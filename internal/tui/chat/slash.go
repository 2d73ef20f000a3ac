package chat

import (
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
)

// howToSay says how a text is sent that only looks like a command.
const howToSay = "A space before / sends the line as text; //NAME is the server's command where both have one."

// worded is the message that a person wrote. words is true if it is none of our commands, and not to
// be a misspelt one: it begins with a space before its slash, which stays, so that the server takes it
// for words as well; or with two slashes, of which one goes.
func worded(raw string) (text string, words bool) {
	text = strings.TrimSpace(raw)
	switch {
	case !strings.HasPrefix(text, "/"):
		return text, true
	case !strings.HasPrefix(raw, "/"):
		return " " + text, true
	case strings.HasPrefix(text, "//"):
		if _, _, ok := parley.Slash(text[1:]); ok {
			text = text[1:]
		}
		return text, true
	}
	return text, false
}

// commands reports whether a line is to be a command: /etc/hosts is none.
func commands(line string) bool {
	_, _, ok := parley.Slash(line)
	return ok || strings.HasPrefix(line, "//")
}

func hasCommand(all []parley.SlashCommand, name string) bool {
	return slices.ContainsFunc(all, func(c parley.SlashCommand) bool { return c.Name == name })
}

func localNames() (out []string) {
	for _, c := range locals() {
		out = append(out, c.name)
	}
	return out
}

func plainNames() (out []string) {
	for _, c := range plainHelp {
		name, _, _ := parley.Slash(c[0])
		out = append(out, name)
	}
	return out
}

// elsewhere are names that other programs have for what ours do.
var elsewhere = map[string]string{
	"cancel": "stop", "interrupt": "stop", "abort": "stop", "clear": "new", "reset": "new", "continue": "resume", "cost": "usage", "stats": "usage",
	"history": "sessions", "list": "sessions", "branch": "fork", "permissions": "rules", "allowed-tools": "rules", "checkpoint": "rewind", "upload": "attach",
	"file": "attach", "find": "search", "rename": "title", "close": "end", "commands": "help", "keys": "help", "q": "quit", "bye": "quit", "engine": "runtime",
}

// unknownCommand returns an error for a command that nobody has, with the nearest names; nil: the
// server has it.
func unknownCommand(name string, ours []string, theirs []parley.SlashCommand) error {
	if hasCommand(theirs, name) {
		return nil
	}
	type near struct {
		name string
		far  int
	}
	var list []near
	typed := strings.ToLower(name)
	add := func(known string) {
		low, far := strings.ToLower(known), 0
		switch d := nearest.Within(typed, low, 2); {
		case d <= 2 && d < len(typed):
			far = d
		case len(typed) > 1 && (strings.HasPrefix(low, typed) || strings.HasPrefix(typed, low)):
			far = 3
		case len(typed) > 2 && strings.Contains(low, typed):
			far = 4
		case elsewhere[typed] == known:
		default:
			return
		}
		if !slices.ContainsFunc(list, func(n near) bool { return n.name == known }) {
			list = append(list, near{known, far})
		}
	}
	for _, n := range ours {
		add(n)
	}
	for _, c := range theirs {
		add(oneLine(c.Name))
	}
	slices.SortStableFunc(list, func(a, b near) int { return a.far - b.far })
	hint := "/help lists the commands"
	if len(list) > 0 {
		var names []string
		for _, n := range list[:min(len(list), 3)] {
			names = append(names, "/"+n.name)
		}
		hint = "did you mean " + strings.Join(names, " or ") + "? /help lists all"
	}
	return parley.Errorf(parley.CodeNotFound, "there is no command /%s", parley.Cut(oneLine(name), 40)).WithHint("%s; a space before / sends it as text", hint)
}
