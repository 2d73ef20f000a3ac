package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/tui"
	"github.com/parley-server/parley/web"
)

func newDoctor(f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what the server needs, and say what to do", Args: cobra.NoArgs,
		Long: `Check what the server needs. Each line begins with ok, warn or fail, and says what
to do. It changes nothing.

Where a server has the data folder open, it is asked: its providers, models and apps
are those that it has, with its own settings and keys, and not those of this command.

With --json it is one object: version of this program; ok, false when a check failed;
server, with pid, command, address and version, left out when none runs; and checks, each
with verdict (ok, warn or fail), check, says, what to do as hint, and asked, which is
server where that gave the answer.

Exit codes: 0 no check failed, 1 some did, 2 wrong usage.`,
		Example: `  parley doctor
  parley doctor --json | jq -r '.checks[] | select(.verdict != "ok") | .says'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{kit: f.kit, unused: unused(cmd), style: terminal(cmd).Style(cmd.OutOrStdout()), report: report{Version: version, Checks: []check{}}}
			if !asJSON {
				d.out = cmd.OutOrStdout()
			}
			s, err := f.settings(cmd)
			if err != nil {
				d.fail("settings", err)
			} else {
				d.ok("settings", "read")
				d.all(cmd.Context(), s)
			}
			if d.report.OK = d.failed == 0; asJSON {
				if err := printJSON(cmd.OutOrStdout(), d.report); err != nil {
					return err
				}
			}
			if d.failed > 0 {
				return &exitError{exitFailed, parley.Errorf(parley.CodeInvalid, "%s failed", count(d.failed, "check", "checks"))}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// report is what doctor --json prints. Its fields are described in the help.
type report struct {
	Version string       `json:"version"`
	OK      bool         `json:"ok"`
	Server  *foundServer `json:"server,omitempty"`
	Checks  []check      `json:"checks"`
}

type foundServer struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Address string `json:"address,omitempty"`
	Version string `json:"version,omitempty"` // omitted if it does not answer
}

type check struct {
	Verdict string `json:"verdict"`
	Check   string `json:"check"`
	Says    string `json:"says"`
	Hint    string `json:"hint,omitempty"`
	Asked   string `json:"asked,omitempty"`
}

type doctor struct {
	kit    *kit
	out    io.Writer // nil: nothing is printed along the way
	style  tui.Style
	report report
	asked  string // who answers the current check; empty: this process
	failed int
	unused []string // flags that a running server does not read
	behind int      // sessions whose files a running server could not write

	keepsFiles bool     // some app keeps its sessions as files too
	onClaude   []string // apps whose turns the Claude CLI carries out, as far as is known
	mayClaude  []string // apps whose sessions may choose it
}

// besides is the indentation of continuation lines.
const besides = "                   "

func (d *doctor) add(c check) {
	c.Asked, c.Says, c.Hint = d.asked, tui.Plain(c.Says), tui.Plain(c.Hint)
	d.report.Checks = append(d.report.Checks, c)
	if d.out == nil {
		return
	}
	verdict := fmt.Sprintf("%-5s", c.Verdict)
	switch c.Verdict {
	case "ok":
		verdict = d.style.Green(verdict)
	case "warn":
		verdict = d.style.Yellow(verdict)
	case "fail":
		verdict = d.style.Red(verdict)
	}
	fmt.Fprintf(d.out, "%s %-12s %s\n", verdict, c.Check, strings.ReplaceAll(c.Says, "\n", "\n"+besides))
	if c.Hint != "" {
		fmt.Fprintln(d.out, besides+strings.ReplaceAll(c.Hint, "\n", "\n"+besides))
	}
}

func (d *doctor) ok(what, format string, args ...any) {
	d.add(check{Verdict: "ok", Check: what, Says: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(what, format string, args ...any) {
	d.add(check{Verdict: "warn", Check: what, Says: fmt.Sprintf(format, args...)})
}

// caution is a warning with a hint.
func (d *doctor) caution(what string, err error) { d.because("warn", what, err) }

func (d *doctor) fail(what string, err error) {
	d.failed++
	d.because("fail", what, err)
}

func (d *doctor) because(verdict, what string, err error) {
	c := check{Verdict: verdict, Check: what, Says: err.Error()}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		c.Hint = e.Hint
	}
	d.add(c)
}

func (d *doctor) all(ctx context.Context, s config.Settings) {
	d.ok("version", "parley %s", version)
	if zombie.VersionNumber < 3051003 {
		d.fail("sqlite", parley.Errorf(parley.CodeInternal, "SQLite %s can corrupt a database", zombie.Version).WithHint("build with SQLite 3.51.3 or newer"))
	} else {
		d.ok("sqlite", "%s", zombie.Version)
	}
	var server *link
	if d.folder(s.Data) {
		d.store(ctx, s)
		server = d.owner(ctx, s)
	}
	d.address(ctx, s)
	if server != nil {
		d.asked = "server"
		d.ask(ctx, server)
		d.asked = ""
		_ = server.close()
	} else {
		d.providers(ctx, s)
		d.apps(ctx, s)
	}
	d.claude(ctx, s)
	d.push(ctx, s)
	d.files(s)
	if _, err := fs.Stat(web.FS(), "index.html"); err != nil {
		d.warn("pages", "are not built into this binary; `make build` does that. Everything else works without them")
	} else {
		d.ok("pages", "are built in")
	}
}

// folder checks the data folder without opening any file of the store: closing a file of
// the database would release its locks. It reports whether the rest of the folder can be checked.
func (d *doctor) folder(dir string) bool {
	if err := notFolder(dir); err != nil {
		d.fail("data", err)
		return false
	}
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		parent := dir
		for errors.Is(err, os.ErrNotExist) && parent != filepath.Dir(parent) {
			parent = filepath.Dir(parent)
			_, err = os.Stat(parent)
		}
		d.ok("data", "the data folder %s does not exist yet; parley serve, demo and run create it", dir)
		dir = parent
	} else if err != nil {
		d.fail("data", parley.Errorf(parley.CodeUnavailable, "%w", err).WithHint("name another with --data or PARLEY_DATA"))
		return false
	} else if mode := info.Mode().Perm(); mode&0o077 != 0 {
		d.warn("data", "%s can be read by others (%#o); chmod 700 keeps conversations private", dir, mode)
	} else {
		d.ok("data", "%s", dir)
	}
	probe, err := os.CreateTemp(dir, ".parley-doctor-*")
	if err != nil {
		d.fail("writing", parley.Errorf(parley.CodeUnavailable, "%w", err).WithHint("check the permissions of %s", dir))
	} else {
		written, _ := probe.Stat()
		_ = probe.Close()
		_ = os.Remove(probe.Name())
		d.ok("writing", "%s can be written", dir)
		d.clock(written)
	}
	d.space(dir)
	return true
}

func (d *doctor) space(dir string) {
	free, err := sqlite.Free(dir)
	switch {
	case err != nil:
		d.warn("space", "could not be asked for: %v", err)
	case free < 100<<20:
		d.fail("space", parley.Errorf(parley.CodeUnavailable, "%d MiB are free; the server refuses to write when the disk is full", free>>20).WithHint("free some space, or move the data folder"))
	case free < 1<<30:
		d.warn("space", "%d MiB are free; free some space soon", free>>20)
	default:
		d.ok("space", "%d GiB are free", free>>30)
	}
}

// clock compares this machine's clock with the file system's and with plausible dates:
// ids and the order of lists depend on it.
func (d *doctor) clock(written fs.FileInfo) {
	now := time.Now()
	if now.Year() < 2025 {
		d.fail("clock", parley.Errorf(parley.CodeInvalid, "the clock says it is %s", now.Format(time.DateTime)).WithHint("set the clock, preferably with a time service"))
		return
	}
	if written != nil {
		if off := now.Sub(written.ModTime()).Abs(); off > 5*time.Second {
			d.warn("clock", "the file system's clock differs by %s; times in the log are this machine's", off.Round(time.Second))
			return
		}
	}
	d.ok("clock", "%s", now.Format(time.RFC3339))
}

// push checks the settings of notifications, which a start would refuse.
func (d *doctor) push(ctx context.Context, s config.Settings) {
	o, err := pushOptions(s)
	if err == nil {
		_, err = push.Open(ctx, mem.New(), o)
	}
	if err != nil {
		d.fail("push", err)
		return
	}
	kinds := "webhooks and browsers"
	if o.FCM != nil {
		kinds += " and apps on phones (FCM)"
	}
	if o.Contact == "" {
		kinds += "; push.contact would tell the browsers' push services how to reach you"
	}
	d.ok("push", "%s", kinds)
}

// owner finds the server that has the folder open; nil if none answers. The caller closes
// it.
func (d *doctor) owner(ctx context.Context, s config.Settings) *link {
	if path, err := socketPath(s.Data); err != nil {
		d.fail("socket", err)
	} else {
		d.ok("socket", "%s", path)
	}
	held, err := holderOf(s.Data)
	switch {
	case err != nil:
		d.fail("server", err)
		return nil
	case held == nil:
		d.ok("server", "none is running on this folder")
		return nil
	}
	d.report.Server = &foundServer{PID: held.PID, Command: held.Command, Address: held.Address}
	for _, name := range d.unused {
		d.caution("settings", parley.Errorf(parley.CodeConflict, "--%s is not used: %s %s", name, held, asStarted).WithHint(notStarted))
	}
	if held.Socket == "" {
		d.caution("server", parley.Errorf(parley.CodeUnavailable, "%s has locked the folder but does not listen", held).
			WithHint("it may be starting, or be a command that ends by itself; try again in a moment"))
		return nil
	}
	l := dial(ctx, &taker{h: *held, waits: true}, s)
	if l == nil {
		d.fail("server", parley.Errorf(parley.CodeUnavailable, "%s has locked the folder but does not answer on its socket", held).WithHint("look at its log, or stop it"))
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	is, err := l.Server(ask)
	if err == nil {
		d.report.Server.Version = is.Version
		err = l.Ready(ask)
	}
	if err != nil {
		d.fail("server", err)
		if is.Version == "" {
			_ = l.close()
			return nil
		}
		return l
	}
	d.ok("server", "%s has the folder, and is ready", held)
	if is.Version != version {
		d.caution("version", parley.Errorf(parley.CodeConflict, "the server is parley %s, and this program is %s", is.Version, version).
			WithHint("restart the server with this program, or use the server's own program for commands"))
	}
	d.behind = behind(ask, l)
	_, err = os.Stat(filepath.Join(s.Data, livefiles.Folders()[0]))
	d.keepsFiles = err == nil
	return l
}

// ask checks what a running server serves. It uses its own settings and keys.
func (d *doctor) ask(ctx context.Context, l *link) {
	providers, err := l.Providers(ctx)
	if err != nil {
		d.fail("providers", err)
		return
	}
	d.answers(providers)
	list, err := l.Apps(ctx)
	if err != nil {
		d.fail("apps", err)
		return
	}
	var general []string
	if is, err := l.Server(ctx); err == nil {
		general = is.Notices
		for _, a := range is.Off {
			d.warn("app", "%s is off: %s", a.App, a.Why)
		}
		for _, n := range is.Notices {
			d.warn("notice", "%s", n)
		}
	}
	seen := map[string]bool{}
	for _, a := range list {
		for _, n := range a.Notices {
			if !strings.HasPrefix(n, "Demo: ") && !slices.Contains(general, n) {
				d.warn("app", "%s: %s", a.Name, n)
			}
		}
		if a.Model.Scripted {
			d.warn("app", "%s answers with %s, a demo model that follows rules", a.Name, a.Model.Name)
			continue
		}
		d.ok("app", "%s with %s", a.Name, a.Model.Name)
		if !seen[a.Model.Name] {
			seen[a.Model.Name] = true
			d.listed(a.Model, providers)
		}
	}
}

// listed checks a model against the list that its provider returned.
func (d *doctor) listed(m client.Model, providers []client.Provider) {
	for _, p := range providers {
		if p.Name != m.Provider || !p.OK {
			continue
		}
		if !slices.ContainsFunc(p.Models, func(l client.Model) bool { return l.Name == m.Name || l.Name == m.Name+latest }) {
			d.warn("model", "%s is not in the list of %s; calls of a mistyped name fail", m.Name, p.Name)
			return
		}
		if m.ContextHint != "" {
			d.takes(m.Name, m.ContextTokens, m.ContextHint)
		}
		if m.PricedAt == "" {
			d.warn("model", "%s is there; %s", m.Name, noPrice)
			return
		}
		d.ok("model", "%s is there", m.Name)
	}
}

func (d *doctor) apps(ctx context.Context, s config.Settings) {
	p, err := d.kit.plan(s, newLogger(s, io.Discard))
	if err != nil {
		d.fail("apps", err)
		return
	}
	defer p.close()
	if _, err := doorsOf(p.resolved, doorDeps{plan: p}); err != nil {
		d.fail("apps", err)
		return
	}
	d.keepsFiles = len(withFiles(p.apps)) > 0
	for _, name := range names(p.off) {
		d.warn("app", "%s is off: %s", name, p.off[name])
	}
	for _, name := range names(p.broken) {
		d.fail("app", p.broken[name].err)
	}
	for _, a := range p.resolved {
		m, err := p.models.Model(a.Model)
		switch {
		case err != nil:
			d.fail("app", err)
		case m.Info().Scripted:
			d.warn("app", "%s answers with %s, a demo model that follows rules", a.Name, a.Model)
		default:
			d.ok("app", "%s with %s", a.Name, a.Model)
		}
	}
	for _, name := range names(p.opened) {
		for _, o := range p.opened[name] {
			if o.Inspect == nil {
				continue
			}
			for _, f := range o.Inspect(ctx) {
				if f.Warn != nil {
					d.caution(f.Check, f.Warn)
				} else {
					d.ok(f.Check, "%s", f.Says)
				}
			}
		}
	}
	d.used(ctx, p)
}
