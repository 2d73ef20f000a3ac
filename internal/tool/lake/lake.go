// Package lake is the toolset for a lake, the session's workspace: its entities are searched, read, changed, moved and linked. Package
// internal/lake does the work.
//
// Each change is a commit with the call as its key, so after a crash at any point [Toolset.Reconcile] knows whether the call was made, and
// a call that is made again is made once.
package lake

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/seam"
)

// Options are a toolset's.
type Options struct {
	Lakes func() *lake.Lakes // asked for each call
}

// Toolset is the tools. It is safe for concurrent use.
type Toolset struct {
	o Options
	seam.Running
}

var (
	_ seam.Reconciler = (*Toolset)(nil)
	_ seam.Choosy     = (*Toolset)(nil)
	_ seam.Local      = (*Toolset)(nil)
	_ seam.Worder     = (*Toolset)(nil)
	_ seam.Previewer  = (*Toolset)(nil)
	_ seam.Vetter     = (*Toolset)(nil)
	_ seam.Lasting    = (*Toolset)(nil)
)

// New makes a toolset.
func New(o Options) *Toolset { return &Toolset{o: o} }

//go:embed descriptions/*.md schemas/*.json
var texts embed.FS

// Names are the names of the tools.
var Names = []string{
	"lake_search", "lake_list", "lake_read", "lake_create", "lake_update", "lake_move", "lake_delete", "lake_link", "lake_backlinks", "lake_history", "lake_diff", "lake_validate",
}

// writes are the tools that change the lake.
var writes = []string{"lake_create", "lake_update", "lake_move", "lake_delete", "lake_link"}

// Changes reports whether a tool of that name changes the lake.
func Changes(tool string) bool { return slices.Contains(writes, tool) }

const (
	// timeout is longer than a change takes that rewrites thousands of links while others work in the lake, too.
	timeout = parley.Duration(60e9)
	// forever is how long a key of a change is known: as long as its commit.
	forever = parley.Duration(100 * 365 * 24 * 3600e9)
	// maxOutput bounds a result, in bytes.
	maxOutput = 48 << 10
)

// Tools implements seam.Toolset.
func (*Toolset) Tools(context.Context) (list []parley.ToolDecl, err error) {
	for _, name := range Names {
		about, err := texts.ReadFile("descriptions/" + name + ".md")
		if err != nil {
			return nil, err
		}
		schema, err := texts.ReadFile("schemas/" + name + ".json")
		if err != nil {
			return nil, err
		}
		d := parley.ToolDecl{
			Name: name, Description: strings.TrimSpace(string(about)), InputSchema: schema, Effect: parley.EffectRead, Timeout: timeout, Cost: "free", OutputLimit: maxOutput + 8<<10,
		}
		switch name {
		case "lake_search":
			d.Subject = "{query}"
		case "lake_list":
			d.Path, d.Subject = "folder", "{folder}"
		case "lake_validate":
			d.Subject = "the lake"
		default:
			d.Path, d.Subject = "path", "{path}"
		}
		if Changes(name) {
			d.Effect, d.Edits, d.WorkspaceOwn, d.KeyTTL = parley.EffectIdempotent, true, true, forever
		}
		list = append(list, d)
	}
	return list, nil
}

// call is one call with its lake.
type call struct {
	seam.Run
	lake *lake.Lake
}

// Run implements seam.Toolset.
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	run := map[string]func(context.Context, call) (parley.ToolResult, error){
		"lake_search": search, "lake_list": list, "lake_read": read, "lake_create": create, "lake_update": update, "lake_move": move, "lake_delete": remove,
		"lake_link": link, "lake_backlinks": backlinks, "lake_history": history, "lake_diff": diff, "lake_validate": validate,
	}[r.Name]
	if run == nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("no tool %q", r.Name))
	}
	l, err := t.lake(ctx, r)
	if err != nil {
		return failed(err, nil)
	}
	if Changes(r.Name) {
		defer t.Begin(r.Call)()
	}
	res, err := run(ctx, call{r, l})
	if err != nil {
		return failed(err, r.Input)
	}
	return res, nil
}

// lake is that in the call's workspace.
func (t *Toolset) lake(ctx context.Context, r seam.Run) (*lake.Lake, error) {
	all := t.o.Lakes()
	if all == nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "the server has no lakes yet")
	}
	root, err := r.Workspace()
	if err != nil {
		return nil, err
	}
	return all.At(ctx, root)
}

// failed is the result of a call that changed nothing. A mistake that the model can correct is a
// result; anything else is an error of a call that was not made.
func failed(err error, input json.RawMessage) (parley.ToolResult, error) {
	if _, ours := errors.AsType[*parley.Error](err); ours {
		info := parley.Info(err)
		info.Field = field(info, input)
		text := info.Message
		if info.Hint != "" {
			text += "; " + info.Hint
		}
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: text, Error: &info}, nil
	}
	return parley.ToolResult{}, seam.NotSent(err)
}

// field is the input's field that an error is about, by its name in the tools.
func field(info parley.ErrorInfo, input json.RawMessage) string {
	var in struct{ Path, To string }
	switch {
	case info.Field == "body":
		return "content"
	case info.Field != "" || json.Unmarshal(input, &in) != nil:
		return info.Field
	case in.To != "" && strings.Contains(info.Message, strconv.Quote(in.To)):
		return "to"
	case in.Path != "" && strings.Contains(info.Message, strconv.Quote(in.Path)):
		return "path"
	}
	return ""
}

// Reconciles implements seam.Choosy.
func (*Toolset) Reconciles(tool string) bool { return Changes(tool) }

// Reconcile implements seam.Reconciler: the commit with the call's key says that it was made.
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	if !t.Over(r.Name, r.Call) {
		return res, false, nil
	}
	l, err := t.lake(ctx, r)
	if err != nil {
		return res, false, err
	}
	made, ok, err := l.Made(ctx, string(r.Call))
	if err != nil {
		return res, false, err
	}
	if !ok {
		const unchanged = "The server stopped before the lake was changed. Nothing was done; make the call again."
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: unchanged, Error: &parley.ErrorInfo{Code: parley.CodeUnavailable, Message: unchanged}}, true, nil
	}
	return call{r, l}.made(ctx, made), true, nil
}

// Stays implements seam.Lasting: others may have built on a commit since.
func (*Toolset) Stays(tool string) string {
	if !Changes(tool) {
		return ""
	}
	return "the change is a commit in the lake, which stays; the page's history has what it contained before"
}

// Vet implements seam.Vetter: nobody is asked about a path that no entity can have.
func (*Toolset) Vet(tool string, input json.RawMessage) error {
	if !Changes(tool) {
		return nil
	}
	var in struct{ Path, To string }
	if json.Unmarshal(input, &in) != nil {
		return nil // it is refused by its schema
	}
	return lake.Vet(strings.TrimPrefix(tool, "lake_"), in.Path, in.To)
}

// Words implements seam.Worder.
func (*Toolset) Words(tool string, input json.RawMessage) string {
	var in struct{ Path, To string }
	if json.Unmarshal(input, &in) != nil {
		return ""
	}
	name, err := files.Clean(in.Path)
	if err != nil || name == "." {
		return ""
	}
	switch tool {
	case "lake_create":
		return "Create " + name
	case "lake_update":
		return "Change " + name
	case "lake_delete":
		return "Delete " + name
	case "lake_move":
		return "Move " + name + " to " + parley.Cut(in.To, 200)
	case "lake_link":
		return "Link " + name + " to " + parley.Cut(in.To, 200)
	}
	return ""
}

// Preview implements seam.Previewer: why, and what would be changed as far as the input says it.
func (*Toolset) Preview(tool string, input json.RawMessage, _ parley.Workspace) string {
	if !Changes(tool) {
		return ""
	}
	var in struct {
		Reason  string  `json:"reason"`
		Content *string `json:"content"`
		Old     string  `json:"old_string"`
		New     string  `json:"new_string"`
		Front   map[string]json.RawMessage
	}
	if json.Unmarshal(input, &in) != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(in.Reason))
	part := func(sign, text string) {
		for line := range strings.Lines(text) {
			fmt.Fprintf(&b, "\n%s%s", sign, strings.TrimRight(line, "\r\n"))
		}
	}
	if in.Old != "" || in.New != "" {
		b.WriteByte('\n')
		part("-", in.Old)
		part("+", in.New)
	}
	if len(in.Front) > 0 {
		b.WriteByte('\n')
	}
	names := make([]string, 0, len(in.Front))
	for name := range in.Front {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if string(in.Front[name]) == "null" {
			part("-", name)
			continue
		}
		part("+", name+": "+string(in.Front[name]))
	}
	if in.Content != nil {
		b.WriteByte('\n')
		part("+", *in.Content)
	}
	return strings.TrimSpace(b.String())
}
