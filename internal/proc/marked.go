//go:build unix

package proc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// markVariable is the environment variable by which the descendants of a program are recognized.
const markVariable = "PARLEY_PROGRAM"

// becoming is how long a process may be without an environment during exec. It is far longer
// than exec takes.
const becoming = 50 * time.Millisecond

// killMarked kills processes with a mark until none is left. It gives up after drain, because
// some processes cannot be killed, such as one that waits for a broken disk.
func killMarked(mark string) {
	last := time.Now() // when a process with the mark was last seen
	for late := last.Add(drain); time.Now().Before(late); time.Sleep(time.Millisecond) {
		found, unknown := marked(mark)
		for _, pid := range found {
			last = time.Now()
			if syscall.Kill(pid, syscall.SIGKILL) == nil && adopts {
				go reapOne(pid)
			}
		}
		if len(found) == 0 && (!unknown || time.Since(last) > becoming) {
			return
		}
	}
}

// marked lists the processes that have a mark. unknown says that some process has no
// environment, perhaps only because it is in exec. A zombie does not count.
func marked(mark string) (pids []int, unknown bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false // not Linux: there is no /proc
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	want := []byte(markVariable + "=" + mark)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		switch {
		case err != nil:
		case bytes.Contains(env, want):
			pids = append(pids, pid)
		case len(env) == 0:
			_, err := os.Readlink("/proc/" + name + "/exe") // a kernel thread has no exe
			unknown = unknown || err == nil
		}
	}
	return pids, unknown
}

// reapOne waits for a process that has become a child of this one.
func reapOne(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}
