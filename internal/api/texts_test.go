package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
)

// TestTexts: of many who ask for the answer so far one looks it up; who does not want to wait any more does not; and what is remembered is
// bounded and forgotten.
func TestTexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var texts texts
		var looks atomic.Int64
		look := func() (string, error) {
			looks.Add(1)
			time.Sleep(100 * time.Millisecond)
			return "so far", nil
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got, err := texts.of(t.Context(), "s", "t", look); got != "so far" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		gone, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		synctest.Wait()
		if _, err := texts.of(gone, "s", "t", look); parley.CodeOf(err) != parley.CodeCancelled {
			t.Errorf("got %v", err)
		}
		all.Wait()
		if looks.Load() != 1 {
			t.Errorf("it was looked up %d times", looks.Load())
		}
		time.Sleep(textEvery)
		for i := range 40 {
			if _, err := texts.of(t.Context(), parley.SessionID(fmt.Sprint(i)), "t", func() (string, error) { return strings.Repeat("x", 1<<20), nil }); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(texts.all); n > maxTexts>>20 {
			t.Errorf("%d MB are remembered", n)
		}
		time.Sleep(textEvery)
		if _, err := texts.of(t.Context(), "s", "t", look); err != nil || len(texts.all) != 1 {
			t.Errorf("%d are remembered, %v", len(texts.all), err)
		}
	})
}
