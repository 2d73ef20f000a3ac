// Package aside runs work that needs much stack beside a goroutine that stays for long.
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
func Do(f func()) {
	var panicked any
	var stack []byte
	over := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if !over {
				panicked, stack = recover(), debug.Stack()
			}
		}()
		f()
		over = true
	}()
	<-done
	switch {
	case over:
	case panicked == nil:
		runtime.Goexit() // as f did
	case panicked == http.ErrAbortHandler:
		panic(panicked) // net/http compares it
	default:
		panic(fmt.Sprintf("%v\n\n%s", panicked, stack))
	}
}
