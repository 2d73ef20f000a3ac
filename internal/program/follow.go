package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/shell"
	"github.com/parley-server/parley/internal/tui"
	"github.com/parley-server/parley/internal/wire"
)

// endNotes begins the part of an answer that is for programs; the turn's response has it
// as fields.
const endNotes = "```parley\n"

// runner shows a turn and asks what it waits for, until it has ended.
type runner struct {
	l    *link
	t    *tui.Terminal
	json bool
	// answerWith is the command that answers an interaction from elsewhere, without its
	// id.
	answerWith string
	resumeWith string           // the command that resumes a turn, without its id
	workspace  parley.Workspace // of a new session; empty: the app's default
	attach     []string         // files that the message has

	asked int64 // what was asked up to this event is answered, but for open
	seen  int64 // events up to this one are not shown
	// open is what the turn waited for at asked and whose event has not come yet. Nothing
	// is asked before all of it has: what came before a question is shown before it.
	open  []parley.InteractionID
	first parley.InteractionID // of those in open, what is asked first

	screen *tui.Answer // nil: standard output is no screen
	entry  parley.AgentPath
	said   wire.Text // on the screen

	waiting []parley.Interaction // open, in their order; the first may be before the person
	asking  *asking              // nil: nothing is before the person
	held    []string             // steps that are shown when the person has answered
}

func newRunner(cmd *cobra.Command, l *link, t *tui.Terminal, asJSON bool) *runner {
	r := &runner{l: l, t: t, json: asJSON, answerWith: commandWith(cmd, "parley session answer"), resumeWith: commandWith(cmd, "parley session resume")}
	if !asJSON && t.Style(t.Out).Screen {
		r.screen = t.Answer()
	}
	l.away = r.serverAway
	return r
}

// commandWith is another command of this program, with the same data folder. A person can type
// it as it stands.
func commandWith(cmd *cobra.Command, name string) string {
	if rest, ok := strings.CutPrefix(name, "parley "); ok {
		name = called(os.Args[0]) + " " + rest
	}
	for _, flag := range []string{"config", "data", "apps"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			name += " --" + flag + " " + shell.Quote(f.Value.String(), "")
		}
	}
	return name
}

// follow shows the turn t until it has ended, and returns how it ended.
func (r *runner) follow(ctx context.Context, t parley.TurnInfo) error {
	r.l.server.accepted()
	type item struct {
		frame client.Frame
		err   error
		away  bool // err says why the server cannot be reached; nil: it is back
	}
	reading, stop := context.WithCancel(ctx)
	frames := make(chan item)
	before := r.l.away
	r.l.away = func(err error) {
		select {
		case frames <- item{err: err, away: true}:
		case <-reading.Done():
		}
	}
	var pump sync.WaitGroup
	pump.Go(func() {
		defer close(frames)
		for f, err := range r.l.FollowTurn(reading, t) {
			select {
			case frames <- item{frame: f, err: err}:
			case <-reading.Done():
				return
			}
		}
	})
	defer func() {
		r.dismiss(&gone{"The turn has ended."})
		stop()
		pump.Wait()
		r.l.away = before
	}()
	r.asked, r.open = t.LastSeq, slices.Clone(t.Interactions)
	for {
		var err error
		select {
		case it, more := <-frames:
			switch {
			case ctx.Err() != nil:
				return r.stop(ctx, t)
			case !more:
				return nil
			case it.away:
				r.reached(it.err)
				continue
			}
			if err = it.err; err == nil {
				err = r.frame(ctx, it.frame)
			}
		case err = <-r.asking.outcome():
			if ctx.Err() != nil {
				r.asking.done <- err
				return r.stop(ctx, t)
			}
			err = r.answered(ctx, err)
		}
		if errors.Is(err, syscall.EPIPE) && r.l.own() {
			// Nobody reads the output any more, and nobody else would end the turn.
			r.t.Out, r.json, r.screen, err = io.Discard, false, nil, nil
		}
		if err != nil {
			return err
		}
	}
}

// stop cancels the turn: whoever ends the command wants that, too.
func (r *runner) stop(ctx context.Context, t parley.TurnInfo) error {
	if r.asking != nil {
		fmt.Fprintln(r.t.Err) // below the ^C in the line of the question
	}
	r.dismiss(&gone{})
	_ = r.endBlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	now, err := r.l.Cancel(ctx, t.ID, "stopped at the terminal")
	if err != nil {
		return &exitError{exitSignal, err}
	}
	switch {
	case now.Stopping:
		r.note("Stopping: calls that have started may finish first, then the turn is cancelled.")
	case now.Status == parley.StatusCancelled:
		r.note("Stopped: the turn is cancelled.")
	default:
		r.note("The turn had already ended: %s.", now.Status)
	}
	return &exitError{exitSignal, nil}
}

func (r *runner) frame(ctx context.Context, f client.Frame) error {
	if d := f.Delta; d != nil {
		if d.Kind == parley.DeltaText && d.Agent == r.entry {
			return r.delta(d.Call, d.Text, f.Partial)
		}
		return nil
	}
	e := f.Event
	if r.json && e.Seq > r.seen {
		if _, err := r.t.Out.Write(append(e.AppendJSON(nil), '\n')); err != nil {
			return err
		}
	}
	p, err := e.Payload()
	if err != nil {
		return nil // newer than this command, and shown as JSON
	}
	if e.Type == "agent.started" && r.entry == "" {
		r.entry = e.Agent
	}
	if e.Seq <= r.seen && e.Type != "interaction.opened" {
		return nil
	}
	switch p := p.(type) {
	case parley.AgentStarted:
		r.step("▶ %s", began(e.Agent, p.Title))
	case parley.AgentHandoff:
		r.step("⇒ %s hands to %s", p.From, p.To)
	case parley.ToolStarted:
		r.step("%s→ %s %s", whose(e.Agent), p.Name, parley.Cut(string(p.Input), 200))
	case parley.ToolEnded:
		r.step("%s← %s: %s", whose(e.Agent), p.Outcome, parley.Cut(p.Output, 200))
	case parley.AgentEnded:
		if p.Outcome != parley.OutcomeOK {
			r.step("%s■ %s", whose(e.Agent), p.Outcome)
		}
	case parley.ModelStarted:
		if p.For != nil {
			r.step("… %s", p.For.Note(p.Model))
		}
	case parley.ModelReplied:
		if p.Warning != "" {
			r.step("! %s", p.Warning)
		}
		if e.Agent == r.entry {
			text, _, _ := strings.Cut(parley.PartsText(p.Parts), endNotes)
			return errors.Join(r.delta(p.Call, text, true), r.endBlock())
		}
	case parley.ModelFailed:
		r.step("%s! the model call failed: %s", whose(e.Agent), p.Error.Message)
		if e.Agent != r.entry {
			return nil
		}
		return r.endBlock()
	case parley.InteractionOpened:
		return r.opened(ctx, e.Seq, p.Interaction)
	case parley.InteractionAnswered:
		return r.closed(ctx, p.ID, func(in parley.Interaction) string {
			by := ""
			if p.By != "" && p.By != parley.Local.User {
				by = " by " + p.By
			}
			return "Answered elsewhere" + by + ": " + tui.Said(in, p.Answer)
		})
	case parley.InteractionExpired:
		return r.closed(ctx, p.ID, func(parley.Interaction) string {
			return because("The question is closed", p.Reason)
		})
	case parley.TurnCompleted:
		return r.completed(p.Response)
	case parley.TurnFailed:
		return r.ended(parley.Error{Code: p.Error.Code, Message: p.Error.Message, Hint: p.Error.Hint})
	case parley.TurnCancelled:
		return r.ended(parley.Error{Code: parley.CodeCancelled, Message: because("the turn was cancelled", p.Reason)})
	case parley.TurnExpired:
		return r.ended(parley.Error{Code: parley.CodeTimeout, Message: because("the turn expired", p.Reason)})
	case parley.TurnInterrupted:
		if !p.Resumes {
			return r.interrupted(e.Turn, p.Reason)
		}
		r.step("! %s; it goes on by itself", because("the turn was interrupted", p.Reason))
		return r.endBlock()
	}
	return nil
}

// whose names a sub-agent before what it does. An agent that answers the user has its heading.
func whose(agent parley.AgentPath) string {
	if agent.Depth() == 0 {
		return ""
	}
	return string(agent) + " "
}

// began is the heading of an agent, with its task.
func began(agent parley.AgentPath, title string) string {
	if title == "" {
		return string(agent)
	}
	return string(agent) + ": " + title
}

// interrupted is the end of a turn that waits for somebody to resume it.
func (r *runner) interrupted(id parley.TurnID, reason string) error {
	return r.ended(parley.Error{
		Code: parley.CodeUnavailable, Message: because("the turn was interrupted", reason),
		Hint: "what was done is kept; to go on from there: " + r.resumeWith + " " + string(id),
	})
}

// reached says that the command that follows a turn waits for the server, or with nil that
// it no longer does.
func (r *runner) reached(err error) {
	line := "The server is back."
	if err != nil {
		line = noAnswer + ": the turn is kept."
	}
	if r.asking != nil {
		r.held = append(r.held, line)
		return
	}
	r.remark(line)
}

const noAnswer = "The server does not answer. Waiting for it to come back"

// serverAway is reached before there is a turn to follow.
func (r *runner) serverAway(err error) {
	if err != nil {
		r.remark(noAnswer + ".")
		return
	}
	if r.l.server.taken() == nil {
		r.remark("The server is back.")
	}
}

// remark says something about the command itself. With --json, too: standard error is for
// people.
func (r *runner) remark(line string) {
	fmt.Fprintln(r.t.Err, r.t.Style(r.t.Err).Dim(line))
}

func (r *runner) ended(e parley.Error) error {
	_ = r.endBlock()
	return &exitError{exitNoAnswer, &e}
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// completed writes the answer, or the part of it that is not on the screen yet.
func (r *runner) completed(answer parley.Response) error {
	switch {
	case r.json:
		return nil
	case r.screen == nil:
		_, err := fmt.Fprintln(r.t.Out, tui.Plain(strings.TrimRight(answer.Message, "\n")))
		return err
	}
	if strings.TrimSpace(string(r.said.Seen())) != strings.TrimSpace(answer.Message) {
		if err := r.delta("", answer.Message, true); err != nil {
			return err
		}
	}
	return r.endBlock()
}

// delta draws the new part of a call's text. Text that was drawn stays; another call begins a
// paragraph.
func (r *runner) delta(call parley.CallID, text string, whole bool) error {
	if r.screen == nil {
		return nil
	}
	if call != r.said.Call() {
		if err := r.endBlock(); err != nil {
			return err
		}
		r.said.Begin(call)
	}
	if whole && !r.said.Begins(text) {
		return nil
	}
	r.said.Add(text, whole)
	return r.screen.Add(r.said.Rest(r.said.Seen()))
}

func (r *runner) endBlock() error {
	if r.screen == nil {
		return nil
	}
	return r.screen.End()
}

// step reports what an agent does.
func (r *runner) step(format string, args ...any) {
	line := "  " + tui.Plain(fmt.Sprintf(format, args...))
	if r.asking != nil {
		r.held = append(r.held, line) // not into what the person types
		return
	}
	r.note("%s", line)
}

// note reports something about the turn other than its answer.
func (r *runner) note(format string, args ...any) {
	if !r.json {
		fmt.Fprintln(r.t.Err, r.t.Style(r.t.Err).Dim(fmt.Sprintf(format, args...)))
	}
}

// drop removes an interaction that is no longer open.
func (r *runner) drop(id parley.InteractionID) {
	r.waiting = slices.DeleteFunc(r.waiting, func(in parley.Interaction) bool { return in.ID == id })
}
