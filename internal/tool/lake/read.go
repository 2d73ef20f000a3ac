package lake

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// input reads a call's input; its schema was checked.
func input[T any](c call) (in T, err error) {
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return in, parley.Errorf(parley.CodeInvalid, "the input cannot be read: %w", err)
	}
	return in, nil
}

type paged struct {
	Limit int    `json:"limit"`
	After string `json:"after"`
}

func (p paged) page() lake.Page {
	if p.Limit <= 0 {
		p.Limit = 20
	}
	return lake.Page{After: p.After, Limit: min(p.Limit, 100)}
}

type filtered struct {
	Kind   string `json:"kind"`
	Tag    string `json:"tag"`
	Owner  string `json:"owner"`
	Status string `json:"status"`
	Folder string `json:"folder"`
}

func (f filtered) filter() lake.Filter {
	return lake.Filter{Kind: f.Kind, Tag: f.Tag, Owner: f.Owner, Status: f.Status, Folder: f.Folder}
}

// listing is a result with a line or more for each thing, within the limit of bytes.
type listing struct {
	b    strings.Builder
	full bool
}

func (l *listing) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if l.full = l.full || l.b.Len()+len(text) > maxOutput; !l.full {
		l.b.WriteString(text)
	}
}

// result ends a list. next is where the next page begins.
func (l *listing) result(none, next string) parley.ToolResult {
	switch {
	case l.b.Len() == 0:
		return parley.ToolResult{Output: none}
	case l.full:
		l.b.WriteString("(The result is too long; ask for fewer with limit.)\n")
	case next != "":
		fmt.Fprintf(&l.b, "(There are more: after=%s)\n", next)
	}
	return parley.ToolResult{Output: l.b.String()}
}

// entity is a line about an entity.
func (l *listing) entity(e lake.Entity) {
	l.add("%s · %s · %s", e.Path, oneLine(e.Title), e.Kind)
	for _, f := range [][2]string{{" · ", e.Status}, {" · owner ", e.Owner}, {" · updated ", e.Updated}} {
		if f[1] != "" {
			l.add("%s%s", f[0], oneLine(f[1]))
		}
	}
	if len(e.Tags) > 0 {
		l.add(" · #%s", oneLine(strings.Join(e.Tags, " #")))
	}
	l.add("\n")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func search(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct {
		Query string `json:"query"`
		filtered
		paged
	}](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	h, err := c.lake.Search(ctx, lake.Query{Text: in.Query, Filter: in.filter()}, in.page())
	if err != nil {
		return parley.ToolResult{}, err
	}
	var l listing
	if h.Partial {
		l.add("No entity has all of these words; these have some:\n")
	}
	for _, hit := range h.Hits {
		l.entity(hit.Entity)
		if hit.Snippet != "" {
			l.add("    %s\n", oneLine(hit.Snippet))
		}
	}
	return l.result("Nothing was found. Try other words, or lake_list.", h.Next), nil
}

func list(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct {
		Folders bool `json:"folders"`
		filtered
		paged
	}](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	var l listing
	if in.Folders {
		t, err := c.lake.Tree(ctx, in.Folder, in.page())
		if err != nil {
			return parley.ToolResult{}, err
		}
		if in.After == "" {
			for _, f := range t.Folders {
				l.add("%s/ · %d entities\n", f.Path, f.Entities)
			}
		}
		for _, e := range t.Entities {
			l.entity(e)
		}
		return l.result("There is nothing in this folder.", t.Next), nil
	}
	got, err := c.lake.List(ctx, in.filter(), in.page())
	if err != nil {
		return parley.ToolResult{}, err
	}
	for _, e := range got.Entities {
		l.entity(e)
	}
	return l.result("There are no such entities.", got.Next), nil
}

func read(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct {
		Path   string `json:"path"`
		Line   int    `json:"line"`
		Lines  int    `json:"lines"`
		Commit string `json:"commit"`
	}](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	var e lake.Entity
	if in.Commit != "" {
		e, err = c.lake.At(ctx, in.Path, in.Commit)
	} else {
		e, err = c.lake.Read(ctx, in.Path)
	}
	if err != nil {
		return parley.ToolResult{}, err
	}
	var l listing
	l.entity(e)
	l.add("version %s\n", e.Version)
	if in.Line <= 1 {
		about(&l, e)
	}
	l.add("\n")
	lines := strings.SplitAfter(e.Body, "\n")
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	from := max(in.Line, 1)
	if from > len(lines) && from > 1 {
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "%s has %d lines", e.Path, len(lines)).WithField("line")
	}
	to := len(lines)
	if in.Lines > 0 {
		to = min(to, from-1+in.Lines)
	}
	at := from - 1
	for ; at < to; at++ {
		if line := lines[at]; l.b.Len()+len(line) <= maxOutput {
			l.b.WriteString(line)
			continue
		}
		if at == from-1 { // one line alone is too long
			l.b.WriteString(parley.Cut(lines[at], maxOutput-l.b.Len()))
			at++
		}
		break
	}
	if at < len(lines) {
		fmt.Fprintf(&l.b, "\n(Lines %d to %d of %d; go on with line=%d.)\n", from, at, len(lines), at+1)
	}
	return parley.ToolResult{Output: l.b.String(), About: nil}, nil
}

// about lists links and faults of an entity, some of them.
func about(l *listing, e lake.Entity) {
	const most = 40
	for i, k := range e.Links {
		if i == most {
			l.add("(%d more links)\n", len(e.Links)-most)
			break
		}
		to := k.Path
		if k.Broken {
			to = "nowhere"
		}
		l.add("line %d links to %s", k.Line, to)
		if k.Broken {
			l.add(" (%s)", oneLine(k.Target))
		}
		l.add("\n")
	}
	for i, f := range e.Faults {
		if i == most {
			l.add("(%d more faults)\n", len(e.Faults)-most)
			break
		}
		l.add("fault in line %d: %s\n", f.Line, oneLine(f.Message))
	}
}

func backlinks(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct {
		Path string `json:"path"`
		paged
	}](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	b, err := c.lake.Backlinks(ctx, in.Path, in.page())
	if err != nil {
		return parley.ToolResult{}, err
	}
	var l listing
	for _, k := range b.Links {
		l.add("%s:%d · %s · %s\n", k.Path, k.Line, oneLine(k.Title), oneLine(k.Text))
	}
	return l.result("Nothing links to it.", b.Next), nil
}

func history(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct {
		Path string `json:"path"`
		paged
	}](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	h, err := c.lake.History(ctx, in.Path, in.page())
	if err != nil {
		return parley.ToolResult{}, err
	}
	var l listing
	for _, r := range h.Revisions {
		l.add("%s · %s · %s · %s", r.Commit, r.At.UTC().Format("2006-01-02 15:04"), oneLine(r.Author), oneLine(r.Reason))
		if r.Deleted {
			l.add(" (deleted)")
		}
		if r.MovedFrom != "" {
			l.add(" (moved from %s)", oneLine(r.MovedFrom))
		}
		l.add("\n")
	}
	return l.result("It was never committed.", h.Next), nil
}

func diff(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct{ Path, From, To string }](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	text, err := c.lake.Diff(ctx, in.Path, in.From, in.To)
	switch {
	case err != nil:
		return parley.ToolResult{}, err
	case text == "":
		return parley.ToolResult{Output: "There is no difference."}, nil
	case len(text) > maxOutput:
		text = parley.Cut(text, maxOutput) + "\n(The difference is longer than that.)"
	}
	return parley.ToolResult{Output: text}, nil
}

func validate(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct {
		Paths []string `json:"paths"`
		paged
	}](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	v, err := c.lake.Validate(ctx, in.Paths, in.page())
	if err != nil {
		return parley.ToolResult{}, err
	}
	var l listing
	for _, f := range v.Faults {
		l.add("%s:%d · %s · %s\n", f.Path, f.Line, f.Rule, oneLine(f.Message))
	}
	return l.result("Nothing is wrong.", v.Next), nil
}
