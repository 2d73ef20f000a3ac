package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
)

// firstPath measures where the time of a first token goes, in microseconds: from the read of the request
// to the request of the provider, and from the provider's first byte to the client's. It looks at
// the seams of the server, from which nothing has to be built in: the connections, the store, the
// runtime's host and the model. One turn at a time runs, in sessions that have had some turns, so
// that these are medians of what a turn costs that waits for nobody.
func firstPath(ctx context.Context, b *bench) (err error) {
	up := &upstream{sent: map[string][]int64{}}
	mux := http.NewServeMux()
	tr := &trail{}
	mux.HandleFunc("POST "+chatPath, func(w http.ResponseWriter, r *http.Request) {
		tr.mark(atProvider)
		up.chat(markingWriter{w, tr}, r)
	})
	provider := httptest.NewServer(mux)
	defer provider.Close()
	account, err := openai.New(openai.Options{
		Name: "local", Key: "none", BaseURL: provider.URL + "/v1",
		HTTP: &http.Client{Transport: marking{client.Transport, tr}},
	})
	if err != nil {
		return err
	}
	dir, err := b.folder("path")
	if err != nil {
		return err
	}
	m := marked{account.Model(seam.ModelInfo{Name: modelName, Provider: "local", ContextTokens: 100_000, MaxOutputTokens: 32_000}), tr}
	models := several{modelName: m}
	h, err := build(ctx, setting{
		dir: dir, models: models, runtime: markedLoop{loop.New(models, loop.Options{}), tr},
		wrap: func(s seam.Store) seam.Store { return markedStore{s, tr} },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	native := h.handler()
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr.mark(inHandler)
		native.ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(markedListener{l, tr}) }()
	defer func() {
		err = errors.Join(err, srv.Close())
		<-served
	}()
	return b.followed(ctx, tr, target{name: "parley", url: "http://" + l.Addr().String(), session: true}, pick(b, 100, 400))
}

// followed takes turns and prints what they took.
func (b *bench) followed(ctx context.Context, tr *trail, to target, turns int) error {
	const sessions, before = 10, 3
	addresses := make([]string, sessions)
	for i := range addresses {
		address, err := to.prepare(ctx)
		if err != nil {
			return err
		}
		for range before {
			if err := to.turn(ctx, address, "", "hello"); err != nil {
				return err
			}
		}
		addresses[i] = address
	}
	var profile func() error
	if file := b.profile("path"); file != "" {
		stop, err := profiling(file)
		if err != nil {
			return err
		}
		profile = stop
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	allocated, objects := memory.TotalAlloc, memory.Mallocs
	took := make([][]float64, steps)
	for i := range turns {
		tr.begin()
		if err := to.turn(ctx, addresses[i%sessions], "", "hello"); err != nil {
			return err
		}
		at, states := tr.end()
		for s := request + 1; s < steps; s++ {
			if at[s].IsZero() || at[s-1].IsZero() {
				return fmt.Errorf("a turn did not pass %q", stepNames[s])
			}
			took[s] = append(took[s], float64(at[s].Sub(at[s-1]).Nanoseconds())/1e3)
		}
		took[request] = append(took[request], float64(states))
	}
	runtime.ReadMemStats(&memory)
	if profile != nil {
		if err := profile(); err != nil {
			return err
		}
	}
	sum := 0.0
	for s := request + 1; s < steps; s++ {
		us := median(took[s])
		if s != atProvider && s != firstSent { // that is the network and the provider
			sum += us
		}
		b.line("path: "+stepNames[s], "-", fmt.Sprintf("%.0f us", us), "-", "", true)
	}
	b.line("path: all of these but the ways to and from the provider and what it takes", "-", fmt.Sprintf("%.0f us", sum), "-", "", true)
	b.note("a turn looks at its state %.0f times before its first token, and allocates %.0f KB in %.0f objects, client and provider included", median(took[request]),
		float64(memory.TotalAlloc-allocated)/float64(turns)/1024, float64(memory.Mallocs-objects)/float64(turns))
	return nil
}

// A place is one that a first token passes.
type place int

const (
	request    place = iota // the server's connection has read the request
	inHandler               // net/http has parsed its head
	inRuntime               // the engine has checked and staged the turn
	inEmit                  // the prompt is built
	inAppend                // the events are made, redacted and folded
	appended                // they are durable
	emitted                 // they are published, and the runtime goes on
	inModel                 // the model is asked
	inClient                // the request of the provider is encoded
	atProvider              // it has arrived there
	firstSent               // the provider writes its first token
	firstRead               // the adapter has read it
	firstTold               // it is decoded
	published               // the hub has it
	written                 // the client's connection is given it
	steps
)

var stepNames = [steps]string{
	request: "request read", inHandler: "head parsed, and a goroutine that serves it", inRuntime: "body read, checks, the turn staged, its goroutine",
	inEmit: "prompt built and its digest made", inAppend: "events encoded, redacted and folded", appended: "made durable by the store",
	emitted: "published, and the runtime woken", inModel: "the model asked", inClient: "the HTTP request made",
	atProvider: "on its way to the provider", firstSent: "the provider", firstRead: "on its way back, and its head parsed", firstTold: "decoded",
	published: "redacted and given to the followers", written: "the follower woken, encoded, and handed to the system",
}

// trail is where the turn under way was when.
type trail struct {
	mu     sync.Mutex
	on     bool
	at     [steps]time.Time
	states int
}

func (t *trail) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on, t.at, t.states = true, [steps]time.Time{}, 0
}

func (t *trail) end() ([steps]time.Time, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on = false
	return t.at, t.states
}

// mark counts the first time only.
func (t *trail) mark(s place) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on && t.at[s].IsZero() && (s == request || !t.at[request].IsZero()) {
		t.at[s] = now
	}
}

// state counts copies of the state until the first token.
func (t *trail) state() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on && t.at[firstTold].IsZero() {
		t.states++
	}
}

type markedListener struct {
	net.Listener
	t *trail
}

func (l markedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return markedConn{c, l.t}, err
}

type markedConn struct {
	net.Conn
	t *trail
}

func (c markedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.t.mark(request)
	}
	return n, err
}

func (c markedConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("Done.")) {
		c.t.mark(written)
	}
	return c.Conn.Write(p)
}

// markingWriter marks the provider's first token.
type markingWriter struct {
	http.ResponseWriter
	t *trail
}

func (w markingWriter) Write(p []byte) (int, error) {
	w.t.mark(firstSent)
	return w.ResponseWriter.Write(p)
}

// marking is the way to the provider.
type marking struct {
	http.RoundTripper
	t *trail
}

func (m marking) RoundTrip(r *http.Request) (*http.Response, error) {
	m.t.mark(inClient)
	resp, err := m.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = markedBody{resp.Body, m.t}
	}
	return resp, err
}

type markedBody struct {
	io.ReadCloser
	t *trail
}

func (b markedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.t.mark(firstRead)
	}
	return n, err
}

type marked struct {
	seam.Model
	t *trail
}

func (m marked) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	made := m.Model.Stream(ctx, r)
	return func(yield func(seam.ModelDelta, error) bool) {
		m.t.mark(inModel)
		for d, err := range made {
			if d.Text != "" {
				m.t.mark(firstTold)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

type markedStore struct {
	seam.Store
	t *trail
}

func (s markedStore) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	s.t.mark(inAppend)
	err := s.Store.Append(ctx, p, b)
	s.t.mark(appended)
	return err
}

type markedLoop struct {
	seam.Runtime
	t *trail
}

func (l markedLoop) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	l.t.mark(inRuntime)
	return l.Runtime.Run(ctx, markedHost{h, l.t})
}

type markedHost struct {
	seam.Host
	t *trail
}

func (h markedHost) State() *parley.Session {
	h.t.state()
	return h.Host.State()
}

func (h markedHost) Emit(ctx context.Context, events ...parley.Event) error {
	h.t.mark(inEmit)
	err := h.Host.Emit(ctx, events...)
	h.t.mark(emitted)
	return err
}

func (h markedHost) Publish(d parley.Delta) {
	h.Host.Publish(d)
	h.t.mark(published)
}
