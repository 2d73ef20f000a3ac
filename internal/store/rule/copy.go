package rule

import (
	"cmp"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// CopyTable is the table that a store has while another is copied into it.
const CopyTable = "copying"

// Incomplete says that a copy into a store was interrupted.
func Incomplete() error {
	return parley.Errorf(parley.CodeConflict, "another store is being copied into this one, and the copy is incomplete").
		WithHint("run the same parley store copy again, which goes on where it was")
}

// KeyOf returns the columns of a table's key.
func KeyOf(t seam.CopyTable) (out []seam.CopyColumn) {
	for _, i := range t.Key {
		out = append(out, t.Columns[i])
	}
	return out
}

// SortTables sorts tables by their names, and their columns.
func SortTables(all []seam.CopyTable) {
	slices.SortFunc(all, func(a, b seam.CopyTable) int { return cmp.Compare(a.String(), b.String()) })
	for i, t := range all {
		var key []string
		for _, k := range t.Key {
			key = append(key, t.Columns[k].Name)
		}
		slices.SortFunc(all[i].Columns, func(a, b seam.CopyColumn) int { return cmp.Compare(a.Name, b.Name) })
		for n, name := range key {
			all[i].Key[n] = slices.IndexFunc(all[i].Columns, func(c seam.CopyColumn) bool { return c.Name == name })
		}
	}
}
