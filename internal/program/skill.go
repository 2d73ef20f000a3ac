package program

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/openapi"
)

// newSkill is parley skill.
func newSkill() *cobra.Command {
	cmd := &cobra.Command{Use: "skill", Short: "Skills, which tell an agent how to do something"}
	group(cmd)
	cmd.AddCommand(newSkillFromOpenAPI())
	return cmd
}

// SkillsDir is where skills are made, below the folder of the command.
const SkillsDir = ".agents/skills"

func newSkillFromOpenAPI() *cobra.Command {
	var o openapi.SkillOptions
	var dir string
	var overwrite bool
	cmd := &cobra.Command{
		Use: "from-openapi FILE", Short: "Make skills of an OpenAPI description", Args: listed(cobra.ExactArgs(1), "a description in JSON or YAML; - reads it from the standard input"),
		Long: `Make skills of an OpenAPI description (3.0 or 3.1), one for each resource of the
API: its base URL and authentication, its reads and writes, what to ask for, and
how to find out what became of a write whose answer was lost. An agent with the
tool api_request works by them.

A skill that exists is only replaced with --overwrite. Read what was made before
an agent uses it, as you would read code: it says what the description says.`,
		Example: `  parley skill from-openapi crm.json --only leads,companies
  curl -s https://crm.example.com/openapi.json | parley skill from-openapi - --dir apps/crm/skills`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Name, o.Description, err = descriptionIn(args[0], cmd.InOrStdin()); err != nil {
				return err
			}
			list, err := openapi.Skills(o)
			if err != nil {
				return usage(err)
			}
			if err := WriteSkills(dir, list, overwrite); err != nil {
				if parley.CodeOf(err) == parley.CodeConflict {
					return usage(err)
				}
				return err
			}
			printSkills(cmd.OutOrStdout(), dir, list)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", SkillsDir, "`folder` of the skills")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "`resources` to make skills for (default all)")
	cmd.Flags().StringVar(&o.BaseURL, "base-url", "", "`URL` of the API, for the skills (default the description's)")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace skills that exist")
	return cmd
}

// descriptionIn reads a file, or the standard input for "-".
func descriptionIn(file string, stdin io.Reader) (name string, raw []byte, err error) {
	in, name := stdin, "the description"
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // that is what it is asked for
		if err != nil {
			return "", nil, usage(parley.Errorf(parley.CodeInvalid, "%w", err).WithField("file"))
		}
		defer f.Close() //nolint:errcheck // nothing was written
		in, name = f, path.Base(file)
	}
	raw, err = io.ReadAll(io.LimitReader(in, parley.MaxDescription+1))
	if err != nil {
		return "", nil, parley.Errorf(parley.CodeInvalid, "read %s: %w", name, err).WithField("file")
	}
	return name, raw, nil
}

// WriteSkills writes skills into a folder, all or none that exist unless overwrite is set. A link in
// it leads nowhere else.
func WriteSkills(dir string, list []openapi.Skill, overwrite bool) error {
	wrong := func(err error) error { return parley.Errorf(parley.CodeUnavailable, "write the skills: %w", err) }
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // skills are read by everybody
		return wrong(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return wrong(err)
	}
	defer root.Close() //nolint:errcheck // files are closed by themselves
	var there []string
	for _, s := range list {
		if _, err := root.Lstat(s.Name); err == nil {
			there = append(there, s.Name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return wrong(err)
		}
	}
	if len(there) > 0 && !overwrite {
		more := ""
		if len(there) > 10 {
			there, more = there[:10], fmt.Sprintf(" and %d more", len(there)-10)
		}
		return parley.Errorf(parley.CodeConflict, "%s has the skills %s%s already", dir, strings.Join(there, ", "), more).
			WithHint("--overwrite replaces them, --only makes others, --dir makes them elsewhere")
	}
	for _, s := range list {
		if err := writeSkill(root, s); err != nil {
			return wrong(err)
		}
	}
	return nil
}

// writeSkill replaces a skill. Other files of its folder stay, except references of a skill that
// was made before.
func writeSkill(root *os.Root, s openapi.Skill) error {
	if old, err := root.ReadFile(s.Name + "/SKILL.md"); err == nil && bytes.Contains(old, []byte(openapi.Generated)) {
		if err := root.RemoveAll(s.Name + "/references"); err != nil {
			return err
		}
	}
	for _, f := range s.Files {
		at := s.Name + "/" + f.Path
		if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(at+".new", f.Body, 0o644); err != nil {
			return err
		}
		if err := root.Rename(at+".new", at); err != nil {
			return err
		}
	}
	return nil
}

// printSkills says what was made, and what the operator has to know of it.
func printSkills(out io.Writer, dir string, list []openapi.Skill) {
	var keyed, getWrites, unfit []string
	for _, s := range list {
		fmt.Fprintf(out, "%s: %s, %s\n", path.Join(dir, s.Name, "SKILL.md"), count(s.Reads, "read", "reads"), count(s.Writes, "write", "writes"))
		keyed, getWrites, unfit = append(keyed, s.Keyed...), append(getWrites, s.GetWrites...), append(unfit, s.Unfit...)
	}
	say := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(out, "\n%s\n", title)
		for _, line := range lines[:min(len(lines), 20)] {
			fmt.Fprintf(out, "  %s\n", pattern(line))
		}
		if more := len(lines) - 20; more > 0 {
			fmt.Fprintf(out, "  and %d more\n", more)
		}
	}
	say("These take an Idempotency-Key. List them under tools.rest.idempotent:", keyed)
	say("These change something although they are a GET. List them under tools.rest.writes:", getWrites)
	say("api_request cannot make these:", unfit)
}

// pattern is a request as app.yaml names it: * stands for a parameter.
func pattern(request string) string {
	var b strings.Builder
	for rest := request; ; {
		before, after, ok := strings.Cut(rest, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if _, rest, ok = strings.Cut(after, "}"); !ok {
			return request
		}
		b.WriteByte('*')
	}
}
