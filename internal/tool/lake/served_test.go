package lake_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
)

// served is an app over one lake. Its script writes five entities, with a sentence before each, and links to each in an entity that all
// sessions change.
func served(t *testing.T) (*servertest.Server, string) {
	t.Helper()
	root := memory(t)
	var script strings.Builder
	script.WriteString("agents:\n  clerk:\n")
	for i := range 5 {
		fmt.Fprintf(&script, `    - when: eq (len .Results) %d
      say: 'The next one is written now, while you read this sentence.'
      call: [{tool: lake_create, input: {path: 'lake/{{ .Question }}-%d.md', content: '# {{ .Question }}', reason: Write it}}]
    - when: eq (len .Results) %d
      say: 'Now it is linked, so that somebody finds it in the lake.'
      call: [{tool: lake_link, input: {path: lake/shared.md, to: 'lake/{{ .Question }}-%d.md', reason: Link it}}]
`, 2*i, i, 2*i+1, i)
	}
	script.WriteString("    - say: All is written.\n")
	app := fstest.MapFS{
		"app.yaml": {Data: []byte(`name: lake
script: script.yaml
agents: {clerk: {prompt: clerk.md, tools: [lake_create, lake_update, lake_link, lake_read]}}
tools: {lake: {}}
workspaces: {root: ` + root + `, default: main}
policy: {rules: [{verdict: allow}]}
`)},
		"clerk.md":    {Data: []byte("Keep the lake.")},
		"script.yaml": {Data: []byte(script.String())},
	}
	s := servertest.Start(t, server.App(app))
	dir := filepath.Join(root, "local", "main")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "lake"), 0o755), os.WriteFile(filepath.Join(dir, "lake", "shared.md"), []byte("# Shared\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// TestEntitiesWhileStreaming: what a stream says of an entity is true when it says so. The intention of a change is in the log before the
// change is in the lake, and once the stream has its end, each client reads the entity with it and finds it: also while others write to
// the same lake and text streams. Without the index being written before the call ends, the entity is not found.
func TestEntitiesWhileStreaming(t *testing.T) {
	t.Parallel()
	s, dir := served(t)
	notes := s.Lake("lake", "main")
	if _, err := notes.Read(t.Context(), "lake/shared.md"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	read, deltas := 0, 0
	for _, name := range []string{"one", "two"} {
		chat := s.Session("lake")
		turn, err := s.Send(t.Context(), chat.ID, parley.Send{Message: name})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the page and the phone
			wg.Go(func() {
				started := map[parley.CallID]parley.ToolStarted{}
				for f, err := range s.FollowTurn(t.Context(), turn) {
					if err != nil {
						t.Error(err)
						return
					}
					if f.Delta != nil {
						mu.Lock()
						deltas++
						mu.Unlock()
					}
					if f.Event == nil {
						continue
					}
					switch p, _ := f.Event.Payload(); p := p.(type) {
					case parley.ToolStarted:
						started[p.Call] = p
					case parley.ToolEnded:
						if err := followed(t.Context(), s, dir, started[p.Call], p); err != nil {
							t.Errorf("%s of %s: %v", p.Name, name, err)
						}
						mu.Lock()
						read++
						mu.Unlock()
					}
				}
			})
		}
	}
	// Somebody else writes over REST meanwhile.
	wg.Go(func() {
		for i := range 4 {
			e, err := notes.Read(t.Context(), "lake/shared.md")
			if err != nil {
				t.Error(err)
				return
			}
			_, err = notes.Update(t.Context(), e.Path, parley.WriteEntity{Version: e.Version, Body: strings.Replace(e.Body, "# Shared\n", fmt.Sprintf("# Shared\n\nLine %d.\n", i), 1), Reason: "rest"}, "")
			if err != nil && parley.CodeOf(err) != parley.CodeConflict {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	e, err := notes.Read(t.Context(), "lake/shared.md")
	if err != nil || read != 40 || deltas == 0 {
		t.Fatalf("%d ends of calls and %d deltas were seen, %v", read, deltas, err)
	}
	for _, name := range []string{"one", "two"} {
		for i := range 5 {
			if link := fmt.Sprintf("- [[%s-%d]]\n", name, i); strings.Count(e.Body, link) != 1 {
				t.Errorf("%s is there %d times in\n%s", link, strings.Count(e.Body, link), e.Body)
			}
		}
	}
}

// followed checks what a client sees of a call's end.
func followed(ctx context.Context, s *servertest.Server, dir string, began parley.ToolStarted, p parley.ToolEnded) error {
	if began.Call == "" {
		return errors.New("its end comes before its intention")
	}
	if p.Outcome != parley.OutcomeOK {
		return fmt.Errorf("it ended with %s: %s", p.Outcome, p.Output)
	}
	var in struct{ Path, Content string }
	if err := json.Unmarshal(began.Input, &in); err != nil {
		return err
	}
	e, err := s.Lake("lake", "main").Read(ctx, in.Path)
	if err != nil {
		return fmt.Errorf("it has ended, and %w", err)
	}
	if p.Name == "lake_create" && e.Body != in.Content {
		return fmt.Errorf("it has %q", e.Body)
	}
	if p.Name == "lake_link" {
		var in struct{ To string }
		if err := json.Unmarshal(began.Input, &in); err != nil {
			return err
		}
		if b, err := s.Lake("lake", "main").Backlinks(ctx, in.To, "", 0); err != nil || len(b.Links) != 1 {
			return fmt.Errorf("%d backlinks are found, %w", len(b.Links), err)
		}
	}
	if strings.Contains(p.Output, "nothing was changed") {
		return nil
	}
	cmd := exec.Command("git", "log", "--format=%H", "--fixed-strings", "--grep=Parley-Key: "+string(p.Call))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if n := strings.Count(string(out), "\n"); err != nil || n != 1 {
		return fmt.Errorf("%d commits are of the call, %w", n, err)
	}
	return nil
}
