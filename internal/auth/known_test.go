package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-server/parley/internal/auth"
)

// TestDoor_tells_who_is_known: the edge is told of callers that were identified, and of no others.
func TestDoor_tells_who_is_known(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode auth.Mode
		open bool
		want int
	}{
		"identified": {auth.ModeNone, false, 1},
		"refused":    {auth.ModeKeys, false, 0},
		"open":       {auth.ModeKeys, true, 0},
	} {
		known := 0
		d := auth.Door(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), auth.Options{
			Mode: c.mode, Open: func(*http.Request) bool { return c.open },
			Known: func(context.Context) { known++ }, Fail: func(http.ResponseWriter, error) {},
		})
		d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if known != c.want {
			t.Errorf("%s: known %d times, want %d", name, known, c.want)
		}
	}
}
