package scope

import (
	"os"
	"slices"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/toolbox"
)

// Resolved is what the turns of one scope run with. It does not change. Its tools can be
// called until Release.
type Resolved struct {
	scopes *Scopes
	app    *app
	made   *made
	kept   *kept // nil: it is the app's own, which stays open
	space  parley.Workspace
	owner  parley.Principal
	once   sync.Once
}

// App is the app with the tools that its agents have in this scope.
func (r *Resolved) App() *parley.App { return &r.made.app }

// Digest is that of Body.
func (r *Resolved) Digest() parley.Digest { return r.made.digest }

// Body is the app's JSON, without secrets.
func (r *Resolved) Body() []byte { return r.made.body }

// Tools are all tools of the scope, also those that no agent has.
func (r *Resolved) Tools() *toolbox.Box { return r.made.tools }

// ReadOnly reports whether the app's file says that nobody changes the workspace.
func (r *Resolved) ReadOnly() bool { return r.app.Folders.ReadOnly(r.space) }

// Workspace opens the workspace, which may be gone. The caller closes it.
func (r *Resolved) Workspace() (*os.Root, error) {
	if r.space == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "this session has no workspace").
			WithHint("a session gets its workspace when it is created")
	}
	return r.app.Folders.Open(r.owner, r.space)
}

// Current reports whether a Resolve now would return the same. It answers from memory at
// once.
func (r *Resolved) Current() bool {
	if r.kept == nil {
		return true
	}
	s := r.scopes
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && s.kept[r.kept.scope] == r.kept && r.kept.made == r.made && slices.Equal(r.made.changes, changesOf(r.kept.sets))
}

// Share returns the same for a second holder, who has to release it as well. It must not be
// called after Release.
func (r *Resolved) Share() *Resolved {
	other := &Resolved{scopes: r.scopes, app: r.app, made: r.made, kept: r.kept, space: r.space, owner: r.owner}
	if r.kept != nil {
		r.scopes.mu.Lock()
		defer r.scopes.mu.Unlock()
		r.kept.hold()
	}
	return other
}

// Release says that the caller needs r no longer. It never blocks, and a second call does
// nothing.
func (r *Resolved) Release() {
	r.once.Do(func() {
		if r.kept != nil {
			r.scopes.release(r.kept)
		}
	})
}
