package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// demo is a server that answers "you said: ...", for the examples.
func demo() (url string, stop func()) {
	store := mem.New()
	writer, reader := eventlog.New(store, nil, eventlog.Options{})
	models := enginetest.Models{F: enginetest.Echo}
	app := enginetest.App()
	app.Tools, app.Agents = nil, map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Be useful."}}
	e, err := engine.New(engine.Options{
		Store: store, Log: writer, Reader: reader, Models: models, Apps: []parley.App{app},
		Runtimes: map[string]seam.Runtime{"loop": loop.New(models, loop.Options{})},
	})
	if err != nil {
		panic(err)
	}
	srv := httptest.NewServer(api.New(api.Options{Engine: e, Reader: reader}))
	return srv.URL, func() {
		_ = e.Close(context.Background())
		_ = writer.Close(context.Background())
		srv.Close()
	}
}

func Example() {
	url, stop := demo()
	defer stop()
	ctx := context.Background()

	c := client.New(client.Options{BaseURL: url})
	s, _, err := c.CreateSession(ctx, parley.CreateSession{App: "test"})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: "hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Status, "-", t.Response.Message)
	// Output: completed - you said: hello
}

func ExampleClient_FollowTurn() {
	url, stop := demo()
	defer stop()
	ctx := context.Background()

	c := client.New(client.Options{BaseURL: url})
	s, _, err := c.CreateSession(ctx, parley.CreateSession{App: "test"})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := c.Send(ctx, s.ID, parley.Send{Message: "hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for f, err := range c.FollowTurn(ctx, t) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if f.Event != nil {
			fmt.Println(f.Event.Type)
		}
	}
	// Output:
	// turn.started
	// agent.started
	// model.started
	// model.replied
	// turn.completed
}

func ExampleClient_Follow() {
	url, stop := demo()
	defer stop()
	ctx := context.Background()

	c := client.New(client.Options{BaseURL: url})
	s, _, err := c.CreateSession(ctx, parley.CreateSession{App: "test"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.SendAndWait(ctx, s.ID, parley.Send{Message: "hello"}); err != nil {
		fmt.Println(err)
		return
	}
	// Fold the events into a transcript. It is the same however often the connection breaks.
	var view parley.Transcript
	for f, err := range c.Follow(ctx, s.ID, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if f.Event == nil {
			continue
		}
		if view.Apply(*f.Event); len(view.Turns) == 1 && view.Turns[0].Status.Ended() {
			break
		}
	}
	fmt.Println(view.Turns[0].Message, "-", view.Turns[0].Answer)
	// Output: hello - you said: hello
}

func ExampleAgent() {
	url, stop := demo()
	defer stop()
	ctx := context.Background()

	agent := client.New(client.Options{BaseURL: url}).Agent("test")
	id, err := agent.CreateSession(ctx, "", nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	text := ""
	for event := range agent.SendMessage(ctx, id, "hello") {
		switch e := event.(type) {
		case client.TextDelta:
			text += e.Text
		case client.ToolUse:
			fmt.Println("uses", e.Name, e.ID)
		case client.ToolResult:
			fmt.Println("has a result for", e.ToolUseID)
		case client.Done:
			fmt.Println(text, "-", e.IsError)
		case client.Error:
			fmt.Println(e.Message)
		}
	}
	// Output: you said: hello - false
}
