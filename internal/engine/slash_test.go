package engine_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/extension"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// extensions is a source of the commands, skills and instructions in the folders of users and
// workspaces.
func (d *desk) extensions(_ context.Context, at scope.Place) ([]seam.Toolset, error) {
	rooted := func(open func() (*os.Root, error)) func() (fs.FS, func(), error) {
		return func() (fs.FS, func(), error) {
			root, err := open()
			if err != nil {
				return nil, nil, fs.ErrNotExist
			}
			return root.FS(), func() { _ = root.Close() }, nil
		}
	}
	return []seam.Toolset{extension.New(extension.Options{Logger: slog.New(slog.DiscardHandler), Levels: []extension.Level{
		{Name: "user", Open: rooted(func() (*os.Root, error) { return at.Folders.OpenUser(at.Principal) })},
		{Name: "workspace", Open: rooted(func() (*os.Root, error) { return at.Folders.Open(at.Principal, at.Workspace) })},
	}})}, nil
}

// listener is a model that remembers its requests and always says "done".
type listener struct{ asked []seam.Request }

func (m *listener) model(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	m.asked = append(m.asked, r)
	say("done")
	return seam.Reply{}, nil
}

// last is the last message to the model, without the notes about the turn.
func (m *listener) last() string {
	msgs := m.asked[len(m.asked)-1].Messages
	text := msgs[len(msgs)-1].Text()
	text, _, _ = strings.Cut(text, "[about this turn]")
	return strings.TrimSpace(text)
}

func slashed(t *testing.T, f func(t *testing.T, d *desk, m *listener, r *enginetest.Rig, s parley.SessionInfo)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.sources = []scope.Source{d.extensions}
		d.write("users/ana=acme/vault/.claude/commands/review.md", "Review $1 with care.")
		m := &listener{}
		r := enginetest.New(t, m.model, enginetest.App(), d.in)
		defer r.Close()
		f(t, d, m, r, createIn(t, r, enginetest.User, "vault"))
	})
}

// TestSlashCommand: if a message names a command, the model reads what the command stands for, in
// that turn only. People, and later turns, see the message as it was sent.
func TestSlashCommand(t *testing.T) {
	slashed(t, func(t *testing.T, d *desk, m *listener, r *enginetest.Rig, s parley.SessionInfo) {
		turn := r.Await(r.Send(s.ID, "/review a.go").ID)
		const want = "/review a.go\n\n[/review stands for:]\nReview a.go with care."
		if got := m.last(); got != want {
			t.Errorf("the model was told %q", got)
		}
		if turn.Message != "/review a.go" {
			t.Errorf("the turn shows %q", turn.Message)
		}
		if info, err := r.Engine.Session(ctx, enginetest.User, s.ID); err != nil || info.Preview != "/review a.go" {
			t.Errorf("the session shows %q, %v", info.Preview, err)
		}
		r.Await(r.Send(s.ID, "and now?").ID)
		if first := m.asked[1].Messages[0].Text(); first != "/review a.go" {
			t.Errorf("the next turn has %q", first)
		}
		// A retry has the same text, whatever has become of the file.
		if err := os.Remove(filepath.Join(d.dir, "users/ana=acme/vault/.claude/commands/review.md")); err != nil {
			t.Fatal(err)
		}
		again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		r.Await(again.ID)
		if got := m.last(); got != want {
			t.Errorf("the retry says %q", got)
		}
		// A message that names no command is sent as it is.
		for _, text := range []string{"/etc/hosts is broken", "/none x", "/", "//", "say /review"} {
			r.Await(r.Send(s.ID, text).ID)
			if got := m.last(); got != text {
				t.Errorf("%q became %q", text, got)
			}
		}
	})
}

// TestSlashCommand_that_cannot_be_read: the message is refused. A message that was sent before and
// is repeated still gets its turn.
func TestSlashCommand_that_cannot_be_read(t *testing.T) {
	slashed(t, func(t *testing.T, d *desk, _ *listener, r *enginetest.Rig, s parley.SessionInfo) {
		send := func(key string) (parley.TurnInfo, error) {
			return r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "/review a.go", Key: key})
		}
		first, err := send("k")
		if err != nil {
			t.Fatal(err)
		}
		r.Await(first.ID)
		seq := len(r.Log(s.ID))
		if err := os.Remove(filepath.Join(d.dir, "users/ana=acme/vault/.claude/commands/review.md")); err != nil {
			t.Fatal(err)
		}
		if again, err := send("k"); err != nil || again.ID != first.ID {
			t.Errorf("a repeated one: %v, %v", again.ID, err)
		}
		_, err = send("other")
		if parley.CodeOf(err) != parley.CodeInvalid || parley.Info(err).Field != "message" || parley.Info(err).Hint == "" {
			t.Errorf("a new one: %v", err)
		}
		if got := len(r.Log(s.ID)); got != seq {
			t.Errorf("%d events were appended", got-seq)
		}
	})
}

// TestSlashCommand_queued_and_steered: a queued command keeps the text that it had when it was
// sent. A steered command reaches the running turn.
func TestSlashCommand_queued_and_steered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.sources = []scope.Source{d.extensions}
		d.write("users/ana=acme/vault/.claude/commands/review.md", "Review $1 with care.")
		m := &listener{}
		gate := make(chan struct{})
		model := func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
			if len(m.asked) == 0 {
				m.asked = append(m.asked, q)
				<-gate
				return seam.Reply{Parts: []parley.Part{enginetest.Call("whose", map[string]string{})}}, nil
			}
			return m.model(ctx, q, say)
		}
		r := enginetest.New(t, model, enginetest.App(func(a *parley.App) { a.MaxOpenTurns = 4 }), d.in)
		defer r.Close()
		s := createIn(t, r, enginetest.User, "vault")
		first := r.Send(s.ID, "go")
		synctest.Wait()
		queued, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "/review b.go", Busy: parley.BusyEnqueue})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "/review a.go", Busy: parley.BusySteer}); err != nil {
			t.Fatal(err)
		}
		d.write("users/ana=acme/vault/.claude/commands/review.md", "Something else.")
		close(gate)
		r.Await(first.ID)
		if msgs := m.asked[1].Messages; !strings.Contains(msgs[len(msgs)-1].Text(), "Review a.go with care.") {
			t.Errorf("the running turn was told %v", msgs)
		}
		r.Await(queued.ID)
		if got := m.last(); got != "/review b.go\n\n[/review stands for:]\nReview b.go with care." {
			t.Errorf("the queued turn was told %q", got)
		}
	})
}

// TestInstructions: the instruction files of a user and a workspace are in the prompts of their
// turns and of no others. The next turn has the changed files, and the log names the files that
// each turn began with.
func TestInstructions(t *testing.T) {
	slashed(t, func(t *testing.T, d *desk, m *listener, r *enginetest.Rig, s parley.SessionInfo) {
		d.write("users/ana=acme/vault/AGENTS.md", "VAULT of ana")
		d.write("users/ana=acme/AGENTS.md", "USER ana")
		d.write("users/bob=acme/vault/AGENTS.md", "VAULT of bob")
		d.write("users/bob=acme/vault/.claude/skills/his/SKILL.md", "---\ndescription: SKILL of bob\n---\nBody of bob")
		other, his := createIn(t, r, enginetest.User, "other"), createIn(t, r, bob, "vault")
		sees := func(p parley.Principal, id parley.SessionID) string {
			as(t, r, p, id, "go")
			q := m.asked[len(m.asked)-1]
			all := q.System
			for _, tool := range q.Tools {
				all += tool.Description
			}
			var found []string
			for _, mark := range []string{"VAULT of ana", "USER ana", "VAULT of bob", "SKILL of bob", "NEW"} {
				if strings.Contains(all, mark) {
					found = append(found, mark)
				}
			}
			return strings.Join(found, ", ")
		}
		for range 2 {
			for _, tc := range []struct {
				who  parley.Principal
				in   parley.SessionID
				want string
			}{
				{enginetest.User, s.ID, "VAULT of ana, USER ana"},
				{enginetest.User, other.ID, "USER ana"},
				{bob, his.ID, "VAULT of bob, SKILL of bob"},
			} {
				if got := sees(tc.who, tc.in); got != tc.want {
					t.Errorf("%s sees %q, want %q", tc.who.User, got, tc.want)
				}
			}
		}
		d.write("users/ana=acme/vault/AGENTS.md", "NEW")
		time.Sleep(3 * time.Second)
		if got := sees(enginetest.User, s.ID); got != "USER ana, NEW" {
			t.Errorf("after a change: %q", got)
		}
		var began []parley.Digest
		for _, ev := range r.Log(s.ID) {
			if pay, _ := ev.Payload(); ev.Type == "turn.started" {
				began = append(began, pay.(parley.TurnStarted).App)
			}
		}
		if len(began) != 3 || began[0] != began[1] || began[1] == began[2] {
			t.Errorf("the turns began with %v", began)
		}
		list, err := r.Engine.Commands(ctx, enginetest.User, s.ID)
		if diff := cmp.Diff([]parley.SlashCommand{{Name: "review", Description: "Review $1 with care.", From: "workspace"}}, list); diff != "" || err != nil {
			t.Error(err, diff)
		}
		if _, err := r.Engine.Commands(ctx, enginetest.User, his.ID); parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("another's commands: %v", err)
		}
	})
}
