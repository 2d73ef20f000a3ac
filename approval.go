package parley

import "time"

// Approval is something that a file of a user or of a workspace would run, such as a
// program, and what a person has decided about it. Until it is allowed it does not run.
type Approval struct {
	// Digest names exactly this: the whole command line, the file's entry for it, and the
	// files of the folder that the command line names. When any of that changes, it is
	// something else, about which nothing was decided.
	Digest Digest       `json:"digest"`
	Kind   ApprovalKind `json:"kind"`
	Level  string       `json:"level"` // whose file it is: user or workspace
	File   string       `json:"file"`  // from the level's folder
	Name   string       `json:"name"`
	// Runs is the whole command line, or the address that is called. Variables stand in it
	// as they are written.
	Runs  string        `json:"runs"`
	Files []string      `json:"files,omitempty"` // of the folder, whose content is part of the digest
	State ApprovalState `json:"state"`
	// Problem is why it does not run even if it is allowed.
	Problem string    `json:"problem,omitempty"`
	By      string    `json:"by,omitempty"` // who decided
	At      time.Time `json:"at,omitzero"`
}

// DecideApproval is what a person decides about an Approval.
type DecideApproval struct {
	State ApprovalState // allowed or denied; open takes a decision back
	// Was is the state that the person has seen. When it is another by now, because somebody
	// has decided meanwhile, nothing changes. Empty: it does not matter.
	Was ApprovalState
	By  string
}

// ApprovalKind says what it is that would run.
type ApprovalKind string

// The kinds of things that files run.
const (
	ApprovalHook ApprovalKind = "hook"
	ApprovalMCP  ApprovalKind = "mcp_server"
)

// ApprovalState is what was decided about an Approval.
type ApprovalState string

// The states of an Approval.
const (
	ApprovalOff     ApprovalState = "off"     // the operator lets nothing of such files run
	ApprovalOpen    ApprovalState = "open"    // nobody has decided
	ApprovalAllowed ApprovalState = "allowed" // until a person decides otherwise
	ApprovalDenied  ApprovalState = "denied"
)
