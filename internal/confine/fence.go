//go:build unix

package confine

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Fence is around a program that is trusted with its own work but not with the names of files: one
// whose files and folders others may replace by links while it looks for them. It keeps its paths, its
// standard files, its network apart from TCP, and its rights. It reaches only the folders of the fence
// and what a [Job] may read of the system, however a path leads elsewhere. Everything that it starts is inside, too.
//
// It does not limit resources, and Unix sockets in the file system may be connected to. See [CanFence].
type Fence struct {
	Read  []string `json:"read,omitempty"`  // files and folders that may be read and run
	Write []string `json:"write,omitempty"` // folders that may be changed
	Ports []int    `json:"ports,omitempty"` // TCP ports that may be connected to, where the kernel knows how (Linux 6.7)
}

// Fenced is a fence that stands. Its folders are those that had its paths when it was built.
type Fenced struct{ rules *os.File }

// Build builds the fence. It is gone when nothing refers to it.
func (f Fence) Build() (*Fenced, error) {
	rules, err := f.rules(nil)
	if err != nil {
		return nil, err
	}
	return &Fenced{rules}, nil
}

// Inside calls do on a thread of its own inside the fence. The programs that do starts there are inside, too.
func (f *Fenced) Inside(do func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, so nothing else gets into the fence
		err := enter(f.rules)
		if err == nil {
			err = do()
		}
		ended <- err
	}()
	return <-ended
}

// fenceArgument is the first argument of a program that fences itself in.
const fenceArgument = "fenced-program"

func init() {
	if len(os.Args) < 4 || os.Args[1] != fenceArgument {
		return
	}
	var f Fence
	err := json.Unmarshal([]byte(os.Args[2]), &f)
	if err == nil {
		err = f.become(os.Args[3:])
	}
	fmt.Fprintln(os.Stderr, "the program could not be started inside its fence:", err)
	os.Exit(126)
}

// Around returns the arguments that start a program inside the fence. The paths that it is made of can
// be seen by other users of this machine.
func (f Fence) Around(args []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return append([]string{self, fenceArgument, string(in)}, args...), nil
}
