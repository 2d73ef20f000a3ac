package parley

import "time"

// ProposalID identifies a proposal in its lake.
type ProposalID string

// Proposal is a branch of a lake's repository with changes that an agent proposes, one commit for
// each finding. Nothing of it is in the lake before a person applies it.
type Proposal struct {
	ID      ProposalID `json:"id"`
	Title   string     `json:"title"`
	At      time.Time  `json:"at"`
	By      string     `json:"by,omitempty"` // the user for whom the agent worked
	App     string     `json:"app,omitempty"`
	Session SessionID  `json:"session_id,omitempty"` // in which it was made
	Turn    TurnID     `json:"turn_id,omitempty"`
	Branch  string     `json:"branch"`
	Base    string     `json:"base"`   // the commit that it is based on
	Report  string     `json:"report"` // in Markdown; empty in lists
	// Counts are how many findings have each status.
	Counts map[FindingStatus]int `json:"counts"`
	// Findings are those of a single proposal; lists leave them out.
	Findings []ProposalFinding `json:"findings,omitempty"`
}

// ProposalFinding is something that is wrong in a lake, and the change that would mend it.
type ProposalFinding struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"` // broken-link, front-matter, duplicate, orphan, stale or contradiction
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty"`
	Other string `json:"other,omitempty"` // the page that Path doubles or contradicts
	Why   string `json:"why"`
	Mends string `json:"mends,omitempty"` // what its change does; empty: it has none, and a person has to decide
	// Says and OtherSays are statements that contradict each other.
	Says      string `json:"says,omitempty"`
	OtherSays string `json:"other_says,omitempty"`
	// Diff is its change, as unified diff, on top of those of the findings before it.
	Diff   string        `json:"diff,omitempty"`
	Status FindingStatus `json:"status"`
	Reason string        `json:"reason,omitempty"`    // why it is stale
	Commit string        `json:"commit,omitempty"`    // that applied it
	By     string        `json:"by,omitempty"`        // who rejected it
	Branch string        `json:"in_branch,omitempty"` // its commit in the proposal's branch
}

// FindingStatus is what became of a finding.
type FindingStatus string

const (
	FindingOpen     FindingStatus = "open"
	FindingApplied  FindingStatus = "applied"
	FindingRejected FindingStatus = "rejected"
	FindingStale    FindingStatus = "stale" // a page that it is about was changed since by others
)

// DecideFindings says which findings of a proposal are meant.
type DecideFindings struct {
	Findings []string `json:"findings,omitempty" maxItems:"200"`
	All      bool     `json:"all,omitempty"` // all that are open
}
