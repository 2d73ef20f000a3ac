package leads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/strict"
	"github.com/parley-server/parley/internal/tool/rest"
)

// said is what a client says.
type said struct {
	Type    string  `json:"type"`
	Message *string `json:"message"`
	Token   *string `json:"token"`
	Org     *string `json:"orgId"`
	Base    *string `json:"apiBaseUrl"`
	Session *string `json:"sessionId"`
	Live    *bool   `json:"live"`
}

const (
	maxSession = 128
	maxOrg     = 200
	maxBase    = 2048
)

const saidForm = `send {"type": "chat", "message", "token", "orgId"?, "apiBaseUrl"?, "sessionId"?, "live"?} or {"type": "reset", "sessionId"}`

// read reads a message of a client. Fields that are not known are ignored, since a page may send more.
func read(raw []byte) (in said, err error) {
	invalid := func(format string, args ...any) (said, error) {
		return in, parley.Errorf(parley.CodeInvalid, format, args...).WithHint(saidForm)
	}
	if wrong := strict.JSON(raw); wrong != nil {
		return in, wrong
	}
	var all map[string]json.RawMessage // the decoder takes "Token" for "token" in a struct
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&all); err != nil || all == nil {
		return invalid("the message is not a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("the message is not one JSON object")
	}
	for name, into := range map[string]any{
		"type": &in.Type, "message": &in.Message, "token": &in.Token, "orgId": &in.Org, "apiBaseUrl": &in.Base, "sessionId": &in.Session,
	} {
		if raw, ok := all[name]; ok && json.Unmarshal(raw, into) != nil {
			return invalid("the field %q must be text", name)
		}
	}
	if raw, ok := all["live"]; ok && json.Unmarshal(raw, &in.Live) != nil {
		return invalid("the field %q must be true or false", "live")
	}
	switch {
	case in.Type != "chat" && in.Type != "reset":
		return invalid("the type must be chat or reset")
	case len(value(in.Session)) > maxSession:
		in.Session = nil // no session has such an id
	case len(value(in.Org)) > maxOrg:
		return invalid("orgId has more than %d bytes", maxOrg)
	case len(value(in.Base)) > maxBase:
		return invalid("apiBaseUrl has more than %d bytes", maxBase)
	}
	return in, nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// confirms matches the message that confirms a write.
var confirms = regexp.MustCompile(`^CONFIRM_ACTION:[ \t]*([0-9A-Za-z_-]{1,128})$`)

// chat is a message whose sender is known.
type chat struct {
	p       parley.Principal
	message string
	given   parley.Credentials
	base    string // of the API, in the form that the operator wrote; "": it is not named
	s       parley.SessionInfo
	live    bool // text is shown as it comes
}

// job is a part to show.
type job struct {
	p     parley.Principal
	part  *Part
	sent  int64 // the number of an event that was in the log when the message had been accepted
	joins bool  // the message was given to a turn that was open already
	asks  bool  // the turn asks for more, which was asked before the part begins
}

// accept does what a client asks for with a chat, and returns the part that answers it.
func (h *handler) accept(ctx context.Context, in said, id identity) (j job, err error) {
	c := chat{
		p: id.Principal, message: value(in.Message), given: parley.Credentials{rest.Credential: value(in.Token)}, live: in.Live != nil && *in.Live,
	}
	switch {
	case strings.TrimSpace(c.message) == "":
		return j, parley.Errorf(parley.CodeInvalid, "the message is empty")
	case len(c.message) > h.o.MaxMessage:
		return j, parley.Errorf(parley.CodeTooLarge, "the message has %d bytes; at most %d are allowed", len(c.message), h.o.MaxMessage)
	}
	if c.base = value(in.Base); c.base != "" || h.o.API != nil {
		ok := false
		if h.o.API != nil {
			c.base, ok = h.o.API.Allowed(c.base)
		}
		if !ok {
			return j, parley.Errorf(parley.CodeForbidden, "this API is not one that the server may use")
		}
	}
	named := value(in.Base) != ""
	text := strings.TrimSpace(c.message)
	confirm := strings.HasPrefix(strings.ToUpper(text), "CONFIRM_ACTION")
	c.s, err = h.session(ctx, c.p, parley.SessionID(value(in.Session)), !confirm)
	if err != nil {
		return j, err
	}
	if t := c.s.Turn; t != nil && named {
		if err := h.sameBase(ctx, c, t.ID); err != nil {
			return j, err
		}
	}
	if confirm {
		m := confirms.FindStringSubmatch(text)
		if m == nil || c.s.ID == "" {
			return j, noAction()
		}
		return h.confirm(ctx, c, parley.InteractionID(m[1]))
	}
	return h.send(ctx, c)
}

func noAction() error {
	return parley.Errorf(parley.CodeNotFound, "There is no such action waiting in this conversation. Nothing was sent.")
}

func noLonger() error {
	return parley.Errorf(parley.CodeConflict, "This action is no longer waiting: it was declined, or not confirmed in time. Nothing was sent.")
}

// session finds the session that a client names, or makes one. Another person's is like one that does
// not exist. Without make there may be none.
func (h *handler) session(ctx context.Context, p parley.Principal, id parley.SessionID, make bool) (s parley.SessionInfo, err error) {
	if id != "" {
		s, err = h.o.Engine.Session(ctx, p, id)
		switch {
		case err == nil && s.App == h.o.App && s.Status == parley.Active:
			return s, nil
		case err != nil && parley.CodeOf(err) != parley.CodeNotFound:
			return s, err
		}
	}
	if !make {
		return parley.SessionInfo{}, nil
	}
	s, _, err = h.o.Engine.Create(ctx, p, parley.CreateSession{App: h.o.App, Client: wireName})
	return s, err
}

// sameBase returns an error if the open turn works with another API than the one that a message names.
func (h *handler) sameBase(ctx context.Context, c chat, turn parley.TurnID) error {
	t, err := h.o.Engine.Turn(ctx, c.p, turn)
	if err != nil || t.FirstSeq == 0 {
		return err
	}
	events, err := h.o.Read(ctx, c.p, c.s.ID, t.FirstSeq-1, 1)
	if err != nil || len(events) == 0 {
		return err
	}
	p, err := events[0].Payload()
	if err != nil {
		return err
	}
	if began, ok := p.(parley.TurnStarted); ok {
		of, _ := began.Hints[rest.BaseHint].(string)
		if was, ok := h.o.API.Allowed(of); ok && was != c.base {
			return parley.Errorf(parley.CodeConflict, "The request that is open in this conversation is for another API. Begin a new conversation.")
		}
	}
	return nil
}

// resume goes on with a turn that was cut off and does not go on by itself.
func (h *handler) resume(ctx context.Context, c chat) (resumed bool, err error) {
	if c.s.Turn == nil || c.s.Turn.Status != parley.StatusInterrupted {
		return false, nil
	}
	_, err = h.o.Engine.Resume(ctx, c.p, c.s.Turn.ID)
	if parley.CodeOf(err) == parley.CodeConflict {
		return false, nil // it has gone on meanwhile
	}
	return err == nil, err
}

// send gives a message to the session. One that comes while the turn works or waits joins it, and
// declines what it waits for.
func (h *handler) send(ctx context.Context, c chat) (j job, err error) {
	resumed, err := h.resume(ctx, c)
	if err != nil {
		return j, err
	}
	m := parley.Send{Message: c.message, Busy: parley.BusySteer, Credentials: c.given, Client: wireName, Fixed: true}
	if c.base != "" {
		m.Hints = map[string]any{rest.BaseHint: c.base}
	}
	t, err := h.o.Engine.Send(ctx, c.p, c.s.ID, m)
	if err != nil {
		return j, err
	}
	j = job{p: c.p, sent: t.LastSeq}
	after := t.FirstSeq - 1
	if was := c.s.Turn; was != nil && was.ID == t.ID {
		j.joins, after = true, t.LastSeq
		if resumed {
			after = c.s.Version // what it did since then belongs to the answer
		}
	}
	j.part = NewPart(c.s.ID, t.ID, after, c.live)
	return j, h.answered(ctx, c, j.part)
}

// answered tells a part what was answered already, such as a question for the login that the message
// has brought.
func (h *handler) answered(ctx context.Context, c chat, part *Part) error {
	for after := part.seq; ; {
		events, err := h.o.Read(ctx, c.p, c.s.ID, after, 0)
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			after = e.Seq
			if p, err := e.Payload(); err == nil {
				if a, ok := p.(parley.InteractionAnswered); ok {
					part.answered[a.ID] = true
				}
			}
		}
	}
}

// confirm answers an open confirmation with yes. The same again by the same user changes nothing, but
// brings the turn the login that it may have lost.
func (h *handler) confirm(ctx context.Context, c chat, id parley.InteractionID) (j job, err error) {
	row, err := h.o.Engine.Interaction(ctx, c.p, id)
	switch {
	case err != nil && parley.CodeOf(err) != parley.CodeNotFound:
		return j, err
	case err != nil || row.Session != c.s.ID || row.Kind != parley.KindConfirmation:
		return j, noAction()
	case !row.Open && (row.Answer == nil || row.Answer.Choice != parley.ChoiceAllow):
		return j, noLonger()
	case !row.Open && (c.s.Turn == nil || c.s.Turn.ID != row.Turn):
		return j, parley.Errorf(parley.CodeConflict, "This action was confirmed already. It is carried out once, and was not sent again.")
	}
	answered, err := h.o.Engine.Answer(ctx, c.p, id, parley.AnswerInteraction{
		Answer: parley.Answer{Choice: parley.ChoiceAllow}, Credentials: c.given, Client: wireName,
	})
	if parley.CodeOf(err) == parley.CodeConflict {
		return j, noLonger() // it was declined meanwhile
	}
	if err != nil {
		return j, err
	}
	if _, err := h.resume(ctx, c); err != nil {
		return j, err
	}
	t, err := h.o.Engine.Turn(ctx, c.p, row.Turn)
	if err != nil {
		return j, err
	}
	j = job{p: c.p, sent: answered.LastSeq, joins: true, asks: len(t.Interactions) > 0, part: NewPart(c.s.ID, row.Turn, answered.LastSeq, c.live)}
	return j, h.answered(ctx, c, j.part)
}

// waitsFor returns what a turn asks a person, if it cannot go on without an answer. It may have asked several
// things at once, of which one was answered.
func (h *handler) waitsFor(ctx context.Context, j job) (in parley.Interaction, ok bool, err error) {
	t, err := h.o.Engine.Turn(ctx, j.p, j.part.turn)
	if err != nil || t.Status != parley.StatusWaiting || len(t.Interactions) == 0 {
		return in, false, err
	}
	row, err := h.o.Engine.Interaction(ctx, j.p, t.Interactions[0])
	return row.Interaction, err == nil && row.Open, err
}

// reset ends a session that the connection has used.
func (h *handler) reset(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	_, err := h.o.Engine.End(context.WithoutCancel(ctx), p, id, "the conversation was reset")
	return err
}
