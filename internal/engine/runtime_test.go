package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// remembers is a run of a runtime that appends what it was told to what it kept before.
func remembers(ctx context.Context, h seam.Host) (seam.Ending, error) {
	before, err := h.Kept(ctx)
	if err != nil && !errors.Is(err, parley.ErrNotFound) {
		return seam.Ending{}, err
	}
	s := h.State()
	said := s.Turn.Request.Message.Text()
	if said == "forget" {
		err = h.Keep(ctx, seam.Keeping{State: make([]byte, seam.MaxKept+1)})
		if parley.CodeOf(err) != parley.CodeTooLarge {
			return seam.Ending{}, fmt.Errorf("too much is kept: %w", err)
		}
		return seam.Ending{}, nil
	}
	err = h.Keep(ctx, seam.Keeping{State: append(before, said+"\n"...), Entry: said, Afresh: before == nil})
	return seam.Ending{Response: parley.Response{Message: string(before)}}, err
}

// TestKept: what a runtime keeps of a session is there in its next turn, in its forks, in an export
// and after a restart. It is removed when retention removes a step that it contains. An import does
// not use it. It counts towards what its user holds.
func TestKept(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store seam.Store) {
		later := time.Duration(0)
		d := &driven{run: remembers}
		kept := archive.NewFolder(datafolder.New(t.TempDir(), nil))
		app := drivenApp(func(a *parley.App) { a.TTL.TurnSteps = parley.Duration(time.Hour) })
		start := func() *enginetest.Rig {
			return enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, app, by(d), func(o *engine.Options) {
				o.Archive, o.Now = kept, func() time.Time { return time.Now().Add(later) }
			})
		}
		r := start()
		said := func(id parley.SessionID, message, want string) {
			t.Helper()
			got := r.Await(r.Send(id, message).ID)
			if got.Status != parley.StatusCompleted || got.Response.Message != want {
				t.Errorf("%s: %s %+v, want %q", message, got.Status, got.Response, want)
			}
		}
		s := r.Session()
		said(s.ID, "one", "")
		said(s.ID, "two", "one\n")
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		r = start()
		said(s.ID, "three", "one\ntwo\n")
		if st, err := r.Engine.State(ctx, enginetest.User, fork.ID); err != nil || st.Kept == nil || !st.Kept.Forked {
			t.Errorf("the fork has %+v, %v", st.Kept, err)
		}
		said(fork.ID, "other", "one\ntwo\n")

		zip := r.Exported(s.ID)
		st, err := r.Engine.State(ctx, enginetest.User, s.ID)
		if err != nil || st.Kept == nil || string(zip.Blobs[st.Kept.SHA256]) != "one\ntwo\nthree\n" {
			t.Errorf("the export has %d blobs of %+v, %v", len(zip.Blobs), st.Kept, err)
		}
		copied, err := r.Engine.Import(ctx, enginetest.User, zip)
		if err != nil {
			t.Fatal(err)
		}
		said(copied.ID, "new", "")

		before, err := r.Store.Held(ctx, enginetest.User, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		said(s.ID, strings.Repeat("x", 5000), "one\ntwo\nthree\n")
		after, err := r.Store.Held(ctx, enginetest.User, s.ID)
		if err != nil || after.Bytes-before.Bytes < 10_000 { // the message, and what the runtime keeps of it
			t.Errorf("%d bytes, %d before: %v", after.Bytes, before.Bytes, err)
		}
		old, err := r.Engine.State(ctx, enginetest.User, s.ID)
		if err != nil {
			t.Fatal(err)
		}

		later = 2 * time.Hour
		if _, err := r.Engine.Sweep(ctx, enginetest.User); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Store.Blob(ctx, enginetest.User, s.ID, old.Kept.SHA256); !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("after the retention: %v", err)
		}
		said(s.ID, "four", "")
		said(s.ID, "forget", "")
		said(s.ID, "five", "")
		r.Close()
	})
}

// TestKept_is_behind: a state that lacks a later turn says so.
func TestKept_is_behind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &driven{run: remembers}
		r := enginetest.New(t, enginetest.Echo, drivenApp(), by(d))
		defer r.Close()
		s := r.Session()
		r.Await(r.Send(s.ID, "one").ID)
		d.run = func(context.Context, seam.Host) (seam.Ending, error) { return seam.Ending{}, errors.New("broken") }
		if st, err := r.Engine.State(ctx, enginetest.User, s.ID); err != nil || st.Kept == nil || st.Kept.Behind {
			t.Errorf("%+v, %v", st.Kept, err)
		}
		r.Await(r.Send(s.ID, "two").ID)
		if st, err := r.Engine.State(ctx, enginetest.User, s.ID); err != nil || st.Kept == nil || !st.Kept.Behind {
			t.Errorf("%+v, %v", st.Kept, err)
		}
	})
}

// TestOwnTurns: a runtime begins turns by itself, once for each key, after the turns that run or
// wait. Such turns do not release a held queue, and their number is limited.
func TestOwnTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := &driven{run: func(ctx context.Context, h seam.Host) (seam.Ending, error) {
			s := h.State()
			if s.Turn.Request.Message.Text() == "wait" {
				if err := h.Emit(ctx, parley.NewEvent("", "lead", parley.AgentStarted{Name: "lead"})); err != nil {
					return seam.Ending{}, err
				}
				select {
				case <-gate:
				case <-ctx.Done():
					return seam.Ending{}, context.Cause(ctx)
				}
			}
			return seam.Ending{Response: parley.Response{Message: string(s.Turn.Request.Origin)}}, nil
		}}
		r := enginetest.New(t, enginetest.Echo, drivenApp(func(a *parley.App) { a.MaxOpenTurns = 3 }), by(d))
		defer r.Close()
		s := r.Session()
		r.Await(r.Send(s.ID, "hello").ID)
		own, err := d.start(ctx, s.ID, seam.OwnTurn{Message: "the build has ended", Key: "b1"})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Await(own)
		if got.Status != parley.StatusCompleted || got.Origin != parley.OriginRuntime || got.Response.Message != "runtime" {
			t.Errorf("%+v", got)
		}
		if again, err := d.start(ctx, s.ID, seam.OwnTurn{Message: "the build has ended", Key: "b1"}); err != nil || again != own {
			t.Errorf("the same again: %s, %v", again, err)
		}

		running := r.Send(s.ID, "wait")
		next, err := d.start(ctx, s.ID, seam.OwnTurn{Message: "behind it"})
		if err != nil {
			t.Fatal(err)
		}
		if row, err := r.Engine.Turn(ctx, enginetest.User, next); err != nil || row.Status != parley.StatusPending {
			t.Errorf("%+v, %v", row, err)
		}
		if _, err := r.Engine.Cancel(ctx, enginetest.User, running.ID, ""); err != nil { // holds the queue
			t.Fatal(err)
		}
		later, err := d.start(ctx, s.ID, seam.OwnTurn{Message: "later"})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []parley.TurnID{next, later} {
			if row, err := r.Engine.Turn(ctx, enginetest.User, id); err != nil || row.Status != parley.StatusPending {
				t.Errorf("with a held queue: %+v, %v", row, err)
			}
		}
		if _, err := d.start(ctx, s.ID, seam.OwnTurn{Message: "one too many"}); code(err) != parley.CodeBusy {
			t.Errorf("a turn that leaves no room for the command: %v", err)
		}
		command, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go on", Busy: parley.BusyEnqueue})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(command.ID)
		n := 0
		for ; n < 100; n++ {
			id, err := d.start(ctx, s.ID, seam.OwnTurn{Message: "more"})
			if code(err) == parley.CodeBusy {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			r.Await(id)
		}
		if n != 16 {
			t.Errorf("it began %d turns in a row", n)
		}
		if _, err := d.start(ctx, "01ARZ3NDEKTSV4RRFFQ69G5FAV", seam.OwnTurn{Message: "nobody's"}); !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("in no session: %v", err)
		}
		if _, err := r.Engine.End(ctx, enginetest.User, s.ID, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := d.start(ctx, s.ID, seam.OwnTurn{Message: "too late"}); err == nil {
			t.Errorf("in a session that has ended: %v", err)
		}
	})
}

// TestEmit_notes: notes of a runtime are in the log, within limits. Events that only the engine may
// append are refused.
func TestEmit_notes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &driven{run: func(ctx context.Context, h seam.Host) (seam.Ending, error) {
			note := func(p parley.Payload) error { return h.Emit(ctx, parley.NewEvent("", "", p)) }
			for _, p := range []parley.Payload{
				parley.RuntimeNoted{Kind: "big", Text: strings.Repeat("x", 33<<10)},
				parley.RuntimeKept{Runtime: "driven", SHA256: "d"},
				parley.TurnCompleted{},
				parley.ToolEnded{},
			} {
				if err := note(p); err == nil {
					return seam.Ending{}, fmt.Errorf("%s was appended", p.EventType())
				}
			}
			for range 100 {
				if err := note(parley.RuntimeNoted{Kind: "n", Text: strings.Repeat("x", 30<<10), Data: json.RawMessage(`1`)}); err != nil {
					return seam.Ending{}, err
				}
			}
			return seam.Ending{}, note(parley.FilesAnnounced{Paths: []string{"a.md"}})
		}}
		r := enginetest.New(t, enginetest.Echo, drivenApp(), by(d))
		defer r.Close()
		s := r.Session()
		if got := r.Await(r.Send(s.ID, "go").ID); got.Status != parley.StatusCompleted {
			t.Fatalf("%s %+v", got.Status, got.Error)
		}
		types := enginetest.Types(r.Log(s.ID))
		if n := strings.Count(types, "runtime.noted"); n != 34 || !strings.Contains(types, "files.announced") {
			t.Errorf("%d notes\n%s", n, types)
		}
	})
}

// TestRunChanges: a tool says which files it is about to change, before it does.
func TestRunChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer("mail"), enginetest.App())
		defer r.Close()
		s := r.Session()
		r.Service.SetGate(func(ctx context.Context, run seam.Run) error {
			for _, bad := range []string{"../a", "/etc/passwd", ".", "", "a//b"} {
				if err := run.Changes(ctx, bad); code(err) != parley.CodeInvalid {
					t.Errorf("%q: %v", bad, err)
				}
			}
			err := run.Changes(ctx, "a.md", "b/c.md")
			if types := enginetest.Types(r.Log(s.ID)); !strings.HasSuffix(types, "tool.started\nfiles.announced\n") {
				t.Errorf("when it changes them the log has\n%s", types)
			}
			return err
		})
		r.Await(r.Send(s.ID, "go").ID)
	})
}
