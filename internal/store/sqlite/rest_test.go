package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

// TestPauses: after the first pause the file of the log has the length that it keeps, and pauses make no checkpoint until the
// log is long. Whatever is copied from the folder in between has all that was stored.
func TestPauses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		must(t, s.Append(t.Context(), ann, storetest.Words("S", 0, 1, 100)))
		last := int64(1)
		size := func(name string) int64 {
			info, err := os.Stat(filepath.Join(dir, name))
			must(t, err)
			return info.Size()
		}
		pause := func() { time.Sleep(time.Second); synctest.Wait() }
		pause()
		if got := size(sqlite.FileName + "-wal"); got != 4<<20 {
			t.Fatalf("after the first pause the log has %d bytes", got)
		}
		database := size(sqlite.FileName)
		checkpoints := 0
		for range 60 {
			must(t, s.Append(t.Context(), ann, storetest.Words("S", last, 1, 60<<10)))
			last++
			pause()
			if now := size(sqlite.FileName); now != database {
				database, checkpoints = now, checkpoints+1
			}
		}
		if checkpoints < 1 || checkpoints > 4 { // 60 times about 33 pages
			t.Errorf("got %d checkpoints", checkpoints)
		}
		if got := size(sqlite.FileName + "-wal"); got != 4<<20 {
			t.Errorf("in the end the log has %d bytes", got)
		}
		copied := t.TempDir()
		for _, end := range []string{"", "-wal"} {
			raw, err := os.ReadFile(filepath.Join(dir, sqlite.FileName+end))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(copied, sqlite.FileName+end), raw, 0o600))
		}
		c := open(t, copied)
		for at := int64(0); at < last; { // a page holds few of them
			page, err := c.Read(t.Context(), ann, "S", at, 100)
			if err != nil || len(page) == 0 {
				t.Fatalf("a copy has %d events of %d: %v", at, last, err)
			}
			at = page[len(page)-1].Seq
		}
		sound(t, c)
	})
}
