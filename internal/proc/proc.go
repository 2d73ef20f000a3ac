//go:build unix

// Package proc runs programs for tools and never leaves one behind.
//
// A program gets its own session and process group. Its environment is exactly what its caller
// names, plus a mark. When it ends, everything that it started is killed. When this process
// ends in any way, all programs are killed: a small shell, the keeper, holds a pipe to this
// process and kills the remaining groups when the pipe closes. A program starts only after the
// keeper knows its group.
//
// A descendant can leave the group by starting its own session (setsid). On Linux it is found
// in /proc by its mark and killed too. It is not found if it has also replaced its environment
// or runs as another user. On other systems, no descendant that left the group is found.
package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec is a program to run.
type Spec struct {
	Args   []string      // the program, as [Look] returns it, and its arguments
	Dir    string        // where it runs
	Env    []string      // its whole environment, as "NAME=value"
	Memory int64         // bytes that each of its processes may allocate; 0: no limit
	Grace  time.Duration // from SIGTERM to SIGKILL when ctx ends; 0: none

	// Attr has further attributes of the process, such as namespaces. A session of its own is added.
	Attr *syscall.SysProcAttr

	// Stdin is read until it ends or the program has ended. The caller must end a reader
	// that blocks. A [bytes.Reader] that fits into a pipe, which on Linux has 64 KiB, is
	// there as a whole before the program begins: if this process is killed, the program
	// does not take half an input, or none, for the input.
	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer // nil: discarded; an error of a writer discards the rest
}

// Process is a program that runs.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// launch waits for a line on file 3, which is sent when the keeper knows the group. A
// parent that died sends none. launch then becomes the program. On file 4, which the
// program does not get, it says how far it came: launched, and more if the program could
// not be executed. It reads in a subshell, so no variable of the program changes. Without
// execfail, bash would end at an exec that fails and not run the trap.
const launch = `[ -z "$BASH_VERSION" ] || shopt -s execfail
(read -r line <&3) || exit 125
exec 3<&-
[ "$1" = 0 ] || ulimit -d "$1" || exit 125
shift
trap 'echo failed >&4' EXIT
echo launched >&4 || exit 125
{ exec "$@"; } 4>&-
exit 127`

// launched is the line that launch prints when the program runs.
const launched = "launched\n"

// ErrNotRun is the error of a program that was started and of which nothing ran.
var ErrNotRun = errors.New("the program did not run")

// drain is how long to read remaining output after the program and its group have ended.
const drain = time.Second

// Start starts a program. An error means that nothing of the program ran. When ctx ends,
// the program's group gets SIGTERM and, after the grace, SIGKILL.
func Start(ctx context.Context, s Spec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer tell.Close()
	defer ready.Close()
	p := &Process{done: make(chan struct{})}
	mark := rand.Text()
	args := append([]string{"-c", launch, "sh", strconv.FormatInt((s.Memory+1023)/1024, 10)}, s.Args...)
	p.cmd = exec.Command("/bin/sh", args...)
	p.cmd.Dir, p.cmd.Env = s.Dir, append(slices.Clip(s.Env), markVariable+"="+mark)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	if s.Attr != nil {
		*p.cmd.SysProcAttr = *s.Attr
	}
	p.cmd.SysProcAttr.Setsid = true
	var f pipes
	var far io.Writer
	var status bytes.Buffer
	if err := errors.Join(f.output(&far, &status), f.input(p.cmd, s.Stdin), f.output(&p.cmd.Stdout, s.Stdout), f.output(&p.cmd.Stderr, s.Stderr)); err != nil {
		f.closeAll()
		return nil, err
	}
	p.cmd.ExtraFiles = []*os.File{ready, far.(*os.File)}
	if err := p.cmd.Start(); err != nil {
		f.closeAll()
		return nil, err
	}
	f.closeTheirs()
	group := p.cmd.Process.Pid
	err = guard.add(group, mark)
	if err == nil {
		_, err = tell.WriteString("go\n")
	}
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		f.closeAll()
		guard.remove(group)
		return nil, fmt.Errorf("start %s: %w", s.Args[0], err)
	}
	ended := make(chan struct{})
	go p.stopWith(ctx, s.Grace, ended)
	go func() {
		defer close(p.done)
		f.copy()
		p.err = p.cmd.Wait() // of the program alone: all its files are pipes of ours
		close(ended)
		p.signal(syscall.SIGKILL) // whatever the program left running
		killMarked(mark)
		if adopts {
			go reap(group)
		}
		f.finish(drain)
		guard.remove(group)
		if exit, ok := errors.AsType[*exec.ExitError](p.err); ok && exit.ExitCode() < 0 && ctx.Err() != nil {
			p.err = context.Cause(ctx)
		}
		if p.err != nil && status.String() != launched {
			p.err = fmt.Errorf("%w: %w", ErrNotRun, p.err)
		}
	}()
	return p, nil
}

// stopWith ends the group when ctx ends.
func (p *Process) stopWith(ctx context.Context, grace time.Duration, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	if grace > 0 {
		p.signal(syscall.SIGTERM)
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-ended:
			return
		case <-late.C:
		}
	}
	p.signal(syscall.SIGKILL)
}

// signal reaches the whole group. It is no error if the group has ended already.
func (p *Process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// adopts says that orphans become children of this process, as in a container without an
// init of its own.
var adopts = os.Getpid() == 1

// reap waits for what is left of a group whose leader was waited for. It takes nothing from
// those who wait for other children.
func reap(group int) {
	for {
		if _, err := syscall.Wait4(-group, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return // ECHILD: there is nobody left
		}
	}
}

// Done is closed when the program has ended, its group is gone and its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until Done is closed. Its error is an *exec.ExitError if the program
// failed, or the cause of ctx if that ended first and a signal ended the program. It is
// also an [ErrNotRun] if nothing of the program ran.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Look finds a program by name: in the folders of $PATH, or relative to dir if the name
// has a slash.
func Look(name, dir string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return exec.LookPath(name)
}

// Env returns an environment for a program: the variables to find programs, files and
// its language, and more. It passes on no other variable of this process: they may hold
// secrets.
func Env(more map[string]string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"} {
		if _, given := more[name]; given {
			continue
		}
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		env = append(env, name+"="+more[name])
	}
	return env
}

// pipes are the pipes between this process and a program.
type pipes struct {
	theirs []*os.File // closed here once the program has them
	ins    []*os.File
	outs   []*os.File
	work   []func()
	read   sync.WaitGroup // the work on outs
}

func (p *pipes) input(c *exec.Cmd, from io.Reader) error {
	if from == nil {
		return nil // os/exec gives it an empty file
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	c.Stdin = theirs
	p.theirs, p.ins = append(p.theirs, theirs), append(p.ins, ours)
	if whole, ok := from.(*bytes.Reader); ok {
		if err := fill(ours, whole); err != nil {
			return err
		}
		if whole.Len() == 0 {
			return ours.Close()
		}
	}
	p.work = append(p.work, func() {
		_, _ = io.Copy(ours, from) // a program need not read all
		ours.Close()
	})
	return nil
}

// fill writes as much to a pipe as it takes at once.
func fill(pipe *os.File, from *bytes.Reader) error {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	text := make([]byte, min(from.Len(), maxPipe))
	_, _ = from.ReadAt(text, from.Size()-int64(from.Len()))
	for len(text) > 0 && err == nil {
		n := 0
		if e := raw.Write(func(fd uintptr) bool { n, err = syscall.Write(int(fd), text); return true }); e != nil {
			return e
		}
		if errors.Is(err, syscall.EINTR) {
			err = nil
			continue
		}
		n = max(n, 0)
		text = text[n:]
		_, _ = from.Seek(int64(n), io.SeekCurrent)
	}
	if errors.Is(err, syscall.EAGAIN) {
		return nil // full
	}
	return err
}

func (p *pipes) output(at *io.Writer, to io.Writer) error {
	if to == nil {
		return nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	*at = theirs
	p.theirs, p.outs = append(p.theirs, theirs), append(p.outs, ours)
	p.read.Add(1)
	p.work = append(p.work, func() {
		defer p.read.Done()
		_, err := io.Copy(to, ours)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_, err = io.Copy(to, bytes.NewReader(rest(ours)))
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, ours) // a program must not wait for its reader
		}
	})
	return nil
}

func (p *pipes) copy() {
	for _, f := range p.work {
		go f()
	}
}

func (p *pipes) closeTheirs() { closeAll(p.theirs) }

func (p *pipes) closeAll() { closeAll(p.theirs, p.ins, p.outs) }

// finish reads the rest of the output. The group is gone by now, so each pipe ends within the
// given time, unless an escaped descendant holds it open. Whatever is in a pipe at that point
// is still read.
func (p *pipes) finish(within time.Duration) {
	for _, f := range p.outs {
		_ = f.SetReadDeadline(time.Now().Add(within))
	}
	p.read.Wait()
	closeAll(p.ins, p.outs)
}

// maxPipe is the largest capacity of a pipe by default, in bytes. It limits what rest reads, so
// that an escaped descendant that keeps writing cannot keep it busy.
const maxPipe = 1 << 20

// rest reads what is in a pipe now. It does not block, and ignores the deadline.
func rest(f *os.File) []byte {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	var out []byte
	_ = raw.Control(func(fd uintptr) {
		buf := make([]byte, 64<<10)
		for len(out) < maxPipe {
			n, err := syscall.Read(int(fd), buf)
			if n > 0 {
				out = append(out, buf[:n]...)
			} else if !errors.Is(err, syscall.EINTR) {
				return // EAGAIN, or the end
			}
		}
	})
	return out
}

func closeAll(lists ...[]*os.File) {
	for _, f := range slices.Concat(lists...) {
		f.Close()
	}
}
