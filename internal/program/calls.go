package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui"
)

// sessionCalls returns the commands with which a script acts as a client that runs tools.
func sessionCalls(f *flags) []*cobra.Command {
	return []*cobra.Command{listCalls(f), claimCall(f), reportCall(f)}
}

func listCalls(f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "calls [ID]", Short: "List calls that wait for a client program, the oldest first", Args: cobra.MaximumNArgs(1),
		Long: `List the calls that wait for a client program, in all sessions or in one, the oldest
first. Their tools run where the user is: the app only declares them. A program takes a
call with session claim and reports its outcome with session report.`,
		Example: `  parley session calls
  parley session calls last --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				id := parley.SessionID("")
				if len(args) == 1 {
					var err error
					if id, err = l.find(ctx, args[0]); err != nil {
						return err
					}
					if _, err := l.Session(ctx, id); err != nil {
						return err
					}
				}
				all, err := l.questions(ctx)
				if err != nil {
					return err
				}
				list := slices.DeleteFunc(all, func(in client.Interaction) bool {
					return in.Kind != parley.KindClient || id != "" && in.Session != id
				})
				if asJSON {
					return printJSON(cmd.OutOrStdout(), list)
				}
				if len(list) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "No call waits for a client program.")
					return nil
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tTOOL\tSESSION\tOFFERED\tOPEN UNTIL\tINPUT")
				for _, in := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", in.ID, tui.Plain(in.Tool), in.Session, in.OpenedAt.Local().Format("2006-01-02 15:04"),
						in.ExpiresAt.Local().Format("2006-01-02 15:04"), parley.Cut(tui.Plain(string(in.Input)), 60))
				}
				if err := w.Flush(); err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "Claim one with:", commandWith(cmd, "parley session claim"), "ID; to go on without it:", commandWith(cmd, "parley session answer"), "ID deny")
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, like the interactions in the API")
	return cmd
}

// callIDs is a hint that says where to find the id of an offered call.
const callIDs = "parley session calls lists the calls, with the id of each"

// ofServer returns an error if no server runs. A report is useless without one, because the
// turn continues in the process that has the data folder open.
func (l *link) ofServer() error {
	if !l.own() {
		return nil
	}
	return parley.Errorf(parley.CodeUnavailable, "no server has the data folder open, so the turn could not continue").WithHint("start one with parley serve")
}

// tokenOf reads the token of a claim from the place that a flag names. The token is never an
// argument, because every user of the machine can see arguments.
func tokenOf(from string) (string, error) {
	kind, where, _ := strings.Cut(from, ":")
	token := ""
	switch kind {
	case "env":
		token = os.Getenv(where)
	case "file":
		file, err := os.Open(where)
		if err != nil {
			return "", usage(parley.Errorf(parley.CodeInvalid, "--token: %w", err))
		}
		defer file.Close()
		raw, err := io.ReadAll(io.LimitReader(file, 4*parley.MaxToken))
		if err != nil {
			return "", usage(parley.Errorf(parley.CodeInvalid, "--token: %w", err))
		}
		token = string(raw)
	default: // the value may be the token itself, so it is not repeated
		return "", usage(parley.Errorf(parley.CodeInvalid, "--token must be env:VARIABLE or file:PATH").WithHint("other users can see a token in the arguments"))
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", usage(parley.Errorf(parley.CodeInvalid, "--token: %s %s is empty", map[string]string{"env": "the variable", "file": "the file"}[kind], where))
	}
	return token, nil
}

func claimCall(f *flags) *cobra.Command {
	var token string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "claim ID", Short: "Claim a call that waits for a client program", Args: listed(cobra.ExactArgs(1), callIDs),
		Long: `Claim a call that waits for a client program. It prints the call's input, the deadline
and the token that the report needs. Only one claim succeeds; any other fails with exit
code 1. A claim with a token of your own can be repeated if its answer was lost.

If the deadline passes without a report, a call that may be repeated is offered again
as another interaction. For any other call, a person is asked whether it took effect.`,
		Example: `  (umask 077 && openssl rand -hex 16 > token)
  parley session claim 01M80Y7XD39BFJX7FYGXCRFGNF --token file:token --json > call.json
  ./add-note "$(jq .input call.json)" | parley session report 01M80Y7XD39BFJX7FYGXCRFGNF - --token file:token`,
		RunE: func(cmd *cobra.Command, args []string) error {
			own := ""
			if token != "" {
				var err error
				if own, err = tokenOf(token); err != nil {
					return err
				}
			}
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				if err := l.ofServer(); err != nil {
					return err
				}
				c, err := l.Claim(ctx, parley.InteractionID(args[0]), own)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), c)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "tool      %s\ninput     %s\neffect    %s\ncall      %s\nattempt   %d\ndeadline  %s, in %s\ntoken     %s\n",
					tui.Plain(c.Tool), tui.Plain(string(c.Input)), c.Effect, c.Call, c.Attempt,
					c.Deadline.Local().Format(time.DateTime), (time.Duration(c.LeftMS) * time.Millisecond).Round(time.Second), c.Token)
				fmt.Fprintln(cmd.ErrOrStderr(), "Report with:", commandWith(cmd, "parley session report"), c.Interaction, "OUTPUT --token env:VARIABLE")
				return err
			})
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "where a token of your own is: `env:VARIABLE` or file:PATH, at least 22 random characters (default: the server creates one)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as the answer of the API")
	return cmd
}

// maxReportOutput limits what is read from standard input for a report, and maxReportFile each
// of its files, in bytes. The server accepts no more.
const (
	maxReportOutput = 8 << 20
	maxReportFile   = 8 << 20
)

func reportCall(f *flags) *cobra.Command {
	var r parley.ReportCall
	var token, data string
	var files []string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "report ID [OUTPUT]", Short: "Report the outcome of a claimed call", Args: listed(cobra.RangeArgs(1, 2), callIDs),
		Long: `Report the outcome of a claimed call, with the same id and the token of the claim.
OUTPUT is what the model reads; - reads it from standard input. The command ends when the
server has stored the report. The turn then continues on the server.

Repeating the same report is not an error. A different report is, and so is a report
after the deadline. A late report about a write is shown to the person who is asked for
the outcome.

Exit codes: 0 the report is stored, 1 it was refused, 2 wrong usage.`,
		Example: `  parley session report 01M80Y7XD39BFJX7FYGXCRFGNF "written down" --token file:token
  parley session report 01M80Y7XD39BFJX7FYGXCRFGNF - --token env:TOKEN < result.txt
  parley session report 01M80Y7XD39BFJX7FYGXCRFGNF --result '{"id": 7}' --file scan.png --token env:TOKEN
  parley session report 01M80Y7XD39BFJX7FYGXCRFGNF "the disk is full" --outcome error --token env:TOKEN`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if token == "" {
				return usage(parley.Errorf(parley.CodeInvalid, "--token is missing").WithHint("parley session claim prints the token; say where it is with env:VARIABLE or file:PATH"))
			}
			var err error
			if r.Token, err = tokenOf(token); err != nil {
				return err
			}
			if len(args) == 2 {
				r.Output = args[1]
			}
			if r.Output == "-" && data == "-" {
				return usage(parley.Errorf(parley.CodeInvalid, "- is given twice").WithHint("standard input can be read once"))
			}
			t := terminal(cmd)
			if r.Output == "-" {
				if r.Output, err = readInput(t, maxReportOutput); err != nil {
					return err
				}
			}
			if data == "-" {
				if data, err = readInput(t, maxReportOutput); err != nil {
					return err
				}
			}
			if data != "" {
				if !json.Valid([]byte(data)) {
					return usage(parley.Errorf(parley.CodeInvalid, "--result is not JSON").WithField("data"))
				}
				r.Data = json.RawMessage(data)
			}
			for _, name := range files {
				file, err := reportFile(name)
				if err != nil {
					return err
				}
				r.Files = append(r.Files, file)
			}
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				if err := l.ofServer(); err != nil {
					return err
				}
				res, err := l.Report(ctx, parley.InteractionID(args[0]), r)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), res)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "reported: %s\n", res.Outcome)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "where the token of the claim is: `env:VARIABLE` or file:PATH")
	cmd.Flags().StringVar((*string)(&r.Outcome), "outcome", "", "`ok`, error, or unknown if you cannot tell whether the call took effect (default ok)")
	cmd.Flags().StringVar(&data, "result", "", "the structured result of a tool with an output schema, as `JSON`; - is standard input")
	cmd.Flags().StringArrayVar(&files, "file", nil, "`path` of a file to add to the report, stored as an artifact; may be repeated")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as the answer of the API")
	return cmd
}

// reportFile reads a file for a report. Its media type comes from its name.
func reportFile(name string) (parley.ReportFile, error) {
	file, err := os.Open(name)
	if err != nil {
		return parley.ReportFile{}, usage(parley.Errorf(parley.CodeInvalid, "--file: %w", err))
	}
	defer file.Close()
	body, err := io.ReadAll(io.LimitReader(file, maxReportFile+1))
	switch {
	case err != nil:
		return parley.ReportFile{}, usage(parley.Errorf(parley.CodeInvalid, "--file: %w", err))
	case len(body) > maxReportFile:
		return parley.ReportFile{}, usage(parley.Errorf(parley.CodeTooLarge, "--file: %s has more than %d bytes", name, maxReportFile).WithHint("report where it can be found instead"))
	}
	return parley.ReportFile{Name: filepath.Base(name), MediaType: mime.TypeByExtension(filepath.Ext(name)), Data: body}, nil
}
