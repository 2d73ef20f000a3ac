package lake_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// longVariable says how long the test of this file is to take, over a lake of 5,000 entities.
const longVariable = "PARLEY_LAKE_LONG"

// fill makes a lake of n entities with links, tags and front matter.
func fill(t testing.TB, dir string, n int) {
	t.Helper()
	topics := []string{"pricing", "onboarding", "hiring", "security", "roadmap", "travel", "support", "billing"}
	name := func(i int) string {
		topic := topics[i%len(topics)]
		return fmt.Sprintf("%s/%s/%s-%04d.md", []string{"docs", "lake", "lake", "roles"}[i%4], topic, topic, i)
	}
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, "---\ntitle: %s %d\nkind: note\ntags: [%s, year-%d]\nowner: %s\nstatus: draft\ncreated: 2026-%02d-%02d\n---\n\n", topics[i%len(topics)], i, topics[i%len(topics)], 2020+i%7, []string{"ana", "bo", "cy"}[i%3], i%12+1, i%28+1)
		r := rand.New(rand.NewPCG(1, uint64(i)))
		for p := range 6 {
			fmt.Fprintf(&b, "## Part %d\n\nWhat we know about %s in part %d of number %d. ", p, topics[r.IntN(len(topics))], p, i)
			for range 40 {
				fmt.Fprintf(&b, "word%d ", r.IntN(4000))
			}
			other := r.IntN(n)
			fmt.Fprintf(&b, "See [[%s]].\n\n", strings.TrimSuffix(filepath.Base(name(other)), ".md"))
		}
		at := filepath.Join(dir, filepath.FromSlash(name(i)))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(b.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// crowd is those who work in one lake at the same time.
type crowd struct {
	*rig
	until   func() bool
	mu      sync.Mutex
	reasons map[string]int // of the changes that were made
	conf    atomic.Int64   // changes that were refused because somebody else was first
}

func (c *crowd) made(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reasons[reason]++
}

// work works in a lake until it is time to stop: with entities of its own, and with one that all change.
func (c *crowd) work(ctx context.Context, l *lake.Lake, who int) error {
	by := lake.Author{Name: fmt.Sprintf("Writer %d", who), Email: "w@example.com"}
	at := ""
	for n := 0; c.until(); n++ {
		reason := fmt.Sprintf("change %d of writer %d", n, who)
		ch := lake.Change{Author: by, Reason: reason, Key: fmt.Sprintf("w%d-%d", who, n)}
		var err error
		switch {
		case n%5 == 0:
			at = fmt.Sprintf("lake/w%d/n%d.md", who, n)
			ch.Path, ch.Body = at, fmt.Sprintf("# Note %d of %d\n\n[[shared]]\n", n, who)
			_, err = l.Create(ctx, ch)
		case n%5 == 3:
			ch.Path, ch.To = at, fmt.Sprintf("lake/w%d/moved/n%d.md", who, n)
			if _, err = l.Move(ctx, ch); err == nil {
				at = ch.To
			}
		case n%5 == 4:
			ch.Path = at
			_, err = l.Delete(ctx, ch)
		default:
			// All change one entity, each in a part of its own, based on what they have read; some of it is merged.
			name := at
			if n%5 == 2 {
				name = "lake/shared.md"
			}
			e, rerr := l.Read(ctx, name)
			if rerr != nil {
				return rerr
			}
			ch.Path, ch.Base = name, e.Version
			if name == at {
				ch.Body = e.Body + reason + "\n"
			} else {
				part := fmt.Sprintf("## Writer %d\n\n", who)
				ch.Body = strings.Replace(e.Body, part, part+"- "+reason+"\n", 1)
			}
			if _, err = l.Update(ctx, ch); code(err) == parley.CodeConflict {
				c.conf.Add(1)
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", reason, err)
		}
		c.made(reason)
	}
	return nil
}

// again repeats what somebody's git may refuse while others are at it.
func again(f func() error) (err error) {
	for range 500 {
		if err = f(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// pushes has a person commit in a clone and push to the remote.
func (c *crowd) pushes(clone, who string) error {
	for n := 0; c.until(); n++ {
		reason := fmt.Sprintf("push %d of %s", n, who)
		name := filepath.Join(clone, "docs", who, fmt.Sprintf("n%d.md", n))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("# "+reason+"\n\n[[shared]]\n"), 0o644)); err != nil {
			return err
		}
		for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", reason}} {
			if _, err := tryGit(clone, args...); err != nil {
				return err
			}
		}
		if err := again(func() error {
			if _, err := tryGit(clone, "pull", "-q", "--rebase"); err != nil {
				return err
			}
			_, err := tryGit(clone, "push", "-q")
			return err
		}); err != nil {
			return err
		}
		c.made(reason)
	}
	return nil
}

// commits has a person work in the folder itself, with git.
func (c *crowd) commits(who string) error {
	for n := 0; c.until(); n++ {
		reason := fmt.Sprintf("commit %d of %s", n, who)
		name := fmt.Sprintf("docs/%s/n%d.md", who, n)
		at := filepath.Join(c.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("# "+reason+"\n"), 0o644)); err != nil {
			return err
		}
		if err := again(func() error { _, err := tryGit(c.dir, "add", name); return err }); err != nil {
			return err
		}
		if err := again(func() error { _, err := tryGit(c.dir, "commit", "-q", "-m", reason, "--", name); return err }); err != nil {
			return err
		}
		c.made(reason)
		time.Sleep(30 * time.Millisecond)
	}
	return nil
}

// TestLake5000: four writers, two of them in processes of their own, a person who pushes to the
// remote that the lake is synced with, and one who commits in the folder, all at once. Every change is in the history once, and the index is as a new one. By default
// it is a lake of 200 entities and takes a few seconds; with PARLEY_LAKE_LONG=1m it is the whole.
func TestLake5000(t *testing.T) {
	entities, within, most := 200, 2*time.Second, int64(70)
	if v := os.Getenv(longVariable); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		entities, within, most = 5000, d, 1<<40
	} else {
		t.Parallel()
	}
	g := &rig{t: t, dir: memory(t)}
	fill(t, g.dir, entities)
	g.write("lake/shared.md", "# Shared\n\n## Writer 0\n\n- none\n\n## Writer 1\n\n- none\n\n## Writer 2\n\n- none\n\n## Writer 3\n\n- none\n")
	remote, clones := memory(t), memory(t)
	g.git("init", "-q", "-b", "main")
	g.git("add", ".")
	g.git("commit", "-q", "-m", "begin")
	git(t, remote, "init", "-q", "--bare", "-b", "main")
	g.git("remote", "add", "origin", remote)
	g.git("push", "-q", "-u", "origin", "main")
	git(t, clones, "clone", "-q", remote, "far")
	g.open(lake.Options{Fresh: time.Second})
	var n atomic.Int64
	late := time.Now().Add(within)
	c := &crowd{rig: g, reasons: map[string]int{}, until: func() bool { return n.Add(1) <= most && time.Now().Before(late) }}
	began := time.Now()
	lakes := []*lake.Lake{g.Lake, g.Lake}
	for range 2 {
		other := &rig{t: t, dir: g.dir}
		other.open(lake.Options{Fresh: time.Second})
		lakes = append(lakes, other.Lake)
	}
	var wg sync.WaitGroup
	run := func(what string, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	ctx := t.Context()
	for i, l := range lakes {
		run(fmt.Sprint("writer ", i), func() error { return c.work(ctx, l, i) })
	}
	run("far", func() error { return c.pushes(filepath.Join(clones, "far"), "far") })
	run("here", func() error { return c.commits("here") })
	run("sync", func() error {
		for c.until() {
			if _, err := g.Sync(ctx); err != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	})
	wg.Wait()
	if _, err := g.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	seen := map[string]int{}
	for _, s := range strings.Split(strings.TrimSpace(g.git("log", "--format=%s", "main")), "\n") {
		seen[s]++
	}
	for reason := range c.reasons {
		if seen[reason] != 1 {
			t.Errorf("%q is in the history %d times", reason, seen[reason])
		}
	}
	g.clean()
	if git(t, remote, "rev-parse", "main") != g.git("rev-parse", "main") {
		t.Error("the remote has not everything")
	}
	shared := g.file("lake/shared.md")
	for reason := range c.reasons {
		var k, who int
		if _, err := fmt.Sscanf(reason, "change %d of writer %d", &k, &who); err == nil && k%5 == 2 && strings.Count(shared, "- "+reason+"\n") != 1 {
			t.Errorf("%q is not in the entity that all change", reason)
		}
	}
	feed, cursor := 0, ""
	for {
		f, err := g.Changes(ctx, cursor, lake.Page{Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		feed += len(f.Changes)
		if cursor = f.Cursor; !f.More {
			break
		}
	}
	if commits := strings.Count(g.git("log", "--first-parent", "--format=%h", "main"), "\n"); feed != commits {
		t.Errorf("the feed has %d changes, the branch %d", feed, commits)
	}
	for _, l := range lakes[1:] {
		g.Lake = l
		l.Touch()
		g.sameAsNew("in the end")
	}
	git(t, g.dir, "fsck", "--strict")
	t.Logf("%d entities, %s: %d changes by all, %d refused because somebody else was first", entities, took.Round(time.Millisecond), len(c.reasons), c.conf.Load())
	if os.Getenv(longVariable) != "" {
		g.speed()
	}
}

// TestPushIntoFolder: while the repository lets others push into the lake's folder, which git does without a lock, changes are refused, and
// the message says what to do. Four writers and a person who pushes lose nothing, neither of the history nor of the files.
func TestPushIntoFolder(t *testing.T) {
	t.Parallel()
	g := newRig(t, "README.md", "# Lake\n")
	made := map[string]bool{"first.md": true}
	create := func(name string) error {
		_, err := g.Create(t.Context(), lake.Change{Path: name, Body: "# " + name + "\n", Author: ana, Reason: name})
		return err
	}
	if err := create("first.md"); err != nil {
		t.Fatal(err)
	}
	clones := memory(t)
	git(t, clones, "clone", "-q", g.dir, "far")
	far := filepath.Join(clones, "far")
	g.git("config", "receive.denyCurrentBranch", "updateInstead")
	pushed := make(chan struct{})
	var writers sync.WaitGroup
	for who := range 4 {
		writers.Go(func() {
			for {
				err := create(fmt.Sprintf("lake/w%d.md", who))
				if code(err) != parley.CodeConflict || !strings.Contains(err.Error(), "receive.denyCurrentBranch is updateInstead") {
					t.Errorf("writer %d: %v", who, err)
					return
				}
				select {
				case <-pushed:
					return
				default:
				}
			}
		})
	}
	for n := range 3 {
		name := fmt.Sprintf("docs/push%d.md", n)
		if err := errors.Join(os.MkdirAll(filepath.Join(far, "docs"), 0o755), os.WriteFile(filepath.Join(far, name), []byte("# "+name+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		git(t, far, "add", "-A")
		git(t, far, "commit", "-q", "-m", name)
		git(t, far, "push", "-q")
		made[name] = true
	}
	close(pushed)
	writers.Wait()
	if e := g.read("docs/push2.md"); e.Title != "docs/push2.md" {
		t.Errorf("what was pushed is read as %+v", e)
	}
	g.git("config", "--unset", "receive.denyCurrentBranch")
	for who := range 4 {
		name := fmt.Sprintf("lake/w%d.md", who)
		if err := create(name); err != nil {
			t.Fatal(err)
		}
		made[name] = true
	}
	g.clean()
	log := "\n" + g.git("log", "--format=%s") + "\n"
	for name := range made {
		if strings.Count(log, "\n"+name+"\n") != 1 || g.file(name) != "# "+name+"\n" {
			t.Errorf("%s is in the history %d times, and is %q", name, strings.Count(log, "\n"+name+"\n"), g.file(name))
		}
	}
}

// speed measures searches.
func (g *rig) speed() {
	var took []time.Duration
	for i := range 400 {
		began := time.Now()
		if _, err := g.Search(g.t.Context(), lake.Query{Text: searches[i%len(searches)]}, lake.Page{Limit: 20}); err != nil {
			g.t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	g.t.Logf("search: p50 %s, p95 %s, max %s", took[len(took)/2], took[len(took)*95/100], took[len(took)-1])
	if p50 := took[len(took)/2]; p50 > 20*time.Millisecond {
		g.t.Errorf("half of the searches take more than %s", p50)
	}
}
