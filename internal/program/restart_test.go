package program

import (
	"log/slog"
	"testing"

	"github.com/parley-server/parley/internal/auth"
)

// TestKill: a server can be killed from its page only if it is a demo that only this machine can
// reach. The request must come from that page. The server starts again at the same address.
func TestKill(t *testing.T) {
	t.Parallel()
	var began [][]string
	k := &kit{args: []string{"demo", "--addr", "127.0.0.1:0"}, restart: func(args []string) error { began = append(began, args); return nil }}
	for _, c := range []struct {
		command, addr string
		mode          auth.Mode
		restart, want bool
	}{
		{"demo", "127.0.0.1:0", auth.ModeNone, true, true},
		{"demo", "localhost:8000", auth.ModeNone, true, true},
		{"serve", "127.0.0.1:0", auth.ModeNone, true, false},
		{"demo", "0.0.0.0:8000", auth.ModeNone, true, false},
		{"demo", ":8000", auth.ModeNone, true, false},
		{"demo", "127.0.0.1:0", auth.ModeKeys, true, false},
		{"demo", "127.0.0.1:0", auth.ModeIngress, true, false},
		{"demo", "127.0.0.1:0", auth.ModeNone, false, false}, // inside another program, such as a test
	} {
		of := *k
		if !c.restart {
			of.restart = nil
		}
		f := &flags{kit: &of}
		if got := f.killer(c.command, &entrance{mode: c.mode}, c.addr, "127.0.0.1:8123", slog.New(slog.DiscardHandler)) != nil; got != c.want {
			t.Errorf("%+v: killable %v", c, got)
		}
	}
	if len(began) != 0 {
		t.Errorf("it was killed by looking: %v", began)
	}
}
