package program

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
)

// sessionApprovals returns the commands for approving what the files of users and workspaces
// would run.
func sessionApprovals(f *flags) []*cobra.Command {
	list := one(f, "approvals ID", "List what files of a session's user and workspace would run", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error {
		found, err := l.Approvals(ctx, id)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "No file of the user or the workspace would run anything.")
			return err
		}
		for _, a := range found {
			if err := showApproval(cmd.OutOrStdout(), a); err != nil {
				return err
			}
		}
		return nil
	})
	list.Long = `List what files of a session's user and workspace would run, such as hooks.
None of it runs unless the app's operator allows it (workspace_exec in app.yaml)
and a person has approved it. After a change it must be approved again.`
	return []*cobra.Command{
		list,
		decide(f, "approve", "Allow something that a file of the user or workspace would run", parley.ApprovalAllowed),
		decide(f, "deny", "Forbid something that a file of the user or workspace would run", parley.ApprovalDenied),
	}
}

// showApproval prints everything that a person needs for the decision.
func showApproval(w io.Writer, a parley.Approval) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%.12s  %-8s %s %s, of %s of the %s\n  %s\n", a.Digest, a.State, a.Kind, a.Name, a.File, a.Level, strings.ReplaceAll(a.Runs, "\n", "\n  "))
	if len(a.Files) > 0 {
		fmt.Fprintf(&b, "  with the current content of %s\n", strings.Join(a.Files, ", "))
	}
	if a.Problem != "" {
		fmt.Fprintf(&b, "  it does not run: %s\n", a.Problem)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shortest is the least number of characters that may name a digest.
const shortest = 8

func decide(f *flags, name, short string, state parley.ApprovalState) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID DIGEST", Short: short, Args: listed(cobra.ExactArgs(2), "parley session approvals ID shows the digests; the first characters of one are enough"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				id, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				found, err := l.Approvals(ctx, id)
				if err != nil {
					return err
				}
				var of []parley.Approval
				for _, a := range found {
					if len(args[1]) >= shortest && strings.HasPrefix(string(a.Digest), args[1]) {
						of = append(of, a)
					}
				}
				if len(of) != 1 {
					return parley.Errorf(parley.CodeNotFound, "there is nothing to approve with the digest %q", parley.Cut(args[1], 64)).
						WithHint("parley session approvals %s shows the digests; give at least %d characters of one", args[0], shortest)
				}
				done, err := l.Approve(ctx, id, of[0].Digest, state)
				if err != nil {
					return err
				}
				return showApproval(cmd.OutOrStdout(), done)
			})
		},
	}
}
