package program_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sim/claudecli"
)

// TestChat_major: what a person does with major at a terminal, on both runtimes: asks over the lake with
// a page attached, has it changed, answers a question, stops an answer, goes on in a copy, goes back. The
// server is killed while a change waits for its answer. PARLEY_TEST_CLAUDE names a Claude CLI; without one
// a stand-in does what the model says.
func TestChat_major(t *testing.T) {
	t.Parallel()
	cli, shell := os.Getenv("PARLEY_TEST_CLAUDE"), "app"
	if cli == "" {
		var err error
		if cli, err = claudecli.Install(t.TempDir(), claudecli.Play{Transcript: "03-permission-allow", Live: true, Effects: true}); err != nil {
			t.Fatal(err)
		}
		shell = "cli" // without the fence, within which there is no test binary
	}
	p := newPlace(t, "PARLEY_ENABLED=major", "PARLEY_CLAUDE_PATH="+cli, "PARLEY_CLAUDE_SHELL="+shell, "PARLEY_SCRIPTED_PACE=20ms", "LANG=C.UTF-8")
	demo := func() *process {
		t.Helper()
		return p.start(p.command("demo", "--addr", "127.0.0.1:0", "--crm-addr", "127.0.0.1:0"))
	}
	s := demo()
	tokens := regexp.MustCompile(`[0-9.]+k tokens`)
	for _, c := range []struct{ runtime, name, page, commit string }{
		{"loop", "Parley", "support hours", "local: The status of Support hours is draft"},
		{"claude", "Claude CLI", "expenses", "local: The status of Expenses is draft"},
	} {
		at := p.sit(true, "chat", "--app", "major", "--runtime", c.runtime).watch()
		// idle waits until the turn's answer is complete, and the session's tokens are read.
		used := ""
		idle := func() {
			t.Helper()
			at.until("the end of the turn", func(screen string) bool {
				now := tokens.FindAllString(screen, -1)
				if strings.Contains(screen, "esc stops it") || len(now) == 0 || now[len(now)-1] == used {
					return false
				}
				used = now[len(now)-1]
				return true
			})
		}
		says := func(text string) {
			t.Helper()
			at.types(text)
			at.shows("❯ " + text)
			at.types("\r")
		}

		at.shows("Who is on call this week", c.name+" · scripted/major")
		at.types("When is the support line answered? @support-hours")
		at.shows("❯ docs/support-hours.md")
		at.types("\t\r")
		at.shows("07:00 to 19:00", "docs/support-hours.md")
		idle()

		// A change is asked about. The server dies meanwhile.
		before := commits(t, p)
		says("Set the status of the page on " + c.page + " to draft")
		at.shows(`+status: "draft"`, "enter or a number answers")
		s.kill()
		at.shows("The server does not answer")
		s = demo()
		at.shows("The server is back.", "enter or a number answers")
		if got := commits(t, p); len(got) != len(before) {
			t.Fatalf("%s: nobody has allowed it, and there is %q", c.runtime, got)
		}
		at.types("1")
		at.shows("Allowed once", "was changed, in commit")
		idle()
		after := append([]string{c.commit}, before...)
		if got := commits(t, p); !slices.Equal(got, after) {
			t.Fatalf("%s: the commits are %q", c.runtime, got)
		}

		says("show port")
		at.shows("Which page do you mean", "Port Ellery", "enter or a number answers")
		at.types("\r")
		at.shows("Answered: Port Ellery", "lake/customers/port-ellery.md")
		idle()

		says("Which meetings are there?")
		at.shows("● ", "lake/meetings/", "esc stops it")
		at.types("\x1b")
		at.shows("stopped: stopped at the terminal")
		at.until("it has ended", func(screen string) bool { return !strings.Contains(screen, "esc stops it") })
		if n := strings.Count(at.screen(), "The lake has"); n != 1 {
			t.Errorf("%s: what was said before the stop is there %d times:\n%s", c.runtime, n, at.screen())
		}

		list := must[struct{ Sessions []parley.SessionInfo }](s, "GET", "/v1/sessions?app=major", "").Sessions
		says("/fork")
		at.shows("Copy the session up to where?")
		at.types("\r")
		at.shows("major Fork of When is the support line", "stopped: stopped at the terminal")
		says("Who is on call next week?")
		at.shows("on call next week, which is week")
		at.until("it has ended", func(screen string) bool { return !strings.Contains(screen, "esc stops it") })
		now := must[struct{ Sessions []parley.SessionInfo }](s, "GET", "/v1/sessions?app=major", "").Sessions
		i := slices.IndexFunc(now, func(x parley.SessionInfo) bool {
			return !slices.ContainsFunc(list, func(o parley.SessionInfo) bool { return o.ID == x.ID })
		})
		if len(now) != len(list)+1 || i < 0 || now[i].Totals.Turns != 5 || effective(now[i].Runtime) != c.runtime {
			t.Fatalf("%s: the sessions are %+v, before the copy %+v", c.runtime, now, list)
		}

		// Back to before the stopped answer, and forth. The commit stays.
		says("/rewind")
		at.shows("Go back to before which message?")
		at.types("\x1b[B\r")
		at.shows("Taken back:", "Which meetings are there?", "1 ")
		at.types("\r")
		at.until("it is taken back", func(screen string) bool {
			return strings.Contains(screen, "❯ Which meetings are there?") && strings.Contains(screen, "  taken back") && !strings.Contains(screen, "Taken back:")
		})
		at.types("\x15") // the message is back to be written anew
		says("/undo")
		at.shows("Brought back:", "Undo it")
		at.types("\r")
		at.until("it is back", func(screen string) bool {
			return strings.Contains(screen, "on call next week, which is week") && !strings.Contains(screen, "  taken back") && !strings.Contains(screen, "Undo it")
		})
		if got := commits(t, p); !slices.Equal(got, after) {
			t.Errorf("%s: after going back the commits are %q", c.runtime, got)
		}
		at.types("\x04")
		at.ends(0)
	}
}

// effective is a session's runtime, of which the app's own has no name.
func effective(runtime string) string {
	if runtime == "" {
		return "loop"
	}
	return runtime
}

// commits are the authors and subjects of the commits that turns made in the demo's lake, the newest first.
func commits(t *testing.T, p *place) (list []string) {
	t.Helper()
	out, err := exec.Command("git", "-C", filepath.Join(p.data, "workspaces/local/lake"), "log", "--grep=^Parley-Turn: ", "--format=%an: %s").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")[:strings.Count(string(out), "\n")]
}
