package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	parleyclient "github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/command"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/tool/webhook"
	"github.com/parley-server/parley/internal/toolbox"
)

// mcpRole is the role of an MCP server on standard input and output.
const mcpRole = "mcp"

func mcpServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "mail", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "kept"}}}, nil
	})
	return s
}

// callsEach is the number of calls in a turn. They are made one after the other, each in a step
// of its own.
const callsEach = 10

// floorTool is the tool of the same kind inside of this process. See [tools].
const floorTool = "mail"

// ways are the tools outside of this process. All are writes that need nobody's permission.
var ways = []struct{ name, tool string }{
	{"of MCP, a program on stdio", "mcp__program__mail"},
	{"of MCP, a service over HTTP", "mcp__service__mail"},
	{"of a service (tools.http)", "posted"},
	{"of a command (tools.command)", "run"},
	{"of a client (tools.client)", "claimed"},
}

// calls compares a call of a tool in each of the ways that lead out of this process with a call of
// one in Go. All are made in turns of one session, through the same engine, log and store.
func calls(ctx context.Context, b *bench) (err error) {
	sets, done, err := outside()
	if err != nil {
		return err
	}
	defer done()
	dir, err := b.folder("calls")
	if err != nil {
		return err
	}
	h, err := build(ctx, setting{dir: dir, tools: sets, app: func(a *parley.App) {
		lead := a.Agents[a.Entry]
		lead.Tools = []string{floorTool}
		for _, w := range ways {
			lead.Tools = append(lead.Tools, w.tool)
		}
		a.Agents[a.Entry] = lead
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow, Tool: "*"}}
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	s, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
	if err != nil {
		return err
	}
	leave := h.attend(ctx, s.ID)
	defer func() { err = errors.Join(err, leave()) }()

	turns := 0
	call := func(tool string) (float64, error) {
		turns++
		began := time.Now()
		err := h.through(ctx, s.ID, "call "+tool)
		return ms(time.Since(began)) / callsEach, err
	}
	// The first of each starts a server or opens a connection.
	for _, w := range ways {
		if _, err := call(w.tool); err != nil {
			return fmt.Errorf("%s: %w", w.tool, err)
		}
	}
	var floors []float64
	values := make([][]float64, len(ways))
	for range pick(b, 10, 40) {
		floor, err := call(floorTool)
		if err != nil {
			return err
		}
		floors = append(floors, floor)
		for i, w := range ways {
			value, err := call(w.tool)
			if err != nil {
				return fmt.Errorf("%s: %w", w.tool, err)
			}
			values[i] = append(values[i], value)
		}
	}
	if err := h.allWereMade(ctx, s.ID, turns*callsEach); err != nil {
		return err
	}
	for i, w := range ways {
		b.pairs("calls: a call of a tool "+w.name, floors, values[i], millis, aim{})
	}
	return nil
}

// outside makes the tools of ways, with a server for those that need one.
func outside() (sets []seam.Toolset, done func(), err error) {
	var closers []func()
	done = func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	server := mcpServer()
	web := http.NewServeMux()
	web.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	web.HandleFunc("POST /tool", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("kept"))
	})
	service := httptest.NewServer(web)
	closers = append(closers, service.Close)
	for _, o := range []mcp.Options{
		{Name: "program", Run: []string{self}, Env: map[string]string{roleVariable: mcpRole}},
		{Name: "service", URL: service.URL + "/mcp"},
	} {
		set, err := mcp.New(o)
		if err != nil {
			return nil, nil, err
		}
		closers = append(closers, set.Close)
		sets = append(sets, set)
	}
	decl := func(name string) parley.ToolDecl {
		return parley.ToolDecl{Name: name, Description: "Mails a text.", InputSchema: json.RawMessage(`{"type":"object"}`), Effect: parley.EffectWrite}
	}
	hook, err := webhook.New(webhook.Options{
		URL: service.URL + "/tool", Secret: "whsec_YmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmVuY2g=", Tools: []callout.Tool{{ToolDecl: decl("posted")}},
	})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, hook.Close)
	// A shell starts faster than most programs, so this is what Parley and the system take.
	program, err := command.New(command.Options{Run: []string{"sh", "-c", "cat >/dev/null; echo kept"}, Tools: []callout.Tool{{ToolDecl: decl("run")}}})
	if err != nil {
		return nil, nil, err
	}
	return append(sets, hook, program, toolbox.Clients{decl("claimed")}), done, nil
}

// attend has a client of the session run the tool that clients run. It follows the session, claims
// and reports over HTTP, as a program on another machine would. leave ends it.
func (h *house) attend(ctx context.Context, id parley.SessionID) (leave func() error) {
	srv := httptest.NewServer(h.handler())
	c := parleyclient.New(parleyclient.Options{BaseURL: srv.URL})
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Handle(ctx, id, map[string]parleyclient.ToolFunc{"claimed": func(context.Context, parley.Claimed) (parley.ReportCall, error) {
			return parley.ReportCall{Output: "kept"}, nil
		}})
	}()
	return func() error {
		stop()
		err := <-ended
		srv.CloseClientConnections()
		srv.Close()
		if errors.Is(err, context.Canceled) {
			return nil // as told
		}
		return err
	}
}

// through sends a message and waits for the turn's end. It follows the log, since a turn that waits
// for a client is not over.
func (h *house) through(ctx context.Context, id parley.SessionID, message string) error {
	t, err := h.engine.Send(ctx, person, id, parley.Send{Message: message})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for f, err := range h.reader.FollowEvents(ctx, person, id, t.FirstSeq-1) {
		if err != nil {
			return err
		}
		if f.Event == nil || f.Event.Turn != t.ID {
			continue
		}
		switch f.Event.Type {
		case "turn.completed":
			return nil
		case "turn.failed", "turn.cancelled", "turn.expired":
			return fmt.Errorf("%s: %s", f.Event.Type, f.Event.Data)
		}
	}
	return fmt.Errorf("turn %s has not ended: %w", t.ID, context.Cause(ctx))
}
