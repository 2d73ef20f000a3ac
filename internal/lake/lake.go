// Package lake keeps a lake: a git repository of Markdown files, its entities, with front matter and links.
// The tools, the REST API and the batch agent all use it; there is no other implementation.
//
// # Entities
//
// An entity is a Markdown file of the working tree, as it is there, committed or not. Files that git ignores and hidden ones
// are none. Its front matter says what it is, see [Parse]; links are those of package wiki. Entities are found by a
// search index, a database in a private folder. It is a cache: it may be deleted at any time, and follows the
// files, whoever changes them, by their sizes and times. What a reader sees is at most [Options.Fresh] old, and never older than the
// reader's own changes.
//
// # Changes
//
// A change is one commit, with an author and a reason, made by package gitrepo: files, index and branch together, or
// nothing. Changes of different entities all land. A change of an entity that somebody else has changed since is
// merged by lines, or is a [Conflict] that names the lines. What others have changed and not committed stays uncommitted,
// if it fits; otherwise the change is refused, or, if its author has seen exactly that content, the content is committed
// first, in a commit of its own. A move rewrites the links to the entity, and those in it.
//
// A change with a key is made once: it is found again by its commit. So after a crash [Lake.Made] says whether it was made.
//
// Methods are safe for concurrent use, and so are several processes on one lake, each with a private folder of its own.
package lake

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // git's names of contents are SHA-1
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
)

// What is said of entities is in the vocabulary.
type (
	Entity   = parley.Entity
	Link     = parley.EntityLink
	Backlink = parley.EntityBacklink
	Fault    = parley.EntityFault
	Hit      = parley.EntityHit
	Revision = parley.EntityRevision
	Author   = gitrepo.Ident
)

// Options of [Open].
type Options struct {
	// Private is a folder of the server for the search index and for git. It exists, and one process uses it at a time.
	Private string
	Git     string // the program; "": git, as PATH finds it
	// Fresh is how old what a reader sees may be; 0: a second. Negative: every reader looks at the files.
	Fresh  time.Duration
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: silent
	// Remote is that of [Lake.Sync], see gitrepo.Options.
	Remote string
	Token  string
	// At is called at the points at which a crash can leave something behind, see gitrepo.Options. Tests use it.
	At func(point string) error
}

// Lake is an open lake.
type Lake struct {
	dir    string
	is     os.FileInfo // the folder
	o      Options
	x      *index
	folder folder

	mu   sync.Mutex
	repo *gitrepo.Repo // nil: not opened yet
}

// Open opens the lake in a folder. The repository is opened when it is first needed, so without one, or without the program git, a lake
// can be read all the same. The first change makes a repository of a folder that has none, with what is in it as the first commit.
func Open(_ context.Context, dir string, o Options) (*Lake, error) {
	o.Fresh = cmp.Or(o.Fresh, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := real(dir)
	if err != nil {
		return nil, err
	}
	is, err := os.Stat(dir)
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "the lake's folder cannot be opened: %w", err)
	}
	l := &Lake{dir: dir, is: is, o: o, folder: folder{dir: dir, is: is}}
	_, done, err := l.folder.use()
	if err != nil {
		return nil, err
	}
	defer done()
	sum := sha256.Sum256([]byte(dir))
	if l.x, err = openIndex(filepath.Join(o.Private, hex.EncodeToString(sum[:8])), &l.folder, o); err != nil {
		_ = l.folder.end()
		return nil, err
	}
	return l, nil
}

// real is the path of a folder without links.
func real(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", parley.Errorf(parley.CodeNotFound, "the lake's folder is not there: %w", err)
	}
	return dir, nil
}

// git is the repository. gitrepo.ErrNone: there is none, unless it may be made.
func (l *Lake) git(ctx context.Context, mayMake bool) (*gitrepo.Repo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.repo != nil {
		return l.repo, nil
	}
	o := gitrepo.Options{Dir: l.dir, Private: l.o.Private, Git: l.o.Git, Remote: l.o.Remote, Token: l.o.Token, Logger: l.o.Logger, Now: l.o.Now, At: l.o.At}
	r, err := gitrepo.Open(ctx, o)
	if errors.Is(err, gitrepo.ErrNone) && mayMake {
		if err = gitrepo.Make(ctx, o); err == nil {
			r, err = gitrepo.Open(ctx, o)
		}
	}
	if err == nil {
		l.repo = r
	}
	return r, err
}

// Repo is the repository. Whoever commits in it by other ways than the lake's uses this one.
func (l *Lake) Repo(ctx context.Context) (*gitrepo.Repo, error) { return l.git(ctx, true) }

// Close closes the lake, when what is under way in it is over. Nothing is lost by not closing it.
func (l *Lake) Close() error { return errors.Join(l.x.close(), l.folder.end()) }

// rest closes what the lake has open, until it is needed again.
func (l *Lake) rest() {
	l.x.rest()
	l.folder.rest()
}

// moved reports whether another folder is at the lake's path now.
func (l *Lake) moved() bool {
	now, err := os.Stat(l.dir)
	return err != nil || !os.SameFile(l.is, now)
}

// read reads a file of the lake.
func (l *Lake) read(name string) ([]byte, error) {
	tree, done, err := l.folder.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return tree.Read(name, MaxEntity)
}

// Touch has the next reader look at the files, however shortly before somebody has.
func (l *Lake) Touch() { l.x.touch() }

// Dir is the lake's folder.
func (l *Lake) Dir() string { return l.dir }

// Sync pulls what others have pushed to the remote, and pushes what they do not have. Without a remote it does nothing.
func (l *Lake) Sync(ctx context.Context) (gitrepo.Synced, error) {
	r, err := l.git(ctx, true)
	if err != nil {
		return gitrepo.Synced{}, err
	}
	s, err := r.Push(ctx)
	l.x.touch()
	return s, err
}

// VersionOf is the version of an entity with that content.
func VersionOf(body []byte) string { return blobHash(sha1.New(), body) } //nolint:gosec // as git does

func blobHash(h hash.Hash, body []byte) string {
	fmt.Fprintf(h, "blob %d\x00", len(body))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
