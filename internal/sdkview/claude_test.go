//go:build unix

package sdkview_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	cliruntime "github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/sdkview"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/anthropic"
	"github.com/parley-server/parley/internal/sim/claudecli"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

func TestMain(m *testing.M) {
	claudecli.Main()
	os.Exit(m.Run())
}

// TestBothRuntimes: a session that the CLI's runtime carries forward, over a stand-in for the CLI,
// is shown in the messages and fields that a session of the loop is.
func TestBothRuntimes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := claudecli.Install(dir, claudecli.Play{Transcript: "03-permission-allow", Live: true, Effects: true})
	if err != nil {
		t.Fatal(err)
	}
	var rt *cliruntime.Runtime
	a := app(func(a *parley.App) { a.Runtime, a.Entry = "claude", "lead" })
	r := enginetest.New(t, enginetest.Echo, a, func(o *engine.Options) {
		box, err := toolbox.New([]seam.Toolset{tools{}, ask.New()}, toolbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		folders, err := workspace.New(workspace.Options{Shared: map[string]workspace.Shared{"shared": {Dir: work}}, Default: "shared/shared"})
		if err != nil {
			t.Fatal(err)
		}
		rt = cliruntime.New(actor{}, cliruntime.Options{
			Find: func() (string, error) { return path, nil }, Data: filepath.Join(dir, "data"), Shell: true,
			Translate: func(m seam.Model, agent string) http.Handler {
				return anthropic.New(anthropic.Options{
					Brain: m, ID: func(prefix string) string { return prefix + "_" + rand.Text() },
					Models: []anthropic.Model{{ID: "claude-sonnet-5-5", MaxInput: 1_000_000, MaxTokens: 128_000, Adaptive: true, Effort: true, Sampling: true, Prefill: true}},
					Asked:  func(_ []byte, r *seam.Request) { r.Agent = agent },
				})
			},
		})
		o.Models, o.Runtimes["claude"], o.Apps, o.Tools = actor{}, rt, nil, nil
		if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: a, Tools: box, Folders: folders}}}); err != nil {
			t.Fatal(err)
		}
	})
	defer func() {
		r.Close()
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}()
	say := func(text string) claudecli.Step { return claudecli.Step{Block: claudecli.Block{Text: text}} }
	use := func(tool, input string) claudecli.Step {
		return claudecli.Step{Block: claudecli.Block{Tool: tool, Input: json.RawMessage(input)}}
	}
	s := r.Session(func(c *parley.CreateSession) { c.Workspace = "shared/shared" })
	ctx := t.Context()
	for _, message := range []string{
		claudecli.Prompt("Hello.", say("Hello there.")),
		claudecli.Prompt("Write.", use("Write", `{"file_path":"a.txt","content":"x"}`), say("Written.")),
		claudecli.Prompt("Ask.", use("AskUserQuestion", `{"questions":[{"question":"Which?","header":"Way","multiSelect":false,"options":[{"label":"Left","description":"l"},{"label":"Right","description":"r"}]}]}`), say("Right, then.")),
	} {
		turn := r.Send(s.ID, message)
		for round := 0; ; round++ {
			now, err := r.Engine.Await(ctx, enginetest.User, turn.ID, 30*time.Second)
			if err != nil || round > 5 {
				t.Fatalf("%v: %+v", err, now)
			}
			if now.Status.Ended() {
				if now.Status != parley.StatusCompleted {
					t.Fatalf("the turn %s: %+v; the host: %s", now.Status, now.Error, read(dir, "host.log"))
				}
				break
			}
			for _, id := range now.Interactions {
				i, err := r.Engine.Interaction(ctx, enginetest.User, id)
				if err != nil {
					t.Fatal(err)
				}
				answer := parley.Answer{Choice: parley.ChoiceAllow}
				if i.Kind == parley.KindQuestion {
					answer = parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Which?": "Right"}}
				}
				if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: answer}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var names []string
	var asked, told string
	for _, m := range shown(sdkview.NewSDK(options(t, r, s.ID)), events(r.Log(s.ID))) {
		d := decoded(t, m.Data)
		n := nameOf(d)
		if strings.HasPrefix(n, "stream_event") {
			continue
		}
		names = append(names, n)
		if c, ok := d["message"].(map[string]any); ok {
			if parts, ok := c["content"].([]any); ok {
				switch p := parts[0].(map[string]any); {
				case p["name"] == "AskUserQuestion":
					asked = p["id"].(string)
				case asked != "" && p["tool_use_id"] == asked:
					told = p["content"].(string)
				}
			}
		}
	}
	turn := func(steps ...string) []string {
		return slices.Concat([]string{"system.session_state_changed", "system.init", "user.replay"}, steps, []string{"result", "system.session_state_changed"})
	}
	call := []string{"system.status.requesting", "assistant", "system.session_state_changed", "system.session_state_changed", "user", "system.status.requesting", "assistant"}
	want := slices.Concat(turn("system.status.requesting", "assistant"), turn(call...), turn(call...))
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(told, "Right") {
		t.Errorf("the question %q is answered by %q", asked, told)
	}
	if got := strings.Count(read(dir, "effects.log"), "Write"); got != 1 || read(dir, "host.log") != "" {
		t.Errorf("%d writes; the host: %s", got, read(dir, "host.log"))
	}
}

func read(dir, name string) string {
	b, _ := os.ReadFile(filepath.Join(dir, name)) // none is empty
	return string(b)
}
