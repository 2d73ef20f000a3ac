package tui

import (
	"os"

	"golang.org/x/sys/unix"
)

// Hide stops the terminal from showing what is typed, until the returned function
// is called.
func Hide(f *os.File) (show func()) {
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, getAttributes)
	if err != nil {
		return func() {}
	}
	now := *was
	now.Lflag &^= unix.ECHO
	_ = unix.IoctlSetTermios(fd, setAttributes, &now)
	return func() { _ = unix.IoctlSetTermios(fd, setAttributes, was) }
}
