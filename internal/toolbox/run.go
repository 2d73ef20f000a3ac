package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Result is the outcome of a call.
type Result struct {
	parley.ToolResult

	// Artifact is the whole output if Output is only its beginning, else nil. The caller
	// must store it under the name and type below. It is cut, and says so, if it exceeds
	// MaxArtifact.
	Artifact     []byte
	ArtifactName string
	MediaType    string

	// Files are the files that the tool kept besides its result, in order.
	Files []seam.File
}

// maxFiles is how many files one call may keep.
const maxFiles = 8

// errDeadline is the cause of a context whose call ran out of time, as opposed to one that
// the caller cancelled.
var errDeadline = errors.New("deadline of the call")

// Run makes one call and never panics. ctx and deadline limit it, whichever ends first; a
// zero deadline means the tool's timeout from now. The input must have passed Check. The
// package comment says what the outcomes mean.
func (b *Box) Run(ctx context.Context, r seam.Run, deadline time.Time) Result {
	t := b.tools[r.Name]
	if t == nil {
		return b.failed(r, parley.OutcomeError, parley.Info(b.unknown(r.Name)))
	}
	effect := t.decl.Effect
	if r.Effect == "" {
		r.Effect = effect
	}
	if deadline.IsZero() {
		deadline = time.Now().Add(b.timeout(t))
	}
	if ctx.Err() != nil {
		return b.failed(r, parley.OutcomeCancelled, parley.ErrorInfo{
			Code: parley.CodeCancelled, Message: r.Name + " was cancelled before it was called",
		})
	}
	if !time.Now().Before(deadline) {
		return b.failed(r, parley.OutcomeError, parley.ErrorInfo{
			Code: parley.CodeTimeout, Message: r.Name + " was not called: its time was up before it began",
		})
	}
	if n := t.abandoned.Load(); n >= maxAbandoned {
		return b.failed(r, parley.OutcomeError, parley.ErrorInfo{
			Code: parley.CodeUnavailable, Message: fmt.Sprintf("%s was not called: %d earlier calls of it have not come back", r.Name, n),
			Hint: "the service behind it may hang; see the server's log",
		})
	}

	r = whole(r)
	var shelf shelf
	r.Keep = func(f seam.File) error { return shelf.keep(f, b.o.MaxArtifact) }
	started := time.Now()
	ctx, clock := newClock(ctx, time.Until(deadline))
	defer clock.stop()
	r.Ask = during(clock, r.Ask)
	if r.Sample != nil {
		r.Sample = during(clock, r.Sample)
	}
	a := b.wait(ctx, t, r, func(ctx context.Context, r seam.Run) answer {
		res, err := t.set.Run(ctx, r)
		return answer{res: res, err: err}
	})
	files := shelf.close()
	if a.err != nil {
		return b.classify(ctx, t, r, a, time.Since(started))
	}
	res := b.answered(t, r, a.res)
	res.Files = files
	return res
}

// whole returns r with a function in place of each one that it lacks, so that a toolset can
// call all of them.
func whole(r seam.Run) seam.Run {
	if r.Ask == nil {
		r.Ask = func(context.Context, parley.Interaction) (parley.Answer, error) {
			return parley.Answer{}, parley.Errorf(parley.CodeForbidden, "there is nobody to ask")
		}
	}
	if r.Workspace == nil {
		r.Workspace = noWorkspace
	}
	if r.Credential == nil {
		r.Credential = noCredential
	}
	if r.Changes == nil {
		r.Changes = func(context.Context, ...string) error { return nil }
	}
	return r
}

func noWorkspace() (*os.Root, error) {
	return nil, parley.Errorf(parley.CodeInvalid, "there is no workspace here")
}

func noCredential(name, _ string) (string, error) {
	return "", parley.Errorf(parley.CodeForbidden, "there is no credential %s here", name)
}

// redacted returns a text of a call without secrets. Cut the text only after that.
func (b *Box) redacted(r seam.Run, text string) string {
	switch {
	case r.Redact != nil:
		text, _ = r.Redact(text)
	case b.o.Redact != nil:
		text, _ = b.o.Redact(text)
	}
	return text
}

// shelf collects the files of one call while it runs.
type shelf struct {
	mu     sync.Mutex
	closed bool
	files  []seam.File
	size   int
}

func (s *shelf) keep(f seam.File, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return parley.Errorf(parley.CodeConflict, "the call is over")
	case len(s.files) == maxFiles:
		return parley.Errorf(parley.CodeTooLarge, "a call may keep %d files", maxFiles)
	case s.size+len(f.Body) > most:
		return parley.Errorf(parley.CodeTooLarge, "the files of a call may have %d bytes", most)
	}
	f.Body = bytes.Clone(f.Body) // the tool may use its buffer again
	s.files = append(s.files, f)
	s.size += len(f.Body)
	return nil
}

func (s *shelf) close() []seam.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.files
}

func (b *Box) timeout(t *tool) time.Duration {
	if d := time.Duration(t.decl.Timeout); d > 0 {
		return d
	}
	return b.o.Timeout
}

// answer is the result of a call of a toolset.
type answer struct {
	res   parley.ToolResult
	known bool // of Reconcile
	err   error
}

// errPanic replaces the error of a toolset that panicked or ended its goroutine.
var errPanic = errors.New("crashed inside Parley; the server's log has the cause")

// wait runs f in its own goroutine, since a toolset may ignore its context. When the
// context ends, a call with effects gets a grace period to answer, because knowing what
// happened is worth the wait. A read does not.
func (b *Box) wait(ctx context.Context, t *tool, r seam.Run, f func(context.Context, seam.Run) answer) answer {
	var showing sync.Mutex // held while progress is shown, so that none is after wait has returned
	show := r.Progress
	r.Progress = func(text string) {
		showing.Lock()
		defer showing.Unlock()
		if show != nil {
			show(text)
		}
	}
	defer func() {
		showing.Lock()
		defer showing.Unlock()
		show = nil
	}()
	// 0 running, 1 returned, 2 abandoned: whoever changes it first decides.
	var state atomic.Int32
	came := make(chan answer, 1)
	go func() {
		a := answer{err: errPanic} // what remains after a panic or runtime.Goexit
		defer func() {
			if v := recover(); v != nil {
				b.o.Logger.Error("tool panicked", "tool", r.Name, "call", r.Call, "panic", b.redacted(r, fmt.Sprint(v)), "stack", string(debug.Stack()))
			}
			if !state.CompareAndSwap(0, 1) {
				t.abandoned.Add(-1)
			}
			came <- a
		}()
		a = f(ctx, r)
	}()

	select {
	case a := <-came:
		return a
	case <-ctx.Done():
	}
	if r.Effect != parley.EffectRead {
		grace := time.NewTimer(b.o.Grace)
		defer grace.Stop()
		select {
		case a := <-came:
			return a
		case <-grace.C:
		}
	}
	t.abandoned.Add(1) // before the swap, as the goroutine takes it back after
	if !state.CompareAndSwap(0, 2) {
		t.abandoned.Add(-1)
		return <-came
	}
	if r.Effect != parley.EffectRead {
		b.o.Logger.Warn("tool did not end with its context and is left behind", "tool", r.Name, "call", r.Call)
	}
	return answer{err: context.Cause(ctx)}
}

// classify returns the result of a call that gave no answer.
func (b *Box) classify(ctx context.Context, t *tool, r seam.Run, a answer, took time.Duration) Result {
	read := r.Effect == parley.EffectRead
	info := parley.ErrorInfo{Code: parley.CodeTool, Message: r.Name + ": " + a.err.Error()}
	if e, ok := errors.AsType[*parley.Error](a.err); ok {
		info = parley.Info(e)
		info.Message = r.Name + ": " + info.Message
	}
	outcome := parley.OutcomeError
	switch {
	case seam.IsNotSent(a.err):
		return b.failed(r, outcome, info)
	case errors.Is(a.err, errPanic):
	case context.Cause(ctx) == errDeadline: //nolint:errorlint // the cause is this very value
		info.Code = parley.CodeTimeout
		info.Message = fmt.Sprintf("%s did not answer within %s", r.Name, took.Round(time.Millisecond))
		info.Hint = ""
	case ctx.Err() != nil:
		info.Code = parley.CodeCancelled
		info.Message = r.Name + " was cancelled before it answered"
		info.Hint = ""
		outcome = parley.OutcomeCancelled
	}
	if !read {
		outcome = parley.OutcomeUnknown
	}
	return b.failed(r, outcome, info)
}

// failed makes the result of a call that its service did not answer. The text is for the
// model.
func (b *Box) failed(r seam.Run, o parley.Outcome, info parley.ErrorInfo) Result {
	info.Message = clip(b.redacted(r, info.Message), b.o.OutputLimit/2)
	info.Hint = b.redacted(r, info.Hint)
	out := info.Message
	if info.Hint != "" {
		out += "\n" + info.Hint
	}
	if o == parley.OutcomeUnknown {
		if !strings.HasSuffix(out, ".") { // a sentence follows
			out += "."
		}
		out += "\nIt is not known whether the call took effect. Do not make it again before that is known."
	}
	return Result{ToolResult: parley.ToolResult{Call: r.Call, Outcome: o, Output: out, Error: &info}}
}

// answered takes an answer of the service: it checks its form and cuts it to size.
func (b *Box) answered(t *tool, r seam.Run, res parley.ToolResult) Result {
	res.Call, res.Artifact = r.Call, nil
	switch res.Outcome {
	case "":
		res.Outcome = parley.OutcomeOK
	case parley.OutcomeOK, parley.OutcomeError:
	default: // a toolset may know that it does not know
		if res.Outcome != parley.OutcomeUnknown || r.Effect == parley.EffectRead {
			res.Outcome = parley.OutcomeError
		}
	}
	if res.Outcome == parley.OutcomeOK && t.out != nil {
		if wrong := t.checkOutput(&res); wrong != nil {
			return *wrong
		}
	}
	res.About = aboutFew(res.About)
	if !json.Valid(res.Data) {
		res.Data = nil // it could not be written to the log
	}
	if res.Error != nil {
		e := *res.Error
		e.Message = clip(b.redacted(r, e.Message), b.o.OutputLimit/2)
		res.Error = &e
	}
	if res.Outcome != parley.OutcomeOK {
		if res.Error == nil {
			res.Error = &parley.ErrorInfo{Code: parley.CodeTool, Message: clip(firstLine(b.redacted(r, res.Output), r.Name+" failed"), 500)}
		}
		if res.Output == "" {
			res.Output = res.Error.Message
		}
	}
	return b.cut(t, r, res)
}

// aboutFew are the ids that a session may be about.
func aboutFew(ids []string) (out []string) {
	for _, id := range ids {
		if len(out) < parley.MaxAbout && id != "" && len(id) <= parley.MaxAboutID && utf8.ValidString(id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// checkOutput fills in Data from Output, or Output from Data. If the output does not fit
// the schema, it returns another result that says so, and that the call was made all the
// same, so that the model does not repeat it unawares.
func (t *tool) checkOutput(res *parley.ToolResult) *Result {
	if len(res.Data) == 0 {
		res.Data = json.RawMessage(res.Output)
	}
	wrong := t.out.check(res.Data)
	if len(wrong) == 0 {
		if res.Output == "" {
			res.Output = string(res.Data)
		}
		return nil
	}
	msg := fmt.Sprintf("%s answered, but its answer does not fit the output schema that it declares:\n%s", t.decl.Name, lines(wrong))
	out := msg
	if t.decl.Effect != parley.EffectRead {
		out += "\nThe call was made and may have taken effect. Do not make it again to get another answer."
	}
	return &Result{ToolResult: parley.ToolResult{
		Call: res.Call, Outcome: parley.OutcomeError, Output: out,
		Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: msg, Hint: "tell whoever runs the tool's service"},
	}}
}

// Reconcile asks the tool's service what became of a call, without making it. known is
// false when the service cannot tell or cannot be asked. It takes no longer than a call of
// the tool may.
func (b *Box) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	t := b.tools[r.Name]
	if t == nil {
		return res, false, b.unknown(r.Name)
	}
	asker, ok := t.set.(seam.Reconciler)
	if !ok {
		return res, false, nil
	}
	if r.Effect == "" {
		r.Effect = t.decl.Effect
	}
	r = whole(r)
	r.Keep = func(seam.File) error { // there is no place for it
		return parley.Errorf(parley.CodeConflict, "the call is over, so it can keep no file")
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout(t))
	defer cancel()
	a := b.wait(ctx, t, r, func(ctx context.Context, r seam.Run) answer {
		res, known, err := asker.Reconcile(ctx, r)
		return answer{res: res, known: known, err: err}
	})
	switch {
	case a.err != nil:
		return res, false, fmt.Errorf("ask what became of %s: %w", r.Name, a.err)
	case !a.known:
		return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeUnknown}, false, nil
	}
	out := b.answered(t, r, a.res)
	if out.Artifact != nil { // there is no place for the rest
		out.Output = preview(a.res.Output, len(out.Output), func(int) string { return "[the rest was not kept]" })
	}
	return out.ToolResult, true, nil
}
