//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/proc"
)

const (
	maxError = 16 << 10        // bytes of standard error that are kept, the last ones
	grace    = 2 * time.Second // from the end of its input to SIGTERM, and again to SIGKILL

	// perSecond is how many messages of a server are read in a second; further ones wait in its
	// pipe. It is far more than the progress messages of many calls, and far less than what can be
	// handled.
	perSecond = 1000
	burst     = 2000
)

// program dials by starting a program.
type program struct {
	o   Options
	env []string
}

func notThere(name string, err error) *parley.Error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	e := parley.Errorf(parley.CodeInvalid, "the program %q cannot be run: %w", name, err).WithField("run")
	switch {
	case strings.ContainsAny(name, " \t"):
		e = e.WithHint("write the program and its arguments as a list: [npx, -y, some-server]")
	case name == "npx" || name == "npm" || name == "node":
		e = e.WithHint("install Node, which the server needs: apt-get install nodejs npm, or https://nodejs.org")
	case name == "uvx" || name == "uv":
		e = e.WithHint("install uv, which the server needs: https://docs.astral.sh/uv")
	}
	return e
}

// dial starts the program. Whether it answers shows when the session begins.
func (p *program) dial(ctx context.Context) (carrier, error) {
	if err := ctx.Err(); err != nil {
		return carrier{}, err
	}
	name, err := proc.Look(p.o.Run[0], p.o.Dir)
	if err != nil {
		return carrier{}, notThere(p.o.Run[0], err)
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	theirs, in := io.Pipe()
	out, says := io.Pipe()
	errs := &proc.Tail{Max: maxError, Clean: p.o.Clean}
	run, err := proc.Start(life, proc.Spec{
		Args: append([]string{name}, p.o.Run[1:]...), Dir: p.o.Dir, Env: p.env, Memory: p.o.Memory, Grace: grace,
		Stdin: theirs, Stdout: says, Stderr: errs,
	})
	if err != nil {
		kill()
		return carrier{}, err
	}
	go func() {
		why := run.Wait()
		kill()
		if why == nil {
			why = errors.New("exit code 0")
		}
		why = fmt.Errorf("the program ended: %w", why)
		_ = theirs.CloseWithError(why) // nobody reads what is written now
		_ = says.CloseWithError(why)
	}()
	end := func() {
		_ = in.Close()
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-run.Done():
		case <-late.C:
			kill()
			<-run.Done()
		}
	}
	to := &counted{PipeWriter: in}
	return carrier{
		Transport: &watched{&sdk.IOTransport{Reader: newLines(out), Writer: to, MaxLineLength: -1}, to},
		end:       end, said: func() string { return lastWords(errs.String()) },
	}, nil
}

// patient is how long a program may take to read a request after the call that sent it has ended.
// It is not zero because giving up the program ends the calls of others.
const patient = 2 * time.Second

// counted counts the bytes that were sent to a program.
type counted struct {
	*io.PipeWriter
	n atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.PipeWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// watched records which calls were sent. A program that does not read its input must not delay a
// call much beyond its deadline, so such a program is given up.
type watched struct {
	sdk.Transport
	to *counted
}

func (w *watched) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := w.Transport.Connect(ctx)
	return &watchedConn{c, w.to}, err
}

type watchedConn struct {
	sdk.Connection
	to *counted
}

func (c *watchedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var left *trip
	if q, ok := m.(*jsonrpc.Request); ok && q.Method == "tools/call" {
		if left, ok = ctx.Value(tripKey{}).(*trip); ok {
			left.sent.Store(true)
		}
	}
	written := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		late := time.NewTimer(patient)
		defer late.Stop()
		select {
		case <-written:
		case <-late.C:
			_ = c.to.CloseWithError(errors.New("it does not read what it is sent"))
		}
	})
	before := c.to.n.Load()
	err := c.Connection.Write(ctx, m)
	close(written)
	stop()
	if err != nil && left != nil && c.to.n.Load() == before {
		left.sent.Store(false) // nothing was read, neither of this message nor of another
	}
	return err
}
