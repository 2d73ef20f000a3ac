package extension

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
)

const (
	maxCommands = 400
	maxExpanded = 64 << 10 // bytes of an expanded command, including the files that it names
	maxCommand  = 300      // bytes of a description
)

// command is a slash command.
type command struct {
	Name        string
	Description string
	Hint        string   // describes its arguments to people
	Arguments   []string // their names
	Level       string
	Path        string
	ForModel    bool // a model may call it, too
}

// commands finds the Markdown files in dir and its subfolders. The name of a command does not
// include the subfolder.
func (r *reader) commands(dir string) { r.commandsIn(dir, "") }

func (r *reader) commandsIn(dir, sub string) {
	for _, e := range r.list(path.Join(dir, sub)) {
		at := path.Join(dir, sub, e.Name())
		if r.isDir(path.Join(dir, sub), e) {
			if strings.Count(sub, "/") < 2 && !strings.HasPrefix(e.Name(), ".") {
				r.commandsIn(dir, path.Join(sub, e.Name()))
			}
			continue
		}
		n, ok := strings.CutSuffix(e.Name(), ".md")
		if !ok {
			continue
		}
		text, err := r.text(at)
		var f front
		var body string
		if err == nil {
			f, body, err = split(text)
		}
		if err == nil && (len(n) > maxName || !name.MatchString(n)) {
			err = errors.New("the name of a command must have at most 64 letters, digits, - and _")
		}
		if err != nil {
			r.problem(r.level, at, err)
			continue
		}
		c := command{Name: n, Description: oneLine(f.Description), Hint: oneLine(f.Hint), Arguments: f.Arguments, Level: r.level, Path: at, ForModel: !f.NotForModel}
		if c.Description == "" {
			c.Description = firstLine(body)
		}
		if sub != "" {
			c.Description += " (" + sub + ")"
		}
		r.command(c)
	}
}

func (r *reader) command(c command) {
	if r.look.commands == nil {
		r.look.commands = map[string]command{}
	}
	if len(r.look.commands) == maxCommands {
		r.problem(r.level, c.Path, fmt.Errorf("there are more than %d slash commands", maxCommands))
		return
	}
	c.Description, c.Hint = parley.Cut(c.Description, maxCommand), parley.Cut(c.Hint, maxCommand)
	r.look.commands[c.Name] = c
}

// Commands implements seam.Commander.
func (s *Set) Commands() []parley.SlashCommand {
	var list []parley.SlashCommand
	for _, c := range s.current().Commands {
		list = append(list, parley.SlashCommand{Name: c.Name, Description: c.Description, ArgumentHint: c.Hint, From: c.Level})
	}
	return list
}

// Expand implements seam.Commander.
func (s *Set) Expand(_ context.Context, which, args string) (string, error) {
	return s.expand(which, args, false)
}

// expand is the text of a command with its arguments. A model that calls it gets no files that the
// text or its arguments name: it reads them with a tool, whose rules count then.
func (s *Set) expand(which, args string, model bool) (string, error) {
	list := s.current().Commands
	i := slices.IndexFunc(list, func(c command) bool { return c.Name == which && (c.ForModel || !model) })
	if i < 0 {
		return "", parley.Errorf(parley.CodeNotFound, "there is no command /%s", parley.Cut(which, maxName))
	}
	c := list[i]
	folder, end, err := s.open(c.Level)
	if err != nil {
		return "", unreadable(c, err)
	}
	defer end()
	text, err := readText(folder, c.Path, maxFile)
	if err != nil {
		return "", unreadable(c, err)
	}
	_, body, err := split(text)
	if err != nil {
		return "", unreadable(c, err)
	}
	out := fill(c, strings.TrimSpace(body), args)
	if c.Level == "workspace" && !model {
		out += named(folder, ".", out, map[string]bool{c.Path: true}, maxExpanded)
	}
	if len(out) > maxExpanded {
		return "", parley.Errorf(parley.CodeTooLarge, "the command /%s expands to %d bytes, more than %d", c.Name, len(out), maxExpanded).WithField("message")
	}
	return out, nil
}

func unreadable(c command, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("the file is gone")
	}
	return parley.Errorf(parley.CodeInvalid, "the command /%s cannot be read: %w", c.Name, short(err)).WithField("message").
		WithHint("its file is %s of the %s", c.Path, c.Level)
}

// holder matches a placeholder for an argument in a command's text. A backslash before it keeps
// it as it is.
var holder = regexp.MustCompile(`\\?\$(?:ARGUMENTS(?:\[(\d{1,3})\])?|(\d{1,3})|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Z_]+)\})`)

// fill puts the arguments into a command's text. The first argument is $1, but $0 in a text
// that contains $0: the two forms come from two versions of one program, and files of both
// exist. $ARGUMENTS[0] always is the first argument.
func fill(c command, body, args string) string {
	args = strings.TrimSpace(args)
	list := fields(args)
	first := 1
	for _, m := range holder.FindAllStringSubmatch(body, -1) {
		if m[2] == "0" && !strings.HasPrefix(m[0], `\`) {
			first = 0
		}
	}
	used := false
	nth := func(whole, digits string, first int) string {
		n, err := strconv.Atoi(digits)
		used = true
		if n -= first; err != nil || n < 0 || n >= len(list) {
			return whole // leave a placeholder without an argument as it is
		}
		return list[n]
	}
	out := holder.ReplaceAllStringFunc(body, func(whole string) string {
		if kept, ok := strings.CutPrefix(whole, `\`); ok {
			return kept
		}
		m := holder.FindStringSubmatch(whole)
		switch {
		case m[1] != "":
			return nth(whole, m[1], 0)
		case m[2] != "":
			return nth(whole, m[2], first)
		case m[3] != "":
			i := slices.Index(c.Arguments, m[3])
			switch {
			case i < 0:
				return whole
			case i < len(list):
				used = true
				return list[i]
			}
			used = true
			return ""
		case m[4] == "CLAUDE_SKILL_DIR":
			return path.Dir(c.Path)
		case m[4] == "CLAUDE_PROJECT_DIR":
			return "."
		case m[4] != "":
			return whole
		}
		used = true
		return args
	})
	if !used && args != "" {
		out += "\n\nARGUMENTS: " + args
	}
	return out
}

// fields splits arguments as a shell does: at spaces, except inside quotes.
func fields(args string) (list []string) {
	var word strings.Builder
	var quote rune
	in := false
	for _, r := range args {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				list = append(list, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		list = append(list, word.String())
	}
	return list
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// firstLine returns the first line of a body that is not empty, without heading marks.
func firstLine(body string) string {
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "#")); line != "" {
			return oneLine(line)
		}
	}
	return ""
}
