package turncommit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/seam"
)

// worker reads logs and makes commits, in one goroutine.
type worker struct {
	c       *Commits
	known   map[parley.SessionID]*session
	foreign map[parley.SessionID]bool
	jobs    []job           // commits to be made, oldest first
	done    map[string]bool // jobs that were seen
	began   time.Time       // when this process did
	cutoff  time.Time       // what ended before was settled by an earlier process

	repo   *gitrepo.Repo
	tryAt  time.Time // when the repository is looked for again
	said   string    // the last trouble that was logged
	lookAt time.Time
	saved  time.Time

	made map[string]map[string]bool // by trailer: what earlier processes committed
}

func (w *worker) init(c *Commits) {
	*w = worker{
		c: c, known: map[parley.SessionID]*session{}, foreign: map[parley.SessionID]bool{}, done: map[string]bool{}, began: c.o.Now(),
		made: map[string]map[string]bool{},
	}
}

// run works until it is told to end.
func (w *worker) run() {
	ctx := w.c.life
	retry := firstRetry
	var notBefore time.Time
	loaded, whole := false, true
	for {
		quitting := isClosed(w.c.quit)
		now := time.Now()
		if !now.Before(notBefore) || quitting {
			err := w.c.o.Data.Check()
			if err == nil && !loaded {
				if err = w.load(ctx); err == nil {
					loaded = true
				}
			}
			if err == nil {
				err = w.round(ctx, whole || !now.Before(w.lookAt))
			}
			if err == nil {
				whole, retry, notBefore = false, firstRetry, time.Time{}
				w.say(nil)
			} else if ctx.Err() == nil {
				w.say(err)
				notBefore, retry = now.Add(retry), min(2*retry, time.Minute)
			}
		}
		if quitting || ctx.Err() != nil {
			return
		}
		next, wake := w.lookAt, w.c.wake
		if !notBefore.IsZero() {
			next, wake = notBefore, nil // what comes meanwhile waits, too
		}
		t := time.NewTimer(time.Until(next))
		select {
		case <-wake:
		case <-t.C:
		case <-w.c.quit:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// say logs a trouble once, and that it is over. Notices shows it.
func (w *worker) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.c.set(func(s *state) { s.jobs, s.trouble = len(w.jobs), err })
	if text == w.said {
		return
	}
	if err != nil {
		w.c.o.Logger.Warn("commits of turns: not possible now; tried again", "folder", w.c.o.Dir, "err", err, "waiting", len(w.jobs))
	} else if w.said != "" {
		w.c.o.Logger.Info("commits of turns: possible again", "folder", w.c.o.Dir)
	}
	w.said = text
}

// round does all that there is to do.
func (w *worker) round(ctx context.Context, look bool) error {
	now := w.c.o.Now()
	ids, lost := w.c.take()
	for i, id := range ids {
		if err := w.read(ctx, id); err != nil {
			w.again(ids[i:])
			return err
		}
	}
	if lost || look {
		if err := w.look(ctx); err != nil {
			w.again(nil)
			return err
		}
		w.lookAt = time.Now().Add(lookEvery)
	}
	if err := w.open(ctx); err != nil {
		if errors.Is(err, gitrepo.ErrNone) {
			return w.without(ctx)
		}
		return err
	}
	if err := w.requests(ctx); err != nil {
		return err
	}
	for len(w.jobs) > 0 {
		j := w.jobs[0]
		if err := w.commit(ctx, j); err != nil {
			return err
		}
		// More may have come, before it, too.
		w.jobs = slices.DeleteFunc(w.jobs, func(other job) bool { return other.key == j.key && other.value == j.value })
	}
	w.forget()
	return w.save(now)
}

// again has sessions read the next time; nil: all that have changed.
func (w *worker) again(ids []parley.SessionID) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, id := range ids {
		w.c.marks[id] = true
	}
	w.c.lost = w.c.lost || ids == nil
}

// forget drops sessions in which nothing happens, when there are many.
func (w *worker) forget() {
	if len(w.known) <= maxMarks {
		return
	}
	for id, s := range w.known {
		if len(s.turns) == 0 {
			delete(w.known, id)
		}
	}
}

// look reads the sessions that have changed since what is certainly settled.
func (w *worker) look(ctx context.Context) error {
	since := w.cutoff
	if w.saved.Add(-margin).After(since) {
		since = w.saved.Add(-margin)
	}
	return w.recent(ctx, since)
}

// recent reads the sessions that have changed since a time.
func (w *worker) recent(ctx context.Context, since time.Time) error {
	q := seam.SessionQuery{App: w.c.o.App, Limit: 100, Direct: true}
	for {
		page, err := w.c.o.Store.Sessions(ctx, parley.System(), q)
		if err != nil {
			return err
		}
		for _, s := range page {
			if s.UpdatedAt.Before(since) {
				return nil
			}
			if k := w.known[s.ID]; k != nil && k.seq >= s.Version {
				continue
			}
			if err := w.read(ctx, s.ID); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = q.Mark(page[len(page)-1])
	}
}

const (
	folderName  = "git"      // in the data folder
	throughName = "through"  // until when everything is settled
	oldRequests = "requests" // of earlier versions
	reposName   = "repositories"
)

func (w *worker) path(parts ...string) string {
	return w.c.o.Data.Path(append([]string{folderName, w.c.o.App}, parts...)...)
}

// load reads what the last process left.
func (w *worker) load(ctx context.Context) error {
	if err := w.c.o.Data.Make(folderName, w.c.o.App, reposName); err != nil {
		return err
	}
	raw, err := os.ReadFile(w.path(throughName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		w.cutoff = w.began.Add(-time.Millisecond) // what ended before there was this folder is not ours
		if err := w.c.put(w.path(throughName), []byte(w.began.UTC().Format(time.RFC3339Nano))); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(raw)))
		if err != nil {
			at = w.began.Add(-24 * time.Hour) // it was half written
		}
		w.cutoff = at.Add(-margin)
	}
	return w.loadRequests(ctx)
}

// save notes until when everything is settled: nothing waits that happened before.
func (w *worker) save(at time.Time) error {
	if at.Sub(w.saved) < 10*time.Second && !isClosed(w.c.quit) {
		return nil
	}
	w.saved = at
	return w.c.put(w.path(throughName), []byte(at.UTC().Format(time.RFC3339Nano)))
}

// put replaces a file.
func (c *Commits) put(at string, body []byte) error {
	half, err := os.OpenFile(at+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = half.Write(body)
	if err == nil {
		err = half.Sync()
	}
	if err = errors.Join(err, half.Close()); err == nil {
		err = os.Rename(at+".new", at)
	}
	return err
}

// open opens the repository.
func (w *worker) open(ctx context.Context) error {
	if w.repo != nil {
		return nil
	}
	if w.c.o.Off {
		return gitrepo.ErrNone
	}
	repo, err := gitrepo.Open(ctx, gitrepo.Options{Dir: w.c.o.Dir, Private: w.path(reposName), Remote: w.c.o.Remote, Token: w.c.o.Token, Logger: w.c.o.Logger, At: w.c.o.At})
	if errors.Is(err, gitrepo.ErrNone) {
		if w.tryAt.IsZero() {
			w.c.o.Logger.Info("the folder has no git repository, so changes of turns are not committed", "folder", w.c.o.Dir, "hint", "git init makes one; it is found without a restart")
		}
		w.tryAt = time.Now()
		return err
	}
	if err != nil {
		return err
	}
	w.repo = repo
	w.c.set(func(s *state) { s.repo = true })
	w.c.s.use(repo)
	return nil
}

// without is a round where there is no repository: lines are written, and nothing is committed.
func (w *worker) without(ctx context.Context) error {
	w.c.set(func(s *state) { s.repo = false })
	w.jobs = nil
	for _, r := range w.c.takeRequests() {
		if err := gitrepo.AppendLine(w.c.o.Dir, RequestsFile, r.Line, r.again); err != nil {
			w.c.putRequest(r)
			return err
		}
		w.c.finished(ctx, r)
	}
	return w.save(w.c.o.Now())
}

// before reports whether an earlier process has made the commit with a trailer.
func (w *worker) before(ctx context.Context, key, value string) (bool, error) {
	if w.made[key] == nil {
		found, err := w.repo.Trailers(ctx, key, w.cutoff.Add(-7*24*time.Hour))
		if err != nil {
			return false, err
		}
		w.made[key] = found
	}
	return w.made[key][value], nil
}

// commit makes the commit of a job.
func (w *worker) commit(ctx context.Context, j job) error {
	if j.unsure {
		if made, err := w.before(ctx, j.key, j.value); err != nil || made {
			return err
		}
	}
	var also []string
	made, err := w.repo.Commit(ctx, gitrepo.Commit{
		Paths: []string{j.folder}, Author: w.author(j.folder), When: j.at.Local(),
		Except: func(ctx context.Context) (files []string, err error) {
			files, also, err = w.except(ctx, j)
			return files, err
		},
		Message: func(files []string) string { return j.message(files, also) },
	})
	if parley.CodeOf(err) == parley.CodeInvalid && err != nil {
		w.c.o.Logger.Error("commits of turns: the changes of a turn cannot be committed", "turn", j.value, "folder", j.folder, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	if made.Hash != "" {
		w.c.o.Logger.Info("the changes of a turn were committed", "turn", j.value, "commit", made.Hash[:10], "files", len(made.Files))
		w.c.s.pushSoon()
	}
	return w.ignored(ctx, j, made.Files)
}

// ignored says which files of a job git ignores: nobody finds them in a commit.
func (w *worker) ignored(ctx context.Context, j job, made []string) error {
	var rest []string
	for name := range j.paths {
		if name = j.folder + "/" + name; !slices.Contains(made, name) {
			rest = append(rest, name)
		}
	}
	list, err := w.repo.Ignored(ctx, rest)
	if err != nil || len(list) == 0 {
		return err
	}
	w.c.o.Logger.Warn("files that a turn changed are not committed, since git ignores them", "turn", j.value, "files", list[:min(len(list), maxListed)], "of", len(list),
		"hint", "a .gitignore names them; take them out of it if their changes are to be kept")
	return nil
}

func (w *worker) author(folder string) gitrepo.Ident {
	if w.c.o.Author != nil {
		if id := w.c.o.Author(folder); id.Name != "" {
			return id
		}
	}
	if id, err := gitrepo.ParseIdent(w.repo.User().String()); err == nil {
		return id
	}
	return gitrepo.Ident{Name: "Parley", Email: "parley@localhost"}
}

const (
	maxSubject = 72
	maxListed  = 30
)

// message is what was asked, the files, and what identifies the commit.
func (j job) message(files, also []string) string {
	var b strings.Builder
	subject := strings.Join(strings.Fields(j.subject), " ")
	if subject == "" {
		subject = "Changes of a turn"
	}
	if j.status != "" && j.status != "completed" {
		subject = "[" + j.status + "] " + subject
	}
	b.WriteString(parley.Cut(subject, maxSubject) + "\n\n")
	if j.status == "failed" || j.status == "cancelled" || j.status == "expired" {
		fmt.Fprintf(&b, "The turn %s before it was done. These are its changes until then.\n\n", map[string]string{"failed": "failed", "cancelled": "was cancelled", "expired": "expired"}[j.status])
	}
	for i, f := range files {
		if i == maxListed {
			fmt.Fprintf(&b, "- and %d more\n", len(files)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '?'
			}
			return r
		}, strings.TrimPrefix(f, j.folder+"/")))
	}
	fmt.Fprintf(&b, "\n%s: %s\nParley-Session: %s\n", j.key, j.value, j.session)
	if j.status != "" {
		fmt.Fprintf(&b, "Parley-Status: %s\n", j.status)
	}
	for _, name := range slices.Compact(also) {
		fmt.Fprintf(&b, "Parley-Also: %s\n", name)
	}
	return b.String()
}
