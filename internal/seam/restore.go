package seam

import (
	"context"
	"errors"
	"os"

	"github.com/parley-server/parley"
)

// ErrRewinding is the cause of an error that a command has to wait for a rewind, which takes moments, and not for a turn.
var ErrRewinding = errors.New("files are being restored")

// Restorer has what the files of workspaces contained before calls changed them.
type Restorer interface {
	// Plan says what Restore would do. It changes nothing.
	Plan(ctx context.Context, r Restoration) (Restored, error)
	// Restore puts files back. Only a file that is as the last change of the session left it is
	// touched. Called again with the same ID, it goes on where it stopped, and does not repeat what
	// it has done. The error is that of the server: it is to be called again.
	Restore(ctx context.Context, r Restoration) (Restored, error)
	// Unsee forgets which files the session has read, since the conversation that has read them is
	// taken back.
	Unsee(ctx context.Context, session parley.SessionID) error
	// Begin notes that a restoration of the session begins, and Done that it has ended, for
	// Unfinished after a crash.
	Begin(ctx context.Context, session parley.SessionID) error
	Done(ctx context.Context, session parley.SessionID) error
	// Unfinished lists the sessions of which a restoration has begun and not ended.
	Unfinished(ctx context.Context) ([]parley.SessionID, error)
}

// Restoration is a request to put files back.
type Restoration struct {
	Session parley.SessionID
	ID      parley.RewindID
	// Root is the workspace. Nil: it cannot be changed, and Why says why.
	Root *os.Root
	Why  string
	// Changes are taken back, in the order in which they were made.
	Changes []FileChange
	Diffs   bool // Plan tells what would change in each file
}

// FileChange is a call, or an earlier rewind, that changed files.
type FileChange struct {
	By    parley.CallID
	Tool  string   // of a call
	Paths []string // the files that it changed, as far as the log says
	// Stays says why the change is not taken back, for people; "": it is, if the Restorer can. See [Lasting].
	Stays string
}

// Restored is what became of files.
type Restored struct {
	Files []parley.FileRewound // sorted: those that were left, those that were restored, the others
	// Known are the calls among the changes that did nothing else than change files whose old
	// contents are here, or were.
	Known map[parley.CallID]bool
}
