package program

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui"
)

func newSession(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "session", Short: "Show and manage sessions",
		Long: `Show and manage sessions. Where a session's id is asked for, "last" is the
session that changed last.`,
	}
	group(cmd)
	cmd.AddCommand(
		sessionList(f), sessionShow(f), sessionEvents(f), sessionWhy(f), sessionQuestions(f), sessionAnswer(f), sessionRewind(f), sessionEnd(f), sessionDelete(f), sessionSweep(f), sessionExport(f), sessionImport(f), sessionReplay(f), sessionToTest(f),
	)
	cmd.AddCommand(sessionGoOn(f)...)
	cmd.AddCommand(sessionCalls(f)...)
	cmd.AddCommand(sessionApprovals(f)...)
	return cmd
}

// find is the session that a person named.
func (l *link) find(ctx context.Context, name string) (parley.SessionID, error) {
	if name != "last" {
		return parley.SessionID(name), nil
	}
	list, err := l.Sessions(ctx, client.SessionFilter{Limit: 1})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", parley.Errorf(parley.CodeNotFound, "there is no session yet").WithHint(`parley run "..." makes one`)
	}
	return list[0].ID, nil
}

// listed is args with a hint that says where the name of the missing thing is listed.
func listed(args cobra.PositionalArgs, where string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			what := "an argument is missing"
			if len(given) > 1 {
				what = err.Error()
			}
			return parley.Errorf(parley.CodeInvalid, "%s; usage: %s", what, cmd.UseLine()).WithHint("%s", where)
		}
		return nil
	}
}

// one makes a command on one session.
func one(f *flags, use, short string, do func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: listed(cobra.ExactArgs(1), "parley session list shows the ids of sessions; last is the one that changed last"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				id, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				return do(ctx, cmd, l, id)
			})
		},
	}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// sessions reads as many pages as needed; a limit of 0 means all.
func (l *link) sessions(ctx context.Context, filter client.SessionFilter, limit int) ([]parley.SessionInfo, error) {
	all := []parley.SessionInfo{}
	for {
		filter.Limit = 500
		if left := limit - len(all); limit > 0 {
			filter.Limit = min(left, 500)
		}
		page, next, err := l.SessionPage(ctx, filter)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" || len(all) == limit {
			return all, nil
		}
		filter.Cursor = next
	}
}

func sessionList(f *flags) *cobra.Command {
	var filter client.SessionFilter
	var status string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List sessions, the last changed first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage(parley.Errorf(parley.CodeInvalid, "--limit is %d", limit).WithHint("0 lists all"))
			}
			filter.Status = parley.SessionStatus(status)
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				list, err := l.sessions(ctx, filter, limit)
				if err != nil {
					return ofFlag(err, "app")
				}
				for i := range list {
					list[i] = l.standing(list[i])
				}
				out := cmd.OutOrStdout()
				if asJSON {
					return printJSON(out, list)
				}
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tAPP\tSTATUS\tTURNS\tCHANGED\tTITLE")
				for _, s := range list {
					title := s.Title
					if title == "" {
						title = s.Preview
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, s.App, sessionState(s), s.Totals.Turns, s.UpdatedAt.Local().Format("2006-01-02 15:04"), parley.Cut(tui.Plain(title), 60))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().StringVar(&filter.App, "app", "", "only of this `app`")
	cmd.Flags().StringVar(&status, "status", "", "only active, ended or expired ones")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most this many; 0 for all")
	cmd.Flags().BoolVar(&filter.Direct, "direct", false, "include those of direct calls, which end with the call and are deleted after a week")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// standing corrects a session's row if no server has the data folder: a turn that was running
// when the server was killed is interrupted, but its log and row say so only when a server or
// a command has recovered it.
func (l *link) standing(info parley.SessionInfo) parley.SessionInfo {
	if info.Turn != nil && l.stopped(info.Turn.Status) {
		turn := *info.Turn
		turn.Status = parley.StatusInterrupted
		info.Turn = &turn
	}
	return info
}

// stopped reports whether a turn that is stored as running was ended with its server.
func (l *link) stopped(s parley.TurnStatus) bool { return s == parley.StatusRunning && l.own() }

func sessionState(s parley.SessionInfo) string {
	switch {
	case s.Turn == nil:
		return string(s.Status)
	case s.Turn.Status == parley.StatusWaiting && s.Offered == s.Waiting:
		return "waiting for a client"
	}
	return string(s.Turn.Status)
}

// transcript folds the whole log into a transcript.
func transcript(ctx context.Context, l *link, id parley.SessionID) (parley.Transcript, []parley.Event, error) {
	var v parley.Transcript
	var all []parley.Event
	for after, more := int64(0), true; more; {
		page, err := l.Events(ctx, id, after, client.EventFilter{})
		if err != nil {
			return v, nil, err
		}
		for _, e := range page.Events {
			v.Apply(e)
		}
		all = append(all, page.Events...)
		after, more = page.Next, page.More
	}
	return v, all, nil
}

func sessionShow(f *flags) *cobra.Command {
	var asJSON bool
	cmd := one(f, "show ID", "Print a session as people read it", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error {
		v, _, err := transcript(ctx, l, id)
		if err != nil {
			return err
		}
		for i := range v.Turns {
			if t := &v.Turns[i]; l.stopped(t.Status) {
				t.Status, t.Reason = parley.StatusInterrupted, "the server stopped"
			}
		}
		out := cmd.OutOrStdout()
		if asJSON {
			return printJSON(out, v)
		}
		style := terminal(cmd).Style(out)
		fmt.Fprintf(out, "session %s of %s, %s\n", v.Session, v.App, v.Status)
		if v.Title != "" {
			fmt.Fprintln(out, "title:", tui.Plain(v.Title))
		}
		for _, t := range v.Turns {
			fmt.Fprintf(out, "\n> %s\n", strings.ReplaceAll(tui.Plain(t.Message), "\n", "\n> "))
			if t.Rewound != 0 {
				fmt.Fprintf(out, "taken back by the rewind of event %d\n", t.Rewound)
				continue
			}
			for _, s := range t.Steps {
				if line := stepLine(s); line != "" {
					fmt.Fprintln(out, "  "+line)
				}
			}
			switch {
			case t.Answer != "" && style.Screen:
				fmt.Fprintln(out, tui.Render(t.Answer, style))
			case t.Answer != "":
				fmt.Fprintln(out, tui.Plain(t.Answer))
			case t.Error != nil:
				fmt.Fprintf(out, "failed: %s\n", tui.Plain(t.Error.Message))
			default:
				fmt.Fprintf(out, "%s\n", because(string(t.Status), tui.Plain(t.Reason)))
			}
		}
		return nil
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func stepLine(s parley.StepView) string {
	switch s.Type {
	case parley.StepAgentStart:
		return "▶ " + s.Agent
	case parley.StepToolCall:
		return whose(parley.AgentPath(s.Agent)) + "→ " + s.Tool + " " + tui.Plain(parley.Cut(string(s.Input), 200))
	case parley.StepToolResult:
		return whose(parley.AgentPath(s.Agent)) + "← " + string(s.Outcome) + ": " + tui.Plain(parley.Cut(s.Result, 200))
	case parley.StepHandoff:
		return "⇒ " + s.From + " hands to " + s.To
	case parley.StepNote:
		return whose(parley.AgentPath(s.Agent)) + "· " + tui.Plain(parley.Cut(s.Text, 200))
	}
	return ""
}

func sessionEvents(f *flags) *cobra.Command {
	var after int64
	var follow bool
	cmd := one(f, "events ID", "Print a session's log, one event a line", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error {
		out := cmd.OutOrStdout()
		write := func(e parley.Event) error {
			_, err := out.Write(append(e.AppendJSON(nil), '\n'))
			return err
		}
		for more := !follow; more; {
			page, err := l.Events(ctx, id, after, client.EventFilter{})
			if err != nil {
				return err
			}
			for _, e := range page.Events {
				if err := write(e); err != nil {
					return err
				}
			}
			after, more = page.Next, page.More
		}
		if !follow {
			return nil
		}
		for fr, err := range l.Follow(ctx, id, after) {
			if ctx.Err() != nil {
				return &exitError{exitSignal, nil}
			}
			if err != nil {
				return err
			}
			if fr.Event != nil {
				if err := write(*fr.Event); err != nil {
					return err
				}
			}
		}
		return nil
	})
	cmd.Flags().Int64Var(&after, "after", 0, "only events after this `number`")
	cmd.Flags().BoolVar(&follow, "follow", false, "keep printing new events")
	return cmd
}

func sessionEnd(f *flags) *cobra.Command {
	var reason string
	cmd := one(f, "end ID", "Close a session for good; it stays readable", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error {
		info, err := l.EndSession(ctx, id, reason)
		if err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "session %s is %s\n", info.ID, info.Status)
		}
		return err
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept in the log")
	return cmd
}

func sessionDelete(f *flags) *cobra.Command {
	return one(f, "delete ID", "Delete a session with everything in it", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error {
		err := l.DeleteSession(ctx, id)
		if err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "session %s is deleted\n", id)
		}
		return err
	})
}

func sessionSweep(f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "sweep", Short: "Apply the apps' ttl now", Args: cobra.NoArgs,
		Long: `Apply the apps' ttl now: sessions that nobody used for long expire, the steps of old
turns move to the folder archive of the data folder, and sessions that ended long
ago are deleted. A running server does so every few minutes by itself.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				done, err := l.Sweep(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), done)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d expired, %d condensed, %d deleted\n", done.Expired, done.Condensed, done.Deleted)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func sessionExport(f *flags) *cobra.Command {
	var name string
	var force bool
	cmd := one(f, "export ID", "Write a session to a zip file", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error {
		if name == "-" {
			return l.Export(ctx, id, cmd.OutOrStdout())
		}
		if name == "" {
			name = "session-" + string(id) + ".zip"
		}
		if err := mayWrite(name, force); err != nil {
			return err
		}
		// Written to a temporary file and then renamed: half a file must not look
		// complete.
		tmp, err := os.CreateTemp(filepath.Dir(name), ".parley-export-*")
		if err != nil {
			return parley.Errorf(parley.CodeUnavailable, "write the export: %w", err)
		}
		defer os.Remove(tmp.Name())
		err = l.Export(ctx, id, tmp)
		if cerr := tmp.Close(); err == nil && cerr != nil {
			err = parley.Errorf(parley.CodeUnavailable, "write the export: %w", cerr)
		}
		if err != nil {
			return err
		}
		if err := mayWrite(name, force); err != nil { // somebody may have made it meanwhile
			return err
		}
		if err := os.Rename(tmp.Name(), name); err != nil {
			return parley.Errorf(parley.CodeUnavailable, "write the export: %w", err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), name)
		return nil
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if dir := filepath.Dir(name); !isFolder(dir) { // of no name and of "-" it is this folder
			return usage(parley.Errorf(parley.CodeInvalid, "there is no folder %s", dir).WithHint("make it, or name another file with -o"))
		}
		if name == "" || name == "-" {
			return nil
		}
		return mayWrite(name, force)
	}
	cmd.Flags().StringVarP(&name, "output", "o", "", "`file` to write; - is standard output (default session-ID.zip)")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return cmd
}

// mayWrite returns an error if there is such a file already, unless it may be replaced.
func mayWrite(name string, force bool) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil: // there is none, or writing it says why not
		return nil
	case info.IsDir():
		return usage(parley.Errorf(parley.CodeInvalid, "%s is a folder", name).WithHint("name a file with -o"))
	case force:
		return nil
	}
	return parley.Errorf(parley.CodeConflict, "the file %s exists already", name).WithHint("name another with -o, or replace it with --force")
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func sessionImport(f *flags) *cobra.Command {
	var in parley.ImportSession
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Make a session of an export", Args: listed(cobra.ExactArgs(1), "parley session export makes such a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var archive io.Reader
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return parley.Errorf(parley.CodeInvalid, "read the export: %w", err).WithHint("parley session export writes one")
				}
				defer file.Close()
				archive = file // which can be sent again
			} else {
				in := bufio.NewReader(cmd.InOrStdin())
				if _, err := in.Peek(1); err == io.EOF {
					return usage(errNoInput)
				}
				archive = in
			}
			return f.with(cmd, mayMake, func(ctx context.Context, l *link) error {
				info, err := l.ImportSession(ctx, archive, in)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), info.ID)
				}
				return ofFlag(err, "app")
			})
		},
	}
	cmd.Flags().StringVar(&in.App, "app", "", "`app` to import into (default: the one it came from)")
	cmd.Flags().StringVar(&in.Key, "key", "", "idempotency `key`: the same key again gives the same session")
	cmd.Flags().StringVar((*string)(&in.Workspace), "workspace", "", "`name` of the session's workspace (default: the one it came from, if it exists and is yours)")
	return cmd
}

func sessionWhy(f *flags) *cobra.Command {
	return one(f, "why ID", "Say what happened in a session's last turn, and what can be done", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.SessionID) error {
		info, err := l.Session(ctx, id)
		if err != nil {
			return err
		}
		info = l.standing(info)
		v, events, err := transcript(ctx, l, id)
		if err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), tui.Plain(why(info, v, events, time.Now())))
		return err
	})
}
