package workspace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/picture"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxLines    = 2000      // of one Read, unless it asks for fewer
	maxLineText = 4000      // bytes of a line
	maxReadText = 120 << 10 // bytes of one Read
	maxImage    = 20 << 20  // bytes of an image
)

// read reads a file.
func (t *Toolset) read(ctx context.Context, r seam.Run, tree files.Tree) (parley.ToolResult, error) {
	var in struct {
		File   string `json:"file_path"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
		Pages  string `json:"pages"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused(wrong("the input cannot be read: %v", err)), nil
	}
	name, err := files.Clean(in.File)
	if err != nil {
		return refused(err), nil
	}
	body, err := tree.Read(name, files.MaxFile)
	if err != nil {
		return refused(err), nil
	}
	var res parley.ToolResult
	seen := false
	switch isPDF := document(name, body); {
	case isPDF && (in.Offset > 0 || in.Limit > 0):
		res = refused(wrong("%s is a PDF, which has no numbered lines; choose pages with pages, such as \"1-5\"", name))
	case isPDF:
		res, seen = pdf(ctx, name, body, in.Pages)
	case in.Pages != "":
		res = refused(wrong("%s is not a PDF, so it has no pages; choose lines with offset and limit", name))
	default:
		res, seen = show(ctx, r, name, body, in.Offset, in.Limit)
	}
	if ctx.Err() != nil {
		return parley.ToolResult{}, context.Cause(ctx)
	}
	if seen { // also if only a part was read: models expect that of this tool
		if err := t.saw(ctx, r, name, files.VersionOf(body)); err != nil {
			return refused(err), nil
		}
	}
	return res, nil
}

// show is the result of a Read. seen is false if nothing of the file could be shown.
func show(ctx context.Context, r seam.Run, name string, body []byte, offset, limit int) (res parley.ToolResult, seen bool) {
	kind := http.DetectContentType(body)
	switch {
	case strings.HasPrefix(kind, "image/"):
		res = image(ctx, r, name, kind, body)
		return res, res.Outcome != parley.OutcomeError
	case strings.EqualFold(path.Ext(name), ".ipynb"):
		text, err := cells(body)
		if err != nil {
			return refused(wrong("%s is not a notebook: %v", name, err)), false
		}
		return parley.ToolResult{Output: text}, true
	case binary(body):
		return refused(wrong("%s is not text (%s), so it cannot be shown", name, kind)), false
	case len(body) == 0:
		return parley.ToolResult{Output: "(" + name + " is empty.)"}, true
	}
	first := max(offset, 1)
	start, ok := lineAt(body, first)
	if !ok {
		return refused(wrong("%s has %d lines; line %d is beyond its end", name, lines(body), first)), true
	}
	text, shown, more := numbered(body[start:], first, cmp.Or(max(limit, 0), maxLines), maxReadText)
	if more {
		text += fmt.Sprintf("\n(%s has %d lines; these are %d to %d. Read more with offset %d.)", name, lines(body), first, first+shown-1, first+shown)
	}
	return parley.ToolResult{Output: text}, true
}

// image keeps an image as an artifact, for the model and for people. What the model can see of it
// depends on the model, so the runtime says that.
func image(ctx context.Context, r seam.Run, name, kind string, body []byte) parley.ToolResult {
	if len(body) > maxImage {
		return refused(parley.Errorf(parley.CodeTooLarge, "%s is an image of %d KB; the limit is %d KB", name, len(body)>>10, maxImage>>10))
	}
	p, err := picture.Fit(ctx, body)
	if err != nil {
		info := parley.Info(err)
		return refused(parley.Errorf(info.Code, "%s: %s", name, info.Message).WithHint("%s", info.Hint))
	}
	text := fmt.Sprintf("%s is an image (%s, %d x %d pixels, %d bytes).", name, kind, p.Width, p.Height, len(body))
	if p.Changed() {
		text = fmt.Sprintf("%s is an image (%s, %d x %d pixels, %d bytes).", name, kind, p.From.Width, p.From.Height, len(body))
		if p.From.Width != p.Width || p.From.Height != p.Height {
			text += fmt.Sprintf(" It is shown smaller, with %d x %d pixels.", p.Width, p.Height)
		}
	}
	file := seam.File{Name: path.Base(name), MediaType: p.MediaType, Body: p.Body, Show: true}
	if p.MediaType != kind {
		file.Name = strings.TrimSuffix(file.Name, path.Ext(file.Name)) + "." + strings.TrimPrefix(p.MediaType, "image/")
	}
	if err := r.Keep(file); err != nil {
		return refused(err)
	}
	return parley.ToolResult{Output: text}
}

// binary reports whether a file is not text.
func binary(body []byte) bool {
	head := body[:min(len(body), 8<<10)]
	return bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head) && len(head) == len(body) && bytes.Count(head, []byte("\n")) == 0
}

// lines counts the lines of a text.
func lines(body []byte) int {
	n := bytes.Count(body, []byte("\n"))
	if len(body) > 0 && body[len(body)-1] != '\n' {
		n++
	}
	return n
}

// lineAt is where line n begins, counted from 1.
func lineAt(body []byte, n int) (at int, ok bool) {
	for range n - 1 {
		i := bytes.IndexByte(body[at:], '\n')
		if i < 0 || at+i+1 == len(body) {
			return 0, false
		}
		at += i + 1
	}
	return at, true
}

// numbered writes at most limit lines of a text with their numbers, in about size bytes. shown is how
// many it wrote; more says that there are others.
func numbered(body []byte, first, limit, size int) (text string, shown int, more bool) {
	var b strings.Builder
	for len(body) > 0 {
		if shown == limit || b.Len() > size {
			return b.String(), shown, true
		}
		line, rest, _ := bytes.Cut(body, []byte("\n"))
		if shown > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%6d\t%s", first+shown, cut(strings.ToValidUTF8(string(bytes.TrimSuffix(line, []byte("\r"))), "\uFFFD"), maxLineText))
		shown++
		body = rest
	}
	return b.String(), shown, false
}

// cut shortens a long line.
func cut(line string, most int) string {
	if len(line) <= most {
		return line
	}
	short := strings.ToValidUTF8(line[:most], "")
	return fmt.Sprintf("%s (%d more bytes in this line)", short, len(line)-len(short))
}
