package mcpserver

import (
	"context"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// Headers of a host that wants a part of the server only.
const (
	// ToolsHeader lists what the host sees: names of tools, or kinds as they are in app.yaml, separated by commas.
	ToolsHeader = "Parley-Tools"
	// WorkspaceHeader is the workspace of direct calls, by its name.
	WorkspaceHeader = "Parley-Workspace"
	// FolderHeader is the same by the path of its folder on the server.
	FolderHeader = "Parley-Workspace-Path"
)

// chosen are the tools that a host wants to see; nil: all.
func (a *App) chosen(req mcp.Request) ([]string, error) {
	x := req.GetExtra()
	if x == nil || len(x.Header.Values(ToolsHeader)) == 0 {
		return nil, nil
	}
	names := []string{}
	for one := range strings.SplitSeq(strings.Join(x.Header.Values(ToolsHeader), ","), ",") {
		one = strings.TrimSpace(one)
		var of []string
		if a.o.Kind != nil {
			of = a.o.Kind(one)
		}
		of = slices.DeleteFunc(slices.Clone(of), func(name string) bool { return !a.has(name) })
		if a.has(one) || a.seed[one] {
			of = append(of, one)
		}
		if len(of) == 0 && one != "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the app " + a.app.Name + " has no tools " + parley.Cut(one, 60)}
		}
		names = append(names, of...)
	}
	return names, nil
}

func (a *App) has(tool string) bool {
	return slices.ContainsFunc(a.app.Tools, func(d parley.ToolDecl) bool { return d.Name == tool })
}

// narrow leaves out the tools that a host does not want to see.
func (a *App) narrow(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		names, err := a.chosen(req)
		if err != nil {
			return nil, err
		}
		if names == nil {
			return next(ctx, method, req)
		}
		if call, ok := req.(*mcp.CallToolRequest); ok && call.Params != nil && !slices.Contains(names, call.Params.Name) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool " + parley.Cut(call.Params.Name, 100)}
		}
		res, err := next(ctx, method, req)
		switch res := res.(type) {
		case *mcp.ListToolsResult:
			if res == nil {
				break
			}
			some := *res
			some.Tools = slices.DeleteFunc(slices.Clone(res.Tools), func(t *mcp.Tool) bool { return !slices.Contains(names, t.Name) })
			return &some, err
		case *mcp.InitializeResult:
			if res == nil {
				break
			}
			some := *res
			some.Instructions = "Tools of " + a.app.Title + ", without its agent."
			return &some, err
		}
		return res, err
	}
}

// space is the workspace that a host's calls work in; "": the app's default.
func (a *App) space(r request) (parley.Workspace, error) {
	if r.Extra == nil {
		return "", nil
	}
	if name := r.Extra.Header.Get(WorkspaceHeader); name != "" {
		return parley.Workspace(name), nil
	}
	dir := r.Extra.Header.Get(FolderHeader)
	if dir == "" || a.o.Workspace == nil {
		return "", nil
	}
	return a.o.Workspace(r.who, dir)
}
