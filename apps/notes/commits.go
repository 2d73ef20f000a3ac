package notes

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/turncommit"
)

// vaults are the vaults of the apps that have one, which may be git repositories.
type vaults struct {
	mu sync.Mutex
	of map[string]*turncommit.Commits // by app
}

func (v *vaults) get(app string) *turncommit.Commits {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.of[app]
}

func (v *vaults) put(app string, c *turncommit.Commits) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[string]*turncommit.Commits{}
	}
	v.of[app] = c
}

// fetching logs a page that a model asked for.
func (v *vaults) fetching(ctx context.Context, r seam.Run, url string) {
	if c := v.get(r.App); c != nil {
		c.Requested(ctx, r, url)
	}
}

// touching waits for a moment for what was pushed to the vault from elsewhere.
func (v *vaults) touching(ctx context.Context, r seam.Run) {
	if c := v.get(r.App); c != nil {
		c.Ready(ctx, r)
	}
}

// open opens the vault of an app, and has the changes of its turns committed.
func (v *vaults) open(d app.ToolDeps) (app.Service, error) {
	s, err := openVault(d)
	if err != nil {
		return s, err
	}
	git := d.App.Git
	if _, err := author(git.Author, name); err != nil {
		return s, parley.Errorf(parley.CodeInvalid, "%w", config.Mistakes{d.App.Mistake("workspaces.granted.git.author", "%s", app.Says(err))})
	}
	if git.Token != "" {
		s.Secrets = append(s.Secrets, git.Token)
	}
	dir := d.App.Workspaces.Granted.Dir
	except := d.App.Workspaces.Granted.Except
	var now atomic.Pointer[turncommit.Commits]
	s.Follow = func(f app.Followed) {
		c := turncommit.Start(turncommit.Options{
			App: d.App.Name, Dir: dir, Off: git.Off, Data: f.Data, Log: f.Reader, Store: f.Store, Remote: git.Remote, Token: git.Token, Logger: d.Logger,
			Folder: func(w parley.Workspace) string { return folderOf(w, except) },
			Author: func(folder string) gitrepo.Ident {
				if folder == "" {
					folder = name
				}
				id, _ := author(git.Author, folder) // it was checked
				return id
			},
		})
		now.Store(c)
		v.put(d.App.Name, c)
	}
	s.Close = func() {
		c := now.Load()
		if c == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		c.Close(ctx)
	}
	s.Notices = func() []string {
		if c := now.Load(); c != nil {
			return c.Notices()
		}
		return nil
	}
	s.Inspect = func(ctx context.Context) []app.Finding { return inspect(ctx, dir, git) }
	return s, nil
}

// closeWithin is how long the end of the server waits for the last commits and their push.
const closeWithin = 5 * time.Second

// folderOf is the folder of a person in the vault.
func folderOf(w parley.Workspace, except []string) string {
	person, shared := w.Shared()
	if !shared || person == "" || strings.ContainsAny(person, `/\`) {
		return ""
	}
	for _, other := range except {
		if other == person {
			return ""
		}
	}
	return person
}

// author is the author of the commits of a person; zero: nobody is named.
func author(text, person string) (gitrepo.Ident, error) {
	if text == "" {
		return gitrepo.Ident{}, nil
	}
	return gitrepo.ParseIdent(strings.ReplaceAll(text, "{person}", person))
}

// inspect looks whether changes can be committed and pushed. It takes the repository's lock, and changes
// nothing.
func inspect(ctx context.Context, dir string, git config.GitFile) []app.Finding {
	if git.Off {
		return []app.Finding{{Check: "git", Says: "changes in " + dir + " are not committed, as the settings say"}}
	}
	warn := func(err error) []app.Finding { return []app.Finding{{Check: "git", Warn: err}} }
	private, err := os.MkdirTemp("", "parley-git-")
	if err != nil {
		return warn(err)
	}
	defer os.RemoveAll(private) //nolint:errcheck // among the temporary files
	o := gitrepo.Options{Dir: dir, Private: private, Remote: git.Remote, Token: git.Token}
	version, err := gitrepo.Look(ctx, o)
	if errors.Is(err, gitrepo.ErrNone) {
		return []app.Finding{{Check: "git", Says: dir + " is no git repository, so changes are not committed"}}
	}
	if err != nil {
		return warn(err)
	}
	brief, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	repo, err := gitrepo.Open(brief, o)
	if err != nil {
		return warn(err)
	}
	state, err := repo.State(brief)
	if err != nil {
		return warn(err)
	}
	list := []app.Finding{{Check: "git", Says: "git " + version + ", and changes in " + dir + " are committed to " + state.Branch}}
	remote, err := repo.Reach(brief)
	switch {
	case err != nil:
		list = append(list, app.Finding{Check: "git", Warn: err})
	case remote != "":
		list = append(list, app.Finding{Check: "git", Says: "the remote " + remote + " answers"})
	}
	for _, branch := range state.Kept {
		list = append(list, app.Finding{Check: "git", Warn: parley.Errorf(parley.CodeConflict, "changes that did not fit those from elsewhere are on the branch %s", branch).
			WithHint("bring them in with git cherry-pick, then delete the branch")})
	}
	return list
}
