package gitrepo

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Synced is what became of a meeting with the remote.
type Synced struct {
	Remote bool // there is one
	Pulled bool // something came from elsewhere
	Pushed bool // the remote has all that there is here
	Left   []Left
	Branch string // where the commits in Left are kept; "": there are none
}

// keptPrefix begins the names of branches on which commits are kept that do not fit.
const keptPrefix = heads + "parley/kept-"

// pushes is how often a push is tried when others push at the same time.
const pushes = 6

// Pull takes over what was pushed from elsewhere. Local commits come on top of it. Those that do not
// fit are left out, and kept on a branch of their own that is pushed, too.
func (r *Repo) Pull(ctx context.Context) (s Synced, err error) {
	h, err := r.net.take(ctx)
	if err != nil {
		return s, err
	}
	defer h.release()
	m, branch, err := r.remoteNow(ctx)
	if err != nil || m == nil {
		return s, err
	}
	s.Remote = true
	return s, r.pull(ctx, m, branch, &s)
}

// Push pushes all commits, and pulls first if the remote has others.
func (r *Repo) Push(ctx context.Context) (s Synced, err error) {
	h, err := r.net.take(ctx)
	if err != nil {
		return s, err
	}
	defer h.release()
	m, branch, err := r.remoteNow(ctx)
	if err != nil || m == nil {
		return s, err
	}
	s.Remote = true
	for range pushes {
		var retry bool
		retry, err = r.pushOnce(ctx, m, branch)
		if err == nil {
			s.Pushed = true
			return s, nil
		}
		if !retry {
			return s, err
		}
		if perr := r.pull(ctx, m, branch, &s); perr != nil {
			return s, perr
		}
	}
	return s, err
}

// remoteNow is the remote and the branch that is checked out; nil: there is no remote.
func (r *Repo) remoteNow(ctx context.Context) (m *remote, branch string, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		if branch, err = r.branch(); err != nil {
			return err
		}
		m, err = r.remoteOf(ctx, branch)
		return err
	})
	return m, branch, err
}

// pull fetches, and brings both together.
func (r *Repo) pull(ctx context.Context, m *remote, branch string, s *Synced) error {
	ref := m.tracking(m.branch)
	_, err := r.speak(ctx, m, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", m.name, "+"+heads+m.branch+":"+ref)
	if says(err, "couldn't find remote ref") {
		return nil // nobody has pushed this branch
	}
	if err != nil {
		return away(err)
	}
	return r.integrate(ctx, m, branch, s)
}

// integrate brings what was fetched and the branch together. What takes long is done without the lock,
// with commits that do not change.
func (r *Repo) integrate(ctx context.Context, m *remote, branch string, s *Synced) error {
	for range pushes {
		mine, theirs, err := r.sides(ctx, m, branch)
		if err != nil || theirs == "" || mine == theirs {
			return err
		}
		if has, err := r.contains(ctx, mine, theirs); err != nil || has {
			return err
		}
		p, err := r.ahead(ctx, mine, theirs)
		if err != nil {
			return err
		}
		err = r.do(ctx, func(ctx context.Context) error {
			now, _, err := r.tips(ctx, m, branch)
			if err != nil {
				return err
			}
			if now != mine {
				return errMoved
			}
			if err := r.shadow.conf.pushedInto(); err != nil {
				return err
			}
			if s.Branch, err = r.keep(ctx, mine, p.left); err != nil {
				return err
			}
			if err := r.advance(ctx, branch, mine, p.tip, "pull"); err != nil {
				return err
			}
			s.Left, s.Pulled = append(s.Left, p.left...), true
			return nil
		})
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return parley.Errorf(parley.CodeUnavailable, "the branch or its files change all the time").WithHint("it is tried again")
}

// sides are the commits of the branch here and, as far as is known, at the remote.
func (r *Repo) sides(ctx context.Context, m *remote, branch string) (mine, theirs string, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		mine, theirs, err = r.tips(ctx, m, branch)
		return err
	})
	return mine, theirs, err
}

func (r *Repo) tips(ctx context.Context, m *remote, branch string) (mine, theirs string, err error) {
	now, err := r.branch()
	if err != nil {
		return "", "", err
	}
	if now != branch {
		return "", "", parley.Errorf(parley.CodeConflict, "another branch was checked out meanwhile").WithHint("it is tried again")
	}
	if mine, err = r.tip(ctx, heads+branch); err == nil {
		theirs, err = r.tip(ctx, m.tracking(m.branch))
	}
	return mine, theirs, err
}

// contains reports whether a commit has another among those before it.
func (r *Repo) contains(ctx context.Context, commit, other string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	_, err := r.git(ctx, "", nil, "merge-base", "--is-ancestor", other, commit)
	if exits(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// ahead is the branch as it is to become.
func (r *Repo) ahead(ctx context.Context, mine, theirs string) (replayed, error) {
	if mine == "" {
		return replayed{tip: theirs}, nil
	}
	if behind, err := r.contains(ctx, theirs, mine); err != nil || behind {
		return replayed{tip: theirs}, err
	}
	return r.replay(ctx, theirs, mine)
}

// keep makes the branch on which commits stay that do not fit.
func (r *Repo) keep(ctx context.Context, mine string, left []Left) (string, error) {
	if len(left) == 0 {
		return "", nil
	}
	list, err := r.objects(ctx, []string{mine})
	if err != nil {
		return "", err
	}
	ref := keptPrefix + time.Unix(list[0].time(), 0).UTC().Format("2006-01-02-") + short(mine)
	have, err := r.tip(ctx, ref)
	if err != nil || have == mine {
		return strings.TrimPrefix(ref, heads), err
	}
	if err := r.move(ctx, ref, have, mine, "keep what does not fit"); err != nil {
		return "", err
	}
	if err := r.point("kept"); err != nil {
		return "", err
	}
	return strings.TrimPrefix(ref, heads), r.keepOnce(ctx, ref, mine)
}

// keepOnce removes branches on which the same commits were kept by an attempt that did not come to its
// end: they are in the branch that is kept now.
func (r *Repo) keepOnce(ctx context.Context, ref, mine string) error {
	all, err := r.keptRefs(ctx)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.ref == ref {
			continue
		}
		in, err := r.contains(ctx, mine, k.hash)
		if err != nil {
			return err
		}
		if in {
			if _, err := r.git(ctx, "", nil, "update-ref", "-d", k.ref, k.hash); err != nil {
				return err
			}
		}
	}
	return nil
}

// kept is a branch on which commits were kept.
type kept struct {
	ref, hash string
}

// keptRefs lists the branches with kept commits.
func (r *Repo) keptRefs(ctx context.Context) (list []kept, err error) {
	out, err := r.git(ctx, "", nil, "for-each-ref", "--format=%(refname) %(objectname)", heads+"parley/")
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(out)) {
		if f := strings.Fields(l); len(f) == 2 && strings.HasPrefix(f[0], keptPrefix) {
			list = append(list, kept{f[0], f[1]})
		}
	}
	return list, nil
}

// pushOnce pushes what the remote does not have. retry: it has something else.
func (r *Repo) pushOnce(ctx context.Context, m *remote, branch string) (retry bool, err error) {
	var specs []string
	err = r.do(ctx, func(ctx context.Context) error {
		specs, err = r.specs(ctx, m, branch)
		return err
	})
	if err != nil || len(specs) == 0 {
		return false, err
	}
	args := append([]string{"push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no", "--end-of-options", m.name}, specs...)
	_, err = r.speak(ctx, m, args...)
	f, failed := errors.AsType[*failure](err)
	if !failed {
		return false, err
	}
	for l := range strings.Lines(string(f.out)) {
		for _, why := range []string{"(fetch first)", "(non-fast-forward)", "(stale info)", "cannot lock ref", "failed to update ref", "(incorrect old value provided)"} {
			if strings.HasPrefix(l, "!") && strings.Contains(l, why) {
				return true, away(err)
			}
		}
		if strings.HasPrefix(l, "!") {
			f.says = sentence(l) + "; " + f.says // what the remote has against it
		}
	}
	return false, away(err)
}

// specs say what is pushed: the branch, and kept branches that were not yet.
func (r *Repo) specs(ctx context.Context, m *remote, branch string) (list []string, err error) {
	mine, theirs, err := r.tips(ctx, m, branch)
	if err != nil || mine == "" {
		return nil, err
	}
	if mine != theirs {
		list = append(list, mine+":"+heads+m.branch)
	}
	all, err := r.keptRefs(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		there, err := r.tip(ctx, m.tracking(strings.TrimPrefix(k.ref, heads)))
		if err != nil {
			return nil, err
		}
		if there != k.hash {
			list = append(list, k.hash+":"+k.ref)
		}
	}
	return list, nil
}

// State is what a repository has that others do not have yet.
type State struct {
	Branch string
	Remote string   // its name; "": there is none
	Ahead  int      // commits that were not pushed
	Kept   []string // branches with commits that did not fit and are not in the branch
}

// State looks at the repository. The remote is not asked.
func (r *Repo) State(ctx context.Context) (s State, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		if s.Branch, err = r.branch(); err != nil {
			return err
		}
		s.Remote = r.remoteName(s.Branch)
		mine, err := r.tip(ctx, heads+s.Branch)
		if err != nil || mine == "" {
			return err
		}
		if s.Remote != "" {
			if s.Ahead, err = r.count(ctx, mine, s.Branch); err != nil {
				return err
			}
		}
		all, err := r.keptRefs(ctx)
		if err != nil {
			return err
		}
		for _, k := range all {
			in, err := r.contains(ctx, mine, k.hash)
			if err != nil {
				return err
			}
			if !in {
				s.Kept = append(s.Kept, strings.TrimPrefix(k.ref, heads))
			}
		}
		return nil
	})
	return s, err
}

// count counts the commits that the remote does not have, as far as is known.
func (r *Repo) count(ctx context.Context, mine, branch string) (int, error) {
	m := remote{name: r.remoteName(branch), branch: branch}
	if at := r.shadow.conf.upstream[branch]; at[0] == m.name && at[1] != "" {
		m.branch = at[1]
	}
	args := []string{"rev-list", "--count", mine}
	there, err := r.tip(ctx, m.tracking(m.branch))
	if err != nil {
		return 0, err
	}
	if there != "" {
		args = append(args, "^"+there)
	}
	out, err := line(r.git(ctx, "", nil, append(args, "--")...))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(out)
	return n, err
}

// Reach asks the remote whether it answers. The repository is not changed. "" means that there is
// none; else it is the remote's name.
func (r *Repo) Reach(ctx context.Context) (name string, err error) {
	m, _, err := r.remoteNow(ctx)
	if err != nil || m == nil {
		return "", err
	}
	_, err = r.speak(ctx, m, "ls-remote", "--quiet", "--heads", "--end-of-options", m.name, heads+m.branch)
	if err != nil {
		return m.name, away(err)
	}
	return m.name, nil
}

// Tidy packs the repository when it has become slow. It may take a while, in which nothing is committed.
func (r *Repo) Tidy(ctx context.Context) error {
	return r.do(ctx, func(ctx context.Context) error {
		_, err := r.git(ctx, "", nil, "-c", "gc.auto=6700", "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet")
		return err
	})
}
