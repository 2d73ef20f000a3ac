package program

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/sim/nodetest"
)

var fetched sync.Once

// Third-party tools read the document: the folder clients has linters and generators at fixed
// versions, and a small program over each generated client.

// TestDocument_passes_the_linters: the document of all apps and wires gets no error and no
// warning.
func TestDocument_passes_the_linters(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	js := jsFolder(t)
	doc := k.document(t)
	out := ran(t, js, "node_modules/.bin/redocly", "lint", "--config", "redocly.yaml", "--format", "json", doc)
	var redocly struct {
		Totals struct{ Errors, Warnings int }
	}
	if at := strings.IndexByte(out, '{'); at < 0 || json.Unmarshal([]byte(out[at:]), &redocly) != nil || redocly.Totals.Errors+redocly.Totals.Warnings > 0 {
		t.Errorf("redocly: %s", out)
	}
	if out := ran(t, js, "node_modules/.bin/spectral", "lint", "--ruleset", "spectral.yaml", "--fail-severity", "hint", "--quiet", doc); strings.TrimSpace(out) != "" {
		t.Errorf("spectral: %s", out)
	}
}

// TestClients_that_are_generated makes a client with each generator, compiles a program over it
// in its language's strict mode, and runs the program.
func TestClients_that_are_generated(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	js := jsFolder(t)
	doc := k.document(t)
	// TypeScript looks for packages in the parent folders.
	under := func(t *testing.T) string {
		dir, err := os.MkdirTemp(js, "generated-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	compile := func(t *testing.T, dir, program string) []string {
		copied(t, filepath.Join(js, program), filepath.Join(dir, program))
		copied(t, filepath.Join(js, "tsconfig.json"), filepath.Join(dir, "tsconfig.json"))
		ran(t, dir, "../node_modules/.bin/tsc", "-p", ".", "--outDir", "out")
		return []string{"node", filepath.Join(dir, "out", strings.TrimSuffix(program, ".ts")+".js")}
	}
	for name, made := range map[string]func(t *testing.T) (dir string, program []string){
		"openapi-fetch": func(t *testing.T) (string, []string) {
			dir := under(t)
			ran(t, dir, "../node_modules/.bin/openapi-typescript", doc, "-o", "schema.d.ts")
			return dir, compile(t, dir, "fetch.ts")
		},
		"hey-api": func(t *testing.T) (string, []string) {
			dir := under(t)
			ran(t, dir, "../node_modules/.bin/openapi-ts", "-i", doc, "-o", "client", "-c", "@hey-api/client-fetch", "--no-log-file")
			return dir, compile(t, dir, "hey.ts")
		},
		"oapi-codegen": func(t *testing.T) (string, []string) {
			dir := t.TempDir()
			for _, file := range []string{"go.mod", "go.sum", "main.go.txt"} { // .txt: so that it is no package of this module
				copied(t, filepath.Join("clients", "go", file), filepath.Join(dir, strings.TrimSuffix(file, ".txt")))
			}
			if err := os.Mkdir(filepath.Join(dir, "parley"), 0o700); err != nil {
				t.Fatal(err)
			}
			ran(t, dir, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "parley", "-o", "parley/parley.gen.go", doc)
			ran(t, dir, "go", "build", "-o", "program", ".")
			return dir, []string{filepath.Join(dir, "program")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, program := made(t)
			var got map[string]any
			out := ran(t, dir, program[0], append(program[1:], k.url, k.keys["ana"])...)
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			want := map[string]any{
				"created": []any{201.0, 200.0, true}, "sent": []any{202.0, true}, "ended": "completed", "answered": true,
				"streamed": []any{200.0, "turn.started", "turn.completed"}, "listed": true,
				"page":     []any{"turn.started", "turn.completed", "turn.started", "turn.completed"},
				"gone":     []any{404.0, "not_found"},
				"stranger": []any{401.0, "unauthenticated"},
			}
			if name == "hey-api" { // unlike the others, it reconnects its event stream when that ends
				want["followed"] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// jsFolder returns the folder with the third-party packages.
func jsFolder(t *testing.T) string {
	t.Helper()
	js, err := filepath.Abs(filepath.Join("clients", "js"))
	if err != nil {
		t.Fatal(err)
	}
	fetched.Do(func() { nodetest.Install(t, js) })
	return js
}

// document writes the document of a running server to a file and returns its path.
func (k *keyed) document(t *testing.T) string {
	t.Helper()
	status, text, _ := k.ask("", "GET", "/openapi.json", "")
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, []byte(text), 0o600); status != 200 || err != nil {
		t.Fatalf("%d, %v", status, err)
	}
	return file
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ran returns a program's standard output. The first build on a machine may take long.
func ran(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "CI=true", "GOFLAGS=-mod=mod -trimpath", "GOWORK=off")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s\n%s", program, args, err, out.String(), errs.String())
	}
	return out.String()
}
