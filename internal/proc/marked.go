//go:build unix

package proc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// markVariable is the variable by which all that a program started is recognised.
const markVariable = "PARLEY_PROGRAM"

// becoming is how long a process may be without an environment while it becomes another
// program: far longer than that takes.
const becoming = 50 * time.Millisecond

// killMarked kills whatever has a mark, until there is nothing more. It gives up after a second,
// since a process that waits for a broken disk, for example, cannot be killed.
func killMarked(mark string) {
	last := time.Now() // when there was something with the mark
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

// marked lists the processes that have a mark. unknown says that one has no environment, perhaps
// only because it is becoming another program. One that has ended, and of which nobody has taken
// notice yet, does not count.
func marked(mark string) (pids []int, unknown bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false // another system
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
			_, err := os.Readlink("/proc/" + name + "/exe") // which a thread of the kernel has not
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
