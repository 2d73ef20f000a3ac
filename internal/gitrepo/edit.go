package gitrepo

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's names of contents are SHA-1
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	r    *Repo
	tip  string
	have map[string]entry // what is known of its files
}

// Tip is the commit; "": there is none yet.
func (b Base) Tip() string { return b.tip }

// Look looks at some files at once, which makes reading them faster.
func (b Base) Look(ctx context.Context, names ...string) error {
	if b.tip == "" {
		return nil
	}
	var missing []string
	for _, name := range names {
		if _, ok := b.have[name]; !ok {
			missing = append(missing, name)
		}
	}
	for some := range slices.Chunk(missing, 200) { // arguments
		out, err := b.r.git(ctx, "", nil, append([]string{"ls-tree", "-l", "-z", "--full-tree", b.tip, "--"}, some...)...)
		if err != nil {
			return err
		}
		for _, name := range some {
			b.have[name] = entry{}
		}
		for one := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			about, name, _ := strings.Cut(one, "\t")
			f := strings.Fields(about)
			if _, asked := b.have[name]; !asked || len(f) != 4 || f[1] != "blob" || !strings.HasPrefix(f[0], "100") {
				continue
			}
			size, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil {
				return err
			}
			b.have[name] = entry{f[0], f[2], size}
		}
	}
	return nil
}

// Read returns a file as the commit has it, as git would write it into the working tree. ok is false if the
// commit has no such file. like may be what it probably is, such as what the file has now. What is larger than most is CodeTooLarge.
func (b Base) Read(ctx context.Context, name string, like []byte, most int64) (body []byte, ok bool, err error) {
	if err := b.Look(ctx, name); err != nil {
		return nil, false, err
	}
	e := b.have[name]
	if e.mode == "" {
		return nil, false, nil
	}
	if e.size > most {
		return nil, false, parley.Errorf(parley.CodeTooLarge, "%s has more than %d KB", name, most>>10)
	}
	if like != nil && int64(len(like)) == e.size && e.hash == hashLike(e.hash, like) {
		return like, true, nil // also where git would convert line ends: a file that git takes as it is
	}
	body, err = b.r.git(ctx, "", nil, "cat-file", "--filters", "--path="+name, e.hash)
	if body == nil && err == nil {
		body = []byte{}
	}
	return body, err == nil, err
}

// hashLike is the name that git has for a content, made as another name was.
func hashLike(other string, body []byte) string {
	h := sha1.New() //nolint:gosec // as git does
	if len(other) == 64 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(body))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
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
		if err := r.shadow.conf.pushedInto(); err != nil {
			return err
		}
		// From here on it is made, or found to be impossible.
		ctx = context.WithoutCancel(ctx)
		for tries, taken := 0, 0; ; tries++ {
			var again []string
			made, again, err = r.change(ctx, c, tries >= patience)
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

// patience is how often a change is planned anew because somebody else has committed meanwhile. After that git's lock of the index is
// held while it is planned: in a large repository a person who commits all the time would be faster each time.
const patience = 3

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

// change makes a change once. again: these files are to be committed first. alone: nobody else's git may commit while it is planned.
func (r *Repo) change(ctx context.Context, c Change, alone bool) (made Made, again []string, err error) {
	unlock := func() {}
	if alone {
		if unlock, err = r.lockIndex(ctx); err != nil {
			return made, nil, err
		}
	}
	defer func() { r.unlock(unlock, err) }()
	branch, tip, err := r.head(ctx)
	if err != nil {
		return made, nil, err
	}
	base := Base{r, tip, map[string]entry{}}
	plan, err := c.Plan(ctx, base)
	if err != nil || len(plan.TakeIn) > 0 {
		return made, plan.TakeIn, err
	}
	dir, done, err := r.workDir()
	if err != nil {
		return made, nil, err
	}
	defer done()
	list, err := r.edits(ctx, base, plan.Edits)
	if err != nil || len(list) == 0 {
		return made, nil, err
	}
	for _, e := range list {
		made.Files = append(made.Files, e.path)
	}
	// Git's own lock is held for as short as possible: a person's git does not wait for it.
	if !alone {
		late, err := r.lockIndex(ctx)
		if err != nil {
			return Made{}, nil, err
		}
		unlock = late
	}
	if err = r.point("locked"); err != nil {
		return Made{}, nil, err
	}
	if now, err := r.tip(ctx, heads+branch); err != nil || now != tip {
		return Made{}, nil, errors.Join(err, errBranchMoved)
	}
	x, err := r.copyIndex(dir, "index")
	if err != nil {
		return Made{}, nil, err
	}
	staged, err := x.against(ctx, tip)
	if err != nil {
		return Made{}, nil, err
	}
	if err = x.set(ctx, list, strings.Repeat("0", max(len(tip), 40))); err != nil {
		return Made{}, nil, err
	}
	tree, err := r.treeOf(ctx, x, tip, list, len(staged) == 0)
	message := ""
	if err == nil {
		made.Hash, err = r.object(ctx, tree, tip, Commit{Author: c.Author, When: c.When, Message: func(list []string) string { message = c.Message(list); return message }}, made.Files)
	}
	if err != nil {
		return Made{}, nil, err
	}
	if err = r.point("object"); err != nil {
		return Made{}, nil, err
	}
	simple, err := r.advanceSimply(ctx, branch, tip, made.Hash, x, list, staged, plan.Edits, dir)
	for tries := 0; err == nil && !simple || errors.Is(err, errMoved) && tries < 5; tries++ {
		simple = true
		err = r.advanceOnce(ctx, branch, tip, made.Hash, "commit")
	}
	if err == nil {
		r.keys.keep(tip, made.Hash, message)
	}
	if err == nil || isCrash(err) {
		return made, nil, err
	}
	return Made{}, nil, r.takeBack(ctx, branch, tip, made.Hash, err)
}

// advanceSimply is advanceOnce where the files have no other changes. done is false if one has, or might have; then nothing was done. x
// is the index as it is to be.
func (r *Repo) advanceSimply(ctx context.Context, branch, from, to string, x index, list, staged []change, edits []Edit, dir string) (done bool, err error) {
	w, err := newWrites(r, dir)
	if err != nil {
		return false, err
	}
	defer w.close()
	names := make([]string, 0, len(list))
	for _, c := range list {
		f := write{change: c}
		// What a file has now comes first: who changes it later is noticed when it is written.
		if f.was, f.target, err = w.version(c.path); err != nil {
			return false, nil //nolint:nilerr // whoever looks at it again says why
		}
		fi, ferr := w.root.Lstat(filepath.FromSlash(c.path))
		if (f.was != "") != (c.wasMode != absent) || f.target != "" || ferr == nil && fi.IsDir() || slices.ContainsFunc(staged, func(s change) bool { return s.path == c.path }) {
			return false, nil
		}
		if c.wasMode != absent {
			names = append(names, c.path)
		}
		w.list = append(w.list, f)
	}
	if len(names) > 0 {
		if len(names) > 200 { // arguments
			return false, nil
		}
		y, err := r.copyIndex(dir, "before")
		if err != nil {
			return false, err
		}
		out, err := y.git(ctx, nil, append([]string{"diff-files", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules", "--"}, names...)...)
		if err != nil || len(out) > 0 {
			return false, err
		}
	}
	for _, e := range edits {
		if e.Gone {
			continue
		}
		at := filepath.Join(w.stage, filepath.FromSlash(e.Path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, e.Body, 0o600)); err != nil {
			return false, unavailable(err)
		}
	}
	if err := r.note(branch, from, to); err != nil {
		return true, err
	}
	if err := r.point("noted"); err != nil {
		return true, err
	}
	if err := w.apply(); err != nil {
		return true, err
	}
	var there []string
	for _, c := range list {
		if c.nowMode != absent {
			there = append(there, c.path)
		}
	}
	// So that the index knows when they were written. A file that was changed since stays changed.
	for some := range slices.Chunk(there, 200) {
		if _, err := x.git(ctx, nil, append([]string{"add", "--refresh", "--"}, some...)...); err != nil {
			return true, err
		}
	}
	if err := r.point("files"); err != nil {
		return true, err
	}
	if err := x.put(); err != nil {
		return true, err
	}
	if err := r.point("index put"); err != nil {
		return true, err
	}
	if err := r.move(ctx, heads+branch, from, to, "commit"); err != nil {
		return true, err
	}
	if err := r.point("advanced"); err != nil {
		return true, err
	}
	return true, r.forget()
}

// takeBack undoes what was done of a change that failed. It returns the error of the change, or one that says to try it again.
func (r *Repo) takeBack(ctx context.Context, branch, from, to string, failed error) error {
	if _, err := os.Lstat(filepath.Join(r.gitDir, advanceName)); err != nil {
		return failed // nothing was done
	}
	err := r.undo(ctx, from, to, from)
	if err == nil {
		err = r.unstage(ctx, from, to, from)
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

// unstage gives the index what the branch's tip has of the files that a commit changes, where it has these as that does. from is the
// commit before. Git's lock of it is held.
func (r *Repo) unstage(ctx context.Context, from, to, tip string) error {
	_, x, list, done, err := r.apart(ctx, from, to)
	if err != nil {
		return err
	}
	defer done()
	if list, err = r.since(ctx, list, tip, to); err != nil {
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
func (r *Repo) edits(ctx context.Context, b Base, edits []Edit) (list []change, err error) {
	names := make([]string, 0, len(edits))
	for _, e := range edits {
		names = append(names, e.Path)
	}
	if err := b.Look(ctx, names...); err != nil {
		return nil, err
	}
	for _, e := range edits {
		name, err := files.Clean(e.Path)
		if err == nil && (name == "." || name != e.Path) {
			err = parley.Errorf(parley.CodeInvalid, "%q is not the path of a file", parley.Cut(e.Path, 200))
		}
		if err != nil {
			return nil, err
		}
		was := b.have[name]
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
				*h = strings.Repeat("0", max(len(b.tip), 40))
			}
		}
	}
	return list, nil
}
