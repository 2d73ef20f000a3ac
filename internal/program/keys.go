package program

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley/internal/auth"
)

func newKeys(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "Make, list and revoke API keys",
		Long: `Make, list and revoke API keys, with which clients on other machines log in. They
send one as "Authorization: Bearer pk_..." or as X-API-Key.

A key acts as one user, and sees the sessions of that user only. Keys are kept in
the data folder, as hashes. A running server notices changes at once; what is
open under a key that is revoked ends.`,
	}
	group(cmd)
	cmd.AddCommand(keysCreate(f), keysList(f), keysRevoke(f))
	return cmd
}

func (f *flags) keys(cmd *cobra.Command) (*auth.Keys, error) {
	s, err := f.settings(cmd)
	if err != nil {
		return nil, err
	}
	return openKeys(s)
}

func keysCreate(f *flags) *cobra.Command {
	var key auth.Key
	var asJSON bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a key, and show it once", Args: cobra.ExactArgs(1),
		Long: `Make a key. It is shown once, on standard output, and cannot be shown again.

It acts as the user that --user names, or else as a user of its own name. The user
of this machine's own page and commands is local. With --metrics it acts as nobody:
it opens /metrics, which are of all users, and nothing else. With --app it is for the
page that an app brings (page: in its app.yaml), which sees the key: there it opens
the user's sessions of that app, and elsewhere nothing.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := f.keys(cmd)
			if err != nil {
				return err
			}
			key.Name = args[0]
			secret, key, err := keys.Create(key, time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), struct {
					auth.Key
					Secret string `json:"key"`
				}{key, secret})
			}
			what := "of the user " + key.User
			switch {
			case key.Metrics:
				what = "for /metrics"
			case key.App != "":
				what += " for the page of " + key.App
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "The key %s; it is not shown again:\n", what)
			fmt.Fprintln(cmd.OutOrStdout(), secret)
			return nil
		},
	}
	cmd.Flags().StringVar(&key.User, "user", "", "`user` that the key acts as (default: its name)")
	cmd.Flags().StringVar(&key.Org, "org", "", "`organisation` of the user")
	cmd.Flags().StringVar(&key.App, "app", "", "a key for the page of this `app` and nothing else")
	cmd.Flags().BoolVar(&key.Metrics, "metrics", false, "a key for /metrics and nothing else")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func keysList(f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the keys, without showing them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := f.keys(cmd)
			if err != nil {
				return err
			}
			list, err := keys.List()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tUSER\tORG\tOPENS\tBEGINS\tMADE")
			for _, k := range list {
				made := "by the settings"
				if !k.Created.IsZero() {
					made = k.Created.Local().Format(time.DateTime)
				}
				user, opens := k.User, "everything of the user"
				switch {
				case k.Metrics:
					user, opens = "-", "/metrics"
				case k.App != "":
					opens = "the page of " + k.App
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, user, k.Org, opens, k.Begins, made)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func keysRevoke(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a key", Args: listed(cobra.ExactArgs(1), "parley keys list shows their names"),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := f.keys(cmd)
			if err != nil {
				return err
			}
			if err := keys.Revoke(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the key %s is revoked\n", args[0])
			return nil
		},
	}
}
