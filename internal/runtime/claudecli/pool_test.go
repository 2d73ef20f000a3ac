package claudecli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
)

// TestPool: a thousand turns of one user wait for two processes, and many of them give up. The one turn of
// somebody else is next as soon as a process has ended. Nobody starves, and no process is lost.
func TestPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := New(nil, Options{Most: 2, Wait: 10 * time.Minute})
		ana, bob := parley.Principal{User: "ana"}, parley.Principal{User: "bob"}
		ended := make(chan string, 2000)
		turn := func(ctx context.Context, who parley.Principal, name string) {
			leave, err := rt.pool.enter(ctx, who)
			switch {
			case err == nil:
				time.Sleep(time.Second) // it works
				leave()
				leave() // again does nothing
			case parley.CodeOf(err) == parley.CodeBusy:
				name += " busy"
			default:
				name = err.Error()
			}
			ended <- name
		}
		gone := errors.New("gone")
		for i := range 1000 {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go turn(ctx, ana, fmt.Sprint(i))
			synctest.Wait()
			if i >= 2 && i%2 == 0 {
				time.AfterFunc(time.Millisecond, func() { cancel(gone) })
			}
		}
		go turn(t.Context(), bob, "bob")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for range 499 {
			if got := <-ended; got != "gone" {
				t.Fatal(got)
			}
		}
		// The two that work end, and then those that wait, in order. Bob's is not behind all of ana's.
		first := map[string]bool{}
		for range 5 {
			first[<-ended] = true
		}
		for _, name := range []string{"0", "1", "bob", "3"} {
			if !first[name] {
				t.Errorf("%s is not among the first: %v", name, first)
			}
		}
		for range 502 - 5 {
			if got := <-ended; got == "gone" {
				t.Error(got)
			}
		}
		if rt.Processes() != 0 || rt.pool.wanted != 0 {
			t.Errorf("%d taken, %d wanted", rt.Processes(), rt.pool.wanted)
		}
		// Who waits for too long is told.
		a, err := rt.pool.enter(t.Context(), ana)
		if err != nil {
			t.Fatal(err)
		}
		b, err := rt.pool.enter(t.Context(), ana)
		if err != nil {
			t.Fatal(err)
		}
		go turn(t.Context(), bob, "bob")
		if got := <-ended; got != "bob busy" {
			t.Error(got)
		}
		a()
		b()
	})
}

// idling is a process of a session that nobody uses, and that ends a second after its input.
func idling(rt *Runtime, id parley.SessionID, leave func()) *process {
	in, stdin := io.Pipe()
	p := &process{
		rt: rt, spec: spec{session: id}, conn: newConn(stdin), stdin: stdin, stop: func() {}, leave: leave,
		gone: make(chan struct{}), changed: make(chan struct{}), tasks: map[string]*job{},
	}
	rt.work.Go(func() {
		_, _ = io.Copy(io.Discard, in)
		time.Sleep(time.Second)
		close(p.conn.ended)
		close(p.gone)
		rt.pool.ended(p)
	})
	return p
}

// TestPoolOneAtATime: a session whose process makes room for another one gets its next process when that has
// ended, since both have the same files, even if there is room before.
func TestPoolOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := New(nil, Options{Most: 3, Wait: time.Minute})
		var first *process
		get := func(id parley.SessionID) *process {
			p, fresh, err := rt.pool.get(t.Context(), id, parley.Principal{User: "ana"}, func(*process) bool { return true }, func(leave func()) (*process, error) {
				if id == "a" && first != nil {
					select {
					case <-first.gone:
					default:
						t.Error("both run at once")
					}
				}
				return idling(rt, id, leave), nil
			})
			if err != nil || !fresh {
				t.Fatal(fresh, err)
			}
			return p
		}
		first = get("a")
		rt.pool.release(first)
		b, d := get("b"), get("d")
		c := make(chan *process)
		go func() { c <- get("c") }()
		synctest.Wait() // the one of a ends to make room for it
		go b.kill()
		go d.kill()
		get("a")
		<-c
		rt.pool.close()
		rt.work.Wait()
		if rt.Processes() != 0 {
			t.Errorf("%d processes are left", rt.Processes())
		}
		// One that has started when all have ended is not kept.
		late := idling(rt, "e", func() {})
		if err := rt.pool.add(late); !errors.Is(err, errClosed) || rt.pool.has("e") != nil {
			t.Errorf("got %v", err)
		}
		late.end()
	})
}
