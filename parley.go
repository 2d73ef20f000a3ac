// Package parley is the vocabulary of an agent server whose sessions outlive it.
//
// A [Session] is one long-lived conversation. Everything that happens in it is an [Event]
// in one append-only log, numbered from 1 without gaps. What a session is now is a fold
// over that log ([Session.Apply]); what a person sees of it is another
// ([Transcript.Apply]). Every client, on any wire, reads the same log from some number
// on. So reconnecting, joining late, recovering from a crash, exporting and testing are
// one operation: follow from number n.
//
// A [Turn] is one user message and all that the agent does about it; a step is one model
// call and the tool calls it asks for. Agents are named and may hand a turn to one
// another. Tools declare their [Effect]: reads may be repeated freely, writes are never
// repeated. A write whose outcome nobody knows is called [OutcomeUnknown]. It is not
// tried again; a human decides. When a turn needs a human it opens an [Interaction] and
// waits; a waiting turn needs nothing in memory.
//
// Text in flight travels as [Delta], which is not history: a client that misses
// every delta ends in the same state.
//
// This package holds only data and pure functions over it, and imports only the standard
// library. It starts no goroutines and keeps no global state; values may be shared for
// reading. The JSON of these types must stay compatible: it is the same on disk, on the
// native wire, in an export and in the browser. Payloads only gain fields. A reader that
// meets an event type or a payload version it does not know may show the session but must
// not drive it ([CodeUpgradeRequired]).
package parley

import "time"

// Distinct ideas have distinct types, even over string. Ids that Parley makes are ULIDs
// (https://github.com/ulid/spec). An id that a client brings is an outside id: it is kept
// as an alias and never used as a key.
type (
	SessionID     string
	TurnID        string
	CallID        string // one model call or one tool call; for tools also the idempotency key
	InteractionID string
	ArtifactID    string

	// AgentPath names one instance of an agent within a turn: "interface", or
	// "lead/research#2" for the second research sub-agent started by lead.
	AgentPath string

	// Digest is the lower-case hex SHA-256 of some bytes.
	Digest string
)

// Principal is the identity behind a request. Every method of the store and of the engine
// takes one, and answers "not found" for sessions of other principals. The zero Principal
// owns nothing.
type Principal struct {
	User string `json:"user"`
	Org  string `json:"org,omitempty"`

	// system is set only by System, so no decoder can produce it.
	system bool
}

// Local is the identity of clients on loopback when no login is set up.
var Local = Principal{User: "local"}

// System is the server itself: recovery, sweeps and metrics see every session. It cannot
// come from outside because it has no JSON form.
func System() Principal { return Principal{User: "system", system: true} }

// IsSystem reports whether p came from System.
func (p Principal) IsSystem() bool { return p.system }

// Owns reports whether p may see data of the given user and org.
func (p Principal) Owns(user, org string) bool {
	return p.system || p.User != "" && p.User == user && p.Org == org
}

// Now returns t as events store it: UTC, in whole milliseconds.
func Now(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
