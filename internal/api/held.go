package api

import "github.com/parley-server/parley/internal/userfiles"

// An operation counts the data of its answer before it reads that data, by wire.Reserve. So
// clients that do not read their answers cannot exceed the common memory limit.
const (
	heldSmall  = 64 << 10              // one object; a longer turn is counted when it is written
	heldList   = 2 << 20               // the most the store returns of rows, plus their JSON
	heldRow    = 1 << 10               // a session in a list, plus its JSON; a larger one is counted when it is written
	heldText   = 3 * userfiles.MaxText // a text, plus its JSON
	heldTree   = 3 * maxTreeBytes
	heldExport = 1 << 20 // the compressor, and the turn being written
)

// heldBy says what an operation counts of its answer before it begins: roughly the most that it
// holds. Late is for those that count heldSmall once they have the answer; 0 is for those that
// count it themselves.
func heldBy(operation string) (bytes int, late bool) {
	switch operation {
	case "list-turns", "list-interactions", "list-queue", "get-window", "rewind-session":
		return heldList, false
	case "read-file", "read-file-version":
		return heldText, false
	case "list-files":
		return heldTree, false
	case "read-entity", "read-entity-revision", "diff-entity":
		return heldEntity, false
	case "list-lake-entities", "search-entities", "list-entity-tree", "validate-entities", "list-entity-changes", "list-entity-backlinks", "list-entity-links", "list-entity-revisions":
		return heldList, false
	case "get-entity-graph":
		return heldGraph, false
	case "follow-entity-changes":
		return 0, false
	case "list-conversation-views":
		return heldList, false
	case "follow-conversation-view":
		return 0, false
	case "delete-conversation-view":
		return 0, true
	case "get-artifact":
		return maxArtifact, false
	case "events", "await-turn", "import-session", "stream", "list-sessions", "export-session":
		return 0, false
	// These may wait for a service or program of somebody else. If they held a share meanwhile, a
	// server that does not answer would use up the small answers of everybody. The session's MCP
	// servers may have to be started first, and they may be asked for resources and prompts:
	case "send", "stream-turn", "resume-turn", "retry-turn", "cancel-turn", "answer-interaction", "claim-call", "report-call",
		"list-commands", "list-app-commands", "list-resources", "list-app-resources", "list-approvals", "decide-approval",
		"end-session", "delete-session", // and for the end of a write that has started
		"list-file-versions",                                              // a repository that another process works on
		"list-providers", "finish-login", "forget-login", "forget-logins": // providers, authorization servers
		return 0, true
	}
	return heldSmall, false
}
