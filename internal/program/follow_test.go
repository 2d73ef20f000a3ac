package program_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-server/parley"
)

// The wires that can be resumed.
var resumable = []string{"sse", "ndjson", "stream", "ws", "ws of many"}

// frame is one frame of any of these wires.
type frame struct {
	kind string // an event's type, or the kind of a frame that is no event
	id   string // as it stands on the wire
	data []byte
}

// event reports whether f is part of the history. Only events have a number.
func (f frame) event() bool {
	switch f.kind {
	case "model.delta", "model.thinking", "model.partial", "tool.progress", "reset", "error", "ping":
		return false
	}
	return true
}

// connect opens one connection of a wire and passes its frames to take, until take returns
// false or the connection ends. It is a decoder of its own, so that it does not repeat a
// mistake of the product's decoder.
func connect(ctx context.Context, client *http.Client, base, wire string, session parley.SessionID, cursor string, take func(frame) (more bool)) error {
	url := base + "/v1/sessions/" + string(session) + "/events"
	header := http.Header{}
	switch wire {
	case "ws", "ws of many":
		return overSocket(ctx, client, base, wire, session, cursor, take)
	case "sse":
		header.Set("Accept", "text/event-stream")
		if cursor != "" {
			header.Set("Last-Event-ID", cursor)
		}
	case "ndjson":
		header.Set("Accept", "application/x-ndjson")
		if cursor != "" {
			url += "?after=" + cursor
		}
	case "stream":
		url = base + "/v1/stream?sessions=" + string(session)
		if cursor != "" {
			header.Set("Last-Event-ID", cursor)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		return &refused{answer{resp.StatusCode, resp.Header, b}}
	}
	return frames(resp.Body, wire == "ndjson", take)
}

// overSocket is connect for WebSockets. That of many sessions subscribes once it is connected.
func overSocket(ctx context.Context, client *http.Client, base, wire string, session parley.SessionID, cursor string, take func(frame) bool) error {
	url := base + "/v1/sessions/" + string(session) + "/ws?after=" + cmp.Or(cursor, "0")
	if wire != "ws" {
		url = base + "/v1/stream"
	}
	c, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		if resp != nil {
			b, _ := io.ReadAll(resp.Body)
			return &refused{answer{resp.StatusCode, resp.Header, b}}
		}
		return err
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	if wire != "ws" {
		if err := c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"do":"subscribe","session":%q,"after":%s}`, session, cmp.Or(cursor, "0"))); err != nil {
			return err
		}
	}
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			return err
		}
		var head struct {
			Type   string
			Seq    int64
			Status int
		}
		if err := json.Unmarshal(b, &head); err != nil {
			return fmt.Errorf("a message is not JSON: %q", b)
		}
		if head.Type == "reply" {
			if head.Status/100 != 2 {
				return &refused{answer{head.Status, nil, b}}
			}
			continue
		}
		f := frame{kind: head.Type, data: b}
		if head.Seq > 0 {
			f.id = fmt.Sprint(head.Seq)
		}
		if !take(f) {
			return nil
		}
	}
}

// streams opens a connection for each request and never reuses one.
var streams = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

type refused struct{ answer }

func (r *refused) Error() string { return r.String() }

func frames(body io.Reader, ndjson bool, take func(frame) bool) error {
	r := bufio.NewReaderSize(body, 64<<10)
	var f frame
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err // the frame before it was cut
		}
		line = line[:len(line)-1]
		if ndjson {
			var head struct {
				Type string
				Seq  int64
			}
			if err := json.Unmarshal(line, &head); err != nil {
				return fmt.Errorf("a line is not JSON: %q", line)
			}
			f = frame{kind: head.Type, data: line}
			if head.Seq > 0 {
				f.id = fmt.Sprint(head.Seq)
			}
		} else if len(line) > 0 {
			name, value, _ := strings.Cut(string(line), ": ")
			switch name {
			case "id":
				f.id = value
			case "event":
				f.kind = value
			case "data":
				f.data = []byte(value)
			}
			continue
		}
		if f.kind != "" && !take(f) {
			return nil
		}
		f = frame{}
	}
}

// watcher is a client that follows one session and records the frames. Its methods may be
// called while it follows.
type watcher struct {
	wire    string
	session parley.SessionID
	client  *http.Client

	mu      sync.Mutex
	frames  int
	cursor  string
	events  []string // as received
	calls   map[parley.CallID]*shown
	ended   map[parley.TurnID]bool
	resets  int
	trouble []string
	changed chan struct{} // closed when something new arrives
}

// shown is the text of one call as this client shows it.
type shown struct {
	text  string
	n     int64
	live  bool // this connection has shown some of its text
	times []reach
}

// reach records when the text had reached a length.
type reach struct {
	upTo int
	at   time.Time
}

func newWatcher(wire string, session parley.SessionID) *watcher {
	return &watcher{wire: wire, session: session, client: streams, calls: map[parley.CallID]*shown{}, ended: map[parley.TurnID]bool{}, changed: make(chan struct{})}
}

// follow makes one connection, which ends after the given number of frames, or with 0 when it
// breaks.
func (w *watcher) follow(ctx context.Context, base string, limit int) error {
	w.mu.Lock()
	for _, c := range w.calls {
		c.live = false
	}
	cursor := w.cursor
	w.mu.Unlock()
	n := 0
	return connect(ctx, w.client, base, w.wire, w.session, cursor, func(f frame) bool {
		w.take(f)
		n++
		return limit == 0 || n < limit
	})
}

// keep follows until ctx ends, through restarts of the server. base returns the current
// server's address.
func (w *watcher) keep(ctx context.Context, base func() string) {
	for ctx.Err() == nil {
		err := w.follow(ctx, base(), 0)
		if r, ok := errors.AsType[*refused](err); ok && r.status != http.StatusServiceUnavailable {
			w.mu.Lock()
			w.wrong("refused: %s", r)
			w.mu.Unlock()
			return
		}
		select { // a server that is down refuses at once
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (w *watcher) wrong(format string, args ...any) {
	w.trouble = append(w.trouble, w.wire+": "+fmt.Sprintf(format, args...))
}

func (w *watcher) take(f frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	w.frames++
	switch f.kind {
	case "model.delta", "model.partial":
		w.text(f)
	case "reset":
		w.resets++
		for _, c := range w.calls {
			c.live = false
		}
	case "error":
		if !bytes.Contains(f.data, []byte("shutting down")) {
			w.wrong("error frame %s", f.data)
		}
	}
	if !f.event() {
		if f.id != "" {
			w.wrong("%s has the id %s", f.kind, f.id)
		}
		return
	}
	var e parley.Event
	if err := json.Unmarshal(f.data, &e); err != nil {
		w.wrong("%v in %s", err, f.data)
		return
	}
	if want := int64(len(w.events)) + 1; e.Seq != want {
		w.wrong("event %d came, and %d is next", e.Seq, want)
		return
	}
	want := fmt.Sprint(e.Seq)
	if w.wire == "stream" {
		want = fmt.Sprintf("%s:%d", w.session, e.Seq)
	}
	if f.id != want || f.kind != string(e.Type) {
		w.wrong("event %d has the id %q and the name %q", e.Seq, f.id, f.kind)
	}
	w.cursor = f.id
	w.events = append(w.events, string(f.data))
	w.history(e)
}

func (w *watcher) call(id parley.CallID) *shown {
	if w.calls[id] == nil {
		w.calls[id] = &shown{}
	}
	return w.calls[id]
}

func (w *watcher) text(f frame) {
	var d parley.Delta
	if err := json.Unmarshal(f.data, &d); err != nil {
		w.wrong("%v in %s", err, f.data)
		return
	}
	if d.Kind != parley.DeltaText {
		return
	}
	c := w.call(d.Call)
	if f.kind == "model.partial" {
		if !strings.HasPrefix(d.Text, c.text) && !strings.HasPrefix(c.text, d.Text) {
			w.wrong("a partial contradicts what was shown: %q, %q", d.Text, c.text)
		}
		c.text = d.Text
	} else {
		if d.N <= c.n {
			w.wrong("fragment %d comes after fragment %d", d.N, c.n)
		}
		c.text += d.Text
	}
	c.n, c.live = d.N, true
	c.times = append(c.times, reach{len(c.text), time.Now()})
}

// history compares the final text of a call with the text that was shown.
func (w *watcher) history(e parley.Event) {
	p, err := e.Payload()
	if err != nil {
		w.wrong("%v", err)
		return
	}
	switch p := p.(type) {
	case parley.ModelReplied:
		said, c := parley.PartsText(p.Parts), w.call(p.Call)
		if c.live && c.text != said || !strings.HasPrefix(said, c.text) {
			w.wrong("call %s said %q and %q was shown", p.Call, said, c.text)
		}
	case parley.ModelFailed:
		if c := w.call(p.Call); !strings.HasPrefix(c.text, p.Partial) && !strings.HasPrefix(p.Partial, c.text) {
			w.wrong("call %s was cut at %q and %q was shown", p.Call, p.Partial, c.text)
		}
	case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired:
		w.ended[e.Turn] = true
	}
}

// until waits until ok is true of the recorded frames.
func (w *watcher) until(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		w.mu.Lock()
		done, n, changed := ok(), len(w.events), w.changed
		w.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: waited for %s at event %d", w.wire, what, n)
		}
	}
}

// has waits until the client has seen the whole log, and reports any difference.
func (w *watcher) has(ctx context.Context, log []string) error {
	if err := w.until(ctx, fmt.Sprintf("event %d", len(log)), func() bool { return len(w.events) >= len(log) }); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.trouble) > 0 {
		return errors.New(strings.Join(w.trouble, "\n"))
	}
	if !slices.Equal(log, w.events) {
		return fmt.Errorf("%s: the events differ from the log:\n%s\nwant\n%s", w.wire, strings.Join(w.events, "\n"), strings.Join(log, "\n"))
	}
	return nil
}
