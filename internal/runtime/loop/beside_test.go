package loop

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// TestBeside: while the start of a call is stored, its request is made, and does not leave. A request with a file is not made
// before, and a call whose start is not stored is not made.
func TestBeside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &making{made: make(chan struct{}, 1)}
		req := &seam.Request{Messages: []parley.Message{parley.Text(parley.RoleUser, "hello")}}
		say, err := askBeside(t.Context(), m, req, func() error { <-m.made; return nil })
		if err != nil || say == nil || m.left {
			t.Fatalf("once it is stored: %v, left %t", err, m.left)
		}
		for range say {
			t.Error("it says something")
		}
		if !m.left {
			t.Error("the request has not left")
		}
		lost := errors.New("lost")
		m.left = false
		if _, err = askBeside(t.Context(), m, req, func() error { return lost }); !errors.Is(err, lost) || m.left {
			t.Errorf("a start that is not stored: %v, left %t", err, m.left)
		}
		<-m.made
		req.Messages[0].Parts = append(req.Messages[0].Parts, parley.Part{Type: parley.PartImage, Artifact: "a"})
		say, err = askBeside(t.Context(), m, req, func() error { return nil })
		if err != nil || say != nil || len(m.made) > 0 {
			t.Errorf("with a file: %v, made %d", err, len(m.made))
		}
	})
}

// making is a model that says when it makes a request, and whether one has left.
type making struct {
	seam.Model
	made chan struct{}
	left bool
}

func (m *making) Stream(context.Context, seam.Request) iter.Seq2[seam.ModelDelta, error] {
	m.made <- struct{}{}
	return func(func(seam.ModelDelta, error) bool) { m.left = true }
}
