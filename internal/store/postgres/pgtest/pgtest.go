//go:build unix

// Package pgtest starts PostgreSQL for tests, from the binaries that are
// installed. A test that needs it fails where there are none and says what to
// install; it is not skipped.
//
// [Start] gives a test an empty database of its own, in a cluster that the test
// process starts once and that forgets everything in a crash (fsync is off).
// [New] starts a cluster that is the test's alone, writes to the disk as a real
// one does, and can be killed and started again.
//
// Clusters listen on a socket in their own folder and on no port. Each has a
// watcher, a shell that waits for the end of a pipe which the test process
// holds: however this process ends, the watcher stops the cluster and removes
// its folder. As root everything runs as user postgres, since PostgreSQL refuses
// to run as root.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds each thing that a cluster is asked to do: far more than it
// takes on a machine that has other things to do.
const patience = time.Minute

// Server is a cluster.
type Server struct {
	dir  string // its data, its socket, its log
	bin  string
	args []string
	last atomic.Int64 // number of the last database
	// copying is how to copy the template: since version 15 through the log unless
	// told otherwise, which takes three times as long without fsync.
	copying string

	mu     sync.Mutex
	exited chan struct{} // of the process that runs now
	keep   *os.File      // the watcher's pipe
	watch  *exec.Cmd
}

var shared = sync.OnceValues(func() (*Server, error) {
	return start("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_wal_size=4GB")
})

// Start returns the address of a new, empty database that is dropped when the
// test ends.
func Start(t testing.TB) (dsn string) {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.Database(t)
}

// New starts a cluster with fsync that is stopped when the test ends. Settings
// are such as "max_connections=20".
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	var args []string
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	s, err := start(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return s
}

// Run is New for a program that is no test, which calls stop at its end.
func Run() (s *Server, stop func() error, err error) {
	if s, err = start(); err != nil {
		return nil, nil, err
	}
	return s, s.stop, nil
}

// Database makes an empty database, which is dropped when the test ends, and
// returns its address. Its owner is a role without any other right.
func (s *Server) Database(t testing.TB) (dsn string) {
	t.Helper()
	dsn, drop, err := s.Make()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Errorf("drop a database: %v", err)
		}
	})
	return dsn
}

// Make is Database for a program that is no test, which calls drop.
func (s *Server) Make() (dsn string, drop func() error, err error) {
	name := fmt.Sprintf("test%d", s.last.Add(1))
	if err := s.Admin("CREATE DATABASE " + name + " OWNER parley TEMPLATE empty" + s.copying); err != nil {
		return "", nil, err
	}
	return s.address("parley", name), func() error { return s.Admin("DROP DATABASE " + name + " WITH (FORCE)") }, nil
}

func (s *Server) address(role, database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s", role, database, s.dir)
}

// Admin runs statements as the superuser, in a database of its own.
func (s *Server) Admin(queries ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.address("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, q := range queries {
		if _, err := c.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// start makes a cluster and starts it.
func start(args ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	if err := s.guard(); err != nil {
		return nil, err
	}
	s.args = append([]string{
		"-D", s.data(), "-c", "unix_socket_directories=" + dir, "-c", "listen_addresses=", "-c", "max_connections=300",
		"-c", "shared_buffers=64MB", "-c", "logging_collector=off", "-c", "log_statement=none",
	}, args...)
	if err := s.setUp(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

func (s *Server) setUp() error {
	if err := chown(s.dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := s.command(ctx, "initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	c.WaitDelay = time.Second // those that it started may hold its output
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.run(); err != nil {
		return err
	}
	if version(s.bin) >= 15 {
		s.copying = " STRATEGY FILE_COPY"
	}
	return s.Admin("CREATE ROLE parley LOGIN", "CREATE DATABASE empty")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// guard starts the watcher. It ends the cluster by the process id in its data
// folder, which PostgreSQL keeps up to date, and waits up to 10 s for it.
func (s *Server) guard() error {
	const script = `cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && [ "$pid" -gt 1 ] && kill -QUIT "$pid" 2>/dev/null
n=0
while [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid" 2>/dev/null && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
rm -rf "$1"`
	in, keep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	// Its output must not be ours: go test waits for every process that holds its own.
	s.watch = exec.Command("sh", "-c", script, "sh", s.dir)
	s.watch.Stdin = in
	s.watch.Dir = "/"
	apart(s.watch)
	s.keep = keep
	return s.watch.Start()
}

func (s *Server) stop() error {
	if err := s.keep.Close(); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = s.watch.Process.Kill() })
	defer late.Stop()
	return s.watch.Wait()
}

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	asPostgres(c)
	return c
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	deadline := time.Now().Add(patience)
	for {
		c := s.command(context.Background(), "postgres", s.args...) // until the watcher ends it
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			return err
		}
		exited := make(chan struct{})
		go func() { _ = c.Wait(); close(exited) }()
		for {
			err = s.Admin()
			if err == nil {
				s.exited = exited
				return nil
			}
			if time.Now().After(deadline) {
				text, _ := os.ReadFile(log.Name())
				return fmt.Errorf("it does not answer: %w\n%s", err, text)
			}
			select {
			case <-exited:
				// The processes of one that was killed are not all gone yet: again.
			case <-time.After(10 * time.Millisecond):
				continue
			}
			break
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Kill ends PostgreSQL in the middle of what it does (SIGQUIT: nothing is
// finished or written, as in a crash) and returns when all of its processes are
// gone. After SIGKILL they would serve their clients for a moment longer.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(raw), &pid); err != nil || pid <= 1 {
		t.Fatalf("a process id: got %q, %v", raw, err)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.SIGQUIT)
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Fatal("PostgreSQL does not end")
	}
}

// Restart starts PostgreSQL after Kill and returns when it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// binaries finds the folder of initdb and postgres: beside the one in PATH, by
// pg_config, and where Debian puts them, the newest first.
func binaries() (string, error) {
	var dirs []string
	if p, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(debian, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range append(dirs, debian...) {
		if isFile(filepath.Join(dir, "initdb")) && isFile(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("there are no initdb and postgres in PATH, by pg_config or under /usr/lib/postgresql: apt-get install postgresql")
}

// version is the number in the path of Debian's binaries, 0 elsewhere.
func version(dir string) (n int) {
	_, _ = fmt.Sscan(filepath.Base(filepath.Dir(dir)), &n)
	return n
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
