package aside_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/aside"
)

func TestDo(t *testing.T) {
	t.Parallel()
	n := 0
	aside.Do(func() { n++ })
	if n != 1 {
		t.Errorf("f ran %d times when Do returned, want once", n)
	}
	for name, c := range map[string]struct {
		value any
		want  func(any) bool
	}{
		"http.ErrAbortHandler": {http.ErrAbortHandler, func(got any) bool { return got == http.ErrAbortHandler }},
		"anything else": {"broken", func(got any) bool {
			text, ok := got.(string)
			return ok && strings.HasPrefix(text, "broken\n") && strings.Contains(text, "aside_test.TestDo")
		}},
	} {
		func() {
			defer func() {
				if got := recover(); !c.want(got) {
					t.Errorf("%s: the caller panics with %v", name, got)
				}
			}()
			aside.Do(func() { panic(c.value) })
		}()
	}
	ended := make(chan bool)
	go func() {
		goesOn := false
		defer func() { ended <- !goesOn }()
		aside.Do(runtime.Goexit)
		goesOn = true
	}()
	if !<-ended {
		t.Error("the caller goes on after f has ended its goroutine")
	}
}

// TestBegin: the caller goes on meanwhile, and has what f did after it has waited.
func TestBegin(t *testing.T) {
	t.Parallel()
	went, n := make(chan struct{}), 0
	wait := aside.Begin(func() { <-went; n++ })
	close(went)
	wait()
	if n != 1 {
		t.Errorf("f ran %d times, want once", n)
	}
}
