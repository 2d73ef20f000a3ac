package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
)

// TestResources_of_an_app_that_is_off: nothing is read for a session whose app is off, and the
// error is about the app. A message that was accepted earlier is found by its key.
func TestResources_of_an_app_that_is_off(t *testing.T) {
	resourced(t, func(t *testing.T, r *reading) {
		sent := parley.Send{Message: "see", Resources: []parley.ResourceRef{{Server: "docs", URI: "x:a"}}, Key: "k"}
		first := r.Await(r.must(sent).ID)
		r.Close()
		app := r.l.app()
		app.Name = "other"
		r.Rig = enginetest.Over(t, r.Store, r.Service, r.Rig.Model, app, r.l.with, func(o *engine.Options) { o.Tools["other"] = o.Tools["test"] })
		defer r.Close()
		if got := r.must(sent); got.ID != first.ID {
			t.Errorf("sent again it is %s, not %s", got.ID, first.ID)
		}
		for _, c := range []parley.Send{{Message: "see", Resources: sent.Resources}, {Message: "see @docs:x:a"}} {
			_, err := r.send(c)
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeConflict || e.Field != "app" {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if page, _, err := r.Engine.Resources(ctx, enginetest.User, r.s, parley.ResourceRef{}, 0); err != nil || len(page.Resources) > 0 || r.l.read("x:a") != 1 {
			t.Errorf("it lists %+v, %v; it was read %d times", page, err, r.l.read("x:a"))
		}
	})
}

// TestResources_of_an_app_that_is_replaced: an app is replaced by one without its server while the
// server is being read. That message still gets what the server returns. For the next message there
// is no such server.
func TestResources_of_an_app_that_is_replaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary()
		m := &listener{}
		var scopes *scope.Scopes
		r := enginetest.New(t, m.model, l.app(), l.with, func(o *engine.Options) {
			var err error
			scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: l.app(), Tools: o.Tools["test"]}}, Clean: o.Log.RedactFile, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			o.Scopes = scopes
		})
		defer r.Close()
		s := r.Session().ID
		send := parley.Send{Message: "see", Resources: []parley.ResourceRef{{Server: "docs", URI: "x:hang"}}}
		var info parley.TurnInfo
		var err error
		var work sync.WaitGroup
		work.Go(func() { info, err = r.Engine.Send(ctx, enginetest.User, s, send) })
		synctest.Wait()
		if err := scopes.Replace(scope.App{App: enginetest.App(func(a *parley.App) {
			a.Tools, a.Agents = nil, map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Be brief."}}
		})}); err != nil {
			t.Fatal(err)
		}
		close(l.hang)
		work.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if end := r.Await(info.ID); end.Status != parley.StatusCompleted || !strings.Contains(m.last(), "x:hang of all, reading 1") {
			t.Errorf("got %+v: %s", end, m.last())
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, s, send); parley.CodeOf(err) != parley.CodeInvalid || !strings.Contains(err.Error(), `no MCP server "docs"`) {
			t.Errorf("the next message: %v", err)
		}
	})
}

// TestResources_that_panic: a toolset that panics while it reads fails that one message. The same
// message with the same key is read again, and the tools are not held.
func TestResources_that_panic(t *testing.T) {
	resourced(t, func(t *testing.T, r *reading) {
		send := parley.Send{Message: "see @docs:x:panic", Key: "k"}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			_, _ = r.send(send)
		}()
		now, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		info, err := r.Engine.Send(now, enginetest.User, r.s, send)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Await(info.ID); got.Status != parley.StatusCompleted || !strings.Contains(r.last(), "x:panic of all, reading 2") {
			t.Errorf("got %+v: %s", got, r.last())
		}
	})
}
