package sqlite

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
)

// ErrLater is wrapped by errors that may go away by themselves, for example once there is
// space again.
var ErrLater = errors.New("it may work later")

// MinFree is the free space, in bytes, below which a [Store] reports that it has none:
// the largest message under the default settings, in the log and in the database, twice.
// Smaller writes may still succeed.
const MinFree = 1 << 20

// Free is how many bytes the file system of dir has free for this process. Some file
// systems cannot tell.
func Free(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	if st.Blocks == 0 {
		return 0, errors.New("the file system does not report its free space")
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// seen records what is at the path now: which folder and which files were opened. A
// folder that was removed or mounted over still accepts writes through the open files,
// and nobody will ever find them. The files exist while a connection is open.
func seen(dir, path string, guard func() error) (*datafolder.Folder, error) {
	f := datafolder.New(dir, guard, path, path+"-wal", path+"-shm")
	return f, f.Check()
}

// prepare makes the folder and an empty file that nobody else may read. If there is a
// guard, the caller made the folder, and it is not made again: it was removed. prepare
// never opens an existing file. If the database is missing or empty while other files of
// a server are there, it refuses: SQLite would start a new one and discard the journal.
func prepare(dir string, guard func() error, beside []string) (string, error) {
	path := filepath.Join(dir, FileName)
	if guard != nil {
		if err := datafolder.New(dir, guard).Check(); err != nil {
			return "", err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", outside(path, err)
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > 0 {
		return path, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", outside(path, err)
	}
	if left := leftover(dir, path, beside); left != "" {
		what := "is empty"
		if err != nil {
			what = "is missing"
		}
		return "", parley.Errorf(parley.CodeInvalid, "the database %s %s, but %s beside it belongs to a server that had one", path, what, left).
			WithHint("restore the database from a backup, or move %s away to start with an empty one", left)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return path, nil
	case err != nil:
		return "", outside(path, err)
	}
	return path, f.Close()
}

// leftover is the path of something that a new folder cannot contain, or "".
func leftover(dir, path string, beside []string) string {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return path + "-wal"
	}
	if journaled(path + "-journal") {
		return path + "-journal"
	}
	for _, name := range beside {
		if list, err := os.ReadDir(filepath.Join(dir, name)); err == nil && len(list) > 0 {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// journaled reports whether a rollback journal belongs to a database that had pages. A
// first start that is killed leaves a journal of a database without any
// (https://www.sqlite.org/fileformat.html#the_rollback_journal).
func journaled(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [20]byte
	n, _ := f.ReadAt(head[:], 0)
	if n < len(head) {
		return false // it is cold: its header was never written
	}
	return [8]byte(head[:8]) == [8]byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7} && binary.BigEndian.Uint32(head[16:]) > 0
}
