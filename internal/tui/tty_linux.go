package tui

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	getAttributes = unix.TCGETS
	setAttributes = unix.TCSETS
)

// flush throws away what was typed and not yet read.
func flush(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
