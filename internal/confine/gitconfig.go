package confine

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// settings are those of git that name nothing to run and nothing to read: section.key. Any name of a
// subsection is as good as another.
var settings = strings.Fields(`
	core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase core.precomposeunicode core.symlinks core.autocrlf core.eol
	core.safecrlf core.quotepath core.sparsecheckout core.sparsecheckoutcone core.sharedrepository core.compression core.abbrev core.untrackedcache
	extensions.objectformat extensions.compatobjectformat extensions.refstorage extensions.worktreeconfig extensions.partialclone
	user.name user.email author.name author.email committer.name committer.email init.defaultbranch
	branch.remote branch.merge branch.rebase branch.pushremote branch.autosetuprebase branch.autosetupmerge
	remote.url remote.pushurl remote.fetch remote.push remote.tagopt remote.prune remote.promisor remote.partialclonefilter
	submodule.url submodule.active submodule.branch submodule.recurse
	pull.rebase pull.ff push.default push.autosetupremote merge.conflictstyle rerere.enabled color.ui gc.auto gc.autodetach advice.detachedhead commit.gpgsign
	lfs.repositoryformatversion`)

var (
	sectionLine = regexp.MustCompile(`^\[([A-Za-z]+)(?:[ \t]+"[^"\\\]]*")?\]$`)
	settingLine = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[ \t]*([^"\\\x00-\x08\x0b-\x1f]*))?$`)
	schemes     = []string{"https", "http", "ssh", "git", "file"}
)

// harmless reports whether a configuration of git has only such settings, each on a line of its own. It is
// stricter than git, so that both see the same: it has no quotes, escapes or continued lines. worktree
// reports whether a core.worktree stays where it may be.
func harmless(text string, worktree func(string) bool) bool {
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t")
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if m := sectionLine.FindStringSubmatch(line); m != nil {
			section = strings.ToLower(m[1])
			continue
		}
		m := settingLine.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		name, value := section+"."+strings.ToLower(m[1]), m[2]
		switch {
		case name == "core.worktree":
			if !worktree(value) {
				return false
			}
		case name == "submodule.update": // others are commands
			if !slices.Contains([]string{"checkout", "rebase", "merge", "none"}, value) {
				return false
			}
		case !slices.Contains(settings, name) || !harmlessURL(value):
			return false
		}
	}
	return true
}

// harmlessURL reports whether no program but git's own would be run for a value that is an address.
func harmlessURL(value string) bool {
	scheme, _, has := strings.Cut(value, "://")
	return !strings.Contains(value, "::") && !strings.HasPrefix(value, "-") && (!has || slices.Contains(schemes, scheme))
}

// named lists the paths that a configuration may name: what it includes, and words of settings that are
// not harmless. Those with must are paths for certain.
func named(text string) (list []string, must map[string]bool) {
	must = map[string]bool{}
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, _ := strings.Cut(line, "]")
			section, _, _ = strings.Cut(strings.ToLower(head[1:]), " ")
			section, _, _ = strings.Cut(section, ".")
			line = strings.TrimSpace(rest)
		}
		key, value, has := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if !has || slices.Contains(settings, section+"."+key) {
			continue
		}
		value = strings.TrimSpace(value)
		whole := strings.Trim(value, `"`)
		if section == "include" || section == "includeif" || key == "hookspath" || key == "templatedir" {
			must[whole] = true
		}
		list = append(list, whole)
		list = append(list, strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\"'!;&|=\\()", r) })...)
	}
	return slices.DeleteFunc(list, func(p string) bool { return path.Clean(p) == "." || strings.HasPrefix(p, "-") }), must
}

// runs reports whether the list of what a rebase has still to do has commands.
var runs = regexp.MustCompile(`(?m)^[ \t]*(?:exec|x)(?:[ \t]|$)`).MatchString
