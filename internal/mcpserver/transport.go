package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// Transport is how MCP is served over HTTP. The zero value serves one user.
type Transport struct {
	// Principal identifies the caller from the request's context. Nil: everybody is
	// parley.Local.
	Principal func(ctx context.Context) (parley.Principal, error)
	// Fail answers with an error in the one shape. Nil: plain text.
	Fail func(w http.ResponseWriter, err error)
	// Open counts a request that may be held open, or refuses it. Nil: no limit.
	Open   func(ctx context.Context, p parley.Principal) (done func(), err error)
	Logger *slog.Logger

	MaxBody int64 // bytes of a request; 0: that of [wire.Limits]
	// MaxSessions is how many connections of the older era are kept; 0: 1,000. One more
	// takes the place of an idle one, and is refused if there is none.
	MaxSessions int
	// MaxUserSessions is how many of them one user may have, but parley.Local; 0: a
	// quarter, and at least one. One more takes the place of an idle one of the same user.
	MaxUserSessions int
	IdleAfter       time.Duration // when such a connection ends; 0: 1 h
	WriteWithin     time.Duration // how long a host may take to accept what was written; 0: 30 s
}

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "MCP-Protocol-Version"
	methodHeader  = "Mcp-Method"

	// keepHeader marks a request of the newer era that is not cancelled when its
	// connection closes. The stdio bridge sends it, since its host closes the pipe when
	// it leaves; the bridge cancels with DELETE.
	keepHeader = "Parley-Keep"
)

// Handler serves both eras of an MCP server at one URL. Requests that name
// 2026-07-28 or a later version, which stand alone, go to a handler without
// sessions; all others to one that keeps a connection, with the events to resume
// its streams.
//
// It does not check host names or origins: the caller guards it like its other doors.
//
// A connection belongs to the user who opened it: its id is sealed with the user, so
// other users get "not found".
type Handler struct {
	t      Transport
	server *mcp.Server
	old    http.Handler
	alone  http.Handler
	key    []byte // seals connection ids; they end with the process

	mu      sync.Mutex
	kept    map[kept]context.CancelFunc
	open    map[string]*connection   // by their id
	opening map[parley.Principal]int // connections that are about to be

	carriers map[string]context.Context // of the older era's HTTP requests under way, by their marks
}

type kept struct {
	who parley.Principal
	id  string
}

// NewHandler makes the handler of a server.
func NewHandler(server *mcp.Server, t Transport) *Handler {
	if t.Principal == nil {
		t.Principal = func(context.Context) (parley.Principal, error) { return parley.Local, nil }
	}
	if t.Fail == nil {
		t.Fail = func(w http.ResponseWriter, err error) { http.Error(w, err.Error(), status(err)) }
	}
	if t.Logger == nil {
		t.Logger = slog.New(slog.DiscardHandler)
	}
	t.MaxBody = cmp.Or(t.MaxBody, wire.Limits{}.Defaults().MaxBody)
	if t.MaxSessions == 0 {
		t.MaxSessions = 1000
	}
	if t.MaxUserSessions == 0 {
		t.MaxUserSessions = max(t.MaxSessions/4, 1)
	}
	if t.IdleAfter == 0 {
		t.IdleAfter = time.Hour
	}
	if t.WriteWithin == 0 {
		t.WriteWithin = 30 * time.Second
	}
	h := &Handler{t: t, server: server, key: make([]byte, 32), kept: map[kept]context.CancelFunc{}, open: map[string]*connection{}, opening: map[parley.Principal]int{}, carriers: map[string]context.Context{}}
	_, _ = rand.Read(h.key) // never fails
	get := func(*http.Request) *mcp.Server { return server }
	h.old = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		EventStore: mcp.NewMemoryEventStore(nil), SessionTimeout: t.IdleAfter, MaxRequestBodyBytes: t.MaxBody,
		DisableLocalhostProtection: true,
	})
	h.alone = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: t.MaxBody,
		DisableLocalhostProtection: true,
	})
	return h
}

func status(err error) int {
	if own, ok := errors.AsType[*refusedError](err); ok {
		return own.status
	}
	switch parley.CodeOf(err) {
	case parley.CodeForbidden:
		return http.StatusForbidden
	case parley.CodeUnauthenticated:
		return http.StatusUnauthorized
	case parley.CodeNotFound:
		return http.StatusNotFound
	case parley.CodeRateLimited:
		return http.StatusTooManyRequests
	case parley.CodeUnavailable:
		return http.StatusServiceUnavailable
	case parley.CodeInvalid:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := h.t.Principal(r.Context())
	if err != nil {
		h.t.Fail(w, err)
		return
	}
	if h.t.Open != nil && r.Method != http.MethodDelete {
		done, err := h.t.Open(r.Context(), p)
		if err != nil {
			h.t.Fail(w, err)
			return
		}
		defer done()
	}
	r = r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
	out := &response{ResponseWriter: w, rc: http.NewResponseController(w), h: h, who: p, post: r.Method == http.MethodPost}
	out.asked.method, out.asked.version = r.Method, r.Header.Get(versionHeader)
	defer out.end()
	if r.ContentLength > h.t.MaxBody { // before its bytes are waited for
		h.t.Fail(out, &refusedError{
			parley.Errorf(parley.CodeTooLarge, "the body has %d bytes; at most %d are allowed", r.ContentLength, h.t.MaxBody).WithHint("send less at once"),
			http.StatusRequestEntityTooLarge,
		})
		return
	}
	if out.post && r.Body != nil {
		out.in = &incoming{ReadCloser: r.Body}
		r.Body = out.in
		n, err := h.batch(r)
		if err != nil {
			h.t.Fail(out, err)
			return
		}
		done, err := h.openMore(r, p, n)
		if err != nil {
			h.t.Fail(out, err)
			return
		}
		defer done()
	}
	switch id := r.Header.Get(keepHeader); {
	case id != "" && r.Method == http.MethodDelete:
		h.cancelKept(kept{p, id})
		w.WriteHeader(http.StatusNoContent)
	case isModern(r.Header.Get(versionHeader)) || r.Header.Get(methodHeader) != "":
		if id != "" {
			ctx, done, err := h.keep(r.Context(), kept{p, id})
			if err != nil {
				h.t.Fail(w, err)
				return
			}
			defer done()
			r = r.WithContext(ctx)
		}
		h.alone.ServeHTTP(out, r)
	default:
		h.connected(out, r, p)
	}
}

// isModern reports whether text is a version of the protocol, of the newer era.
func isModern(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil && text >= modernEra
}

// connected serves the older era.
func (h *Handler) connected(out *response, r *http.Request, p parley.Principal) {
	if sealed := r.Header.Get(sessionHeader); sealed != "" {
		id, ok := h.unseal(sealed, p)
		if ok {
			var done func()
			done, ok = h.visit(id)
			defer done()
		}
		if !ok {
			http.Error(out, "session not found", http.StatusNotFound) // the host reconnects
			return
		}
		r.Header.Set(sessionHeader, id)
		if r.Method == http.MethodDelete { // the SDK waits for what is under way, which may wait for a person
			h.hangUp(id)
		}
	} else if r.Method == http.MethodPost && h.opens(r) { // the SDK keeps no connection for another message
		if err := h.connect(p); err != nil {
			h.t.Fail(out, err)
			return
		}
		out.opening = true
		defer h.opened(out, "")
	}
	defer h.carry(r)()
	h.old.ServeHTTP(out, r)
}

// opens reads the body of r and reports whether it asks to open a connection. So nothing
// is ended for a message that opens none. The body can be read again.
func (h *Handler) opens(r *http.Request) bool {
	body, err := io.ReadAll(io.LimitReader(r.Body, h.t.MaxBody+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	if err != nil || int64(len(body)) > h.t.MaxBody {
		return false
	}
	messages := []json.RawMessage{body}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) { // a batch, which the oldest version has
		messages = nil
		if json.Unmarshal(body, &messages) != nil {
			return false
		}
	}
	return slices.ContainsFunc(messages, func(m json.RawMessage) bool {
		message, err := jsonrpc.DecodeMessage(m) // as the SDK does
		r, ok := message.(*jsonrpc.Request)
		return err == nil && ok && r.IsCall() && r.Method == "initialize" && bytes.HasPrefix(bytes.TrimSpace(r.Params), []byte("{"))
	})
}

func (h *Handler) seal(id string, p parley.Principal) string {
	return id + "." + base64.RawURLEncoding.EncodeToString(h.sum(id, p))
}

func (h *Handler) sum(id string, p parley.Principal) []byte {
	name, _ := json.Marshal(p) // plain data
	return mac(h.key, []byte(id+"\n"), name)[:16]
}

func (h *Handler) unseal(sealed string, p parley.Principal) (string, bool) {
	id, sum, ok := strings.Cut(sealed, ".")
	got, err := base64.RawURLEncoding.DecodeString(sum)
	return id, ok && err == nil && hmac.Equal(got, h.sum(id, p))
}

// maxKept limits the requests that outlive their connections.
const maxKept = 1000

// keep makes a request that only ends by itself or by cancelKept.
func (h *Handler) keep(ctx context.Context, k kept) (context.Context, func(), error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept[k] != nil || len(h.kept) >= maxKept || len(k.id) > 64 {
		cancel()
		return nil, nil, parley.Errorf(parley.CodeUnavailable, "the request cannot be kept").WithField(keepHeader).WithRetry(time.Second)
	}
	h.kept[k] = cancel
	return ctx, func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.kept, k)
	}, nil
}

func (h *Handler) cancelKept(k kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.kept[k]; cancel != nil {
		cancel()
	}
}

// Close ends the connections, and waits until ctx ends for what they do, which
// ends by itself when the log is closed.
func (h *Handler) Close(ctx context.Context) {
	var wg sync.WaitGroup
	for s := range h.server.Sessions() {
		wg.Go(func() { _ = s.Close() })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// response seals the ids of connections on their way out, says the SDK's refusals
// in our words, and cuts a host that does not read.
type response struct {
	http.ResponseWriter
	rc       *http.ResponseController
	h        *Handler
	who      parley.Principal
	post     bool
	opening  bool                             // it opens a connection, which is not yet among those that are open
	asked    struct{ method, version string } // as the request says them
	head     bool
	deadline time.Time
	in       *incoming // until the answer begins; nil: no body

	refused int // status of a refusal in plain text, which is being gathered
	said    []byte
	dropped bool // the answer of a cancelled request
}

func (w *response) WriteHeader(code int) {
	if !w.head && code >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.head, w.refused = true, code
		return
	}
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

func (w *response) begin() {
	if w.head {
		return
	}
	w.head, w.in = true, nil
	if id := w.Header().Get(sessionHeader); id != "" {
		w.h.opened(w, id)
		w.Header().Set(sessionHeader, w.h.seal(id, w.who))
	}
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers would undo the streaming
}

// maxRefusal bounds what is kept of a refusal's text.
const maxRefusal = 2 << 10

func (w *response) Write(b []byte) (int, error) {
	if w.refused != 0 {
		w.said = append(w.said, b[:min(len(b), maxRefusal-len(w.said))]...)
		return len(b), nil
	}
	if answersCancelled(b) {
		w.dropped = true
		return len(b), nil
	}
	w.begin()
	w.hurry()
	if fixed, ok := reworded(b); ok {
		if _, err := w.ResponseWriter.Write(fixed); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// hurry moves the deadline when a tenth of it has passed: setting it costs more than
// comparing two times.
func (w *response) hurry() {
	now := time.Now()
	if within := w.h.t.WriteWithin; w.deadline.Sub(now) < within-within/10 {
		w.deadline = now.Add(within)
		_ = w.rc.SetWriteDeadline(w.deadline) // not every ResponseWriter has one
	}
}

// Flush is for those who ask by assertion.
func (w *response) Flush() {
	if w.refused != 0 || w.dropped && !w.head {
		return
	}
	w.begin()
	w.hurry()
	_ = w.rc.Flush()
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) end() {
	if w.dropped && !w.head && !w.post {
		w.nothingLeft()
	}
	if w.refused != 0 {
		w.refuse(strings.TrimSpace(string(w.said)))
	}
	if !w.deadline.IsZero() {
		_ = w.rc.SetWriteDeadline(time.Time{}) // for the connection's next request
	}
}
