package storecopy_test

import (
	"path/filepath"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley/internal/store/sqlite"
)

// damage changes one byte of one event.
func damage(t testing.TB, d disk) {
	t.Helper()
	c, err := zombie.OpenConn(filepath.Join(d.at, sqlite.FileName), zombie.OpenReadWrite)
	must(t, err)
	must(t, sqlitex.ExecuteTransient(c, `UPDATE events SET data = CAST(replace(CAST(data AS TEXT), 'word 2', 'word 3') AS BLOB) WHERE session = 'A-session' AND seq = 2`, nil))
	if c.Changes() != 1 {
		t.Fatal("nothing was damaged")
	}
	must(t, c.Close())
}
