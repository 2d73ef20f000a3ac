//go:build unix

package hook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/proc"
)

const (
	memory    = 1 << 30   // bytes that each process of a hook may allocate
	maxOutput = 512 << 10 // bytes that a hook may say
	maxErrors = 16 << 10  // bytes of standard error that are kept, the last ones
)

// Places limit how many hooks run at once. A hook that waits for a place uses its own time.
type Places chan struct{}

// enter takes a place until leave.
func (p Places) enter(ctx context.Context) (leave func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Program is how a hook's command is run.
type Program struct {
	Dir    string            // where it runs
	Env    map[string]string // its environment besides what [proc.Env] adds
	Places Places
	Clean  func(text string) string // removes secrets from what it says; nil: there are none
	// Allowed reports why it may not run. It is asked directly before the program starts, and
	// when it has ended: if its files have changed meanwhile, what it says does not count. Nil: it
	// may.
	Allowed func(ctx context.Context) error
}

// Do runs the command of e: its standard input is the message.
func (p Program) Do(e Entry) func(ctx context.Context, message []byte) (Said, error) {
	return func(ctx context.Context, message []byte) (Said, error) {
		leave, err := p.Places.enter(ctx)
		if err != nil {
			return Said{}, err
		}
		defer leave()
		args := []string{"/bin/sh", "-c", e.Command}
		if e.Args != nil {
			program, err := proc.Look(e.Command, p.Dir)
			if err != nil {
				return Said{}, parley.Errorf(parley.CodeTool, "its program cannot be run: %w", bare(err))
			}
			args = append([]string{program}, e.Args...)
		}
		if err := p.allowed(ctx); err != nil {
			return Said{}, err
		}
		out, errs := &limited{max: maxOutput}, &proc.Tail{Max: maxErrors, Clean: p.Clean}
		run, err := proc.Start(ctx, proc.Spec{
			Args: args, Dir: p.Dir, Env: proc.Env(p.Env), Memory: memory, Stdin: bytes.NewReader(append(message, '\n')), Stdout: out, Stderr: errs,
		})
		if err != nil {
			return Said{}, parley.Errorf(parley.CodeTool, "its program could not be started: %w", bare(err))
		}
		err = run.Wait()
		if ctx.Err() != nil {
			return Said{}, context.Cause(ctx)
		}
		if err := p.allowed(ctx); err != nil {
			return Said{}, parley.Errorf(parley.CodeForbidden, "it was changed while it ran, so what it says does not count: %w", err)
		}
		said := Said{Out: out.buf, Err: errs.String()}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			if said.Code = exit.ExitCode(); said.Code < 0 {
				return said, parley.Errorf(parley.CodeTool, "its program was ended by a signal")
			}
		} else if err != nil {
			return said, parley.Errorf(parley.CodeTool, "its program was ended: %w", bare(err))
		}
		if out.cut {
			return said, parley.Errorf(parley.CodeTool, "it said more than %d bytes", maxOutput)
		}
		return said, nil
	}
}

func (p Program) allowed(ctx context.Context) error {
	if p.Allowed == nil {
		return nil
	}
	return p.Allowed(ctx)
}

// bare is err without paths of the machine.
func bare(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// limited keeps the first bytes that are written to it.
type limited struct {
	buf []byte // not a bytes.Buffer, whose ReadFrom knows no limit
	max int
	cut bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := min(l.max-len(l.buf), len(p))
	l.buf = append(l.buf, p[:room]...)
	l.cut = l.cut || room < len(p)
	return len(p), nil
}

// Service is how a hook's address is called.
type Service struct {
	Guard  *dial.Guard                         // decides what can be reached
	Expand func(header string) (string, error) // the variables in a header
	Places Places
}

// Do posts the message to the address of e. An answer 2xx with an empty body or a JSON object
// says something; every other one is a failure.
func (s Service) Do(e Entry) func(ctx context.Context, message []byte) (Said, error) {
	client := s.Guard.Client(true)
	return func(ctx context.Context, message []byte) (Said, error) {
		leave, err := s.Places.enter(ctx)
		if err != nil {
			return Said{}, err
		}
		defer leave()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(message))
		if err != nil {
			return Said{}, parley.Errorf(parley.CodeTool, "its address cannot be called")
		}
		for name, value := range e.Headers {
			if value, err = s.Expand(value); err != nil {
				return Said{}, err
			}
			req.Header.Set(name, value)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("User-Agent", "parley")
		resp, err := client.Do(req)
		if err != nil {
			if u, ok := errors.AsType[*url.Error](err); ok {
				err = u.Err // without the address, which may contain a key
			}
			return Said{}, parley.Errorf(parley.CodeTool, "its service did not answer: %w", err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		if resp.StatusCode/100 != 2 {
			return Said{}, parley.Errorf(parley.CodeTool, "its service answered %d", resp.StatusCode)
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput+1))
		switch {
		case err != nil:
			return Said{}, parley.Errorf(parley.CodeTool, "the answer of its service broke off")
		case len(body) > maxOutput:
			return Said{}, parley.Errorf(parley.CodeTool, "its service said more than %d bytes", maxOutput)
		}
		if text := bytes.TrimSpace(body); len(text) > 0 && text[0] != '{' {
			return Said{}, parley.Errorf(parley.CodeTool, "its service did not answer with a JSON object")
		}
		return Said{Out: body}, nil
	}
}
