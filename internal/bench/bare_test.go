package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
)

// TestBareRelayKeepsWhatItPromises: the floor of the table is one only if it keeps the same promises. A
// message and a reply are in the file when their events are shown, and a client that comes back with a
// number gets what came after it.
func TestBareRelayKeepsWhatItPromises(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	dir := t.TempDir()
	up := role(ctx, t, serveUpstream)
	relay := target{name: "bare", url: role(ctx, t, serveBare, up, dir), session: true}
	address, err := relay.prepare(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h, err := relay.hear(ctx, address, plan{id: "a", tokens: 40}, nil)
	if err != nil || len(h.at) != 40 || h.last != 3 {
		t.Fatalf("%d tokens came, the last event is %d: %v", len(h.at), h.last, err)
	}
	for _, message := range []string{"hello", "tools"} {
		if err := relay.turn(ctx, address, up, message); err != nil {
			t.Fatal(err)
		}
	}
	c, err := sqlite.OpenConn(dir+"/bare.db", sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kept := 0
	s, _, err := c.PrepareTransient("SELECT count(*) FROM events")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step(); err != nil {
		t.Fatal(err)
	}
	kept = s.ColumnInt(0)
	if err := s.Finalize(); err != nil {
		t.Fatal(err)
	}
	if want := 3 + 3 + 3 + 2*rounds; kept != want {
		t.Errorf("the file has %d events, want %d", kept, want)
	}
	// From the message of the second turn on.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/turns")+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", "4")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []string
	read := make([]byte, 1)
	for line := []byte{}; len(got) < kept-4; {
		if _, err := resp.Body.Read(read); err != nil {
			t.Fatal(err)
		}
		if line = append(line, read...); read[0] == '\n' {
			if id, found := strings.CutPrefix(string(line), "id: "); found {
				got = append(got, strings.TrimSpace(id))
			}
			line = line[:0]
		}
	}
	var want []string
	for i := 5; i <= kept; i++ {
		want = append(want, fmt.Sprint(i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("after 4 came %v, want %v", got, want)
	}
}

// role serves in this process, until ctx ends, and returns the address.
func role(ctx context.Context, t *testing.T, serve func(context.Context, []string, func(string, func() int)) error, args ...string) string {
	t.Helper()
	at, ended := make(chan string, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() { ended <- serve(ctx, args, func(addr string, _ func() int) { at <- addr }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-at:
		return "http://" + addr
	case err := <-ended:
		ended <- err
		t.Fatal(err)
		return ""
	}
}
