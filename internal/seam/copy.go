package seam

import "context"

// Copyable is a store whose rows can be copied, table by table, to a store of another kind.
// Package storecopy does that, between two stores that nobody else has open.
//
// While rows are copied into a store it has a mark, with which it is opened only to go on with
// the copy. The mark is written in the transaction of the rows, so a copy that was interrupted
// goes on where it was.
type Copyable interface {
	Store
	// CopyTables lists what is copied, by app and name. Tables that describe the database itself
	// are left out.
	CopyTables(ctx context.Context) ([]CopyTable, error)
	// CopyCount counts a table's rows.
	CopyCount(ctx context.Context, t CopyTable) (int64, error)
	// CopyOut calls row for each row of a table in the order of its key, from the one after the
	// given key on; nil: from the first. Values are nil, int64 or []byte, and row must not keep
	// them.
	CopyOut(ctx context.Context, t CopyTable, after []any, row func(values []any) error) error
	// CopyIn adds rows, and the mark that says so, in one transaction.
	CopyIn(ctx context.Context, t CopyTable, rows [][]any, m CopyMark) error
	// CopyMark returns the mark; nil if there is none.
	CopyMark(ctx context.Context) (*CopyMark, error)
	// CopyBegin marks a store as the target of a copy.
	CopyBegin(ctx context.Context, m CopyMark) error
	// CopyEnd removes the mark: the store is complete.
	CopyEnd(ctx context.Context) error
}

// CopyTable is a table, with the same names in all kinds of stores.
type CopyTable struct {
	App     string // whose table it is; empty: the store's own
	Name    string
	Columns []CopyColumn // by name
	Key     []int        // positions of the columns of the key
}

// CopyColumn is a column.
type CopyColumn struct {
	Name string
	Int  bool // its values are int64, otherwise []byte
}

// String names the table.
func (t CopyTable) String() string {
	if t.App == "" {
		return t.Name
	}
	return t.App + "." + t.Name
}

// CopyMark says what is copied into a store, and how far that is.
type CopyMark struct {
	Source string // tells the contents of the source from any other
	Table  string // that was written last; those before it by name are complete
	Key    []byte // of its last row, as package storecopy encodes it
}
