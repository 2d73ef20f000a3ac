// Package exampletest provides a testing.TB to examples, which get none from the testing package.
package exampletest

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
)

// T returns a testing.TB for one example. Call end at the end of the example; it runs the
// cleanups. A failure panics, which fails the example.
func T() (t testing.TB, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &example{ctx: ctx}
	return e, func() {
		cancel()
		for _, f := range slices.Backward(e.after) {
			f()
		}
	}
}

type example struct {
	testing.TB // nil: only the methods defined below may be called
	ctx        context.Context
	after      []func()
}

func (e *example) Helper()                   {}
func (e *example) Context() context.Context  { return e.ctx }
func (e *example) Output() io.Writer         { return io.Discard }
func (e *example) Cleanup(f func())          { e.after = append(e.after, f) }
func (e *example) Fatal(args ...any)         { panic(fmt.Sprintln(args...)) }
func (e *example) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (e *example) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func (e *example) TempDir() string {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	e.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
