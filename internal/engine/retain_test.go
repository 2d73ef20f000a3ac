package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// shelf is an archive on a disk that can fail.
type shelf struct {
	*archive.Folder
	stuck atomic.Bool // it cannot remove anything
}

func newShelf(t *testing.T) *shelf {
	return &shelf{Folder: archive.NewFolder(datafolder.New(t.TempDir(), nil))}
}

func (s *shelf) Drop(ctx context.Context, id parley.SessionID) error {
	if s.stuck.Load() {
		return errors.New("the disk is read-only")
	}
	return s.Folder.Drop(ctx, id)
}

// kept counts a session's archived events from a number on.
func (s *shelf) kept(t *testing.T, id parley.SessionID, seq int64) (n int) {
	t.Helper()
	for _, err := range s.Kept(ctx, id, seq) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func (s *shelf) sessions(t *testing.T) []parley.SessionID {
	t.Helper()
	all, err := s.Sessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func keeping(a *parley.App) {
	a.TTL = parley.TTL{
		SessionIdle: parley.Duration(7 * 24 * time.Hour), TurnSteps: parley.Duration(24 * time.Hour), Ended: parley.Duration(30 * 24 * time.Hour),
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	sh := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		with := func(o *engine.Options) { o.Archive, o.TendEvery = sh, time.Hour }
		app := enginetest.App(keeping)
		r := enginetest.New(t, mailer("look"), app, with)
		s := r.Session()
		r.Await(r.Send(s.ID, "one").ID)
		r.Await(r.Send(s.ID, "two").ID)
		whole := r.Log(s.ID)
		time.Sleep(23 * time.Hour)
		r.Await(r.Send(s.ID, "three").ID)
		time.Sleep(2 * time.Hour) // one and two are old, three is not
		log := r.Log(s.ID)
		if err := enginetest.CheckNumbers(log); err != nil {
			t.Fatal(err)
		}
		for i, e := range whole {
			f := log[i]
			if parley.IsStep(e.Type) != (f.Data == nil) {
				t.Errorf("event %d %s: %s", e.Seq, e.Type, f.Data)
			}
			if f.Type != e.Type || !f.Time.Equal(e.Time) || f.Turn != e.Turn {
				t.Errorf("event %d changed its type or time", e.Seq)
			}
		}
		if got := string(log[len(whole)].AppendJSON(nil)); strings.Contains(got, "condensed") {
			t.Errorf("the young turn was touched: %s", got)
		}
		if !strings.HasSuffix(string(log[2].AppendJSON(nil)), `"data":null,"condensed":true}`) {
			t.Errorf("a condensed event reads %s", log[2].AppendJSON(nil))
		}
		if got := sh.kept(t, s.ID, 1); got != len(whole) {
			t.Errorf("%d of %d events are archived", got, len(whole))
		}
		last := log[len(log)-1]
		if last.Type != "history.condensed" {
			t.Fatalf("the log ends with %s", last.Type)
		}

		// Commands that need the condensed steps return an error that says where the steps are. Other
		// commands work.
		if _, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: 5}); code(err) != parley.CodeCondensed || !strings.Contains(parley.Info(err).Hint, "archive/") {
			t.Errorf("a fork before: %v, %+v", err, parley.Info(err))
		}
		if _, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: int64(len(whole)) + 1}); err != nil {
			t.Errorf("a fork after: %v", err)
		}
		r.Close()

		// The stored fold is thrown away, so the base in the log replaces it.
		disk := r.Mem.Clone()
		disk.ForgetStates()
		next := enginetest.Over(t, disk, r.Service, mailer("look"), app, with)
		got := next.Await(next.Send(s.ID, "four").ID)
		if got.Status != parley.StatusCompleted {
			t.Errorf("%+v", got.Error)
		}
		info, err := next.Engine.Session(ctx, enginetest.User, s.ID)
		if err != nil || info.Totals.Turns != 4 {
			t.Errorf("got %+v, %v", info, err)
		}
		time.Sleep(26 * time.Hour)
		if n := strings.Count(enginetest.Types(next.Log(s.ID)), "history.condensed"); n != 3 { // one for turns one and two, one for three, one for four
			t.Errorf("condensed %d times", n)
		}
		time.Sleep(8 * 24 * time.Hour)
		if info, err = next.Engine.Session(ctx, enginetest.User, s.ID); err != nil || info.Status != parley.Expired {
			t.Errorf("after a week: %+v, %v", info, err)
		}
		time.Sleep(31 * 24 * time.Hour)
		if _, err = next.Engine.Session(ctx, enginetest.User, s.ID); code(err) != parley.CodeNotFound || len(sh.sessions(t)) != 0 {
			t.Errorf("after a month: %v, kept of %v", err, sh.sessions(t))
		}
		next.Close()
	})
}

// TestRetentionLeavesWhatWaits: retention does not touch a session that waits for a human.
func TestRetentionLeavesWhatWaits(t *testing.T) {
	app := enginetest.App(asking, keeping, func(a *parley.App) { a.Policy.AnswerWithin = parley.Duration(60 * 24 * time.Hour) })
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer("mail"), app, func(o *engine.Options) { o.TendEvery, o.SweepEvery = time.Hour, time.Hour })
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "go")
		id := r.Await(turn.ID).Interactions[0]
		before := r.Log(s.ID)
		time.Sleep(30 * 24 * time.Hour)
		if diff := cmp.Diff(before, r.Log(s.ID)); diff != "" {
			t.Error(diff)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
	})
}

// TestSweepIsTheCallers: a sweep covers only the sessions that the caller may see.
func TestSweepIsTheCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(keeping), func(o *engine.Options) { o.SweepEvery = 10_000 * time.Hour })
		defer r.Close()
		s := r.Session()
		time.Sleep(8 * 24 * time.Hour)
		if done, err := r.Engine.Sweep(ctx, parley.Principal{User: "ben"}); err != nil || done != (engine.Swept{}) {
			t.Errorf("ben swept %+v, %v", done, err)
		}
		if done, err := r.Engine.Sweep(ctx, enginetest.User); err != nil || done.Expired != 1 {
			t.Errorf("ana swept %+v, %v", done, err)
		}
		if types := strings.Fields(enginetest.Types(r.Log(s.ID))); !slices.Contains(types, "session.ended") {
			t.Errorf("log: %v", types)
		}
	})
}

// whole is a session's log, including the part that is in the archive.
func whole(t *testing.T, r *enginetest.Rig, id parley.SessionID) (all []parley.Event) {
	t.Helper()
	for e, err := range r.Reader.Whole(ctx, enginetest.User, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// TestArchiveGivesItBack reads the whole log of a session that was condensed in several pieces,
// and of a fork of it after the session itself is gone.
func TestArchiveGivesItBack(t *testing.T) {
	t.Parallel()
	sh := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, secretary, enginetest.App(keeping), byHand, func(o *engine.Options) { o.Archive = sh })
		defer r.Close()
		s, _ := busy(t, r, 7)
		before := r.Log(s.ID)
		time.Sleep(25 * time.Hour)
		sweep(t, r)
		r.Await(r.Send(s.ID, "put again").ID)
		time.Sleep(25 * time.Hour)
		sweep(t, r)
		log := r.Log(s.ID)
		got := whole(t, r, s.ID)
		if len(got) != len(log) || log[3].Data != nil {
			t.Fatalf("%d events, %d in the log, the fourth is %s", len(got), len(log), log[3].Data)
		}
		if diff := cmp.Diff(before, got[:len(before)], cmp.Comparer(parley.Event.Equal)); diff != "" {
			t.Errorf("whole (-before +after):\n%s", diff)
		}
		if err := enginetest.CheckLog(got); err != nil {
			t.Error(err)
		}
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
			t.Fatal(err)
		}
		if err := enginetest.CheckLog(whole(t, r, fork.ID)); err != nil {
			t.Errorf("the fork of a session that is gone: %v", err)
		}
		if diff := cmp.Diff([]parley.SessionID{fork.ID}, sh.sessions(t)); diff != "" {
			t.Errorf("archived (-want +got):\n%s", diff)
		}
	})
}

// unsure is a store that loses the answer to a fork or a deletion, whether that took place or
// not. After that it is away for a while.
type unsure struct {
	enginetest.Outage
	forks, deletes bool // which of the next calls lose their answer
	kept           bool
}

func (u *unsure) lose(do func() error) error {
	if u.kept {
		if err := do(); err != nil {
			return err
		}
	}
	u.Leave()
	return errors.New("the connection was lost in the middle of a commit")
}

func (u *unsure) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	do := func() error { return u.Outage.Fork(ctx, p, from, at, b) }
	if u.forks {
		u.forks = false
		return u.lose(do)
	}
	return do()
}

func (u *unsure) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	do := func() error { return u.Outage.Delete(ctx, p, id) }
	if u.deletes {
		u.deletes = false
		return u.lose(do)
	}
	return do()
}

// TestArchiveInDoubt loses the answers to a fork of a condensed session and to the deletion of
// another. Each session that still exists has its archive.
func TestArchiveInDoubt(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"it took place": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh := newShelf(t)
			synctest.Test(t, func(t *testing.T) {
				store := &unsure{Outage: enginetest.Outage{Store: mem.New(), Lasts: time.Minute}, kept: kept}
				r := enginetest.Over(t, store, &enginetest.Service{}, secretary, enginetest.App(keeping), byHand, func(o *engine.Options) { o.Archive = sh })
				defer r.Close()
				s, _ := busy(t, r, 3)
				other, _ := busy(t, r, 3)
				time.Sleep(25 * time.Hour)
				sweep(t, r)

				store.forks, store.deletes = true, true
				ask := parley.ForkSession{Key: "f"}
				if _, err := r.Engine.Fork(ctx, enginetest.User, s.ID, ask); code(err) != parley.CodeUnavailable {
					t.Errorf("a fork in doubt: %v", err)
				}
				time.Sleep(time.Hour)
				fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, ask)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Engine.Delete(ctx, enginetest.User, other.ID); code(err) != parley.CodeUnavailable {
					t.Errorf("a deletion in doubt: %v", err)
				}
				time.Sleep(time.Hour)
				if err := r.Engine.Delete(ctx, enginetest.User, other.ID); kept && code(err) != parley.CodeNotFound || !kept && err != nil {
					t.Errorf("it is deleted again: %v", err)
				}
				sweep(t, r)
				for _, id := range []parley.SessionID{s.ID, fork.ID} {
					if err := enginetest.CheckLog(whole(t, r, id)); err != nil {
						t.Error(err)
					}
				}
				want := []parley.SessionID{s.ID, fork.ID}
				slices.Sort(want)
				if diff := cmp.Diff(want, sh.sessions(t)); diff != "" {
					t.Errorf("archived (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestArchiveIsDroppedLater: removing an archive fails, and the server restarts. A later sweep
// removes it.
func TestArchiveIsDroppedLater(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"the same process": false, "the next one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh := newShelf(t)
			synctest.Test(t, func(t *testing.T) {
				with := func(o *engine.Options) { o.Archive = sh }
				r := enginetest.New(t, secretary, enginetest.App(keeping), byHand, with)
				defer func() { r.Close() }()
				s, _ := busy(t, r, 2)
				other, _ := busy(t, r, 2)
				time.Sleep(25 * time.Hour)
				sweep(t, r)
				sh.stuck.Store(true)
				if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Engine.Session(ctx, enginetest.User, s.ID); code(err) != parley.CodeNotFound {
					t.Errorf("the session: %v", err)
				}
				if _, err := r.Engine.Sweep(ctx, parley.System()); err == nil {
					t.Error("a sweep that cannot remove an archive says nothing")
				}
				if restart {
					r.Close()
					r = enginetest.Over(t, r.Mem.Clone(), r.Service, secretary, enginetest.App(keeping), byHand, with)
				}
				sh.stuck.Store(false)
				if got := sh.sessions(t); len(got) != 2 {
					t.Errorf("archived: %v", got)
				}
				sweep(t, r)
				if diff := cmp.Diff([]parley.SessionID{other.ID}, sh.sessions(t)); diff != "" {
					t.Errorf("archived (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestArtifactsGoWithTheirSteps condenses turns with large results. With an archive the results
// are read from there, and the store no longer has their bytes. Without one they are gone.
func TestArtifactsGoWithTheirSteps(t *testing.T) {
	t.Parallel()
	for name, deletes := range map[string]bool{"archived": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh := newShelf(t)
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(keeping, func(a *parley.App) { a.TTL.NoArchive = deletes })
				plot := func(ctx context.Context, req seam.Request, say func(string)) (seam.Reply, error) {
					if len(enginetest.Results(req)) > 0 {
						say("here")
						return seam.Reply{}, nil
					}
					return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "plot"})}}, nil
				}
				r := enginetest.New(t, plot, app, byHand, func(o *engine.Options) { o.Archive = sh })
				defer r.Close()
				s := r.Session()
				for range 2 {
					r.Await(r.Send(s.ID, "plot").ID)
				}
				arts, err := r.Store.Artifacts(ctx, enginetest.User, s.ID)
				if err != nil || len(arts) != 2 {
					t.Fatalf("%d artifacts, %v", len(arts), err)
				}
				fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(23 * time.Hour)
				r.Await(r.Send(s.ID, "young").ID)
				r.Await(r.Send(fork.ID, "young").ID) // it plots the same picture
				time.Sleep(2 * time.Hour)
				digest := arts[0].SHA256
				if _, err := r.Store.Blob(ctx, enginetest.User, s.ID, digest); err != nil {
					t.Fatal(err)
				}
				sweep(t, r)
				if _, err := r.Store.Blob(ctx, enginetest.User, s.ID, digest); err != nil {
					t.Errorf("the young turn has the same bytes: %v", err)
				}
				time.Sleep(25 * time.Hour)
				sweep(t, r)
				if _, err := r.Store.Blob(ctx, enginetest.User, s.ID, digest); code(err) != parley.CodeNotFound {
					t.Errorf("the store has the bytes: %v", err)
				}
				for _, a := range arts {
					got, body, err := r.Engine.Artifact(ctx, enginetest.User, a.ID)
					switch {
					case deletes && code(err) != parley.CodeNotFound:
						t.Errorf("a deleted artifact: %+v, %v", got, err)
					case !deletes && (err != nil || int64(len(body)) != a.Size):
						t.Errorf("an archived artifact: %d bytes, %v", len(body), err)
					}
				}
				if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
					t.Fatal(err)
				}
				if left := sh.sessions(t); deletes && len(left) > 0 || !deletes && len(left) != 1 {
					t.Errorf("archived: %v, with the fork %s", left, fork.ID)
				}
			})
		})
	}
}

// TestAttachedArtifactsStay condenses a turn with a result that a later message attaches. The
// artifact stays, because messages are kept and prompts may include them.
func TestAttachedArtifactsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(keeping, func(a *parley.App) { a.TTL.NoArchive = true })
		r := enginetest.New(t, func(_ context.Context, req seam.Request, say func(string)) (seam.Reply, error) {
			if enginetest.Last(req) != "plot" || len(enginetest.Results(req)) > 0 {
				say("here")
				return seam.Reply{}, nil
			}
			return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "plot"})}}, nil
		}, app, byHand)
		defer r.Close()
		s := r.Session()
		r.Await(r.Send(s.ID, "plot").ID)
		arts, err := r.Store.Artifacts(ctx, enginetest.User, s.ID)
		if err != nil || len(arts) != 1 {
			t.Fatalf("%d artifacts, %v", len(arts), err)
		}
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "what is this?", Attachments: []parley.ArtifactID{arts[0].ID}})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		time.Sleep(25 * time.Hour)
		if done := sweep(t, r); done.Condensed != 1 {
			t.Fatalf("swept %+v", done)
		}
		if _, body, err := r.Engine.Artifact(ctx, enginetest.User, arts[0].ID); err != nil || len(body) == 0 {
			t.Errorf("an attached artifact: %d bytes, %v", len(body), err)
		}
	})
}
