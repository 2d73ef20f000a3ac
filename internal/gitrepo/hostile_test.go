package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/gitrepo"
)

// trap is a repository in which something wants to be run. A program that is run adds a line to the
// marker.
type trap struct {
	*rig
	evil   string // a program
	marker string
}

// config adds to the repository's configuration.
func (h trap) config(text string) {
	h.append(".git/config", strings.ReplaceAll(text, "EVIL", h.evil)+"\n")
}

func (h trap) append(name, text string) {
	write(h.t, h.vault, name, strings.TrimPrefix(read(h.t, h.vault, name), "(none)")+text)
}

// hook puts the program where a hook is looked for.
func (h trap) hook(dir string, names ...string) {
	for _, name := range names {
		write(h.t, dir, name, "#!/bin/sh\n"+h.evil+"\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h trap) runs() int {
	return strings.Count(strings.TrimPrefix(read(h.t, h.marker, "runs"), "(none)"), "\n")
}

// traps are ways to have git run a program. noted says that a person's git falls into it, with the
// commands that this test has it run.
var traps = map[string]struct {
	set   func(h trap)
	noted bool
}{
	"hooks":                      {noted: true, set: func(h trap) { h.hook(h.vault+"/.git/hooks", allHooks...) }},
	"core.hooksPath":             {noted: true, set: func(h trap) { h.hook(h.vault+"/hooks", allHooks...); h.config("[core]\nhooksPath = hooks") }},
	"core.fsmonitor":             {noted: true, set: func(h trap) { h.config("[core]\nfsmonitor = EVIL") }},
	"core.sshCommand":            {noted: true, set: func(h trap) { h.config("[core]\nsshCommand = EVIL"); h.remoteURL("ssh://git@127.0.0.1:1/x") }},
	"core.gitProxy":              {noted: true, set: func(h trap) { h.config("[core]\ngitProxy = EVIL"); h.remoteURL("git://127.0.0.1:1/x") }},
	"core.askPass":               {set: func(h trap) { h.config("[core]\naskPass = EVIL"); h.remoteURL("http://127.0.0.1:1/x") }},
	"core.pager":                 {set: func(h trap) { h.config("[core]\npager = EVIL\n[pager]\nlog = true\nstatus = true") }},
	"core.editor":                {noted: true, set: func(h trap) { h.config("[core]\neditor = EVIL\n[sequence]\neditor = EVIL") }},
	"core.alternateRefsCommand":  {noted: true, set: func(h trap) { h.config("[core]\nalternateRefsCommand = EVIL"); h.alternates() }},
	"alternates of a repository": {set: func(h trap) { h.alternates() }},
	"filter clean":               {noted: true, set: func(h trap) { h.filter("clean") }},
	"filter smudge":              {noted: true, set: func(h trap) { h.filter("smudge") }},
	"filter process":             {noted: true, set: func(h trap) { h.filter("process") }},
	"filter required":            {noted: true, set: func(h trap) { h.filter("clean"); h.config("[filter \"x\"]\nrequired = true") }},
	"filter of info/attributes": {noted: true, set: func(h trap) {
		h.append(".git/info/attributes", "*.md filter=x\n")
		h.config("[filter \"x\"]\nclean = EVIL\nsmudge = EVIL")
	}},
	"filter of core.attributesFile": {noted: true, set: func(h trap) {
		h.append(".git/attrs", "*.md filter=x\n")
		h.config("[core]\nattributesFile = .git/attrs\n[filter \"x\"]\nclean = EVIL\nsmudge = EVIL")
	}},
	"diff.external":       {noted: true, set: func(h trap) { h.config("[diff]\nexternal = EVIL") }},
	"diff driver command": {noted: true, set: func(h trap) { h.append(".gitattributes", "*.md diff=x\n"); h.config("[diff \"x\"]\ncommand = EVIL") }},
	"diff driver textconv": {noted: true, set: func(h trap) {
		h.append(".gitattributes", "*.md diff=x\n")
		h.config("[diff \"x\"]\ntextconv = EVIL\ncachetextconv = true")
	}},
	"merge driver": {noted: true, set: func(h trap) {
		h.append(".gitattributes", "*.md merge=x\n")
		h.config("[merge \"x\"]\ndriver = EVIL %A %O %B")
	}},
	"merge.default": {noted: true, set: func(h trap) { h.config("[merge]\ndefault = x\n[merge \"x\"]\ndriver = EVIL %A %O %B") }},
	"mergetool": {set: func(h trap) {
		h.config("[merge]\ntool = x\n[mergetool \"x\"]\ncmd = EVIL\n[diff]\ntool = x\n[difftool \"x\"]\ncmd = EVIL")
	}},
	"credential.helper": {set: func(h trap) { h.config("[credential]\nhelper = !EVIL"); h.remoteURL("http://127.0.0.1:1/x") }},
	"credential of a URL": {set: func(h trap) {
		h.config("[credential \"http://127.0.0.1:1\"]\nhelper = EVIL")
		h.remoteURL("http://127.0.0.1:1/x")
	}},
	"gpg.program": {noted: true, set: func(h trap) { h.config("[commit]\ngpgSign = true\n[push]\ngpgSign = if-asked\n[gpg]\nprogram = EVIL") }},
	"gpg.ssh.program": {noted: true, set: func(h trap) {
		h.config("[commit]\ngpgSign = true\n[gpg]\nformat = ssh\n[gpg \"ssh\"]\nprogram = EVIL\n[user]\nsigningKey = key::x")
	}},
	"log.showSignature": {set: func(h trap) { h.config("[log]\nshowSignature = true\n[gpg]\nprogram = EVIL") }},
	"trailer command":   {set: func(h trap) { h.config("[trailer \"x\"]\nkey = X\ncommand = EVIL\nifmissing = add") }},
	"alias":             {set: func(h trap) { h.config("[alias]\nls-files = !EVIL\nx = !EVIL\nadd = !EVIL\nmerge-tree = !EVIL") }},
	"include.path": {noted: true, set: func(h trap) {
		h.append(".git/more", "[core]\nfsmonitor = "+h.evil+"\n")
		h.config("[include]\npath = more")
	}},
	"includeIf": {noted: true, set: func(h trap) {
		h.append(".git/more", "[core]\nfsmonitor = "+h.evil+"\n")
		h.config("[includeIf \"gitdir:**\"]\npath = more")
	}},
	"config.worktree": {noted: true, set: func(h trap) {
		h.append(".git/config.worktree", "[core]\nfsmonitor = "+h.evil+"\n")
		h.config("[core]\nrepositoryFormatVersion = 1\n[extensions]\nworktreeConfig = true")
	}},
	"core.worktree":      {set: func(h trap) { h.config("[core]\nworktree = /") }},
	"remote.vcs":         {set: func(h trap) { h.hook(h.evil+".d", "git-remote-evil"); h.config("[remote \"origin\"]\nvcs = evil") }},
	"remote.uploadpack":  {noted: true, set: func(h trap) { h.config("[remote \"origin\"]\nuploadpack = EVIL") }},
	"remote.receivepack": {noted: true, set: func(h trap) { h.config("[remote \"origin\"]\nreceivepack = EVIL") }},
	"ext:: as URL":       {noted: true, set: func(h trap) { h.config("[protocol]\nallow = always"); h.remoteURL("ext::sh -c " + h.evil) }},
	"ext:: as push URL":  {noted: true, set: func(h trap) { h.config("[protocol \"ext\"]\nallow = always\n[remote \"origin\"]\npushurl = ext::EVIL") }},
	"url.insteadOf": {noted: true, set: func(h trap) {
		h.config("[protocol \"ext\"]\nallow = always\n[url \"ext::EVIL x\"]\ninsteadOf = ../remote.git")
	}},
	"pushInsteadOf": {noted: true, set: func(h trap) {
		h.config("[protocol \"ext\"]\nallow = always\n[url \"ext::EVIL x\"]\npushInsteadOf = ../remote.git")
	}},
	"URL as an option":     {set: func(h trap) { h.remoteURL("--upload-pack=" + h.evil) }},
	"host as an option":    {set: func(h trap) { h.remoteURL("ssh://-oProxyCommand=" + h.evil + "/x") }},
	"remote's hooks":       {noted: true, set: func(h trap) { h.hook(h.remote+"/hooks", allHooks...) }},
	"remote's hooksPath":   {noted: true, set: func(h trap) { h.hook(h.remote+"/h", allHooks...); h.remoteConfig("[core]\nhooksPath = h") }},
	"remote's packObjects": {set: func(h trap) { h.remoteConfig("[uploadpack]\npackObjectsHook = EVIL") }},
	"remote's alternates": {noted: true, set: func(h trap) {
		h.remoteConfig("[core]\nalternateRefsCommand = EVIL")
		write(h.t, h.remote, "objects/info/alternates", h.alternate()+"\n")
	}},
	"submodule update":      {noted: true, set: func(h trap) { h.submodule("update = !EVIL") }},
	"submodule's fsmonitor": {noted: true, set: func(h trap) { h.submodule("") }},
	"nested repository": {set: func(h trap) {
		git(h.t, h.vault, "init", "-q", "sebastian/nested")
		write(h.t, h.vault, "sebastian/nested/.git/config", "[core]\nfsmonitor = "+h.evil+"\n")
	}},
	"sequencer":                       {set: func(h trap) { write(h.t, h.vault, ".git/rebase-merge/git-rebase-todo", "exec "+h.evil+"\n") }},
	"post-index-change of the person": {noted: true, set: func(h trap) { h.hook(h.vault+"/.git/hooks", "post-index-change", "reference-transaction") }},
}

var allHooks = strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase post-checkout
	post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate
	fsmonitor-watchman p4-changelist post-index-change`)

func (h trap) remoteURL(url string) { git(h.t, h.vault, "config", "remote.origin.url", url) }

func (h trap) filter(kind string) {
	h.append(".gitattributes", "*.md filter=x\n")
	h.config("[filter \"x\"]\n" + kind + " = EVIL")
}

func (h trap) remoteConfig(text string) {
	write(h.t, h.remote, "config", read(h.t, h.remote, "config")+strings.ReplaceAll(text, "EVIL", h.evil)+"\n")
}

// alternate is the folder of objects of another repository, in which there are traps, too.
func (h trap) alternate() string {
	at := h.evil + ".alternate"
	if _, err := os.Stat(at); err != nil {
		git(h.t, h.vault, "clone", "-q", "--bare", h.remote, at)
		h.hook(at+"/hooks", allHooks...)
		write(h.t, at, "config", read(h.t, at, "config")+"[core]\nfsmonitor = "+h.evil+"\n[alias]\nfor-each-ref = !"+h.evil+"\n")
	}
	return at + "/objects"
}

func (h trap) alternates() { h.append(".git/objects/info/alternates", h.alternate()+"\n") }

// submodule makes one whose own configuration has a trap.
func (h trap) submodule(more string) {
	git(h.t, h.vault, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", h.remote, "sebastian/sub")
	git(h.t, h.vault, "commit", "-q", "-m", "submodule")
	write(h.t, h.vault, ".git/modules/sebastian/sub/config", read(h.t, h.vault, ".git/modules/sebastian/sub/config")+"[core]\nfsmonitor = "+h.evil+"\n")
	h.config("[submodule]\nrecurse = true\n[submodule \"sebastian/sub\"]\n" + more)
}

// TestHostile: whatever a repository says, nothing is run. And the traps do work: a person's git, with
// the same commands in the same repository, falls into most of them.
func TestHostile(t *testing.T) {
	t.Parallel()
	if len(traps) < 40 {
		t.Fatalf("there are only %d traps", len(traps))
	}
	for name, c := range traps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := set(t, c.set)
			h.open() // again, with what was set
			made, err := h.repo.Commit(t.Context(), plain("ours", "sebastian"))
			if err != nil || len(made.Files) == 0 {
				t.Logf("the commit says %q, %v", made.Files, err)
			}
			if _, err := h.repo.Commit(t.Context(), plain("more", "petra")); err != nil {
				t.Log(err)
			}
			for what, do := range map[string]func() error{
				"change": func() error {
					_, err := h.repo.Change(t.Context(), gitrepo.Change{Author: parley, When: day, Message: func([]string) string { return "change" }, Plan: func(ctx context.Context, b gitrepo.Base) (p gitrepo.Plan, err error) {
						body, _, err := b.Read(ctx, "petra/p.md", nil, 1<<20)
						p.Edits = []gitrepo.Edit{{Path: "petra/p.md", Body: append(body, "more\n"...)}, {Path: "petra/new.md", Body: []byte("new\n")}}
						return p, err
					}})
					return err
				},
				"since": func() error {
					list, _, _, err := h.repo.Since(t.Context(), "", 10)
					if err == nil && len(list) > 0 {
						_, err = h.repo.Contents(t.Context(), list[len(list)-1].Hash, 10, 1<<20)
					}
					return err
				},
				"keyed":    func() error { _, err := h.repo.Keyed(t.Context(), "Parley-Turn", "ours"); return err },
				"pull":     func() error { _, err := h.repo.Pull(t.Context()); return err },
				"push":     func() error { _, err := h.repo.Push(t.Context()); return err },
				"state":    func() error { _, err := h.repo.State(t.Context()); return err },
				"reach":    func() error { _, err := h.repo.Reach(t.Context()); return err },
				"trailers": func() error { _, err := h.repo.Trailers(t.Context(), "Parley-Turn", day); return err },
				"tidy":     func() error { return h.repo.Tidy(t.Context()) },
			} {
				if err := do(); err != nil {
					t.Logf("%s: %v", what, err)
				}
			}
			if n := h.runs(); n > 0 {
				t.Errorf("%d programs were run: %s", n, read(t, h.marker, "runs"))
			}
			if name != "sequencer" && !strings.Contains(git(t, h.vault, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "log", "--format=%s", "--no-show-signature", "main"), "ours") {
				t.Error("nothing was committed")
			}
		})
		t.Run(name+" of a person", func(t *testing.T) {
			t.Parallel()
			h := set(t, c.set)
			for _, args := range []string{
				"status", "diff", "add -A", "commit -m ours", "commit --amend", "fetch", "-c protocol.file.allow=always pull --no-rebase --no-edit", "push", "checkout -q HEAD~1 -- sebastian", "log -p -3",
			} {
				_, _ = tryGit(h.vault, strings.Fields(args)...)
			}
			if n := h.runs(); (n > 0) != c.noted {
				t.Errorf("%d programs were run", n)
			}
		})
	}
}

// set makes a repository with a trap, in which something has changed here and elsewhere.
func set(t *testing.T, f func(trap)) trap {
	t.Helper()
	g := quickRig(t, theirs(t))
	dir := memory(t)
	h := trap{rig: g, evil: filepath.Join(dir, "evil"), marker: dir}
	write(t, dir, "evil", fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >> %s/runs\n", dir))
	if err := os.Chmod(h.evil, 0o755); err != nil {
		t.Fatal(err)
	}
	f(h)
	write(t, g.vault, "sebastian/a.md", "zero\none\ntwo\nthree\n")
	write(t, g.vault, "sebastian/b.md", "b\n")
	write(t, g.vault, "petra/p.md", "o\np\n")
	return h
}

// TestUnsafeParts: a repository with parts that are elsewhere is not worked with.
func TestUnsafeParts(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(t *testing.T, g *rig){
		"a file .git": func(t *testing.T, g *rig) {
			if err := os.Rename(g.vault+"/.git", g.vault+"/../elsewhere"); err != nil {
				t.Fatal(err)
			}
			write(t, g.vault, ".git", "gitdir: ../elsewhere\n")
		},
		"a link .git": func(t *testing.T, g *rig) { moveAndLink(t, g.vault+"/.git") },
		"refs":        func(t *testing.T, g *rig) { moveAndLink(t, g.vault+"/.git/refs") },
		"objects":     func(t *testing.T, g *rig) { moveAndLink(t, g.vault+"/.git/objects") },
		"HEAD":        func(t *testing.T, g *rig) { moveAndLink(t, g.vault+"/.git/HEAD") },
		"the lock": func(t *testing.T, g *rig) {
			_ = os.Remove(g.vault + "/.git/parley.lock")
			write(t, g.vault, ".git/lock", "")
			if err := os.Symlink("lock", g.vault+"/.git/parley.lock"); err != nil {
				t.Fatal(err)
			}
		},
		"config": func(t *testing.T, g *rig) { moveAndLink(t, g.vault+"/.git/config") },
		"an extension": func(t *testing.T, g *rig) {
			write(t, g.vault, ".git/config", read(t, g.vault, ".git/config")+"[extensions]\nrefStorage = reftable\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			set(t, g)
			_, err := gitrepo.Open(t.Context(), gitrepo.Options{Dir: g.vault, Private: t.TempDir()})
			if err == nil {
				t.Fatal("it is worked with")
			}
			t.Log(err)
		})
	}
}

func moveAndLink(t *testing.T, at string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(at, to); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// TestLinksOutside: what a repository has elsewhere, by links in git's own folder, git neither changes nor repeats. The links are made
// after the repository was opened, as a program could that works in the folder at the same time.
func TestLinksOutside(t *testing.T) {
	t.Parallel()
	if !confine.CanFence() {
		if os.Getenv("CI") != "" {
			t.Fatal("this kernel has no Landlock")
		}
		t.Skip("this kernel has no Landlock")
	}
	const secret = "hunter2"
	from := theirs(t)
	for name, set := range map[string]func(t *testing.T, git, other string){
		"logs":                func(t *testing.T, git, other string) { linkTo(t, other, git+"/logs") },
		"the log of HEAD":     func(t *testing.T, git, other string) { linkTo(t, other+"/new", git+"/logs/HEAD") },
		"the log of a branch": func(t *testing.T, git, other string) { linkTo(t, other+"/file", git+"/logs/refs/heads/main") },
		"shallow":             func(t *testing.T, git, other string) { linkTo(t, other+"/file", git+"/shallow") },
		"packed-refs":         func(t *testing.T, git, other string) { linkTo(t, other+"/file", git+"/packed-refs") },
		"branches":            func(t *testing.T, git, other string) { linkTo(t, other, git+"/refs/heads") },
		"objects": func(t *testing.T, git, other string) {
			for i := range 256 {
				if at := fmt.Sprintf("%s/objects/%02x", git, i); os.Mkdir(at, 0o700) == nil {
					linkTo(t, other, at)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := quickRig(t, from)
			g.open()
			other := memory(t)
			write(t, other, "file", secret+"\n")
			set(t, g.vault+"/.git", other)
			write(t, g.vault, "sebastian/a.md", "changed\n")
			var said []string
			_, err := g.repo.Commit(t.Context(), plain("ours", "sebastian"))
			said = append(said, fmt.Sprint(err))
			_, err = g.repo.Change(t.Context(), gitrepo.Change{Author: parley, When: day, Message: func([]string) string { return "change" }, Plan: func(context.Context, gitrepo.Base) (gitrepo.Plan, error) {
				return gitrepo.Plan{Edits: []gitrepo.Edit{{Path: "petra/new.md", Body: []byte("new\n")}}}, nil
			}})
			said = append(said, fmt.Sprint(err))
			_, err = g.repo.History(t.Context(), "sebastian/a.md", "", 10, nil)
			said = append(said, fmt.Sprint(err))
			_, err = g.repo.Pull(t.Context())
			said = append(said, fmt.Sprint(err))
			if err == nil {
				t.Error("it speaks with a remote")
			}
			_, err = g.repo.Push(t.Context())
			said = append(said, fmt.Sprint(err))
			t.Logf("%q", said)
			if strings.Contains(strings.Join(said, ""), secret) {
				t.Error("the secret is repeated")
			}
			list, err := os.ReadDir(other)
			if err != nil || len(list) != 1 || read(t, other, "file") != secret+"\n" {
				t.Errorf("outside there are %v and %q, %v", list, read(t, other, "file"), err)
			}
		})
	}
}

// linkTo makes a link in the place of something.
func linkTo(t *testing.T, to, at string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(to, at)); err != nil {
		t.Fatal(err)
	}
}
