package records

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/seam"
)

// Entry is one record, and what the tool shows of it: "[head | head] text", on one line.
type Entry struct {
	Head  []string
	Text  string
	Title string // is searched, too
	At    time.Time
}

func (e Entry) line() string {
	head := make([]string, len(e.Head))
	for i, h := range e.Head {
		head[i] = keyword.Fold(h)
	}
	return "[" + strings.Join(head, " | ") + "] " + keyword.Fold(e.Text)
}

// Tool is a toolset of one tool: it looks for the words of a query in the entries of a
// folder and returns the newest first. The folder has a file of records, an export of the
// service, or both, and is read again for each call. It is safe for concurrent use.
type Tool struct {
	Name, Description string
	Kind              string // what is looked for, as in "Notion document"

	Data   Folder
	File   string   // its records are the list under Key
	Key    string   // of the list
	Fields []string // of a record
	Entry  func(record map[string]string) Entry

	ExportDir, ExportZip string // where an export is, unpacked or not
	Export               func(ctx context.Context, e *Export) ([]Entry, error)
}

// Tools implements seam.Toolset.
func (t *Tool) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name:        t.Name,
		Description: strings.TrimSpace(t.Description),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"the words to look for"}},"required":["query"],"additionalProperties":false}`),
		Effect:      parley.EffectRead,
		Cost:        "free",
		Safety:      "reads files of the data folder",
	}}, nil
}

// Run implements seam.Toolset.
func (t *Tool) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var in struct{ Query string }
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, seam.NotSent(parley.Errorf(parley.CodeInvalid, "input: %w", err))
	}
	entries, err := t.read(ctx)
	if ctx.Err() != nil {
		return parley.ToolResult{}, ctx.Err()
	}
	if err != nil {
		info := parley.Info(err)
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: info.Message, Error: &info}, nil
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: t.search(entries, in.Query)}, nil
}

func (t *Tool) search(entries []Entry, query string) string {
	words := keyword.Of(query)
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return !keyword.In(words, e.Title, e.Text) })
	if len(entries) == 0 {
		return "No relevant " + t.Kind + " found for query: " + query
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return b.At.Compare(a.At) })
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = e.line()
	}
	return strings.Join(lines, "\n")
}

// read reads all entries of the folder. Without an export, the file must exist.
func (t *Tool) read(ctx context.Context) ([]Entry, error) {
	entries, exported, err := t.export(ctx)
	if err != nil || exported && !t.Data.Has(t.File) {
		return entries, err
	}
	recs, err := Read(t.Data, t.File, t.Key, t.Fields...)
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		entries = append(entries, t.Entry(r))
	}
	return entries, nil
}

func (t *Tool) export(ctx context.Context) (entries []Entry, found bool, err error) {
	e, err := t.Data.Open(t.ExportDir, t.ExportZip)
	if e == nil || err != nil {
		return nil, false, err
	}
	defer e.Close() //nolint:errcheck // it was only read
	entries, err = t.Export(ctx, e)
	return entries, true, err
}
