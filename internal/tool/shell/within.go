package shell

import (
	"path"
	"slices"
	"strings"
)

// texts are the words of a command.
func (c Command) texts() []string {
	list := make([]string, len(c))
	for i, w := range c {
		list[i] = w.Text
	}
	return list
}

// runner is a program that runs another one, which its arguments name.
type runner struct {
	values  string // options that have a value of their own, separated by spaces
	before  int    // words that come before the other program's, besides options
	assigns bool   // assignments come before it, too
}

var runners = map[string]runner{
	"builtin": {}, "busybox": {}, "command": {}, "exec": {values: "-a"}, "nohup": {}, "setsid": {}, "toybox": {},
	"chroot":     {values: "", before: 1},
	"chrt":       {values: "-T -P -D", before: 1},
	"doas":       {values: "-C -u"},
	"env":        {values: "-C --chdir -S --split-string -u --unset", assigns: true},
	"flock":      {values: "-E -w --timeout --conflict-exit-code", before: 1},
	"ionice":     {values: "-c -n -p -P -u --class --classdata"},
	"ltrace":     {values: "-a -e -o -p -s -u -n -l -x"},
	"nice":       {values: "-n --adjustment"},
	"nsenter":    {values: "-t -S -G --target"},
	"parallel":   {values: "-j -n -N -L -I -P -S --jobs"},
	"prlimit":    {values: "-p --pid"},
	"setpriv":    {values: "--reuid --regid --groups --inh-caps --bounding-set"},
	"stdbuf":     {values: "-i -o -e --input --output --error"},
	"strace":     {values: "-a -b -e -E -I -o -O -p -P -s -S -u -U -X"},
	"sudo":       {values: "-C -D -g -h -p -R -r -T -t -U -u", assigns: true},
	"taskset":    {values: "", before: 1},
	"time":       {values: "-f -o --format --output"},
	"timeout":    {values: "-k -s --kill-after --signal", before: 1},
	"unshare":    {values: "-S -G -R -w --root --wd"},
	"watch":      {values: "-n -d --interval"},
	"xargs":      {values: "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-chars --max-lines --max-procs --replace"},
	"valgrind":   {},
	"proot":      {values: "-r -b -w"},
	"faketime":   {before: 1},
	"fakeroot":   {},
	"caffeinate": {values: "-t -w"},
}

// shells run a line that follows the option -c.
var shells = []string{"ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"}

// finders begin the commands that find runs.
var finders = []string{"-exec", "-execdir", "-ok", "-okdir"}

const (
	// maxWithin limits how deep commands are looked for in commands.
	maxWithin = 8
	// maxFound limits how many are looked at, of one line.
	maxFound = 128
)

// search collects what commands run besides themselves.
type search struct {
	found []string
	hides bool // some command is only known when the line runs
}

// Within returns the commands that those of a line run in turn, as far as their words say, for rules that
// forbid or ask: the command of env, timeout or xargs, and the line of sh -c or eval. hides says that a line runs a
// program that its words do not name.
func Within(list []Command) (found []string, hides bool) {
	var s search
	for _, c := range list {
		s.look(c, 0)
	}
	return s.found, s.hides
}

func (s *search) look(c Command, depth int) {
	if len(c) == 0 {
		return
	}
	if !c[0].Known || depth > maxWithin || len(s.found) >= maxFound {
		s.hides = true
		return
	}
	name := path.Base(c[0].Text)
	if name != c[0].Text { // /bin/rm is rm, for what forbids rm
		c = append(Command{{name, true}}, c[1:]...)
		s.found = append(s.found, c.String())
	}
	switch r, runs := runners[name]; {
	case runs:
		s.of(r.rest(c[1:]), depth)
		if name == "env" {
			s.split(c[1:], depth)
		}
	case slices.Contains(shells, name):
		s.line(script(c[1:]), depth)
	case name == "su" || name == "script" || name == "runuser":
		s.line(after(c[1:], "-c", "--command"), depth)
	case name == "eval":
		s.line(joined(c[1:]), depth)
	case name == "trap" && len(c) > 2:
		s.line(c[1:2], depth)
	case name == "." || name == "source":
		s.hides = true
	case name == "find":
		for i, w := range c {
			if slices.Contains(finders, w.Text) {
				s.of(c[i+1:], depth)
			}
		}
	}
}

// of looks at a command in a command.
func (s *search) of(c Command, depth int) {
	if len(c) == 0 {
		return
	}
	if len(s.found) >= maxFound {
		s.hides = true
		return
	}
	s.found = append(s.found, c.String())
	s.look(c, depth+1)
}

// line looks at a line in a command: its only word, if there is one.
func (s *search) line(words Command, depth int) {
	switch {
	case len(words) == 0:
		return
	case !words[0].Known:
		s.hides = true
		return
	}
	list, _ := Split(words[0].Text)
	if len(list) == 0 && strings.TrimSpace(words[0].Text) != "" {
		s.hides = true
	}
	for _, c := range list {
		s.of(c, depth)
	}
}

// split looks at the line of env -S.
func (s *search) split(args Command, depth int) {
	for i, w := range args {
		if rest, ok := strings.CutPrefix(w.Text, "--split-string="); ok {
			s.line(Command{{rest, w.Known}}, depth)
		} else if rest, ok := strings.CutPrefix(w.Text, "-S"); ok && rest != "" {
			s.line(Command{{rest, w.Known}}, depth)
		} else if w.Text == "-S" || w.Text == "--split-string" {
			s.line(args[min(i+1, len(args)):min(i+2, len(args))], depth)
		}
	}
}

// rest is the command that follows the runner's own arguments.
func (r runner) rest(args Command) Command {
	values, before := strings.Fields(r.values), r.before
	for i := 0; i < len(args); i++ {
		text := args[i].Text
		switch {
		case text == "--":
			return args[min(i+1+before, len(args)):]
		case len(text) > 1 && text[0] == '-':
			if slices.Contains(values, text) {
				i++
			}
		case r.assigns && strings.Contains(text, "="):
		case before > 0:
			before--
		default:
			return args[i:]
		}
	}
	return nil
}

// script is the line that a shell gets after -c.
func script(args Command) Command {
	c := false
	for i, w := range args {
		switch {
		case w.Text == "--":
			if c {
				return args[min(i+1, len(args)):]
			}
			return nil
		case w.Text == "-o" || w.Text == "-O" || w.Text == "+o" || w.Text == "+O" || w.Text == "--rcfile" || w.Text == "--init-file":
		case strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "+"):
			c = c || !strings.HasPrefix(w.Text, "--") && strings.Contains(w.Text, "c")
		case i > 0 && takesWord(args[i-1].Text):
		case c:
			return args[i:]
		default:
			return nil // a file
		}
	}
	return nil
}

func takesWord(option string) bool {
	return slices.Contains([]string{"-o", "-O", "+o", "+O", "--rcfile", "--init-file"}, option)
}

// after is what follows an option.
func after(args Command, options ...string) Command {
	for i, w := range args {
		if slices.Contains(options, w.Text) {
			return args[i+1:]
		}
	}
	return nil
}

// joined makes one word of several, as eval does.
func joined(words Command) Command {
	if len(words) == 0 {
		return nil
	}
	all := Word{strings.Join(words.texts(), " "), true}
	for _, w := range words {
		all.Known = all.Known && w.Known
	}
	return Command{all}
}
