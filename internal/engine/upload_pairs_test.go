package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestAttachPairs: files that users attach, together with a rewind and its undoing, forks, retention, an export that another user
// imports, and deletion, over each store. A file is a session's from its upload on: a rewind takes back messages and not files. A
// fork has those that were there at its point; each copy outlives the session that it was made of.
func TestAttachPairs(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		var saw atomic.Pointer[string]
		var later atomic.Int64
		model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			text := fmt.Sprint(r.Messages)
			saw.Store(&text)
			say("seen")
			return seam.Reply{}, nil
		}
		kept := archive.NewFolder(datafolder.New(t.TempDir(), nil))
		r := enginetest.Over(t, store, &enginetest.Service{}, model, enginetest.App(keeping), doubling, byHand, func(o *engine.Options) {
			o.Archive, o.Now = kept, func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		defer r.Close()
		ben := parley.Principal{User: "ben"}
		attach := func(p parley.Principal, id parley.SessionID, text string) parley.Attachment {
			t.Helper()
			a, err := r.Engine.Attach(ctx, p, id, "notes.txt", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		// send sends a message with a file, whose text the model must see.
		send := func(what string, p parley.Principal, id parley.SessionID, a parley.ArtifactID, sees string) parley.TurnInfo {
			t.Helper()
			turn, err := r.Engine.Send(ctx, p, id, parley.Send{Message: "read it", Attachments: []parley.ArtifactID{a}})
			if err == nil {
				turn, err = r.Engine.Await(ctx, p, turn.ID, time.Minute)
			}
			if err != nil || turn.Status != parley.StatusCompleted || !strings.Contains(*saw.Load(), sees) {
				t.Fatalf("%s: %+v, %v, and the model sees %.2000s", what, turn, err, *saw.Load())
			}
			return turn
		}
		unknown := func(what string, p parley.Principal, id parley.SessionID, a parley.ArtifactID) {
			t.Helper()
			if _, err := r.Engine.Send(ctx, p, id, parley.Send{Message: "read it", Attachments: []parley.ArtifactID{a}}); code(err) != parley.CodeNotFound {
				t.Errorf("%s: %v", what, err)
			}
		}
		files := func(p parley.Principal, id parley.SessionID, want int) (list []seam.Artifact) {
			t.Helper()
			list, err := r.Store.Artifacts(ctx, p, id)
			if err != nil || len(list) != want {
				t.Errorf("%d artifacts, want %d: %v", len(list), want, err)
			}
			return list
		}
		s := r.Session()
		first := r.Await(r.Send(s.ID, "hello").ID)
		point := int64(len(r.Log(s.ID)))
		one := attach(enginetest.User, s.ID, "one!")
		turn := send("a message", enginetest.User, s.ID, one.ID, "one!one!")
		two := attach(enginetest.User, s.ID, "two!") // behind the message, and in none

		back := r.Rewind(s.ID, parley.RewindSession{What: parley.RewindConversation, Turn: turn.ID})
		if again := attach(enginetest.User, s.ID, "one!"); again != one {
			t.Errorf("after a rewind the file is %+v, was %+v", again, one)
		}
		files(enginetest.User, s.ID, 4)
		send("after a rewind", enginetest.User, s.ID, two.ID, "two!two!")
		r.Rewind(s.ID, parley.RewindSession{What: parley.RewindConversation, Undo: back.Seq})
		send("after it was undone", enginetest.User, s.ID, one.ID, "one!one!")

		early, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: point})
		if err != nil {
			t.Fatal(err)
		}
		files(enginetest.User, early.ID, 0)
		unknown("in a fork of before the upload", enginetest.User, early.ID, one.ID)
		own := attach(enginetest.User, early.ID, "one!")
		send("the fork's own", enginetest.User, early.ID, own.ID, "one!one!")
		late, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		inFork := attach(enginetest.User, late.ID, "two!")
		files(enginetest.User, late.ID, 4)
		send("in a fork", enginetest.User, late.ID, inFork.ID, "two!two!")

		later.Store(int64(25 * time.Hour))
		if done := sweep(t, r); done.Condensed < 2 {
			t.Fatalf("swept %+v", done)
		}
		files(enginetest.User, s.ID, 4)
		if again := attach(enginetest.User, s.ID, "two!"); again != two {
			t.Errorf("after retention the file is %+v, was %+v", again, two)
		}
		send("after retention", enginetest.User, s.ID, one.ID, "one!one!")

		copied, err := r.Engine.Import(ctx, ben, r.Exported(s.ID))
		if err != nil {
			t.Fatal(err)
		}
		unknown("another's file in an import", ben, copied.ID, one.ID)
		his := attach(ben, copied.ID, "one!") // which the import has already
		if his.Text != one.Text || his.Name != one.Name || his.SHA256 != one.SHA256 || his.ID == one.ID {
			t.Errorf("in an import: %+v, was %+v", his, one)
		}
		files(ben, copied.ID, 4)
		send("in an import", ben, copied.ID, his.ID, "one!one!")

		if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Engine.Artifact(ctx, enginetest.User, two.ID); err == nil && inFork.ID != two.ID {
			t.Error("a deleted session's file is there")
		}
		send("in a fork of a deleted session", enginetest.User, late.ID, inFork.ID, "two!two!")
		send("in an import of a deleted session", ben, copied.ID, his.ID, "one!one!")
		if again, err := r.Engine.Retry(ctx, enginetest.User, first.ID, "", ""); err == nil {
			r.Await(again.ID) // of the oldest fork
		}
	})
}

// TestAttachCrash: whatever write an upload dies at, or whose answer is lost, and however often the disk is full: afterwards
// the session has the file whole or not at all, and the same upload again gives it, once.
func TestAttachCrash(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"the disk is full", "killed before", "killed after", "the answer is lost"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				reached := false
				synctest.Test(t, func(t *testing.T) {
					r := enginetest.New(t, enginetest.Echo, enginetest.App(), doubling)
					s := r.Session()
					synctest.Wait()
					n := 0
					fail := func(mem.Call) error {
						if n++; n < at || n > at && how == "the answer is lost" {
							return nil
						}
						reached = true
						if how == "the disk is full" {
							return parley.Errorf(parley.CodeUnavailable, "there is no space left")
						}
						return errors.New("the store is gone") // nobody knows whether it was done
					}
					faults := mem.Faults{Before: fail}
					if how == "killed after" || how == "the answer is lost" {
						faults = mem.Faults{After: fail}
					}
					r.Mem.SetFaults(faults)
					_, err := r.Engine.Attach(ctx, enginetest.User, s.ID, "x.txt", []byte("text"))
					if reached && err == nil && how == "the disk is full" {
						t.Errorf("write %d failed, and the upload did not", at)
					}
					if strings.HasPrefix(how, "killed") {
						disk := r.Mem.Clone()
						r.Kill()
						r = enginetest.Over(t, disk, r.Service, enginetest.Echo, enginetest.App(), doubling)
					} else {
						r.Mem.SetFaults(mem.Faults{})
					}
					defer r.Close()
					list, lerr := r.Store.Artifacts(ctx, enginetest.User, s.ID)
					if lerr != nil || len(list) != 0 && len(list) != 2 {
						t.Errorf("write %d: %d artifacts, %v", at, len(list), lerr)
					}
					a, err := r.Engine.Attach(ctx, enginetest.User, s.ID, "x.txt", []byte("text"))
					if err != nil || a.Text != 8 || len(list) > 0 && a.ID != list[0].ID && a.ID != list[1].ID {
						t.Errorf("write %d, again: %+v, %v", at, a, err)
					}
					if list, err = r.Store.Artifacts(ctx, enginetest.User, s.ID); err != nil || len(list) != 2 {
						t.Errorf("write %d, again: %d artifacts, %v", at, len(list), err)
					}
					turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "read it", Attachments: []parley.ArtifactID{a.ID}})
					if err != nil || r.Await(turn.ID).Status != parley.StatusCompleted {
						t.Errorf("write %d: %v", at, err)
					}
					if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
						t.Error(err)
					}
				})
				if !reached {
					if at < 4 {
						t.Errorf("an upload has %d writes", at-1)
					}
					break
				}
			}
		})
	}
}

// TestAttachSecret: a file from which a secret was removed is known again when it is uploaded again.
func TestAttachSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), doubling)
		defer r.Close()
		s := r.Session()
		var ids []parley.ArtifactID
		for range 2 {
			a, err := r.Engine.Attach(ctx, enginetest.User, s.ID, "x.txt", []byte("the key is sk-ant-api03-"+strings.Repeat("a1B2", 12)+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.ID)
		}
		list, err := r.Store.Artifacts(ctx, enginetest.User, s.ID)
		if err != nil || len(list) != 2 || ids[0] != ids[1] {
			t.Errorf("the uploads are %q, with %d artifacts, %v", ids, len(list), err)
		}
		for _, a := range list {
			if _, body, err := r.Engine.Artifact(ctx, enginetest.User, a.ID); err != nil || bytes.Contains(body, []byte("a1B2")) {
				t.Errorf("%s is %q, %v", a.Name, body, err)
			}
		}
	})
}
