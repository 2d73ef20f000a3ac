package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestWires_five_drive_one_session: a session is watched and driven at once over SSE, NDJSON, two
// WebSockets, MCP and /events. Each client is cut again and again at random, and repeats what it
// does not know the answer to with the same key. All end with the same log, in which each message
// stands once.
func TestWires_five_drive_one_session(t *testing.T) {
	t.Parallel()
	onStores(t, fiveWires)
}

// messagesOfEach is how many messages each client sends.
const messagesOfEach = 4

func fiveWires(t *testing.T, store string) {
	p := newPlace(t).on(store)
	p.withDesk("http://127.0.0.1:1", "1ms")
	p.write(p.dir+"/apps/desk-auto/app.yaml", `title: Desk
model: test/clerk
agents:
  clerk: {prompt: clerk.md, tools: [mail]}
tools: {desk: {}}
policy: {rules: [{verdict: allow}]}
resume: auto
wires: [events]
`)
	s := p.serve()
	id := s.session("desk-auto")
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	var watching, driving, stopping sync.WaitGroup
	defer func() { stop(); watching.Wait() }()

	var watchers []*watcher
	for _, wire := range resumable {
		w := newWatcher(wire, id)
		watchers = append(watchers, w)
		watching.Go(func() {
			for ctx.Err() == nil {
				_ = w.follow(ctx, s.url, 1+rand.IntN(12))
			}
		})
	}
	host := &mcpHost{url: s.url + "/apps/desk-auto/mcp", id: id}
	watching.Go(func() { host.watch(ctx) })
	uncut, relay := &relayed{url: s.url, id: id}, &relayed{url: s.url, id: id}
	watching.Go(func() { uncut.follow(ctx, func() int { return 0 }) })
	watching.Go(func() { relay.follow(ctx, func() int { return 1 + rand.IntN(12) }) })

	type hand struct {
		patience time.Duration // at most, at the first try
		send     func(ctx context.Context, key, message string) (status int, err error)
	}
	hands := map[string]hand{
		"sse":       {40 * time.Millisecond, s.post("text/event-stream", id)},
		"ndjson":    {40 * time.Millisecond, s.post("application/x-ndjson", id)},
		"websocket": {40 * time.Millisecond, s.overSocket(id, "/v1/sessions/"+string(id)+"/ws")},
		"many":      {40 * time.Millisecond, s.overSocket(id, "/v1/stream")},
		"mcp":       {400 * time.Millisecond, host.send}, // a connection takes longer than a command over another wire
	}
	for name, h := range hands {
		driving.Go(func() {
			for i := range messagesOfEach {
				message := fmt.Sprintf("say 20 %d from %s", 3+i, name)
				for try := time.Duration(1); ctx.Err() == nil; try++ {
					// A client that is cut does not know whether its message arrived. On a busy machine
					// nothing arrives as soon as that: each try is given more time.
					within, cut := context.WithTimeout(ctx, time.Millisecond+rand.N(try*h.patience))
					status, err := h.send(within, name+fmt.Sprint(i), message)
					cut()
					if err == nil && status/100 == 2 {
						break
					}
					if err == nil && status != http.StatusConflict && status != http.StatusTooManyRequests {
						t.Errorf("%s: %d", name, status)
						return
					}
				}
			}
		})
	}
	sent, all := context.WithCancel(ctx)
	stopping.Go(func() { // whoever watches /events stops some turns
		for n := 0; n < 3 && sent.Err() == nil; {
			for _, turn := range must[struct{ Turns []parley.TurnInfo }](s, "GET", "/v1/sessions/"+string(id)+"/turns?status=running", "").Turns {
				if got := s.ask("POST", "/v1/turns/"+string(turn.ID)+"/cancel", `{"reason":"enough"}`); got.status == 200 {
					n++
				}
			}
		}
	})
	driving.Wait()
	all()
	stopping.Wait()
	total := messagesOfEach * len(hands)
	if err := watchers[0].until(ctx, "the end of all turns", func() bool { return len(watchers[0].ended) == total }); err != nil {
		t.Fatal(err)
	}
	log := s.log(id)
	for _, w := range watchers {
		if err := w.has(ctx, log); err != nil {
			t.Error(err)
		}
	}
	events := decode(t, log)
	if err := enginetest.CheckLog(events); err != nil {
		t.Error(err)
	}
	seen := map[string]int{}
	for _, e := range events {
		if pl, err := e.Payload(); err == nil {
			if pl, ok := pl.(parley.TurnStarted); ok {
				seen[parley.PartsText(pl.Message.Parts)]++
			}
		}
	}
	if len(seen) != total {
		t.Errorf("%d messages are in the log, want %d: %v", len(seen), total, seen)
	}
	for message, n := range seen {
		if n != 1 {
			t.Errorf("%q is in the log %d times", message, n)
		}
	}
	s.until("the host of MCP has the log", func() bool { return slices.Equal(host.have(), log) })
	s.until("both clients of /events have the same", func() bool {
		a, b := uncut.have(), relay.have()
		return len(a) > 0 && strings.Count(strings.Join(a, "\n"), `{"type":"final"`) == total && len(a) == len(b)
	})
	if diff := cmp.Diff(uncut.have(), relay.have()); diff != "" {
		t.Errorf("/events (-uncut +cut):\n%s", diff)
	}
}

// post sends a message by a request whose answer is a stream, and leaves in the middle of it.
func (s *process) post(accept string, id parley.SessionID) func(ctx context.Context, key, message string) (int, error) {
	return func(ctx context.Context, key, message string) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/sessions/"+string(id)+"/turns", strings.NewReader(object("message", message)))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		r.Header.Set("Idempotency-Key", key)
		resp, err := streams.Do(r)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
}

// overSocket sends a message by a command on a connection of its own.
func (s *process) overSocket(id parley.SessionID, path string) func(ctx context.Context, key, message string) (int, error) {
	return func(ctx context.Context, key, message string) (int, error) {
		c, _, err := websocket.Dial(ctx, s.url+path, nil)
		if err != nil {
			return 0, err
		}
		defer c.CloseNow()
		c.SetReadLimit(-1)
		if err := c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"do":"send","id":"x","key":%q,"session":%q,"body":%s}`, key, id, object("message", message))); err != nil {
			return 0, err
		}
		for {
			_, b, err := c.Read(ctx)
			if err != nil {
				return 0, err
			}
			var reply struct {
				Type   string
				Status int
			}
			if err := json.Unmarshal(b, &reply); err != nil || reply.Type == "reply" {
				return reply.Status, err
			}
		}
	}
}

// mcpHost is a host of MCP, which makes a new connection each time.
type mcpHost struct {
	url string
	id  parley.SessionID

	mu  sync.Mutex
	log []string
}

func (h *mcpHost) connect(ctx context.Context) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: h.url, MaxRetries: -1}, nil)
}

func (h *mcpHost) send(ctx context.Context, key, message string) (int, error) {
	c, err := h.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "desk-auto.send_message", Arguments: map[string]any{"session_id": h.id, "message": message, "idempotency_key": key}})
	switch {
	case err != nil:
		return 0, err
	case res.IsError:
		return http.StatusConflict, nil // the session is busy
	}
	return http.StatusOK, nil
}

// watch reads the log as a resource, from the last event on.
func (h *mcpHost) watch(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := h.connect(ctx)
		for n := rand.IntN(4); err == nil && n >= 0; n-- {
			var res *mcp.ReadResourceResult
			if res, err = c.ReadResource(ctx, &mcp.ReadResourceParams{URI: fmt.Sprintf("parley://sessions/%s/events?after=%d", h.id, len(h.have()))}); err == nil {
				h.mu.Lock()
				h.log = append(h.log, strings.Split(strings.TrimSuffix(res.Contents[0].Text, "\n"), "\n")...)
				h.log = slices.DeleteFunc(h.log, func(line string) bool { return line == "" })
				h.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

func (h *mcpHost) have() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

// relayed is a client of /events. Fragments may be cut in other ways, so they are left out.
type relayed struct {
	url string
	id  parley.SessionID

	mu     sync.Mutex
	frames []string
	last   string
}

func (r *relayed) follow(ctx context.Context, limit func() int) {
	for ctx.Err() == nil {
		r.once(ctx, limit())
	}
}

func (r *relayed) once(ctx context.Context, limit int) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/events/"+string(r.id), nil)
	if err != nil {
		return
	}
	if r.last == "" {
		r.last = "0"
	}
	req.Header.Set("Last-Event-ID", r.last)
	resp, err := streams.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	lines, at := bufio.NewReader(resp.Body), ""
	for n := 0; limit == 0 || n < limit; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			at = strings.TrimSpace(id)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			n++
			r.take(at, strings.TrimSpace(data))
		}
	}
}

func (r *relayed) take(at, data string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = at
	if strings.HasPrefix(data, `{"type":"partial"`) {
		return // joined they are the beginning of the final frame, which the tests of the wire show
	}
	r.frames = append(r.frames, data)
}

func (r *relayed) have() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.frames)
}
