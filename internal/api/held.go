package api

// What an operation reads for its answer is counted before it is read, by
// wire.Reserve, so that clients which do not read their answers take no more memory
// together than they may.
const (
	heldSmall  = 64 << 10  // one thing; a turn with a long answer is more, which counts once it is written
	heldList   = 2 << 20   // as much as the store gives of rows, and their JSON
	heldPage   = 192 << 10 // a page of the log, and its JSON
	heldFirst  = 1 << 20   // one that may be a single event of the largest message, until it was read
	heldExport = 1 << 20   // its compression, and the turn that is being written
)

// heldBy is what an operation holds at most, or about; 0 for those that count it
// themselves.
func heldBy(operation string) int {
	switch operation {
	case "list-turns", "list-sessions", "list-interactions", "list-queue", "get-window":
		return heldList
	case "events":
		return heldFirst
	case "export-session":
		return heldExport
	case "get-artifact":
		return maxArtifact
	case "await-turn", "import-session", "stream":
		return 0
	}
	return heldSmall
}
