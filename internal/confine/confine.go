//go:build unix

// Package confine runs a command that can change and read only what it is given. It works on Linux
// 6.2 and later, as any user, where user namespaces are allowed.
//
// The program starts itself as a helper in namespaces of its own: of users, processes, mounts, IPC,
// host names and, unless the job may use the network, networks. The helper makes a file system
// of what the job names and leaves the old one, limits resources, and starts the command in a
// thread that has given up all privileges: no capability is left, no new one can be gained, Landlock
// allows to write only below the workspace and the temporary folder, and a filter rejects the
// system calls that reach beyond a namespace. Then it watches memory, the number of
// processes and the disk, and ends everything when one goes beyond its limit.
//
// The helper is the first process of its namespace, so nothing that the command starts outlives it, in
// whatever session, process group or environment it runs. Package proc ends the helper when this
// process ends.
//
// Some files of a workspace decide what agents are told, see [Job.Guarded], or what git runs. Those that are
// there cannot be changed. If a command makes another one, it is renamed and the command is ended. A
// repository that a command makes may stay if its settings are harmless and it has no hooks. The last look
// at the workspace is after the last process has ended, whatever ended it; [Job.Result] takes it if the
// helper was killed. When this process is killed with the helper, there is none.
//
// Where something cannot be looked at or counted, the command is ended.
//
// What is not limited: the time that a command takes (its caller ends it), what commands of the
// same workspace do to one another's files, and memory of the kernel, except by the number of open files.
//
// Any program with this package can be the helper, a test, too: its init function sees that it was started as
// one, and main is not reached.
package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/proc"
)

// Where the command finds its folders.
const (
	Workspace = "/workspace"
	Temporary = "/tmp"
)

// Job is a command with all that it may use.
type Job struct {
	Args []string `json:"args"` // the program, by its full path, and its arguments
	Env  []string `json:"env"`  // its whole environment, as "NAME=value"

	Root      string `json:"root"`      // an empty folder, which several jobs may share
	Workspace Folder `json:"workspace"` // will be /workspace, where the command runs
	Temporary string `json:"temporary"` // a folder, which will be /tmp
	// Readable are further files and folders that the command may read and run, by their paths, in
	// addition to those of the system.
	Readable []string `json:"readable,omitempty"`
	// Ports are the TCP ports to which it may connect, anywhere. Nil: there is no network but a
	// loopback of its own.
	Ports []int `json:"ports,omitempty"`
	// Guarded are names that nothing in the workspace's first level may have, unless it is there
	// already. That cannot be changed then.
	Guarded []string `json:"guarded,omitempty"`

	Limits Limits `json:"limits"`
}

// Folder is a folder by its path and identity, so that another one at the same path is not used.
type Folder struct {
	Path     string `json:"path"`
	Device   uint64 `json:"device"`
	Inode    uint64 `json:"inode"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Limits limit what a command uses together with all that it starts.
type Limits struct {
	Memory    int64 `json:"memory"`    // bytes
	Processes int   `json:"processes"` // counting threads
	// Disk is how many bytes the workspace and the temporary folder may hold, together with files that
	// have no name any more; also the largest file. If they hold more at the start, the command can only
	// read and remove.
	Disk int64 `json:"disk"`
}

// Grace is how long a command may take to end when it is told to.
const Grace = 2 * time.Second

// looking is how long the last look at the folders may take.
const looking = 20 * time.Second

// End is how a command ended.
type End struct {
	Code   int    `json:"code"`             // its exit code; 128 and the signal's number if a signal ended it
	Limit  Limit  `json:"limit,omitempty"`  // what it went beyond; empty: nothing
	Name   string `json:"name,omitempty"`   // for LimitGuarded: the name that something had; for LimitWatch: why
	Moved  string `json:"moved,omitempty"`  // for LimitGuarded: the name that it has now; empty: it is gone
	Failed string `json:"failed,omitempty"` // why the command was not started; empty: it was
	Full   bool   `json:"full,omitempty"`   // it could only read and remove, see Limits.Disk
}

// Limit says why a command was ended.
type Limit string

// The limits.
const (
	LimitMemory    Limit = "memory"
	LimitProcesses Limit = "processes"
	LimitDisk      Limit = "disk"
	LimitFiles     Limit = "files"
	LimitGuarded   Limit = "guarded"
	LimitWatch     Limit = "watch" // nobody knows what it uses or has made
)

// argument is the first argument of the helper.
const argument = "confined-command"

// Not every main function could be relied on to begin with a call: those of tests are strangers'.
func init() {
	if len(os.Args) == 2 && os.Args[1] == argument {
		helper()
	}
}

// Spec returns how package proc starts the job. The caller sets Stdout, which gets what the command
// writes, and Stderr, which gets what [Job.Result] reads.
func (j Job) Spec() (proc.Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return proc.Spec{}, err
	}
	in, err := json.Marshal(j)
	if err != nil {
		return proc.Spec{}, err
	}
	return proc.Spec{
		Args: []string{self, argument}, Dir: "/", Env: []string{"GOMAXPROCS=2", "PATH=/usr/bin:/bin"},
		Stdin: strings.NewReader(string(in)), Attr: namespaces(j.Ports == nil), Grace: Grace + looking,
	}, nil
}

// Result reads how the command ended from what the helper wrote to its standard error. If the helper was
// killed before it could say so, the workspace is looked at here.
func (j Job) Result(said string) (End, error) {
	var start *Start
	for text := range strings.Lines(said) {
		var l line
		if json.Unmarshal([]byte(text), &l) != nil {
			continue
		}
		if l.End != nil {
			return *l.End, nil
		}
		if l.Start != nil {
			start = l.Start
		}
	}
	err := fmt.Errorf("the sandbox ended without a result: %.1000q", said)
	if start == nil || j.Workspace.ReadOnly {
		return End{Code: -1}, err
	}
	name, moved, lost := j.settle(*start)
	if lost != nil {
		return End{Code: -1}, errors.Join(err, lost)
	}
	if name != "" {
		return End{Code: 137, Limit: LimitGuarded, Name: name, Moved: moved}, nil
	}
	return End{Code: -1}, err
}

// line is what the helper says on a line.
type line struct {
	Start *Start `json:"start,omitempty"`
	End   *End   `json:"end,omitempty"`
}

// Start is what a workspace had when a command began, which cannot change that.
type Start struct {
	Kept  []Kept   `json:"kept,omitempty"`
	Named []string `json:"named,omitempty"` // paths that git's settings or links name: nothing else may be there
	Full  bool     `json:"full,omitempty"`  // see End
}

// Kept is a file or folder by its identity.
type Kept struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Born   int64  `json:"born"` // nanoseconds; 0: the file system does not say
}

// folders and files of the system that a command may read and run, where they exist.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// etc are the files of /etc that a command may read. The others may hold secrets.
var etc = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "group", "host.conf", "hosts", "inputrc",
	"java-21-openjdk", "java-17-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "locale.alias", "locale.conf", "magic", "mime.types",
	"nsswitch.conf", "os-release", "passwd", "pki/ca-trust", "pki/tls/certs", "protocols", "python3", "services", "shells", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// networked are those that only a command with a network needs.
var networked = []string{"resolv.conf", "gai.conf"}

func readable(network bool) []string {
	list := slices.Clone(system)
	for _, name := range etc {
		list = append(list, "/etc/"+name)
	}
	if network {
		for _, name := range networked {
			list = append(list, "/etc/"+name)
		}
	}
	return list
}
