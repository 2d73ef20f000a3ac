package program

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/parley-server/parley"
)

const (
	lockFile   = "lock"
	socketFile = "parley.sock"

	// maxSocketPath is what fits into a socket's address everywhere: 104 bytes on
	// macOS and BSD with the NUL at the end, 108 on Linux.
	maxSocketPath = 103
)

// holder describes the process that has a data folder. It is the content of the lock
// file, for people and for commands that look for the socket. The lock itself is the
// kernel's, so a process that dies leaves none behind.
type holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
	Address string    `json:"address,omitempty"` // where it listens, once it does
	Socket  string    `json:"socket,omitempty"`
}

func (h holder) String() string {
	s := fmt.Sprintf("process %d (parley %s", h.PID, h.Command)
	if h.Address != "" {
		s += ", " + h.Address
	}
	return s + ")"
}

// lock is a locked data folder.
type lock struct {
	f *os.File
	h holder
}

// errHeld says that another process owns the data folder.
type errHeld struct{ holder holder }

func (e *errHeld) Error() string { return "the data folder is in use by " + e.holder.String() }

// takeLock creates the data folder and locks it, or returns *errHeld. On a full disk the
// lock holds but does not name its holder.
func takeLock(dir, command string) (*lock, error) {
	if err := notFolder(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "make the data folder: %w", err).WithHint("name one that can be written with --data")
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "open the data folder: %w", err).WithHint("check who may write to %s", dir)
	}
	err = flockFreed(f, syscall.LOCK_EX)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		h := readHolder(f)
		_ = f.Close()
		return nil, &errHeld{h}
	}
	if err != nil {
		_ = f.Close()
		return nil, parley.Errorf(parley.CodeUnavailable, "lock the data folder: %w", err).WithHint("a data folder cannot be on a network file system without locks")
	}
	l := &lock{f: f, h: holder{PID: os.Getpid(), Command: command, Since: time.Now().UTC().Truncate(time.Second)}}
	if err := l.write(); err != nil && !noRoom(err) {
		l.release()
		return nil, err
	}
	return l, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// deadHolds is how long the lock of a process that has died may still be held. A program that it
// was about to start has its files until the start is complete.
const deadHolds = 2 * time.Second

// flockFreed is flock, but waits a moment for the lock of a process that is dead.
func flockFreed(f *os.File, how int) error {
	for end := time.Now().Add(deadHolds); ; <-time.After(20 * time.Millisecond) {
		err := flock(f, how)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
		if h := readHolder(f); h.PID <= 0 || !errors.Is(syscall.Kill(h.PID, 0), syscall.ESRCH) {
			return err
		}
	}
}

// holderOf returns who has locked the data folder, or nil. It creates nothing.
func holderOf(dir string) (*holder, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "open the data folder: %w", err).WithHint("check who may read %s", dir)
	}
	defer f.Close()
	// Shared, so that two readers do not mistake each other for the owner.
	err = flockFreed(f, syscall.LOCK_SH)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		h := readHolder(f)
		return &h, nil
	}
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "lock the data folder: %w", err).WithHint("a data folder cannot be on a network file system without locks")
	}
	return nil, nil
}

func readHolder(f *os.File) holder {
	var h holder
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err == nil {
		_ = json.Unmarshal(b, &h) // it may be half written
	}
	return h
}

func (l *lock) write() error {
	b, err := json.Marshal(l.h)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if _, err = l.f.WriteAt(b, 0); err == nil { // overwriting needs no space on a full disk
		err = l.f.Truncate(int64(len(b)))
	}
	if err == nil {
		return nil
	}
	return inFolder("write the lock file", err, "check the disk of the data folder")
}

// listening records where the owner can be reached.
func (l *lock) listening(address, socket string) error {
	l.h.Address, l.h.Socket = address, socket
	return l.write()
}

// held reports whether the lock file is still at its path: a process that finds another
// file there, or none, locks that instead.
func (l *lock) held() error {
	was, err := l.f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(l.f.Name())
	if err != nil {
		return err
	}
	if !os.SameFile(was, now) {
		return errors.New(l.f.Name() + " is another file")
	}
	return nil
}

func (l *lock) release() {
	_ = l.f.Truncate(0)
	_ = l.f.Close() // which releases the lock
}

// socketPath is where the owner of dir listens: in dir, unless the path is too long for a
// socket. Then it is in a private folder among the temporary files, under a name that
// every process derives alike.
func socketPath(dir string) (string, error) {
	p := filepath.Join(dir, socketFile)
	if len(p) <= maxSocketPath {
		return p, nil
	}
	own := filepath.Join(os.TempDir(), "parley-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(own, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", parley.Errorf(parley.CodeUnavailable, "the path of the data folder is too long for a socket, and %s cannot be made: %w", own, err).
			WithHint("use a data folder with a path of less than %d bytes", maxSocketPath-len(socketFile))
	}
	info, err := os.Lstat(own)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByMe(info) {
		return "", parley.Errorf(parley.CodeForbidden, "the path of the data folder is too long for a socket, and %s is not a folder of yours alone", own).
			WithHint("use a data folder with a path of less than %d bytes", maxSocketPath-len(socketFile))
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(own, hex.EncodeToString(sum[:8])+".sock"), nil
}

func ownedByMe(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
