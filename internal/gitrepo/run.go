package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/proc"
)

const (
	// localTime is how long a command on this machine may take: the first commit of a large vault
	// on a slow disk takes minutes.
	localTime = 10 * time.Minute
	// remoteTime is how long a command that speaks with a remote may take. A remote that sends
	// nothing for silence is given up before.
	remoteTime = 5 * time.Minute
	silence    = 20 // seconds

	// grace is how long a command has to remove its locks when it is ended.
	grace = 3 * time.Second

	maxOutput = 64 << 20 // bytes that a command may print: the names of a million files
	maxErrors = 16 << 10 // bytes of its messages that are kept
)

// overrides hold in every command, and in those that it starts for other repositories. The
// configuration of the repository itself is not read at all, see shadow.
var overrides = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.alternateRefsCommand", ":"}, // a shell's command that does nothing
	{"core.attributesFile", "/dev/null"},
	{"core.excludesFile", "/dev/null"},
	{"core.pager", "cat"},
	{"core.editor", "false"},
	{"core.quotePath", "false"},
	{"credential.helper", ""},
	{"diff.ignoreSubmodules", "all"}, // or git would run git in them
	{"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"push.recurseSubmodules", "no"},
	{"protocol.allow", "never"},
	{"protocol.file.allow", "always"},
	{"protocol.git.allow", "always"},
	{"protocol.http.allow", "always"},
	{"protocol.https.allow", "always"},
	{"protocol.ssh.allow", "always"},
	{"http.followRedirects", "false"}, // the token is for one host
	{"http.lowSpeedLimit", "1"},
	{"http.lowSpeedTime", strconv.Itoa(silence)},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"commit.gpgSign", "false"},
	{"merge.directoryRenames", "false"},
	{"merge.conflictStyle", "merge"},
	{"core.fsync", "committed,reference"},
	{"core.protectHFS", "true"},
	{"core.protectNTFS", "true"},
	{"safe.directory", "*"}, // the operator named the folder, whoever owns it
	{"advice.detachedHead", "false"},
}

// sshCommand replaces whatever a repository says. Nobody can be asked, and a remote that is silent
// is given up.
var sshCommand = fmt.Sprintf("ssh -o BatchMode=yes -o ConnectTimeout=%d -o ServerAliveInterval=5 -o ServerAliveCountMax=%d", silence, silence/5)

// passed are the variables of this process that git gets: to find programs, the agent with the
// keys for ssh, and the way out of this network.
var passed = []string{
	"PATH", "USER", "LOGNAME", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// env is the whole environment of a command. home has no files that git reads.
func env(home string, config [][2]string) []string {
	list := []string{
		"LC_ALL=C", "HOME=" + home, "XDG_CONFIG_HOME=" + home,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_EDITOR=false",
		"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_SSH_COMMAND=" + sshCommand, "GIT_SSH_VARIANT=ssh",
	}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+v)
		}
	}
	// Only some builds of git heed the two variables that name the certificates to trust.
	for name, own := range map[string]string{"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"} {
		if v := os.Getenv(name); v != "" {
			list = append(list, own+"="+v)
		}
	}
	list = append(list, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, kv := range config {
		list = append(list, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return list
}

// command is a run of git.
type command struct {
	args   []string
	in     []byte
	env    []string // besides those of all commands
	dir    string   // where it runs; "": in the repository's folder
	remote bool     // it speaks with the remote
	// fence is around a command on this machine: no link, and no file that names another, leads out of it. nil: there is none.
	fence *confine.Fenced
}

// failure is a command that failed.
type failure struct {
	what string // such as "git fetch"
	code int    // its exit code; -1: it was ended
	out  []byte
	says string // what it printed about it
	err  error
}

func (e *failure) Error() string {
	if e.says == "" {
		return e.what + ": " + e.err.Error()
	}
	return e.what + ": " + e.says
}

func (e *failure) Unwrap() error { return e.err }

// exits reports whether a command ended with a code.
func exits(err error, code int) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.code == code
}

// says reports whether a command printed a text about its failure.
func says(err error, text string) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && strings.Contains(f.says, text)
}

// run runs git. A command on this machine is not ended by ctx once it has begun. It starts nothing
// else, and one that outlives a killed server can only add objects or make a change that says what
// it changes. A command that speaks with a remote starts others; they all end with this process.
func (p program) run(ctx context.Context, c command) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit, work := localTime, context.WithoutCancel(ctx)
	if c.remote {
		limit, work = remoteTime, ctx
	}
	work, cancel := context.WithTimeoutCause(work, limit, parley.Errorf(parley.CodeTimeout, "it took more than %s", limit))
	defer cancel()
	out, errs := &capped{most: maxOutput}, &capped{most: maxErrors}
	what := "git " + c.args[0]
	for _, a := range c.args {
		if !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") {
			what = "git " + a
			break
		}
	}
	var err error
	if c.remote {
		var run *proc.Process
		run, err = proc.Start(work, proc.Spec{
			Args: append([]string{p.path}, c.args...), Dir: c.dir, Env: append(slices.Clip(p.env), c.env...), Stdout: out, Stderr: errs, Grace: grace,
		})
		if err == nil {
			err = run.Wait()
		}
	} else {
		run := exec.CommandContext(work, p.path, c.args...)
		run.Dir, run.Env, run.Stdout, run.Stderr = c.dir, append(slices.Clip(p.env), c.env...), out, errs
		run.Stdin = bytes.NewReader(c.in)
		run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
		run.WaitDelay = grace
		run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the server
		start := run.Start
		if c.fence != nil {
			start = func() error { return c.fence.Inside(run.Start) }
		}
		if err = start(); err == nil {
			err = run.Wait()
		}
		if err != nil && work.Err() != nil {
			err = context.Cause(work)
		}
	}
	if err == nil && out.over {
		err = errors.New("it printed too much")
	}
	if err == nil {
		return out.Bytes(), nil
	}
	f := &failure{what: what, code: -1, out: out.Bytes(), says: sentence(errs.String()), err: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		f.code = exit.ExitCode()
	}
	return nil, f
}

// program is the git program with the environment of all its commands.
type program struct {
	path string
	env  []string
}

// capped keeps the beginning of an output.
type capped struct {
	bytes.Buffer
	most int
	over bool
}

func (c *capped) Write(b []byte) (int, error) {
	if room := c.most - c.Len(); len(b) > room {
		c.over = true
		c.Buffer.Write(b[:room])
		return len(b), nil
	}
	return c.Buffer.Write(b)
}

// login is a user's name and password in a URL.
var login = pattern.New(`(://)[^/@\s']*@`)

// sentence is what git printed about a failure, on one line and without passwords.
func sentence(text string) string {
	var list []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		line = strings.TrimPrefix(strings.TrimPrefix(line, "fatal: "), "error: ")
		if line == "" || strings.HasPrefix(line, "hint: ") || strings.HasPrefix(line, "warning: ") {
			continue
		}
		list = append(list, strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, line))
	}
	return parley.Cut(login.ReplaceAllString(strings.Join(list, "; "), "$1"), 400)
}

// least is the oldest git that can do what is needed here: merging without a working tree.
var least = [2]int{2, 38}

var versionOf = pattern.New(`^git version (\d+)\.(\d+)`)

// find finds the program and checks its version.
func find(ctx context.Context, name, home string) (program, string, error) {
	hint := "install git %d.%d or newer, or name it in PATH; until then nothing is committed"
	path, err := exec.LookPath(name)
	if err == nil && !filepath.IsAbs(path) {
		err = errors.New("it is found in the current folder only")
	}
	if err != nil {
		return program{}, "", parley.Errorf(parley.CodeUnavailable, "the program git is missing: %w", err).WithHint(hint, least[0], least[1])
	}
	p := program{path: path, env: env(home, overrides)}
	out, err := p.run(ctx, command{args: []string{"version"}, dir: home})
	if err != nil {
		return p, "", parley.Errorf(parley.CodeUnavailable, "the program git does not run: %w", err).WithHint(hint, least[0], least[1])
	}
	m := versionOf.FindSubmatch(out)
	version := strings.TrimSpace(strings.TrimPrefix(string(out), "git version "))
	if m == nil {
		return p, version, parley.Errorf(parley.CodeUnavailable, "the program git has an unknown version: %q", version).WithHint(hint, least[0], least[1])
	}
	major, _ := strconv.Atoi(string(m[1]))
	minor, _ := strconv.Atoi(string(m[2]))
	if major < least[0] || major == least[0] && minor < least[1] {
		return p, version, parley.Errorf(parley.CodeUnavailable, "git %s is too old", version).WithHint(hint, least[0], least[1])
	}
	return p, version, nil
}
