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
	memory    = 1 << 30   // bytes of memory that each process of a hook may allocate
	maxOutput = 512 << 10 // bytes of output that a hook may write
	maxErrors = 16 << 10  // last bytes of standard error that are kept
)

// Places limits how many hooks run at once. The time that a hook waits for a place counts
// against its timeout.
type Places chan struct{}

// enter waits for a place and takes it. leave frees it.
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

// Program runs the commands of hooks.
type Program struct {
	Dir    string            // working directory
	Env    map[string]string // environment, in addition to [proc.Env]
	Places Places
	Clean  func(text string) string // removes secrets from the output; nil: there are none
	// Allowed returns an error if the program may not run. It is called directly before the
	// program starts and again after it has ended. If its files have changed in between, its
	// output is ignored. Nil: it may always run.
	Allowed func(ctx context.Context) error
}

// Do returns a function that runs the command of e with the message as its standard input.
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
			return Said{}, parley.Errorf(parley.CodeForbidden, "it was changed while it ran, so its output is ignored: %w", err)
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
			return said, parley.Errorf(parley.CodeTool, "its output has more than %d bytes", maxOutput)
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

// bare returns err without paths of this machine.
func bare(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// limited keeps the first max bytes that are written to it.
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

// Service calls the URLs of hooks.
type Service struct {
	Guard  *dial.Guard                         // decides which addresses may be reached
	Expand func(header string) (string, error) // replaces the variables in a header
	Places Places
}

// Do returns a function that posts the message to the URL of e. A 2xx answer with an empty body
// or a JSON object is a result; any other answer is a failure.
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
			return Said{}, parley.Errorf(parley.CodeTool, "its URL cannot be called")
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
				err = u.Err // without the URL, which may contain a key
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
			return Said{}, parley.Errorf(parley.CodeTool, "the answer of its service was cut off")
		case len(body) > maxOutput:
			return Said{}, parley.Errorf(parley.CodeTool, "the answer of its service has more than %d bytes", maxOutput)
		}
		if text := bytes.TrimSpace(body); len(text) > 0 && text[0] != '{' {
			return Said{}, parley.Errorf(parley.CodeTool, "its service did not answer with a JSON object")
		}
		return Said{Out: body}, nil
	}
}
