package program

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/mcpserver"
)

func newMCP(f *flags) *cobra.Command {
	var app string
	var named []string
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
				o := mcpserver.BridgeOptions{URL: address + "/apps/" + name + "/mcp", Transport: l.transport, Credentials: given}
				if l.own() {
					o.LeaveAfter = time.Minute // nobody else would continue what is under way
				}
				return mcpserver.Bridge(ctx, cmd.InOrStdin(), cmd.OutOrStdout(), o)
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "`name` of the app (default: the only one)")
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
		Engine: d.engine, Reader: d.reader, Version: version, Underscores: d.plan.settings.MCP.Underscores, Approvals: d.plan.settings.MCP.Approvals,
		Transport: mcpserver.Transport{
			Principal: d.principal, Fail: api.WriteError, Open: d.api.Open, Logger: d.log,
			MaxBody: d.plan.limits().MaxBody,
		},
	})
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
