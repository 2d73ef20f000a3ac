package notion

import (
	"context"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/records"
)

// export reads the Markdown pages of a real workspace.
func export(ctx context.Context, e *records.Export) (pages []records.Entry, err error) {
	markdown := func(p string) bool { return strings.EqualFold(path.Ext(p), ".md") }
	err = e.Each(ctx, markdown, func(p string, _ fs.FileInfo, body []byte) error {
		pages = append(pages, page(p, string(body)).entry())
		return nil
	})
	return pages, err
}

// Notion ends the name of each page with its id, 32 hex digits.
var id = regexp.MustCompile(`[ -][0-9a-f]{32}$`)

// property matches a property line of a Notion database page, or a line of front matter.
var property = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9 _-]{0,60}):\s*(.*)$`)

// Properties that say when a page was changed, the most reliable first.
var changed = []string{"last edited time", "last edited", "last_edited_time", "last updated", "last_updated", "updated at", "updated", "date"}

// undated is the date of a page that does not say when it was changed.
const undated = "unknown"

// page reads one page: the title from its heading or file name, the date from its properties,
// the rest as text. The file's own time is when the workspace was exported or unpacked and says
// nothing about the page. So a page without a date property has no date, and sorts after all
// that have one.
func page(p, body string) doc {
	d := doc{title: id.ReplaceAllString(strings.TrimSuffix(path.Base(p), path.Ext(p)), "")}
	lines := strings.Split(strings.TrimPrefix(strings.ReplaceAll(body, "\r\n", "\n"), "\uFEFF"), "\n")
	props := map[string]string{}
	i := 0
	if len(lines) > 0 && strings.TrimSpace(lines[0]) == "---" { // front matter
		for i = 1; i < len(lines) && strings.TrimSpace(lines[i]) != "---"; i++ {
			addProperty(props, lines[i])
		}
		i++
	}
	i = skipBlank(lines, i)
	if i < len(lines) && strings.HasPrefix(lines[i], "# ") {
		d.title = strings.TrimSpace(lines[i][2:])
		i = skipBlank(lines, i+1)
	}
	// Properties of a database look like any "Decision: ..." at the top of a page, so all of
	// them except the date stay part of the text.
	var text []string
	for ; i < len(lines) && addProperty(props, lines[i]); i++ {
		if name, _, _ := strings.Cut(lines[i], ":"); !slices.Contains(changed, strings.ToLower(name)) {
			text = append(text, lines[i])
		}
	}
	if t := props["title"]; t != "" {
		d.title = t
	}
	for _, name := range changed {
		if at := records.Time(props[name]); !at.IsZero() {
			d.at = at
			break
		}
	}
	d.updated = undated
	if !d.at.IsZero() {
		d.updated = d.at.Format(time.DateOnly)
	}
	d.content = keyword.Fold(strings.Join(append(text, lines[min(i, len(lines)):]...), "\n"))
	return d
}

func skipBlank(lines []string, i int) int {
	for i < len(lines) && strings.TrimSpace(lines[i]) == "" {
		i++
	}
	return i
}

func addProperty(props map[string]string, line string) bool {
	m := property.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	props[strings.ToLower(m[1])] = strings.Trim(strings.TrimSpace(m[2]), `"'`)
	return true
}
