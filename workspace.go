package parley

import "strings"

// Workspace names the folder of files that a session works in. "vault" is one of the
// session's user. "shared/handbook" is one that the app's file shares with all its users.
// Empty: the session has none. Another user's workspace has no name here, so it cannot be
// reached.
type Workspace string

// Shared returns the name of a workspace that an app shares. For a user's own, ok is
// false.
func (w Workspace) Shared() (name string, ok bool) {
	return strings.CutPrefix(string(w), "shared/")
}
