// Package notion is a toolset over Notion pages kept as files: the records of mock_notion.json
// and pages exported from a real workspace.
//
// The data folder may hold either or both:
//
//	mock_notion.json      {"docs":[{"title","last_updated","content"}]}
//	notion_export.zip     what Notion's "Export as Markdown & CSV" gives
//	notion_export/        the same, unpacked
//
// Everything is read at each call, so an edit shows at once. If a file is missing or malformed,
// the call fails with file, line and column; nothing else is affected. The tool only reads.
package notion

import (
	_ "embed"
	"time"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/records"
)

// Tool is the name of the one tool.
const Tool = "read_notion_mock"

//go:embed read_notion_mock.md
var description string

// New makes a toolset over a data folder.
func New(data records.Folder) *records.Tool {
	return &records.Tool{
		Name: Tool, Description: description, Kind: "Notion document",
		Data: data, File: "mock_notion.json", Key: "docs", Fields: []string{"title", "last_updated", "content"},
		Entry: func(r map[string]string) records.Entry {
			return doc{r["title"], r["last_updated"], r["content"], records.Time(r["last_updated"])}.entry()
		},
		ExportDir: "notion_export", ExportZip: "notion_export.zip", Export: export,
	}
}

// doc is one page.
type doc struct {
	title, updated, content string
	at                      time.Time
}

func (d doc) entry() records.Entry {
	return records.Entry{Head: []string{"Notion", d.title, "Last updated: " + keyword.Fold(d.updated)}, Text: d.content, Title: d.title, At: d.at}
}
