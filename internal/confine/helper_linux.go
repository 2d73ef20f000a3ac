//go:build amd64 || arm64

package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// namespaces are those that the helper starts in.
func namespaces(network bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		// A user who is not root would lose them when the helper is executed.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER},
	}
	if network {
		a.Cloneflags |= syscall.CLONE_NEWNET
	}
	return a
}

// helper is the helper's main function. It does not return.
func helper() {
	e, err := run()
	if err != nil {
		e = End{Code: -1, Failed: err.Error()}
	}
	say(line{End: &e})
	os.Exit(0) // the kernel ends all processes of the namespace
}

func run() (End, error) {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return End{}, err
	}
	var j Job
	if err := json.Unmarshal(in, &j); err != nil {
		return End{}, err
	}
	if os.Getpid() != 1 {
		return End{}, errors.New("the helper is not in a namespace of its own")
	}
	// No signal that the command may send ends the helper. The others that would not are left out: those
	// about children come by the thousand.
	signals := make(chan os.Signal, 16)
	for s := unix.Signal(1); s <= 64; s++ {
		if s != unix.SIGCHLD && s != unix.SIGURG && s != unix.SIGCONT && s != unix.SIGWINCH {
			signal.Notify(signals, s)
		}
	}
	begin, found, err := leave(j)
	if err != nil {
		return End{}, err
	}
	if j.Ports == nil {
		if err := loopback(); err != nil {
			return End{}, fmt.Errorf("loopback: %w", err)
		}
	}
	_ = unix.Sethostname([]byte("sandbox"))
	if err := limit(j.Limits); err != nil {
		return End{}, err
	}
	// Whatever this server was started with is not for the command.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return End{}, fmt.Errorf("close inherited files: %w", err)
	}
	if begin.Full, err = full(j, found); err != nil {
		return End{}, err
	}
	w, err := newWatch(j, begin, found)
	if err != nil {
		return End{}, err
	}
	say(line{Start: &begin})
	pid, err := start(j, begin.Full, limitSysV(j.Limits))
	if err != nil {
		return End{}, err
	}
	return w.wait(pid, signals), nil
}

// full reports whether the folders of the command hold more than they may before it begins.
func full(j Job, found *survey) (bool, error) {
	tmp, err := look(Temporary)
	if err != nil {
		return false, err
	}
	n := tmp.bytes
	if found != nil {
		n += found.bytes
	}
	return n > j.Limits.Disk, nil
}

func say(l line) {
	text, _ := json.Marshal(l)
	_, _ = os.Stderr.Write(append(text, '\n'))
}

// wait waits for the command's end, and ends it when it goes beyond a limit.
func (w *watch) wait(pid int, signals <-chan os.Signal) End {
	ended := make(chan int, 1)
	go w.reap(pid, ended)
	tick := time.NewTicker(watchEvery)
	var late <-chan time.Time
	for {
		select {
		case code := <-ended:
			return w.last(End{Code: code})
		case e := <-w.ends:
			return w.last(e)
		case s := <-signals:
			if s == syscall.SIGTERM && late == nil {
				_ = unix.Kill(-1, unix.SIGTERM) // all but this process
				late = time.After(Grace)
			}
		case <-late:
			return w.last(End{Code: 128 + int(unix.SIGKILL)})
		case <-tick.C:
			over, err := w.over()
			if err != nil {
				w.fail(err)
			} else if over != "" {
				w.end(End{Limit: over})
			}
		}
	}
}

// reap waits for all processes of the namespace, and tells how the command ended.
func (w *watch) reap(command int, ended chan<- int) {
	defer close(w.gone)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // there is nobody left
			return
		case pid == command && status.Exited():
			ended <- status.ExitStatus()
		case pid == command && status.Signaled():
			ended <- 128 + int(status.Signal())
		}
	}
}

// start starts the command in a thread without privileges, and returns its process.
func start(j Job, full, sysv bool) (int, error) {
	null, err := os.OpenFile("/dev/null", os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close() //nolint:errcheck // nothing was written
	type started struct {
		pid int
		err error
	}
	result := make(chan started)
	go func() {
		// The thread ends with this goroutine, because it is not unlocked.
		runtime.LockOSThread()
		if err := confineThread(j, full, sysv); err != nil {
			result <- started{0, err}
			return
		}
		pid, err := syscall.ForkExec(j.Args[0], j.Args, &syscall.ProcAttr{
			Dir: Workspace, Env: j.Env, Files: []uintptr{null.Fd(), 1, 1}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		result <- started{pid, err}
	}()
	r := <-result
	if r.err != nil {
		return 0, fmt.Errorf("start %s: %w", j.Args[0], r.err)
	}
	return r.pid, nil
}

// confineThread gives up what the calling thread may do. What it starts inherits that.
func confineThread(j Job, full, sysv bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	// The server and the helper go first, also those that were started with a low priority themselves.
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // from 40, the highest, to 1
	if err == nil {
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-prio+5, 19))
	}
	if err != nil {
		return fmt.Errorf("lower its priority: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			if errors.Is(err, unix.EINVAL) && c > unix.CAP_AUDIT_READ {
				break // the kernel has no more of them
			}
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := restrict(j, full); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := filterCalls(j.Ports != nil, sysv); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

// loopback switches on the network device lo.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s) //nolint:errcheck // it is only used for the request
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req)
}

// leave makes the command's file system and leaves the one of the host. It returns what was in the
// workspace, unless that is only read.
func leave(j Job) (Start, *survey, error) {
	var begin Start
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return begin, nil, fmt.Errorf("mounts of its own: %w", err)
	}
	m := mounter{root: j.Root}
	m.do(unix.Mount("sandbox", j.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=755"))
	for _, dir := range []string{"/dev", "/dev/shm", "/etc", "/proc", "/run", "/var", Temporary, Workspace} {
		m.dir(dir)
	}
	for _, path := range slices.Concat(readable(j.Ports != nil), j.Readable) {
		m.show(path)
	}
	m.do(os.Symlink(Temporary, j.Root+"/var/tmp"))
	for _, name := range []string{"null", "full", "random", "urandom"} {
		m.device("/dev/" + name)
	}
	m.zeros("/dev/zero")
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		m.do(os.Symlink(to, j.Root+"/dev/"+name))
	}
	m.do(unix.Mount("shm", j.Root+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, fmt.Sprintf("size=%d,mode=1777", min(j.Limits.Memory/4, 64<<20))))
	m.do(unix.Mount("proc", j.Root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	m.bind(j.Temporary, Temporary, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	m.workspace(j)
	var found *survey
	if !j.Workspace.ReadOnly {
		begin, found = m.protect(j)
	}
	if m.err != nil {
		return begin, nil, m.err
	}
	if err := unix.Chdir(j.Root); err != nil {
		return begin, nil, err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return begin, nil, fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return begin, nil, fmt.Errorf("leave the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return begin, nil, err
	}
	// Not recursive: what is mounted on it stays as it is.
	return begin, found, unix.MountSetattr(-1, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
}

// mounter makes a file system below root. It does nothing more after an error.
type mounter struct {
	root string
	err  error
}

func (m *mounter) do(err error) {
	if m.err == nil && err != nil {
		m.err = fmt.Errorf("make the sandbox: %w", err)
	}
}

func (m *mounter) dir(path string) {
	if m.err == nil {
		m.do(os.MkdirAll(m.root+path, 0o755))
	}
}

// bind shows a file or folder of the host at a path that exists in the new root.
func (m *mounter) bind(host, path string, attrs uint64) {
	if m.err != nil {
		return
	}
	at := m.root + path
	if err := unix.Mount(host, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		m.do(fmt.Errorf("show %s: %w", path, err))
		return
	}
	if attrs != 0 {
		if err := unix.MountSetattr(-1, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attrs}); err != nil {
			m.do(fmt.Errorf("limit %s: %w", path, err))
		}
	}
}

// show shows a file or folder of the host at the same path, for reading. One that does not exist is
// left out. A link stays a link.
func (m *mounter) show(path string) {
	info, err := os.Lstat(path)
	if err != nil || m.err != nil {
		return
	}
	if _, err := os.Lstat(m.root + path); err == nil {
		return // below something that is shown already
	}
	m.dir(filepath.Dir(path))
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(path)
		m.do(err)
		m.do(os.Symlink(to, m.root+path))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			m.show(real)
		}
		return
	}
	m.point(path, info.IsDir())
	m.bind(path, path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// point makes what something is mounted on.
func (m *mounter) point(path string, dir bool) {
	if dir {
		m.dir(path)
		return
	}
	f, err := os.OpenFile(m.root+path, os.O_CREATE|os.O_WRONLY, 0o644)
	m.do(err)
	if err == nil {
		m.do(f.Close())
	}
}

func (m *mounter) device(path string) {
	m.point(path, false)
	m.bind(path, path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}

// zeros makes a file that reads as zeros. The device could be mapped as memory that no process has to
// itself, see [filter.memory]; this one ends with the space of the root.
func (m *mounter) zeros(path string) {
	m.point(path, false)
	if m.err == nil {
		m.do(os.Truncate(m.root+path, math.MaxInt64))
	}
}

// workspace shows the workspace.
func (m *mounter) workspace(j Job) {
	attrs := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if j.Workspace.ReadOnly {
		attrs |= unix.MOUNT_ATTR_RDONLY
	}
	m.bind(j.Workspace.Path, Workspace, attrs)
	if m.err != nil {
		return
	}
	var st unix.Stat_t
	if err := unix.Stat(m.root+Workspace, &st); err != nil {
		m.do(err)
		return
	}
	if st.Dev != j.Workspace.Device || st.Ino != j.Workspace.Inode {
		m.do(errors.New("the workspace was replaced"))
		return
	}
}
