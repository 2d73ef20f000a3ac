//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package tui

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	getAttributes = unix.TIOCGETA
	setAttributes = unix.TIOCSETA
	read          = 1 // FREAD of <sys/fcntl.h>
)

// flush throws away what was typed and not yet read.
func flush(f *os.File) { _ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read) }
