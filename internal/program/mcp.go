package program

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/workspace"
)

func newMCP(f *flags) *cobra.Command {
	var app, space string
	var named, tools []string
	cmd := &cobra.Command{
		Use: "mcp", Short: "Run an MCP server on standard input and output", Args: cobra.NoArgs,
		Long: `Run an MCP server on standard input and output, for hosts that start one. In the
settings of such a host:

  {"mcpServers": {"home": {"command": "parley", "args": ["mcp", "--app", "home"]}}}

It uses the server that has the data folder open, when there is one: what the agent
does goes on there when the host closes the pipe. A host that speaks HTTP needs no
command: /apps/NAME/mcp of a running server.

Tools have a dot in their names, as ha_agent.ask. For a host that refuses it, set

  mcp: {underscores: true}

in parley.yaml, or PARLEY_MCP_UNDERSCORES=true: then it is ha_agent_ask. A host that shows
no forms is given what the agent asks back, and answers questions with the tool answer;
permissions only with mcp.approvals.

--tools leaves out all others, such as those of the agent's sessions: names of tools, or
kinds as in app.yaml. Files of the calls are those of the app's default workspace, of the
one that --workspace names, or of the one in the folder that WORKSPACE_PATH names. So the
tools for a lake, for any host:

  {"mcpServers": {"batou": {"command": "parley", "args": ["mcp", "--app", "major",
    "--tools", "lake"], "env": {"WORKSPACE_PATH": "/srv/workspaces/ana/company"}}}}

A host that speaks HTTP sends them as the headers Parley-Tools and Parley-Workspace.

Tools may need credentials of yours: --credential gives one to each request, from a
variable or a file. A host that speaks HTTP sends the header Parley-Credentials, a JSON
object with a value for each name.

Only messages go to standard output; everything else goes to standard error.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, err := credentials(cmd.Context(), named, nil)
			if err != nil {
				return err
			}
			return f.with(cmd, mayMake|recovers|stays, func(ctx context.Context, l *link) error {
				name, err := l.appNamed(ctx, app)
				if err != nil {
					return err
				}
				o := mcpserver.BridgeOptions{URL: address + "/apps/" + name + "/mcp", Transport: l.transport, Credentials: given, Header: http.Header{}}
				if len(tools) > 0 {
					o.Header.Set(mcpserver.ToolsHeader, strings.Join(tools, ","))
				}
				switch dir := os.Getenv("WORKSPACE_PATH"); {
				case space != "":
					o.Header.Set(mcpserver.WorkspaceHeader, space)
				case dir != "":
					if dir, err = filepath.Abs(dir); err != nil {
						return usage(err)
					}
					o.Header.Set(mcpserver.FolderHeader, dir)
				}
				if l.own() {
					o.LeaveAfter = time.Minute // nobody else would continue what is under way
				}
				return mcpserver.Bridge(ctx, cmd.InOrStdin(), cmd.OutOrStdout(), o)
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "`name` of the app (default: the only one)")
	cmd.Flags().StringSliceVar(&tools, "tools", nil, "`names` or kinds of the tools that the host sees (default: all)")
	cmd.Flags().StringVar(&space, "workspace", "", "`name` of the workspace of the calls (default: that of WORKSPACE_PATH, or the app's)")
	credentialFlag(cmd, &named)
	return cmd
}

// appNamed is the app with that name, or the only one.
func (l *link) appNamed(ctx context.Context, name string) (string, error) {
	list, err := l.Apps(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, a := range list {
		if names = append(names, a.Name); a.Name == name {
			return name, nil
		}
	}
	switch {
	case name != "":
		_, err := l.App(ctx, name) // the server's error says why
		return "", usage(err)
	case len(names) != 1:
		return "", usage(parley.Errorf(parley.CodeInvalid, "there are several apps").WithHint("choose one with --app: %s", strings.Join(names, ", ")))
	}
	return names[0], nil
}

func newMCPServer(a parley.App, d doorDeps) *mcpserver.App {
	prefix := ""
	if i := slices.IndexFunc(d.plan.kit.apps, func(b app.App) bool { return b.Name == a.Name }); i >= 0 {
		prefix = d.plan.kit.apps[i].MCPPrefix
	}
	return mcpserver.New(a, mcpserver.Options{
		Prefix: prefix,
		Kind:   func(kind string) []string { return d.plan.ofKind(a.Name, kind) }, Workspace: func(p parley.Principal, dir string) (parley.Workspace, error) { return d.plan.spaceAt(a.Name, p, dir) },
		Engine: d.engine, Reader: d.reader, Version: version, Underscores: d.plan.settings.MCP.Underscores, Approvals: d.plan.settings.MCP.Approvals,
		Transport: mcpserver.Transport{
			Principal: d.principal, Fail: api.WriteError, Open: d.api.Open, Logger: d.log,
			MaxBody: d.plan.limits().MaxBody,
		},
	})
}

// ofKind lists the tools that a kind in an app's app.yaml brings. It asks only toolsets of that kind, since
// an MCP server would be started to be asked.
func (p *plan) ofKind(app, kind string) (names []string) {
	for _, o := range p.opened[app] {
		if o.of.Kind != kind {
			continue
		}
		decls, err := o.Tools(context.Background())
		if err != nil {
			continue // the app does not have them either
		}
		for _, d := range decls {
			names = append(names, d.Name)
		}
	}
	return names
}

// spaceAt names the workspace of a user that is in a folder.
func (p *plan) spaceAt(app string, who parley.Principal, dir string) (parley.Workspace, error) {
	i := slices.IndexFunc(p.apps, func(a *config.App) bool { return a.Name == app })
	if i < 0 || p.apps[i].Workspaces == nil {
		return "", nil
	}
	folders, err := workspace.New(*p.apps[i].Workspaces)
	if err != nil {
		return "", err
	}
	return folders.At(who, dir)
}

// mcpOf serves the MCP server of the app that a request is for.
func mcpOf(d doorDeps) func(of func(*http.Request) string) http.Handler {
	return func(of func(*http.Request) string) http.Handler {
		return api.OwnPages(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := of(r)
			if h := d.roll.mcp(name); h != nil {
				h.ServeHTTP(w, r)
				return
			}
			d.noApp(w, name)
		}), d.plan.settings.CORSOrigins)
	}
}
