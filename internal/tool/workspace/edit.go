package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

// current reads a file that a call is to change, as the session has seen it. A file that does not
// exist has no version.
func (t *Toolset) current(ctx context.Context, r seam.Run, tree files.Tree, name string) (body []byte, was files.Version, err error) {
	body, err = tree.Read(name, files.MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	info, err := tree.Stat(name)
	if err != nil {
		return nil, "", err
	}
	if info.Mode.Perm()&0o222 == 0 {
		return nil, "", parley.Errorf(parley.CodeForbidden, "%s is read-only (its mode is %04o)", name, info.Mode.Perm()).WithHint("somebody wanted it to stay as it is; ask the user before anything is done about that")
	}
	was = files.VersionOf(body)
	seen, ok, err := t.seen(ctx, r, name)
	switch {
	case err != nil:
		return nil, "", err
	case !ok:
		return nil, "", parley.Errorf(parley.CodeConflict, "%s has not been read yet", name).WithHint("read it first, so that nothing in it is lost")
	case seen != was:
		return nil, "", parley.Errorf(parley.CodeConflict, "%s has changed since it was read, by somebody else", name).WithHint("read it again, and base the change on what it has now")
	}
	return body, was, nil
}

// write plans a Write.
func (t *Toolset) write(ctx context.Context, r seam.Run, tree files.Tree) (edit, error) {
	var in struct {
		File    string `json:"file_path"`
		Content string `json:"content"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return edit{}, wrong("the input cannot be read: %v", err)
	}
	name, err := files.Clean(in.File)
	if err != nil {
		return edit{}, err
	}
	old, was, err := t.current(ctx, r, tree, name)
	if err != nil {
		return edit{}, err
	}
	e := edit{path: name, was: was, old: old, body: []byte(in.Content), said: name + " was written."}
	if was == "" {
		e.said = name + " was created."
	}
	return e, nil
}

// edit plans an Edit.
func (t *Toolset) edit(ctx context.Context, r seam.Run, tree files.Tree) (edit, error) {
	var in struct {
		File string `json:"file_path"`
		Old  string `json:"old_string"`
		New  string `json:"new_string"`
		All  bool   `json:"replace_all"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return edit{}, wrong("the input cannot be read: %v", err)
	}
	name, err := files.Clean(in.File)
	if err != nil {
		return edit{}, err
	}
	old, was, err := t.current(ctx, r, tree, name)
	if err != nil {
		return edit{}, err
	}
	e := edit{path: name, was: was, old: old}
	switch {
	case in.Old == in.New:
		return e, wrong("old_string and new_string are the same, so there is nothing to change")
	case was == "" && in.Old == "":
		e.body, e.said = []byte(in.New), name+" was created."
		return e, nil
	case was == "":
		return e, parley.Errorf(parley.CodeNotFound, "there is no %q", name).WithHint("find its name with Glob, or create it with Write")
	case in.Old == "" && len(old) > 0:
		return e, wrong("old_string is empty, but %s is not", name)
	case !utf8.Valid(old):
		return e, wrong("%s is not text", name)
	}
	before, after := in.Old, in.New
	if crlf(old) {
		before, after = withCRLF(before), withCRLF(after)
	}
	at := bytes.Index(old, []byte(before))
	n := min(at+1, 1)
	if n == 1 {
		n += bytes.Count(old[at+len(before):], []byte(before))
	}
	switch {
	case in.Old == "":
		e.body = []byte(after)
	case n == 0:
		return e, wrong("old_string is not in %s. It must be there letter by letter, with all spaces and line breaks, but without the line numbers that Read shows", name)
	case n > 1 && !in.All:
		return e, wrong("old_string is in %s %d times. Add lines around it until it is there once, or set replace_all", name, n)
	default:
		if size := int64(len(old)) + int64(n)*int64(len(after)-len(before)); size > files.MaxFile { // before it is made
			return e, parley.Errorf(parley.CodeTooLarge, "%s would have %d MB; the limit is %d MB", name, size>>20, int64(files.MaxFile)>>20)
		}
		if n == 1 {
			e.body = slices.Concat(old[:at], []byte(after), old[at+len(before):])
			e.said = name + " was changed. It now has:\n" + snippet(e.body, at, at+len(after))
			break
		}
		e.body = bytes.ReplaceAll(old, []byte(before), []byte(after))
		e.said = fmt.Sprintf("%s was changed in %d places.", name, n)
	}
	return e, nil
}

// crlf reports whether all line ends of a file are CRLF. Models write LF.
func crlf(file []byte) bool {
	n := bytes.Count(file, []byte("\r\n"))
	return n > 0 && n == bytes.Count(file, []byte("\n"))
}

func withCRLF(text string) string {
	if strings.Contains(text, "\r\n") {
		return text
	}
	return strings.ReplaceAll(text, "\n", "\r\n")
}

// around is how many lines a snippet shows before and after a change.
const around = 4

// snippet numbers the lines of a text from a little before a range to a little after it.
func snippet(body []byte, from, to int) string {
	start := from
	for range around + 1 {
		start = bytes.LastIndexByte(body[:start], '\n')
		if start < 0 {
			break
		}
	}
	start++
	end := to
	for range around + 1 {
		n := bytes.IndexByte(body[end:], '\n')
		if n < 0 {
			end = len(body)
			break
		}
		end += n + 1
	}
	first := bytes.Count(body[:start], []byte("\n")) + 1
	text, _, _ := numbered(body[start:end], first, 60, 16<<10)
	return text
}

const (
	maxDiff      = 16 << 10 // bytes of a diff in the log
	maxDiffInput = 256 << 10
)

// saved describes a change to a version, with its diff.
func saved(e edit, after files.Version) parley.FileSaved {
	s := parley.FileSaved{Path: e.path, Before: e.was, After: after}
	// Only what lies between the first and the last difference is compared, so a small change of
	// a large file takes no time.
	before, now, skipped := between(e.old, e.body)
	if len(before)+len(now) > maxDiffInput || !isText(before) || !isText(now) || binary(e.old) || binary(e.body) {
		return s
	}
	oldLines, newLines := string(before), string(now)
	d, err := udiff.ToUnifiedDiff("a/"+e.path, "b/"+e.path, oldLines, udiff.Lines(oldLines, newLines), 3)
	if err != nil {
		return s
	}
	for _, h := range d.Hunks {
		h.FromLine += skipped
		h.ToLine += skipped
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Insert:
				s.Added++
			case udiff.Delete:
				s.Removed++
			}
		}
	}
	if text := d.String(); len(text) <= maxDiff {
		s.Diff = text
	}
	return s
}

// isText reports whether a piece of a file can be in a diff.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// block is how many bytes are compared at once.
const block = 4 << 10

// common is the length of what a and b, which are equally long, have in common at the beginning.
func common(a, b []byte) (n int) {
	for n+block <= len(a) && bytes.Equal(a[n:n+block], b[n:n+block]) {
		n += block
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// commonEnd is that at the end.
func commonEnd(a, b []byte) (n int) {
	for n+block <= len(a) && bytes.Equal(a[len(a)-n-block:len(a)-n], b[len(b)-n-block:len(b)-n]) {
		n += block
	}
	for n < len(a) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// between cuts the lines that two texts have in common at the beginning and at the end, except for
// three on each side. skipped is how many were cut at the beginning.
func between(a, b []byte) (x, y []byte, skipped int) {
	n := min(len(a), len(b))
	start := common(a[:n], b[:n])
	for range 4 {
		if start = bytes.LastIndexByte(a[:start], '\n'); start < 0 {
			break
		}
	}
	start++
	end := commonEnd(a[len(a)-(n-start):], b[len(b)-(n-start):])
	tail := a[len(a)-end:]
	keep := 0
	for range 4 {
		i := bytes.IndexByte(tail[keep:], '\n')
		if i < 0 {
			keep = len(tail)
			break
		}
		keep += i + 1
	}
	end -= keep
	return a[start : len(a)-end], b[start : len(b)-end], bytes.Count(a[:start], []byte("\n"))
}
