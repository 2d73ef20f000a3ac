package rule

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// MaxRow is the most bytes of a row's body: an event's text with what a receiver needs
	// to know of it.
	MaxRow = 64 << 10
	// MaxRows is how many KiB the rows of one kind of one owner take before new ones are
	// refused. A row counts as whole KiB, so there are at most so many rows.
	MaxRows = 4 << 10
	// maxRowID fits into an index entry of every database, with kind, user and org.
	maxRowID = 200
)

var rowKind = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// RowKiB is what a row counts towards MaxRows.
func RowKiB(r seam.Row) int64 {
	return int64(len(r.ID)+len(r.Session)+len(r.Body)+1023) / 1024
}

// RowOf returns r as its owner's, who is p, or for System the one that r names.
func RowOf(p parley.Principal, r seam.Row) (seam.Row, error) {
	var err error
	if r.RowName, err = RowName(p, r.RowName); err != nil {
		return r, err
	}
	if r.Version < seam.NoRow {
		return r, badRow("version", "%d is not a version", r.Version)
	}
	return r, row(r)
}

// RowName returns the name as its owner's.
func RowName(p parley.Principal, n seam.RowName) (seam.RowName, error) {
	if !p.IsSystem() {
		if n.User, n.Org = p.User, p.Org; n.User == "" {
			return n, parley.Errorf(parley.CodeForbidden, "a row needs an owner")
		}
	}
	return n, rowName(n)
}

func rowName(n seam.RowName) error {
	switch {
	case !rowKind.MatchString(n.Kind):
		return badRow("kind", "%q is not a kind of rows", parley.Cut(n.Kind, 60))
	case n.ID == "" || len(n.ID) > maxRowID:
		return badRow("id", "an id of %d bytes; it has 1 to %d", len(n.ID), maxRowID)
	}
	return nil
}

func row(r seam.Row) error {
	switch {
	case len(r.Body) > MaxRow:
		return parley.Errorf(parley.CodeTooLarge, "a row of %d bytes exceeds the limit of %d", len(r.Body), MaxRow).WithField("body")
	case len(r.Body) > 0 && !json.Valid(r.Body):
		return badRow("body", "it is not JSON")
	case !r.Due.IsZero() && r.Due.UnixMilli() <= 0:
		return badRow("due", "%s is before 1970", r.Due.UTC().Format(time.RFC3339))
	}
	return nil
}

func badRow(field, format string, args ...any) error {
	e := parley.Errorf(parley.CodeInvalid, format, args...).WithField(field)
	e.Message = "row: " + e.Message
	return e
}

// batchRows checks the rows of a batch. Their owner is the session's.
func batchRows(b seam.Batch) error {
	wrong := func(what string, n seam.RowName, err error) error {
		return invalid(b.Session, "index."+what, "%s %q: %s", n.Kind, n.ID, err)
	}
	for _, r := range b.Index.Rows {
		err := rowName(r.RowName)
		if err == nil {
			err = row(r)
		}
		if err == nil && (r.Version != seam.AnyRow || r.Session != "" && r.Session != b.Session) {
			err = badRow("session", "it has version %d and session %q", r.Version, r.Session)
		}
		if err != nil {
			return wrong("rows", r.RowName, err)
		}
	}
	for _, n := range b.Index.DropRows {
		if err := rowName(n); err != nil {
			return wrong("drop_rows", n, err)
		}
	}
	return nil
}

// RowQuery checks a query and returns it with the owner whose rows p may see. none means
// that there are none: a caller without a user has no rows, and those of the server have no
// user either.
func RowQuery(p parley.Principal, q seam.RowQuery) (of seam.RowQuery, none bool, err error) {
	if !p.IsSystem() {
		q.User, q.Org = p.User, p.Org
	}
	if q.Kind == "" && p.IsSystem() && q.Due.IsZero() {
		return q, false, nil
	}
	if !rowKind.MatchString(q.Kind) {
		return q, false, badRow("kind", "%q is not a kind of rows", parley.Cut(q.Kind, 60))
	}
	return q, q.User == "" && !p.IsSystem(), nil
}

// RowChanged says that a row is not at the version that the caller expects.
func RowChanged(n seam.RowName) error {
	return parley.Errorf(parley.CodeConflict, "the %s %q has changed or is gone", n.Kind, n.ID).WithField("version").
		WithHint("read it again; somebody else has changed it meanwhile")
}

// RowThere says that a row that should be new exists.
func RowThere(n seam.RowName) error {
	return parley.Errorf(parley.CodeConflict, "there is a %s %q already", n.Kind, n.ID).WithField("id")
}

// RowsFull says that an owner has too many rows of a kind.
func RowsFull(n seam.RowName) error {
	return parley.Errorf(parley.CodeQuota, "there is no room for another %s: the limit is %d KiB for each user", n.Kind, MaxRows).
		WithHint("remove some first")
}

// RowFits reports whether a row may be stored, where old is what the row counted before
// (0: it is new) and held what all rows of its kind and owner count, this one included.
func RowFits(p parley.Principal, kib, old, held int64) bool {
	return kib <= old || old > 0 && p.IsSystem() || held-old+kib <= MaxRows
}

// Due is the time that a row's milliseconds stand for.
func Due(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
