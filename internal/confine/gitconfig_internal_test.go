package confine

import (
	"slices"
	"testing"
)

// TestHarmless: a configuration is harmless only if every line of it is known to be.
func TestHarmless(t *testing.T) {
	t.Parallel()
	inside := func(to string) bool { return to == "../sub" }
	for text, want := range map[string]bool{
		"": true,
		"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n":                                                                    true,
		"[remote \"origin\"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n": true,
		"# a word\n; another\n[user]\n  name = A B\n  email = a@b.c\n":                                                                                                             true,
		"[core]\n\tworktree = ../sub\n":                                                  true,
		"[core]\n\tworktree = /home/person\n":                                            false,
		"[core]\n\tbare\n":                                                               true,
		"[core]\n\tfsmonitor = ./x\n":                                                    false,
		"[CORE]\n\tFSMonitor = ./x\n":                                                    false,
		"[core] fsmonitor = ./x\n":                                                       false,
		"[core]\n\tbare = false \\\n\tfsmonitor = ./x\n":                                 false,
		"[core]\n\tbare = \"false\"\n":                                                   false,
		"[core]\n\thooksPath = x\n":                                                      false,
		"[core]\r\n\tbare = false\r\n":                                                   false,
		"\ufeff[core]\n\tbare = false\n":                                                 false,
		"[include]\n\tpath = x\n":                                                        false,
		"[includeIf \"gitdir:/\"]\n\tpath = x\n":                                         false,
		"[alias]\n\tst = !x\n":                                                           false,
		"[filter \"x\"]\n\tclean = x\n":                                                  false,
		"[core \"x]\n[core]\n\tfsmonitor = x\"]\n":                                       false,
		"[remote \"origin\"]\n\turl = ext::sh -c x\n":                                    false,
		"[remote \"origin\"]\n\turl = evil://x\n":                                        false,
		"[remote \"origin\"]\n\turl = --upload-pack=x\n":                                 false,
		"[remote \"origin\"]\n\tuploadpack = x\n":                                        false,
		"[submodule \"a\"]\n\turl = ../a\n\tactive = true\n\tupdate = checkout\n":        true,
		"[submodule \"a\"]\n\tupdate = !x\n":                                             false,
		"[core]\n\tbare = fal\x00se\n":                                                   false,
		"[gpg]\n\tprogram = x\n":                                                         false,
		"[core]\n\tsshCommand = x\n[credential]\n\thelper = x\n[diff]\n\texternal = x\n": false,
	} {
		if got := harmless(text, inside); got != want {
			t.Errorf("%q is harmless: %v", text, got)
		}
	}
}

// TestNamed: what a person's own settings name is found, however it is written.
func TestNamed(t *testing.T) {
	t.Parallel()
	list, must := named("[core] hooksPath = .husky\n[include]\n\tpath = \"../my settings\"\n[alias]\n\tst = !sh tools/st.sh -x\n[user]\n\tname = docs\n[filter \"x\"]\n\tclean = 'bin/clean' %f\n")
	for _, want := range []string{".husky", "../my settings", "tools/st.sh", "bin/clean"} {
		if !slices.Contains(list, want) {
			t.Errorf("%q is not in %q", want, list)
		}
	}
	if slices.Contains(list, "docs") || !must[".husky"] || !must["../my settings"] || must["tools/st.sh"] {
		t.Errorf("got %q, for certain %v", list, must)
	}
	if !runs("pick 1 x\n x make\n") || !runs("exec make") || runs("pick 1 exec make\n# exec make\n") {
		t.Error("the commands of a rebase are not told from others")
	}
}
