package tool_test

import (
	"context"
	"errors"
	"fmt"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/exampletest"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
	"github.com/parley-server/parley/tool"
)

// app is an app whose script calls a tool with an input.
func app(name, input string) fstest.MapFS {
	return fstest.MapFS{
		"app.yaml":    {Data: []byte("name: desk\nscript: script.yaml\nagents: {clerk: {prompt: clerk.md, tools: [" + name + "]}}\ntools: {desk: {}}\n")},
		"clerk.md":    {Data: []byte("Do as you are told.")},
		"script.yaml": {Data: []byte("agents:\n  clerk:\n    - when: .Results\n      say: '{{ (index .Results 0).Output }}'\n    - call: [{tool: " + name + ", input: " + input + "}]\n")},
	}
}

// A function becomes a tool. The schema of its input comes from the type.
func ExampleNew() {
	type In struct {
		City string `json:"city" jsonschema:"where"`
	}
	weather := tool.New(tool.Def{Name: "weather", Description: "Tells the weather.", Effect: parley.EffectRead},
		func(_ context.Context, in In) (string, error) { return "It rains in " + in.City + ".", nil })

	t, end := exampletest.T() // in a test: its own t
	defer end()
	chat := servertest.Start(t, server.App(app("weather", "{city: Ulm}")), server.Tools("desk", tool.Set{weather})).Session("desk")
	fmt.Println(chat.Send("What is the weather like?").Response.Message)
	// Output: It rains in Ulm.
}

// When an error leaves open what became of a write, the tool is asked, and the call is not made again.
func ExampleNewReconciled() {
	type In struct {
		Text string `json:"text"`
	}
	sent := map[parley.CallID]string{} // what the service knows
	mail := tool.NewReconciled(tool.Def{Name: "mail", Description: "Sends a mail."},
		func(ctx context.Context, in In) (string, error) {
			sent[tool.From(ctx).ID] = in.Text
			return "", errors.New("the connection was lost")
		},
		func(ctx context.Context, _ In) (string, bool, error) {
			text, happened := sent[tool.From(ctx).ID]
			return "Sent: " + text, happened, nil
		})

	t, end := exampletest.T()
	defer end()
	chat := servertest.Start(t, server.App(app("mail", "{text: hello}")), server.Tools("desk", tool.Set{mail})).Session("desk")
	chat.Send("Say hello")
	fmt.Println(chat.Answer(parley.ChoiceAllow).Response.Message, len(sent))
	// Output: Sent: hello 1
}
