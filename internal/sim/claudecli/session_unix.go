//go:build unix

package claudecli

import (
	"os/exec"
	"syscall"
)

// ownSession lets a shell lead a session of its own, as the real program does: killing the program
// or its group does not end it.
func ownSession(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// swell takes memory until it gets no more, and gives it back. It takes at most 64 GiB.
func swell() error {
	var all [][]byte
	defer func() {
		for _, piece := range all {
			_ = syscall.Munmap(piece)
		}
	}()
	for range 256 {
		piece, err := syscall.Mmap(-1, 0, 256<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return err
		}
		all = append(all, piece)
	}
	return nil
}
