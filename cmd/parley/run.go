package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

func newRun(f *flags) *cobra.Command {
	var app, session, busy string
	var asJSON bool
	cmd := &cobra.Command{
		Use: `run "message"`, Short: "Ask one question and print the answer", Args: cobra.MinimumNArgs(1),
		Long: `Ask one question and print the answer as it comes. The answer goes to standard
output, what agents do on the way to standard error; with --json the turn's events
go to standard output, one a line. Ctrl-C stops the turn.

Exit codes: 0 answered, 1 failed to ask, 2 wrong usage, 3 the turn ended without an
answer, 4 the turn waits for a human, 130 stopped.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, true, func(ctx context.Context, l *link) error {
				r := runner{l: l, out: cmd.OutOrStdout(), steps: cmd.ErrOrStderr(), json: asJSON}
				model := ""
				if cmd.Flags().Changed("model") {
					model = l.settings.Model
				}
				return r.run(ctx, app, session, parley.Send{Message: strings.Join(args, " "), Model: model, Busy: parley.BusyMode(busy)})
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "`name` of the app (default: the only one there is)")
	cmd.Flags().StringVar(&session, "session", "", "go on in this session, by its `id`; \"last\" is the one that changed last")
	cmd.Flags().StringVar(&busy, "busy", "", "what to do in a session that is busy, or waits for you: `reject`, enqueue, interrupt or steer (default: as the session says)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the turn's events as lines of JSON")
	return cmd
}

// endNotes opens what stands behind an answer for programs; the turn's response
// has it as fields.
const endNotes = "```parley\n"

type runner struct {
	l     *link
	out   io.Writer
	steps io.Writer
	json  bool

	since int64 // what was asked up to here is answered
	entry parley.AgentPath
	call  parley.CallID
	said  string // of call
	wrote bool
}

func (r *runner) run(ctx context.Context, app, session string, s parley.Send) error {
	id, err := r.session(ctx, app, session)
	if err != nil {
		return err
	}
	t, err := r.l.Send(ctx, id, s)
	if err != nil {
		return err
	}
	if !r.json {
		fmt.Fprintf(r.steps, "session %s, turn %s\n", t.SessionID, t.ID)
	}
	if r.since = t.LastSeq; t.Status == parley.StatusPending {
		r.step("… it waits for the turn before")
	}
	for f, err := range r.l.FollowTurn(ctx, t) {
		if ctx.Err() != nil {
			return r.stop(ctx, t)
		}
		if err != nil {
			return err
		}
		if err := r.frame(f); err != nil {
			return err
		}
	}
	return nil
}

// session is the one to go on in, or a new one.
func (r *runner) session(ctx context.Context, app, session string) (parley.SessionID, error) {
	if session != "" {
		return r.l.find(ctx, session)
	}
	if app == "" {
		list, err := r.l.Apps(ctx)
		if err != nil {
			return "", err
		}
		if len(list) != 1 {
			var names []string
			for _, a := range list {
				names = append(names, a.Name)
			}
			return "", usage(parley.Errorf(parley.CodeInvalid, "there are several apps").WithHint("choose one with --app: %s", strings.Join(names, ", ")))
		}
		app = list[0].Name
	}
	info, _, err := r.l.CreateSession(ctx, parley.CreateSession{App: app})
	return info.ID, err
}

// stop cancels the turn that this command began: who ends it wants that too.
func (r *runner) stop(ctx context.Context, t parley.TurnInfo) error {
	r.newline()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := r.l.Cancel(ctx, t.ID, "stopped at the terminal"); err != nil {
		return &exitError{exitSignal, err}
	}
	return &exitError{exitSignal, nil}
}

func (r *runner) frame(f client.Frame) error {
	if f.Event != nil && r.json {
		if _, err := r.out.Write(append(f.Event.AppendJSON(nil), '\n')); err != nil {
			return err
		}
	}
	if d := f.Delta; d != nil {
		if d.Kind == parley.DeltaText && d.Agent == r.entry {
			r.delta(d.Call, d.Text, f.Partial)
		}
		return nil
	}
	e := f.Event
	p, err := e.Payload()
	if err != nil {
		return nil // newer than this command, and shown as JSON
	}
	switch p := p.(type) {
	case parley.AgentStarted:
		if r.entry == "" {
			r.entry = e.Agent
		}
		r.step("▶ %s", e.Agent)
	case parley.AgentHandoff:
		r.step("⇒ %s hands to %s", p.From, p.To)
	case parley.ToolStarted:
		r.step("→ %s %s", p.Name, p.Input)
	case parley.ToolEnded:
		r.step("← %s: %s", p.Outcome, parley.Cut(p.Output, 200))
	case parley.ModelReplied:
		if e.Agent == r.entry {
			text, _, _ := strings.Cut(parley.PartsText(p.Parts), endNotes)
			r.delta(p.Call, text, true)
		}
	case parley.ModelFailed:
		r.step("! the model call failed: %s", p.Error.Message)
	case parley.InteractionOpened:
		if e.Seq <= r.since {
			return nil // the message declined it
		}
		r.newline()
		return &exitError{exitWaits, parley.Errorf(parley.CodeConflict, "the turn waits for an answer: %s", p.Title).
			WithHint("answer it at POST /v1/interactions/%s/answer, in a page or a client", p.ID)}
	case parley.TurnCompleted:
		if !r.wrote {
			r.print(p.Response.Message)
		}
		r.newline()
	case parley.TurnFailed:
		return r.ended(parley.Error{Code: p.Error.Code, Message: p.Error.Message, Hint: p.Error.Hint})
	case parley.TurnCancelled:
		return r.ended(parley.Error{Code: parley.CodeCancelled, Message: because("the turn was cancelled", p.Reason)})
	case parley.TurnExpired:
		return r.ended(parley.Error{Code: parley.CodeTimeout, Message: because("the turn expired", p.Reason)})
	case parley.TurnInterrupted:
		return r.ended(parley.Error{Code: parley.CodeUnavailable, Message: because("the turn was interrupted", p.Reason)})
	}
	return nil
}

func (r *runner) ended(e parley.Error) error {
	r.newline()
	return &exitError{exitNoAnswer, &e}
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// delta prints what is new of a call's text. What was printed stays; another
// call begins a paragraph.
func (r *runner) delta(call parley.CallID, text string, whole bool) {
	if call != r.call {
		if r.wrote && text != "" {
			r.print("\n\n")
		}
		r.call, r.said = call, ""
	}
	if whole {
		rest, ok := strings.CutPrefix(text, r.said)
		if !ok {
			return
		}
		text = rest
	}
	r.said += text
	r.print(text)
}

func (r *runner) print(text string) {
	if text == "" || r.json {
		return
	}
	r.wrote = true
	_, _ = io.WriteString(r.out, plain(text)) // a terminal obeys what a model must not say
}

func (r *runner) newline() {
	if r.wrote {
		_, _ = io.WriteString(r.out, "\n")
	}
}

func (r *runner) step(format string, args ...any) {
	if !r.json {
		fmt.Fprintln(r.steps, "  "+plain(fmt.Sprintf(format, args...)))
	}
}
