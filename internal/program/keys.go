package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
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
	var scopes []string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a key, and show it once", Args: cobra.ExactArgs(1),
		Long: `Make a key. It is shown once, on standard output, and cannot be shown again.

It acts as the user that --user names, or else as a user of its own name. The user
of this machine's own page and commands is local. With --metrics it acts as nobody:
it opens /metrics, which are of all users, and nothing else. With --app it is for the
page that an app brings (page: in its app.yaml), which sees the key: there it opens
the user's sessions of that app, and elsewhere nothing.

With --scope it does only what is named: read looks at sessions and follows them, send
begins turns, answers and changes files, manage deletes, and sees and revokes keys and
sign-ins. MCP and the wires of apps need send. With --expires it ends by itself.

A user of an identity provider is named as the server shows it: acme:user-1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := f.keys(cmd)
			if err != nil {
				return err
			}
			key.Name = args[0]
			for _, s := range scopes {
				key.Scopes = append(key.Scopes, auth.Scope(s))
			}
			if cmd.Flags().Changed("expires") {
				if lasts <= 0 {
					return usage(parley.Errorf(parley.CodeInvalid, "--expires has to be more than 0").WithHint("write it like 720h, which is 30 days"))
				}
				key.Expires = parley.Now(time.Now().Add(lasts))
			}
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
			if len(key.Scopes) > 0 {
				what += ", which may " + joined(key.Scopes)
			}
			if !key.Expires.IsZero() {
				what += ", until " + key.Expires.Local().Format(time.DateTime)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "The key %s; it is not shown again:\n", what)
			fmt.Fprintln(cmd.OutOrStdout(), secret)
			return nil
		},
	}
	cmd.Flags().StringVar(&key.User, "user", "", "`user` that the key acts as (default: its name)")
	cmd.Flags().StringVar(&key.Org, "org", "", "`organisation` of the user")
	cmd.Flags().StringVar(&key.App, "app", "", "a key for the page of this `app` and nothing else")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "what it may do: `read,send,manage` (default: everything)")
	cmd.Flags().DurationVar(&lasts, "expires", 0, "`how long` it is valid, such as 720h (default: until it is revoked)")
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
			if err := f.sayMissing(cmd); err != nil {
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
			fmt.Fprintln(w, "NAME\tUSER\tORG\tOPENS\tBEGINS\tMADE\tUSED\tENDS")
			day := func(t time.Time, none string) string {
				if t.IsZero() {
					return none
				}
				return t.Local().Format(time.DateTime)
			}
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
				if len(k.Scopes) > 0 {
					opens += ": " + joined(k.Scopes)
				}
				used, ends := day(k.Used, "never"), day(k.Expires, "never")
				if k.Created.IsZero() {
					used = "-" // only the server knows
				}
				if !k.Expires.IsZero() && !time.Now().Before(k.Expires) {
					ends = "ended"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, user, k.Org, opens, k.Begins, made, used, ends)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// sayMissing says that there is no data folder: the list of its keys looks as if there were none,
// also when the folder's name is mistyped.
func (f *flags) sayMissing(cmd *cobra.Command) error {
	s, err := f.settings(cmd)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.Data); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(cmd.ErrOrStderr(), "There is no data folder at %s, so nobody has made a key there. Is --data right?\n", s.Data)
	}
	return nil
}

func joined(scopes []auth.Scope) string {
	var list []string
	for _, s := range scopes {
		list = append(list, string(s))
	}
	return strings.Join(list, ", ")
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
