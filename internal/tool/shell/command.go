//go:build unix

package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/proc"
	"github.com/parley-server/parley/internal/seam"
)

// command is a command that was started.
type command struct {
	out  *spool
	temp *temp  // of its session; nil for one that only reads
	stop func() // ends it and waits for its end
	done chan struct{}

	memory    int64 // the limits that it has
	processes int

	end  confine.End   // once done
	late time.Duration // it ran until this limit; 0: it did not
	err  error         // of the sandbox
}

// temp is a session's temporary folder.
type temp struct {
	dir  string
	uses int
	last time.Time
}

// keepTemp is how long the temporary folder of a session that runs no commands is kept.
const keepTemp = 24 * time.Hour

// start starts a command in a workspace. A command that only reads changes nothing, not even in the
// session's temporary folder: it has one of its own.
func (t *Toolset) start(r seam.Run, line string, root *os.Root, reads bool) (*command, error) {
	dir, space, err := place(root)
	if err != nil {
		return nil, err
	}
	tmp, shared, leave, err := t.temporary(r.Session, reads)
	if err != nil {
		return nil, err
	}
	c := &command{out: &spool{}, temp: shared, done: make(chan struct{}), memory: t.o.Memory, processes: t.o.Processes}
	var said bytes.Buffer
	var spec proc.Spec
	var job confine.Job
	if t.o.Unconfined {
		spec = proc.Spec{
			Args: []string{bash(), "-c", line}, Dir: dir, Env: t.env(tmp, proc.Env(nil), reads), Memory: t.o.Memory, Stderr: c.out, Grace: confine.Grace,
		}
	} else if job, err = t.confined(line, tmp, space, r.ReadOnly || reads, reads); err == nil {
		spec, err = job.Spec()
		spec.Stderr = &said
	}
	spec.Stdout = c.out
	if err != nil {
		leave()
		return nil, err
	}
	// The command outlives its call when it goes on in the background.
	ctx, cancel := context.WithTimeout(context.Background(), t.o.Background)
	p, err := proc.Start(ctx, spec)
	if err != nil {
		cancel()
		leave()
		return nil, err
	}
	c.stop = func() { cancel(); <-c.done }
	t.work.Go(func() {
		err := p.Wait()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.late = t.o.Background
		}
		if t.o.Unconfined {
			c.end, c.err = plainEnd(err)
		} else if c.end, c.err = job.Result(said.String()); c.err != nil {
			t.o.Logger.Warn("a sandbox ended without a result", "session", r.Session, "error", c.err)
		}
		cancel()
		leave()
		close(c.done)
	})
	return c, nil
}

// confined is how a command is started in a sandbox.
func (t *Toolset) confined(line, tmp string, space confine.Folder, readOnly, reads bool) (confine.Job, error) {
	empty, err := t.o.Folder("root")
	if err != nil {
		return confine.Job{}, err
	}
	space.ReadOnly = readOnly
	j := confine.Job{
		Args: []string{bash(), "-c", line}, Root: empty, Workspace: space, Temporary: tmp, Readable: t.o.Readable, Guarded: t.o.Guarded,
		Env:    t.env(confine.Temporary, []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "USER=agent", "LOGNAME=agent"}, reads),
		Limits: confine.Limits{Memory: t.o.Memory, Processes: t.o.Processes, Disk: t.o.Disk},
	}
	if t.o.Ports != nil && !reads {
		j.Ports = t.o.Ports
	}
	return j, nil
}

// env is a command's environment: base, what keeps programs from asking a person, and the operator's, which
// may be secrets. A command that only reads does not get those: nobody is asked before it shows them.
func (t *Toolset) env(tmp string, base []string, reads bool) []string {
	env := map[string]string{
		"HOME": tmp, "TMPDIR": tmp, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_EDITOR": "true", "EDITOR": "true", "GIT_TERMINAL_PROMPT": "0", "SHELL": bash(),
		// The workspace may belong to another user than the server's.
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
	}
	if t.o.Ports != nil {
		env["RES_OPTIONS"] = "use-vc" // there is only TCP
	}
	if !reads {
		maps.Copy(env, t.o.Env)
	}
	var list []string
	for _, v := range base {
		if name, _, _ := strings.Cut(v, "="); env[name] == "" {
			list = append(list, v)
		}
	}
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// bash is the shell: commands are written for bash, and most run in any other.
var bash = sync.OnceValue(func() string {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "/bin/sh"
})

// plainEnd is how a command without a sandbox ended.
func plainEnd(err error) (confine.End, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if code := exit.ExitCode(); code >= 0 {
			return confine.End{Code: code}, nil
		}
		return confine.End{Code: 137}, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return confine.End{Code: 137}, nil
	}
	return confine.End{}, err
}

// temporary is the folder for the temporary files of a session's command. One that only reads gets
// a folder of its own, which is removed when it ends.
func (t *Toolset) temporary(s parley.SessionID, reads bool) (dir string, tmp *temp, leave func(), err error) {
	if reads {
		parent, err := t.o.Folder("reads")
		if err != nil {
			return "", nil, nil, err
		}
		dir, err := os.MkdirTemp(parent, "")
		return dir, nil, func() { _ = os.RemoveAll(dir) }, err
	}
	if dir, err = t.o.Folder("sessions", filepath.Base(string(s))); err != nil {
		return "", nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.o.Now()
	for id, old := range t.temps {
		if old.uses == 0 && now.Sub(old.last) > keepTemp {
			delete(t.temps, id)
			_ = os.RemoveAll(old.dir)
		}
	}
	if tmp = t.temps[s]; tmp == nil {
		tmp = &temp{dir: dir}
		t.temps[s] = tmp
	}
	tmp.uses++
	tmp.last = now
	return dir, tmp, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		tmp.uses--
		tmp.last = t.o.Now()
		if tmp.uses == 0 && t.temps[s] != tmp { // the session has ended meanwhile
			_ = os.RemoveAll(tmp.dir)
		}
	}, nil
}

// result is what the model is told of a command that has ended.
func (c *command) result() string {
	<-c.done
	text := c.out.take()
	switch {
	case c.cut():
		return join(c.limit(), text)
	case c.err != nil:
		return join("The command could not be run: "+c.err.Error(), text)
	case c.end.Failed != "":
		return join("The command was not started: "+c.end.Failed, text)
	case c.end.Limit != "":
		return join(c.limit(), text)
	case c.end.Code != 0:
		text = join(fmt.Sprintf("Exit code %d", c.end.Code), text)
		if c.end.Full {
			text = join(fullText, text)
		}
		return text
	case c.end.Full:
		return join(fullText, text)
	case text == "":
		return "The command has ended without output."
	}
	return text
}

const fullText = "The workspace and /tmp hold more than commands may fill. Until something is removed, commands can only read and remove."

// cut reports whether a command was ended because it ran for too long.
func (c *command) cut() bool {
	return c.late > 0 && c.end.Limit == "" && (c.err != nil || c.end.Failed != "" || c.end.Code != 0)
}

// limit says why a command was ended.
func (c *command) limit() string {
	switch c.end.Limit {
	case "":
		return fmt.Sprintf("The command was ended: it ran for longer than %s, which is the limit.", c.late)
	case confine.LimitMemory:
		return fmt.Sprintf("The command was ended: it used more memory than it may, which is %d MiB.", c.memory>>20)
	case confine.LimitProcesses:
		return fmt.Sprintf("The command was ended: it started more processes and threads than it may, which is %d.", c.processes)
	case confine.LimitDisk:
		return "The command was ended: the workspace and /tmp hold more than commands may fill, or it wrote far more than that. Remove what is not needed."
	case confine.LimitFiles:
		return "The command was ended: its processes had more files open than they may."
	case confine.LimitWatch:
		return "The command was ended, because what it does could not be watched: " + c.end.Name + "."
	}
	text := fmt.Sprintf("The command was ended: it made %s, with which git would run programs. Repositories that commands make have neither hooks nor settings that name a program.", c.end.Name)
	if files.Guarded(c.end.Name) {
		text = fmt.Sprintf("The command was ended: it made %s, which decides what agents are told or what runs. Use Write for such a file, which asks the user.", c.end.Name)
	}
	if c.end.Moved != "" {
		text += " It is now named " + c.end.Moved + "."
	}
	return text
}

func join(head, text string) string {
	if text == "" {
		return head
	}
	return head + "\n" + text
}
