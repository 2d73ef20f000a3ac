// Package aside runs work beside a goroutine: because it needs much stack and the goroutine stays for long, or
// because both can be done at once.
package aside

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Do runs f on a goroutine of its own and waits for it. A goroutine's stack grows with the deepest
// call that it has made, and shrinks late and by halves. So what a stream does once, before it waits
// for hours, such as reading from a store, is done here, and the stream's stack stays small: that is
// most of what an idle stream takes. Starting a goroutine takes some microseconds.
//
// A panic of f becomes one of the caller, with the stack of where it was.
func Do(f func()) { Begin(f)() }

// Begin is Do for a caller that does something else meanwhile. The returned function waits for f; it must be
// called, and once.
func Begin(f func()) (wait func()) {
	j := &job{done: make(chan struct{})}
	go j.run(f)
	return j.wait
}

// job is what runs beside.
type job struct {
	done     chan struct{}
	over     bool
	panicked any
	stack    []byte
}

func (j *job) run(f func()) {
	defer close(j.done)
	defer func() {
		if !j.over {
			j.panicked, j.stack = recover(), debug.Stack()
		}
	}()
	f()
	j.over = true
}

func (j *job) wait() {
	<-j.done
	switch {
	case j.over:
	case j.panicked == nil:
		runtime.Goexit() // as f did
	case j.panicked == http.ErrAbortHandler:
		panic(j.panicked) // net/http compares it
	default:
		panic(fmt.Sprintf("%v\n\n%s", j.panicked, j.stack))
	}
}
