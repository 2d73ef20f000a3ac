package scope

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
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

// Workspace is the workspace of one call, not opened yet.
func (r *Resolved) Workspace() *Workspace { return &Workspace{of: r} }

// Space is the name of the workspace, or "".
func (r *Resolved) Space() parley.Workspace { return r.space }

// Folders are where the app's workspaces are; nil: it has none.
func (r *Resolved) Folders() *workspace.Folders { return r.app.Folders }

// sandboxed is where commands in a sandbox find the workspace, as package confine says.
const sandboxed = "/workspace"

// Placed returns the input of a call with its path relative to the workspace, if it has an absolute
// one below the workspace's folder, as models write it, or below the place where commands find it. Any other input is returned as it is. Rules
// and tools both get the input in this form, so they cannot take a path for different files.
func (r *Resolved) Placed(d parley.ToolDecl, input json.RawMessage) json.RawMessage {
	if d.Path == "" || r.space == "" {
		return input
	}
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal(input, &fields) != nil || json.Unmarshal(fields[d.Path], &name) != nil || !path.IsAbs(name) {
		return input
	}
	dir, err := r.app.Folders.Dir(r.owner, r.space)
	if err != nil {
		return input // it is gone; the call will say so
	}
	rel := files.Within(dir, name)
	if rel == name {
		rel = files.Within(sandboxed, name)
	}
	if rel == name {
		return input
	}
	if fields[d.Path], err = json.Marshal(rel); err != nil {
		return input
	}
	placed, err := json.Marshal(fields)
	if err != nil {
		return input
	}
	return placed
}

// Workspace is a workspace for the time of one call. It is safe for concurrent use.
type Workspace struct {
	of     *Resolved
	mu     sync.Mutex
	root   *os.Root
	closed bool
}

// Open opens the workspace the first time, and returns the same root from then on. It may
// be gone: it is looked up again for each call, so that what is written is in the folder
// that is there now.
func (w *Workspace) Open() (*os.Root, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.of.space == "":
		return nil, parley.Errorf(parley.CodeInvalid, "this session has no workspace").
			WithHint("a session gets its workspace when it is created")
	case w.closed:
		return nil, parley.Errorf(parley.CodeConflict, "the call is over")
	case w.root != nil:
		return w.root, nil
	}
	var err error
	w.root, err = w.of.app.Folders.Open(w.of.owner, w.of.space)
	return w.root, err
}

// Close closes what was opened. A call that was left behind can do nothing more with it.
func (w *Workspace) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.root != nil {
		_ = w.root.Close() // files that are open in it stay open
	}
}

// Current reports whether a Resolve now would return the same. It answers from memory at
// once.
func (r *Resolved) Current() bool {
	s := r.scopes
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.app.replaced {
		return false
	}
	return r.kept == nil || !s.closed && s.kept[r.kept.scope] == r.kept && r.kept.made == r.made && slices.Equal(r.made.changes, changesOf(r.kept.sets))
}

// Stale reports whether it is time for a Resolve that looks for changes. It does not block: it
// answers from memory.
func (r *Resolved) Stale() bool {
	if r.kept == nil {
		return false
	}
	r.scopes.mu.Lock()
	defer r.scopes.mu.Unlock()
	return stale(r.kept.sets)
}

// Commands lists the scope's slash commands, sorted by name. If two toolsets have a command of
// the same name, the first toolset's is used.
func (r *Resolved) Commands() []parley.SlashCommand {
	var list []parley.SlashCommand
	for _, c := range toolbox.Sets[seam.Commander](r.made.tools) {
		for _, cmd := range c.Commands() {
			if !slices.ContainsFunc(list, func(have parley.SlashCommand) bool { return have.Name == cmd.Name }) {
				list = append(list, cmd)
			}
		}
	}
	slices.SortFunc(list, func(a, b parley.SlashCommand) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// HasCommand reports whether there is a slash command with the given name.
func (r *Resolved) HasCommand(name string) bool {
	return slices.ContainsFunc(r.Commands(), func(c parley.SlashCommand) bool { return c.Name == name })
}

// Expand returns the prompt that a slash command stands for. It returns CodeNotFound for an
// unknown command; other errors are for the user.
func (r *Resolved) Expand(ctx context.Context, name, args string) (string, error) {
	for _, c := range toolbox.Sets[seam.Commander](r.made.tools) {
		if slices.ContainsFunc(c.Commands(), func(have parley.SlashCommand) bool { return have.Name == name }) {
			return c.Expand(ctx, name, args)
		}
	}
	return "", parley.Errorf(parley.CodeNotFound, "there is no command /%s", parley.Cut(name, 80))
}

// ResourceServers lists the servers of the scope that may have resources, by name. Of two of
// one name, that of the first toolset counts.
func (r *Resolved) ResourceServers() []seam.ResourceServer {
	byName := map[string]seam.ResourceServer{}
	for _, k := range toolbox.Sets[seam.ResourceKeeper](r.made.tools) {
		for _, s := range k.ResourceServers() {
			if name, _ := s.ServerName(); byName[name] == nil {
				byName[name] = s
			}
		}
	}
	var list []seam.ResourceServer
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[name])
	}
	return list
}

// ResourceServer is the server of that name, or else the one whose short name it is.
func (r *Resolved) ResourceServer(name string) (seam.ResourceServer, bool) {
	var found seam.ResourceServer
	for _, s := range r.ResourceServers() {
		switch full, short := s.ServerName(); name {
		case full:
			return s, true
		case short:
			found = s
		}
	}
	return found, found != nil
}

// Hooks lists the hooks of the scope, those of the farthest level first.
func (r *Resolved) Hooks() (list []hook.Hook) {
	for _, s := range toolbox.Sets[hook.Source](r.made.tools) {
		list = append(list, s.Hooks()...)
	}
	return list
}

// Approvals lists what may run in the scope only after a person has approved it.
func (r *Resolved) Approvals(ctx context.Context) []parley.Approval {
	list := []parley.Approval{}
	for _, a := range toolbox.Sets[seam.Applicant](r.made.tools) {
		list = append(list, a.Approvals(ctx)...)
	}
	return list
}

// Approve stores a person's decision about one of them. It returns CodeNotFound if none has the
// digest.
func (r *Resolved) Approve(ctx context.Context, d parley.Digest, c parley.DecideApproval) (parley.Approval, error) {
	for _, a := range toolbox.Sets[seam.Applicant](r.made.tools) {
		done, err := a.Approve(ctx, d, c)
		if parley.CodeOf(err) != parley.CodeNotFound {
			return done, err
		}
	}
	return parley.Approval{}, parley.Errorf(parley.CodeNotFound, "there is nothing to approve with the digest %q", parley.Cut(string(d), 64)).
		WithHint("its file has changed or is gone; look at the list again")
}

// Share returns the same for a second holder, who has to release it as well. It must not be
// called after Release.
func (r *Resolved) Share() *Resolved {
	other := &Resolved{scopes: r.scopes, app: r.app, made: r.made, kept: r.kept, space: r.space, owner: r.owner}
	r.scopes.mu.Lock()
	defer r.scopes.mu.Unlock()
	r.app.holders++
	if r.kept != nil {
		r.kept.hold()
	}
	return other
}

// Release says that the caller needs r no longer. It never blocks, and a second call does
// nothing.
func (r *Resolved) Release() {
	r.once.Do(func() {
		s := r.scopes
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.kept != nil {
			s.release(r.kept)
		}
		r.app.holders--
		s.leave(r.app)
	})
}
