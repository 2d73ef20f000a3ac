package seam

import (
	"context"
	"errors"
)

// Tables are the tables of one app, apart from those of the sessions and of other apps. The
// app's migrations make them: folders sqlite and postgres of files 0001_name.sql, 0002_… without
// gaps, which never change once released. Both write a table's name, or an index's, as {name}.
//
// Access is the app's own concern: it knows the user of each row. See package conversations.
type Tables interface {
	// View runs do, which reads. Each statement sees its own snapshot. do may run twice.
	View(ctx context.Context, do func(Statements) error) error
	// Change runs do in a transaction, which is on disk when Change returns nil. do may run
	// more than once, of which at most one counts; what it returns undoes the transaction
	// and is returned. A constraint that is violated is CodeConflict.
	Change(ctx context.Context, do func(Statements) error) error
}

// Statements runs SQL that SQLite and PostgreSQL both understand, with ? for each argument: a
// string, int64, bool, []byte or time.Time. A time is a timestamptz in PostgreSQL and a text in
// SQLite, in whole milliseconds. Values are scanned into pointers to such types, one for each
// column; a uuid or json column is selected as CAST(… AS text).
type Statements interface {
	Run(query string, args ...any) (changed int64, err error)
	// Each calls row for every row, until it returns an error. ErrEnough ends it without one.
	Each(query string, row func(scan func(to ...any) error) error, args ...any) error
}

// ErrEnough ends [Statements.Each].
var ErrEnough = errors.New("no more rows are wanted")

// ErrNoTables says that a store holds no tables of apps: it is the one in memory, for tests.
var ErrNoTables = errors.New("a store in memory has no tables of apps")
