package program_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestCut_after_every_frame_of_a_running_turn has one client per wire and frame. The client is
// cut after that frame and resumes from its cursor. Some clients are cut again and again. All
// see the same as the client that is never cut.
func TestCut_after_every_frame_of_a_running_turn(t *testing.T) {
	t.Parallel()
	onStores(t, cutAfterEveryFrame)
}

func cutAfterEveryFrame(t *testing.T, store string) {
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=6ms", "PARLEY_LIMITS_MAX_STREAMS=5000").on(store).serve()
	id := s.session("chaos")
	ctx, stop := context.WithCancel(t.Context())
	var hands sync.WaitGroup
	defer func() { stop(); hands.Wait() }()

	type client struct {
		*watcher
		name string
		cuts atomic.Int64
	}
	var clients []*client
	start := func(w *watcher, name string, limit func(connection int) int) {
		c := &client{watcher: w, name: w.wire + " " + name}
		clients = append(clients, c)
		hands.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if w.follow(ctx, s.url, limit(n)) == nil {
					c.cuts.Add(1)
				}
			}
		})
	}
	const most = 240 // about as many as there are frames
	step := 1
	if store != "sqlite" {
		step = 6 // how a wire handles a frame does not depend on the store
	}
	for _, wire := range resumable {
		start(newWatcher(wire, id), "uncut", func(int) int { return 0 })
		for i := 1; i <= most; i += step {
			start(newWatcher(wire, id), fmt.Sprintf("cut after frame %d", i), func(n int) int {
				if n == 0 {
					return i
				}
				return 0
			})
		}
		for every := 1; every <= 5; every++ {
			start(newWatcher(wire, id), fmt.Sprintf("cut after every %d", every), func(int) int { return every })
		}
	}
	for _, c := range clients { // all are connected before anything happens
		if err := c.until(ctx, "its first event", func() bool { return len(c.events) == 1 }); err != nil {
			t.Fatal(err)
		}
	}
	if end := s.settle(s.send(id, spec).ID); end.Status != parley.StatusCompleted {
		t.Fatalf("the turn is %s", end.Status)
	}
	log := s.log(id)
	cuts := int64(0)
	for _, c := range clients {
		if err := c.has(ctx, log); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		cuts += c.cuts.Load()
	}
	clients[0].mu.Lock()
	t.Logf("%d events, %d frames uncut, %d clients, %d cuts", len(log), clients[0].frames, len(clients), cuts)
	clients[0].mu.Unlock()
	if cuts < most/int64(step) {
		t.Errorf("there were only %d cuts", cuts)
	}
}

// TestCut_after_every_event_of_a_log resumes each wire after each event.
func TestCut_after_every_event_of_a_log(t *testing.T) {
	t.Parallel()
	onStores(t, cutAfterEveryEvent)
}

func cutAfterEveryEvent(t *testing.T, store string) {
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=0s").on(store).serve()
	id := s.session("chaos")
	s.settle(s.send(id, spec).ID)
	s.settle(s.send(id, "What library should I use for that?").ID)
	log := s.log(id)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for _, wire := range resumable {
		for at := range log {
			w := newWatcher(wire, id)
			for _, limit := range []int{at, len(log) - at} {
				if limit == 0 {
					continue
				}
				if err := w.follow(ctx, s.url, limit); err != nil {
					t.Fatalf("%s at %d: %v", wire, at, err)
				}
			}
			if err := w.has(ctx, log); err != nil {
				t.Errorf("%s at %d: %v", wire, at, err)
			}
		}
	}
}

// TestCut_by_the_death_of_the_server kills the server in one turn again and again. While the
// turn makes progress between kills, it resumes by itself. After two kills without progress, a
// client must ask for it to resume.
func TestCut_by_the_death_of_the_server(t *testing.T) {
	t.Parallel()
	onStores(t, cutByDeath)
}

func cutByDeath(t *testing.T, store string) {
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=150ms").on(store) // each kill comes long before the turn's end
	s := p.serve()
	id := s.session("chaos")
	ctx, stop := context.WithCancel(t.Context())
	var hands sync.WaitGroup
	defer func() { stop(); hands.Wait() }()
	var base atomic.Pointer[string]
	base.Store(&s.url)
	var clients []*watcher
	for _, wire := range resumable {
		w := newWatcher(wire, id)
		clients = append(clients, w)
		hands.Go(func() { w.keep(ctx, func() string { return *base.Load() }) })
	}
	turn := s.send(id, spec)
	// events counts the events of a type that this client has.
	events := func(w *watcher, of string) int {
		return strings.Count(strings.Join(w.events, ""), `"type":"`+of+`"`)
	}
	again := func() {
		s.kill()
		s = p.serve()
		base.Store(&s.url)
	}
	kills, replied := 0, 0
	for ; kills < 2; kills++ {
		w := clients[kills%len(clients)]
		err := w.until(ctx, fmt.Sprintf("resumption %d and a reply", kills), func() bool {
			n := events(w, "model.replied")
			if events(w, "turn.resumed") != kills || n <= replied {
				return false
			}
			replied = n
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		again()
	}
	var waits parley.TurnInfo
	for ; kills < 10; kills++ { // at once, so that the turn makes no progress
		w := clients[kills%len(clients)]
		if err := w.until(ctx, fmt.Sprintf("what comes of kill %d", kills), func() bool {
			return events(w, "turn.interrupted") == kills && (events(w, "turn.resumed") == kills || !strings.Contains(w.events[len(w.events)-1], `"resumes":true`))
		}); err != nil {
			t.Fatal(err)
		}
		if waits = must[parley.TurnInfo](s, "GET", "/v1/turns/"+string(turn.ID), ""); waits.Status == parley.StatusInterrupted && !waits.Resumes {
			break
		}
		again()
	}
	if waits.Status != parley.StatusInterrupted || !strings.Contains(waits.Reason, "resumed automatically twice") || kills < 3 {
		t.Errorf("after %d kills the turn is %s, resumes: %t: %s", kills, waits.Status, waits.Resumes, waits.Reason)
	}
	p.env = append(p.env, "PARLEY_SCRIPTED_PACE=0s")
	again()
	if end := s.settle(turn.ID); end.Status != parley.StatusCompleted || end.Attempts != kills {
		t.Errorf("the turn is %s after %d attempts", end.Status, end.Attempts)
	}
	log := s.log(id)
	for _, w := range clients {
		if err := w.has(ctx, log); err != nil {
			t.Error(err)
		}
	}
	if err := enginetest.CheckLog(decode(t, log)); err != nil {
		t.Error(err)
	}
}

// TestWires_two_clients_drive_one_session sends from two doors at once and cancels some of the
// turns. Each client follows over a wire of its own, and both end with the same log.
func TestWires_two_clients_drive_one_session(t *testing.T) {
	t.Parallel()
	onStores(t, twoClients)
}

func twoClients(t *testing.T, store string) {
	s := newPlace(t).on(store).serve()
	made := must[parley.SessionInfo](s, "POST", "/v1/sessions", object("app", "chaos", "outside_id", "browser 1"))
	ctx, stop := context.WithTimeout(t.Context(), within)
	var watching, hands sync.WaitGroup
	defer func() { stop(); watching.Wait() }()
	a, b := newWatcher("sse", made.ID), newWatcher("ndjson", made.ID)
	for _, w := range []*watcher{a, b} {
		watching.Go(func() { w.keep(ctx, func() string { return s.url }) })
	}
	const turns = 8
	// again repeats a request until the session is not busy; a busy session has one clear
	// error.
	again := func(path, body string) {
		for ctx.Err() == nil {
			got, err := s.try(ctx, "POST", path, body)
			if err != nil {
				t.Error(err)
				return
			}
			if got.status != http.StatusConflict {
				if got.status/100 != 2 {
					t.Errorf("POST %s: %s", path, got)
				}
				return
			}
			if e := problemOf(t, got); e.Code != parley.CodeBusy {
				t.Errorf("POST %s: %s", path, got)
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	hands.Go(func() { // a page
		for i := range turns {
			again("/chat", object("session_id", "browser 1", "message", fmt.Sprint("question ", i, " about login")))
		}
	})
	hands.Go(func() { // a program
		for i := range turns {
			again("/v1/sessions/"+string(made.ID)+"/turns", object("message", fmt.Sprint("note ", i, " about login")))
		}
	})
	hands.Go(func() { // cancels every third turn that begins
		for n := 2; n < 2*turns; n += 3 {
			var turn parley.TurnID
			err := b.until(ctx, "a turn to stop", func() bool {
				seen := 0
				for _, e := range decode(t, b.events) {
					if e.Type == "turn.started" {
						if turn = e.Turn; seen == n {
							return true
						}
						seen++
					}
				}
				return false
			})
			if err != nil {
				t.Error(err)
				return
			}
			// A cancellation that comes too late is a conflict.
			if got := s.ask("POST", "/v1/turns/"+string(turn)+"/cancel", object("reason", "enough")); got.status != 200 && got.status != 409 {
				t.Errorf("cancel: %s", got)
			}
		}
	})
	hands.Wait()
	over := func(w *watcher) func() bool { return func() bool { return len(w.ended) == 2*turns } }
	for _, w := range []*watcher{a, b} {
		if err := w.until(ctx, "the end of all turns", over(w)); err != nil {
			t.Fatal(err)
		}
	}
	log := s.log(made.ID)
	for _, w := range []*watcher{a, b} {
		if err := w.has(ctx, log); err != nil {
			t.Error(err)
		}
	}
	events := decode(t, log)
	if err := enginetest.CheckLog(events); err != nil {
		t.Error(err)
	}
	var from []string
	for _, e := range events {
		if p, err := e.Payload(); err == nil {
			if p, ok := p.(parley.TurnStarted); ok {
				from = append(from, p.Client)
			}
		}
	}
	t.Logf("turns came from %v and ended as %q", from, enginetest.Outcomes(events))
	slices.Sort(from)
	if got := strings.Join(slices.Compact(slices.Clone(from)), " "); len(from) != 2*turns || got != "api chat" {
		t.Errorf("%d turns from %s", len(from), got)
	}
}

// gated is a connection whose data is not read until its gate opens.
type gated struct {
	net.Conn
	gate <-chan struct{}
}

func (g gated) Read(b []byte) (int, error) {
	<-g.gate
	return g.Conn.Read(b)
}

// TestSlowReader_loses_nothing_and_delays_nobody has a client on each wire that does not read.
// More data passes than the kernel buffers.
func TestSlowReader_loses_nothing_and_delays_nobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withDesk("http://127.0.0.1:1", "0s")
	s := p.serve()
	id := s.session("desk-auto")
	ctx, stop := context.WithTimeout(t.Context(), within)
	var hands sync.WaitGroup
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer func() { open(); stop(); hands.Wait() }()

	slowly := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return gated{c, gate}, nil
	}}}
	fast := newWatcher("sse", id)
	var slow []*watcher
	for _, wire := range resumable {
		w := newWatcher(wire, id)
		w.client = slowly
		slow = append(slow, w)
	}
	for _, w := range append([]*watcher{fast}, slow...) {
		hands.Go(func() { w.keep(ctx, func() string { return s.url }) })
	}
	const turns = 4
	for range turns {
		if end := s.settle(s.send(id, "say 200 6000").ID); end.Status != parley.StatusCompleted {
			t.Fatalf("the turn is %s: %+v", end.Status, end.Error)
		}
	}
	log := s.log(id)
	size := 0
	for _, e := range log {
		size += len(e)
	}
	if size < 8<<20 {
		t.Errorf("only %d bytes passed", size)
	}
	if err := fast.has(ctx, log); err != nil {
		t.Error(err)
	}
	for _, w := range slow {
		if w.mu.Lock(); w.frames > 0 {
			t.Errorf("%s: %d frames were read through a closed gate", w.wire, w.frames)
		}
		w.mu.Unlock()
	}
	open()
	for _, w := range slow {
		if err := w.has(ctx, log); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		t.Logf("%s: %d frames and %d resets", w.wire, w.frames, w.resets)
		w.mu.Unlock()
	}
}
