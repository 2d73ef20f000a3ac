package program

import (
	"log/slog"
	"os"
	"slices"
	"syscall"

	"github.com/parley-server/parley/internal/auth"
)

// restart becomes a new process of the program with these arguments, at once: nothing of the old one
// runs after it, nothing is closed by it or written, and what was only in its memory is lost. For
// the log and for clients that is what kill -9 and a new start are. The process keeps its id, so
// that it stays the terminal's, and Ctrl-C ends it.
func restart(args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(exe, append([]string{os.Args[0]}, args...), os.Environ())
}

// killer returns what kills the server and starts it again at its address, or nil where that
// must not be: only a demo that this machine alone can reach, without a login, has it.
func (f *flags) killer(command string, who *entrance, addr, address string, log *slog.Logger) func() {
	if command != "demo" || f.kit.restart == nil || who.mode != auth.ModeNone || !isLoopback(addr) {
		return nil
	}
	args := append(slices.Clone(f.kit.args), "--addr", address)
	return func() {
		log.Warn("killed from the page; it starts again")
		err := f.kit.restart(args)
		log.Error("it could not be started again", "err", err)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}
