//go:build unix

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/seam"
)

// program makes a toolset over a shell script. A shell reads it: a file that was just
// written cannot be executed while a process that another test forks still has it open.
func program(t *testing.T, script string, change ...func(*Options)) *Toolset {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool.sh"), []byte(script+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Run: []string{"sh", "./tool.sh", "an argument"}, Dir: dir, Tools: []callout.Tool{
		{ToolDecl: parley.ToolDecl{Name: "find", Effect: parley.EffectRead}},
		{ToolDecl: parley.ToolDecl{Name: "typed", Effect: parley.EffectRead, OutputSchema: json.RawMessage(`{"type":"object"}`)}},
		{ToolDecl: parley.ToolDecl{Name: "mail", Effect: parley.EffectWrite}, Reconcile: true},
		{ToolDecl: parley.ToolDecl{Name: "shout", Effect: parley.EffectWrite}},
	}}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func call(tool string) seam.Run {
	return seam.Run{
		Call: "01J", Name: tool, Input: json.RawMessage(`{"text":"a"}`), Attempt: 2, App: "crm", Session: "s1",
		Principal: parley.Principal{User: "ana", Org: "acme"}, Keep: func(seam.File) error { return nil },
	}
}

// TestCall: the input and environment of the program.
func TestCall(t *testing.T) {
	t.Parallel()
	s := program(t, `printf '{"arg":"%s","mine":"%s","here":"%s","got":%s}' "$1" "$MINE" "$(pwd)" "$(cat)"`, func(o *Options) {
		o.Env = map[string]string{"MINE": "x y"}
	})
	res, err := s.Run(t.Context(), call("typed"))
	if err != nil || res.Outcome != parley.OutcomeOK || res.Call != "01J" {
		t.Fatalf("%+v, %v", res, err)
	}
	var got struct {
		Arg, Mine, Here string
		Got             callout.Message
	}
	if err := json.Unmarshal(res.Data, &got); err != nil {
		t.Fatal(err)
	}
	want := callout.Data{Call: "01J", Tool: "typed", Input: json.RawMessage(`{"text":"a"}`), App: "crm", Session: "s1", User: "ana", Org: "acme", Attempt: 2}
	if fmt.Sprint(got.Got.Data) != fmt.Sprint(want) || got.Got.Type != callout.Call || got.Got.Timestamp.IsZero() {
		t.Errorf("the message was %+v", got.Got)
	}
	dir, err := filepath.EvalSymlinks(s.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Arg != "an argument" || got.Mine != "x y" || got.Here != dir {
		t.Errorf("got %+v", got)
	}
}

// TestEnds: how each way to end is understood.
func TestEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, tool string
		outcome            parley.Outcome // empty: unknown
		output             string         // of the result or the error
		kept               string         // the media type of an artifact
	}{
		{"JSON", `echo '{"a": 1}'`, "find", parley.OutcomeOK, `{"a":1}`, ""},
		{"text", `echo mailed`, "mail", parley.OutcomeOK, "mailed", ""},
		{"nothing", `true`, "mail", parley.OutcomeOK, "Done.", ""},
		{"words for an operator", `echo hm >&2; echo ok`, "mail", parley.OutcomeOK, "ok", ""},
		{"a file", `printf '\211PNG\r\n\032\n\377'`, "find", parley.OutcomeOK, "find, 9 bytes of image/png, was kept as an artifact.", "image/png"},
		{"too much", `head -c 9000000 /dev/zero | tr '\0' a`, "mail", parley.OutcomeOK, "It is done. The program's output has more than 8388608 bytes and was not read.", ""},
		{"a refusal", `echo '{"error":{"message":"no such address","hint":"ask for it"}}'; exit 2`, "mail", parley.OutcomeError, "no such address\nask for it", ""},
		{"a refused read", `echo '{"error":{"message":"no such word"}}'; exit 2`, "find", parley.OutcomeError, "no such word", ""},
		{"a panic of Go", `echo mailed; printf 'panic: nil map\n\ngoroutine 1 [running]:\n' >&2; exit 2`, "mail", "", "exit code 2; it said: panic: nil map", ""},
		{"a panic in a read", `printf 'panic: nil map\n' >&2; exit 2`, "find", "", "exit code 2; it said: panic: nil map", ""},
		{"an unset variable", `set -u; echo "mailed $absent"`, "mail", "", "it said: ", ""},
		{"code 2 with text", `echo no such thing; exit 2`, "mail", "", "exit code 2; it said: no such thing", ""},
		{"code 2 with JSON of another kind", `echo '{"error":"no such thing"}'; exit 2`, "mail", "", `it said: {"error":"no such thing"}`, ""},
		{"code 2 after a result", `echo mailed; echo '{"error":{"message":"no more"}}'; exit 2`, "mail", "", "exit code 2; it said: mailed", ""},
		{"code 2 without words", `exit 2`, "mail", "", "the program ended with exit code 2", ""},
		{"that JSON with another code", `echo '{"error":{"message":"no such address"}}'; exit 1`, "mail", "", "exit code 1; it said: ", ""},
		{"a fault", `echo Traceback >&2; exit 1`, "mail", "", "the program ended with exit code 1; it said: Traceback", ""},
		{"a fault of many words", `head -c 100000 /dev/zero | tr '\0' a >&2; printf '\nKeyError: 7\n' >&2; exit 1`, "mail", "", "… KeyError: 7", ""},
		{"a signal", `kill -SEGV $$`, "mail", "", "the program was ended: signal: segmentation fault", ""},
		{"input that nobody reads", `exec <&-; echo ok`, "find", parley.OutcomeOK, "ok", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := call(c.tool)
			var kept string
			r.Keep = func(f seam.File) error { kept = f.MediaType; return nil }
			res, err := program(t, c.script).Run(t.Context(), r)
			said := res.Output
			if err != nil {
				said = err.Error()
			}
			if (err != nil) != (c.outcome == "") || seam.IsNotSent(err) || res.Outcome != c.outcome || !strings.Contains(said, c.output) || kept != c.kept {
				t.Errorf("%+v, %v, kept %q", res, err, kept)
			}
		})
	}
}

// TestStopped: a program is ended when its time is up. The outcome is unknown, unless
// the program reports in time that it did nothing.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		open         bool
	}{
		{"a program that hangs", `echo >"$1"; while :; do sleep 1000; done`, true},
		{"one that did nothing", `trap 'echo "{\"error\":{\"message\":\"stopped\"}}"; exit 2' TERM; echo >"$1"; while :; do sleep 0.01; done`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			here := filepath.Join(t.TempDir(), "here")
			if err := syscall.Mkfifo(here, 0o600); err != nil {
				t.Fatal(err)
			}
			s := program(t, c.script, func(o *Options) { o.Run[2] = here })
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				_, _ = os.ReadFile(here) // returns once the program runs
				cancel(context.DeadlineExceeded)
			}()
			res, err := s.Run(ctx, call("mail"))
			if c.open != (err != nil) || seam.IsNotSent(err) || c.open && !errors.Is(err, context.DeadlineExceeded) || !c.open && res.Output != "stopped" {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// TestNotStarted: a call whose program could not start did nothing.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	s := program(t, "", func(o *Options) {
		o.Run = []string{"./tool"}
		if err := os.WriteFile(filepath.Join(o.Dir, "tool"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Remove(filepath.Join(s.o.Dir, "tool")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), call("mail")); !seam.IsNotSent(err) || !strings.Contains(err.Error(), `"./tool" cannot be run`) {
		t.Errorf("got %v", err)
	}
}

// TestNotRun: a program whose interpreter is absent did nothing.
func TestNotRun(t *testing.T) {
	t.Parallel()
	s := program(t, "", func(o *Options) {
		o.Run = []string{"./tool"}
		if err := os.WriteFile(filepath.Join(o.Dir, "tool"), []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := s.Run(t.Context(), call("mail")); !seam.IsNotSent(err) || !strings.Contains(err.Error(), "it said: ") {
		t.Errorf("got %v", err)
	}
}

// TestAtOnce: the number of programs that run at once is limited. A call that waits too
// long for its turn is not made.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, hold := filepath.Join(dir, "begun"), filepath.Join(dir, "hold")
	for _, f := range []string{begun, hold} {
		if err := syscall.Mkfifo(f, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := program(t, `echo >"$1/begun"; read -r x <"$1/hold"; echo ok`, func(o *Options) { o.Run[2], o.AtOnce = dir, 1 })
	var wg sync.WaitGroup
	wg.Go(func() {
		if res, err := s.Run(t.Context(), call("mail")); err != nil || res.Output != "ok" {
			t.Errorf("the first: %+v, %v", res, err)
		}
	})
	if _, err := os.ReadFile(begun); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	close(stopped)
	r := call("mail")
	r.Stopped = stopped
	if _, err := s.Run(t.Context(), r); !seam.IsNotSent(err) || !errors.Is(err, errStopped) {
		t.Errorf("one whose turn is stopped: %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Run(late, call("mail")); !seam.IsNotSent(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: %v", err)
	}
	if err := os.WriteFile(hold, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// TestPlacesAreShared: calls of one user leave a place to the others.
func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hold := filepath.Join(dir, "hold")
	if err := syscall.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	s := program(t, `grep -q '"user":"bob"' || read -r x <"$1/hold"; echo ok`, func(o *Options) { o.Run[len(o.Run)-1] = dir })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 * DefaultAtOnce {
		wg.Go(func() { _, _ = s.Run(ctx, call("mail")) })
	}
	bob := call("mail")
	bob.Principal.User = "bob"
	if res, err := s.Run(t.Context(), bob); err != nil || res.Output != "ok" {
		t.Errorf("%+v, %v", res, err)
	}
	cancel()
	wg.Wait()
}

// TestReconcile: the program tells the outcome of an earlier call.
func TestReconcile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, tool string
		known, fails       bool
		outcome            parley.Outcome
		output             string
	}{
		{"yes", `grep -q tool.reconcile && echo '{"happened":true,"output":"mailed"}'`, "mail", true, false, parley.OutcomeOK, "mailed"},
		{"yes, no more", `echo '{"happened":true}'`, "mail", true, false, parley.OutcomeOK, "Done."},
		{"no", `echo '{"happened":false}'`, "mail", true, false, parley.OutcomeError, "it did not happen\nit can be called again"},
		{"open", `echo '{"happened":null}'`, "mail", false, false, "", ""},
		{"another answer", `echo '{}'`, "mail", false, false, "", ""},
		{"no answer", `true`, "mail", false, true, "", ""},
		{"a fault", `echo '{"happened":true}'; exit 1`, "mail", false, true, "", ""},
		{"a refusal", `exit 2`, "mail", false, true, "", ""},
		{"too much", `echo '{"happened":true}'; head -c 9000000 /dev/zero | tr '\0' ' '`, "mail", false, true, "", ""},
		{"not asked", `echo '{"happened":true}'`, "shout", false, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, known, err := program(t, c.script).Reconcile(t.Context(), call(c.tool))
			if known != c.known || (err != nil) != c.fails || res.Outcome != c.outcome || res.Output != c.output {
				t.Errorf("%+v, %v, %v", res, known, err)
			}
		})
	}
}

// TestNew: a program that cannot run is an error in the app.
func TestNew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run        []string
		says, hint string
	}{
		"none":       {nil, "names no program", ""},
		"absent":     {[]string{"./absent"}, `the program "./absent" cannot be run: `, ""},
		"not found":  {[]string{"no-such-program-here"}, "executable file not found in $PATH", ""},
		"one string": {[]string{"python3 tool.py"}, "cannot be run", "write the program and its arguments as a list: [python3, tool.py]"},
	} {
		_, err := New(Options{Run: c.run, Dir: t.TempDir()})
		e, ok := errors.AsType[*parley.Error](err)
		if !ok || e.Field != "run" || !strings.Contains(e.Error(), c.says) || c.hint != "" && e.Hint != c.hint {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSecretsAreRemovedBeforeTheCut: what a program says is shortened for the model. A secret
// that lies across the cut is removed as a whole.
func TestSecretsAreRemovedBeforeTheCut(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-0815-4711-0042-password"
	clean := func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	fill := func(n int) string { return fmt.Sprintf(`head -c %d /dev/zero | tr '\0' a; printf %s`, n, secret) }
	rest := fmt.Sprintf(`; head -c %d /dev/zero | tr '\0' z`, maxShown-len(secret)/2)
	for name, script := range map[string]string{
		"its errors":            `{ ` + fill(10) + rest + `; } >&2; exit 1`,
		"the last errors":       `{ ` + fill(10) + fmt.Sprintf(`; head -c %d /dev/zero | tr '\0' z; printf '\nKeyError\n'`, maxError-len(secret)/2) + `; } >&2; exit 1`,
		"its output":            fill(10) + rest + `; exit 1`,
		"output that is cut":    fill(maxOutput-len(secret)/2) + `; exit 1`,
		"a refusal":             `printf '{"error":{"message":"'; ` + fill(maxShown-len(secret)/2) + `; printf '"}}'; exit 2`,
		"the hint of a refusal": `printf '{"error":{"message":"no","hint":"'; ` + fill(maxShown-len(secret)/2) + `; printf '"}}'; exit 2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := program(t, script, func(o *Options) { o.Clean = clean })
			res, err := s.Run(t.Context(), call("mail"))
			said := fmt.Sprint(res.Output, res.Error, err)
			for n := 4; n <= len(secret); n++ {
				if strings.Contains(said, secret[:n]) || strings.Contains(said, secret[len(secret)-n:]) {
					t.Fatalf("a part of the secret is in %.200s … %.200s", said, said[max(0, len(said)-200):])
				}
			}
		})
	}
}
