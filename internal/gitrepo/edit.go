package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

// Edit is a file as a change leaves it.
type Edit struct {
	Path string // relative to the working tree, with slashes
	Body []byte // the new content, as it is in the working tree
	Gone bool   // the file is deleted
}

// Plan is what a change does.
type Plan struct {
	Edits []Edit
	// TakeIn are files that are committed first, as they are in the working tree, by an author of their own. Then the
	// plan is made again.
	TakeIn []string
}

// Change is a change of files that is committed as it is made.
type Change struct {
	// Plan says what is to become of the files. It is called with the repository locked, so that nobody else changes the
	// branch until the change is made, and again if somebody else has. It must not use the repository.
	Plan    func(ctx context.Context, b Base) (Plan, error)
	Message func(files []string) string
	Author  Ident
	When    time.Time
}

// Base is the last commit of the branch, which a change is made on.
type Base struct {
	r   *Repo
	tip string
}

// Tip is the commit; "": there is none yet.
func (b Base) Tip() string { return b.tip }

// Read returns a file as the commit has it, as git would write it into the working tree. ok is false if the
// commit has no such file. What is larger than most is CodeTooLarge.
func (b Base) Read(ctx context.Context, name string, most int64) (body []byte, ok bool, err error) {
	if b.tip == "" {
		return nil, false, nil
	}
	e, err := b.r.entry(ctx, b.tip, name)
	if err != nil || e.mode == "" {
		return nil, false, err
	}
	if e.size > most {
		return nil, false, parley.Errorf(parley.CodeTooLarge, "%s has more than %d KB", name, most>>10)
	}
	body, err = b.r.git(ctx, "", nil, "cat-file", "--filters", "--path="+name, e.hash)
	if body == nil && err == nil {
		body = []byte{}
	}
	return body, err == nil, err
}

// Blob returns a content by its hash, as it was in the working tree under a name. ok is false if the repository has no such content.
func (b Base) Blob(ctx context.Context, hash, name string, most int64) (body []byte, ok bool, err error) {
	if !isHash.MatchString(hash) {
		return nil, false, nil
	}
	out, err := b.r.git(ctx, "", []byte(hash+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, false, err
	}
	f := strings.Fields(string(out))
	if len(f) != 3 || f[1] != "blob" {
		return nil, false, nil
	}
	if size, err := strconv.ParseInt(f[2], 10, 64); err != nil || size > most {
		return nil, false, nil
	}
	body, err = b.r.git(ctx, "", nil, "cat-file", "--filters", "--path="+name, hash)
	if body == nil && err == nil {
		body = []byte{}
	}
	return body, err == nil, err
}

// entry is a file of a commit; mode "": it has no such file.
type entry struct {
	mode, hash string
	size       int64
}

func (r *Repo) entry(ctx context.Context, commit, name string) (e entry, err error) {
	out, err := r.git(ctx, "", nil, "ls-tree", "-l", "-z", "--full-tree", commit, "--", name)
	if err != nil {
		return e, err
	}
	about, is, _ := strings.Cut(strings.TrimSuffix(string(out), "\x00"), "\t")
	f := strings.Fields(about)
	if len(f) != 4 || is != name || f[1] != "blob" || !strings.HasPrefix(f[0], "100") {
		return entry{}, nil
	}
	e.mode, e.hash = f[0], f[2]
	e.size, err = strconv.ParseInt(f[3], 10, 64)
	return e, err
}

// Uncommitted returns the files that a change could not be made for, because they have changes that are not
// committed and do not fit; nil if the error is another one.
func Uncommitted(err error) []string {
	if b, is := errors.AsType[*blocked](err); is {
		return b.files
	}
	return nil
}

// errBranchMoved says that somebody has committed while a change was being made.
var errBranchMoved = errors.New("the branch was changed meanwhile")

// Change makes a change: files, index and branch together. What is changed in the working tree and not
// committed stays changed and uncommitted; if it does not fit, the error says which files, see [Uncommitted], and nothing is
// changed. A change without a difference makes no commit. After a crash at any point the change is made
// or it is not; whoever uses the repository next completes one that was under way.
func (r *Repo) Change(ctx context.Context, c Change) (made Made, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		// From here on it is made, or found to be impossible.
		ctx = context.WithoutCancel(ctx)
		for tries, taken := 0, 0; ; tries++ {
			var again []string
			made, again, err = r.change(ctx, c)
			switch {
			case err == nil && again == nil:
				return nil
			case err == nil && taken < 3:
				taken++
				if _, err = r.commit(ctx, r.found(again, c.When)); err != nil {
					return err
				}
			case (errors.Is(err, errBranchMoved) || errors.Is(err, errMoved)) && tries < 50:
				time.Sleep(lockPause)
			case err == nil:
				return parley.Errorf(parley.CodeConflict, "%s cannot be committed, because the repository ignores it or somebody changes it all the time", trim(again))
			default:
				return err
			}
		}
	})
	return made, said(err)
}

// pushTime is longer than a git that receives a push takes from putting the files and the index into place, to moving the branch. It
// holds no lock in between.
const pushTime = 300 * time.Millisecond

// underWay reports whether somebody's git may be about to move the branch: the index has just got something that the commit does not have. What a
// person has staged looks the same; it is waited for once. Git's lock of the index is held.
func (r *Repo) underWay(ctx context.Context, tip string) bool {
	fi, err := os.Lstat(filepath.Join(r.gitDir, "index"))
	if err != nil || time.Since(fi.ModTime()) > pushTime {
		return false
	}
	list, err := index{r, filepath.Join(r.gitDir, "index")}.against(ctx, tip)
	if err != nil || len(list) == 0 {
		return false
	}
	now := fmt.Sprint(list)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.staged.what != now {
		r.staged.what, r.staged.since = now, time.Now()
	}
	return time.Since(r.staged.since) < pushTime
}

// found is the commit of files that somebody else made or changed and did not commit.
func (r *Repo) found(list []string, when time.Time) Commit {
	by := r.User()
	if by == (Ident{}) {
		by = Ident{"Somebody", "somebody@localhost"}
	}
	return Commit{Paths: list, Author: by, When: when, Message: func(list []string) string {
		return "Take in " + trim(list) + " as found"
	}}
}

// change makes a change once. again: these files are to be committed first.
func (r *Repo) change(ctx context.Context, c Change) (made Made, again []string, err error) {
	branch, err := r.branch()
	if err != nil {
		return made, nil, err
	}
	unlock, err := r.lockIndex(ctx)
	if err != nil {
		return made, nil, err
	}
	defer func() { r.unlock(unlock, err) }()
	if err = r.point("locked"); err != nil {
		return made, nil, err
	}
	tip, err := r.tip(ctx, heads+branch)
	if err == nil && r.underWay(ctx, tip) {
		return made, nil, errBranchMoved // it is looked at again
	}
	if err != nil {
		return made, nil, err
	}
	plan, err := c.Plan(ctx, Base{r, tip})
	if err != nil || len(plan.TakeIn) > 0 {
		return made, plan.TakeIn, err
	}
	dir, done, err := r.workDir()
	if err != nil {
		return made, nil, err
	}
	defer done()
	list, err := r.edits(ctx, tip, plan.Edits)
	if err != nil || len(list) == 0 {
		return made, nil, err
	}
	for _, e := range list {
		made.Files = append(made.Files, e.path)
	}
	tree, err := r.treeOf(ctx, index{r, filepath.Join(dir, "none")}, tip, list, false)
	if err == nil {
		made.Hash, err = r.object(ctx, tree, tip, Commit{Author: c.Author, When: c.When, Message: c.Message}, made.Files)
	}
	if err != nil {
		return Made{}, nil, err
	}
	if err = r.point("object"); err != nil {
		return Made{}, nil, err
	}
	for tries := 0; ; tries++ {
		if err = r.advanceOnce(ctx, branch, tip, made.Hash, "commit"); !errors.Is(err, errMoved) || tries == 5 {
			break
		}
	}
	if err == nil || isCrash(err) {
		return made, nil, err
	}
	return Made{}, nil, r.takeBack(ctx, branch, tip, made.Hash, err)
}

// takeBack undoes what was done of a change that failed. It returns the error of the change, or one that says to try it again.
func (r *Repo) takeBack(ctx context.Context, branch, from, to string, failed error) error {
	if _, err := os.Lstat(filepath.Join(r.gitDir, advanceName)); err != nil {
		return failed // nothing was done
	}
	err := r.undo(ctx, from, to)
	if err == nil {
		err = r.unstage(ctx, from, to)
	}
	if err != nil {
		return errors.Join(failed, err) // whoever has the lock next tries again
	}
	if err := r.forget(); err != nil {
		return err
	}
	if now, err := r.tip(ctx, heads+branch); err == nil && now != from {
		return errBranchMoved
	}
	return failed
}

// unstage gives the index what a commit has of the files that another one changes, where it has these as the other one does. Git's lock
// of it is held.
func (r *Repo) unstage(ctx context.Context, from, to string) error {
	dir, done, err := r.workDir()
	if err != nil {
		return err
	}
	defer done()
	x, err := r.copyIndex(dir, "index")
	if err != nil {
		return err
	}
	list, err := r.between(ctx, from, to)
	if err != nil {
		return err
	}
	other, err := byPath(x.against(ctx, to))
	if err != nil {
		return err
	}
	var back []change
	for _, c := range list {
		if _, differs := other[c.path]; !differs {
			back = append(back, change{path: c.path, is: c.was, nowMode: c.wasMode})
		}
	}
	if err := x.set(ctx, back, strings.Repeat("0", len(to))); err != nil {
		return err
	}
	if err := x.refresh(ctx); err != nil {
		return err
	}
	return x.put()
}

// edits stores the new contents, and returns what differs from a commit.
func (r *Repo) edits(ctx context.Context, tip string, edits []Edit) (list []change, err error) {
	for _, e := range edits {
		name, err := files.Clean(e.Path)
		if err == nil && (name == "." || name != e.Path) {
			err = parley.Errorf(parley.CodeInvalid, "%q is not the path of a file", parley.Cut(e.Path, 200))
		}
		if err != nil {
			return nil, err
		}
		was := entry{}
		if tip != "" {
			if was, err = r.entry(ctx, tip, name); err != nil {
				return nil, err
			}
		}
		c := change{path: name, wasMode: absent, nowMode: absent, status: 'M'}
		if was.mode != "" {
			c.was, c.wasMode = was.hash, was.mode
		}
		if !e.Gone {
			if c.is, err = line(r.git(ctx, "", e.Body, "hash-object", "-w", "-t", "blob", "--path="+name, "--stdin")); err != nil {
				return nil, err
			}
			if c.nowMode = c.wasMode; c.nowMode == absent {
				c.nowMode = "100644"
			}
		}
		if c.was != c.is || c.wasMode != c.nowMode {
			list = append(list, c)
		}
	}
	for i := range list {
		for _, h := range []*string{&list[i].was, &list[i].is} {
			if *h == "" {
				*h = strings.Repeat("0", max(len(tip), 40))
			}
		}
	}
	return list, nil
}
