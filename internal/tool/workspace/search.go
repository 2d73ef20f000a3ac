package workspace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxGlobbed = 100      // files of one Glob
	maxGrepped = 250      // lines or files of one Grep, unless it asks for others
	maxHits    = 8 << 20  // bytes of matches that a Grep collects
	maxGrepIn  = 10 << 20 // larger files are not searched, and the result says so
)

// glob finds files by name.
func glob(ctx context.Context, r seam.Run, tree files.Tree) (parley.ToolResult, error) {
	var in struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused(wrong("the input cannot be read: %v", err)), nil
	}
	from, err := files.Clean(in.Path)
	if err != nil {
		return refused(err), nil
	}
	match, hidden, err := matcher(in.Pattern)
	if err != nil {
		return refused(err), nil
	}
	type found struct {
		name string
		at   time.Time
	}
	var list []found
	err = tree.Walk(ctx, from, files.Walk{Ignored: hidden}, func(e files.Entry) error {
		if !match(below(from, e.Path)) {
			return nil
		}
		if info, err := e.Stat(); err == nil {
			list = append(list, found{e.Path, info.Modified})
		}
		return nil
	})
	if err != nil {
		return refused(err), nil
	}
	if len(list) == 0 {
		return parley.ToolResult{Output: "No file has such a name."}, nil
	}
	slices.SortFunc(list, func(a, b found) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.name, b.name)) })
	var b strings.Builder
	for _, f := range list[:min(len(list), maxGlobbed)] {
		b.WriteString(f.name + "\n")
	}
	if more := len(list) - maxGlobbed; more > 0 {
		fmt.Fprintf(&b, "(%d more; use a narrower pattern or path)\n", more)
	}
	return parley.ToolResult{Output: strings.TrimSuffix(b.String(), "\n")}, nil
}

// below is a path relative to a folder that holds it.
func below(dir, name string) string {
	if dir == "." {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}

// matcher matches names by a glob. A pattern without a slash matches in every folder. hidden says
// that the pattern asks for names that begin with a dot; otherwise they are skipped.
func matcher(pattern string) (match func(name string) bool, hidden bool, err error) {
	pattern = strings.TrimPrefix(pattern, "./")
	switch {
	case pattern == "":
		return nil, false, wrong("the pattern is empty; *.md finds all Markdown files, notes/**/*.md those below notes")
	case len(pattern) > 1000 || strings.Count(pattern, "{") > 10 || strings.Count(pattern, "**") > 10:
		return nil, false, wrong("the pattern is too long")
	case path.IsAbs(pattern) || strings.HasPrefix(pattern, "../"):
		return nil, false, wrong("the pattern %q leads out of the workspace; write it relative to it", parley.Cut(pattern, 80))
	case !doublestar.ValidatePattern(pattern):
		return nil, false, wrong("%q is not a valid pattern", parley.Cut(pattern, 80))
	}
	hidden = strings.HasPrefix(pattern, ".") || strings.Contains(pattern, "/.")
	if !strings.Contains(pattern, "/") {
		return func(name string) bool { return doublestar.MatchUnvalidated(pattern, path.Base(name)) }, hidden, nil
	}
	return func(name string) bool { return doublestar.MatchUnvalidated(pattern, name) }, hidden, nil
}

// types are file name extensions by file type, under the names that ripgrep gives the types
// (rg --type-list).
var types = map[string][]string{
	"c": {".c", ".h"}, "cpp": {".cpp", ".cc", ".cxx", ".hpp", ".hh", ".h"}, "css": {".css", ".scss"}, "csv": {".csv"}, "go": {".go"}, "html": {".html", ".htm"},
	"java": {".java"}, "js": {".js", ".jsx", ".mjs", ".cjs"}, "json": {".json"}, "markdown": {".md", ".markdown", ".mdx"}, "md": {".md", ".markdown", ".mdx"},
	"py": {".py", ".pyi"}, "ruby": {".rb"}, "rust": {".rs"}, "sh": {".sh", ".bash", ".zsh"}, "sql": {".sql"}, "toml": {".toml"}, "ts": {".ts", ".tsx", ".mts", ".cts"},
	"txt": {".txt"}, "xml": {".xml", ".svg"}, "yaml": {".yaml", ".yml"},
}

// grepInput is the input of Grep.
type grepInput struct {
	Pattern   string `json:"pattern"`
	Path      string `json:"path"`
	Glob      string `json:"glob"`
	Type      string `json:"type"`
	Mode      string `json:"output_mode"`
	Before    int    `json:"-B"`
	After     int    `json:"-A"`
	Around    int    `json:"-C"`
	Numbers   *bool  `json:"-n"`
	Fold      bool   `json:"-i"`
	Multiline bool   `json:"multiline"`
	Limit     *int   `json:"head_limit"`
	Offset    int    `json:"offset"`
}

// query is a Grep that is ready to run.
type query struct {
	grepInput
	re    *regexp.Regexp // matches within a line, or anything if Multiline
	whole *regexp.Regexp // matches every text with a line that re matches; nil: not known
	wants func(name string) bool
	from  string
	large *passed // files that are too large to be searched
}

func (in grepInput) query() (q query, hidden bool, err error) {
	q = query{grepInput: in, large: &passed{}}
	if q.from, err = files.Clean(in.Path); err != nil {
		return q, false, err
	}
	switch {
	case in.Pattern == "":
		return q, false, wrong("the pattern is empty")
	case len(in.Pattern) > 10_000:
		return q, false, wrong("the pattern has %d bytes; the limit is 10,000", len(in.Pattern))
	}
	flags := ""
	if in.Fold {
		flags = "i"
	}
	lineFlags, wholeFlags := flags, flags+"m"
	if in.Multiline {
		lineFlags = flags + "ms"
	}
	expr := func(flags string) string {
		if flags == "" {
			return in.Pattern
		}
		return "(?" + flags + ")(?:" + in.Pattern + ")"
	}
	if q.re, err = regexp.Compile(expr(lineFlags)); err != nil {
		why := err.Error()
		if e, ok := err.(*syntax.Error); ok { //nolint:errorlint // regexp returns it as it is
			why = string(e.Code) + ": " + e.Expr
		}
		return q, false, parley.Errorf(parley.CodeInvalid, "the pattern is not a regular expression: %s", parley.Cut(why, 200)).
			WithHint(`put a backslash before characters that are meant as they are, as in \( or \.; lookaround and back references are not supported`)
	}
	if !in.Multiline && !strings.Contains(in.Pattern, `\A`) && !strings.Contains(in.Pattern, `\z`) && !strings.Contains(in.Pattern, "(?") {
		q.whole = regexp.MustCompile(expr(wholeFlags))
	}
	q.wants = func(string) bool { return true }
	if in.Glob != "" {
		glob := strings.TrimPrefix(in.Glob, "!")
		var match func(string) bool
		if match, hidden, err = matcher(glob); err != nil {
			return q, false, err
		}
		q.wants = func(name string) bool { return match(below(q.from, name)) == (glob == in.Glob) }
	}
	if in.Type != "" {
		ends := types[in.Type]
		if ends == nil {
			return q, false, wrong("there is no type %q; use glob, as in *.%s", parley.Cut(in.Type, 40), parley.Cut(in.Type, 40))
		}
		byName := q.wants
		q.wants = func(name string) bool { return slices.Contains(ends, strings.ToLower(path.Ext(name))) && byName(name) }
	}
	switch in.Mode {
	case "", "files_with_matches", "content", "count":
	default:
		return q, false, wrong("output_mode is %q; it is files_with_matches, content or count", parley.Cut(in.Mode, 40))
	}
	if in.Before, in.After = min(max(cmp.Or(in.Before, in.Around), 0), 100), min(max(cmp.Or(in.After, in.Around), 0), 100); in.Mode == "content" {
		q.Before, q.After = in.Before, in.After
	}
	return q, hidden, nil
}

// hits are the matches in a file.
type hits struct {
	name  string
	lines []string // of the result in mode content
	count int
}

// grep searches the contents of files.
func (t *Toolset) grep(ctx context.Context, r seam.Run, root *os.Root) (parley.ToolResult, error) {
	var in grepInput
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused(wrong("the input cannot be read: %v", err)), nil
	}
	q, hidden, err := in.query()
	if err != nil {
		return refused(err), nil
	}
	found, cut, err := q.search(ctx, root, hidden, t.rg)
	if err != nil {
		return refused(err), nil
	}
	return parley.ToolResult{Output: q.result(found, cut) + q.large.said()}, nil
}

// search searches a file, or the files of a folder on all processors at once. cut says that it
// stopped because it had collected enough.
func (q query) search(ctx context.Context, root *os.Root, hidden bool, rg ripgrep) (found []hits, cut bool, err error) {
	tree := files.Of(root)
	if info, err := tree.Stat(q.from); err != nil {
		return nil, false, err
	} else if !info.Dir {
		f, info, err := tree.Open(q.from)
		if err != nil {
			return nil, false, err
		}
		if info.Size > maxGrepIn {
			_ = f.Close()
			return nil, false, parley.Errorf(parley.CodeTooLarge, "%s has more than %d MB, so it cannot be searched", info.Path, maxGrepIn>>20).WithHint("read parts of it with Read")
		}
		q.Path = q.from
		if h := q.file(f, info.Path, nil); h != nil {
			found = append(found, *h)
		}
		return found, false, nil
	}
	only, sparse := rg.candidates(ctx, root, q, hidden)
	how := files.Walk{Ignored: hidden}
	if sparse {
		how.Into = func(dir string) bool { return only.dirs[dir] }
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type job struct {
		f    *os.File
		name string
	}
	jobs := make(chan job, 64)
	var mu sync.Mutex
	size, full := 0, false
	var work sync.WaitGroup
	for range max(runtime.GOMAXPROCS(0), 1) {
		work.Go(func() {
			var buf []byte
			for j := range jobs {
				if ctx.Err() != nil {
					_ = j.f.Close()
					continue
				}
				h := q.file(j.f, j.name, &buf)
				if h == nil {
					continue
				}
				mu.Lock()
				found = append(found, *h)
				size += len(h.name)
				for _, l := range h.lines {
					size += len(l)
				}
				if size > maxHits {
					full = true
					stop()
				}
				mu.Unlock()
			}
		})
	}
	err = tree.Walk(ctx, q.from, how, func(e files.Entry) error {
		if sparse && !only.files[e.Path] || !q.wants(e.Path) {
			return nil
		}
		if f, err := e.Open(); err == nil {
			jobs <- job{f, e.Path}
		}
		return nil
	})
	close(jobs)
	work.Wait()
	if full {
		err = nil
	}
	slices.SortFunc(found, func(a, b hits) int { return strings.Compare(a.name, b.name) })
	return found, full, err
}

// file searches an open file and closes it. It returns nil if nothing matches or the file is not
// text. buf is reused for the next file.
func (q query) file(f *os.File, name string, buf *[]byte) *hits {
	defer f.Close() //nolint:errcheck // nothing was written
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil
	case fi.Size() > maxGrepIn:
		q.large.add(name)
		return nil
	}
	var own []byte
	if buf == nil {
		buf = &own
	}
	*buf = slices.Grow((*buf)[:0], int(fi.Size())+1)
	body := (*buf)[:fi.Size()]
	n, err := io.ReadFull(f, body)
	if err != nil && n == 0 {
		return nil
	}
	body = body[:n]
	if binary(body) || q.whole != nil && bytes.IndexByte(body, '\r') < 0 && !q.whole.Match(body) {
		return nil
	}
	h := &hits{name: name}
	if q.Multiline {
		q.regions(h, body)
	} else {
		q.lines(h, body)
	}
	if h.count == 0 {
		return nil
	}
	return h
}

// lines finds the lines that match.
func (q query) lines(h *hits, body []byte) {
	var last int     // lines up to this number are in the result
	var before []int // where the lines before the current one begin, for context
	trailing := 0    // lines of context still to show
	at, number := 0, 0
	for at < len(body) {
		end := bytes.IndexByte(body[at:], '\n')
		if end < 0 {
			end = len(body)
		} else {
			end += at
		}
		number++
		line := bytes.TrimSuffix(body[at:end], []byte("\r"))
		switch {
		case q.re.Match(line):
			h.count++
			if q.Mode == "" || q.Mode == "files_with_matches" {
				return // one is enough
			}
			if q.Mode == "content" {
				first := max(number-q.Before, last+1)
				if last > 0 && first > last+1 && q.Before+q.After > 0 {
					h.lines = append(h.lines, "--")
				}
				for n := first; n < number; n++ {
					from := before[len(before)-(number-n)]
					h.lines = append(h.lines, q.line(h.name, n, '-', lineFrom(body, from)))
				}
				h.lines = append(h.lines, q.line(h.name, number, ':', line))
				last, trailing = number, q.After
			}
		case trailing > 0:
			h.lines = append(h.lines, q.line(h.name, number, '-', line))
			last = number
			trailing--
		}
		if q.Before > 0 {
			if before = append(before, at); len(before) > q.Before {
				before = before[1:]
			}
		}
		at = end + 1
	}
}

func lineFrom(body []byte, at int) []byte {
	line, _, _ := bytes.Cut(body[at:], []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// regions finds matches that may extend over lines.
func (q query) regions(h *hits, body []byte) {
	most := -1
	if q.Mode == "" || q.Mode == "files_with_matches" {
		most = 1
	}
	for _, m := range q.re.FindAllIndex(body, most) {
		h.count++
		if q.Mode != "content" {
			continue
		}
		from := bytes.LastIndexByte(body[:m[0]], '\n') + 1
		number := bytes.Count(body[:from], []byte("\n")) + 1
		for at := from; at <= m[1] && at < len(body); number++ {
			line := lineFrom(body, at)
			h.lines = append(h.lines, q.line(h.name, number, ':', line))
			next := bytes.IndexByte(body[at:], '\n')
			if next < 0 {
				break
			}
			if at += next + 1; at >= m[1] {
				break
			}
		}
	}
}

// line is a line of the result in mode content.
func (q query) line(name string, number int, mark byte, line []byte) string {
	text := cut(strings.ToValidUTF8(string(line), "\uFFFD"), 500)
	if q.Numbers != nil && !*q.Numbers {
		return name + string(mark) + text
	}
	return fmt.Sprintf("%s%c%d%c%s", name, mark, number, mark, text)
}

// result is what the model sees.
func (q query) result(found []hits, cut bool) string {
	if len(found) == 0 {
		return "Nothing matches."
	}
	var rows []string
	matches := 0
	for _, h := range found {
		matches += h.count
		switch q.Mode {
		case "content":
			if len(rows) > 0 && q.Before+q.After > 0 {
				rows = append(rows, "--")
			}
			rows = append(rows, h.lines...)
		case "count":
			rows = append(rows, fmt.Sprintf("%s:%d", h.name, h.count))
		default:
			rows = append(rows, h.name)
		}
	}
	limit := maxGrepped
	if q.Limit != nil {
		limit = *q.Limit
	}
	all := len(rows)
	rows = rows[min(max(q.Offset, 0), all):]
	if limit > 0 && len(rows) > limit {
		rows = rows[:limit]
	}
	text := strings.Join(rows, "\n")
	if q.Mode == "count" {
		text += fmt.Sprintf("\n(%d matches in %d files)", matches, len(found))
	}
	switch {
	case cut:
		text += "\n(There is more than can be collected; use a narrower pattern or path.)"
	case len(rows) == 0:
		text = fmt.Sprintf("There are %d rows; offset %d is beyond them.", all, q.Offset)
	case len(rows) < all:
		text += fmt.Sprintf("\n(Rows %d to %d of %d. More with offset %d.)", q.Offset+1, q.Offset+len(rows), all, q.Offset+len(rows))
	}
	return text
}
