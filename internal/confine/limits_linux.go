//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxOpen are the files that one process has open: more than builds need.
	maxOpen = 4096
	// maxFiles are those of all processes. Each may be a socket whose buffer has 200 KiB of the
	// kernel's memory.
	maxFiles = 8192
	// sharedMemory is the part of the memory that may be of System V, and as much in /dev/shm.
	sharedMemory = 4
)

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
	)
}

// limitSysV limits the memory, queues and semaphores of System V in the namespace, and reports whether
// the kernel lets it. Before Linux 6.11 only root may; other users do without them.
func limitSysV(l Limits) bool {
	for name, value := range map[string]string{
		"shmall": strconv.FormatInt(l.Memory/sharedMemory/int64(os.Getpagesize()), 10), "msgmni": "64", "sem": "250\t8000\t100\t128",
	} {
		if os.WriteFile("/proc/sys/kernel/"+name, []byte(value), 0o644) != nil {
			return false
		}
	}
	return true
}

// used is what the processes of the namespace use together.
type used struct {
	memory  int64 // bytes that are in no file
	threads int
	files   int64 // open
}

// usage counts what all processes but the helper use, or only themselves if there are more than they may
// be. A process that ends meanwhile is left out; any other error means that nobody knows.
func usage(most int) (u used, err error) {
	list, err := processes()
	if u.threads = len(list); err != nil || u.threads > most {
		return u, err // to look at each would take long just when there is no time
	}
	u.threads = 0
	for _, pid := range list {
		text, err := os.ReadFile("/proc/" + pid + "/status")
		if gone(err) {
			continue
		}
		if err != nil {
			return u, err
		}
		threads := 1
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			switch name {
			case "RssAnon", "VmSwap", "VmPTE":
				u.memory += n << 10
			case "Threads":
				threads = int(n)
			}
		}
		u.threads += threads
		// Since Linux 6.2 the size of the folder is the number of files.
		info, err := os.Stat("/proc/" + pid + "/fd")
		if err == nil {
			u.files += info.Size()
		} else if !gone(err) {
			return u, err
		}
	}
	shared, err := sharedUsage()
	u.memory += shared
	return u, err
}

// sharedUsage is the memory of /dev/shm and of System V.
func sharedUsage() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil {
		return 0, fmt.Errorf("look at /dev/shm: %w", err)
	}
	n := int64(st.Blocks-st.Bfree) * st.Bsize
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without them
		return n, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 16 && f[0] != "key" {
			rss, _ := strconv.ParseInt(f[14], 10, 64)
			swap, _ := strconv.ParseInt(f[15], 10, 64)
			n += rss + swap
		}
	}
	return n, nil
}

// written is how many bytes all processes of the namespace have written to files, including those that
// have ended. ok is false if the kernel does not count them.
func written() (n int64, ok bool, err error) {
	list, err := processes()
	if err != nil {
		return 0, false, err
	}
	for _, pid := range append(list, "1") { // which gets the numbers of those that it has waited for
		text, err := os.ReadFile("/proc/" + pid + "/io")
		switch {
		case pid == "1" && errors.Is(err, fs.ErrNotExist):
			return 0, false, nil
		case gone(err):
			continue
		case err != nil:
			return 0, false, err
		}
		for line := range strings.Lines(string(text)) {
			if value, is := strings.CutPrefix(line, "write_bytes: "); is {
				b, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				n += b
			}
		}
	}
	return n, true, nil
}

// unlinked is the size of the files without a name that processes have open.
func unlinked() (n int64, err error) {
	list, err := processes()
	if err != nil {
		return 0, err
	}
	type file struct{ dev, ino uint64 }
	seen := map[file]bool{}
	for _, pid := range list {
		dir := "/proc/" + pid + "/fd"
		fds, err := os.ReadDir(dir)
		if gone(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, fd := range fds {
			var st unix.Stat_t
			if unix.Stat(dir+"/"+fd.Name(), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 {
				continue
			}
			if f := (file{st.Dev, st.Ino}); !seen[f] {
				seen[f] = true
				n += st.Blocks * 512
			}
		}
	}
	return n, nil
}

// processes lists all processes but the helper.
func processes() (list []string, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if name != "1" && name[0] >= '1' && name[0] <= '9' {
			list = append(list, name)
		}
	}
	return list, err
}

// gone reports whether an error means that a process has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
