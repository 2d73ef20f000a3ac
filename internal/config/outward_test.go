package config_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOutwardKeys: each kind of tool that an app describes can be declared web and outward.
func TestOutwardKeys(t *testing.T) {
	t.Parallel()
	apps := filepath.Join(t.TempDir(), "apps")
	if err := os.MkdirAll(filepath.Join(apps, "mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	const tools = `tools:
  http: {url: "http://127.0.0.1:9", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, tools: {a: {description: A., web: true, outward: true}}}
  client: {b: {description: B., web: true, outward: true}}
  openapi: {url: "http://127.0.0.1:9/openapi.json", operations: [{operation: c, web: true, outward: true}]}
  mcp: {name: d, url: "http://127.0.0.1:9", private: [127.0.0.1], tools: {d: {web: true, outward: true}}}
`
	for file, text := range map[string]string{"app.yaml": small + tools, "p.md": "x"} {
		if err := os.WriteFile(filepath.Join(apps, "mine", file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := load(t, nil, "apps: "+apps+"\ndata: "+t.TempDir()+"\n")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	check := func(kind string, web, outward bool) {
		if seen++; !web || !outward {
			t.Errorf("%s: web %v, outward %v", kind, web, outward)
		}
	}
	for _, s := range got[0].Toolsets {
		switch {
		case s.HTTP != nil:
			check(s.Kind, s.HTTP.Tools[0].Web, s.HTTP.Tools[0].Outward)
		case s.Client != nil:
			check(s.Kind, s.Client[0].Web, s.Client[0].Outward)
		case s.API != nil:
			check(s.Kind, s.API.Operations[0].Web, s.API.Operations[0].Outward)
		case s.MCP != nil:
			check(s.Kind, s.MCP.Tools["d"].Web, s.MCP.Tools["d"].Outward)
		}
	}
	if seen != 4 {
		t.Errorf("%d toolsets: %+v", seen, got[0].Toolsets)
	}
}
