//go:build unix

package claudecli

import (
	"os/exec"
	"syscall"
)

// ownSession lets a shell lead a session of its own, as the real program does: killing the program
// or its group does not end it.
func ownSession(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
