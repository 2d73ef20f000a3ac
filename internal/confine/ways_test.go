//go:build linux && (amd64 || arm64)

package confine_test

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-server/parley/internal/confine"
)

// way is a way out of a workspace that somebody may try. It prints ESCAPED if it leads out, and tried
// in any case, unless a limit ends it.
type way struct {
	name   string
	script string
	limit  confine.Limit // that ends it
	disk   int64         // another limit than the box has
}

// native is a way that needs system calls: attack runs it.
func native(name string) way { return way{name: name, script: `CONFINE_ATTACK=` + name + ` $SELF`} }

// evil writes settings with which git runs a program.
const evil = `printf '[core]\n\tfsmonitor = ./x\n'`

// ways are tried one after the other in one workspace. $DIR is the folder around it on the host, which has
// the file secret; $PID is the process of the server, $VICTIM a program of its user with a secret in its
// environment.
var ways = []way{
	{name: "a path", script: `cat $DIR/secret $DIR/workspace/../secret ../secret ../../secret`},
	{name: "a symbolic link", script: `ln -s $DIR/secret out; ln -s / root; ln -s .. up; cat out root$DIR/secret up/secret; echo x > out && cat $DIR/secret`},
	{name: "a link in a path", script: `ln -s $DIR d; echo evil > d/made; test -e $DIR/made && echo ESCAPED`},
	{name: "a hard link", script: `ln $DIR/secret hard; ln /etc/passwd hard2 && echo ESCAPED; ln /usr/bin/env hard3 && echo ESCAPED; cat hard`},
	{name: "/proc/self/root", script: `cat /proc/self/root$DIR/secret /proc/1/root$DIR/secret /proc/$PID/root$DIR/secret`},
	{name: "/proc/PID/cwd", script: `ls /proc/1/cwd/ >/dev/null; cat /proc/1/cwd/secret /proc/1/cwd$DIR/secret /proc/$PID/cwd/confine.go && echo ESCAPED`},
	{name: "environments", script: `cat /proc/$PID/environ /proc/$VICTIM/environ /proc/1/environ /proc/*/environ | tr '\0' '\n' | grep hunter2`},
	{name: "command lines", script: `test -e /proc/$PID && cat /proc/$PID/cmdline && echo ESCAPED; test -e /proc/$VICTIM/cmdline && grep -q sleep /proc/$VICTIM/cmdline && echo ESCAPED`},
	{name: "open files of others", script: `ls -l /proc/1/fd; for f in /proc/1/fd/*; do dd if="$f" iflag=nonblock bs=64k count=1 </dev/null; done 2>&1 | grep hunter2`},
	{name: "memory of others", script: `head -c 10 /proc/1/mem >/dev/null && echo ESCAPED; cat /proc/1/maps && echo ESCAPED; head -c 1 /dev/mem /dev/kmem /proc/kcore && echo ESCAPED`},
	{name: "its environment", script: `env | grep -i hunter2; env | grep PARLEY && echo ESCAPED`},
	{name: "a temporary folder of others", script: `TMPDIR=$DIR mktemp && echo ESCAPED; TMPDIR=$DIR/../.. mktemp && echo ESCAPED; ls /tmp/* /var/tmp | grep -i secret && echo ESCAPED`},
	{name: "LD_PRELOAD", script: `echo 'not a library' > evil.so; LD_PRELOAD=./evil.so /bin/true; LD_PRELOAD=$PWD/evil.so su -c id && echo ESCAPED; echo /workspace/evil.so > /etc/ld.so.preload && echo ESCAPED`},
	{name: "a set-user-id program for later", script: `cp /bin/sh s; chmod 4755 s && echo ESCAPED; chmod g+s s && echo ESCAPED; install -m 6755 /bin/sh t && echo ESCAPED; find . -perm /6000 | grep . && echo ESCAPED; rm -f s t`},
	{name: "set-user-id programs", script: `cp /bin/sh s; chmod 4755 s; su root -c "cat $DIR/secret"; mount 2>/dev/null | head -1 >/dev/null; sudo -n true && echo ESCAPED; ./s -c "cat $DIR/secret"; rm s`},
	{name: "passwords and keys", script: `cat /etc/shadow /etc/sudoers /root/.ssh/id_rsa /root/.bashrc /home/*/.ssh/* && echo ESCAPED; ls /root /home && echo ESCAPED`},
	{name: "the system's files", script: `for d in / /etc /usr /usr/bin /bin /lib /dev /proc /run /var; do touch $d/parley-was-here && echo ESCAPED; done; echo x >> /etc/passwd && echo ESCAPED; rm /bin/true && echo ESCAPED; chmod 777 /etc/passwd && echo ESCAPED`},
	{name: "settings of the kernel", script: `for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/sys/vm/drop_caches /proc/sys/kernel/modprobe /proc/sys/kernel/shmall /proc/sys/fs/binfmt_misc/register; do echo "|/workspace/x" > $f && echo ESCAPED; done`},
	{name: "oom_score_adj", script: `echo -1000 > /proc/self/oom_score_adj && echo ESCAPED; echo 1000 > /proc/1/oom_score_adj && echo ESCAPED`},
	{name: "cgroups", script: `mkdir /sys/fs/cgroup/evil && echo ESCAPED; ls /sys/fs/cgroup && echo ESCAPED; mkdir c; mount -t cgroup2 none c && echo ESCAPED`},
	{name: "mounts", script: `mkdir -p m; mount --bind / m && echo ESCAPED; mount -t tmpfs x m && echo ESCAPED; mount -t proc x m && echo ESCAPED; umount -l /workspace && echo ESCAPED; mount -o remount,rw / && echo ESCAPED; mount -o remount,rw /usr && echo ESCAPED`},
	{name: "user namespaces", script: `unshare -Ur true && echo ESCAPED; unshare -m true && echo ESCAPED; unshare -n true && echo ESCAPED; nsenter -t 1 -m true && echo ESCAPED; nsenter -t $PID -a true && echo ESCAPED`},
	{name: "chroot", script: `chroot / true && echo ESCAPED; pivot_root . . && echo ESCAPED`},
	{name: "device nodes", script: `mknod disk b 254 0 && echo ESCAPED; mknod mem c 1 1 && echo ESCAPED; mknod /tmp/disk b 8 0 && echo ESCAPED; ls /dev/vda /dev/sda /dev/kvm /dev/fuse && echo ESCAPED`},
	{name: "a fifo", script: `cd /tmp; mkfifo f && (echo x > f & cat f >/dev/null); echo x > $DIR/fifo && echo ESCAPED; rm f`},
	{name: "a pipe for which git would wait", script: `mkfifo .gitattributes && echo ESCAPED; mkfifo /tmp/p && mv /tmp/p .gitignore; test -p .gitignore && echo ESCAPED; rm -f /tmp/p .gitignore`},
	{name: "signals to the server", script: `kill -KILL $PID && echo ESCAPED; kill -TERM $VICTIM && echo ESCAPED; kill -0 $PID && echo ESCAPED; kill -STOP -1; kill -TERM 1`},
	{name: "cron and at", script: `crontab -l; echo '* * * * * touch /tmp/x' | crontab - && echo ESCAPED; echo 'touch x' | at now && echo ESCAPED; echo x > /etc/cron.d/x && echo ESCAPED; ls /var/spool/cron && echo ESCAPED; systemctl list-units && echo ESCAPED; systemd-run true && echo ESCAPED`},
	{name: "containers", script: `docker ps && echo ESCAPED; ls /var/run/docker.sock /run/docker.sock /run/containerd /run/dbus /run/systemd && echo ESCAPED`},
	{name: "core dumps", script: `ulimit -c unlimited && echo ESCAPED; cd /tmp; sh -c 'kill -SEGV $$'; ls core* && echo ESCAPED`},
	{name: "other limits", script: `ulimit -f unlimited && echo ESCAPED; ulimit -d unlimited && echo ESCAPED; ulimit -u unlimited && echo ESCAPED; renice -n -10 $$ && echo ESCAPED`},
	{name: "programs of the server", script: `printf '#!/bin/sh\ntouch /tmp/hook' > .git/hooks/post-commit && echo ESCAPED; mkdir .git/hooks/x && echo ESCAPED; rm -rf .git/hooks && echo ESCAPED; mv .git/hooks .git/h && echo ESCAPED`},
	{name: "git's settings", script: `git config core.fsmonitor /workspace/x && echo ESCAPED; echo '[core]' >> .git/config && echo ESCAPED; rm -f .git/config && echo ESCAPED; mv .git .git2 && echo ESCAPED; ln -sf x .git/config && echo ESCAPED; rm -rf .git && echo ESCAPED; test -f .git/config || echo ESCAPED`},
	{name: "instructions that are there", script: `echo evil >> CLAUDE.md && echo ESCAPED; rm -f CLAUDE.md && echo ESCAPED; mv CLAUDE.md x && echo ESCAPED; echo x > new; mv -f new CLAUDE.md && echo ESCAPED; echo x > .claude/settings.json && echo ESCAPED; mkdir -p .claude/skills/evil && echo ESCAPED; mv .claude y && echo ESCAPED; rm -f new`},
	{name: "a new .mcp.json", script: `echo '{}' > .mcp.json; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "instructions by another name", script: `echo evil > x; mv x AGENTS.md; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "a folder of settings", script: `mkdir -p z/skills/evil; echo x > z/skills/evil/SKILL.md; mv z .agents; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "instructions at the last moment", script: `echo x > CLAUDE.local.md`, limit: confine.LimitGuarded},
	{name: "a link as instructions", script: `ln -s a.txt .mcp.json; exit 0`, limit: confine.LimitGuarded},
	{name: "git's common folder", script: `mkdir -p evil/objects evil/refs; ` + evil + ` > evil/config; echo ../evil > .git/commondir; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "git's settings of a work tree", script: evil + ` > .git/config.worktree; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "a submodule's settings", script: `git init -q --bare .git/modules/m; ` + evil + ` >> .git/modules/m/config`, limit: confine.LimitGuarded},
	{name: "a program of a rebase", script: `mkdir .git/rebase-merge; echo 'exec ./x' > .git/rebase-merge/git-rebase-todo`, limit: confine.LimitGuarded},
	{name: "a repository below with a program", script: `git init -q below; git -C below config core.fsmonitor ./x`, limit: confine.LimitGuarded},
	{name: "a repository below with a hook", script: `git init -q hooked; echo x > hooked/.git/hooks/post-checkout`, limit: confine.LimitGuarded},
	{name: "a bare repository with a program", script: `git init -q --bare bare; ` + evil + ` >> bare/config`, limit: confine.LimitGuarded},
	{name: "git's logs elsewhere", script: `git init -q logs; ln -s $DIR logs/.git/logs; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "a log of git's elsewhere", script: `git init -q log; mkdir -p log/.git/logs/refs/heads; ln -s $DIR/secret log/.git/logs/HEAD; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "a file of git's elsewhere", script: `ln -s $DIR/secret .git/shallow; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "objects of others", script: `git init -q objects; echo $DIR/objects > objects/.git/objects/info/alternates; sleep 30; echo ESCAPED`, limit: confine.LimitGuarded},
	{name: "settings with a second name", script: `git init -q twice; ln twice/.git/config second`, limit: confine.LimitGuarded},
	{name: "a repository elsewhere", script: `mkdir file; echo 'gitdir: /tmp/evil' > file/.git`, limit: confine.LimitGuarded},
	{name: "a link to a repository elsewhere", script: `mkdir link; ln -s /tmp/evil link/.git`, limit: confine.LimitGuarded},
	{name: "a repository behind a limit", script: `git init -q behind; ` + evil + ` >> behind/.git/config; while :; do sleep 60 & done`, limit: confine.LimitGuarded},
	{name: "a repository that cannot be read", script: `git init -q hidden; ` + evil + ` >> hidden/.git/config; chmod 0 hidden/.git hidden`, limit: confine.LimitGuarded},
	{name: "instructions and a signal to the helper", script: `for s in QUIT ABRT SEGV HUP INT USR1; do kill -$s 1; done; echo x > CLAUDE.local.md; kill -QUIT 1; kill -ABRT 1; kill -SEGV 1`, limit: confine.LimitGuarded},
	{name: "setsid", script: `setsid sh -c 'sleep 1000; touch /workspace/late' & (setsid setsid sleep 1001 &) ; nohup sleep 1002 >/dev/null 2>&1 & echo tried`},
	{name: "a daemon without its environment", script: `env -i /usr/bin/setsid /bin/sh -c 'while :; do /bin/sleep 1; done' >/dev/null 2>&1 & env -i /bin/sh -c '(/bin/sleep 1003 >/dev/null 2>&1 &)'`},
	{name: "a fork bomb", script: `b() { b | b & }; (b; while :; do b; done) & while :; do :; done`, limit: confine.LimitProcesses},
	{name: "many threads", script: `(i=0; while [ $i -lt 500 ]; do sleep 60 & i=$((i+1)); done) & while :; do :; done`, limit: confine.LimitProcesses},
	{name: "memory", script: `CONFINE_ATTACK=memory $SELF & CONFINE_ATTACK=memory $SELF & CONFINE_ATTACK=memory $SELF & CONFINE_ATTACK=memory $SELF; wait`, limit: confine.LimitMemory},
	{name: "page tables", script: `CONFINE_ATTACK=tables $SELF & CONFINE_ATTACK=tables $SELF & wait`, limit: confine.LimitMemory},
	{name: "memory of /dev/shm", script: `head -c 2G /dev/zero > /dev/shm/x && echo ESCAPED; rm -f /dev/shm/x`},
	{name: "a huge file", script: `trap '' XFSZ; head -c 1G /dev/zero > /tmp/huge && echo ESCAPED; test $(stat -c %s /tmp/huge) -le 33554432 || echo ESCAPED; sleep 30; echo ESCAPED`, limit: confine.LimitDisk, disk: 32 << 20},
	{name: "many huge files", script: `trap '' XFSZ; for i in 1 2 3 4 5 6 7 8 9; do head -c 30M /dev/zero > /tmp/huge$i; done; sleep 30; echo ESCAPED`, limit: confine.LimitDisk, disk: 32 << 20},
	{name: "many small files", script: `mkdir /tmp/small; cd /tmp/small; seq 8000 | xargs touch; sleep 30; echo ESCAPED`, limit: confine.LimitDisk, disk: 32 << 20},
	{name: "files without a name", script: `trap '' XFSZ; exec 8>/tmp/a 9>/tmp/b; rm /tmp/a /tmp/b; head -c 30M /dev/zero >&8; head -c 30M /dev/zero >&9; sleep 30; echo ESCAPED`, limit: confine.LimitDisk, disk: 32 << 20},
	{name: "space that is not written", script: `fallocate -l 60M /tmp/space && test $(stat -c %b /tmp/space) -gt 100 && echo ESCAPED; rm -f /tmp/space`},
	{name: "many open files", script: `CONFINE_ATTACK=files $SELF & CONFINE_ATTACK=files $SELF & CONFINE_ATTACK=files $SELF & wait; sleep 30; echo ESCAPED`, limit: confine.LimitFiles},
	{name: "a sparse file", script: `truncate -s 1T sparse && echo ESCAPED; rm -f sparse`},
	{name: "much output", script: `head -c 100M /dev/zero`},
	{name: "inotify and listings of elsewhere", script: `ls -la $DIR / /.. /workspace/.. | grep -i secret && echo ESCAPED; find / -path "$DIR/*" 2>/dev/null | grep -q . && echo ESCAPED`},
	{name: "the folders around it", script: `rmdir /workspace && echo ESCAPED; mv /workspace /w && echo ESCAPED; rm -rf /tmp && echo ESCAPED; test -d /workspace || echo ESCAPED`},
	{name: "a terminal", script: `echo x > /dev/tty && echo ESCAPED; ls /dev/pts/0 /dev/console && echo ESCAPED; echo tried`},
	{name: "HTTP of the host", script: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT' && echo ESCAPED; curl -s -m 2 http://127.0.0.1:$PORT && echo ESCAPED; curl -s -m 2 http://169.254.169.254/ && echo ESCAPED`},
	native("tcp"), native("tcp6"), native("udp"), native("raw"), native("packet"), native("vsock"), native("netlink"), native("metadata"), native("dns"),
	native("unix"), native("abstract"), native("ptrace"), native("vmread"), native("iouring"), native("mountapi"), native("handle"), native("namespace"), native("clone"), native("keys"),
	native("pidfd"), native("bpf"), native("tiocsti"), native("reboot"), native("landlock"), native("descriptors"), native("capabilities"), native("x32"),
	native("modes"), native("prlimit"), native("priority"), native("scheduler"), native("shared"), native("memfd"), native("zero"), native("sysv"), native("hugepages"),
}

// TestWaysOut tries more than 100 ways out of a workspace, with the real kernel. None leads out, and
// nothing is left running.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	port, reached := listeners(t, b.dir)
	victim := exec.Command("/bin/sleep", "1000")
	victim.Env = []string{"SECRET=hunter2"}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	body, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.space, "attacker"), body, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.job.Env = append(b.job.Env, "DIR="+b.dir, "SELF=/workspace/attacker", fmt.Sprint("PID=", os.Getpid()), fmt.Sprint("VICTIM=", victim.Process.Pid), fmt.Sprint("PORT=", port))
	if out, e := b.run(`git init -q .; echo a > a.txt`); e.Code != 0 {
		t.Fatal(out)
	}
	for name, text := range map[string]string{"CLAUDE.md": "good", ".claude/settings.json": "{}"} {
		path := filepath.Join(b.space, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, e := b.run(`CONFINE_ATTACK=own $SELF`); strings.Contains(out, "BROKEN") || !strings.Contains(out, "own was tried") {
		t.Errorf("a loopback of its own: %+v, %s", e, out)
	}
	before := outside(t, b.dir)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			b.t = t
			b.clear()
			b.job.Limits.Disk = cmp.Or(w.disk, 64<<20)
			out, e := b.run(w.script + "\necho tried")
			if strings.Contains(out, "ESCAPED") || strings.Contains(out, "hunter2") {
				t.Errorf("it leads out: %s", out[max(0, len(out)-2000):])
			}
			if e.Limit != w.limit || e.Failed != "" {
				t.Errorf("it ended with %+v, want the limit %q: %s", e, w.limit, out[max(0, len(out)-500):])
			}
			if w.limit == "" && !strings.Contains(out, "tried") && e.Code != 137 {
				t.Errorf("it was not tried: %+v, %q", e, out)
			}
			if now := outside(t, b.dir); !slices.Equal(now, before) {
				t.Errorf("outside is %q, was %q", now, before)
			}
			for _, name := range b.job.Guarded {
				_, err := os.Lstat(filepath.Join(b.space, name))
				if there := err == nil; there != (name == "CLAUDE.md" || name == ".claude") {
					t.Errorf("%s is there: %v", name, there)
				}
			}
			if n := reached.Load(); n != 0 {
				t.Errorf("it reached %d services of the host", n)
				reached.Store(0)
			}
			if left := b.running(); len(left) > 0 {
				t.Errorf("it left running: %q", left)
			}
		})
	}
	if body, _ := os.ReadFile(b.secret); string(body) != "hunter2" {
		t.Error("the file outside was changed")
	}
	if body, _ := os.ReadFile(filepath.Join(b.space, "CLAUDE.md")); string(body) != "good" {
		t.Error("the instructions were changed")
	}
	if err := victim.Process.Signal(alive); err != nil {
		t.Error("the victim: ", err)
	}
}

// listeners listen where a command must not arrive, and count who does.
func listeners(t *testing.T, dir string) (port int, reached *atomic.Int64) {
	t.Helper()
	reached = &atomic.Int64{}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = tcp.Addr().(*net.TCPAddr).Port
	file, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	abstract, err := net.Listen("unix", fmt.Sprint("@parley-test-", port))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []net.Listener{tcp, file, abstract} {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				reached.Add(1)
				_ = c.Close()
			}
		}()
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	go func() {
		buf := make([]byte, 100)
		for {
			if _, _, err := udp.ReadFrom(buf); err != nil {
				return
			}
			reached.Add(1)
		}
	}()
	return port, reached
}

// outside lists what is beside the workspace.
func outside(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	root, err := os.ReadDir(filepath.Join(dir, "root"))
	if err != nil || len(root) > 0 {
		t.Errorf("the folder for roots has %d entries, %v", len(root), err)
	}
	return list
}

// clear empties the temporary folder.
func (b *box) clear() {
	b.t.Helper()
	if err := errors.Join(os.RemoveAll(b.job.Temporary), os.Mkdir(b.job.Temporary, 0o755)); err != nil {
		b.t.Fatal(err)
	}
}

// running lists processes that see this box's workspace as their own.
func (b *box) running() (left []string) {
	b.t.Helper()
	for _, pid := range b.pids() {
		cmd, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		left = append(left, string(cmd))
	}
	return left
}

// pids are the processes in the sandbox. The helper is the first one.
func (b *box) pids() (list []string) {
	b.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range all {
		// Those of other tests see another workspace.
		if f, err := confine.FolderAt(dir + "/root" + confine.Workspace); err != nil || f.Inode != b.job.Workspace.Inode || f.Device != b.job.Workspace.Device {
			continue
		}
		status, _ := os.ReadFile(dir + "/status")
		if pid := filepath.Base(dir); nsPID.FindString(string(status)) != "" {
			list = slices.Insert(list, 0, pid)
		} else {
			list = append(list, pid)
		}
	}
	return list
}

// nsPID is a line of a process that is the first of its namespace.
var nsPID = regexp.MustCompile(`(?m)^NSpid:\t[0-9\t]*\t1$`)
