package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// offeredName is short enough that with the prefix a name fits the 64 characters that all
// providers accept.
var offeredName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

// maxOfferedText limits a tool's description, in bytes.
const maxOfferedText = 4 << 10

// offers checks the tools that a caller offers with a message and returns them as tools of the
// turn.
func offers(app *parley.App, box *toolbox.Box, given []parley.OfferedTool) ([]parley.ToolDecl, error) {
	size := 0
	for _, g := range given {
		size += len(g.Name) + len(g.Description) + len(g.InputSchema)
	}
	switch {
	case len(given) == 0:
		return nil, nil
	case app.CallerTools == nil:
		return nil, parley.Errorf(parley.CodeForbidden, "the app %s does not accept tools from callers", app.Name).WithField("tools").
			WithHint("to accept them, set this in the app's file: caller_tools: {effect: write}")
	case len(given) > parley.MaxCallerTools:
		return nil, tooLong("tools", parley.MaxCallerTools, "entries")
	case size > parley.MaxCallerToolBytes:
		return nil, tooLong("tools", parley.MaxCallerToolBytes, "bytes")
	}
	var list []parley.ToolDecl
	for i, g := range given {
		d, err := offeredTool(app, box, g)
		if err == nil && slices.ContainsFunc(list, func(o parley.ToolDecl) bool { return o.Name == d.Name }) {
			err = parley.Errorf(parley.CodeInvalid, "two tools are named %q", g.Name).WithField("name")
		}
		if err != nil {
			return nil, err.WithField(fmt.Sprintf("tools[%d].%s", i, err.Field))
		}
		list = append(list, d)
	}
	return list, nil
}

func offeredTool(app *parley.App, box *toolbox.Box, g parley.OfferedTool) (parley.ToolDecl, *parley.Error) {
	d := parley.ToolDecl{
		Name: parley.CallerPrefix + g.Name, Description: strings.TrimSpace(g.Description), InputSchema: g.InputSchema,
		Effect: effectOf(parley.ToolDecl{Effect: app.CallerTools.Effect}), Timeout: app.CallerTools.Timeout, Run: parley.RunClient,
	}
	if len(d.InputSchema) == 0 {
		d.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	var kind struct {
		Type string `json:"type"`
	}
	switch {
	case !offeredName.MatchString(g.Name):
		return d, parley.Errorf(parley.CodeInvalid, "%q cannot be a tool's name", parley.Cut(g.Name, 60)).WithField("name").
			WithHint("use letters, digits, _ and -, at most 40, and begin with a letter")
	case d.Description == "" || len(d.Description) > maxOfferedText:
		return d, parley.Errorf(parley.CodeInvalid, "the description has %d bytes", len(d.Description)).WithField("description").
			WithHint("describe in 1 to %d bytes what the tool does; the model chooses tools by their descriptions", maxOfferedText)
	case json.Unmarshal(d.InputSchema, &kind) != nil || kind.Type != "object":
		return d, parley.Errorf(parley.CodeInvalid, "the input schema does not describe an object").WithField("input_schema").
			WithHint(`write {"type": "object", "properties": {...}}`)
	}
	if _, taken := box.Decl(d.Name); taken {
		return d, parley.Errorf(parley.CodeInvalid, "the app already has a tool named %q", d.Name).WithField("name").WithHint("offer it under another name")
	}
	if err := toolbox.Check(d); err != nil {
		return d, parley.Errorf(parley.CodeInvalid, "%s", parley.Info(err).Message).WithField("input_schema")
	}
	return d, nil
}

// offeredAgain returns the tools of a turn as its caller offered them.
func offeredAgain(tools []parley.ToolDecl) (list []parley.OfferedTool) {
	for _, d := range tools {
		list = append(list, parley.OfferedTool{Name: strings.TrimPrefix(d.Name, parley.CallerPrefix), Description: d.Description, InputSchema: d.InputSchema})
	}
	return list
}

// offeredSize returns the approximate size of tools in bytes.
func offeredSize(tools []parley.ToolDecl) (bytes int) {
	for _, d := range tools {
		bytes += 256 + len(d.Name) + len(d.Description) + len(d.InputSchema)
	}
	return bytes
}

// withOffered returns the app with the caller's tools added to its agents. Sub-agents do not
// get them, because they see nothing of the turn but their task.
func withOffered(app *parley.App, tools []parley.ToolDecl) *parley.App {
	if len(tools) == 0 {
		return app
	}
	more := *app
	more.Tools = slices.Concat(app.Tools, tools)
	more.Agents = maps.Clone(app.Agents)
	for name, def := range more.Agents {
		if def.AsTool {
			continue
		}
		def.Tools = slices.Clip(def.Tools)
		for _, d := range tools {
			def.Tools = append(def.Tools, d.Name)
		}
		more.Agents[name] = def
	}
	return &more
}

// boxWith returns the toolbox with the tools that the caller of an open turn offered. It leaves
// out a tool whose name the app itself now uses.
func boxWith(box *toolbox.Box, t *parley.Turn) *toolbox.Box {
	if t == nil || len(t.Request.Tools) == 0 {
		return box
	}
	more, _ := box.With(context.Background(), []seam.Toolset{toolbox.Clients(t.Request.Tools)})
	return more
}
