//go:build unix

package proc

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// guard is the keeper of this process.
var guard keeper

// keeper knows the groups that run. So does its shell, which outlives this process.
type keeper struct {
	mu      sync.Mutex
	groups  map[int]string // mark by group
	shell   *os.File       // the shell's standard input; nil: it does not run
	process *os.Process
	ended   chan struct{}
}

// keep reads lines "+ group:mark" and "- group:mark". At the end of its input it kills the
// remaining groups and every process with one of their marks. It searches for marks ten times,
// because a process has no environment for a moment during exec. It ignores the signals that a
// terminal or a supervisor sends to all processes.
const keep = `trap '' HUP INT QUIT TERM
groups=" "
while read -r op group; do
	case $op in
	+) groups="$groups$group " ;;
	-) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
	esac
done
for group in $groups; do kill -KILL "-${group%%:*}" 2>/dev/null; done
[ "$groups" != " " ] || exit 0
set --
for group in $groups; do set -- "$@" -e "` + markVariable + `=${group#*:}"; done
for round in 1 2 3 4 5 6 7 8 9 10; do
	for file in $(grep -ls "$@" /proc/[0-9]*/environ); do
		pid=${file#/proc/}
		kill -KILL "${pid%%/*}" 2>/dev/null
	done
done`

// add makes sure that a group, and every process with its mark, ends when this process ends.
func (k *keeper) add(group int, mark string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.groups == nil {
		k.groups = map[int]string{}
	}
	k.groups[group] = mark
	if k.shell != nil {
		if _, err := fmt.Fprintf(k.shell, "+ %d:%s\n", group, mark); err == nil {
			return nil
		}
		k.shell.Close() // it was killed
		k.shell = nil
	}
	return k.start()
}

func (k *keeper) start() error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	c := exec.Command("/bin/sh", "-c", keep)
	c.Dir, c.Env, c.Stdin = "/", []string{"PATH=/usr/bin:/bin"}, theirs
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		ours.Close()
		return err
	}
	ended := make(chan struct{})
	k.process, k.ended = c.Process, ended
	go func() {
		defer close(ended)
		_ = c.Wait()
	}()
	for group, mark := range k.groups {
		if _, err := fmt.Fprintf(ours, "+ %d:%s\n", group, mark); err != nil {
			ours.Close()
			return err
		}
	}
	k.shell = ours
	return nil
}

func (k *keeper) remove(group int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	mark := k.groups[group]
	delete(k.groups, group)
	if k.shell != nil {
		_, _ = fmt.Fprintf(k.shell, "- %d:%s\n", group, mark)
	}
}
