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
	Base    string     `json:"base"`    // the commit that it is based on
	Version string     `json:"version"` // of its report; whoever decides says which one was read
	Report  string     `json:"report"`  // in Markdown; empty in lists
	// Problem is why it cannot be read, as somebody else than Parley has changed its branch. Nothing of it can be applied then.
	Problem string `json:"problem,omitempty"`
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
	// Diff is what applying it would change in the pages as they are now, as unified diff; of an applied finding, what was changed.
	Diff string `json:"diff,omitempty"`
	// DiffCut says that Diff is only the beginning. Read the finding alone to have all of it. Such a finding is applied only by its id.
	DiffCut bool `json:"diff_cut,omitempty"`

	Status FindingStatus `json:"status"`
	Reason string        `json:"reason,omitempty"` // why it is stale
	Commit string        `json:"commit,omitempty"` // that applied it
	By     string        `json:"by,omitempty"`     // who rejected it
}

// FindingStatus is what became of a finding.
type FindingStatus string

const (
	FindingOpen     FindingStatus = "open"
	FindingApplied  FindingStatus = "applied"
	FindingRejected FindingStatus = "rejected"
	FindingStale    FindingStatus = "stale" // its change does not fit any more, since others have changed a page
)

// DecideFindings says which findings of a proposal are meant.
type DecideFindings struct {
	Findings []string `json:"findings,omitempty" maxItems:"200"`
	All      bool     `json:"all,omitempty"` // all that are open, but those whose difference is cut
	// Version is that of the proposal that was read: if it is another now, nothing is done, and the error is a conflict. Empty: any.
	Version string `json:"version,omitempty" maxLength:"64"`
}
