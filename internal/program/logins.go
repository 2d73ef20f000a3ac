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

// base is the server's address for browsers that come back from a login.
func (p *plan) base() (string, error) {
	if p.settings.PublicURL != "" {
		return p.settings.PublicURL, nil
	}
	at := p.address.Load()
	switch {
	case at == nil:
		return "", parley.Errorf(parley.CodeUnavailable, "nobody can log in, since no browser could come back to this command").
			WithHint("start the server with `parley serve`, and send the message again")
	case !isLoopback((*at).String()):
		return "", parley.Errorf(parley.CodeUnavailable, "nobody can log in, since it is not known where people's browsers reach this server").
			WithHint("set public_url in parley.yaml, or PARLEY_PUBLIC_URL, such as https://parley.example.com")
	}
	return "http://" + (*at).String(), nil
}

// listens says where the server listens.
func (p *plan) listens(at net.Addr) { p.address.Store(&at) }

func newLogins(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "logins", Short: "Your logins at other services, such as MCP servers", Args: cobra.NoArgs,
		Long: `Your logins at other services, such as MCP servers whose tools act for you.

You log in when a call needs it: the turn waits and shows a link. The tokens are
kept encrypted (vault.keys in parley.yaml) until you remove them here.`,
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
					_, err = fmt.Fprintln(cmd.OutOrStdout(), "You are logged in nowhere.")
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
		Long: `Remove a login. Its tokens are ended where they came from, too, if that can be
done there. What needs it asks you to log in again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return usage(parley.Errorf(parley.CodeInvalid, "name one login, or all").WithHint("parley logins forget ID, or parley logins forget --all"))
			}
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				if all {
					if err := l.ForgetLogins(ctx); err != nil {
						return err
					}
					_, err := fmt.Fprintln(cmd.OutOrStdout(), "All that was kept encrypted for you is removed.")
					return err
				}
				revoked, err := l.ForgetLogin(ctx, args[0])
				if err != nil {
					return err
				}
				said := "The login is removed here. Its tokens could not be ended where they came from; they end by themselves, or on that service's own page."
				if revoked {
					said = "The login is removed, and its tokens are ended."
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
				return err
			})
		},
	}
	forget.Flags().BoolVar(&all, "all", false, "remove all logins, and all else that is kept encrypted for you")
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
