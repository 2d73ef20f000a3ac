package scope_test

import (
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// TestReplace: who holds an app that is replaced keeps it with its tools. It is closed once, after the last
// holder, and everybody else gets the new one.
func TestReplace(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "own"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{names: []string{"a"}}
				closed := 0
				close := func() { closed++ }
				version := func(title string) scope.App {
					a := scope.App{App: parley.App{Name: name, Title: title}, Close: close}
					if name == "own" {
						a.Sources = []scope.Source{w.source}
					}
					return a
				}
				s := scopes(t, w)
				put := func(title string) {
					t.Helper()
					if err := s.Replace(version(title)); err != nil {
						t.Fatal(err)
					}
				}
				put("one")
				at := seam.Scope{Principal: parley.Principal{User: "ana"}, App: name}
				first, err := s.Resolve(ctx, at)
				if err != nil {
					t.Fatal(err)
				}
				second := first.Share()
				if !first.Current() {
					t.Error("nothing has changed, and it is not current")
				}
				put("two")
				synctest.Wait()
				if first.Current() || first.App().Title != "one" || closed != 0 {
					t.Errorf("while it is held: current %v, %s, closed %d times", first.Current(), first.App().Title, closed)
				}
				now, err := s.Resolve(ctx, at)
				if err != nil || now.App().Title != "two" || now.Digest() == first.Digest() {
					t.Fatalf("%v, %v", now, err)
				}
				if app, ok := s.App(name); !ok || app.App().Title != "two" {
					t.Error("a reader gets the old one")
				}
				if name == "own" {
					w.is(t, 2, 2)
				}
				first.Release()
				first.Release()
				synctest.Wait()
				if closed != 0 {
					t.Error("it is closed while one holds it")
				}
				second.Release()
				synctest.Wait()
				if closed != 1 {
					t.Errorf("it was closed %d times", closed)
				}
				if name == "own" {
					w.is(t, 1, 2)
				}
				put("three")
				held := 0
				if name == "own" {
					held = 1 // that of now
				}
				w.is(t, held, 2*held)
				if err := s.Close(ctx); err != nil {
					t.Fatal(err)
				}
				w.is(t, 0, 2*held)
				now.Release()
				synctest.Wait()
				if closed != 1 {
					t.Errorf("after the end it was closed %d times", closed)
				}
				if err := s.Replace(version("four")); parley.CodeOf(err) != parley.CodeUnavailable {
					t.Errorf("after the end: %v", err)
				}
			})
		})
	}
}
