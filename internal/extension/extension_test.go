package extension_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extension"
	"github.com/parley-server/parley/internal/seam"
)

var _ interface {
	seam.Toolset
	seam.Refresher
	seam.Instructor
	seam.Commander
} = (*extension.Set)(nil)

// place has a folder for each level.
type place struct {
	t   *testing.T
	dir string
	log strings.Builder
}

func newPlace(t *testing.T) *place { return &place{t: t, dir: t.TempDir()} }

func (p *place) write(path, text string) {
	p.t.Helper()
	full := filepath.Join(p.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// set is what the folders platform, app, user and workspace add.
func (p *place) set() *extension.Set {
	var levels []extension.Level
	for _, name := range []string{"platform", "app", "user", "workspace"} {
		levels = append(levels, extension.Level{Name: name, Open: func() (fs.FS, func(), error) {
			root, err := os.OpenRoot(filepath.Join(p.dir, name))
			if err != nil {
				return nil, nil, err
			}
			return root.FS(), func() { _ = root.Close() }, nil
		}})
	}
	return extension.New(extension.Options{Levels: levels, Logger: logger(&p.log)})
}

func (p *place) run(s *extension.Set, input string) string {
	p.t.Helper()
	res, err := s.Run(context.Background(), seam.Run{Call: "1", Name: extension.Tool, Input: []byte(input)})
	if err != nil {
		if !seam.IsNotSent(err) {
			p.t.Errorf("%s: the outcome is open: %v", input, err)
		}
		return "error: " + err.Error()
	}
	return res.Output
}

func description(t *testing.T, s *extension.Set) string {
	t.Helper()
	list, err := s.Tools(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	return list[0].Description
}

const skill = "---\nname: %s\ndescription: %s\n---\n\n%s\n"

// TestSkills: the nearest level's skill counts, and in a level that below .agents. The model is told
// of each by name and description, and loads its text and its files.
func TestSkills(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, at := range []string{"platform/.agents", "platform/.claude", "user/.claude", "workspace/.claude"} {
		p.write(at+"/skills/both/SKILL.md", fmt.Sprintf(skill, "both", "from "+at, "Body of "+at))
		if at == "user/.claude" {
			break
		}
	}
	p.write("app/.claude/skills/notes/SKILL.md", fmt.Sprintf(skill, "notes", "Writes notes: short ones.", "Write them in references/how.md."))
	p.write("app/.claude/skills/notes/references/how.md", "As a list.")
	p.write("workspace/.agents/skills/twice/SKILL.md", fmt.Sprintf(skill, "twice", "agents", "of agents"))
	p.write("workspace/.claude/skills/twice/SKILL.md", fmt.Sprintf(skill, "twice", "claude", "of claude"))
	p.write("workspace/.claude/skills/plain/SKILL.md", "# Says what it does\n\nMore.")
	p.write("workspace/.claude/skills/hidden/SKILL.md", "---\ndescription: For people.\ndisable-model-invocation: true\n---\nBody")
	p.write("workspace/.claude/skills/quiet/SKILL.md", "---\ndescription: For the model.\nuser-invocable: false\nwhen_to_use: When asked.\n---\nBody")
	p.write("workspace/.claude/skills/README.md", "no skill")
	p.write("workspace/.claude/skills/empty/other.md", "no skill")
	s := p.set()
	want := `Loads a skill: instructions for a kind of task. Load one before you begin a task that it fits. The skills:
- both: from user/.claude
- notes: Writes notes: short ones.
- plain: Says what it does
- quiet: For the model. When asked.
- twice: agents`
	if diff := cmp.Diff(want, description(t, s)); diff != "" {
		t.Error(diff)
	}
	for input, want := range map[string]string{
		`{"skill":"both"}`:                               "Body of user/.claude",
		`{"skill":"twice"}`:                              "of agents",
		`{"skill":"notes"}`:                              "Write them in references/how.md.\n\nFiles of this skill, to be loaded with this tool: references/how.md",
		`{"skill":"notes","file":"references/how.md"}`:   "As a list.",
		`{"skill":"both","args":"today.md"}`:             "Body of user/.claude\n\nArguments: today.md",
		`{"skill":"notes","file":"./references/how.md"}`: "As a list.",
		`{"skill":"notes","file":"../../../AGENTS.md"}`:  `error: the file "../../../AGENTS.md" of the skill notes cannot be read: it is not a path in the folder`,
		`{"skill":"notes","file":"/etc/passwd"}`:         `error: the file "/etc/passwd" of the skill notes cannot be read: it is not a path in the folder`,
		`{"skill":"notes","file":"references"}`:          `error: the file "references" of the skill notes cannot be read: it is not a file`,
		`{"skill":"notes","file":"none.md"}`:             `error: the file "none.md" of the skill notes cannot be read: no such file or directory`,
		`{"skill":"hidden"}`:                             `error: there is no skill "hidden"`,
		`{"skill":"none"}`:                               `error: there is no skill "none"`,
		`{"skill":"plain"}`:                              "# Says what it does\n\nMore.",
	} {
		if got := p.run(s, input); got != want {
			t.Errorf("%s: got %q, want %q", input, got, want)
		}
	}
	var commands []string
	for _, c := range s.Commands() {
		commands = append(commands, c.Name+" of the "+c.From)
	}
	if diff := cmp.Diff([]string{"both of the user", "hidden of the workspace", "notes of the app", "plain of the workspace", "twice of the workspace"}, commands); diff != "" {
		t.Error(diff)
	}
	if got := p.log.String(); got != "" {
		t.Errorf("logged %s", got)
	}
}

// TestBadSkills: a skill that cannot be used is left out and named once in the log. Nothing is read
// that lies outside the level's folder, is no file, or is too large.
func TestBadSkills(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("secret/SKILL.md", fmt.Sprintf(skill, "x", "SECRET", "SECRET"))
	p.write("workspace/.claude/skills/out/x", "")
	p.write("workspace/.claude/skills/pipe/x", "")
	in := filepath.Join(p.dir, "workspace/.claude/skills")
	for _, err := range []error{
		os.Symlink("../../../../secret/SKILL.md", filepath.Join(in, "out/SKILL.md")),
		os.Symlink("../../../secret", filepath.Join(in, "leads-out")),
		os.Symlink("good", filepath.Join(in, "link")),
		syscall.Mkfifo(filepath.Join(in, "pipe/SKILL.md"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.write("workspace/.claude/skills/good/SKILL.md", "---\ndescription: Good: it has a colon.\n---\nBody")
	p.write("workspace/.claude/skills/named/SKILL.md", fmt.Sprintf(skill, "other", "Named otherwise.", ""))
	p.write("workspace/.claude/skills/none/SKILL.md", "---\nname: none\n---\n")
	p.write("workspace/.claude/skills/open/SKILL.md", "---\nname: open\n")
	p.write("workspace/.claude/skills/broken/SKILL.md", "---\ndescription: [\n---\nx")
	p.write("workspace/.claude/skills/bad name/SKILL.md", "---\ndescription: x\n---\nx")
	p.write("workspace/.claude/skills/binary/SKILL.md", "---\ndescription: x\x00\n---\nx")
	p.write("workspace/.claude/skills/large/SKILL.md", "---\ndescription: x\n---\n"+strings.Repeat("x", 300<<10))
	p.write("workspace/.claude/skills/bomb/SKILL.md", "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ndescription: [*d,*d,*d,*d]\n---\nx")
	s := p.set()
	want := "Loads a skill: instructions for a kind of task. Load one before you begin a task that it fits. The skills:\n- good: Good: it has a colon.\n- link: Good: it has a colon.\n- named: Named otherwise."
	if diff := cmp.Diff(want, description(t, s)); diff != "" {
		t.Error(diff)
	}
	log := p.log.String()
	for _, name := range []string{"out", "pipe", "none", "open", "broken", "bad name", "binary", "large", "bomb", "named"} {
		if n := strings.Count(log, "skills/"+name+" of the workspace"); n != 1 {
			t.Errorf("%s is logged %d times:\n%s", name, n, log)
		}
	}
	if strings.Contains(log, p.dir) || strings.Contains(log, "SECRET") {
		t.Errorf("logged:\n%s", log)
	}
}

// TestListing: however many skills there are and whatever they say, the list of them has a limit.
func TestListing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for i := range 250 {
		p.write(fmt.Sprintf("platform/.agents/skills/s%03d/SKILL.md", i), fmt.Sprintf(skill, fmt.Sprintf("s%03d", i), strings.Repeat("wörter ", 2000), "x"))
	}
	s := p.set()
	got := description(t, s)
	if len(got) > 25<<10 || !strings.HasSuffix(got, " more are not listed.") || !strings.Contains(got, "- s000: wörter") {
		t.Errorf("the list has %d bytes: ...%s", len(got), got[len(got)-40:])
	}
	if n := strings.Count(p.log.String(), "more than 200 skills"); n == 0 || n > 20 {
		t.Errorf("logged %d times", n)
	}
}

// TestInstructions: the files of all levels are there, the nearest last, with the files that they
// name, each once and within a limit.
func TestInstructions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("platform/AGENTS.md", "Be brief.\r\n")
	p.write("app/CLAUDE.md", "Read @docs/style.md, but not `@docs/code.md`.\n```\n@docs/code.md\n```\nMail ana@example.org or @nobody, @/etc/passwd, @../secret.md.")
	p.write("app/docs/style.md", "No jargon. @more.md")
	p.write("app/docs/more.md", "Really. @style.md")
	p.write("app/docs/code.md", "NOT THIS")
	p.write("secret.md", "NOT THIS")
	p.write("user/AGENTS.md", "In English.")
	p.write("user/.claude/CLAUDE.md", "In English.")
	p.write("workspace/CLAUDE.md", "@AGENTS.md")
	p.write("workspace/AGENTS.md", "About tomatoes.")
	want := `# AGENTS.md (platform)

Be brief.

# CLAUDE.md (app)

Read @docs/style.md, but not ` + "`@docs/code.md`.\n```\n@docs/code.md\n```" + `
Mail ana@example.org or @nobody, @/etc/passwd, @../secret.md.

# docs/style.md

No jargon. @more.md

# docs/more.md

Really. @style.md

# AGENTS.md (user)

In English.

# AGENTS.md (workspace)

About tomatoes.

# CLAUDE.md (workspace)

@AGENTS.md`
	if diff := cmp.Diff(want, p.set().Instructions()); diff != "" {
		t.Error(diff)
	}
	p.write("platform/AGENTS.md", strings.Repeat("Be brief. ä\n", 10_000))
	if got := p.set().Instructions(); len(got) > 34<<10 || !strings.Contains(got, "[cut off]") {
		t.Errorf("%d bytes", len(got))
	}
	if !strings.Contains(p.log.String(), "cut off") {
		t.Error("the cut is not in the log")
	}
}

// TestCommands: what a command says with its arguments, in the forms of both generations of files.
func TestCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ body, args, want string }{
		"all of them":         {"Fix $ARGUMENTS now.", " the bug ", "Fix the bug now."},
		"none named":          {"Fix it.", "the bug", "Fix it.\n\nARGUMENTS: the bug"},
		"none given":          {"Fix it.", "", "Fix it."},
		"counted from one":    {"From $1 to $2.", `a "b c" d`, "From a to b c."},
		"counted from zero":   {"From $0 to $1.", "a b", "From a to b."},
		"by index":            {"$ARGUMENTS[1] $ARGUMENTS[0]", "a b", "b a"},
		"missing":             {"$1 $2", "a", "a $2"},
		"escaped":             {`It costs \$1 for $1`, "a", "It costs $1 for a"},
		"an escaped zero":     {`\$0 $1`, "a", "$0 a"},
		"named":               {"---\narguments: from to\n---\n$from to $to", "a b", "a to b"},
		"named and missing":   {"---\narguments: [from, to]\n---\n$from to $to.", "a", "a to ."},
		"others' variables":   {"$HOME ${CLAUDE_PROJECT_DIR} ${ANTHROPIC_API_KEY} $ARGUMENTS", "x", "$HOME . ${ANTHROPIC_API_KEY} x"},
		"arguments are text":  {"$1 $2", `$2 '$ARGUMENTS'`, "$2 $ARGUMENTS"},
		"a program to run":    {"Look: !`cat /etc/passwd`", "", "Look: !`cat /etc/passwd`"},
		"a file":              {"Read @notes/a.md and @../secret.md.", "", "Read @notes/a.md and @../secret.md.\n\n# notes/a.md\n\nNote A"},
		"a file from outside": {"Read $1.", "@../../secret.md", "Read @../../secret.md."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write("secret.md", "SECRET")
			p.write("workspace/notes/a.md", "Note A\n")
			p.write("workspace/.claude/commands/do.md", tc.body)
			got, err := p.set().Expand(t.Context(), "do", tc.args)
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	p := newPlace(t)
	p.write("platform/.claude/commands/git/commit.md", "---\ndescription: Commits\nargument-hint: '[message]'\n---\nplatform")
	p.write("user/.claude/commands/commit.md", "# Commit well\nuser")
	p.write("user/.claude/commands/review.md", "command")
	p.write("user/.claude/skills/review/SKILL.md", fmt.Sprintf(skill, "review", "Reviews.", "skill in ${CLAUDE_SKILL_DIR}"))
	p.write("user/.claude/commands/large.md", strings.Repeat("x", 70<<10))
	p.write("user/.claude/commands/bad name.md", "x")
	p.write("platform/.claude/commands/a/b/c/d/deep.md", "too deep")
	s := p.set()
	want := []parley.SlashCommand{
		{Name: "commit", Description: "Commit well", From: "user"},
		{Name: "large", Description: parley.Cut(strings.Repeat("x", 70<<10), 300), From: "user"},
		{Name: "review", Description: "Reviews.", From: "user"},
	}
	if diff := cmp.Diff(want, s.Commands()); diff != "" {
		t.Error(diff)
	}
	if got, err := s.Expand(t.Context(), "review", ""); got != "skill in .claude/skills/review" {
		t.Error(got, err)
	}
	if _, err := s.Expand(t.Context(), "large", ""); parley.CodeOf(err) != parley.CodeTooLarge {
		t.Error(err)
	}
	if _, err := s.Expand(t.Context(), "none", ""); parley.CodeOf(err) != parley.CodeNotFound {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(p.dir, "user/.claude/commands/commit.md")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Expand(t.Context(), "commit", ""); parley.CodeOf(err) != parley.CodeInvalid || !strings.Contains(err.Error(), "the file is gone") {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(p.dir, "user")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Expand(t.Context(), "review", ""); err == nil || !strings.Contains(err.Error(), "its folder is gone") {
		t.Error(err)
	}
}

// TestRefresh: a change is seen when it is looked for, and counts only if it changes what was found.
func TestRefresh(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("user/AGENTS.md", "One.")
	synctest.Test(t, func(t *testing.T) {
		s := p.set()
		if s.Stale() || s.Changes() != 1 {
			t.Errorf("at first: stale %v, %d changes", s.Stale(), s.Changes())
		}
		time.Sleep(3 * time.Second)
		if !s.Stale() {
			t.Error("it is never looked for changes")
		}
		s.Refresh(t.Context())
		if s.Stale() || s.Changes() != 1 {
			t.Errorf("nothing changed: stale %v, %d changes", s.Stale(), s.Changes())
		}
		p.write("user/AGENTS.md", "Another.")
		p.write("workspace/.claude/skills/new/SKILL.md", fmt.Sprintf(skill, "new", "New.", "x"))
		s.Refresh(t.Context())
		if s.Changes() != 2 || !strings.Contains(s.Instructions(), "Another.") || !strings.Contains(description(t, s), "- new: New.") {
			t.Errorf("%d changes, %q", s.Changes(), s.Instructions())
		}
		if err := os.RemoveAll(filepath.Join(p.dir, "user")); err != nil {
			t.Fatal(err)
		}
		s.Refresh(t.Context())
		if s.Changes() != 3 || s.Instructions() != "" {
			t.Errorf("%d changes, %q", s.Changes(), s.Instructions())
		}
	})
}

// TestSlashCommandTool: a model calls the commands that are for models, and gets their text without
// files, which it reads by itself.
func TestSlashCommandTool(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("workspace/notes/a.md", "Note A")
	p.write("workspace/.claude/commands/do.md", "---\ndescription: Does it\nargument-hint: FILE\n---\nDo @notes/a.md with $1 and $2.")
	p.write("workspace/.claude/commands/mine.md", "---\ndescription: For people\ndisable-model-invocation: true\n---\nMine.")
	p.write("workspace/.claude/skills/review/SKILL.md", fmt.Sprintf(skill, "review", "Reviews.", "How to review $ARGUMENTS"))
	s := p.set()
	decls, err := s.Tools(t.Context())
	if err != nil || len(decls) != 2 || decls[1].Name != extension.CommandTool || decls[1].Effect != parley.EffectRead {
		t.Fatalf("%+v, %v", decls, err)
	}
	if about := decls[1].Description; !strings.Contains(about, "\n- /do FILE: Does it\n- /review: Reviews.") || strings.Contains(about, "mine") {
		t.Errorf("the model is told %s", about)
	}
	run := func(command string) (string, error) {
		res, err := s.Run(t.Context(), seam.Run{Name: extension.CommandTool, Input: json.RawMessage(fmt.Sprintf(`{"command":%q}`, command))})
		return res.Output, err
	}
	for command, want := range map[string]string{
		"/do @.git/config b": "Do @notes/a.md with @.git/config and b.",
		" do  a b":           "Do @notes/a.md with a and b.",
		"/review it":         "How to review it",
	} {
		if got, err := run(command); got != want || err != nil {
			t.Errorf("%q: %q, %v", command, got, err)
		}
	}
	for _, command := range []string{"/mine", "/none", "", "/", "/../do"} {
		if got, err := run(command); err == nil {
			t.Errorf("%q: %q", command, got)
		}
	}
	if got, err := s.Expand(t.Context(), "mine", ""); got != "Mine." || err != nil {
		t.Errorf("a person calls it: %q, %v", got, err)
	}
	empty, err := newPlace(t).set().Tools(t.Context())
	if err != nil || !strings.Contains(empty[1].Description, "no commands now") {
		t.Errorf("%+v, %v", empty, err)
	}
}
