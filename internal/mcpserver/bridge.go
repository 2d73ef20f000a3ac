package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sse"
)

// BridgeOptions of [Bridge].
type BridgeOptions struct {
	URL       string            // of an app's MCP server
	Transport http.RoundTripper // nil: http.DefaultTransport
	// Credentials go with each request, for the tools of its turn.
	Credentials parley.Credentials
	// Header goes with each request, too, see [ToolsHeader]. Nil: nothing.
	Header http.Header
	// LeaveAfter is how long running requests are waited for when the host has closed its
	// end; 0: 5 s.
	LeaveAfter time.Duration
}

const (
	maxLine     = 4 << 20 // bytes of one message, either way
	maxInFlight = 128     // requests at once
)

// Bridge carries MCP over stdio to a server that speaks it over HTTP, in either era: one
// message per line on in and out. So a host that starts `parley mcp` uses the server that
// has the data folder open, with its sessions, like every other client.
//
// It returns when in ends, after the running requests have been answered or after
// LeaveAfter. Turns go on in the server: closing the pipe cancels nothing, only
// notifications/cancelled does. If the server was restarted meanwhile, the bridge repeats
// the host's first message.
//
// When ctx ends, a read of in may be left behind; the process should then end.
func Bridge(ctx context.Context, in io.Reader, out io.Writer, o BridgeOptions) error {
	if o.LeaveAfter == 0 {
		o.LeaveAfter = 5 * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bridge{o: o, http: &http.Client{Transport: o.Transport}, out: out, open: map[string]*underWay{}, slots: make(chan struct{}, maxInFlight)}
	type line struct {
		text []byte
		err  error
	}
	lines := make(chan line)
	go func() {
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			text, err := readLine(r)
			select {
			case lines <- line{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.Is(err, errLong) {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case l := <-lines:
			switch {
			case errors.Is(l.err, errLong):
				b.fail(nil, -32600, l.err.Error())
				continue
			case len(bytes.TrimSpace(l.text)) > 0:
				b.take(ctx, bytes.TrimSpace(l.text))
			}
			if errors.Is(l.err, io.EOF) {
				b.leave(o.LeaveAfter)
				return nil
			}
			if l.err != nil {
				return l.err
			}
		}
	}
}

var errLong = fmt.Errorf("a message has more than %d bytes", maxLine)

// readLine reads one line of at most maxLine bytes, and skips a longer one.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxLine; !long {
			text = append(text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && err == nil {
			return nil, errLong
		}
		return text, err
	}
}

type bridge struct {
	o    BridgeOptions
	http *http.Client

	write sync.Mutex
	out   io.Writer

	wg    sync.WaitGroup
	slots chan struct{}

	mu      sync.Mutex
	open    map[string]*underWay // requests that have no answer yet, by id
	session string               // of the older era
	hello   []byte               // the message that began it
	version string               // that was agreed on
}

// underWay is a request that has no answer yet.
type underWay struct {
	keep      string // what cancels it in the newer era
	cancelled bool   // by the host, which wants no answer any more
}

// message holds the fields of a message that decide how it is sent to the server. A
// field of another type than it should have is left out: what is wrong with the message
// is for the server to say.
type message struct {
	ID     json.RawMessage
	Method string
	called bool // it has a method, of whatever type
	Params struct {
		Meta                               map[string]json.RawMessage
		Name, URI, TaskID, ProtocolVersion string
		RequestID                          json.RawMessage
	}
}

// UnmarshalJSON fails only if the message is no object.
func (m *message) UnmarshalJSON(raw []byte) error {
	var top, params map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return err
	}
	into := func(fields map[string]json.RawMessage, name string, v any) { _ = json.Unmarshal(fields[name], v) }
	m.ID = top["id"]
	_, m.called = top["method"]
	into(top, "method", &m.Method)
	into(top, "params", &params)
	into(params, "_meta", &m.Params.Meta)
	into(params, "name", &m.Params.Name)
	into(params, "uri", &m.Params.URI)
	into(params, "taskId", &m.Params.TaskID)
	into(params, "protocolVersion", &m.Params.ProtocolVersion)
	m.Params.RequestID = params["requestId"]
	return nil
}

func (m message) isCall() bool { return m.called && len(m.ID) > 0 && string(m.ID) != "null" }

// take forwards one message. Requests are answered while others are read; messages
// without an answer are sent in order.
func (b *bridge) take(ctx context.Context, raw []byte) {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		b.fail(nil, -32700, "the line is not a JSON-RPC message")
		return
	}
	var version string
	_ = json.Unmarshal(m.Params.Meta["io.modelcontextprotocol/protocolVersion"], &version) // none: the older era
	switch {
	case m.Method == "notifications/cancelled" && b.cancelled(ctx, string(m.Params.RequestID)):
	case m.Method == "initialize":
		b.mu.Lock()
		b.session, b.version, b.hello = "", "", raw
		b.mu.Unlock()
		b.send(ctx, m, raw, "") // whatever comes next belongs to it
	case !m.isCall():
		b.send(ctx, m, raw, version)
	default:
		select {
		case b.slots <- struct{}{}:
		default:
			b.fail(m.ID, -32603, fmt.Sprintf("%d requests are under way, and no more are taken", maxInFlight))
			return
		}
		one := &underWay{}
		if version != "" {
			one.keep = rand.Text()
		}
		b.mu.Lock()
		b.open[string(m.ID)] = one
		b.mu.Unlock()
		b.wg.Go(func() {
			defer func() { <-b.slots }()
			b.send(ctx, m, raw, version, keepHeader, one.keep)
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.open[string(m.ID)] == one { // hosts may use an id again
				delete(b.open, string(m.ID))
			}
		})
	}
}

// cancelled records that a request no longer wants an answer, and cancels one of the
// newer era. It returns false for all others, whose cancellation is forwarded like any
// message.
func (b *bridge) cancelled(ctx context.Context, id string) bool {
	b.mu.Lock()
	one := b.open[id]
	if one != nil {
		one.cancelled = true
	}
	b.mu.Unlock()
	if one == nil || one.keep == "" {
		return false
	}
	if resp, err := b.do(ctx, http.MethodDelete, nil, keepHeader, one.keep); err == nil {
		_ = resp.Body.Close()
	}
	return true
}

func (b *bridge) do(ctx context.Context, method string, body []byte, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if len(b.o.Credentials) > 0 {
		raw, err := json.Marshal(map[string]string(b.o.Credentials))
		if err != nil {
			return nil, err
		}
		r.Header.Set(parley.CredentialsHeader, string(raw))
	}
	for name, values := range b.o.Header {
		r.Header[name] = values
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	return b.http.Do(r)
}

// send posts a message and writes what comes back.
func (b *bridge) send(ctx context.Context, m message, raw []byte, version string, header ...string) {
	if version != "" {
		name := m.Params.Name
		if name == "" {
			name = m.Params.URI
		}
		if name == "" {
			name = m.Params.TaskID
		}
		header = append(header, versionHeader, version, methodHeader, m.Method, "Mcp-Name", headerValue(name))
	}
	for again := true; ; again = false {
		b.mu.Lock()
		session, agreed := b.session, b.version
		b.mu.Unlock()
		all := header
		if version == "" {
			all = append(all[:len(all):len(all)], sessionHeader, session, versionHeader, agreed)
		}
		resp, err := b.do(ctx, http.MethodPost, raw, all...)
		if err != nil {
			b.lost(ctx, m, err)
			return
		}
		if resp.StatusCode == http.StatusNotFound && version == "" && session != "" && m.Method != "initialize" && again {
			_ = resp.Body.Close()
			if b.meetAgain(ctx, session) {
				continue
			}
			b.lost(ctx, m, errors.New("the server was restarted and does not take the host back"))
			return
		}
		b.receive(ctx, m, resp)
		return
	}
}

// lost answers a call whose connection failed. The request may have been carried out.
func (b *bridge) lost(ctx context.Context, m message, err error) {
	if !m.isCall() || ctx.Err() != nil {
		return
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		b.fail(m.ID, -32603, "the server cannot be reached: "+err.Error())
		return
	}
	b.fail(m.ID, -32603, "the connection to the server was lost before its answer: "+err.Error()+afterLoss)
}

// afterLoss warns a host that repeating the call may repeat its effect.
const afterLoss = "; what was asked may have been done: look before you ask for it again"

// meetAgain opens a new connection of the older era after the server no longer knows the
// old one.
func (b *bridge) meetAgain(ctx context.Context, old string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != old {
		return true // another request has done it
	}
	resp, err := b.do(ctx, http.MethodPost, b.hello)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxLine)) // the host has had an answer
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false
	}
	b.session = resp.Header.Get(sessionHeader)
	resp, err = b.do(ctx, http.MethodPost, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), sessionHeader, b.session)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}

// receive writes the messages of a response.
func (b *bridge) receive(ctx context.Context, m message, resp *http.Response) {
	defer resp.Body.Close()
	if id := resp.Header.Get(sessionHeader); id != "" && m.Method == "initialize" {
		b.mu.Lock()
		b.session = id
		b.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		answered := false
		for f, err := range sse.Decode(resp.Body, maxLine) {
			if err != nil {
				break
			}
			if len(f.Data) > 0 {
				answered = b.pass(m, f.Data) || answered
			}
		}
		if !answered && m.isCall() && ctx.Err() == nil {
			b.fail(m.ID, -32603, "the server ended the answer before it was complete"+afterLoss)
		}
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
	if err != nil {
		b.lost(ctx, m, err)
		return
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) && bytes.Contains(body, []byte(`"jsonrpc"`)) {
		if b.pass(m, body) || !m.isCall() {
			return
		}
	}
	if resp.StatusCode >= 300 && m.isCall() {
		b.fail(m.ID, -32603, refused(resp.StatusCode, body))
	}
}

// refused describes an answer of a server that did not speak JSON-RPC.
func refused(status int, body []byte) string {
	var e struct{ Error parley.ErrorInfo }
	if json.Unmarshal(body, &e) == nil && e.Error.Message != "" {
		if e.Error.Hint != "" {
			return e.Error.Message + "; " + e.Error.Hint
		}
		return e.Error.Message
	}
	return fmt.Sprintf("the server answered %d: %s", status, parley.Cut(string(body), 200))
}

// pass writes a message on one line. It reports whether it answers m.
func (b *bridge) pass(m message, raw []byte) bool {
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return false
	}
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	_ = json.Unmarshal(line.Bytes(), &head) // it is JSON
	if m.Method == "initialize" && head.Result.ProtocolVersion != "" {
		b.mu.Lock()
		b.version = head.Result.ProtocolVersion
		b.mu.Unlock()
	}
	answers := head.Method == "" && bytes.Equal(head.ID, m.ID)
	if !answers || !b.unwanted(head.ID) {
		b.line(line.Bytes())
	}
	return answers
}

func (b *bridge) line(text []byte) {
	b.write.Lock()
	defer b.write.Unlock()
	_, _ = b.out.Write(append(text, '\n')) // a host that has gone closes in, too
}

// unwanted reports whether the host has cancelled a request.
func (b *bridge) unwanted(id json.RawMessage) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.open[string(id)]
	return one != nil && one.cancelled
}

func (b *bridge) fail(id json.RawMessage, code int, text string) {
	if b.unwanted(id) {
		return
	}
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	raw, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}}) // plain data
	b.line(raw)
}

// leave waits for the running requests, and closes the connection of the older era when
// there are none left.
func (b *bridge) leave(within time.Duration) {
	done := make(chan struct{})
	go func() { b.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(within):
		return // the server goes on with them
	}
	if b.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if resp, err := b.do(ctx, http.MethodDelete, nil, sessionHeader, b.session); err == nil {
		_ = resp.Body.Close()
	}
}

// headerValue is text as it may stand in a header of the newer era.
func headerValue(text string) string {
	plain := strings.TrimSpace(text) == text && !strings.HasPrefix(text, "=?")
	for _, r := range text {
		plain = plain && r >= ' ' && r < 0x7f
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}
