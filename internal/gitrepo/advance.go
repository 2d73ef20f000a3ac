package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// A branch is advanced in this order: the files, the index, the branch. A file of ours says meanwhile
// what is under way. Whoever has the lock next finishes it before anything else, or, where that has
// become impossible, undoes it: else a commit would have a part of what came from elsewhere.

// blocked is the error of changes from elsewhere that cannot be taken now.
type blocked struct{ files []string }

func (e *blocked) Error() string {
	return "what was pushed from elsewhere is not taken yet, because it changes files that have changes here that are not committed: " + trim(e.files)
}

func wait(files ...string) error {
	return parley.Errorf(parley.CodeConflict, "%w", &blocked{files}).WithHint("it is tried again when these are committed; commit them, or undo them")
}

// advance moves the branch from a commit to another and brings index and working tree along. What is
// changed here and not committed stays changed.
func (r *Repo) advance(ctx context.Context, branch, from, to, why string) (err error) {
	unlock, err := r.lockIndex(ctx)
	if err != nil {
		return err
	}
	defer func() { r.unlock(unlock, err) }()
	for tries := 0; ; tries++ {
		if err = r.advanceOnce(ctx, branch, from, to, why); !errors.Is(err, errMoved) || tries == 5 {
			return err
		}
	}
}

// errMoved says that somebody changed a file while it was being replaced.
var errMoved = errors.New("a file was changed meanwhile")

func (r *Repo) advanceOnce(ctx context.Context, branch, from, to, why string) error {
	dir, x, list, done, err := r.apart(ctx, from, to)
	if err != nil {
		return err
	}
	defer done()
	w, err := r.writes(ctx, x, from, list, dir)
	if err != nil {
		return err
	}
	defer w.close()
	if err := r.note(branch, from, to); err != nil {
		return err
	}
	if err := r.point("noted"); err != nil {
		return err
	}
	if err := w.apply(); err != nil {
		return err
	}
	zero := strings.Repeat("0", len(to))
	if err := x.set(ctx, list, zero); err != nil {
		return err
	}
	if err := x.refresh(ctx); err != nil {
		return err
	}
	if err := r.point("files"); err != nil {
		return err
	}
	if err := x.put(); err != nil {
		return err
	}
	if err := r.point("index put"); err != nil {
		return err
	}
	if err := r.move(ctx, heads+branch, from, to, why); err != nil {
		return err
	}
	if err := r.point("advanced"); err != nil {
		return err
	}
	return r.forget()
}

// apart returns a folder to work in with a copy of git's index, and what differs between two commits.
func (r *Repo) apart(ctx context.Context, from, to string) (dir string, x index, list []change, done func(), err error) {
	if dir, done, err = r.workDir(); err != nil {
		return "", index{}, nil, nil, err
	}
	if x, err = r.copyIndex(dir, "index"); err == nil {
		list, err = r.between(ctx, from, to)
	}
	if err != nil {
		done()
	}
	return dir, x, list, done, err
}

// between lists how a commit differs from another; "" has no files.
func (r *Repo) between(ctx context.Context, from, to string) ([]change, error) {
	if from == "" {
		empty, err := r.emptyTree(ctx)
		if err != nil {
			return nil, err
		}
		from = empty
	}
	out, err := r.git(ctx, "", nil, "diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", from, to, "--")
	if err != nil {
		return nil, err
	}
	return changes(out)
}

// note says what is about to become of the branch.
func (r *Repo) note(branch, from, to string) error {
	if r.waits {
		return parley.Errorf(parley.CodeUnavailable, "a change that a crash cut off is not completed yet").WithHint("it is tried again")
	}
	at := filepath.Join(r.gitDir, advanceName)
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable(err)
	}
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o644)
	if err != nil {
		return unavailable(err)
	}
	_, err = f.WriteString(branch + "\n" + from + "\n" + to + "\n.\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return unavailable(err)
	}
	return nil
}

func (r *Repo) forget() error {
	if err := os.Remove(filepath.Join(r.gitDir, advanceName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable(err)
	}
	return nil
}

var noteOf = pattern.New(`^([^\n]+)\n([0-9a-f]*)\n([0-9a-f]+)\n\.\n$`)

// finish completes or undoes what note says.
func (r *Repo) finish(ctx context.Context) error {
	r.waits = false
	raw, err := small(filepath.Join(r.gitDir, advanceName), 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	m := noteOf.FindSubmatch(raw)
	if err != nil || m == nil || !isName(string(m[1])) || !hashOf.Match(m[3]) {
		return r.forget() // it was half written: nothing was done
	}
	branch, from, to := string(m[1]), string(m[2]), string(m[3])
	r.sweep(ctx, from, to)
	now, err := r.branch()
	if err != nil {
		return r.unbranched(ctx, branch, from, to)
	}
	tip, err := r.tip(ctx, heads+now)
	if err != nil {
		return err
	}
	if now != branch || tip != from {
		return r.overtaken(ctx, now, from, to, tip)
	}
	is, err := r.indexIs(ctx, from, to)
	if err != nil {
		return err
	}
	const why = "finish what was under way"
	if is {
		if err := r.move(ctx, heads+branch, from, to, why); err != nil {
			return err
		}
		return r.forget()
	}
	unlock, err := r.lockIndex(ctx)
	if err != nil {
		return err
	}
	defer func() { r.unlock(unlock, err) }()
	if err = r.advanceOnce(ctx, branch, from, to, why); err == nil || isCrash(err) {
		return err
	}
	r.log.Warn("git: what was pushed from elsewhere could not be taken over as a whole; it is undone, and tried again later", "err", err)
	if tip, err = r.tip(ctx, heads+branch); err == nil {
		err = r.back(ctx, from, to, tip)
	}
	return err
}

// unbranched decides about what note says where no branch can be changed. On a commit that is checked out nothing is left of it, as on another
// branch. In the middle of a merge or rebase the files are a person's: it waits until that is over.
func (r *Repo) unbranched(ctx context.Context, branch, from, to string) error {
	if tip, err := r.tip(ctx, heads+branch); err != nil {
		return err
	} else if tip != "" {
		made, err := r.contains(ctx, tip, to)
		if _, failed := errors.AsType[*failure](err); made || failed {
			return r.forget()
		}
		if err != nil {
			return err
		}
	}
	if r.busy() {
		r.waits = true
		return nil
	}
	tip, err := r.tip(ctx, "HEAD")
	if err != nil {
		return err
	}
	return r.overtaken(ctx, "", from, to, tip)
}

// sweep removes the files that were being written when the holder of the lock died. An error means that there is none.
func (r *Repo) sweep(ctx context.Context, from, to string) {
	list, err := r.between(ctx, from, to)
	if err != nil {
		return // git does not have the commit whole, so nothing was written
	}
	w, err := newWrites(r, "")
	if err != nil {
		return
	}
	defer w.close()
	for _, c := range list {
		w.tree.Tidy(c.path, tagOf(c.path))
		if half := halfLink(c.path); c.nowMode == symlink || c.wasMode == symlink {
			_ = w.root.Remove(half)
		}
	}
}

// overtaken undoes what note says where somebody else has moved the branch or checked out another since: their git saw a lock that was left behind removed. The
// files would stay as changes that nobody made, and whoever repeats the change would find it there already, and not in the history. If they
// have committed the whole of it with their own, it is joined to theirs, so that the history has it with its author and its reason. That is
// only so if theirs follows on the commit that was changed: a merge into an older branch would take back there what was committed since.
func (r *Repo) overtaken(ctx context.Context, branch, from, to, tip string) (err error) {
	if tip == "" {
		return r.forget()
	}
	made, err := r.contains(ctx, tip, to)
	if _, failed := errors.AsType[*failure](err); made || failed {
		return r.forget() // it failed: git does not have the commit whole, so nothing was done
	}
	if err != nil {
		return err
	}
	unlock, err := r.lockIndex(ctx)
	if err != nil {
		return err
	}
	defer func() { r.unlock(unlock, err) }()
	list, err := r.between(ctx, from, to)
	if err != nil {
		return err
	}
	left, err := r.since(ctx, list, tip, to)
	if err != nil {
		return err
	}
	follows := from == ""
	if !follows {
		if follows, err = r.contains(ctx, tip, from); err != nil {
			return err
		}
	}
	if len(left) > 0 || !follows {
		return r.back(ctx, from, to, tip)
	}
	both, err := r.objects(ctx, []string{tip, to})
	if err != nil {
		return err
	}
	joined, err := r.write(ctx, object{lines: both[1].lines, message: "Join a change that somebody else has committed with their own\n"}, both[0].tree, tip, to)
	if err != nil {
		return err
	}
	if err = r.move(ctx, heads+branch, tip, joined, "join"); err != nil {
		return err
	}
	if err = r.point("joined"); err != nil {
		return err
	}
	return r.forget()
}

// back undoes in files and index what note says. Git's lock of the index is held.
func (r *Repo) back(ctx context.Context, from, to, tip string) error {
	err := r.undo(ctx, from, to, tip)
	if err == nil {
		err = r.unstage(ctx, from, to, tip)
	}
	if err != nil {
		return err
	}
	return r.forget()
}

// since is what a commit has differently from a tip, of the files that it changes.
func (r *Repo) since(ctx context.Context, list []change, tip, to string) ([]change, error) {
	of, err := byPath(list, nil)
	if err != nil {
		return nil, err
	}
	all, err := r.between(ctx, tip, to)
	return slices.DeleteFunc(all, func(c change) bool { _, is := of[c.path]; return !is }), err
}

// undo gives the files that a commit changes, and that are as it has them, what the branch's tip has of them. from is the commit before.
func (r *Repo) undo(ctx context.Context, from, to, tip string) error {
	dir, x, list, done, err := r.apart(ctx, from, to)
	if err != nil {
		return err
	}
	defer done()
	if list, err = r.since(ctx, list, tip, to); err != nil {
		return err
	}
	w, err := newWrites(r, dir)
	if err != nil {
		return err
	}
	defer w.close()
	var stage []change
	for _, c := range list {
		if c.nowMode == gitlink || c.wasMode == gitlink {
			continue
		}
		f := write{change: c}
		if f.was, f.target, err = w.version(c.path); err != nil {
			continue // nothing of ours is there
		}
		_, same, err := r.fit(ctx, x, f, dir)
		if err != nil {
			return err
		}
		if !same {
			continue
		}
		f.change = change{path: c.path, was: c.is, is: c.was, wasMode: c.nowMode, nowMode: c.wasMode}
		if f.nowMode != absent {
			stage = append(stage, f.change)
		}
		w.list = append(w.list, f)
	}
	y, err := x.copy("stage-index")
	if err != nil {
		return err
	}
	if err := r.fill(ctx, y, stage, w.stage); err != nil {
		return err
	}
	for _, f := range w.list {
		if err := w.one(f); err != nil { // it belongs to the next commit of its folder
			r.log.Warn("git: a file could not be given its old content again", "file", f.path, "err", err)
		}
		if err := r.point("undone"); err != nil {
			return err
		}
	}
	return nil
}

// indexIs reports whether the index has what a commit changes, as that has it.
func (r *Repo) indexIs(ctx context.Context, from, to string) (bool, error) {
	dir, done, err := r.workDir()
	if err != nil {
		return false, err
	}
	defer done()
	x, err := r.copyIndex(dir, "index")
	if err != nil {
		return false, err
	}
	list, err := r.between(ctx, from, to)
	if err != nil {
		return false, err
	}
	other, err := x.against(ctx, to)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(other, func(o change) bool {
		return slices.ContainsFunc(list, func(c change) bool { return c.path == o.path })
	}), nil
}
