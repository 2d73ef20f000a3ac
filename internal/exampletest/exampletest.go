// Package exampletest gives examples what a test has: examples that run get no testing.TB.
package exampletest

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
)

// T is a testing.TB for one example, and end is what its end would do. A failure panics, which
// fails the example.
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
	testing.TB // nil: what is not here is not used
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
