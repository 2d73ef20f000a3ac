// Package workspace is the toolset for the files of a session's workspace: Read, Write, Edit, Glob,
// Grep and NotebookEdit, and the list of tasks that TodoWrite keeps.
//
// The tools have the names and inputs of the Claude CLI's, which models know. A path is relative
// to the workspace; package files says which file it reaches. A file is changed in this order: the
// change is announced in the log, the old content goes to the checkpoints, the file is replaced,
// the result goes to the log. So after a crash at any point [Toolset.Reconcile]
// knows from the checkpoint and the file whether the change was made.
//
// A file is changed only if the session has read the version that it has now, or made it itself. For
// a direct call, which has a session of its own, it is enough that another direct call of the same
// user has.
//
// Searches, and calls that hold a large file in memory, take turns.
package workspace

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/extract"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

// Options are a toolset's.
type Options struct {
	Checkpoints func() *checkpoint.Store // asked for each call
	Now         func() time.Time         // nil: time.Now
	NoRipgrep   bool                     // Grep does not use rg, also if it is there
	// Turns limits the calls that search or hold a large file, see [NewTurns]. Nil: the toolset has
	// its own.
	Turns *fair.Turns
	// Requested is told of each call that looks at files or changes them, see [seam.Informed]. Nil:
	// nobody is.
	Requested func(ctx context.Context, r seam.Run)
}

// Toolset is the tools. It is safe for concurrent use.
type Toolset struct {
	o     Options
	rg    ripgrep
	turns *fair.Turns
	shown shown

	mu      sync.Mutex
	running map[parley.CallID]bool
}

var (
	_ seam.Reconciler = (*Toolset)(nil)
	_ seam.Local      = (*Toolset)(nil)
	_ seam.Worder     = (*Toolset)(nil)
	_ seam.Informed   = (*Toolset)(nil)
)

// New makes a toolset.
func New(o Options) *Toolset {
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Toolset{o: o, turns: cmp.Or(o.Turns, NewTurns()), running: map[parley.CallID]bool{}}
	if !o.NoRipgrep {
		t.rg = findRipgrep()
	}
	return t
}

//go:embed descriptions/*.md schemas/*.json
var texts embed.FS

// timeout is longer than the largest file takes on a slow disk. Read has what a PDF may take besides.
const timeout = parley.Duration(30 * time.Second)

// decl declares a tool. What it does is in descriptions, its input in schemas.
func decl(name, path string, effect parley.Effect) parley.ToolDecl {
	about, err := texts.ReadFile("descriptions/" + name + ".md")
	if err != nil {
		panic(err) // the files are part of the program
	}
	schema, err := texts.ReadFile("schemas/" + name + ".json")
	if err != nil {
		panic(err)
	}
	d := parley.ToolDecl{
		Name: name, Description: strings.TrimSpace(string(about)), InputSchema: schema, Effect: effect, Path: path, Timeout: timeout, Cost: "free",
	}
	if path != "" {
		d.Subject = "{" + path + "}"
	}
	if effect != parley.EffectRead {
		d.Edits, d.WorkspaceOwn = true, true
	}
	return d
}

// Tools implements seam.Toolset.
func (*Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	read := decl("Read", "file_path", parley.EffectRead)
	read.OutputLimit, read.Timeout = 128<<10, timeout+parley.Duration(extract.Longest)
	grep, glob := decl("Grep", "path", parley.EffectRead), decl("Glob", "path", parley.EffectRead)
	grep.Subject, glob.Subject = "{path}", "{path}"
	return []parley.ToolDecl{
		read,
		decl("Write", "file_path", parley.EffectWrite),
		decl("Edit", "file_path", parley.EffectWrite),
		decl("NotebookEdit", "notebook_path", parley.EffectWrite),
		glob,
		grep,
		decl("TodoWrite", "", parley.EffectRead),
	}, nil
}

// Run implements seam.Toolset.
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	if r.Name == "TodoWrite" {
		return todo(r)
	}
	root, err := r.Workspace()
	if err != nil {
		return refused(err), nil
	}
	tree := files.Of(root)
	if Changes(r.Name) {
		t.begin(r.Call)
		defer t.over(r.Call)
	}
	leave, err := t.turn(ctx, r, tree)
	if err != nil {
		return failed(err)
	}
	defer leave()
	switch r.Name {
	case "Read":
		return t.read(ctx, r, tree)
	case "Glob":
		return glob(ctx, r, tree)
	case "Grep":
		return t.grep(ctx, r, root)
	case "Write", "Edit", "NotebookEdit":
		return t.change(ctx, r, tree)
	}
	return parley.ToolResult{}, seam.NotSent(fmt.Errorf("no tool %q", r.Name))
}

// Requested implements seam.Informed.
func (t *Toolset) Requested(ctx context.Context, r seam.Run) {
	if t.o.Requested != nil && r.Name != "TodoWrite" {
		t.o.Requested(ctx, r)
	}
}

func (t *Toolset) checks() *checkpoint.Store { return t.o.Checkpoints() }

// refused is a result that says why nothing was done.
func refused(err error) parley.ToolResult {
	info := parley.Info(err)
	text := info.Message
	if info.Hint != "" {
		text += "; " + info.Hint
	}
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: text, Error: &info}
}

func wrong(format string, args ...any) error {
	return parley.Errorf(parley.CodeInvalid, format, args...)
}

// edit is a change that a tool makes to a file.
type edit struct {
	path string
	was  files.Version // "" if there is no file yet
	old  []byte
	body []byte
	said string // the result for the model, beginning
}

// change makes the change of a call.
func (t *Toolset) change(ctx context.Context, r seam.Run, tree files.Tree) (parley.ToolResult, error) {
	if r.ReadOnly {
		return refused(parley.Errorf(parley.CodeForbidden, "the workspace is read-only")), nil
	}
	plan := map[string]func(context.Context, seam.Run, files.Tree) (edit, error){"Write": t.write, "Edit": t.edit, "NotebookEdit": t.notebook}[r.Name]
	e, err := plan(ctx, r, tree)
	if err != nil {
		return failed(err)
	}
	rec := checkpoint.Record{Call: r.Call, Turn: r.Turn, Path: e.path, Before: e.was, After: files.VersionOf(e.body), At: t.o.Now()}
	if err := r.Changes(ctx, e.path); err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	if err := t.checks().Begin(ctx, r.Session, rec, e.old); err != nil {
		return failed(err)
	}
	// From here on ctx is not asked any more: the change is made, or found to be impossible.
	ctx = context.WithoutCancel(ctx)
	if rec.Dirs, err = tree.Apply(files.Change{Path: e.path, Body: e.body, Was: e.was, Old: e.old, Tag: string(r.Call)}); err != nil {
		return failed(err)
	}
	if err := t.checks().End(ctx, r.Session, rec); err != nil {
		return parley.ToolResult{}, err // the file shows that it was made
	}
	if r.Direct {
		t.shown.note(placeOf(r, e.path), rec.After)
	}
	return parley.ToolResult{Output: e.said, Saved: []parley.FileSaved{saved(e, rec.After)}}, nil
}

// failed is the result of a call that changed nothing. A mistake that the model can correct is a
// result; anything else is an error of a call that was not made.
func failed(err error) (parley.ToolResult, error) {
	if _, ours := errors.AsType[*parley.Error](err); ours {
		return refused(err), nil
	}
	return parley.ToolResult{}, seam.NotSent(err)
}

func (t *Toolset) begin(c parley.CallID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[c] = true
}

func (t *Toolset) over(c parley.CallID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, c)
}

// Over implements seam.Local.
func (t *Toolset) Over(_ string, c parley.CallID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.running[c]
}

// Reconciles implements seam.Choosy.
func (*Toolset) Reconciles(tool string) bool { return Changes(tool) }

// Reconcile implements seam.Reconciler: the checkpoint says what the call would make of its file.
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	if !t.Over(r.Name, r.Call) {
		return res, false, nil
	}
	list, err := t.checks().Changes(ctx, r.Session, r.Call)
	if err != nil {
		return res, false, err
	}
	const unchanged = "The server stopped before the file was changed. Nothing was done; make the call again."
	notMade := parley.ToolResult{Outcome: parley.OutcomeError, Output: unchanged, Error: &parley.ErrorInfo{Code: parley.CodeUnavailable, Message: unchanged}}
	if len(list) == 0 {
		return notMade, true, nil
	}
	rec := list[len(list)-1]
	root, err := r.Workspace()
	if err != nil {
		return res, false, err
	}
	tree := files.Of(root)
	tree.Tidy(rec.Path, string(r.Call))
	var now files.Version
	body, err := tree.Read(rec.Path, files.MaxFile)
	switch {
	case err == nil:
		now = files.VersionOf(body)
	case parley.CodeOf(err) != parley.CodeNotFound:
		return res, false, err
	}
	switch {
	case rec.Done, now == rec.After:
		if err := t.checks().End(ctx, r.Session, rec); err != nil {
			return res, false, err
		}
		old, _, err := t.checks().Content(ctx, r.Session, rec.Before)
		if err != nil {
			return res, false, err
		}
		s := parley.FileSaved{Path: rec.Path, Before: rec.Before, After: rec.After}
		if now == rec.After { // nobody has changed it since
			s = saved(edit{path: rec.Path, was: rec.Before, old: old, body: body}, now)
		}
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: rec.Path + " was changed.", Saved: []parley.FileSaved{s}}, true, nil
	case now == rec.Before:
		return notMade, true, nil
	}
	return res, false, nil // somebody else has changed the file, perhaps after the call
}

// Words implements seam.Worder.
func (*Toolset) Words(tool string, input json.RawMessage) string {
	var in struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	if json.Unmarshal(input, &in) != nil {
		return ""
	}
	verb := map[string]string{"Write": "Write", "Edit": "Edit", "NotebookEdit": "Edit the notebook"}[tool]
	name, err := files.Clean(in.File + in.Notebook)
	if verb == "" || err != nil {
		return ""
	}
	return verb + " " + name
}

// todo checks a list of tasks. The log keeps it; there is nothing else to do.
func todo(r seam.Run) (parley.ToolResult, error) {
	var in struct {
		Todos []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"todos"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused(wrong("the list of tasks cannot be read: %v", err)), nil
	}
	count := map[string]int{}
	for _, td := range in.Todos {
		if count[td.Status]++; strings.TrimSpace(td.Content) == "" {
			return refused(wrong("a task has no content")), nil
		}
	}
	if count["in_progress"] > 1 {
		return refused(wrong("%d tasks are in progress; at most one is worked on at a time", count["in_progress"])), nil
	}
	return parley.ToolResult{Output: fmt.Sprintf("The list is kept: %d done, %d in progress, %d to do.", count["completed"], count["in_progress"], count["pending"])}, nil
}

// names are the names of the tools that change files.
var names = []string{"Write", "Edit", "NotebookEdit"}

// Changes reports whether a tool of that name changes files.
func Changes(tool string) bool { return slices.Contains(names, tool) }
