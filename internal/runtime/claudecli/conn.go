package claudecli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxLine limits a line of the CLI, in bytes. The largest that was seen had 209 kB, for a file of
// 85 kB.
const maxLine = 64 << 20

// conn carries lines to a CLI and from it, and matches answers to requests. It does not wait for
// whoever handles the lines.
type conn struct {
	serve  func(ctx context.Context, c control) (any, error) // answers a request; may be called concurrently
	handle func(m message)                                   // gets every other line, in order; must not block

	wmu sync.Mutex // held while a line is written
	in  io.Writer

	mu      sync.Mutex
	n       int
	pending map[string]chan message       // our requests
	serving map[string]context.CancelFunc // theirs
	work    sync.WaitGroup
	ended   chan struct{} // closed when no more lines come
}

func newConn(in io.Writer) *conn {
	return &conn{in: in, pending: map[string]chan message{}, serving: map[string]context.CancelFunc{}, ended: make(chan struct{})}
}

// errGone ends what a CLI has asked for, together with the CLI. The next one asks again.
var errGone = fmt.Errorf("the CLI has ended: %w", seam.ErrAgain)

// send writes one line. What it writes is always the output of json.Marshal: any other line would
// end the CLI.
func (c *conn) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if _, err := c.in.Write(append(b, '\n')); err != nil {
		return errGone
	}
	return nil
}

// ask sends a request and waits for the answer.
func (c *conn) ask(ctx context.Context, request map[string]any) (json.RawMessage, error) {
	got := make(chan message, 1)
	c.mu.Lock()
	c.n++
	id := fmt.Sprintf("parley-%d", c.n)
	c.pending[id] = got
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}()
	if err := c.send(map[string]any{"type": "control_request", "request_id": id, "request": request}); err != nil {
		return nil, err
	}
	select {
	case m := <-got:
		if m.Response.Subtype != "success" {
			return nil, parley.Errorf(parley.CodeUnavailable, "the Claude CLI refused %v: %s", request["subtype"], parley.Cut(m.Response.Error, 300))
		}
		return m.Response.Response, nil
	case <-c.ended:
		return nil, errGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read reads lines until the end of out. Then all requests of the CLI are cancelled with errGone.
func (c *conn) read(ctx context.Context, out io.Reader) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer c.work.Wait()
	defer cancel(errGone)
	defer close(c.ended)
	r := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := readLine(r)
		if err != nil {
			return
		}
		if !bytes.HasPrefix(line, []byte("{")) {
			continue // some builds wrote debug text here
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		m.size = len(line)
		switch m.Type {
		case "control_response":
			c.mu.Lock()
			got := c.pending[m.Response.RequestID]
			delete(c.pending, m.Response.RequestID)
			c.mu.Unlock()
			if got != nil {
				got <- m
			}
		case "control_request":
			c.answer(ctx, m)
		case "control_cancel_request":
			c.mu.Lock()
			stop := c.serving[m.RequestID]
			c.mu.Unlock()
			if stop != nil {
				stop()
			}
		default:
			c.handle(m)
		}
	}
}

// answer answers a request of the CLI, unless the CLI withdraws it.
func (c *conn) answer(ctx context.Context, m message) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	c.serving[m.RequestID] = cancel
	c.mu.Unlock()
	c.work.Go(func() {
		defer cancel()
		var req control
		var response any
		err := json.Unmarshal(m.Request, &req)
		if err == nil {
			response, err = c.serve(ctx, req)
		}
		c.mu.Lock()
		delete(c.serving, m.RequestID)
		c.mu.Unlock()
		if ctx.Err() == nil {
			_ = c.send(answer(m.RequestID, response, err)) // if the CLI is gone, its turn notices
		}
	})
}

// readLine reads a line. One that is longer than maxLine is an error.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxLine {
			return nil, fmt.Errorf("a line with more than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
