package rule

import "time"

// What stays of the keys of deleted sessions, so that a late repetition of the request that
// made one does not make it anew.
const (
	// KeyKept is how long at least a user's key outlives the session that it made. Clients
	// repeat a request for minutes, queues of theirs for days.
	KeyKept = 30 * 24 * time.Hour
	// KeysKept is the most such keys of a user; the oldest go first. It bounds what somebody
	// leaves behind who makes and deletes sessions without end.
	KeysKept = 10_000
)
