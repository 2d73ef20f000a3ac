//go:build unix

// Package command is a toolset over a program of the operator's own: each call runs it
// once.
//
// The program reads a message of package callout from its standard input, as one JSON
// object. How it ends says what happened:
//
//   - exit code 0: it is done. Its standard output is the result, JSON or text; output
//     that is not text becomes an artifact.
//   - exit code 2, and standard output is {"error": {"message", "hint"}} and nothing else:
//     nothing was done. The model reads why.
//   - anything else, such as another code, a signal or too much time: a read failed. Whether
//     a write happened is unknown: it is not repeated, and the program or a person is asked.
//     A program that fails in the middle of its work ends so by itself. The code alone says
//     nothing, because it is 2 also after a panic of Go and after many faults of a shell.
//
// A tool with Reconcile can be asked, by a message of that type. The answer goes to
// standard output, with exit code 0.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/picture"
	"github.com/parley-server/parley/internal/proc"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxWaiting = 1000            // calls of one user that wait for a place
	maxOutput  = 8 << 20         // bytes of standard output that are read
	maxError   = 16 << 10        // bytes of standard error that are kept, the last ones
	maxShown   = 2000            // bytes of them that a model is shown
	refusal    = 2               // the exit code of a program that did nothing and says so
	grace      = 2 * time.Second // from SIGTERM to SIGKILL
	// DefaultMemory is what each process of a program may allocate, in bytes.
	DefaultMemory = 1 << 30
	// DefaultAtOnce is how many programs of a toolset run at once.
	DefaultAtOnce = 4
)

// Options say what to run.
type Options struct {
	Run    []string          // the program and its arguments; a program with a slash is below Dir
	Dir    string            // where it runs
	Env    map[string]string // its environment, besides what [proc.Env] adds
	Memory int64             // bytes; 0: DefaultMemory
	AtOnce int               // 0: DefaultAtOnce; further calls wait
	Tools  []callout.Tool
	Clean  func(text string) string // removes secrets from what the program says; nil: there are none
	Now    func() time.Time         // nil: time.Now
}

// Toolset implements [seam.Toolset] and [seam.Reconciler]. It is safe for concurrent use.
type Toolset struct {
	o     Options
	env   []string
	turns fair.Turns
	tools map[string]callout.Tool
}

// New makes a toolset. An error names the option that is wrong.
func New(o Options) (*Toolset, error) {
	if len(o.Run) == 0 {
		return nil, parley.Errorf(parley.CodeInvalid, "names no program").WithField("run")
	}
	if _, err := proc.Look(o.Run[0], o.Dir); err != nil {
		e := parley.Errorf(parley.CodeInvalid, "%w", plain(o.Run[0], err)).WithField("run")
		if strings.ContainsAny(o.Run[0], " \t") {
			e = e.WithHint("write the program and its arguments as a list: [python3, tool.py]")
		}
		return nil, e
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.AtOnce == 0 {
		o.AtOnce = DefaultAtOnce
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Toolset{o: o, env: proc.Env(o.Env), tools: map[string]callout.Tool{}}
	// A user leaves one place to the others.
	t.turns.Slots, t.turns.Each, t.turns.Queued = o.AtOnce, max(1, o.AtOnce-1), maxWaiting
	for _, tool := range o.Tools {
		t.tools[tool.Name] = tool
	}
	return t, nil
}

func plain(name string, err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	return fmt.Errorf("the program %q cannot be run: %w", name, err)
}

// Tools implements [seam.Toolset].
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	list := make([]parley.ToolDecl, 0, len(t.o.Tools))
	for _, tool := range t.o.Tools {
		list = append(list, tool.ToolDecl)
	}
	return list, nil
}

// ended is how a program ended that was started.
type ended struct {
	code   int // -1: by a signal, or it was stopped
	why    error
	out    []byte
	cut    bool // out is only the beginning
	errors string
	clean  func(text string) string
}

// run runs the program once. An error means that nothing of it ran.
func (t *Toolset) run(ctx context.Context, kind string, r seam.Run) (ended, error) {
	in, err := callout.Encode(kind, r, t.o.Now())
	if err != nil {
		return ended{}, err
	}
	leave, err := t.enter(ctx, r)
	if err != nil {
		return ended{}, fmt.Errorf("other calls of the program are under way: %w", err)
	}
	defer leave()
	program, err := proc.Look(t.o.Run[0], t.o.Dir)
	if err != nil {
		return ended{}, plain(t.o.Run[0], err)
	}
	out, errs := &head{max: maxOutput}, &proc.Tail{Max: maxError, Clean: t.o.Clean}
	p, err := proc.Start(ctx, proc.Spec{
		Args: append([]string{program}, t.o.Run[1:]...), Dir: t.o.Dir, Env: t.env, Memory: t.o.Memory, Grace: grace,
		Stdin: bytes.NewReader(append(in, '\n')), Stdout: out, Stderr: errs,
	})
	if err != nil {
		return ended{}, err
	}
	e := ended{why: p.Wait(), out: out.buf, cut: out.cut, errors: errs.String(), clean: t.o.Clean}
	if errors.Is(e.why, proc.ErrNotRun) {
		if e.errors != "" {
			return ended{}, fmt.Errorf("%w; it said: %s", e.why, e.words())
		}
		return ended{}, e.why
	}
	if exit, ok := errors.AsType[*exec.ExitError](e.why); ok {
		e.code = exit.ExitCode()
	} else if e.why != nil {
		e.code = -1
	}
	return e, nil
}

// enter waits for a place, until the time of the call is up or its turn is stopped.
func (t *Toolset) enter(ctx context.Context, r seam.Run) (leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.Stopped:
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	return t.turns.Enter(ctx, r.Principal)
}

var errStopped = errors.New("the turn was stopped")

// Run implements [seam.Toolset].
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	e, err := t.run(ctx, callout.Call, r)
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	if why, ok := e.refusal(); ok {
		return callout.Refused(r, why, t.o.Clean), nil
	}
	if e.code != 0 {
		return parley.ToolResult{}, e.failure()
	}
	return t.result(ctx, r, e), nil
}

// result returns the result of a call whose program has ended.
func (t *Toolset) result(ctx context.Context, r seam.Run, e ended) parley.ToolResult {
	done := parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK}
	text := bytes.TrimSpace(e.out)
	switch {
	case e.cut:
		done.Output = fmt.Sprintf("It is done. The program's output has more than %d bytes and was not read.", maxOutput)
	case len(text) == 0:
		done.Output = "Done."
	case json.Valid(text):
		var buf bytes.Buffer
		_ = json.Compact(&buf, text)
		done.Output = buf.String()
		if t.tools[r.Name].OutputSchema != nil {
			done.Data = buf.Bytes()
		}
	case utf8.Valid(e.out) && !bytes.ContainsRune(e.out, 0):
		done.Output = string(text)
	default:
		kind := http.DetectContentType(e.out)
		why, err := picture.Keep(ctx, r.Keep, seam.File{Name: r.Name, MediaType: kind, Body: e.out})
		if err != nil {
			done.Output = "It is done. The file that came was not kept: " + err.Error()
			break
		}
		done.Output = strings.TrimSpace(fmt.Sprintf("%s, %d bytes of %s, was kept as an artifact. %s", r.Name, len(e.out), kind, why))
	}
	return done
}

// refusal is why a program did nothing, if it says that it did nothing.
func (e ended) refusal() (why parley.ErrorInfo, ok bool) {
	var said struct {
		Error struct{ Message, Hint string }
	}
	if e.code != refusal || json.Unmarshal(e.out, &said) != nil || said.Error.Message == "" {
		return why, false
	}
	return parley.ErrorInfo{
		Code: parley.CodeTool, Message: said.Error.Message, Hint: said.Error.Hint,
	}, true
}

// failure returns the error for a program's end whose effect on the outside is unknown.
func (e ended) failure() error {
	var how error
	switch {
	case e.code > 0:
		how = fmt.Errorf("the program ended with exit code %d", e.code)
	default:
		how = fmt.Errorf("the program was ended: %w", e.why)
	}
	if words := e.words(); words != "" {
		how = fmt.Errorf("%w; it said: %s", how, words)
	}
	return how
}

// words returns the last words of a program that failed: from standard error, or else from its
// output.
func (e ended) words() string {
	if e.errors != "" {
		return last(e.errors)
	}
	if out := bytes.TrimSpace(e.out); !e.cut && utf8.Valid(out) && !bytes.ContainsRune(out, 0) {
		text := string(out)
		if e.clean != nil {
			text = e.clean(text)
		}
		return last(text)
	}
	return ""
}

// last is the end of a text, from the beginning of a line if there is one.
func last(text string) string {
	if len(text) <= maxShown {
		return text
	}
	text = text[len(text)-maxShown:]
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	return "… " + strings.ToValidUTF8(text, "")
}

// Reconciles implements [seam.Choosy].
func (t *Toolset) Reconciles(tool string) bool { return t.tools[tool].Reconcile }

// Reconcile implements [seam.Reconciler].
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	tool := t.tools[r.Name]
	if !tool.Reconcile {
		return res, false, nil
	}
	e, err := t.run(ctx, callout.Reconcile, r)
	switch {
	case err != nil:
		return res, false, err
	case e.code != 0:
		return res, false, e.failure()
	case e.cut:
		return res, false, fmt.Errorf("what the program says of a call has more than %d bytes", maxOutput)
	}
	return tool.Reconciled(r, e.out)
}

// head keeps the first bytes that are written to it.
type head struct {
	max int
	buf []byte
	cut bool
}

func (h *head) Write(p []byte) (int, error) {
	room := min(h.max-len(h.buf), len(p))
	h.buf = append(h.buf, p[:room]...)
	h.cut = h.cut || room < len(p)
	return len(p), nil
}
