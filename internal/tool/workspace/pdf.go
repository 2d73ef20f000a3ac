package workspace

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extract"
)

// document reports whether a file is a PDF. Some have something before their first line.
func document(name string, body []byte) bool {
	return extract.IsPDF(body) || named(name) && bytes.Contains(body[:min(len(body), 1024)], []byte("%PDF-"))
}

func named(name string) bool { return strings.EqualFold(path.Ext(name), ".pdf") }

// pdf is the result of a Read of a PDF. seen is false if nothing of it could be shown.
func pdf(ctx context.Context, name string, body []byte, pages string) (res parley.ToolResult, seen bool) {
	first, last, err := pageRange(pages)
	if err != nil {
		return refused(err), false
	}
	d, err := extract.PDF(ctx, body, extract.Options{First: first, Last: last, MaxText: maxReadText})
	switch {
	case err != nil:
		info := parley.Info(err)
		return refused(parley.Errorf(info.Code, "%s: %s", name, info.Message).WithHint("%s", info.Hint)), false
	case d.Blank() && !d.More:
		return parley.ToolResult{Output: fmt.Sprintf("%s has no text on the pages that were read (%d to %d of %d). They may be images, as in a scanned document.",
			name, d.Pages[0].Number, d.Pages[len(d.Pages)-1].Number, d.Count)}, true
	}
	text := d.String()
	if d.More {
		end := d.Pages[len(d.Pages)-1].Number
		why := ""
		if d.Late {
			why = ", because reading it took too long"
		}
		text += fmt.Sprintf("\n\n(%s has %d pages; these are %d to %d%s.", name, d.Count, d.Pages[0].Number, end, why)
		if end < d.Count {
			text += fmt.Sprintf(" Read more with pages \"%d-%d\".", end+1, d.Count)
		}
		text += ")"
	}
	return parley.ToolResult{Output: text}, true
}

// pageRange reads "3", "2-5" or "7-", as models write them. 0 is the first page, and the last one.
func pageRange(text string) (first, last int, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, 0, nil
	}
	from, to, ranged := strings.Cut(text, "-")
	first, err = strconv.Atoi(strings.TrimSpace(from))
	switch to = strings.TrimSpace(to); {
	case err != nil:
	case !ranged:
		last = first
	case to != "":
		if last, err = strconv.Atoi(to); last == 0 && err == nil {
			last = -1
		}
	}
	if err != nil || first < 1 || last != 0 && last < first {
		return 0, 0, parley.Errorf(parley.CodeInvalid, "%q are not pages", parley.Cut(text, 40)).WithField("pages").WithHint("write one page or a range, such as \"3\" or \"1-5\"")
	}
	return first, last, nil
}
