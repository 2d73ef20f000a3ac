package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// A shadow is a folder of ours that git takes for the common directory of a repository
// (GIT_COMMON_DIR). Its objects and refs are links to the real ones; its configuration is written by
// us, and it has no hooks. So git never reads what the repository's own configuration says, and
// nothing in it can make git run anything. HEAD, the index and the working tree are the real ones.
type shadow struct {
	dir    string // of the shadow
	gitDir string // of the repository
	bare   bool

	stamp string // of the configuration that was read
	conf  conf
}

// conf is what is taken from a repository's configuration.
type conf struct {
	core     [][2]string
	remotes  map[string]*remoteConf
	upstream map[string][2]string // remote and branch, by branch
	user     Ident
	pushed   string // receive.denyCurrentBranch, if it lets others push into the branch that is checked out
}

type remoteConf struct{ url, push string }

// taken are the settings that are copied: they say how files and objects are stored, and git runs
// nothing because of them.
var taken = []string{
	"core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode", "core.autocrlf", "core.eol", "core.sharedrepository",
	"core.trustctime", "core.checkstat", "core.logallrefupdates", "core.compression", "core.loosecompression",
	"receive.denynonfastforwards", "receive.denydeletes", "receive.denycurrentbranch",
}

const (
	maxConfig = 1 << 20 // bytes of a configuration
	maxInfo   = 256 << 10
)

// exclude are files that are never committed: those that package files is about to put into place.
const exclude = "\n.parley-new-*\n"

// attributes make changes of logs that were made in two places at once both stay.
const attributes = "\n/claude/webfetch_logs/requests.md merge=union\n/*/linkedin/posts.csv merge=union\n"

// ErrNone says that a folder is not in the way of having a repository, but has none.
var ErrNone = errors.New("there is no repository")

// plainDir checks that a path is a folder and no link.
func plainDir(path string) error {
	fi, err := os.Lstat(path)
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%s is not a folder", filepath.Base(path))
	}
	return err
}

// isGitDir reports why a folder is not a repository that can be worked with.
func isGitDir(dir string) error {
	for _, name := range []string{"", "objects", "refs"} {
		if err := plainDir(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	fi, err := os.Lstat(filepath.Join(dir, "HEAD"))
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("HEAD is not a file")
	}
	return err
}

// gitDirOf finds the repository of a working tree.
func gitDirOf(dir string) (string, error) {
	at := filepath.Join(dir, ".git")
	fi, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", ErrNone
	case err != nil:
		return "", parley.Errorf(parley.CodeUnavailable, "%w", err)
	case !fi.IsDir():
		return "", parley.Errorf(parley.CodeInvalid, "%s is a file or a link: the repository is elsewhere, as that of a submodule or of a second working tree", at).
			WithHint("use a clone of its own, with a folder .git; until then nothing is committed")
	}
	if err := isGitDir(at); err != nil {
		return "", parley.Errorf(parley.CodeInvalid, "%s is not a whole repository: %w", at, err).WithHint("repair it, or make one with git init; until then nothing is committed")
	}
	return at, nil
}

// refresh makes the shadow, or brings it up to date with the repository.
func (s *shadow) refresh(ctx context.Context, p program) error {
	stamp, err := s.look()
	if err != nil {
		return err
	}
	if stamp == s.stamp {
		return nil
	}
	if err := isGitDir(s.gitDir); err != nil {
		return parley.Errorf(parley.CodeUnavailable, "%s: %w", s.gitDir, err)
	}
	c, err := s.read(ctx, p)
	if err != nil {
		return err
	}
	for _, dir := range []string{s.dir, filepath.Join(s.dir, "info")} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, name := range []string{"objects", "refs", "packed-refs", "logs", "shallow", "worktrees"} {
		if err := link(filepath.Join(s.gitDir, name), filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	if !s.bare { // or git could not make it where the link points to
		if err := os.Mkdir(filepath.Join(s.gitDir, "logs"), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for name, more := range map[string]string{"exclude": exclude, "attributes": attributes} {
		have, err := small(filepath.Join(s.gitDir, "info", name), maxInfo)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := put(filepath.Join(s.dir, "info", name), append(have, more...)); err != nil {
			return err
		}
	}
	if err := put(filepath.Join(s.dir, "config"), c.file(s.bare)); err != nil {
		return err
	}
	s.conf, s.stamp = c, stamp
	return nil
}

// look returns a text that differs when what a shadow is made from has changed.
func (s *shadow) look() (string, error) {
	var b strings.Builder
	for _, name := range []string{"config", "info/exclude", "info/attributes"} {
		fi, err := os.Lstat(filepath.Join(s.gitDir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(&b, "%s -\n", name)
		case err != nil:
			return "", parley.Errorf(parley.CodeUnavailable, "%w", err)
		case time.Since(fi.ModTime()) < 2*time.Second:
			fmt.Fprintf(&b, "%s %d\n", name, time.Now().UnixNano()) // it may change again without looking different
		default:
			fmt.Fprintf(&b, "%s %d %d %v\n", name, fi.Size(), fi.ModTime().UnixNano(), fi.Mode())
		}
	}
	return b.String(), nil
}

// link makes a symbolic link to target, or leaves it.
func link(target, at string) error {
	if now, err := os.Readlink(at); err == nil && now == target {
		return nil
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, at)
}

// put replaces a file of ours.
func put(at string, body []byte) error {
	half := at + ".new"
	if err := os.WriteFile(half, body, 0o600); err != nil {
		return err
	}
	return os.Rename(half, at)
}

// small reads a file that is no link and not larger than most.
func small(at string, most int64) ([]byte, error) {
	f, err := os.OpenFile(filepath.Clean(at), os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", at)
	case fi.Size() > most:
		return nil, fmt.Errorf("%s has more than %d bytes", at, most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// read reads the repository's configuration, as text: git is not in a repository meanwhile, and
// includes nothing.
func (s *shadow) read(ctx context.Context, p program) (c conf, err error) {
	c = conf{remotes: map[string]*remoteConf{}, upstream: map[string][2]string{}}
	raw, err := small(filepath.Join(s.gitDir, "config"), maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, parley.Errorf(parley.CodeUnavailable, "the configuration of the repository cannot be read: %w", err)
	}
	out, err := p.run(ctx, command{args: []string{"config", "--file", "-", "--no-includes", "-z", "--list"}, in: raw, dir: s.dir0(), env: []string{"GIT_DIR=/dev/null"}})
	if err != nil {
		return c, parley.Errorf(parley.CodeInvalid, "the configuration of the repository cannot be read: %w", err)
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if entry == "" {
			continue
		}
		key, value, set := strings.Cut(entry, "\n")
		if !set {
			value = "true"
		}
		if err := c.take(key, value); err != nil {
			return c, err
		}
	}
	return c, nil
}

// dir0 is a folder of ours that is there before the shadow is.
func (s *shadow) dir0() string { return filepath.Dir(s.dir) }

// take copies a setting, if it is one of those that are.
func (c *conf) take(key, value string) error {
	section, rest, _ := strings.Cut(key, ".")
	name, sub := rest, ""
	if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
		sub, name = rest[:dot], rest[dot+1:]
	}
	if key == "receive.denycurrentbranch" {
		c.pushed = pushInto(value)
	}
	switch {
	case slices.Contains(taken, key):
		c.core = append(c.core, [2]string{key, value})
	case key == "core.repositoryformatversion", key == "extensions.noop", key == "extensions.preciousobjects", key == "extensions.worktreeconfig", key == "extensions.relativeworktrees":
	case key == "extensions.objectformat":
		c.core = append(c.core, [2]string{"core.repositoryformatversion", "1"}, [2]string{key, value})
	case key == "extensions.refstorage" && value == "files":
	case section == "extensions":
		return parley.Errorf(parley.CodeInvalid, "the repository has the extension %s, which is not supported here", parley.Cut(name, 60)).
			WithHint("clone it without; until then nothing is committed")
	case section == "remote" && sub != "" && (name == "url" || name == "pushurl"):
		r := c.remotes[sub]
		if r == nil {
			r = &remoteConf{}
			c.remotes[sub] = r
		}
		if name == "url" && r.url == "" {
			r.url = value
		} else if name == "pushurl" && r.push == "" {
			r.push = value
		}
	case section == "branch" && sub != "" && name == "remote":
		c.upstream[sub] = [2]string{value, c.upstream[sub][1]}
	case section == "branch" && sub != "" && name == "merge":
		c.upstream[sub] = [2]string{c.upstream[sub][0], strings.TrimPrefix(value, "refs/heads/")}
	case key == "user.name":
		c.user.Name = value
	case key == "user.email":
		c.user.Email = value
	}
	return nil
}

// pushInto is a value of receive.denyCurrentBranch as git reads it; "": it refuses pushes into the branch that is checked out.
func pushInto(value string) string {
	switch v := strings.ToLower(value); v {
	case "refuse", "true", "yes", "on":
		return ""
	case "ignore", "warn", "updateinstead":
		return parley.Cut(value, 40)
	default:
		if n, err := strconv.Atoi(v); err == nil && n != 0 {
			return ""
		}
		return "ignore" // what git takes for false
	}
}

// pushedInto is the error for changes of a repository that takes pushes into the branch that is checked out. With updateInstead git
// replaces the files before it moves the branch, and holds no lock from one to the other, so what somebody else commits in between would be undone
// in the files. With the other values it moves the branch alone, and the files look as if somebody had undone what was pushed.
func (c conf) pushedInto() error {
	if c.pushed == "" {
		return nil
	}
	return parley.Errorf(parley.CodeConflict, "the repository takes pushes into its own folder (receive.denyCurrentBranch is %s), which can undo what others change in it", c.pushed).
		WithHint("push to another repository and pull from it here, and run git config --unset receive.denyCurrentBranch in the folder; until then nothing is committed")
}

// file is the configuration of a shadow.
func (c conf) file(bare bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = 0\n\tbare = %t\n\tlogAllRefUpdates = %t\n", bare, !bare)
	for _, kv := range c.core {
		section, name, _ := strings.Cut(kv[0], ".")
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, quoted(kv[1]))
	}
	return b.Bytes()
}

var escaped = strings.NewReplacer("\\", `\\`, "\"", `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)

// quoted is a value as a configuration file has it.
func quoted(value string) string { return `"` + escaped.Replace(value) + `"` }

// branchName are the names of branches and remotes that we work with: git allows more, but these
// mean the same wherever they stand.
var branchName = pattern.New(`^[\p{L}\p{N}_][\p{L}\p{N}_.+/@=-]{0,199}$`)

func isName(name string) bool {
	return branchName.MatchString(name) && !strings.Contains(name, "..") && !strings.Contains(name, "//") && !strings.Contains(name, "@{") && !strings.HasSuffix(name, ".lock") &&
		!strings.HasSuffix(name, "/") && !strings.HasSuffix(name, ".") && !strings.Contains(name, "/.") && !strings.Contains(name, ".lock/")
}
