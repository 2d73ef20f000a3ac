package extension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Tool is the name of the tool with which a model loads a skill.
const Tool = "Skill"

// CommandTool is the name of the tool with which a model calls a slash command.
const CommandTool = "SlashCommand"

const (
	maxSkills   = 200
	maxListed   = 1536     // bytes of one skill in the list
	maxListing  = 24 << 10 // bytes of the list
	maxName     = 64       // bytes of a name
	maxFiles    = 100      // files of a skill that are listed
	maxSkillDir = 4        // how deep these files may be nested
)

// skill is a folder with a SKILL.md.
type skill struct {
	Name        string
	Description string
	Hint        string
	Arguments   []string
	Level       string
	Dir         string // in the level's folder
	ForModel    bool
	ForUser     bool
}

// name is the form of the names of skills and commands. Names that other agents accept have the
// same form.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// skills finds the skills in dir. A folder without a SKILL.md is not a skill.
func (r *reader) skills(dir string) {
	for _, e := range r.list(dir) {
		at := path.Join(dir, e.Name())
		if !r.isDir(dir, e) {
			continue
		}
		text, err := r.text(at + "/SKILL.md")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var f front
		var body string
		if err == nil {
			f, body, err = split(text)
		}
		s := skill{
			Name: e.Name(), Description: oneLine(f.Description), Hint: oneLine(f.Hint), Arguments: f.Arguments, Level: r.level, Dir: at,
			ForModel: !f.NotForModel, ForUser: f.ForUser == nil || *f.ForUser,
		}
		if s.Description == "" {
			s.Description = firstLine(body)
		}
		if when := oneLine(f.WhenToUse); when != "" {
			s.Description += " " + when
		}
		switch {
		case err != nil:
		case len(s.Name) > maxName || !name.MatchString(s.Name):
			err = errors.New("the name of a skill's folder must have at most 64 letters, digits, - and _")
		case s.Description == "":
			err = errors.New("it has no description")
		case len(r.look.skills) == maxSkills:
			err = fmt.Errorf("there are more than %d skills", maxSkills)
		}
		if err != nil {
			r.problem(r.level, at, err)
			continue
		}
		if f.Name != "" && f.Name != s.Name {
			r.problem(r.level, at, fmt.Errorf("its front matter has the name %q, but the folder's name is used", parley.Cut(f.Name, maxName)))
		}
		if r.look.skills == nil {
			r.look.skills = map[string]skill{}
		}
		r.look.skills[s.Name] = s
		if s.ForUser { // a skill replaces a command of the same name
			r.command(command{Name: s.Name, Description: s.Description, Hint: s.Hint, Arguments: s.Arguments, Level: r.level, Path: at + "/SKILL.md", ForModel: s.ForModel})
		}
	}
}

// Decls returns the tools' declarations in a scope without skills and commands.
func Decls() []parley.ToolDecl { return []parley.ToolDecl{decl(nil), commandDecl(nil)} }

// Tools implements seam.Toolset. The tools' descriptions list the skills and the commands.
func (s *Set) Tools(context.Context) ([]parley.ToolDecl, error) {
	now := s.current()
	return []parley.ToolDecl{decl(now.Skills), commandDecl(now.Commands)}, nil
}

// listing adds lines to a text, within limits. Without lines it is none.
func listing(text, none string, lines []string) string {
	left := 0
	for _, line := range lines {
		if len(text)+len(line) > maxListing {
			left++
			continue
		}
		text += line
	}
	switch {
	case len(lines) == 0:
		return none
	case left > 0:
		text += fmt.Sprintf("\n%d more are not listed.", left)
	}
	return text
}

func decl(list []skill) parley.ToolDecl {
	var lines []string
	for _, s := range list {
		if s.ForModel {
			lines = append(lines, "\n- "+s.Name+": "+parley.Cut(s.Description, maxListed))
		}
	}
	text := listing("Loads a skill: instructions for a kind of task. Load one before you begin a task that it fits. The skills:",
		"Loads a skill: instructions for a kind of task. There are no skills now.", lines)
	return parley.ToolDecl{
		Name: Tool, Description: text, Effect: parley.EffectRead, Cost: "free",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["skill"],"properties":{` +
			`"skill":{"type":"string","description":"The name of a skill."},` +
			`"args":{"type":"string","maxLength":10000,"description":"Arguments for the skill, if its instructions take any."},` +
			`"file":{"type":"string","description":"A file of the skill, as its instructions name it; leave it out for the instructions."}}}`),
	}
}

func commandDecl(list []command) parley.ToolDecl {
	var lines []string
	for _, c := range list {
		if !c.ForModel || c.Description == "" {
			continue
		}
		line := "\n- /" + c.Name
		if c.Hint != "" {
			line += " " + c.Hint
		}
		lines = append(lines, line+": "+c.Description)
	}
	text := listing("Returns what a slash command stands for: instructions, which you then follow. Call one when the user asks for it or when the task is what it is for. "+
		"A command that the user's message began with is in the message already. The commands:",
		"Returns what a slash command stands for. There are no commands now.", lines)
	return parley.ToolDecl{
		Name: CommandTool, Description: text, Effect: parley.EffectRead, Cost: "free",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["command"],"properties":{` +
			`"command":{"type":"string","maxLength":10000,"description":"The command with its arguments, such as /review notes/today.md."}}}`),
	}
}

// runCommand runs SlashCommand.
func (s *Set) runCommand(r seam.Run) (parley.ToolResult, error) {
	var in struct {
		Command string `json:"command"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("input: %w", err))
	}
	which, args, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(in.Command), "/"), " ")
	out, err := s.expand(which, args, true)
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: out}, nil
}

// Run implements seam.Toolset.
func (s *Set) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	if r.Name == CommandTool {
		return s.runCommand(r)
	}
	var in struct {
		Skill string `json:"skill"`
		File  string `json:"file"`
		Args  string `json:"args"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("input: %w", err))
	}
	out, err := s.load(in.Skill, in.File)
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	if in.Args != "" && in.File == "" {
		out += "\n\nArguments: " + in.Args
	}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: out}, nil
}

// load returns the tool's output. Its errors are written for the model.
func (s *Set) load(which, file string) (string, error) {
	list := s.current().Skills
	i := slices.IndexFunc(list, func(k skill) bool { return k.Name == which && k.ForModel })
	if i < 0 {
		return "", fmt.Errorf("there is no skill %q", parley.Cut(which, maxName))
	}
	k := list[i]
	folder, end, err := s.open(k.Level)
	if err != nil {
		return "", fmt.Errorf("the skill %s cannot be read: %w", k.Name, short(err))
	}
	defer end()
	own, err := fs.Sub(folder, k.Dir)
	if err != nil {
		return "", fmt.Errorf("the skill %s cannot be read: %w", k.Name, short(err))
	}
	if file != "" {
		file = path.Clean(strings.TrimPrefix(file, "./"))
		text, err := readText(own, file, maxFile)
		if err != nil {
			return "", fmt.Errorf("the file %q of the skill %s cannot be read: %w", parley.Cut(file, 200), k.Name, short(err))
		}
		return text, nil
	}
	text, err := readText(own, "SKILL.md", maxFile)
	if err != nil {
		return "", fmt.Errorf("the skill %s cannot be read: %w", k.Name, short(err))
	}
	_, body, err := split(text)
	if err != nil {
		return "", fmt.Errorf("the skill %s cannot be read: %w", k.Name, err)
	}
	return strings.TrimSpace(body) + filesOf(own), nil
}

// filesOf lists the files of a skill other than its SKILL.md.
func filesOf(own fs.FS) string {
	var list []string
	seen := 0
	_ = fs.WalkDir(own, ".", func(p string, d fs.DirEntry, err error) error {
		if seen++; seen > maxEntries || len(list) == maxFiles {
			return fs.SkipAll
		}
		switch {
		case err != nil, p == ".", p == "SKILL.md":
		case strings.HasPrefix(path.Base(p), "."), d.IsDir() && strings.Count(p, "/") >= maxSkillDir:
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			list = append(list, p)
		}
		return nil
	})
	if list == nil {
		return ""
	}
	return "\n\nFiles of this skill, to be loaded with this tool: " + strings.Join(list, ", ")
}
