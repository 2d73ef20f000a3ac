package nearest_test

import (
	"testing"

	"github.com/parley-server/parley/internal/nearest"
)

func TestHint(t *testing.T) {
	t.Parallel()
	apps := []string{"home", "chaos", "mine"}
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"choas", apps, "; did you mean chaos?"},
		{"HOME", apps, "; did you mean home?"},
		{"hme", apps, "; did you mean home?"},
		{"minee", apps, "; did you mean mine?"},
		{"mien", apps, "; did you mean mine?"},
		{"nope", apps, "; did you mean home?"}, // two letters
		{"nothing", apps, "; known are chaos, home, mine"},
		{"", apps, "; known are chaos, home, mine"},
		{"x", []string{"y"}, "; known are y"}, // no letter of it is right
		{"ab", []string{"ac"}, "; did you mean ac?"},
		{"titel", []string{"tools", "title", "entitle"}, "; did you mean title?"},
		{"x", nil, ""},
	} {
		if got := nearest.Hint(c.name, c.known); got != c.want {
			t.Errorf("Hint(%q, %q) = %q, want %q", c.name, c.known, got, c.want)
		}
	}
}

// TestWithin: slips are counted up to the limit, in letters and not in bytes, and the same in
// both directions.
func TestWithin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"lamp", "lamp", 0},
		{"lamp", "lmap", 1},
		{"lamp", "lam", 1},
		{"lamp", "clamp", 1},
		{"lamp", "limp", 1},
		{"küche", "kuche", 1},
		{"ab", "ba", 1},
		{"", "lamp", 4},
		{"kitchen", "chicken", 4},
		{"lamp", "door", 4},
	} {
		for limit := range 8 {
			want := min(c.want, limit+1)
			if got := nearest.Within(c.a, c.b, limit); got != want {
				t.Errorf("Within(%q, %q, %d) = %d, want %d", c.a, c.b, limit, got, want)
			}
			if got := nearest.Within(c.b, c.a, limit); got != want {
				t.Errorf("Within(%q, %q, %d) = %d, want %d", c.b, c.a, limit, got, want)
			}
		}
		if got := nearest.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
