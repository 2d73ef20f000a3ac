package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/shell"
)

const (
	maxFile  = 8 << 20 // bytes of a file that a command line names
	maxFiles = 32      // files that a command line may name
)

// Subject is something that a file of a user or workspace would run. Make one with [Of].
type Subject struct {
	Kind   parley.ApprovalKind
	Level  string // user or workspace
	File   string // the file that names it, relative to the level's folder
	Name   string
	Runs   string   // the whole command line, with the environment that the file sets, or the URL
	Words  []string // of the command line and the environment, where they are not one text for a shell
	Remote bool     // Runs is a URL that is called
	Digest parley.Digest
	Files  []string // files in the folder whose content is part of Digest
	Wrong  error    // why it cannot be approved; nil: it can
}

func (s Subject) approval() parley.Approval {
	problem := ""
	if s.Wrong != nil {
		info := parley.Info(s.Wrong)
		problem = strings.TrimSuffix(info.Message+"; "+info.Hint, "; ")
	}
	return parley.Approval{Problem: problem, Digest: s.Digest, Kind: s.Kind, Level: s.Level, File: s.File, Name: s.Name, Runs: parley.Cut(s.Runs, maxRuns), Remote: s.Remote, Files: s.Files}
}

// Of completes a subject whose fields up to Runs are set. It computes the digest. entry is the
// whole entry in the file, all of which is part of the digest. folder is the level's folder, in
// which the command line may name files. dir is its path on disk, with which the command line
// may name them too.
func Of(s Subject, entry any, folder fs.FS, dir string) Subject {
	h := sha256.New()
	raw, err := json.Marshal([]any{s.Kind, s.Level, s.File, s.Name, s.Runs, entry})
	if err != nil {
		s.Wrong = err
	}
	h.Write(raw)
	if len(s.Runs) > maxRuns {
		s.Wrong = parley.Errorf(parley.CodeTooLarge, "the command line of %s has more than %d bytes", s.Name, maxRuns)
	}
	for _, name := range named(folder, append(word.Split(s.Runs, -1), s.Words...), dir) {
		if len(s.Files) == maxFiles {
			s.Wrong = parley.Errorf(parley.CodeTooLarge, "the command line of %s names more than %d files", s.Name, maxFiles)
			break
		}
		sum, err := digestOf(folder, name)
		if err != nil {
			s.Wrong = parley.Errorf(parley.CodeInvalid, "the file %s, which %s runs, cannot be read: %w", name, s.Name, plain(err))
		}
		s.Files = append(s.Files, name)
		fmt.Fprintf(h, "\n%q %s", name, sum)
	}
	s.Digest = parley.Digest(hex.EncodeToString(h.Sum(nil)))
	return s
}

// word matches what separates the words of a command line, in any shell.
var word = regexp.MustCompile("[\\s\"'`;|&<>()=,]+")

// variables are the characters of a variable's name. One that is not replaced is shown as it stands.
const variables = "${}"

// CommandLine is what runs, as a person reads it: the environment that a file sets, the program
// and its arguments, quoted as for a shell, so that a space in an argument is told from two
// arguments. Variables are not replaced.
func CommandLine(env map[string]string, words []string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+shell.Quote(env[name], variables))
	}
	for _, w := range words {
		out = append(out, shell.Quote(w, variables))
	}
	return strings.Join(out, " ")
}

// named returns the regular files of a folder that the words of a command line may refer to. It
// may return too many, which is harmless: the digest then covers more than it must.
func named(folder fs.FS, words []string, dir string) (list []string) {
	if folder == nil {
		return nil
	}
	for _, w := range words {
		for _, v := range []string{"${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR", "${WORKSPACE_PATH}", "$WORKSPACE_PATH", dir} {
			w = strings.TrimPrefix(w, v)
		}
		name := path.Clean(strings.TrimLeft(w, "/"))
		if w == "" || name == "." || !fs.ValidPath(name) || slices.Contains(list, name) {
			continue
		}
		if info, err := fs.Stat(folder, name); err == nil && info.Mode().IsRegular() {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func digestOf(folder fs.FS, name string) (string, error) {
	f, err := folder.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxFile+1))
	if err == nil && n > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// plain returns err without paths of this machine.
func plain(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// Expand replaces ${NAME} and ${NAME:-default} in a text from a file. own holds variables that
// the file may always use, such as the path of the workspace. Of the server's environment
// variables it replaces only those that the operator has listed. Any other variable is an error
// that names it.
func (g *Gate) Expand(text string, own map[string]string) (string, error) {
	var wrong error
	out := variable.ReplaceAllStringFunc(text, func(whole string) string {
		m := variable.FindStringSubmatch(whole)
		if v, ok := own[m[1]]; ok {
			return v
		}
		listed := g != nil && slices.Contains(g.o.Env, m[1])
		if listed && g.o.Value != nil {
			if v, ok := g.o.Value(m[1]); ok {
				return v
			}
		}
		if m[2] != "" {
			return strings.TrimPrefix(m[2], ":-")
		}
		switch {
		case wrong != nil:
		case listed:
			wrong = parley.Errorf(parley.CodeInvalid, "%s is not set", whole)
		default:
			wrong = parley.Errorf(parley.CodeForbidden, "%s is not a variable that files of users and workspaces may use", whole).
				WithHint("the operator can list it under workspace_env in app.yaml")
		}
		return whole
	})
	if wrong != nil {
		return "", wrong
	}
	return out, nil
}

// ExpandOf is Expand for a file that names the variables it uses. Only these are replaced, even
// if the operator has listed more.
func (g *Gate) ExpandOf(text string, names []string) (string, error) {
	if g == nil {
		return g.Expand(text, nil)
	}
	o := g.o
	o.Env = slices.DeleteFunc(slices.Clone(o.Env), func(n string) bool { return !slices.Contains(names, n) })
	return For(g.at, o).Expand(text, nil)
}

// Address checks a URL from a file: it must be on a host that the operator has listed. The
// caller must connect through a dial.Guard for [Gate.Hosts], which checks the addresses that
// the name resolves to.
func (g *Gate) Address(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return parley.Errorf(parley.CodeInvalid, "its URL is not valid").WithHint("write http:// or https:// and a host, without a password")
	}
	if !slices.Contains(g.Hosts(), strings.ToLower(u.Hostname())) {
		return parley.Errorf(parley.CodeForbidden, "%s is not a host that files of users and workspaces may name", parley.Cut(u.Hostname(), 200)).
			WithHint("the operator can list it under workspace_hosts in app.yaml")
	}
	return nil
}

// Hosts returns the hosts that URLs may name.
func (g *Gate) Hosts() (list []string) {
	if g == nil {
		return nil
	}
	for _, h := range g.o.Hosts {
		list = append(list, strings.ToLower(h))
	}
	return list
}
