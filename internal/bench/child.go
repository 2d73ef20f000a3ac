package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// roleVariable makes this program run in a role instead of measuring.
const roleVariable = "PARLEY_BENCH_ROLE"

// child is a process in a role. Questions go to its standard input, one per line, and it ends
// when that is closed, so it cannot outlive this process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // nil: a program that answers no questions
	out   *bufio.Scanner
	url   string
	began time.Time // just before the start
}

// answer is a child's report about itself. The first one is sent when it is ready.
type answer struct {
	Addr   string        `json:"addr"`
	CPU    time.Duration `json:"cpu"`    // used so far
	Loaded int           `json:"loaded"` // sessions in memory
	Error  string        `json:"error,omitempty"`
}

// spawn starts this program in a role. Cancelling the context kills it.
func spawn(ctx context.Context, role string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, in: in, out: bufio.NewScanner(out), began: time.Now()}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a, err := c.answer()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", role, err), c.stop())
	}
	c.url = "http://" + a.Addr
	return c, nil
}

func (c *child) answer() (a answer, err error) {
	if !c.out.Scan() {
		return a, errors.Join(errors.New("the process has gone"), c.out.Err())
	}
	if err := json.Unmarshal(c.out.Bytes(), &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// ask writes a line and waits for the answer. The lines are "status", "gc", "heap FILE",
// "profile FILE" and "profiled".
func (c *child) ask(line string) (answer, error) {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return answer{}, err
	}
	return c.answer()
}

// stop lets the process end, and waits for it.
func (c *child) stop() error {
	if c.in == nil { // a program that knows nothing of this one
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
	} else {
		_ = c.in.Close()
	}
	late := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	return c.cmd.Wait()
}

// kill sends SIGKILL and waits.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // reports the signal
	if c.in != nil {
		_ = c.in.Close()
	}
}

// settle collects garbage and returns memory to the system, so that only memory in use remains.
func (c *child) settle() error {
	_, err := c.ask("gc")
	return err
}

// roles are the roles of a child. Each serves until ctx ends, and calls ready once with its
// address.
var roles = map[string]func(ctx context.Context, args []string, ready func(addr string, loaded func() int)) error{
	"upstream": serveUpstream,
	"proxy":    serveProxy,
	"bare":     serveBare,
	"parley":   serveParley,
}

// play is the main function of a child.
func play(role string, args []string) int {
	// An interrupt from the terminal reaches children too, but the parent decides when they end.
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	say := json.NewEncoder(os.Stdout)
	run, ok := roles[role]
	if !ok {
		_ = say.Encode(answer{Error: "there is no role " + role})
		return 2
	}
	done := make(chan struct{})
	ready := func(addr string, loaded func() int) {
		_ = say.Encode(answer{Addr: addr})
		go func() {
			defer close(done)
			defer cancel()
			listen(say, loaded)
		}()
	}
	if err := run(ctx, args, ready); err != nil {
		_ = say.Encode(answer{Error: err.Error()})
		return 1
	}
	<-done
	return 0
}

// listen answers questions until standard input ends.
func listen(say *json.Encoder, loaded func() int) {
	in := bufio.NewScanner(os.Stdin)
	var profile *os.File
	for in.Scan() {
		var a answer
		word, file, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "status":
			a.CPU, a.Loaded = cpu(), loaded()
		case "gc":
			debug.FreeOSMemory()
			debug.FreeOSMemory() // finalizers of the first have run
		case "heap":
			if err := heap(file); err != nil {
				a.Error = err.Error()
			}
		case "profile":
			var err error
			if profile, err = os.Create(file); err == nil {
				err = pprof.StartCPUProfile(profile)
			}
			if err != nil {
				a.Error = err.Error()
			}
		case "profiled":
			pprof.StopCPUProfile()
			if err := profile.Close(); err != nil {
				a.Error = err.Error()
			}
		default:
			a.Error = "nobody understands " + word
		}
		_ = say.Encode(a)
	}
}

func heap(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}

// cpu returns the CPU time this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
