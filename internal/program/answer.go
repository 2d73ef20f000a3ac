package program

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui"
)

// maxAnswer limits an answer from standard input, in bytes: the longest that the server
// accepts, in any script.
const maxAnswer = 4 * parley.MaxAnswer

func sessionAnswer(f *flags) *cobra.Command {
	var given tui.Given
	var asJSON, noWait bool
	var named []string
	cmd := &cobra.Command{
		Use: "answer ID [ANSWER...]", Short: "Answer what a turn waits for, and print the result", Args: listed(cobra.MinimumNArgs(1), "parley session questions lists what waits for an answer, with its id"),
		Long: `Answer what a turn waits for, by the id of the interaction, which run and session
questions show. Then the turn goes on, and the command ends as run does: with the
answer on standard output, and with the same exit codes.

  a question      the label of an option or its number, or other words; one argument for
                  each question; several options joined by commas; deny skips it
  a permission    allow (once), allow_session, or deny
  a confirmation  allow or deny
  a credential    no ANSWER, but --credential with its name; or deny
  an unknown write  happened, did_not, again or leave

Without ANSWER the question is asked on the terminal. The argument - stands for standard
input, for what should not be in the list of processes.

The first answer counts. Repeating it is not an error: the command says so, and
shows the result. A different answer is an error.

Exit codes: those of run. With --no-wait: 0 answered.`,
		Example: `  parley session questions
  parley session answer 01M80Y7XD39BFJX7FYGXCRFGNF "Bedroom ceiling"
  parley session answer 01M80Y7XD39BFJX7FYGXCRFGNF deny --text "not at night"
  parley session answer 01M80Y7XD39BFJX7FYGXCRFGNF allow --input '{"entity_id": "light.desk"}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t := terminal(cmd)
			given.Args = args[1:]
			for i, a := range given.Args {
				if a != "-" {
					continue
				}
				text, err := readInput(t, maxAnswer)
				if err != nil {
					return err
				}
				given.Args[i] = text
			}
			with, err := credentials(cmd.Context(), named, t)
			if err != nil {
				return err
			}
			return f.with(cmd, recovers, func(ctx context.Context, l *link) error {
				if noWait && l.own() {
					return usage(parley.Errorf(parley.CodeInvalid, "no server has the data folder open, so nothing would continue the turn").
						WithHint("omit --no-wait: then this command continues it"))
				}
				r := newRunner(cmd, l, t, asJSON)
				return r.answerTo(ctx, parley.InteractionID(args[0]), given, with, noWait)
			})
		},
	}
	cmd.Flags().StringVar(&given.Text, "text", "", "`words` for the agent, with a choice such as deny")
	cmd.Flags().StringVar(&given.Input, "input", "", "the input of the allowed call, as `JSON`, instead of the agent's")
	credentialFlag(cmd, &named)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as the answer is stored; the running server continues the turn")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as events, one line of JSON each")
	return cmd
}

// answerTo answers an interaction and follows its turn.
func (r *runner) answerTo(ctx context.Context, id parley.InteractionID, given tui.Given, with parley.Credentials, noWait bool) error {
	in, err := r.l.Interaction(ctx, id)
	if err != nil {
		return err
	}
	before, err := r.l.Turn(ctx, in.Turn)
	if err != nil {
		return err
	}
	r.seen = before.LastSeq
	if in.Kind == parley.KindCredential && len(with) > 0 && len(given.Args) == 0 {
		given.Args = []string{parley.ChoiceAnswered}
	}
	if len(given.Args) == 0 && given.Text == "" && given.Input == "" && in.Open {
		if !r.t.CanAsk || r.json {
			return usage(parley.Errorf(parley.CodeInvalid, "there is no answer, and no terminal to ask on: %s", tui.Plain(in.Title)).WithHint("%s", r.howTo(in.Interaction)))
		}
		return r.rest(ctx, in.Turn, id)
	}
	if !in.Open && in.Answer == nil {
		return parley.Errorf(parley.CodeConflict, "the %s is closed: nobody answered in time, or the turn has ended", in.Kind).
			WithHint("parley session why %s shows what became of it", in.Session)
	}
	if len(given.Args) == 0 && in.Answer != nil {
		r.note("It was already answered%s: %s", by(in), tui.Said(in.Interaction, *in.Answer))
	} else {
		answer, err := tui.Parse(in.Interaction, given)
		if err != nil {
			return usage(err)
		}
		if _, err := r.l.AnswerWith(ctx, id, parley.AnswerInteraction{Answer: answer, Credentials: with}); err != nil {
			return err
		}
		if in.Answer != nil {
			r.note("It was already answered this way%s: %s", by(in), tui.Said(in.Interaction, *in.Answer))
		} else {
			r.note("%s", tui.Said(in.Interaction, answer))
		}
	}
	if noWait {
		return nil
	}
	return r.rest(ctx, in.Turn, "")
}

// by says who answered, if that is not the user of this machine.
func by(in client.Interaction) string {
	if in.AnsweredBy == "" || in.AnsweredBy == parley.Local.User {
		return ""
	}
	return " by " + in.AnsweredBy
}

// rest shows the remainder of a turn, which may have ended by now. It asks what the turn
// waits for, beginning with first.
func (r *runner) rest(ctx context.Context, id parley.TurnID, first parley.InteractionID) error {
	t, err := r.l.Turn(ctx, id)
	if err != nil {
		return err
	}
	if t.Status.Ended() {
		if !r.json {
			return r.result(t)
		}
		r.seen = 0 // all of it, since nothing was shown yet
	} else if t.Over() {
		return r.interrupted(id, t.Reason)
	}
	r.first = first
	return r.follow(ctx, t)
}

// result is the end of a turn, as follow would have shown it.
func (r *runner) result(t parley.TurnInfo) error {
	switch {
	case t.Status == parley.StatusCompleted && t.Response != nil:
		return r.completed(*t.Response)
	case t.Error != nil:
		return r.ended(parley.Error{Code: t.Error.Code, Message: t.Error.Message, Hint: t.Error.Hint})
	}
	return r.ended(parley.Error{Code: parley.CodeConflict, Message: because("the turn is "+string(t.Status), t.Reason)})
}

func sessionQuestions(f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "questions", Short: "List what waits for an answer, the oldest first", Args: cobra.NoArgs,
		Long: `List what waits for an answer, over all sessions, the oldest first: questions,
permissions, confirmations, and writes that may or may not have happened.
Calls that wait for a client program are listed by session calls.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				all, err := l.questions(ctx)
				if err != nil {
					return err
				}
				list := slices.DeleteFunc(slices.Clone(all), func(in client.Interaction) bool { return in.Kind == parley.KindClient })
				if n := len(all) - len(list); n > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s for a client program: %s\n", count(n, "call waits", "calls wait"), commandWith(cmd, "parley session calls"))
				}
				out := cmd.OutOrStdout()
				if asJSON {
					return printJSON(out, list)
				}
				if len(list) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "Nothing waits for an answer.")
					return nil
				}
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tKIND\tSESSION\tASKED\tOPEN UNTIL\tTITLE")
				for _, in := range list {
					until := "answered"
					if !in.ExpiresAt.IsZero() {
						until = in.ExpiresAt.Local().Format("2006-01-02 15:04")
					}
					title := strings.Join(strings.Fields(tui.Plain(in.Title)), " ")
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", in.ID, in.Kind, in.Session, in.OpenedAt.Local().Format("2006-01-02 15:04"), until, parley.Cut(title, 60))
				}
				if err := w.Flush(); err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "Answer with:", commandWith(cmd, "parley session answer"), "ID [ANSWER...]")
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as the interactions of the API")
	return cmd
}

// questions are all that is open, calls for clients among it, page by page.
func (l *link) questions(ctx context.Context) ([]client.Interaction, error) {
	all := []client.Interaction{}
	cursor := ""
	for {
		page, next, err := l.InteractionPage(ctx, cursor, 500)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" {
			return all, nil
		}
		cursor = next
	}
}
