package program

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
)

// base returns the server's URL to which browsers are redirected after a login.
func (p *plan) base() (string, error) {
	if p.settings.PublicURL != "" {
		return p.settings.PublicURL, nil
	}
	at := p.address.Load()
	switch {
	case at == nil:
		return "", parley.Errorf(parley.CodeUnavailable, "nobody can log in, because a browser cannot be redirected to this command").
			WithHint("start the server with `parley serve`, and send the message again")
	case !isLoopback((*at).String()):
		return "", parley.Errorf(parley.CodeUnavailable, "nobody can log in, because the server does not know its own URL for browsers").
			WithHint("set public_url in parley.yaml, or PARLEY_PUBLIC_URL, for example to https://parley.example.com")
	}
	return "http://" + (*at).String(), nil
}

// listens notes where the server listens.
func (p *plan) listens(at net.Addr) { p.address.Store(&at) }

func newLogins(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "logins", Short: "Your logins at other services, such as MCP servers", Args: cobra.NoArgs,
		Long: `Your logins at other services, such as MCP servers whose tools act for you.

You log in when a call needs it: the turn waits and shows a link. The tokens are
stored encrypted (vault.keys in parley.yaml) until you remove them here.`,
	}
	list := &cobra.Command{
		Use: "list", Short: "List your logins", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				found, err := l.Logins(ctx)
				if err != nil {
					return err
				}
				if len(found) == 0 {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), "You are not logged in anywhere.")
					return err
				}
				for _, in := range found {
					if _, err := fmt.Fprintln(cmd.OutOrStdout(), loginLine(in)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	var all bool
	forget := &cobra.Command{
		Use: "forget [ID]", Short: "Remove a login, or --all", Args: listed(cobra.MaximumNArgs(1), "parley logins list shows the ids"),
		Long: `Remove a login. Its tokens are also revoked at the service, if the service supports
that. A tool that needs the login will ask you to log in again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return usage(parley.Errorf(parley.CodeInvalid, "name one login, or give --all").WithHint("parley logins forget ID, or parley logins forget --all"))
			}
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				if all {
					if err := l.ForgetLogins(ctx); err != nil {
						return err
					}
					_, err := fmt.Fprintln(cmd.OutOrStdout(), "Everything that was stored encrypted for you has been removed.")
					return err
				}
				revoked, err := l.ForgetLogin(ctx, args[0])
				if err != nil {
					return err
				}
				said := "The login has been removed here. The service could not revoke its tokens; they stay valid until they expire or you revoke them on the service's own page."
				if revoked {
					said = "The login has been removed, and its tokens have been revoked."
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
				return err
			})
		},
	}
	forget.Flags().BoolVar(&all, "all", false, "remove all logins, and everything else that is stored encrypted for you")
	cmd.AddCommand(list, forget)
	return cmd
}

func loginLine(in parley.Login) string {
	state := "since " + in.Since.Local().Format(time.DateTime)
	switch {
	case in.Since.IsZero() && in.Waiting:
		state = "waits for you to log in"
	case in.Since.IsZero():
		state = "logged out"
	}
	for_ := in.App
	if in.Workspace != "" {
		for_ += ", workspace " + string(in.Workspace)
	}
	line := fmt.Sprintf("%s  %s (%s), %s, %s", in.ID, in.Server, in.Resource, for_, state)
	if len(in.Scopes) > 0 {
		line += ", with " + strings.Join(in.Scopes, " ")
	}
	return line
}
