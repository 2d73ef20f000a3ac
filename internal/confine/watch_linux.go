//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/parley-server/parley/internal/files"
)

// watchEvery is how often memory and processes are counted. A few thousand processes can be started in
// that time; the namespace then ends as a whole.
const watchEvery = 50 * time.Millisecond

// files of a process: more than builds need, and little memory of the kernel.
const maxOpen = 4096

// limit sets the limits that the kernel applies to each process.
func limit(l Limits) error {
	set := func(what int, n uint64) error {
		return syscall.Setrlimit(what, &syscall.Rlimit{Cur: n, Max: n})
	}
	// Since Linux 5.14 the processes of a namespace are counted by themselves, but not those of root.
	// Since 6.14 there is a limit for a namespace that counts for root, too.
	_ = os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(max(512, 2*l.Processes))), 0o644)
	return errors.Join(
		set(unix.RLIMIT_CORE, 0), set(unix.RLIMIT_FSIZE, uint64(l.Disk)), set(unix.RLIMIT_NOFILE, maxOpen),
		set(unix.RLIMIT_NPROC, uint64(l.Processes)+64), // the helper's own threads count, too
		set(unix.RLIMIT_DATA, uint64(l.Memory)+64<<20), set(unix.RLIMIT_MSGQUEUE, 0), set(unix.RLIMIT_MEMLOCK, 64<<10),
		unix.Setpriority(unix.PRIO_PROCESS, 0, 5), // the server goes first
	)
}

// watch looks at what the processes of the namespace use.
type watch struct {
	job   Job
	made  chan string // names in the workspace that are guarded
	free  map[string]uint64
	ticks int
}

func newWatch(j Job) (*watch, error) {
	w := &watch{job: j, made: make(chan string, 1), free: map[string]uint64{}}
	for _, dir := range []string{Workspace, Temporary} {
		w.free[dir] = freeBytes(dir)
	}
	if j.Workspace.ReadOnly || len(j.Guarded) == 0 {
		return w, nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch the workspace: %w", err)
	}
	if _, err := unix.InotifyAddWatch(fd, Workspace, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		return nil, fmt.Errorf("watch the workspace: %w", err)
	}
	go w.names(fd)
	return w, nil
}

// names reads the names that appear in the workspace.
func (w *watch) names(fd int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			ev := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += unix.SizeofInotifyEvent
			name := strings.TrimRight(string(buf[at:at+int(ev.Len)]), "\x00")
			at += int(ev.Len)
			if ev.Mask&unix.IN_Q_OVERFLOW != 0 {
				name = w.present()
			}
			if files.Guarded(name) && w.is(name) {
				w.made <- name
				return
			}
		}
	}
}

// is reports whether a name is there that was not there before: what was cannot be made again.
func (w *watch) is(name string) bool {
	_, err := os.Lstat(filepath.Join(Workspace, name))
	return err == nil
}

// present returns a guarded name that is in the workspace and not mounted, or "".
func (w *watch) present() string {
	list, _ := os.ReadDir(Workspace)
	for _, e := range list {
		if files.Guarded(e.Name()) && !mounted(filepath.Join(Workspace, e.Name())) {
			return e.Name()
		}
	}
	return ""
}

// mounted reports whether something is mounted at a path, as it is on what was there at the start.
func mounted(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// refuse ends all processes, and renames what has a guarded name.
func (w *watch) refuse(name string) End {
	e := End{Code: 128 + int(unix.SIGKILL), Limit: LimitGuarded, Name: name}
	_ = unix.Kill(-1, unix.SIGKILL)
	e.Moved = aside(name)
	for more := w.present(); more != "" && aside(more) != ""; {
		more = w.present()
	}
	return e
}

// aside gives something in the workspace another name, and returns it.
func aside(name string) string {
	for i := range 100 {
		to := strings.TrimLeft(name, ".") + ".refused"
		if i > 0 {
			to += strconv.Itoa(i)
		}
		err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(Workspace, name), unix.AT_FDCWD, filepath.Join(Workspace, to), unix.RENAME_NOREPLACE)
		if err == nil {
			return to
		}
		if !errors.Is(err, unix.EEXIST) {
			return ""
		}
	}
	return ""
}

// last is how a command ended, after a last look at the workspace.
func (w *watch) last(code int) End {
	if w.job.Workspace.ReadOnly || len(w.job.Guarded) == 0 {
		return End{Code: code}
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	if name := w.present(); name != "" {
		return w.refuse(name)
	}
	return End{Code: code}
}

// over says which limit is exceeded now, or "".
func (w *watch) over() Limit {
	w.ticks++
	if w.ticks%20 == 0 {
		for dir, before := range w.free {
			if now := freeBytes(dir); now < before && before-now > uint64(w.job.Limits.Disk) {
				return LimitDisk
			}
		}
	}
	list, err := os.ReadDir("/proc")
	if err != nil {
		return ""
	}
	var memory int64
	threads := 0
	for _, e := range list {
		if e.Name() == "1" || !slices.Contains([]byte("123456789"), e.Name()[0]) {
			continue // the helper
		}
		m, n := usage("/proc/" + e.Name())
		memory += m
		if threads += n; threads > w.job.Limits.Processes {
			return LimitProcesses
		}
	}
	if memory > w.job.Limits.Memory {
		return LimitMemory
	}
	return ""
}

// usage is what a process uses: bytes of memory that are its own, and threads.
func usage(dir string) (memory int64, threads int) {
	if text, err := os.ReadFile(dir + "/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 2 {
			resident, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			memory = max(0, resident-shared) * int64(os.Getpagesize())
		}
	}
	threads = 1
	if text, err := os.ReadFile(dir + "/stat"); err == nil {
		if i := strings.LastIndexByte(string(text), ')'); i > 0 {
			if f := strings.Fields(string(text[i+1:])); len(f) > 17 {
				threads, _ = strconv.Atoi(f[17])
			}
		}
	}
	return memory, max(1, threads)
}

func freeBytes(dir string) uint64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return st.Bavail * uint64(st.Bsize)
}
