package scripted_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

// TestLongMessages: of a long text the rules read the beginning and the end.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	m, err := scripted.New("scripted/long", []byte(`
agents:
  lead:
    - say: "{{ find `+"`^(first)`"+` .Question }} {{ find `+"`(last)$`"+` .Question }} {{ range .History }}{{ len .Question }} {{ len .Answer }} {{ end }}{{ range .Steers }}{{ len . }} {{ end }}{{ len .Question }}"
`), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	long := "first " + strings.Repeat("é é", 100<<10) + " last"
	r := seam.Request{Agent: "lead"}
	r.Messages = append(r.Messages, user(long), assistant(text(long)), user(long, long))
	var said string
	for d, err := range m.Stream(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		said += d.Text
	}
	if want := "first last 16385 16385 16385 16385"; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
}

// TestLongWords: of a long word the rules read the beginning.
func TestLongWords(t *testing.T) {
	t.Parallel()
	m, err := scripted.New("scripted/long", []byte("agents:\n  lead:\n    - say: '{{ len .Question }} {{ range .History }}{{ len .Question }} {{ end }}'\n"), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := seam.Request{Agent: "lead"}
	long := "what is " + strings.Repeat("ab-ant-", 30_000) + " and " + strings.Repeat("x", 150)
	r.Messages = append(r.Messages, user(long), assistant(text("so")), user(long))
	var said string
	for d, err := range m.Stream(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		said += d.Text
	}
	if want := "363 363"; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
}

// cancelledAt is a context that is cancelled when somebody asks for the nth time.
type cancelledAt struct {
	context.Context
	left int
}

func (c *cancelledAt) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestStopBetweenRules: a reply that is no longer wanted tries no more rules.
func TestStopBetweenRules(t *testing.T) {
	t.Parallel()
	m, err := scripted.New("scripted/rules", []byte("agents:\n  lead:\n"+strings.Repeat("    - {when: \"false\", say: x}\n", 50)+"    - say: done\n"), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := seam.Request{Agent: "lead"}
	r.Messages = append(r.Messages, user("hello"))
	c := &cancelledAt{t.Context(), 10}
	for _, err = range m.Stream(c, r) {
		if err != nil {
			break
		}
	}
	if !errors.Is(err, context.Canceled) || c.left < -3 {
		t.Errorf("stopped with %v, after %d more questions", err, -c.left)
	}
}
