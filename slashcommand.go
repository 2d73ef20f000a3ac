package parley

import "strings"

// SlashCommand is a prompt with a name. The message "/name arguments" is replaced by it for the model.
type SlashCommand struct {
	Name         string `json:"name"`
	Description  string `json:"description,omitempty"`
	ArgumentHint string `json:"argument_hint,omitempty"` // describes to people what may follow the name
	From         string `json:"from"`                    // platform, app, user, workspace, or the name of an MCP server
}

// Slash splits a slash command into its name and arguments. ok is false if the message does not
// have that form.
func Slash(message string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(message, "/")
	if !ok {
		return "", "", false
	}
	name, args = rest, ""
	if i := strings.IndexAny(rest, " \t\n"); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i+1:])
	}
	return name, args, name != "" && len(name) <= 128 && !strings.ContainsAny(name, "/\\")
}
