package gitrepo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/gitrepo"
)

// serverVariable has this program work as a server would.
const serverVariable = "GITREPO_TEST_SERVER"

// turns is what such a server does: it writes files into a folder, one after the other, commits each
// and pushes.
type turns struct {
	Vault, Private, Folder string
	N                      int
}

func server(spec string) int {
	var s turns
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		panic(err)
	}
	ctx := context.Background()
	var r *gitrepo.Repo
	for i := 0; i < s.N; {
		if err := s.turn(ctx, &r, i); err != nil {
			fmt.Fprintf(os.Stderr, "%s %d: %v\n", s.Folder, i, err)
			time.Sleep(20 * time.Millisecond)
			continue
		}
		i++
	}
	return 0
}

// turn is idempotent, as the follower of a log is.
func (s turns) turn(ctx context.Context, r **gitrepo.Repo, i int) (err error) {
	if *r == nil {
		if *r, err = gitrepo.Open(ctx, gitrepo.Options{Dir: s.Vault, Private: s.Private}); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s/%d.md", s.Folder, i)
	if _, err := os.Stat(filepath.Join(s.Vault, name)); err != nil {
		if err := os.MkdirAll(filepath.Join(s.Vault, s.Folder), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.Vault, name), []byte(name+"\n"), 0o644); err != nil {
			return err
		}
	}
	c := plain(name, s.Folder)
	c.When = time.Now()
	if _, err := (*r).Commit(ctx, c); err != nil {
		return err
	}
	line := "- " + name
	found, err := (*r).Trailers(ctx, "Parley-Call", day.AddDate(-1, 0, 0))
	if err != nil {
		return err
	}
	if !found[name] {
		c.Message = func([]string) string { return "Log " + name + "\n\nParley-Call: " + name }
		if _, err := (*r).Append(ctx, "claude/webfetch_logs/requests.md", line, true, c); err != nil {
			return err
		}
	}
	_, err = (*r).Push(ctx)
	return err
}

// TestTogether: two servers work in one folder, a third one in a clone, and a person pushes from another,
// all at once. One server is killed and started again, over and over. Nothing is lost, and nothing is
// there twice.
func TestTogether(t *testing.T) {
	t.Parallel()
	const n = 5
	g := newRig(t)
	clone := filepath.Join(filepath.Dir(g.vault), "clone")
	git(t, filepath.Dir(g.vault), "clone", "-q", g.remote, clone)
	var all sync.WaitGroup
	kills := 0
	for _, s := range []turns{{g.vault, t.TempDir(), "sebastian", n}, {g.vault, t.TempDir(), "petra", n}, {clone, t.TempDir(), "max", n}} {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, 2))
			for again := true; again; {
				raw, err := json.Marshal(s)
				if err != nil {
					t.Error(err)
					return
				}
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), serverVariable+"="+string(raw))
				cmd.Stderr = t.Output()
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				again = false
				if s.Folder == "sebastian" && kills < 8 {
					kills++
					again = true
					time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond) // a real process, which is somewhere by then
					_ = cmd.Process.Kill()
				}
				_ = cmd.Wait()
			}
		})
	}
	all.Go(func() {
		for i := range n {
			write(t, g.person, fmt.Sprintf("ana/%d.md", i), "ana\n")
			_, err := tryGit(g.person, "add", ".")
			if err == nil {
				_, err = tryGit(g.person, "commit", "-q", "-m", fmt.Sprintf("ana/%d.md", i))
			}
			if err != nil {
				t.Error(err)
				return
			}
			for tries := 0; ; tries++ {
				_, err := tryGit(g.person, "pull", "-q", "--rebase")
				if err == nil {
					if _, err = tryGit(g.person, "push", "-q", "origin", "HEAD:main"); err == nil {
						break
					}
				}
				if tries > 300 {
					t.Error(err)
					return
				}
			}
		}
	})
	all.Wait()
	if kills < 8 {
		t.Errorf("only %d kills", kills)
	}
	g.open()
	g.pull() // what others pushed after the last turn here
	g.push()
	g.clean()
	subjects := log(t, g.remote, "main")
	lines := strings.Split(strings.TrimSpace(read(t, g.vault, "claude/webfetch_logs/requests.md")), "\n")
	for _, folder := range []string{"sebastian", "petra", "max", "ana"} {
		for i := range n {
			name := fmt.Sprintf("%s/%d.md", folder, i)
			if read(t, g.vault, name) == "(none)" && folder != "ana" || !slices.Contains(subjects, name) {
				t.Errorf("%s is lost", name)
			}
			if folder == "ana" {
				continue
			}
			if c := count(lines, "- "+name); c != 1 {
				t.Errorf("the log has %d lines of %s", c, name)
			}
			if c := count(subjects, "Log "+name); c != 1 {
				t.Errorf("there are %d commits of the line of %s", c, name)
			}
			if c := count(subjects, name); c != 1 {
				t.Errorf("there are %d commits of %s", c, name)
			}
		}
	}
	if here, there := git(t, g.vault, "rev-parse", "main"), git(t, g.remote, "rev-parse", "main"); here != there {
		t.Errorf("here is %s, the remote has %s", here, there)
	}
	for _, at := range []string{g.vault, g.remote, clone} {
		git(t, at, "fsck", "--strict")
	}
	if kept := git(t, g.remote, "for-each-ref", "refs/heads/parley/"); kept != "" {
		t.Errorf("something did not fit: %s", kept)
	}
}

func count(list []string, text string) (n int) {
	for _, s := range list {
		if s == text {
			n++
		}
	}
	return n
}
