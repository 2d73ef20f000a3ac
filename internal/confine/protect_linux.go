//go:build amd64 || arm64

package confine

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// protect makes unchangeable what in the workspace decides about agents or what git runs, and returns
// what was there, and what the workspace has. It is mounted.
func (m *mounter) protect(j Job) (Start, *survey) {
	if m.err != nil {
		return Start{}, nil
	}
	at := m.root + Workspace
	root, err := os.OpenRoot(at)
	if err != nil {
		m.do(err)
		return Start{}, nil
	}
	defer root.Close() //nolint:errcheck // nothing was written
	s, err := look(at)
	if err != nil {
		m.do(err)
		return Start{}, nil
	}
	p := protection{m: m, g: &guard{root: root, names: true}, host: j.Workspace.Path, done: map[string]bool{}}
	for _, name := range j.Guarded {
		p.fix(name)
	}
	for _, link := range s.links {
		p.fix(link)
		if to, ok := p.g.follow(link); ok {
			s.repos = append(s.repos, to)
		}
	}
	for i := 0; i < len(s.repos); i++ {
		dir := s.repos[i]
		if i > 2*maxRepos {
			m.do(errors.New("the workspace has too many git repositories"))
			break
		}
		if to, ok := p.g.common(dir); ok && !slices.Contains(s.repos, to) {
			s.repos = append(s.repos, to)
		}
		p.repo(dir)
	}
	return p.g.start, s
}

// protection is the work of [mounter.protect].
type protection struct {
	m    *mounter
	g    *guard
	host string // the path of the workspace outside
	done map[string]bool
}

// repo protects a folder that git may take for its own.
func (p *protection) repo(dir string) {
	if dir == ".git" && !p.done[dir] {
		// What is mounted on cannot be renamed, so no other folder takes its place.
		p.done[dir] = true
		p.m.bind(p.m.root+Workspace+"/.git", Workspace+"/.git", 0)
	}
	for _, part := range repoParts {
		name := path.Join(dir, part)
		// What a rebase has to do stays changeable, or it could not go on.
		if strings.HasPrefix(part, "rebase-") && p.g.harmless(dir, part) {
			continue
		}
		if p.fix(name); strings.HasPrefix(part, "config") {
			p.settings(dir, name)
		}
	}
	for _, part := range ownParts { // a person's links may stay
		if name := path.Join(dir, part); p.m.err == nil && p.g.outside(name) {
			p.m.do(p.g.keep(name))
		}
	}
}

// settings protects the files that a configuration names.
func (p *protection) settings(dir, name string) {
	f, err := p.g.root.Open(name)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing was written
	text := make([]byte, maxConfig)
	n, _ := f.Read(text)
	list, must := named(string(text[:max(0, n)]))
	for _, to := range list {
		for _, from := range []string{dir, path.Dir(dir), "."} {
			full := to
			if rest, ok := strings.CutPrefix(to, p.host+"/"); ok {
				full = rest
			} else if path.IsAbs(to) || strings.HasPrefix(to, "~") {
				continue
			} else if full = path.Join(from, to); full == "." || strings.HasPrefix(full, "..") || dir == full || strings.HasPrefix(dir, full+"/") {
				continue
			}
			if !filepath.IsLocal(full) || p.done[full] {
				continue
			}
			info, err := p.g.root.Lstat(full)
			if err == nil && (must[to] || !info.IsDir()) {
				p.name(full)
				if must[to] {
					p.settings(path.Dir(full), full) // what it includes in turn
				}
			} else if must[to] && errors.Is(err, fs.ErrNotExist) {
				p.name(full)
			}
		}
	}
}

// name protects something at its path, whether or not it is there: a folder above may get another name.
func (p *protection) name(full string) {
	if !slices.Contains(p.g.start.Named, full) {
		p.g.start.Named = append(p.g.start.Named, full)
	}
	p.fix(full)
}

// fix makes something that is there unchangeable. A link stays changeable, but a changed one is
// noticed, and so is what it leads to in the workspace.
func (p *protection) fix(name string) {
	if p.m.err != nil || p.done[name] || len(p.done) > 8*maxRepos {
		return
	}
	p.done[name] = true
	info, err := p.g.root.Lstat(name)
	if err != nil {
		return
	}
	if err := p.g.keep(name); err != nil {
		p.m.do(err)
		return
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if to, err := p.g.root.Readlink(name); err == nil && !path.IsAbs(to) {
			if to = path.Join(path.Dir(name), to); to != "." && filepath.IsLocal(to) {
				p.name(to)
			}
		}
		return
	}
	p.m.bind(p.m.root+path.Join(Workspace, name), path.Join(Workspace, name), unix.MOUNT_ATTR_RDONLY)
	// The mount has the identity that was remembered, or something else was there for a moment.
	if p.m.err == nil && !p.g.was(name) {
		p.m.do(errors.New("the workspace changed while the sandbox was made"))
	}
}
