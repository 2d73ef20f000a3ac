package program

import (
	"log/slog"
	"os"
	"slices"
	"syscall"

	"github.com/parley-server/parley/internal/auth"
)

// restart replaces the process by a new one of the same program with these arguments, at once. The
// old one closes and writes nothing, and what was only in its memory is lost. For the log and for
// clients it is like kill -9 and a new start. The process keeps its id, so that it stays attached
// to the terminal, and Ctrl-C ends it.
func restart(args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(exe, append([]string{os.Args[0]}, args...), os.Environ())
}

// killer returns a function that kills the server and starts it again at its address. It returns
// nil where that is not allowed: only a demo without a login, which only this machine can reach,
// has it.
func (f *flags) killer(command string, who *entrance, addr, address string, log *slog.Logger) func() {
	if command != "demo" || f.kit.restart == nil || who.mode != auth.ModeNone || !isLoopback(addr) {
		return nil
	}
	args := append(slices.Clone(f.kit.args), "--addr", address)
	return func() {
		log.Warn("killed from the page; the server starts again")
		err := f.kit.restart(args)
		log.Error("the server could not be started again", "err", err)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}
