package shell

import (
	"slices"
	"strings"
)

// lookers are programs that only look, whatever their arguments.
var lookers = strings.Fields("[ basename cat cd cksum cmp column comm cut date df diff dirname du echo egrep expand expr false fgrep file fmt fold grep head hexdump hostname id jq " +
	"ls md5sum nl nproc od paste printenv printf pwd readlink realpath rev rg seq sha1sum sha256sum sha512sum sleep stat strings sum tac tail test tr tree true type uname uniq uptime wc which whoami xxd yes")

// options are programs that only look unless they get one of the options, or one that begins
// with it and "=".
var options = map[string][]string{
	"find": {"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"},
	"sort": {"-o", "--output", "--compress-program"},
	"rg":   {"--pre"},
}

// gitLooks are the commands of git that only look.
var gitLooks = strings.Fields("blame cat-file cherry describe diff diff-tree for-each-ref grep log ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show show-ref status var whatchanged")

// Looks reports whether a command line consists only of commands that look at things. Such a line runs
// where it can change nothing, so a mistake here makes a command fail, and no more.
func Looks(line string) bool {
	commands, plain := Split(line)
	return plain && !slices.ContainsFunc(commands, func(c Command) bool { return !looks(c) })
}

func looks(c Command) bool {
	argv := c.texts()
	program, args := argv[0], argv[1:]
	if len(args) == 1 && (args[0] == "--version" || args[0] == "--help") {
		return true
	}
	if bad, ok := options[program]; ok {
		return !slices.ContainsFunc(args, func(a string) bool {
			return slices.ContainsFunc(bad, func(b string) bool {
				return a == b || strings.HasPrefix(a, b+"=") || len(b) == 2 && strings.HasPrefix(a, b)
			})
		})
	}
	if program == "git" {
		return len(args) > 0 && slices.Contains(gitLooks, args[0]) && !slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "--output") || strings.HasPrefix(a, "--ext-diff") || strings.HasPrefix(a, "--open-files-in-pager") || strings.HasPrefix(a, "-O")
		})
	}
	return slices.Contains(lookers, program)
}
