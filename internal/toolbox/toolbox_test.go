package toolbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// set is a toolset of one tool with behaviour that a test provides.
type set struct {
	decl parley.ToolDecl
	run  func(context.Context, seam.Run) (parley.ToolResult, error)
}

func (s set) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{s.decl}, nil
}

func (s set) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) { return s.run(ctx, r) }

type asking struct {
	set
	reconcile func(context.Context, seam.Run) (parley.ToolResult, bool, error)
}

func (a asking) Reconcile(ctx context.Context, r seam.Run) (parley.ToolResult, bool, error) {
	return a.reconcile(ctx, r)
}

func quiet(o toolbox.Options) toolbox.Options {
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return o
}

func box(t *testing.T, o toolbox.Options, sets ...seam.Toolset) *toolbox.Box {
	t.Helper()
	b, err := toolbox.New(sets, quiet(o))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func says(text string) func(context.Context, seam.Run) (parley.ToolResult, error) {
	return func(context.Context, seam.Run) (parley.ToolResult, error) {
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: text}, nil
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	decl := func(d parley.ToolDecl) seam.Toolset { return set{decl: d} }
	for name, c := range map[string]struct {
		sets []seam.Toolset
		want string
	}{
		"a name twice":       {[]seam.Toolset{decl(parley.ToolDecl{Name: "x"}), decl(parley.ToolDecl{Name: "x"})}, `two tools are named "x"`},
		"a bad name":         {[]seam.Toolset{decl(parley.ToolDecl{Name: "a b"})}, `"a b" cannot be a tool's name`},
		"an unknown effect":  {[]seam.Toolset{decl(parley.ToolDecl{Name: "x", Effect: "reed"})}, `effect "reed" is not one of`},
		"a schema not JSON":  {[]seam.Toolset{decl(parley.ToolDecl{Name: "x", InputSchema: json.RawMessage(`{`)})}, "tool x: input schema: is not JSON"},
		"a schema not valid": {[]seam.Toolset{decl(parley.ToolDecl{Name: "x", OutputSchema: json.RawMessage(`{"type":"strnig"}`)})}, "tool x: output schema"},
		"a remote reference": {[]seam.Toolset{decl(parley.ToolDecl{Name: "x", InputSchema: json.RawMessage(`{"$ref":"https://example.com/s.json"}`)})}, "schemas are not fetched"},
		"a file reference":   {[]seam.Toolset{decl(parley.ToolDecl{Name: "x", InputSchema: json.RawMessage(`{"$ref":"file:///etc/passwd"}`)})}, "schemas are not fetched"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := toolbox.New(c.sets, toolbox.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestDeclHasDefaults(t *testing.T) {
	t.Parallel()
	b := box(t, toolbox.Options{}, set{decl: parley.ToolDecl{Name: "x"}})
	got, ok := b.Decl("x")
	want := parley.ToolDecl{Name: "x", Effect: parley.EffectWrite, InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("ok %v, -want +got:\n%s", ok, diff)
	}
	if _, ok := b.Decl("y"); ok {
		t.Error("got a declaration of an unknown tool")
	}
}

func TestCheckNamesEverythingAtOnce(t *testing.T) {
	t.Parallel()
	b := box(t, toolbox.Options{}, set{decl: parley.ToolDecl{Name: "find", InputSchema: json.RawMessage(`{
		"type":"object","additionalProperties":false,"required":["query","kind"],
		"properties":{
			"query":{"type":"string","minLength":1},
			"limit":{"type":"integer","maximum":50},
			"kind":{"enum":["doc","message"]},
			"tags":{"type":"array","items":{"type":"string"},"maxItems":2},
			"at":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`)}})
	for _, c := range []struct{ name, input, want string }{
		{"fits", `{"query":"x","kind":"doc"}`, ""},
		{
			"absent", ``,
			"the input of find does not fit its schema:\n- /kind: is missing, and is required\n- /query: is missing, and is required",
		},
		{
			"many", `{"query":7,"limit":"3","kind":"page","tags":["a",1],"a/b":0}`,
			"the input of find does not fit its schema:\n" +
				"- /a~1b: is not a known property; leave it out\n" +
				"- /kind: is \"page\", expected one of \"doc\", \"message\"\n" +
				"- /limit: is a string, expected an integer\n" +
				"- /query: is a number, expected a string\n" +
				"- /tags/1: is a number, expected a string",
		},
		{
			"alternatives", `{"query":"x","kind":"doc","at":1}`,
			"the input of find does not fit its schema:\n" +
				"- /at: fits none of the allowed forms; what each of them lacks is listed too\n" +
				"- /at: is a number, expected a string\n- /at: is a number, expected null",
		},
		{"not an object", `[]`, "the input of find does not fit its schema:\n- (the whole): is an array, expected an object"},
		{"a text", `"query"`, "the input of find does not fit its schema:\n- (the whole): is a string, expected an object"},
		{"what a model wrote instead of JSON", `"{\"query\": \"x\""`, "the input of find does not fit its schema:\n- (the whole): is not JSON: unexpected end of JSON input"},
		{"cut off", `{"query":`, "the input of find does not fit its schema:\n- (the whole): is not JSON: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if e := b.Check("find", json.RawMessage(c.input)); e != nil {
				got = e.Message
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if e := b.Check("fnid", nil); parley.CodeOf(e) != parley.CodeNotFound || !strings.Contains(e.Hint, "find") {
		t.Errorf("got %v, want not_found with the known tools", e)
	}
}

func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	b := box(t, toolbox.Options{}, set{decl: parley.ToolDecl{Name: "x", InputSchema: json.RawMessage(`{"type":"array","items":{"type":"string"}}`)}})
	e := b.Check("x", json.RawMessage("["+strings.Repeat("1,", 10_000)+"1]"))
	if e == nil || len(e.Message) > 4096 || !strings.Contains(e.Message, "and 9981 more") {
		t.Errorf("got %.200v, want a bounded list", e)
	}
}

// TestOutcomes tries every way in which a call can go, for every effect.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	const (
		ok, fail, canc, unk = parley.OutcomeOK, parley.OutcomeError, parley.OutcomeCancelled, parley.OutcomeUnknown
	)
	lost := errors.New("connection reset by peer")
	type want struct{ read, idempotent, write parley.Outcome }
	for name, c := range map[string]struct {
		run    func(context.Context, seam.Run) (parley.ToolResult, error)
		cancel time.Duration // the caller gives up after this
		want   want
	}{
		"answers ok":           {run: says("fine"), want: want{ok, ok, ok}},
		"answers without word": {run: func(context.Context, seam.Run) (parley.ToolResult, error) { return parley.ToolResult{}, nil }, want: want{ok, ok, ok}},
		"answers no": {run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			return parley.ToolResult{Outcome: fail, Output: "no such meeting"}, nil
		}, want: want{fail, fail, fail}},
		"does not know itself": {run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			return parley.ToolResult{Outcome: unk}, nil
		}, want: want{fail, unk, unk}},
		"never left": {run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			return parley.ToolResult{}, seam.NotSent(lost)
		}, want: want{fail, fail, fail}},
		"was lost": {run: func(context.Context, seam.Run) (parley.ToolResult, error) { return parley.ToolResult{}, lost }, want: want{fail, unk, unk}},
		"panics":   {run: func(context.Context, seam.Run) (parley.ToolResult, error) { panic("boom") }, want: want{fail, unk, unk}},
		"ends goroutine": {run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			runtime.Goexit()
			return parley.ToolResult{}, nil
		}, want: want{fail, unk, unk}},
		"is cut at the deadline": {run: func(ctx context.Context, _ seam.Run) (parley.ToolResult, error) {
			<-ctx.Done()
			return parley.ToolResult{}, ctx.Err()
		}, want: want{fail, unk, unk}},
		"ignores the deadline": {run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			time.Sleep(time.Hour)
			return parley.ToolResult{Outcome: ok, Output: "late"}, nil
		}, want: want{fail, unk, unk}},
		"is cancelled": {run: func(ctx context.Context, _ seam.Run) (parley.ToolResult, error) {
			<-ctx.Done()
			return parley.ToolResult{}, ctx.Err()
		}, cancel: time.Second, want: want{canc, unk, unk}},
		"ignores the cancel": {run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			time.Sleep(time.Hour)
			return parley.ToolResult{Outcome: ok, Output: "late"}, nil
		}, cancel: time.Second, want: want{canc, unk, unk}},
		"answers within the grace": {run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			time.Sleep(10*time.Second + time.Second)
			return parley.ToolResult{Outcome: ok, Output: "just so"}, nil
		}, want: want{fail, ok, ok}},
	} {
		for effect, want := range map[parley.Effect]parley.Outcome{
			parley.EffectRead: c.want.read, parley.EffectIdempotent: c.want.idempotent, parley.EffectWrite: c.want.write,
		} {
			t.Run(name+"/"+string(effect), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := box(t, toolbox.Options{}, set{decl: parley.ToolDecl{Name: "x", Effect: effect}, run: c.run})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if c.cancel > 0 {
						time.AfterFunc(c.cancel, cancel)
					}
					start := time.Now()
					got := b.Run(ctx, seam.Run{Call: "c1", Name: "x"}, start.Add(10*time.Second))
					if got.Outcome != want || got.Call != "c1" {
						t.Errorf("got %q of %q (%s), want %q", got.Outcome, got.Call, got.Output, want)
					}
					if took := time.Since(start); took > 12*time.Second {
						t.Errorf("took %s, more than deadline and grace", took)
					}
					if want != ok && (got.Error == nil || got.Output == "") {
						t.Errorf("got no words for what went wrong: %+v", got)
					}
					if strings.Contains(got.Output, "It is not known whether") && !strings.Contains(got.Output, ".\nIt is not known whether") {
						t.Errorf("the sentence before has no end: %q", got.Output)
					}
					if (want == unk) != strings.Contains(got.Output, "It is not known whether") && name != "does not know itself" {
						t.Errorf("got %q for outcome %s", got.Output, want)
					}
					time.Sleep(2 * time.Hour) // the abandoned goroutine ends
				})
			})
		}
	}
}

func TestRunThatNeverLeaves(t *testing.T) {
	t.Parallel()
	b := box(t, toolbox.Options{}, set{decl: parley.ToolDecl{Name: "x"}, run: func(context.Context, seam.Run) (parley.ToolResult, error) {
		t.Error("the toolset was called")
		return parley.ToolResult{}, nil
	}})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx      context.Context
		tool     string
		deadline time.Time
		want     parley.Outcome
	}{
		"cancelled before":     {gone, "x", time.Time{}, parley.OutcomeCancelled},
		"deadline has passed":  {t.Context(), "x", time.Now().Add(-time.Second), parley.OutcomeError},
		"there is no such one": {t.Context(), "y", time.Time{}, parley.OutcomeError},
	} {
		if got := b.Run(c.ctx, seam.Run{Call: "c", Name: c.tool}, c.deadline); got.Outcome != c.want || got.Output == "" {
			t.Errorf("%s: got %+v, want %s", name, got.ToolResult, c.want)
		}
	}
}

func TestAbandonedCallsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := box(t, toolbox.Options{Timeout: time.Second}, set{decl: parley.ToolDecl{Name: "x", Effect: parley.EffectRead}, run: func(context.Context, seam.Run) (parley.ToolResult, error) {
			<-release
			return parley.ToolResult{Output: "ok"}, nil
		}})
		for range 16 {
			if got := b.Run(t.Context(), seam.Run{Name: "x"}, time.Time{}); got.Error.Code != parley.CodeTimeout {
				t.Fatalf("got %+v, want a timeout", got.Error)
			}
		}
		if got := b.Run(t.Context(), seam.Run{Name: "x"}, time.Time{}); got.Error.Code != parley.CodeUnavailable {
			t.Errorf("got %+v, want to be refused", got.Error)
		}
		close(release)
		synctest.Wait()
		if got := b.Run(t.Context(), seam.Run{Name: "x"}, time.Time{}); got.Outcome != parley.OutcomeOK {
			t.Errorf("got %+v, want to be let in again", got)
		}
	})
}

func TestProgressEndsWithTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := box(t, toolbox.Options{Timeout: time.Second}, set{decl: parley.ToolDecl{Name: "x", Effect: parley.EffectRead}, run: func(_ context.Context, r seam.Run) (parley.ToolResult, error) {
			r.Progress("in time")
			time.Sleep(time.Minute)
			r.Progress("late")
			return parley.ToolResult{}, nil
		}})
		var got []string
		b.Run(t.Context(), seam.Run{Name: "x", Progress: func(s string) { got = append(got, s) }}, time.Time{})
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"in time"}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestOutputSchema(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
	for name, c := range map[string]struct {
		in   parley.ToolResult
		want parley.ToolResult
		says string
	}{
		"data fits":        {parley.ToolResult{Data: json.RawMessage(`{"n":1}`)}, parley.ToolResult{Outcome: parley.OutcomeOK, Output: `{"n":1}`, Data: json.RawMessage(`{"n":1}`)}, ""},
		"output fits":      {parley.ToolResult{Output: `{"n":1}`}, parley.ToolResult{Outcome: parley.OutcomeOK, Output: `{"n":1}`, Data: json.RawMessage(`{"n":1}`)}, ""},
		"wrong type":       {parley.ToolResult{Output: `{"n":"1"}`}, parley.ToolResult{Outcome: parley.OutcomeError}, "- /n: is a string, expected an integer"},
		"not JSON":         {parley.ToolResult{Output: `hello`}, parley.ToolResult{Outcome: parley.OutcomeError}, "is not JSON"},
		"an error is free": {parley.ToolResult{Outcome: parley.OutcomeError, Output: "no"}, parley.ToolResult{Outcome: parley.OutcomeError, Output: "no", Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: "no"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := box(t, toolbox.Options{}, set{decl: parley.ToolDecl{Name: "x", OutputSchema: schema}, run: func(context.Context, seam.Run) (parley.ToolResult, error) { return c.in, nil }})
			got := b.Run(t.Context(), seam.Run{Name: "x"}, time.Time{}).ToolResult
			if c.says != "" {
				if !strings.Contains(got.Output, c.says) || !strings.Contains(got.Output, "does not fit the output schema") || !strings.Contains(got.Output, "Do not make it again") {
					t.Errorf("got %q, want %q", got.Output, c.says)
				}
				got.Output, got.Error = "", nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLargeOutputBecomesAnArtifact(t *testing.T) {
	t.Parallel()
	line := "2026-11-21 a line of a log file, forty bytes.\n"
	for name, c := range map[string]struct {
		out      string
		max      int
		ext, typ string
	}{
		"lines":           {strings.Repeat(line, 100), 0, ".txt", "text/plain; charset=utf-8"},
		"one long line":   {strings.Repeat("x", 5000), 0, ".txt", "text/plain; charset=utf-8"},
		"wide characters": {strings.Repeat("語", 2000), 0, ".txt", "text/plain; charset=utf-8"},
		"bad UTF-8":       {strings.Repeat("\xff", 5000), 0, ".txt", "text/plain; charset=utf-8"},
		"JSON":            {`["` + strings.Repeat("x", 5000) + `"]`, 0, ".json", "application/json"},
		"over the top":    {strings.Repeat("x", 5000), 4000, ".txt", "text/plain; charset=utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := box(t, toolbox.Options{OutputLimit: 1000, MaxArtifact: c.max}, set{decl: parley.ToolDecl{Name: "log"}, run: says(c.out)})
			got := b.Run(t.Context(), seam.Run{Call: "01C", Name: "log"}, time.Time{})
			if got.ArtifactName != "log-01C"+c.ext || got.MediaType != c.typ {
				t.Errorf("got artifact %q of type %q", got.ArtifactName, got.MediaType)
			}
			if c.max == 0 && string(got.Artifact) != c.out {
				t.Errorf("got an artifact of %d bytes, want the whole %d", len(got.Artifact), len(c.out))
			}
			if c.max > 0 && (len(got.Artifact) > c.max+100 || !strings.Contains(string(got.Artifact), "[cut here: the output had 5000 bytes")) {
				t.Errorf("got an artifact of %d bytes", len(got.Artifact))
			}
			if len(got.Output) > 1000 || name != "bad UTF-8" && len(got.Output) < 400 || !utf8.ValidString(got.Output) {
				t.Errorf("got a preview of %d bytes: %q", len(got.Output), got.Output)
			}
			last := got.Output[strings.LastIndexByte(got.Output, '\n')+1:]
			if !strings.Contains(last, "bytes are left out here; the whole is in the artifact log-01C") {
				t.Errorf("got last line %q", last)
			}
			if name == "lines" && !strings.HasPrefix(c.out, strings.TrimSuffix(got.Output, last)) {
				t.Errorf("got a preview that does not end at a line: %q", got.Output)
			}
		})
	}
	b := box(t, toolbox.Options{}, set{decl: parley.ToolDecl{Name: "log"}, run: says(strings.Repeat("x", 16<<10))})
	if got := b.Run(t.Context(), seam.Run{Name: "log"}, time.Time{}); got.Artifact != nil || len(got.Output) != 16<<10 {
		t.Errorf("an output of just the limit was cut to %d", len(got.Output))
	}
}

func TestLargeDataBecomesAnArtifact(t *testing.T) {
	t.Parallel()
	data := json.RawMessage(`["` + strings.Repeat("x", 5000) + `"]`)
	b := box(t, toolbox.Options{OutputLimit: 1000}, set{decl: parley.ToolDecl{Name: "q"}, run: func(context.Context, seam.Run) (parley.ToolResult, error) {
		return parley.ToolResult{Output: "one row", Data: data}, nil
	}})
	got := b.Run(t.Context(), seam.Run{Call: "1", Name: "q"}, time.Time{})
	want := toolbox.Result{
		ToolResult:   parley.ToolResult{Call: "1", Outcome: parley.OutcomeOK, Output: "one row\n[the data, 5004 bytes, is in the artifact q-1.json]"},
		Artifact:     data,
		ArtifactName: "q-1.json",
		MediaType:    "application/json",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reconcile func(context.Context, seam.Run) (parley.ToolResult, bool, error)
		known     bool
		want      parley.Outcome
		fails     bool
	}{
		"it happened": {func(context.Context, seam.Run) (parley.ToolResult, bool, error) {
			return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "made"}, true, nil
		}, true, parley.OutcomeOK, false},
		"nobody knows": {func(context.Context, seam.Run) (parley.ToolResult, bool, error) {
			return parley.ToolResult{}, false, nil
		}, false, parley.OutcomeUnknown, false},
		"it fails": {func(context.Context, seam.Run) (parley.ToolResult, bool, error) {
			return parley.ToolResult{}, true, errors.New("away")
		}, false, "", true},
		"it panics": {func(context.Context, seam.Run) (parley.ToolResult, bool, error) { panic("boom") }, false, "", true},
		"it makes use of the whole call": {func(ctx context.Context, r seam.Run) (parley.ToolResult, bool, error) {
			r.Progress("looking")
			if _, err := r.Credential("key", "host"); parley.CodeOf(err) != parley.CodeForbidden {
				return parley.ToolResult{}, false, fmt.Errorf("a credential: %w", err)
			}
			if err := r.Changes(ctx, "a.txt"); err != nil {
				return parley.ToolResult{}, false, err
			}
			if err := r.Keep(seam.File{Name: "a.txt"}); parley.CodeOf(err) != parley.CodeConflict {
				return parley.ToolResult{}, false, fmt.Errorf("a file: %w", err)
			}
			if _, err := r.Ask(ctx, parley.Interaction{}); parley.CodeOf(err) != parley.CodeForbidden {
				return parley.ToolResult{}, false, fmt.Errorf("a question: %w", err)
			}
			return parley.ToolResult{Output: "made"}, true, nil
		}, true, parley.OutcomeOK, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := box(t, toolbox.Options{}, asking{set{decl: parley.ToolDecl{Name: "x"}}, c.reconcile}, set{decl: parley.ToolDecl{Name: "y"}})
			if !b.CanReconcile("x") || b.CanReconcile("y") || b.CanReconcile("z") {
				t.Error("CanReconcile is wrong")
			}
			got, known, err := b.Reconcile(t.Context(), seam.Run{Call: "c", Name: "x"})
			if known != c.known || got.Outcome != c.want || (err != nil) != c.fails {
				t.Errorf("got %+v, %v, %v", got, known, err)
			}
		})
	}
}
