package api

// An operation counts the data of its answer before it reads that data, by wire.Reserve. So
// clients that do not read their answers cannot exceed the common memory limit.
const (
	heldSmall  = 64 << 10 // one object; a longer turn is counted when it is written
	heldList   = 2 << 20  // the most the store returns of rows, plus their JSON
	heldRow    = 1 << 10  // a session in a list, plus its JSON; a larger one is counted when it is written
	heldExport = 1 << 20  // the compressor, and the turn being written
)

// heldBy is roughly the most that an operation holds; 0 for those that count it
// themselves.
func heldBy(operation string) int {
	switch operation {
	case "list-turns", "list-interactions", "list-queue", "get-window":
		return heldList
	case "get-artifact":
		return maxArtifact
	case "events", "await-turn", "import-session", "stream", "list-sessions", "export-session":
		return 0
	}
	return heldSmall
}

// waits reports whether an operation may wait for a service or program of somebody else: an MCP
// server whose resources or prompts a message has, an authorization server. Such an operation
// counts its answer when it has it. If it held a share meanwhile, a server that does not answer
// would use up the small answers of everybody.
func waits(operation string) bool {
	switch operation {
	case "send", "stream-turn", "answer-interaction", "list-resources", "list-app-resources", "finish-login", "forget-login", "forget-logins":
		return true
	}
	return false
}
