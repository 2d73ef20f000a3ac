// Package program implements the program in every binary made with Parley: the commands and
// doors of parley, with the apps and tools that the binary adds.
//
// [Main] is all of a binary's main function; package server is its public face. The typed tables
// that map names to implementations are in tables.go, the house built from them in house.go.
//
// One process owns a data folder, under a lock. It listens on a socket there. Every other
// command is a client of that process while it runs, and opens the folder itself only
// when no process has it.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/tui"
)

// Version of the program, and of the add-on that contains it.
const Version = "0.1.0"

const version = Version

// revision is set by the build: the commit it was made from.
var revision = ""

// Exit codes. They are part of the command line, as the help says.
const (
	exitOK       = 0
	exitFailed   = 1 // the command failed
	exitUsage    = 2 // wrong arguments, flags or settings
	exitNoAnswer = 3 // run: the turn ended without an answer
	exitWaits    = 4 // run: the turn waits for a human
	exitSignal   = 130
)

// Main runs the program with the given parts added to the standard ones. It ends the process.
func Main(parts ...app.Part) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Writing to a closed pipe returns an error instead of ending the process, so that
	// everything open is closed.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		<-ctx.Done()
		stop() // the next signal ends the process at once
	}()
	k, err := newKit(parts...)
	code := exitUsage
	if err != nil {
		say(os.Stderr, err)
	} else {
		k.args, k.restart = os.Args[1:], restart
		code = run(ctx, k, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	stop()
	os.Exit(code)
}

// run runs the program without ending the process, and returns its exit code.
func run(ctx context.Context, k *kit, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot(k)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	began := false // arguments and flags were valid
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, syscall.EPIPE) { // the reader has what it wanted, as with head
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		if e.err != nil {
			say(errs, e.err)
		}
		return e.code
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || parley.CodeOf(err) == parley.CodeCancelled) {
		return exitSignal
	}
	say(errs, err)
	if !began {
		return exitUsage
	}
	return exitFailed
}

// say prints an error for people: what was wrong, and what to do now.
func say(w io.Writer, err error) {
	s := tui.Open(nil, nil, w, os.Getenv).Style(w)
	fmt.Fprintln(w, s.Red("parley:"), tui.Plain(err.Error()))
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Hint != "" {
		fmt.Fprintln(w, "  "+tui.Plain(e.Hint))
	}
}

// exitError ends the process with its own exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as a mistake in the settings.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

func newRoot(k *kit) *cobra.Command {
	f := &flags{kit: k}
	root := &cobra.Command{
		Use:   "parley",
		Short: "An agent server whose sessions outlive it",
		Long: `An agent server whose sessions outlive it.

  parley demo            every app with demo data and a demo model; nothing to set up
  parley serve           the server
  parley chat            talk with agents on this terminal
  parley run "question"  one question, one answer

Settings come from flags, PARLEY_* variables, parley.yaml, and defaults, in this
order. Commands use the server that has the data folder open, when there is one.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 the turn ended without
an answer, 4 the turn waits for a human, 130 stopped by a signal.`,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	group(root)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return parley.Errorf(parley.CodeInvalid, "%w", err).WithHint("%s --help lists the flags", cmd.CommandPath())
	})
	f.register(root)
	root.AddCommand(
		newServe(f), newDemo(f), newChat(f), newRun(f), newMCP(f), newSession(f), newKeys(f), newLogins(f), newDevices(f), newSchedule(f), newSkill(), newStore(f), newBackup(f), newRestore(f), newModels(f), newDoctor(f), newApp(f), newVersion(),
	)
	return root
}

// group makes a command that only holds others show its help and refuse unknown names.
func group(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := parley.Errorf(parley.CodeInvalid, "there is no command %q", strings.TrimSpace(cmd.CommandPath()+" "+parley.Cut(args[0], 60)))
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return err.WithHint("did you mean %s %s?", cmd.CommandPath(), near[0])
		}
		return err.WithHint("%s --help lists the commands", cmd.CommandPath())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), versionLine()) },
	}
}

func versionLine() string {
	if revision == "" {
		return "parley " + version
	}
	return fmt.Sprintf("parley %s (%s)", version, revision)
}
