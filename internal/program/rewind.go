package program

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

func sessionRewind(f *flags) *cobra.Command {
	var c parley.RewindSession
	var what string
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use: "rewind ID [TURN]", Short: "Go back to before a message, or undo that",
		Args: listed(cobra.RangeArgs(1, 2), "parley session rewind ID shows the turns of the session ID"),
		Long: `Go back to before the message of a turn. The conversation, the files that the session
changed, or both are as they were then. What was done besides, such as a mail that was
sent, stays done. Everything stays in the log and can be brought back with --undo.

Without a turn, the turns are listed. Without --yes nothing changes: the command shows
what would.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.What = parley.RewindWhat(what)
			if len(args) == 2 {
				c.Turn = parley.TurnID(args[1])
			}
			return f.with(cmd, recovers, func(ctx context.Context, l *link) error {
				id, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				out := cmd.OutOrStdout()
				if c.Turn == "" && c.Undo == 0 {
					v, _, err := transcript(ctx, l, id)
					if err != nil {
						return err
					}
					return showTurns(out, v)
				}
				c.Preview = true
				did, err := l.RewindSession(ctx, id, c)
				if err == nil && yes {
					c.Preview, c.ExpectedVersion = false, did.Version
					did, err = l.RewindSession(ctx, id, c)
				}
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(out, did)
				}
				if _, err := io.WriteString(out, rewound(did)); err != nil || yes {
					return err
				}
				_, err = fmt.Fprintf(out, "\nNothing was changed. To do it, repeat the command with --yes.\n")
				return err
			})
		},
	}
	cmd.Flags().StringVar(&what, "what", "", "what to take back: `both`, conversation or files (default both)")
	cmd.Flags().Int64Var(&c.Undo, "undo", 0, "undo the rewind of this event `number`")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// showTurns lists the turns that a session can go back to, and its rewinds.
func showTurns(out io.Writer, v parley.Transcript) error {
	var b strings.Builder
	for _, t := range v.Turns {
		if t.Rewound == 0 && t.Status != parley.StatusPending && t.Origin != parley.OriginCall && t.Origin != parley.OriginRuntime {
			fmt.Fprintf(&b, "%s  %s\n", t.ID, parley.Cut(tui.Plain(t.Message), 80))
		}
	}
	for _, r := range v.Rewinds {
		if r.Rewound == 0 {
			fmt.Fprintf(&b, "--undo %-19d  %s\n", r.Seq, rewindLine(r))
		}
	}
	if b.Len() == 0 {
		b.WriteString("Nothing was asked yet.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// rewindLine says in a few words what a rewind took back.
func rewindLine(r parley.RewindView) string {
	what := map[parley.RewindWhat]string{parley.RewindBoth: "conversation and files", parley.RewindConversation: "the conversation", parley.RewindFiles: "files"}[r.What]
	if r.Undoes != 0 {
		return fmt.Sprintf("took %s back to before the rewind of event %d", what, r.Undoes)
	}
	return fmt.Sprintf("took %s back to event %d", what, r.To)
}

// rewound says what a rewind did, or would do.
func rewound(r parley.RewindResult) string {
	var b strings.Builder
	done := r.Seq != 0
	say := func(would, did string, args ...any) {
		if done {
			would = did
		}
		fmt.Fprintf(&b, would+"\n", args...)
	}
	turns := func(list []parley.RewoundTurn, more int) {
		for _, t := range list {
			fmt.Fprintf(&b, "  > %s\n", parley.Cut(tui.Plain(t.Message), 100))
		}
		rest(&b, more)
	}
	if n := len(r.Turns) + r.TurnsMore; n > 0 {
		say("This would take back %s:", "%s taken back:", count(n, "turn", "turns"))
		turns(r.Turns, r.TurnsMore)
	}
	if n := len(r.Back) + r.BackMore; n > 0 {
		say("This would bring back %s:", "%s brought back:", count(n, "turn", "turns"))
		turns(r.Back, r.BackMore)
	}
	for _, part := range []struct {
		outcome    parley.FileOutcome
		would, did string
	}{
		{parley.FileLeft, "%s would be left as it is now:", "%s left as it is:"},
		{parley.FileRestored, "%s would be restored:", "%s restored:"},
	} {
		n := 0
		var lines strings.Builder
		for _, file := range r.Files {
			if file.Outcome != part.outcome {
				continue
			}
			n++
			fmt.Fprintf(&lines, "  %s%s\n", tui.Plain(file.Path), fileNote(file, part.outcome))
			if file.Diff != "" {
				lines.WriteString("    " + strings.ReplaceAll(strings.TrimRight(tui.Plain(file.Diff), "\n"), "\n", "\n    ") + "\n")
			}
		}
		if n > 0 {
			say(part.would, part.did, count(n, "file", "files"))
			b.WriteString(lines.String())
		}
	}
	if r.FilesMore > 0 {
		fmt.Fprintf(&b, "  and %s\n", count(r.FilesMore, "more file", "more files"))
	}
	if n := len(r.Effects) + r.EffectsMore; n > 0 {
		fmt.Fprintf(&b, "What was done in this part stays done:\n")
		for _, e := range r.Effects {
			fmt.Fprintf(&b, "  %s %s: %s\n", e.Tool, tui.Plain(parley.Cut(e.Text, 200)), became(e))
		}
		rest(&b, r.EffectsMore)
	}
	if done {
		fmt.Fprintf(&b, "To undo it: parley session rewind %s --undo %d\n", r.Session, r.Seq)
	}
	return b.String()
}

func rest(b *strings.Builder, more int) {
	if more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

func fileNote(f parley.FileRewound, outcome parley.FileOutcome) string {
	switch {
	case f.Why != "":
		return ": " + tui.Plain(f.Why)
	case outcome == parley.FileRestored && f.After == "":
		return ": it did not exist"
	case outcome == parley.FileRestored && f.Before == "":
		return ": it was gone"
	}
	return ""
}

func became(e parley.EffectLeft) string {
	switch {
	case e.Outcome == parley.OutcomeOK:
		return "done"
	case e.Resolution == parley.ChoiceHappened:
		return "done, as a person said"
	}
	return "it is not known whether it was done"
}
