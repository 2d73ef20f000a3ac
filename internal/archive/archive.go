// Package archive keeps a session in a zip file and reads it back.
//
// The layout and the names are those of a known predecessor, so that its
// readers can read ours, with our own log beside them:
//
//	session.json         what the session is now (camelCase, times in ms)
//	turns/{id}.json      each turn, with its steps
//	logs/{id}.log        the steps of a turn alone, one JSON object a line
//	artifacts/{id}       large results
//	events.ndjson        the log, whole
//	blobs/{digest}       other bytes that the log refers to
//
// [Write] makes one. [Read] checks one and returns a log that can be appended as a new
// session: from events.ndjson where it is there, else rebuilt from the turns, as also
// when retention has taken steps out of it. It drops what grants permissions (grants,
// rules, keys) and provider state, and cancels what was open. The input is not trusted:
// sizes, names, numbering and every event are checked first.
//
// It assigns no new ids and appends nothing; the engine does.
//
// [Files] makes the contents of these files, event by event, for whoever keeps
// them on a disk while a session goes on.
//
// [Folder] is another archive: the events that retention removed from a log.
package archive

import (
	"context"
	"iter"

	"github.com/parley-server/parley"
)

// Session is a session outside of any store.
type Session struct {
	App string
	// Workspace is that of the session to make; an archive names none.
	Workspace parley.Workspace
	Events    []parley.Event
	Blobs     map[parley.Digest][]byte // artifacts and other bytes that Events refer to
	// Key and Asked belong to the import request; an archive does not contain them.
	Key   string
	Asked parley.Digest
}

// Source is a session to write.
type Source struct {
	Info parley.SessionInfo
	// Events yields the log from its beginning; it is called twice.
	Events func() iter.Seq2[parley.Event, error]
	// Artifact returns an artifact's bytes.
	Artifact func(ctx context.Context, id parley.ArtifactID) ([]byte, error)
	// Blob returns other bytes of the session. Nil leaves them out.
	Blob func(ctx context.Context, d parley.Digest) ([]byte, error)
}

const eventsFile = "events.ndjson"
