package livefiles_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/seam"
)

// TestFiles_are_those_of_an_export: the files of a quiet session are those of its export, whatever
// happened in it.
func TestFiles_are_those_of_an_export(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(asking), func(t *testing.T, r *rig) {
		ctx := t.Context()
		one, two := r.Session().ID, r.Session().ID
		settled()
		r.same("made", one, two)
		r.Await(r.Send(one, "look 3").ID)
		r.Await(r.Send(two, "plot").ID)
		settled()
		r.same("after a turn", one, two)
		looks := r.Send(one, "look 2")
		queued := r.Send(one, "look 1")
		r.Await(looks.ID)
		r.Await(queued.ID)
		waits := r.Await(r.Send(one, "mail 1").ID)
		settled()
		r.same("while it waits", one, two)
		if _, err := r.Engine.Answer(ctx, enginetest.User, waits.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		r.Await(waits.ID)
		r.Await(r.Send(two, "fail").ID)
		settled()
		r.same("after an answer and a failure", one, two)
		did, err := r.Engine.Rewind(ctx, enginetest.User, one, parley.RewindSession{Turn: queued.ID, Key: "r"})
		if err != nil {
			t.Fatal(err)
		}
		settled()
		r.same("rewound", one, two)
		made, err := r.Engine.AwaitRewind(ctx, enginetest.User, one, did.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.Await(r.Send(one, "look 1").ID)
		settled()
		r.same("after the turn after it", one, two)
		if _, err := r.Engine.Rewind(ctx, enginetest.User, one, parley.RewindSession{Undo: made.Seq}); err != nil {
			t.Fatal(err)
		}
		settled()
		r.same("after that was undone", one, two)
		title := "<Title>"
		if _, err := r.Engine.Update(ctx, enginetest.User, one, parley.UpdateSession{Title: &title}); err != nil {
			t.Fatal(err)
		}
		fork, err := r.Engine.Fork(ctx, enginetest.User, two, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.End(ctx, enginetest.User, one, "enough"); err != nil {
			t.Fatal(err)
		}
		settled()
		r.same("changed, forked, ended", one, two, fork.ID)
		if n := r.failed.Load(); n != 0 {
			t.Errorf("%d failures", n)
		}
	})
}

// TestFiles_catch_up_after_a_crash_at_any_moment: after a crash at any moment, the files catch up from the
// log at the next start.
func TestFiles_catch_up_after_a_crash_at_any_moment(t *testing.T) {
	t.Parallel()
	var step chan struct{} // made in the bubble
	gated := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		<-step
		return clerk(ctx, r, say)
	}
	live(t, gated, enginetest.App(asking), func(t *testing.T, r *rig) {
		step = make(chan struct{})
		id := r.Session().ID
		moments := 0
		check := func() {
			moments++
			data, store := r.afterCrash()
			want := export(t, store, r.kept, id)
			if diff := cmp.Diff(want, onDisk(t, data)); diff != "" {
				t.Errorf("moment %d (-export +disk):\n%s", moments, diff)
			}
		}
		check()
		for _, message := range []string{"look 4", "plot", "mail 1"} {
			r.Send(id, message)
			for range 5 {
				synctest.Wait()
				check()
				time.Sleep(700 * time.Millisecond) // so that some moments are before a flush and some after it
				select {
				case step <- struct{}{}:
				case <-time.After(time.Second):
				}
			}
			synctest.Wait()
		}
		if moments < 15 {
			t.Errorf("only %d moments", moments)
		}
	})
}

// TestFiles_what_was_torn_is_written_anew: data that a power loss damaged after the last session.json is
// written again. Data from before it is trusted.
func TestFiles_what_was_torn_is_written_anew(t *testing.T) {
	t.Parallel()
	var hold chan struct{} // made in the bubble
	slow := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if n := len(enginetest.Results(r)); n == 0 || n == 4 {
			<-hold
		}
		return clerk(ctx, r, say)
	}
	live(t, slow, enginetest.App(), func(t *testing.T, r *rig) {
		hold = make(chan struct{})
		id := r.Session().ID
		turn := r.Send(id, "look 5").ID
		settled() // session.json has the beginning of the turn and is next written at its end
		hold <- struct{}{}
		settled()
		dir := filepath.Join("sessions", string(id))
		log, record := filepath.Join(dir, "logs", string(turn)+".log"), filepath.Join(dir, "turns", string(turn)+".json")
		if got := onDisk(t, r.data)[filepath.ToSlash(log)]; strings.Count(got, "\n") < 5 {
			t.Fatalf("the log of the running turn is\n%s", got)
		}
		damage := func(do func(path string) error, names ...string) func(data string) {
			return func(data string) {
				for _, name := range names {
					if err := do(filepath.Join(data, name)); err != nil {
						t.Error(err)
					}
				}
			}
		}
		empty := func(path string) error { return os.Truncate(path, 0) }
		junk := func(path string) error { return os.WriteFile(path, []byte("{\"half"), 0o600) }
		for name, f := range map[string]func(string){
			"nothing":            func(string) {},
			"an empty log":       damage(empty, log),
			"an empty record":    damage(empty, record),
			"a longer log":       damage(junk, log),
			"half files":         damage(junk, log+".half", record+".half", filepath.Join(dir, "session.json.half")),
			"no turn at all":     damage(os.RemoveAll, filepath.Join(dir, "turns"), filepath.Join(dir, "logs")),
			"no session.json":    damage(os.Remove, filepath.Join(dir, "session.json")),
			"half session.json":  damage(junk, filepath.Join(dir, "session.json"), log),
			"no session":         damage(os.RemoveAll, dir),
			"nothing at all":     damage(os.RemoveAll, "sessions"),
			"files of old forms": damage(junk, filepath.Join("sessions", ".form"), record),
		} {
			data, store := r.afterCrash(f)
			got := onDisk(t, data)
			for n := range got { // half files that were never renamed do no harm
				if strings.HasSuffix(n, ".half") {
					delete(got, n)
				}
			}
			if diff := cmp.Diff(export(t, store, r.kept, id), got); diff != "" {
				t.Errorf("%s (-export +disk):\n%s", name, diff)
			}
		}
		close(hold)
		r.Await(turn)
	})
}

// TestFiles_follow_a_log_that_went_back: a log that is shorter than the files, as after restoring a backup,
// is the truth.
func TestFiles_follow_a_log_that_went_back(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		id := r.Session().ID
		r.Await(r.Send(id, "look 1").ID)
		settled()
		backup := r.Mem.Clone()
		r.Await(r.Send(id, "look 2").ID)
		settled()
		r.Mem = backup
		data, store := r.afterCrash()
		if diff := cmp.Diff(export(t, store, r.kept, id), onDisk(t, data)); diff != "" {
			t.Errorf("the files (-export +disk):\n%s", diff)
		}
	})
}

// TestFiles_flush: steps are written when there are five of them, or after two seconds. session.json waits
// for the end of the turn. A log is appended to and not rewritten.
func TestFiles_flush(t *testing.T) {
	t.Parallel()
	var step chan struct{} // made in the bubble
	gated := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		<-step
		return clerk(ctx, r, say)
	}
	live(t, gated, enginetest.App(), func(t *testing.T, r *rig) {
		step = make(chan struct{})
		id := r.Session().ID
		turn := r.Send(id, "look 4").ID
		settled()
		log := filepath.Join(r.data, "sessions", string(id), "logs", string(turn)+".log")
		lines := func() int {
			synctest.Wait()
			raw, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Count(string(raw), "\n")
		}
		if n := lines(); n != 0 {
			t.Fatalf("at first there are %d lines", n)
		}
		before, err := os.Stat(log)
		if err != nil {
			t.Fatal(err)
		}
		step <- struct{}{} // the steps plan, call and result
		if n := lines(); n != 0 {
			t.Errorf("3 new steps are written at once: %d lines", n)
		}
		step <- struct{}{}
		if n := lines(); n != 6 {
			t.Errorf("6 new steps are not written at once: %d lines", n)
		}
		step <- struct{}{}
		time.Sleep(2 * time.Second)
		if n := lines(); n != 9 {
			t.Errorf("after 2 s there are %d lines", n)
		}
		if now, err := os.Stat(log); err != nil || !os.SameFile(before, now) {
			t.Errorf("the log was rewritten: %v", err)
		}
		step <- struct{}{}
		step <- struct{}{}
		r.Await(turn)
		settled()
		if now, err := os.Stat(log); err != nil || !os.SameFile(before, now) {
			t.Errorf("the log was rewritten: %v", err)
		}
		r.same("at the end", id)
	})
}

// TestFiles_of_a_deleted_session_go: the files of a deleted session are removed with its artifacts, at once
// or at the next start. Files of other sessions stay.
func TestFiles_of_a_deleted_session_go(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		ctx := t.Context()
		one, two := r.Session().ID, r.Session().ID
		r.Await(r.Send(one, "plot").ID)
		r.Await(r.Send(two, "plot").ID)
		fork, err := r.Engine.Fork(ctx, enginetest.User, one, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		settled()
		r.same("before", one, two, fork.ID)
		if err := r.Engine.Delete(ctx, enginetest.User, fork.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.same("without the fork", one, two)
		r.files.Die()
		if err := r.Engine.Delete(ctx, enginetest.User, one); err != nil {
			t.Fatal(err)
		}
		r.start()
		synctest.Wait()
		r.same("deleted while nobody wrote", two)

		// The same holds if no app has files any more.
		r.files.Die()
		o := r.options()
		o.Apps = nil
		r.files = livefiles.Start(o)
		synctest.Wait()
		r.same("switched off", two)
		if err := r.Engine.Delete(ctx, enginetest.User, two); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.same("deleted when switched off")
	})
}

// TestFiles_follow_retention: steps that retention deletes are removed from the files too. Steps that it
// archives stay, as in an export.
func TestFiles_follow_retention(t *testing.T) {
	t.Parallel()
	for name, deletes := range map[string]bool{"archived": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			followRetention(t, deletes)
		})
	}
}

func followRetention(t *testing.T, deletes bool) {
	app := enginetest.App(func(a *parley.App) {
		a.TTL = parley.TTL{
			SessionIdle: parley.Duration(48 * time.Hour), TurnSteps: parley.Duration(24 * time.Hour), Ended: parley.Duration(48 * time.Hour), NoArchive: deletes,
		}
	})
	live(t, clerk, app, func(t *testing.T, r *rig) {
		id := r.Session().ID
		old := r.Send(id, "plot").ID
		r.Await(old)
		time.Sleep(23 * time.Hour)
		young := r.Send(id, "look 2").ID
		r.Await(young)
		settled()
		r.same("before", id)
		time.Sleep(3 * time.Hour) // the engine sweeps by itself
		r.same("condensed", id)
		got := onDisk(t, r.data)
		dir := "sessions/" + string(id) + "/logs/"
		if (got[dir+string(old)+".log"] == "") != deletes || strings.Count(got[dir+string(young)+".log"], "\n") < 5 {
			t.Errorf("the steps of the old turn (deleted: %t) or of the young one: %v", deletes, slices.Sorted(maps.Keys(got)))
		}
		r.Await(r.Send(id, "look 1").ID)
		settled()
		r.same("after another turn", id)
		data, store := r.afterCrash(func(data string) {
			if err := os.Remove(filepath.Join(data, "sessions", string(id), "session.json")); err != nil {
				t.Error(err)
			}
		})
		if diff := cmp.Diff(export(t, store, r.kept, id), onDisk(t, data)); diff != "" {
			t.Errorf("rewritten from a condensed log (-export +disk):\n%s", diff)
		}
		time.Sleep(50 * time.Hour)
		r.same("expired", id)
		time.Sleep(50 * time.Hour)
		r.same("deleted")
	}, func(o *engine.Options) { o.TendEvery = time.Hour })
}

// TestFiles_that_can_not_be_written_disturb_nobody: if files cannot be written, turns continue.
// One warning is logged, and the files catch up later.
func TestFiles_that_can_not_be_written_disturb_nobody(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		one := r.Session().ID
		r.Await(r.Send(one, "look 1").ID)
		settled()
		r.files.Die()
		var said strings.Builder
		o := r.options()
		o.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
		r.files = livefiles.Start(o)
		synctest.Wait()

		// A file replaces the folder, since root could write to any folder.
		folder, aside := filepath.Join(r.data, "sessions"), filepath.Join(r.data, "aside")
		if err := os.Rename(folder, aside); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		two := r.Session().ID
		for _, id := range []parley.SessionID{one, two, one} {
			if end := r.Await(r.Send(id, "look 2").ID); end.Status != parley.StatusCompleted {
				t.Errorf("a turn ended as %s", end.Status)
			}
			time.Sleep(time.Minute)
		}
		if r.failed.Load() < 2 || r.behind.Load() != 2 {
			t.Errorf("%d failures, %d behind", r.failed.Load(), r.behind.Load())
		}
		if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(said.String(), "hint=") {
			t.Errorf("it was said %d times:\n%s", n, said.String())
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, folder); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.same("when they can be written again", one, two)
		if n := r.behind.Load(); n != 0 {
			t.Errorf("%d are behind", n)
		}
	})
}

// TestFiles_what_was_not_heard_is_found: an append of another process sends no notification here, but is
// found all the same.
func TestFiles_what_was_not_heard_is_found(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		id := r.Session().ID
		settled()
		if err := r.Engine.Close(t.Context()); err != nil { // another process cannot take a session from a running server
			t.Fatal(err)
		}
		other := enginetest.Over(t, r.Store, r.Service, clerk, enginetest.App())
		other.Await(other.Send(id, "look 2").ID)
		other.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.same("after a minute", id)
	})
}

// TestFiles_are_of_the_apps_that_have_them: sessions of other apps have no files.
func TestFiles_are_of_the_apps_that_have_them(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		r.files.Die()
		o := r.options()
		o.Apps = map[string]bool{"another": true, "test": false}
		r.files = livefiles.Start(o)
		id := r.Session().ID
		r.Await(r.Send(id, "look 2").ID)
		settled()
		r.same("of another app")
	})
}

func TestFiles_meta_is_written_when_it_is_known_and_new(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		r.files.Die()
		o := r.options()
		began := time.Now()
		o.Meta = func() any {
			switch since := time.Since(began); {
			case since < 15*time.Second:
				return nil
			case since < time.Minute:
				return map[string]int{"entities": 1}
			}
			return map[string]int{"entities": 2}
		}
		r.files = livefiles.Start(o)
		var got []string
		for range 3 {
			time.Sleep(12 * time.Second)
			synctest.Wait()
			got = append(got, onDisk(t, r.data)["index/meta.json"])
			time.Sleep(18 * time.Second)
		}
		want := []string{"", "{\n \"entities\": 1\n}\n", "{\n \"entities\": 2\n}\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("index/meta.json (-want +got):\n%s", diff)
		}
	})
}

// TestClose_writes_what_is_left: a server that stops writes what is not yet in the files.
func TestClose_writes_what_is_left(t *testing.T) {
	t.Parallel()
	var r *rig
	var ids []parley.SessionID
	live(t, clerk, enginetest.App(), func(t *testing.T, got *rig) {
		r = got
		for n := range 3 {
			id := r.Session().ID
			ids = append(ids, id)
			r.Await(r.Send(id, fmt.Sprint("look ", n)).ID)
		}
	})
	r.T = t
	r.same("closed", ids...)
}

// TestFiles_of_a_folder_that_went_away: the data folder is renamed while sessions continue. It is not made
// again. When it is put back, the files catch up.
func TestFiles_of_a_folder_that_went_away(t *testing.T) {
	t.Parallel()
	meta := 0
	live(t, clerk, enginetest.App(asking), func(t *testing.T, r *rig) {
		one := r.Session().ID
		settled()
		r.files.Die()
		var said strings.Builder
		o := r.options()
		o.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelInfo}))
		o.Meta = func() any { meta++; return map[string]int{"n": meta} }
		r.files = livefiles.Start(o)
		settled()
		for range 2 {
			if err := os.Rename(r.data, r.data+"-aside"); err != nil {
				t.Fatal(err)
			}
			two := r.Session().ID
			for _, id := range []parley.SessionID{one, two, one} {
				if end := r.Await(r.Send(id, "plot 2").ID); end.Status != parley.StatusCompleted {
					t.Errorf("a turn ended as %s", end.Status)
				}
				time.Sleep(time.Minute)
			}
			if _, err := os.Lstat(r.data); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("the folder was made again: %v", err)
			}
			if err := os.Rename(r.data+"-aside", r.data); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if err := os.RemoveAll(filepath.Join(r.data, "index")); err != nil {
				t.Fatal(err)
			}
			if got, want := onDisk(t, r.data), export(t, r.Store, r.kept, one, two); len(got) < len(want) || !cmp.Equal(got["sessions/"+string(two)+"/session.json"], want["sessions/"+string(two)+"/session.json"]) {
				t.Errorf("put back, the folder has %d files, want those of the export, %d", len(got), len(want))
			}
		}
		// It is noticed even when there is nothing to write, and nothing changes in another
		// server's folder.
		r.files.Die()
		o.Meta = nil
		r.files = livefiles.Start(o)
		settled()
		if err := os.Rename(r.data, r.data+"-aside"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := strings.Count(said.String(), "level=WARN"); n != 3 || strings.Count(said.String(), "put back what was at") != 3 || strings.Count(said.String(), "written again") != 2 {
			t.Errorf("it was said %d times:\n%s", n, said.String())
		}
	})
}

// TestFiles_of_a_folder_that_goes_away_at_any_moment: the data folder is renamed right after each of the
// checks for it, and while an artifact is read. It is not made again, and when it is put back the files catch up.
func TestFiles_of_a_folder_that_goes_away_at_any_moment(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(r *rig){
		"no sessions":      func(*rig) {},
		"an empty session": func(r *rig) { r.Session() },
		"an artifact":      func(r *rig) { r.Await(r.Send(r.Session().ID, "plot").ID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 12 { // later ones are the same again
				live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
					r.files.Die()
					prepare(r)
					r.data = filepath.Join(t.TempDir(), "data")
					if err := os.Mkdir(r.data, 0o700); err != nil {
						t.Fatal(err)
					}
					moments := 0
					moment := func() error {
						if moments++; moments == n+1 {
							return os.Rename(r.data, r.data+"-aside")
						}
						return nil
					}
					o := r.options()
					o.Data, o.Store = datafolder.New(r.data, moment), shelved{o.Store, moment}
					o.Meta = func() any { return 1 }
					r.files = livefiles.Start(o)
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					if _, err := os.Lstat(r.data); !errors.Is(err, fs.ErrNotExist) {
						t.Fatalf("after moment %d the folder was made again: %v", n, err)
					}
					if err := os.Rename(r.data+"-aside", r.data); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					got := onDisk(t, r.data)
					if got["index/meta.json"] == "" {
						t.Errorf("after moment %d, put back: there is no meta.json", n)
					}
					delete(got, "index/meta.json")
					var ids []parley.SessionID
					list, err := r.Store.Sessions(t.Context(), parley.System(), seam.SessionQuery{Limit: 10})
					for _, s := range list {
						ids = append(ids, s.ID)
					}
					if diff := cmp.Diff(export(t, r.Store, r.kept, ids...), got); diff != "" || err != nil {
						t.Errorf("after moment %d, put back (-export +disk):\n%s", n, diff)
					}
				})
			}
		})
	}
}

// shelved is a store that calls moment when an artifact is read.
type shelved struct {
	livefiles.Store
	moment func() error
}

func (s shelved) Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (seam.Artifact, error) {
	if err := s.moment(); err != nil {
		return seam.Artifact{}, err
	}
	return s.Store.Artifact(ctx, p, id)
}
