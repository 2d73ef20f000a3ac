package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/exampletest"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
	"github.com/parley-server/parley/tool"
)

// A program of your own can bring an app, the tools that the app's file names, and the app's page.
// In main, this is server.Main(parts...). Here it runs inside a test.
func Example() {
	files := fstest.MapFS{ // usually an embed.FS
		"app.yaml":    {Data: []byte("name: clock\nscript: script.yaml\nagents: {one: {prompt: one.md, tools: [noon]}}\ntools: {clocks: {}}\n")},
		"one.md":      {Data: []byte("Tell the time.")},
		"script.yaml": {Data: []byte("agents:\n  one:\n    - when: .Results\n      say: '{{ (index .Results 0).Output }}'\n    - call: [{tool: noon, input: {}}]\n")},
	}
	noon := tool.New(tool.Def{Name: "noon", Description: "Tells the time.", Effect: parley.EffectRead},
		func(context.Context, struct{}) (string, error) { return "It is noon.", nil })
	parts := []server.Part{
		server.App(files),
		server.Tools("clocks", tool.Set{noon}),
		server.Mount("clock", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the page of the clock") })),
	}

	t, end := exampletest.T() // in a test: its own t
	defer end()
	s := servertest.Start(t, parts...)
	fmt.Println(s.Session("clock").Send("What time is it?").Response.Message)
	page, err := s.Browser().Get("http://clock.localhost/")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	body, err := io.ReadAll(page.Body)
	fmt.Println(string(body), err)
	// Output:
	// It is noon.
	// the page of the clock <nil>
}
