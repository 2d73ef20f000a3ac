package gitrepo

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// remote is where a branch is pulled from and pushed to.
type remote struct {
	name   string
	url    string // for git
	push   string // for git, if it is another
	branch string // there
	env    []string
}

// tracking is the ref that says where the branch was at the remote when it was last spoken with.
func (m remote) tracking(branch string) string { return "refs/remotes/" + m.name + "/" + branch }

// remoteName is the name of the remote of a branch, or "".
func (r *Repo) remoteName(branch string) string {
	c := r.shadow.conf
	name := r.o.Remote
	if name == "" {
		name = c.upstream[branch][0]
	}
	if name == "" {
		name = "origin"
		if c.remotes[name] == nil && len(c.remotes) == 1 {
			for only := range c.remotes {
				name = only
			}
		}
		if c.remotes[name] == nil {
			return ""
		}
	}
	if name == None || name == "." {
		return ""
	}
	return name
}

// remoteOf finds the remote of a branch; nil: there is none.
func (r *Repo) remoteOf(ctx context.Context, branch string) (*remote, error) {
	name := r.remoteName(branch)
	if name == "" {
		return nil, nil
	}
	hint := "set it with git remote set-url in " + r.dir + "; until then nothing is pushed"
	c := r.shadow.conf.remotes[name]
	if c == nil || c.url == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "the repository has no remote %q", name).WithHint("%s", hint)
	}
	m := &remote{name: name, branch: branch}
	if at := r.shadow.conf.upstream[branch]; at[0] == name && at[1] != "" {
		m.branch = at[1]
	}
	if !isName(name) || !isName(m.branch) {
		return nil, parley.Errorf(parley.CodeInvalid, "the remote %q has a name that is not supported here", parley.Cut(name+"/"+m.branch, 80)).WithHint("%s", hint)
	}
	config := slices.Clone(overrides)
	config = append(config, [2]string{"remote." + name + ".fetch", "+refs/heads/*:refs/remotes/" + name + "/*"})
	for _, u := range []struct {
		url string
		set *string
		key string
	}{{c.url, &m.url, "url"}, {c.push, &m.push, "pushurl"}} {
		if u.url == "" {
			continue
		}
		at, local, err := r.address(u.url)
		if err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "the remote %s has a URL that is not supported here: %w", name, err).WithHint("%s", hint)
		}
		*u.set = at
		config = append(config, [2]string{"remote." + name + "." + u.key, at})
		if !local {
			config = append(config, r.token(at)...)
			continue
		}
		pack, err := r.packs(ctx, at, u.key)
		if err != nil {
			return nil, err
		}
		if u.key == "url" {
			config = append(config, [2]string{"remote." + name + ".uploadpack", pack + "upload-pack"})
		}
		if u.key == "pushurl" || c.push == "" {
			config = append(config, [2]string{"remote." + name + ".receivepack", pack + "receive-pack"})
		}
	}
	m.env = env(filepath.Join(r.private, "home"), config)
	return m, nil
}

var (
	helper = pattern.New(`^[A-Za-z0-9][A-Za-z0-9+.-]*::`)
	scheme = pattern.New(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
)

// address is a URL as git gets it. local: it is the path of a repository on this machine.
func (r *Repo) address(text string) (at string, local bool, err error) {
	switch {
	case strings.HasPrefix(text, "-"), strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }), len(text) > 2000:
		return "", false, errors.New("it is not a URL")
	case helper.MatchString(text):
		return "", false, errors.New("it names a program")
	}
	if m := scheme.FindStringSubmatch(text); m != nil {
		switch strings.ToLower(m[1]) {
		case "https", "http", "ssh", "git":
			u, err := url.Parse(text)
			if err != nil || u.Host == "" || strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-") {
				return "", false, errors.New("it is not a URL")
			}
			return text, false, nil
		case "file":
			u, err := url.Parse(text)
			if err != nil || u.Host != "" && u.Host != "localhost" {
				return "", false, errors.New("it is not a path")
			}
			return r.bare(u.Path)
		}
		return "", false, errors.New("its scheme is none of https, http, ssh, git and file")
	}
	if colon := strings.IndexByte(text, ':'); colon > 0 && !strings.Contains(text[:colon], "/") {
		return text, false, nil // user@host:path, over ssh
	}
	return r.bare(text)
}

// bare finds the repository at a path, as git does.
func (r *Repo) bare(path string) (string, bool, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	for _, at := range []string{filepath.Join(path, ".git"), path, path + ".git"} {
		at, err := filepath.EvalSymlinks(at)
		if err == nil && isGitDir(at) == nil {
			return at, true, nil
		}
	}
	// It may come back, like a disk that is not mounted now.
	return filepath.Clean(path), true, nil
}

// packs is the beginning of the command that git runs for a remote on this machine: there, too, git
// reads a configuration of ours and runs no hooks.
func (r *Repo) packs(ctx context.Context, at, key string) (string, error) {
	if err := isGitDir(at); err != nil {
		return "", parley.Errorf(parley.CodeUnavailable, "the remote is not there, or is no repository: %w", err).WithHint("it is tried again, and commits are kept until then; check that %s is there", at)
	}
	s := &shadow{dir: filepath.Join(r.private, "remote-"+key), gitDir: at, bare: filepath.Base(at) != ".git"}
	if err := s.refresh(ctx, r.prog); err != nil {
		return "", err
	}
	return "GIT_COMMON_DIR=" + inShell(s.dir) + " git -c safe.directory='*' ", nil
}

// inShell is a text as one word of a shell's command.
func inShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// token are the settings with which the token is sent to the host of a URL.
func (r *Repo) token(at string) [][2]string {
	u, err := url.Parse(at)
	if r.o.Token == "" || err != nil || u.Scheme != "https" {
		return nil
	}
	pair := r.o.Token
	if !strings.Contains(pair, ":") {
		pair = "x-access-token:" + pair
	}
	return [][2]string{{"http." + u.Scheme + "://" + u.Host + "/.extraHeader", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(pair))}}
}

// speak runs a command that speaks with a remote.
func (r *Repo) speak(ctx context.Context, m *remote, args ...string) ([]byte, error) {
	p := program{path: r.prog.path, env: m.env}
	if err := r.plain(); err != nil {
		return nil, err
	}
	return p.run(ctx, command{args: args, dir: r.dir, remote: true, env: []string{"GIT_DIR=" + r.gitDir, "GIT_COMMON_DIR=" + r.shadow.dir, "GIT_WORK_TREE=" + r.dir}})
}

// away is the error of a remote that did not do what was asked.
func away(err error) error {
	if parley.CodeOf(err) == parley.CodeUnavailable && errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return parley.Errorf(parley.CodeUnavailable, "the remote does not answer, or refuses: %w", err).
		WithHint("it is tried again, and commits are kept until then; try git push in the folder to see what is wrong")
}
