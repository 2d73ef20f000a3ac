package extension

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

const (
	maxFile     = 256 << 10 // bytes of a file that is read
	maxEntries  = 1000      // entries of a folder that are read
	maxProblems = 20        // problems reported for one look
)

// reader reads the folder of a level.
type reader struct {
	*look
	level  string
	folder fs.FS
}

// text returns a file's text. It reads the file only if it has changed since the last look.
func (r *reader) text(name string) (string, error) {
	at := place{r.level, name}
	if have, ok := r.now[at]; ok {
		return have.text, nil
	}
	info, err := fs.Stat(r.folder, name)
	if err != nil {
		return "", err
	}
	if have, ok := r.before[at]; ok && have.size == info.Size() && have.at.Equal(info.ModTime()) {
		r.now[at] = have
		return have.text, nil
	}
	text, err := readText(r.folder, name, maxFile)
	if err != nil {
		return "", err
	}
	r.now[at] = cached{info.Size(), info.ModTime(), text}
	return text, nil
}

// readText reads a text file. It reads at most limit bytes, whatever size the file system
// reports.
func readText(folder fs.FS, name string, limit int64) (string, error) {
	if !fs.ValidPath(name) {
		return "", errors.New("it is not a path in the folder")
	}
	if info, err := fs.Stat(folder, name); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() { // opening a named pipe would wait for a writer
		return "", errors.New("it is not a file")
	}
	f, err := folder.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return "", err
	case int64(len(raw)) > limit:
		return "", fmt.Errorf("it has more than %d bytes", limit)
	case !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0):
		return "", errors.New("it is not text")
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(raw), "\ufeff"), "\r\n", "\n"), nil
}

// list lists a folder. One that is missing has no entries.
func (r *reader) list(dir string) []fs.DirEntry {
	f, err := r.folder.Open(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.problem(r.level, dir, err)
		}
		return nil
	}
	defer f.Close() //nolint:errcheck // nothing was written
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		r.problem(r.level, dir, errors.New("it is not a folder"))
		return nil
	}
	list, err := d.ReadDir(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		r.problem(r.level, dir, err)
	}
	if len(list) == maxEntries {
		r.problem(r.level, dir, fmt.Errorf("only its first %d entries are read", maxEntries))
	}
	return list
}

// isDir reports whether an entry is a folder, or a link to one.
func (r *reader) isDir(dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := fs.Stat(r.folder, path.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// front is the front matter of a skill or command.
type front struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	WhenToUse   string `yaml:"when_to_use"`
	Hint        string `yaml:"argument-hint"`
	Arguments   words  `yaml:"arguments"`
	NotForModel bool   `yaml:"disable-model-invocation"`
	ForUser     *bool  `yaml:"user-invocable"`
}

// words is a list of words, or one string of words separated by spaces.
type words []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	var one string
	if n.Decode(&one) == nil {
		*w = strings.FieldsFunc(one, func(r rune) bool { return r == ' ' || r == ',' })
		return nil
	}
	return n.Decode((*[]string)(w))
}

// split splits a file into front matter and body. A file without front matter is all body.
func split(text string) (f front, body string, err error) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return f, text, nil
	}
	head, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return f, "", errors.New("its front matter has no end; end it with a line ---")
		}
	}
	if err := yaml.Load([]byte(head), &f); err == nil {
		return f, body, nil
	}
	// Other programs accept values that contain ": " without quotes.
	f = front{}
	if err := yaml.Load([]byte(quoted(head)), &f); err != nil {
		return f, "", fmt.Errorf("its front matter cannot be read: %w", err)
	}
	return f, body, nil
}

// quoted returns front matter with its plain one-line values put in quotes.
func quoted(head string) string {
	lines := strings.Split(head, "\n")
	for i, line := range lines {
		key, value, ok := strings.Cut(line, ": ")
		if value = strings.TrimSpace(value); ok && strings.Contains(value, ":") && !strings.ContainsAny(value[:1], `"'[{|>&*`) {
			lines[i] = key + ": '" + strings.ReplaceAll(value, "'", "''") + "'"
		}
	}
	return strings.Join(lines, "\n")
}
