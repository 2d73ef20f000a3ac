package keyword_test

import (
	"testing"

	"github.com/parley-server/parley/internal/keyword"
)

func TestSlips(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"lamp", "lamp", 0}, {"lamp", "", 4}, {"umbrela", "umbrella", 1}, {"abuot", "about", 1}, {"lunch", "launch", 1}, {"table", "tablet", 1}, {"caf\u00e9", "cafe", 1}, {"rain", "wind", 3},
	} {
		if got := keyword.Slips(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %d, want %d", c.a, c.b, got, c.want)
		}
		if there, back := keyword.Slips(c.a, c.b), keyword.Slips(c.b, c.a); there != back {
			t.Errorf("%q and %q: got %d, and %d the other way round", c.a, c.b, there, back)
		}
	}
}
