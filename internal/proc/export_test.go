//go:build unix

package proc

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// KillKeeper kills the keeper as somebody else might, and returns when it is gone.
func KillKeeper() {
	guard.mu.Lock()
	defer guard.mu.Unlock()
	_ = guard.process.Kill()
	<-guard.ended
}

// Adopts says that orphans become children of this process.
func Adopts(yes bool) { adopts = yes }

// ReadLate writes text to an output and reads it when its time is already up. Somebody still
// holds the pipe open.
func ReadLate(t *testing.T, text string, to io.Writer) {
	var p pipes
	var far io.Writer
	if err := p.output(&far, to); err != nil {
		t.Fatal(err)
	}
	defer p.closeTheirs()
	if _, err := io.WriteString(far, text); err != nil {
		t.Fatal(err)
	}
	for _, f := range p.outs {
		_ = f.SetReadDeadline(time.Unix(1, 0))
	}
	p.copy()
	p.finish(0)
}

// Before returns what a program finds in its standard input when it begins, and whether that is
// all of it.
func Before(from io.Reader) (text []byte, all bool, err error) {
	var p pipes
	defer p.closeAll()
	c := &exec.Cmd{}
	if err := p.input(c, from); err != nil {
		return nil, false, err
	}
	theirs := c.Stdin.(*os.File)
	return rest(theirs), len(p.work) == 0, nil
}
