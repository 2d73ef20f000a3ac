// Package gitrepo commits, pulls and pushes in a repository whose working tree others use at the
// same time: tools that change files, people with their editors and their own git, and other
// servers. It runs the program git.
//
// # What it promises
//
// A commit has exactly the files that its caller names, as they are; what somebody else has staged
// stays staged. Nothing that was changed in the working tree is lost or overwritten: what comes from
// elsewhere is merged in memory, and a file is replaced only if it is as the last commit has it, or
// if both changes fit together. Local commits are put on top of those of the remote. One that does
// not fit is kept on a branch of its own, see [Synced]; a change that is not committed yet is waited
// for. There is never an unfinished rebase or merge in the working tree.
//
// After a crash at any point a commit is there or it is not. Locks are the kernel's and go with
// their process, and what a killed git leaves behind is removed by who takes the lock next.
//
// # What it does not trust
//
// The repository. Git is given a configuration of ours in the place of the repository's, of which only
// the remotes and how files are stored are taken (see shadow). So hooks, filters, external diffs,
// credential helpers, an ssh command, a monitor of the file system, includes and other programs that
// a configuration can name are never run; nor are those of a remote that is a folder on this machine.
// Submodules are left alone. The user's and the machine's configuration of git is not read either;
// ssh reads its own. (TestHostile)
//
// # Together
//
// Methods are safe for concurrent use, by several processes, too. Work on the repository happens
// one piece after the other: a lock in .git is held for some hundredths of a second, and git's own
// lock of the index meanwhile. While the remote is spoken with another lock is held, so a slow remote
// delays no commit.
package gitrepo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// Options of [Open].
type Options struct {
	Dir string // the working tree
	// Private is a folder of the server in which the repository's own files of this package are,
	// in a folder for each working tree. It exists.
	Private string
	Git     string // the program; "": git, as PATH finds it
	// Remote is the name of the remote; "": that of the branch, or else origin. With None nothing is
	// pulled or pushed.
	Remote string
	// Token is sent to a remote at an https URL: a user and a token joined by a colon, or a token.
	Token  string
	Logger *slog.Logger     // nil: silent
	Now    func() time.Time // for commits of our own, see [Make]; nil: time.Now
	// At is called at each point at which a crash can leave something behind. Its error ends what is
	// under way there, with everything left as a crash leaves it. Tests use it. Nil: nobody is told.
	At func(point string) error
}

// None is no remote.
const None = "none"

// Repo is a repository and its working tree.
type Repo struct {
	dir     string
	gitDir  string
	private string
	prog    program
	version string
	shadow  *shadow
	fenced  bool // git runs inside a fence
	work    *lock
	net     *lock
	o       Options
	log     *slog.Logger

	waits bool // a note of an unfinished change waits for the end of a merge; with the lock held
	keys  keys
	mu    sync.Mutex
	last  fenced // that stands
	user  Ident  // of the configuration, as it was read last
}

// Ident is a person in a commit.
type Ident struct{ Name, Email string }

func (i Ident) String() string { return i.Name + " <" + i.Email + ">" }

var identOf = pattern.New(`^([^<>\x00-\x1f\x7f]{1,200}?)\s*<([^<>\s\x00-\x1f\x7f]{1,200})>$`)

// ParseIdent reads "Name <email>".
func ParseIdent(text string) (Ident, error) {
	m := identOf.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || strings.TrimSpace(m[1]) == "" {
		return Ident{}, parley.Errorf(parley.CodeInvalid, "%q is not an author", parley.Cut(text, 80)).WithHint("write it as Name <address@example.com>")
	}
	return Ident{strings.TrimSpace(m[1]), m[2]}, nil
}

// Look says what stands in the way of commits in a folder: nil, [ErrNone] if it has no repository, or
// an error with a hint. version is the program's, if there is one.
func Look(ctx context.Context, o Options) (version string, err error) {
	r, err := newRepo(ctx, o)
	if r != nil {
		version = r.version
	}
	if err != nil {
		return version, err
	}
	c, err := r.shadow.read(ctx, r.prog)
	if err != nil {
		return version, err
	}
	return version, c.pushedInto()
}

func newRepo(ctx context.Context, o Options) (*Repo, error) {
	if o.Git == "" {
		o.Git = "git"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.EvalSymlinks(o.Dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	gitDir, err := gitDirOf(dir)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(dir))
	private := filepath.Join(o.Private, hex.EncodeToString(sum[:8]))
	home := filepath.Join(private, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, unavailable(err)
	}
	r := &Repo{
		dir: dir, gitDir: gitDir, private: private, o: o, log: o.Logger,
		work: newLock(filepath.Join(gitDir, lockName)), net: newLock(filepath.Join(gitDir, remoteName)),
	}
	if r.prog, r.version, err = find(ctx, o.Git, home); err != nil {
		return r, err
	}
	r.shadow = &shadow{dir: filepath.Join(private, "git"), gitDir: gitDir}
	r.fenced = r.canFence(ctx, home)
	return r, nil
}

// Open opens the repository of a folder. [ErrNone] means that it has none. Private must be used by
// one process at a time.
func Open(ctx context.Context, o Options) (*Repo, error) {
	r, err := newRepo(ctx, o)
	if err != nil {
		return nil, err
	}
	left, _ := filepath.Glob(filepath.Join(r.private, "work-*"))
	for _, dir := range left {
		_ = os.RemoveAll(dir) // of a process that died
	}
	h, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	h.release()
	return r, nil
}

// Dir is the working tree.
func (r *Repo) Dir() string { return r.dir }

// begin takes the lock and puts right what a holder that died has left.
func (r *Repo) begin(ctx context.Context) (*held, error) {
	h, err := r.work.take(ctx)
	if err != nil {
		return nil, err
	}
	if err = r.shadow.refresh(ctx, r.prog); err == nil && h.died {
		err = r.tidy(ctx)
	}
	if err == nil {
		r.mu.Lock()
		r.user = r.shadow.conf.user
		r.mu.Unlock()
		err = r.finish(ctx)
	}
	if err != nil {
		h.abandon() // whoever is next tries again
		return nil, err
	}
	return h, nil
}

// do runs f with the lock. After an error of a point the lock is left as a crash would leave it.
func (r *Repo) do(ctx context.Context, f func(ctx context.Context) error) error {
	h, err := r.begin(ctx)
	if err != nil {
		return err
	}
	err = f(ctx)
	if isCrash(err) {
		h.abandon()
		return err
	}
	h.release()
	return err
}

// crash is the error of a point.
type crash struct{ err error }

func (e *crash) Error() string { return e.err.Error() }
func (e *crash) Unwrap() error { return e.err }

func isCrash(err error) bool { _, is := errors.AsType[*crash](err); return is }

func (r *Repo) point(name string) error {
	if r.o.At == nil {
		return nil
	}
	if err := r.o.At(name); err != nil {
		return &crash{err}
	}
	return nil
}

// git runs a command in the repository, with an index of ours, and returns what it prints.
func (r *Repo) git(ctx context.Context, index string, in []byte, args ...string) ([]byte, error) {
	env := []string{"GIT_DIR=" + r.gitDir, "GIT_COMMON_DIR=" + r.shadow.dir, "GIT_WORK_TREE=" + r.dir}
	if index != "" {
		env = append(env, "GIT_INDEX_FILE="+index)
	}
	fence, err := r.fence()
	if err != nil {
		return nil, err
	}
	return r.prog.run(ctx, command{args: args, in: in, env: env, dir: r.dir, fence: fence})
}

// line is the only line of a command's output.
func line(out []byte, err error) (string, error) { return strings.TrimRight(string(out), "\n"), err }

// workDir makes a folder for the files of one piece of work.
func (r *Repo) workDir() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp(r.private, "work-")
	if err != nil {
		return "", nil, unavailable(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

var headOf = pattern.New(`^ref: refs/heads/([^\n]+)\n?$`)

// branch is the branch that is checked out. An error says why nothing can be committed: there is
// none, or somebody is in the middle of something.
func (r *Repo) branch() (string, error) {
	raw, err := small(filepath.Join(r.gitDir, "HEAD"), 4096)
	if err != nil {
		return "", unavailable(err)
	}
	if r.busy() {
		return "", parley.Errorf(parley.CodeConflict, "somebody is in the middle of a merge or rebase in %s", r.dir).
			WithHint("it is waited for; finish it there, or undo it with git merge --abort or git rebase --abort")
	}
	m := headOf.FindSubmatch(raw)
	if m == nil {
		return "", parley.Errorf(parley.CodeConflict, "no branch is checked out in %s", r.dir).WithHint("it is waited for; check one out there with git switch")
	}
	name := string(m[1])
	if !isName(name) {
		return "", parley.Errorf(parley.CodeInvalid, "the branch %q has a name that is not supported here", parley.Cut(name, 80)).WithHint("rename it to one of letters, digits and - _ . /")
	}
	return name, nil
}

// busy reports whether somebody is in the middle of a merge or rebase.
func (r *Repo) busy() bool {
	return slices.ContainsFunc([]string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG"}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(r.gitDir, name))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

const heads = "refs/heads/"

// tip is the commit of a ref, or "" if there is none.
func (r *Repo) tip(ctx context.Context, ref string) (string, error) {
	// Mostly it is a file with the hash, and no program has to be run for that.
	if name, is := strings.CutPrefix(ref, heads); is && isName(name) {
		if raw, err := small(filepath.Join(r.gitDir, filepath.FromSlash(ref)), 100); err == nil && hashOf.Match(bytes.TrimSuffix(raw, []byte("\n"))) {
			return strings.TrimSuffix(string(raw), "\n"), nil
		}
	}
	out, err := line(r.git(ctx, "", nil, "rev-parse", "-q", "--verify", ref+"^{commit}"))
	if exits(err, 1) {
		return "", nil
	}
	return out, err
}

// head is the branch that is checked out, and its commit, or "" if there is none.
func (r *Repo) head(ctx context.Context) (branch, tip string, err error) {
	if branch, err = r.branch(); err == nil {
		tip, err = r.tip(ctx, heads+branch)
	}
	return branch, tip, err
}

var hashOf = pattern.New(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// short is the beginning of a hash, for people.
func short(hash string) string { return hash[:min(len(hash), 10)] }

// move moves a ref, if it is where it is expected; from "" means that there is none.
func (r *Repo) move(ctx context.Context, ref, from, to, why string) error {
	if from == "" {
		from = strings.Repeat("0", len(to))
	}
	_, err := r.git(ctx, "", nil, "update-ref", "-m", "parley: "+why, ref, to, from)
	if err != nil {
		return parley.Errorf(parley.CodeUnavailable, "%w", err).WithHint("it is tried again")
	}
	return nil
}

// emptyTree is the tree without files.
func (r *Repo) emptyTree(ctx context.Context) (string, error) {
	return line(r.git(ctx, "", nil, "hash-object", "-w", "-t", "tree", "--stdin"))
}

// trim cuts a list for a message.
func trim(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// User is the author that the repository's own configuration names, if it does.
func (r *Repo) User() Ident {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.user
}
