package program

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
)

// turnIDs says where the id of a turn is found.
const turnIDs = "parley session why last shows the id of the last turn; parley session list shows the sessions, for parley session why ID"

// sessionGoOn are the commands about one turn, which session why names.
func sessionGoOn(f *flags) []*cobra.Command {
	follows := func(use, short string, begin func(context.Context, *runner, parley.TurnID) (parley.TurnInfo, error)) *cobra.Command {
		var asJSON bool
		cmd := &cobra.Command{
			Use: use + " TURN", Short: short, Args: listed(cobra.ExactArgs(1), turnIDs),
			Long: short + `, by the id that session why shows. The command ends as run
does: with the answer on standard output, and with the same exit codes.`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.with(cmd, recovers, func(ctx context.Context, l *link) error {
					r := newRunner(cmd, l, terminal(cmd), asJSON)
					t, err := begin(ctx, r, parley.TurnID(args[0]))
					if err != nil {
						return err
					}
					return r.rest(ctx, t.ID, "")
				})
			},
		}
		cmd.Flags().BoolVar(&asJSON, "json", false, "print the events that follow, one line of JSON each")
		return cmd
	}
	return []*cobra.Command{
		follows("retry", "Ask a turn's question again, in a new turn", func(ctx context.Context, r *runner, id parley.TurnID) (parley.TurnInfo, error) {
			return r.l.Retry(ctx, id, "")
		}),
		follows("resume", "Go on with an interrupted turn", func(ctx context.Context, r *runner, id parley.TurnID) (parley.TurnInfo, error) {
			before, err := r.l.Turn(ctx, id)
			if err != nil {
				return before, err
			}
			r.seen = before.LastSeq // also that it was interrupted
			t, err := r.l.Resume(ctx, id)
			if parley.CodeOf(err) != parley.CodeConflict || !r.l.own() {
				return t, err
			}
			// Since this process opened the folder the turn goes on by itself, which its row may not say yet.
			if now, failed := r.l.Turn(ctx, id); failed == nil && (now.Status.Open() || now.Status == parley.StatusInterrupted) {
				return now, nil
			}
			return t, err
		}),
		{
			Use: "cancel TURN", Short: "Stop a turn, or take it off the queue", Args: listed(cobra.ExactArgs(1), turnIDs),
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.with(cmd, recovers, func(ctx context.Context, l *link) error {
					t, err := l.Cancel(ctx, parley.TurnID(args[0]), "stopped by a command")
					switch {
					case err != nil:
						return err
					case t.Stopping:
						fmt.Fprintln(cmd.OutOrStdout(), "What is under way gets the time that it needs to end. Then the turn is cancelled.")
					case t.Status == parley.StatusCancelled:
						fmt.Fprintln(cmd.OutOrStdout(), "The turn is cancelled.")
					default:
						fmt.Fprintf(cmd.OutOrStdout(), "The turn had ended already: %s.\n", t.Status)
					}
					return nil
				})
			},
		},
	}
}
