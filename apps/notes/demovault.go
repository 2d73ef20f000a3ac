package notes

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"golang.org/x/tools/txtar"
)

// demo/NAME.txtar has the notes of a person. Names and texts in it are templates, so that the days
// of the journal are always those before the vault was made.
//
//go:embed demo
var demoFiles embed.FS

// People are those of the demo's vault: the name of the folder, and who it is.
var people = []struct{ name, full, mail string }{
	{"petra", "Petra Lindner", "petra@example.com"},
	{"sebastian", "Sebastian Kurz", "sebastian@example.com"},
}

// beside are files of the vault that are not text.
var beside = map[string]string{
	"petra/Garden/bed-plan.png":          "bed-plan.png",
	"petra/House/heating-inspection.pdf": "heating-inspection.pdf",
	"sebastian/Running/route.png":        "route.png",
	"sebastian/Documents/lease.pdf":      "lease.pdf",
}

// note is a file of the demo's vault.
type note struct {
	path string // in the vault, such as petra/Home.md
	body []byte
	at   time.Time // when it was written
}

// notesOf returns the files of the demo's vault as they are on the day of now, the oldest first.
func notesOf(now time.Time) ([]note, error) {
	var list []note
	on := func(days int) time.Time { return now.AddDate(0, 0, days) }
	words := template.FuncMap{
		"day":  func(days int) string { return on(days).Format(time.DateOnly) },
		"long": func(days int) string { return on(days).Format("Monday 2 January 2006") },
		"md":   func(days int) string { return on(days).Format("2 January") },
	}
	begun := time.Date(now.Year(), now.Month(), now.Day(), 9, 0, 0, 0, now.Location()).AddDate(0, 0, -45)
	for i, who := range people {
		raw, err := demoFiles.ReadFile("demo/" + who.name + ".txtar")
		if err != nil {
			return nil, err
		}
		t, err := template.New(who.name).Funcs(words).Parse(string(raw))
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, nil); err != nil {
			return nil, err
		}
		for _, f := range txtar.Parse(b.Bytes()).Files {
			list = append(list, note{who.name + "/" + f.Name, f.Data, written(f.Name, begun.Add(time.Duration(i)*time.Hour), now.Location())})
		}
	}
	for name, file := range beside {
		raw, err := demoFiles.ReadFile("demo/" + file)
		if err != nil {
			return nil, err
		}
		list = append(list, note{name, raw, written(name, begun, now.Location())})
	}
	slices.SortFunc(list, func(a, b note) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	return list, nil
}

var dated = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)

// written is when a note was written: in the evening of the day in its name, or else in the
// beginning.
func written(name string, begun time.Time, zone *time.Location) time.Time {
	day, err := time.ParseInLocation(time.DateOnly, dated.FindString(path.Base(name)), zone)
	if err != nil {
		return begun
	}
	return day.Add(21 * time.Hour)
}

// LayVault makes the demo's vault at dir, if there is nothing yet. Beside it is dir.git, a
// repository for which the vault is a clone, unless git is empty: it is the git program. A vault
// that is gone comes back from there. A process that dies in the middle leaves nothing at dir.
func LayVault(ctx context.Context, dir, git string, now time.Time) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".laying-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // what is left is in nobody's way
	list, err := notesOf(now)
	if err != nil {
		return err
	}
	made, remote := filepath.Join(tmp, "notes"), dir+".git"
	if git == "" {
		return errors.Join(lay(made, list), os.Rename(made, dir))
	}
	g := gitOf{ctx, git}
	if _, err := os.Stat(remote); errors.Is(err, fs.ErrNotExist) {
		fresh := filepath.Join(tmp, "notes.git")
		if err := g.run(nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", fresh); err != nil {
			return err
		}
		if err := g.run(stream(list), "-C", fresh, "fast-import", "--quiet"); err != nil {
			return err
		}
		if err := os.Rename(fresh, remote); err != nil {
			return err
		}
	}
	if err := g.run(nil, "clone", "--quiet", "--no-local", "--template=", remote, made); err != nil {
		return err
	}
	for _, name := range list { // the newest notes are those that were written last
		if at := filepath.Join(made, filepath.FromSlash(name.path)); os.Chtimes(at, name.at, name.at) != nil {
			continue // it was removed or renamed since
		}
	}
	return os.Rename(made, dir)
}

// lay writes the files below dir.
func lay(dir string, list []note) error {
	for _, n := range list {
		at := filepath.Join(dir, filepath.FromSlash(n.path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, n.body, 0o600), os.Chtimes(at, n.at, n.at)); err != nil {
			return err
		}
	}
	return nil
}

// stream is the history of the vault for git fast-import: a commit for each day and person.
func stream(list []note) io.Reader {
	var b bytes.Buffer
	for i := 0; i < len(list); {
		who := people[slices.IndexFunc(people, func(p struct{ name, full, mail string }) bool { return strings.HasPrefix(list[i].path, p.name+"/") })]
		end := i
		for end < len(list) && list[end].at.Equal(list[i].at) && strings.HasPrefix(list[end].path, who.name+"/") {
			end++
		}
		message := "Notes of " + list[i].at.Format(time.DateOnly)
		if i == 0 || !dated.MatchString(path.Base(list[i].path)) {
			message = "The notes of " + who.full
		}
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter %s <%s> %d %s\ndata %d\n%s\n", who.full, who.mail, list[i].at.Unix(), list[i].at.Format("-0700"), len(message), message)
		for _, n := range list[i:end] {
			fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n", strconv.Quote(n.path), len(n.body))
			b.Write(n.body)
			b.WriteByte('\n')
		}
		i = end
	}
	return &b
}

// gitOf runs the git program, without what a user or the system has configured.
type gitOf struct {
	ctx     context.Context
	program string
}

func (g gitOf) run(in io.Reader, args ...string) error {
	cmd := exec.CommandContext(g.ctx, g.program, args...) //nolint:gosec // found by its name
	cmd.Env = []string{"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "HOME=" + os.TempDir(), "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}
