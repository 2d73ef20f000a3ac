package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

func newRun(f *flags) *cobra.Command {
	var app, session, space, busy string
	var asJSON bool
	var named, files []string
	cmd := &cobra.Command{
		Use: `run "message"`, Short: "Ask one question and print the answer", Args: listed(cobra.MinimumNArgs(1), `such as parley run "What is the final spec?"; the argument - stands for standard input`),
		Long: `Ask one question and print the answer. Only the answer goes to standard output; what
agents do on the way goes to standard error. The argument - stands for standard input.
With --json the turn's events go to standard output instead, one a line.

On a terminal the answer is drawn as it comes, and what the agent asks back is asked
there: a question, a permission, what became of a write. Without a terminal on standard
input and standard error, and with --json, nothing is asked: the command ends with 4 and
says how to answer with parley session answer. Tools may need credentials of yours:
--credential gives one for this turn, from a variable, a file, or the terminal. An answer from elsewhere, as from the
page, takes the question off the terminal. Ctrl-C stops the turn.

If the server stops before it has accepted the message, and frees the data folder,
the command works in its place. If it stops later, the command waits for it to come back,
for two minutes. Where the app says resume: auto, it then follows the turn to its
end; otherwise it ends with 3 and says how to go on with parley session resume.

Exit codes: 0 answered, 1 failed, 2 wrong usage or settings, 3 the turn ended without
an answer, 4 the turn waits for a human, 130 stopped by a signal.`,
		Example: `  parley run --app chaos "What is the final spec for the login?"
  parley run --session last "And which library?"
  parley run --app notes --attach report.pdf "What does it say about costs?"
  git diff | parley run --app chaos "What contradicts this change?" - > answer.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			if session != "" && space != "" {
				return usage(parley.Errorf(parley.CodeInvalid, "--workspace is given, and so is --session").
					WithHint("a session keeps the workspace that it was created with; leave out one of them"))
			}
			t := terminal(cmd)
			message, err := messageOf(args, t, int64(s.Limits.MaxMessage))
			if err != nil {
				return err
			}
			given, err := credentials(cmd.Context(), named, t)
			if err != nil {
				return err
			}
			return f.with(cmd, mayMake|recovers, func(ctx context.Context, l *link) error {
				r := newRunner(cmd, l, t, asJSON)
				model := ""
				if cmd.Flags().Changed("model") {
					model = l.settings.Model
				}
				r.workspace = parley.Workspace(space)
				r.attach = files
				return r.run(ctx, app, session, parley.Send{Message: message, Model: model, Busy: parley.BusyMode(busy), Credentials: given})
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "`name` of the app (default: the only one there is)")
	cmd.Flags().StringVar(&space, "workspace", "", "`name` of the new session's workspace (default: the app's)")
	cmd.Flags().StringVar(&session, "session", "", "continue this session, by its `id`; \"last\" is the one that changed last")
	cmd.Flags().StringVar(&busy, "busy", "", "what to do in a session that is busy, or waits for you: `reject`, enqueue, interrupt or steer (default: as the session says)")
	credentialFlag(cmd, &named)
	cmd.Flags().StringArrayVar(&files, "attach", nil, "attach the `file`; may be given several times")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the turn's events as lines of JSON")
	return cmd
}

// terminal is the command's terminal.
func terminal(cmd *cobra.Command) *tui.Terminal {
	return tui.Open(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), os.Getenv)
}

// messageOf joins the arguments. An argument "-" is replaced by standard input, of at
// most limit bytes, as a paragraph of its own.
func messageOf(args []string, t *tui.Terminal, limit int64) (string, error) {
	var b strings.Builder
	read := false
	for _, a := range args {
		if a != "-" {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(a)
			continue
		}
		if read {
			return "", usage(parley.Errorf(parley.CodeInvalid, "- is given twice").WithHint("standard input can be read once"))
		}
		read = true
		text, err := readInput(t, limit)
		if err != nil {
			return "", err
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(text)
	}
	if strings.TrimSpace(b.String()) == "" {
		return "", usage(parley.Errorf(parley.CodeInvalid, "the message is empty").WithHint("write it as an argument, or - for standard input"))
	}
	return b.String(), nil
}

// errNoInput is the error of a command whose argument - stands for nothing.
var errNoInput = parley.Errorf(parley.CodeInvalid, "standard input is empty").WithHint("- stands for what is piped into the command")

// readInput reads text from standard input to its end. Input that is not text is an error of
// usage, as a missing argument is.
func readInput(t *tui.Terminal, limit int64) (string, error) {
	if t.CanAsk {
		fmt.Fprintln(t.Err, "Type the text; Ctrl-D on a line of its own ends it.")
	}
	raw, err := io.ReadAll(io.LimitReader(t.In, limit+1))
	switch {
	case err != nil:
		return "", parley.Errorf(parley.CodeUnavailable, "read standard input: %w", err)
	case int64(len(raw)) > limit:
		return "", usage(parley.Errorf(parley.CodeTooLarge, "standard input has more than %d bytes", limit).WithHint("limits.max_message in parley.yaml sets how long a message may be"))
	case !utf8.Valid(raw):
		return "", usage(parley.Errorf(parley.CodeInvalid, "standard input is not UTF-8 text").WithHint("send the text as UTF-8"))
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if strings.TrimSpace(text) == "" {
		return "", usage(errNoInput)
	}
	return text, nil
}

// attached gives the files of --attach to a session. What could not be read of one is said.
func (r *runner) attached(ctx context.Context, id parley.SessionID) (list []parley.ArtifactID, err error) {
	for _, name := range r.attach {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, usage(parley.Errorf(parley.CodeInvalid, "%w", err))
		case !info.Mode().IsRegular():
			return nil, usage(parley.Errorf(parley.CodeInvalid, "%s is not a file", name))
		case info.Size() > parley.MaxAttachment:
			return nil, usage(parley.Errorf(parley.CodeTooLarge, "%s has %d bytes; at most %d can be attached", name, info.Size(), parley.MaxAttachment))
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, usage(parley.Errorf(parley.CodeInvalid, "%w", err))
		}
		a, err := r.l.Attach(ctx, id, filepath.Base(name), body)
		if err != nil {
			return nil, err
		}
		if a.Unread != "" {
			fmt.Fprintf(r.t.Err, "%s is attached, but the model cannot read it: %s\n", tui.Plain(a.Name), tui.Plain(a.Unread))
		}
		list = append(list, a.ID)
	}
	return list, nil
}

func (r *runner) run(ctx context.Context, app, session string, s parley.Send) error {
	id, err := r.session(ctx, app, session)
	if err != nil {
		return err
	}
	if s.Attachments, err = r.attached(ctx, id); err != nil {
		return err
	}
	t, err := r.l.Deliver(ctx, id, s)
	if err != nil {
		return err
	}
	r.note("session %s, turn %s", t.SessionID, t.ID)
	if t.Status == parley.StatusPending {
		r.step("… it waits for the turn before it")
	}
	return r.follow(ctx, t)
}

// session is the one to continue, or a new one.
func (r *runner) session(ctx context.Context, app, session string) (parley.SessionID, error) {
	if session != "" {
		return r.l.find(ctx, session)
	}
	name := app
	if name == "" { // else the server knows best what is missing
		var err error
		if name, err = r.l.appNamed(ctx, ""); err != nil {
			return "", err
		}
	}
	info, _, err := r.l.CreateSession(ctx, parley.CreateSession{App: name, Workspace: r.workspace})
	return info.ID, ofFlag(err, "app")
}

// ofFlag makes an error about what a flag names, such as an app that there is not, an error of
// usage. The server's field has the name of the flag.
func ofFlag(err error, flag string) error {
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Field == flag && e.Code == parley.CodeNotFound {
		return usage(err)
	}
	return err
}
