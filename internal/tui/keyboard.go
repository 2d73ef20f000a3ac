package tui

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"sync"
)

// keyboard reads lines that a person types. The terminal stays in its normal mode, so that
// its editing keys, Ctrl-C and Ctrl-Z work, and nothing has to be restored when this
// process is killed.
type keyboard struct {
	f *os.File

	mu    sync.Mutex
	begun bool
	open  chan<- string // gets the next line; nil: no reader, and lines are dropped
	ended chan struct{} // closed when there will be no more lines
}

func newKeyboard(f *os.File) *keyboard { return &keyboard{f: f, ended: make(chan struct{})} }

// line calls show and waits for one line. What was typed before the question was shown is
// discarded. With secret, the line is not echoed. It returns io.EOF when the person typed
// Ctrl-D, or ctx's cause.
func (k *keyboard) line(ctx context.Context, secret bool, show func()) (string, error) {
	got := make(chan string, 1)
	flush(k.f)
	if secret {
		defer Hide(k.f)()
	}
	k.mu.Lock()
	k.open = got
	if !k.begun {
		k.begun = true
		// It cannot be stopped while it waits for a key, and ends with the process.
		go k.read()
	}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.open = nil
		k.mu.Unlock()
	}()
	show()
	select {
	case s := <-got:
		return s, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-k.ended:
		return "", io.EOF
	}
}

func (k *keyboard) read() {
	defer close(k.ended)
	r := bufio.NewReader(k.f)
	for {
		s, err := r.ReadString('\n')
		k.mu.Lock()
		if k.open != nil && err == nil {
			k.open <- strings.TrimRight(s, "\r\n")
			k.open = nil
		}
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}
