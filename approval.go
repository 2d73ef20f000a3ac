package parley

import "time"

// Approval is something that a user's or a workspace's file wants to run, such as a program,
// and a person's decision about it. It does not run until it is allowed.
type Approval struct {
	// Digest covers the whole command line, the file's entry for it, and the files in the
	// folder that the command line names. When any of these changes, so does the digest, and a
	// new decision is needed.
	Digest Digest       `json:"digest"`
	Kind   ApprovalKind `json:"kind"`
	Level  string       `json:"level"` // whose file it is: user or workspace
	File   string       `json:"file"`  // relative to the level's folder
	Name   string       `json:"name"`
	// Runs is the whole command line, or the URL that is called. Variables are shown as
	// written, not expanded.
	Runs string `json:"runs"`
	// Remote: nothing runs on the server's machine. Runs is a URL, which is called.
	Remote bool          `json:"remote,omitempty"`
	Files  []string      `json:"files,omitempty"` // files in the folder whose content is part of the digest
	State  ApprovalState `json:"state"`
	// Problem says why it cannot run even when allowed. Empty: it can.
	Problem string    `json:"problem,omitempty"`
	By      string    `json:"by,omitempty"` // the user who decided
	At      time.Time `json:"at,omitzero"`
}

// DecideApproval is a person's decision about an Approval.
type DecideApproval struct {
	State ApprovalState // allowed or denied; open withdraws an earlier decision
	// Was is the state that the person saw. If somebody else has decided since, the state
	// differs and the command changes nothing. Empty: do not check.
	Was ApprovalState
	By  string
}

// ApprovalKind is the kind of thing that would run.
type ApprovalKind string

// The kinds of things that files can run.
const (
	ApprovalHook ApprovalKind = "hook"
	ApprovalMCP  ApprovalKind = "mcp_server"
)

// ApprovalState is what was decided about an Approval.
type ApprovalState string

// The states of an Approval.
const (
	ApprovalOff     ApprovalState = "off"     // the operator does not let such files run anything
	ApprovalOpen    ApprovalState = "open"    // nobody has decided
	ApprovalAllowed ApprovalState = "allowed" // it may run, until a person decides otherwise
	ApprovalDenied  ApprovalState = "denied"
)
