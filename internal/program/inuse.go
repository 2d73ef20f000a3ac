package program

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

const (
	// inUseWithin is how long a process waits for a command to give back a data folder or
	// a database. It is longer than the seconds in which a service manager counts quick
	// failures (systemd: 5 starts in 10 s), so a server comes up however often it has to
	// wait.
	inUseWithin = time.Minute
	// startWithin is how long a command waits for a server that has locked the data
	// folder but does not listen yet: it may have thousands of sessions to check.
	startWithin = 10 * time.Second

	inUseEvery = 50 * time.Millisecond
)

// serves reports whether a command is a server, which keeps what it has until it is
// stopped. The others end by themselves.
func serves(command string) bool { return command == "serve" || command == "demo" }

// ends reports whether the holder is a command that ends by itself. Of an unknown holder
// it is false.
func (h holder) ends() bool { return h.Command != "" && !serves(h.Command) }

// lockForServer is takeLock for a server: it waits for a command that has the folder, up
// to inUseWithin, and calls waits once when it begins to. Errors: *errHeld when another
// server has the folder, or a command keeps it; ctx's cause when that ends first.
func lockForServer(ctx context.Context, dir, command string, waits func(holder)) (*lock, error) {
	until := time.Now().Add(inUseWithin)
	var before holder
	for {
		own, err := takeLock(dir, command)
		held, ok := errors.AsType[*errHeld](err)
		if !ok {
			return own, err
		}
		h := held.holder
		// Looked at twice: the file still names a server that was killed until the
		// process that has locked it since has written its own name.
		if serves(h.Command) && h == before || time.Now().After(until) {
			return nil, err
		}
		if before = h; h.ends() && waits != nil {
			waits(h)
			waits = nil
		}
		if err := pauseInUse(ctx); err != nil {
			return nil, err
		}
	}
}

func pauseInUse(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(inUseEvery):
		return nil
	}
}

// refusedTo is the error of a server that did not get the data folder.
func refusedTo(dir string, held *errHeld) error {
	e := parley.Errorf(parley.CodeConflict, "%s: %w", dir, held)
	if serves(held.holder.Command) {
		return e.WithHint("use that server, stop it, or choose another folder with --data")
	}
	e.Message += ", which has not ended within " + inUseWithin.String()
	return e.WithHint("wait until it has ended, or stop it; then start the server again")
}

// nameInDatabase is how a process shows in the database that it has to itself.
func nameInDatabase(command string) string { return "parley " + command }

// endsByName is holder.ends by the name that the holder of a database shows there.
func endsByName(name string) bool {
	rest, ok := strings.CutPrefix(name, nameInDatabase(""))
	command, _, found := strings.Cut(rest, ",")
	return ok && found && holder{Command: command}.ends()
}
