package mem

import (
	"context"
	"io/fs"

	"github.com/parley-server/parley/internal/seam"
)

// Tables implements seam.Store: there are none here.
func (s *Store) Tables(context.Context, string, fs.FS) (seam.Tables, error) {
	return nil, seam.ErrNoTables
}
