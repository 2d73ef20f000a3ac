package edge_test

import (
	"io"
	"testing"

	"github.com/parley-server/parley/internal/edge"
)

// TestServer_keeps_who_came_last: to make room, the server first closes earlier connections
// whose client is not known. It keeps a connection that was just accepted, and an idle one
// whose client was known and may ask again, until there are no others.
func TestServer_keeps_who_came_last(t *testing.T) {
	t.Parallel()
	r := newRig(t, edge.Options{Connections: 4})
	const right = "POST /known HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
	rests := r.dial(right)
	if status, _ := rests.answer(); status != 200 {
		t.Fatal(status)
	}
	waitFor(t, "it to rest", func() bool { return r.srv.Phases()["idle"] == 1 })
	var strangers []*client
	for n := range 2 {
		strangers = append(strangers, r.dial(post("/read-stream")))
		waitFor(t, "a stranger's request", func() bool { return r.srv.Phases()["asking"] == n+1 })
	}
	fresh := r.dial("")
	waitFor(t, "the new one", func() bool { return r.srv.Phases()["fresh"] == 1 })
	for n, c := range strangers {
		r.dial(post("/read-stream"))
		if err := c.gone(); err != nil {
			t.Errorf("stranger %d: %v", n, err)
		}
	}
	for name, c := range map[string]*client{"the one that was just accepted": fresh, "the one that was known": rests} {
		if _, err := io.WriteString(c, right); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if status, _ := c.answer(); status != 200 {
			t.Errorf("%s was closed", name)
		}
	}
	waitFor(t, "both to rest", func() bool { return r.srv.Phases()["idle"] == 2 })
	third := r.dial(right) // takes the place of an unknown client
	if status, _ := third.answer(); status != 200 {
		t.Fatal(status)
	}
	waitFor(t, "three to rest", func() bool { return r.srv.Phases()["idle"] == 3 })
	r.dial("")
	closed := 0
	for _, c := range []*client{fresh, rests, third} { // more than half are idle: the one idle for longest is closed
		_, _ = io.WriteString(c, right)
		if status, _ := c.answer(); status != 200 {
			closed++
		}
	}
	if closed != 1 {
		t.Errorf("%d of those that were known were closed, want one", closed)
	}
}
