package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/strict"
	"github.com/parley-server/parley/internal/wire"
)

const (
	// Path is where this app's own wire is.
	Path = "/chat"

	wireName = "chat" // as an app names it, and as the log records where a turn came from
)

// Engine is the part of package engine that this wire uses.
type Engine interface {
	Create(ctx context.Context, p parley.Principal, c parley.CreateSession) (parley.SessionInfo, bool, error)
	Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error)
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	Model(name string) (seam.ModelInfo, error)
}

// Options of [Chat].
type Options struct {
	App    string // whose wire it is
	Engine Engine
	Follow func(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[eventlog.Frame, error] // of eventlog.Reader
	// Principal identifies the caller.
	Principal func(ctx context.Context) (parley.Principal, error)
	// Fail answers with an error in the one shape.
	Fail func(w http.ResponseWriter, err error)
	// Open counts a stream, or refuses it. Nil: no limit.
	Open func(ctx context.Context, p parley.Principal) (done func(), err error)
	wire.Limits
	Ping time.Duration // how long a stream with ?ping=1 may be silent; 0: 15 s
}

// Chat serves POST of [Path]: one message in, the frames of its turn out. The
// session is the caller's own id and is made when it is first used. A client
// that goes away does not end its turn.
func Chat(o Options) http.Handler {
	o.Limits = o.Limits.Defaults()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := o.begin(w, r)
		if err != nil {
			o.Fail(w, err)
			return
		}
		defer s.done()
		o.stream(w, r, s)
	})
}

// chatForm is the body that /chat takes.
const chatForm = `send {"session_id": "...", "message": "..."}`

type chatBody struct {
	SessionID *string `json:"session_id"`
	Message   *string `json:"message"`
}

// asked is a requested stream.
type asked struct {
	p            parley.Principal
	t            parley.TurnInfo
	cursor, ping bool
	done         func()
}

// begin does everything that may be refused, before the stream starts.
func (o Options) begin(w http.ResponseWriter, r *http.Request) (a asked, err error) {
	p, err := o.Principal(r.Context())
	if err != nil {
		return a, err
	}
	q := r.URL.Query()
	if a.cursor, err = wire.Flag(q, "cursor", false); err != nil {
		return a, err
	}
	if a.ping, err = wire.Flag(q, "ping", false); err != nil {
		return a, err
	}
	in, err := o.decode(w, r)
	if err != nil {
		return a, err
	}
	given, err := parley.ParseCredentials(r.Header.Values(parley.CredentialsHeader))
	if err != nil {
		return a, err
	}
	done := func() {}
	if o.Open != nil { // before there is a turn that nobody would follow
		if done, err = o.Open(r.Context(), p); err != nil {
			return a, err
		}
	}
	t := parley.TurnInfo{}
	s, _, err := o.Engine.Create(r.Context(), p, parley.CreateSession{App: o.App, OutsideID: *in.SessionID, Client: wireName})
	if err == nil {
		// This wire has no queue and no answers: a second message is refused while a turn
		// runs or waits for a human, who answers elsewhere.
		t, err = o.Engine.Send(r.Context(), p, s.ID, parley.Send{Message: *in.Message, Credentials: given, Busy: parley.BusyReject, Client: wireName, Fixed: true})
	}
	if err != nil {
		done()
		return a, err
	}
	a.p, a.t, a.done = p, t, done
	return a, nil
}

// mediaError refuses a body because of its Content-Type.
type mediaError struct{ err error }

func (e mediaError) Error() string { return e.err.Error() }
func (e mediaError) Unwrap() error { return e.err }

// HTTPStatus returns the status for a door that writes the error as an answer.
func (mediaError) HTTPStatus() int { return http.StatusUnsupportedMediaType }

func (o Options) decode(w http.ResponseWriter, r *http.Request) (chatBody, error) {
	var in chatBody
	invalid := func(field, format string, args ...any) (chatBody, error) {
		return in, parley.Errorf(parley.CodeInvalid, format, args...).WithField(field).WithHint(chatForm)
	}
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if kind, _, err := mime.ParseMediaType(ct); err != nil || kind != "application/json" {
			return in, mediaError{parley.Errorf(parley.CodeInvalid, "the body's Content-Type is not one that this request takes").WithHint("send application/json")}
		}
	}
	raw, err := o.ReadBody(w, r)
	if err == nil {
		if wrong := strict.JSON(raw); wrong != nil {
			return in, wrong
		}
		if field, unknown := strict.Keys(raw, "session_id", "message"); unknown {
			return in, parley.Errorf(parley.CodeInvalid, "the field %q is not known here", field).WithField(field).WithHint(chatForm)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		if err = d.Decode(&in); err == nil {
			if _, more := d.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("there is more behind the object")
			}
		}
	}
	if _, ours := errors.AsType[*parley.Error](err); ours { // the body did not come, or is too large
		return in, err
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return in, parley.Errorf(parley.CodeInvalid, "the body is a JSON %s; it must be an object", wrong.Value).WithHint(chatForm)
		}
		return invalid(wrong.Field, "the field %q is a %s; it must be text", wrong.Field, wrong.Value)
	}
	if err != nil {
		return in, parley.Errorf(parley.CodeInvalid, "the body is not valid JSON: %w", err).WithHint(chatForm)
	}
	switch {
	case in.SessionID == nil || *in.SessionID == "":
		return invalid("session_id", "the field \"session_id\" is missing")
	case utf8.RuneCountInString(*in.SessionID) > parley.MaxOutsideID:
		return invalid("session_id", "session_id has more than %d characters", parley.MaxOutsideID)
	case in.Message == nil || strings.TrimSpace(*in.Message) == "":
		return invalid("message", "the message is empty")
	case len(*in.Message) > o.MaxMessage:
		return in, parley.Errorf(parley.CodeTooLarge, "the message has %d bytes; at most %d are allowed", len(*in.Message), o.MaxMessage).WithField("message").
			WithHint("send less at once")
	}
	return in, nil
}

// scripted reports whether the session's agent begins its turn with a model that follows a script.
// No frame of this wire has room for it, and what every frame holds is fixed, so it is a header.
func (o Options) scripted(ctx context.Context, p parley.Principal, id parley.SessionID) bool {
	s, err := o.Engine.Session(ctx, p, id) // again: the turn may have begun with other settings of the app
	if err != nil {
		return false // the turn is there, and its frames matter more
	}
	m, err := o.Engine.Model(s.Model)
	return err == nil && m.Scripted
}

func (o Options) stream(w http.ResponseWriter, r *http.Request, a asked) {
	p, t := a.p, a.t
	w.Header().Set("Parley-Session", string(t.SessionID))
	w.Header().Set("Parley-Turn", string(t.ID))
	if o.scripted(r.Context(), p, t.SessionID) {
		w.Header().Set("Parley-Scripted", "true")
	}
	form := &Wire{Cursor: a.cursor}
	silence := time.Duration(-1)
	if a.ping {
		if silence = o.Ping; silence == 0 {
			silence = 15 * time.Second
		}
	}
	err := wire.Serve(w, r, o.Follow(r.Context(), p, t.SessionID, t.FirstSeq-1), wire.SSE, form, &wire.Options{
		Keep: func(f eventlog.Frame) bool {
			return f.Event != nil && f.Event.Turn == t.ID || f.Delta != nil && f.Delta.Turn == t.ID
		},
		Until:     func(eventlog.Frame) bool { return form.Ended() },
		Heartbeat: silence,
		Retry:     -1,
		Accepted:  true, // the turn is there, and so are its frames
	})
	if err != nil {
		o.Fail(w, err)
	}
}
