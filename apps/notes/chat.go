package notes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

// The paths of this app's own wire.
const (
	ChatPath    = "/api/claude/chat"
	StreamPath  = "/api/claude/chat-stream"
	ClearPath   = "/api/claude/clear"
	HistoryPath = "/api/claude/history"
)

const (
	wireName = "claude" // as an app names it, and as the log records where a turn came from

	// PersonHeader names the person whose notes a request is about.
	PersonHeader = "X-Notes-Person"
)

// AnswerWithin is how long a person has to answer what a turn of this wire asks: the client waits
// for its answer, and cannot answer itself.
const AnswerWithin = time.Minute

// Engine is the part of package engine that this wire uses.
type Engine interface {
	Create(ctx context.Context, p parley.Principal, c parley.CreateSession) (parley.SessionInfo, bool, error)
	Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error)
	Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error)
	Await(ctx context.Context, p parley.Principal, id parley.TurnID, timeout time.Duration) (parley.TurnInfo, error)
	End(ctx context.Context, p parley.Principal, id parley.SessionID, reason string) (parley.SessionInfo, error)
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	TurnPage(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, seam.TurnMark, error)
	Model(name string) (seam.ModelInfo, error)
	Inbox(ctx context.Context, p parley.Principal, from seam.InteractionMark, limit int) ([]seam.InteractionRow, seam.InteractionMark, error)
	Answer(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.AnswerInteraction) (seam.InteractionRow, error)
}

// Options of [New].
type Options struct {
	App    string // whose wire it is
	Engine Engine
	Follow func(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[eventlog.Frame, error] // of eventlog.Reader
	// Principal identifies the caller.
	Principal func(ctx context.Context) (parley.Principal, error)
	// Person returns the workspace of a person, or an error if the caller may not use it or it
	// does not exist.
	Person func(p parley.Principal, name string) (parley.Workspace, error)
	// Accounts are the persons' logins at LinkedIn. Nil: there are none.
	Accounts Accounts
	// Fail answers with an error in the one shape.
	Fail func(w http.ResponseWriter, err error)
	// Open counts an answer that waits for a turn, or refuses it. Nil: no limit.
	Open func(ctx context.Context, p parley.Principal) (done func(), err error)
	wire.Limits
	Ping time.Duration // how long a stream with ?ping=1 may be silent; 0: 15 s
}

// Handlers serve the wire, by path and method.
type Handlers struct{ o Options }

// New makes the handlers.
func New(o Options) *Handlers {
	o.Limits = o.Limits.Defaults()
	return &Handlers{o}
}

// call is a request of a person.
type call struct {
	p      parley.Principal
	person parley.Workspace
}

func (h *Handlers) call(r *http.Request) (c call, err error) {
	if c.p, err = h.o.Principal(r.Context()); err != nil {
		return c, err
	}
	none := parley.Errorf(parley.CodeInvalid, "Person not selected").WithField(PersonHeader).
		WithHint("send the header %s with the name of a folder of the vault that you may use", PersonHeader)
	names := r.Header.Values(PersonHeader)
	if len(names) != 1 || names[0] == "" {
		return c, none
	}
	c.person, err = h.o.Person(c.p, names[0])
	if code := parley.CodeOf(err); err != nil && (code == parley.CodeNotFound || code == parley.CodeInvalid) {
		err = none
	}
	return c, err
}

// find returns the session that a client knows by id. There is none if it was ended, or if it is
// another person's.
func (h *Handlers) find(ctx context.Context, c call, id string) (s parley.SessionInfo, found bool, err error) {
	if id == "" || len(id) > parley.MaxOutsideID {
		return s, false, nil
	}
	at, err := h.o.Engine.Alias(ctx, c.p, h.o.App, id)
	if err == nil {
		s, err = h.o.Engine.Session(ctx, c.p, at)
	}
	if parley.CodeOf(err) == parley.CodeNotFound && err != nil {
		return s, false, nil
	}
	return s, err == nil && s.Workspace == c.person && s.Status == parley.Active, err
}

// session finds a session, or makes one with an id of its own.
func (h *Handlers) session(ctx context.Context, c call, id string) (parley.SessionInfo, error) {
	s, found, err := h.find(ctx, c, id)
	if found || err != nil {
		return s, err
	}
	s, _, err = h.o.Engine.Create(ctx, c.p, parley.CreateSession{
		App: h.o.App, OutsideID: newID(), Workspace: c.person, Client: wireName,
		Mode: parley.ModeAcceptEdits, Policy: &parley.Policy{AnswerWithin: parley.Duration(AnswerWithin)},
	})
	return s, err
}

// newID makes a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// begun is a message that was accepted.
type begun struct {
	call
	session parley.SessionInfo
	turn    parley.TurnInfo
	done    func()
}

// begin does everything that may be refused, before the answer begins.
func (h *Handlers) begin(w http.ResponseWriter, r *http.Request) (b begun, err error) {
	if b.call, err = h.call(r); err != nil {
		return b, err
	}
	in, err := h.read(w, r, "message", "session_id")
	if err != nil {
		return b, err
	}
	switch message := in["message"]; {
	case strings.TrimSpace(message) == "":
		return b, parley.Errorf(parley.CodeInvalid, "the message is empty").WithField("message").WithHint("say something")
	case len(message) > h.o.MaxMessage:
		return b, parley.Errorf(parley.CodeTooLarge, "the message has %d bytes; at most %d are allowed", len(message), h.o.MaxMessage).WithField("message").
			WithHint("send less at once")
	}
	b.done = func() {}
	if h.o.Open != nil { // before there is a turn that nobody would follow
		if b.done, err = h.o.Open(r.Context(), b.p); err != nil {
			return b, err
		}
	}
	if b.session, err = h.session(r.Context(), b.call, in["session_id"]); err == nil {
		b.turn, err = h.o.Engine.Send(r.Context(), b.p, b.session.ID, parley.Send{Message: in["message"], Client: wireName, Fixed: true})
	}
	if err != nil {
		b.done()
		return b, err
	}
	w.Header().Set("Parley-Session", string(b.session.ID))
	w.Header().Set("Parley-Turn", string(b.turn.ID))
	if h.scripted(b.session.Model) {
		w.Header().Set("Parley-Scripted", "true")
	}
	return b, nil
}

// scripted reports whether a model follows a script. No line of this wire has room for it.
func (h *Handlers) scripted(model string) bool {
	m, err := h.o.Engine.Model(model)
	return err == nil && m.Scripted
}

// Chat answers a message with the whole answer. A client that goes away does not end its turn.
func (h *Handlers) Chat(w http.ResponseWriter, r *http.Request) {
	b, err := h.begin(w, r)
	if err != nil {
		h.fail(w, err)
		return
	}
	defer b.done()
	t := b.turn
	for first := true; first || !t.Over(); first = false {
		if t, err = h.o.Engine.Await(r.Context(), b.p, b.turn.ID, time.Minute); err == nil && !t.Over() && t.Status == parley.StatusWaiting {
			t, err = h.rest(r.Context(), b, t)
		}
		if err != nil {
			h.fail(w, err)
			return
		}
	}
	if err := failure(t); err != nil {
		h.fail(w, err)
		return
	}
	said := ""
	if t.Response != nil {
		said = t.Response.Message
	}
	list, err := h.history(r.Context(), b.p, b.session.ID)
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, chatAnswer{true, b.session.OutsideID, said, list})
}

type chatAnswer struct {
	Success bool      `json:"success"`
	Session string    `json:"session_id"`
	Said    string    `json:"response"`
	History []message `json:"history"`
}

// rest waits for the end of a turn that waits for a person, or for its next change: Await returns
// such a turn at once.
func (h *Handlers) rest(ctx context.Context, b begun, t parley.TurnInfo) (parley.TurnInfo, error) {
	for f, err := range h.o.Follow(ctx, b.p, b.session.ID, t.LastSeq) {
		if err != nil {
			return t, err
		}
		if f.Event != nil && f.Event.Turn == t.ID {
			break
		}
	}
	return h.o.Engine.Await(ctx, b.p, t.ID, time.Minute)
}

// failure is the error of a turn that has no answer.
func failure(t parley.TurnInfo) error {
	switch t.Status {
	case parley.StatusCompleted:
		return nil
	case parley.StatusCancelled:
		return parley.Errorf(parley.CodeCancelled, "%s", because("the turn was cancelled", t.Reason))
	case parley.StatusExpired:
		return parley.Errorf(parley.CodeTimeout, "%s", because("the turn expired", t.Reason))
	case parley.StatusInterrupted:
		return parley.Errorf(parley.CodeUnavailable, "%s", because("the turn was interrupted", t.Reason))
	}
	if t.Error != nil {
		code := t.Error.Code
		switch code {
		case parley.CodeInvalid, parley.CodeUnauthenticated, parley.CodeForbidden, parley.CodeNotFound, parley.CodeConflict:
			code = parley.CodeModel // the provider has refused our request; the client's was accepted
		}
		return parley.Errorf(code, "%s", t.Error.Message).WithHint("%s", t.Error.Hint)
	}
	return parley.Errorf(parley.CodeInternal, "the turn failed")
}

// Stream answers a message with the lines of its turn. A client that goes away does not end its
// turn.
func (h *Handlers) Stream(w http.ResponseWriter, r *http.Request) {
	ping, err := wire.Flag(r.URL.Query(), "ping", false)
	if err != nil {
		h.fail(w, err)
		return
	}
	b, err := h.begin(w, r)
	if err != nil {
		h.fail(w, err)
		return
	}
	defer b.done()
	silence := time.Duration(-1)
	if ping {
		silence = cmp.Or(h.o.Ping, 15*time.Second)
	}
	form, turn := NewWire(b.session.OutsideID), b.turn.ID
	err = wire.Serve(w, r, h.o.Follow(r.Context(), b.p, b.session.ID, b.turn.FirstSeq-1), wire.NDJSON, form, &wire.Options{
		Keep: func(f eventlog.Frame) bool {
			return f.Event != nil && f.Event.Turn == turn || f.Delta != nil && f.Delta.Turn == turn
		},
		Until:     func(eventlog.Frame) bool { return form.Ended() },
		Heartbeat: silence,
		Accepted:  true, // the turn is there, and so are its lines
	})
	if err != nil {
		h.fail(w, err)
	}
}

// Clear ends a session. Its history is empty from then on, and its id is unknown.
func (h *Handlers) Clear(w http.ResponseWriter, r *http.Request) {
	c, err := h.call(r)
	if err != nil {
		h.fail(w, err)
		return
	}
	in, err := h.read(w, r, "session_id")
	if err != nil {
		h.fail(w, err)
		return
	}
	if in["session_id"] == "" {
		h.fail(w, parley.Errorf(parley.CodeInvalid, "the field \"session_id\" is missing").WithField("session_id").WithHint("name the session to clear"))
		return
	}
	s, found, err := h.find(r.Context(), c, in["session_id"])
	if found {
		// Once begun it is done, also when the client goes away: the turn is stopped already.
		_, err = h.o.Engine.End(context.WithoutCancel(r.Context()), c.p, s.ID, "the session was cleared")
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	said := "Session cleared"
	if !found {
		said = "Session not found"
	}
	h.answer(w, clearAnswer{found, said})
}

type clearAnswer struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// History answers with what was said in a session.
func (h *Handlers) History(w http.ResponseWriter, r *http.Request) {
	c, err := h.call(r)
	if err != nil {
		h.fail(w, err)
		return
	}
	id := r.URL.Query().Get("session_id")
	if id == "" {
		h.fail(w, parley.Errorf(parley.CodeInvalid, "the query parameter \"session_id\" is missing").WithField("session_id").WithHint("name the session"))
		return
	}
	s, found, err := h.find(r.Context(), c, id)
	list := []message{}
	if found {
		list, err = h.history(r.Context(), c.p, s.ID)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, historyAnswer{found, list})
}

type historyAnswer struct {
	Success bool      `json:"success"`
	History []message `json:"history"`
}

// message is one of a session's history.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// maxHistory limits the texts of a history, in bytes. Of a longer one the newest are shown.
const maxHistory = 1 << 20

// history returns what the user and the assistant said. An answer is that of a turn that has
// completed.
func (h *Handlers) history(ctx context.Context, p parley.Principal, id parley.SessionID) ([]message, error) {
	if err := wire.Reserve(ctx, maxHistory); err != nil {
		return nil, err
	}
	list, size := []message{}, 0
	for q := (seam.TurnQuery{Session: id, Limit: 50}); ; {
		page, next, err := h.o.Engine.TurnPage(ctx, p, q)
		if err != nil {
			return nil, err
		}
		for _, t := range page { // newest first
			if t.Origin != parley.OriginUser || t.Rewound != 0 {
				continue
			}
			said := 0
			if t.Status == parley.StatusCompleted && t.Response != nil {
				list = append(list, message{"assistant", t.Response.Message})
				said = len(t.Response.Message)
			}
			list = append(list, message{"user", t.Message})
			if size += said + len(t.Message); size > maxHistory {
				slices.Reverse(list)
				return list, nil
			}
		}
		if len(page) < q.Limit {
			slices.Reverse(list)
			return list, nil
		}
		q.After = next
	}
}

func (h *Handlers) answer(w http.ResponseWriter, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		h.fail(w, parley.Errorf(parley.CodeInternal, "the answer cannot be written: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

// fail answers with an error in the one shape, which on this wire has the message as detail, too.
func (h *Handlers) fail(w http.ResponseWriter, err error) { h.o.Fail(w, detailed{err}) }

type detailed struct{ err error }

func (e detailed) Error() string { return e.err.Error() }
func (e detailed) Unwrap() error { return e.err }

// HasDetail is looked for by the door that writes the error.
func (detailed) HasDetail() {}
