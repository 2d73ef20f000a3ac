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
	groups  map[int]bool
	shell   *os.File // its standard input; nil: it does not run
	process *os.Process
	ended   chan struct{}
}

// keep reads "+ group" and "- group". At the end of its input it kills the remaining
// groups. It ignores the signals that a terminal or a supervisor sends to everybody.
const keep = `trap '' HUP INT QUIT TERM
groups=" "
while read -r op group; do
	case $op in
	+) groups="$groups$group " ;;
	-) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
	esac
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done`

// add makes sure that a group ends with this process.
func (k *keeper) add(group int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.groups == nil {
		k.groups = map[int]bool{}
	}
	k.groups[group] = true
	if k.shell != nil {
		if _, err := fmt.Fprintf(k.shell, "+ %d\n", group); err == nil {
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
	c.Dir, c.Env, c.Stdin = "/", []string{}, theirs
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
	for group := range k.groups {
		if _, err := fmt.Fprintf(ours, "+ %d\n", group); err != nil {
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
	delete(k.groups, group)
	if k.shell != nil {
		_, _ = fmt.Fprintf(k.shell, "- %d\n", group)
	}
}
