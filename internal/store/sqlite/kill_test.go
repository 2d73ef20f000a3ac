package sqlite_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, func(dir string) (seam.Store, error) { return sqlite.Open(context.Background(), dir, sqlite.Options{}) })
}

func sound(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if got, err := s.Pragma("integrity_check"); err != nil || got != "ok" {
		t.Errorf("integrity: got %q, %v, want ok", got, err)
	}
}

// TestKill kills a process at random moments, again and again on the same folder. Everything
// that it reported as stored is there, and nothing is torn.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rounds = 20
	storetest.Killed(t, dir, rounds, func(round int, told map[parley.SessionID]int64) (seam.Store, func()) {
		if round == rounds/2 {
			torn(t, dir, told)
		}
		s := open(t, dir)
		return s, func() {
			if round%5 == 4 {
				sound(t, s)
			}
			must(t, s.Close())
		}
	})
}

// torn damages copies of the database as a power failure may: the end of the WAL is missing, or
// is replaced. What remains is intact.
func torn(t *testing.T, dir string, told map[parley.SessionID]int64) {
	t.Helper()
	db, err := os.ReadFile(filepath.Join(dir, sqlite.FileName))
	must(t, err)
	wal, err := os.ReadFile(filepath.Join(dir, sqlite.FileName+"-wal"))
	must(t, err)
	wal = bytes.TrimRight(wal, "\x00") // it is made longer than its frames
	for i := range 8 {
		cut := wal[:rand.IntN(len(wal)+1)]
		if i%2 == 1 {
			cut = append([]byte{}, wal...)
			for k := rand.IntN(len(wal)); k < len(cut); k++ {
				cut[k] = byte(rand.Uint32())
			}
		}
		copied := t.TempDir()
		must(t, os.WriteFile(filepath.Join(copied, sqlite.FileName), db, 0o600))
		must(t, os.WriteFile(filepath.Join(copied, sqlite.FileName+"-wal"), cut, 0o600))
		s := open(t, copied)
		for id := range told {
			storetest.Whole(t, s, id)
		}
		sound(t, s)
		must(t, s.Close())
	}
}
