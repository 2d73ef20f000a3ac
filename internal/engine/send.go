package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Send asks for a turn and returns once the turn is durable. If another turn runs, waits
// for a human or is about to be resumed, the session's busy mode, or c.Busy, decides what
// happens; see [parley.BusyMode]. A key that was used before returns the turn that it
// made.
//
// If it is unknown whether the turn was kept, or ctx ends before that is known, Send
// returns the turn's id and session with the error, as do Retry and CallTool: see
// [Engine.Kept]. If the turn was certainly not kept, they return no turn.
func (e *Engine) Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error) {
	if err := e.checkSend(c); err != nil {
		return parley.TurnInfo{}, err
	}
	s, err := e.ready(ctx, p, id)
	if err != nil {
		return parley.TurnInfo{}, err
	}
	a := asked{Send: c}
	s, end, err := e.gather(ctx, p, s, &a)
	if err != nil {
		return parley.TurnInfo{}, err
	}
	defer end()
	defer func() { a.pass.settle(false) }() // if it was not accepted
	for {
		info, err := s.send(ctx, p, a)
		ask, ok := errors.AsType[*askFirst](err)
		if !ok {
			return info, err
		}
		a.pass = ask.pass
		if a.heard, err = ask.ask(ctx); err != nil {
			return parley.TurnInfo{}, err
		}
		if s, err = e.ready(ctx, p, id); err != nil {
			return parley.TurnInfo{}, err
		}
		if blocked, err := s.blocked(ctx, a.heard); blocked || err != nil {
			s.release()
			return parley.TurnInfo{}, err
		}
	}
}

// asked is a message, or a retry or call in place of one.
type asked struct {
	parley.Send
	retryOf parley.TurnID
	call    *parley.ToolCall
	command *parley.Part         // the prompt of the message's slash command; nil: the message is not one
	read    []parley.Part        // what the message's resources say
	files   []parley.ArtifactRef // those of them that are files, which are not artifacts yet
	wrong   error                // why the prompt or a resource could not be found; ignored if the message is a repeated one
	origin  parley.Origin        // empty: a call if call is set, otherwise a user
	turn    parley.TurnID        // the turn's id; empty: a new one
	again   bool                 // it may be sent again without a key of its own
	heard   *heard               // what hooks said about a message for a running turn; nil: they were not asked
	pass    *pass                // counts it in its user's rate; nil: that is still to be done
	free    func()               // releases what was reserved for the message; nil: nothing was
}

func (c asked) commandSize() int {
	if c.command == nil {
		return 0
	}
	return len(c.command.Text)
}

// bodyOf is what an idempotency key stands for.
func bodyOf(c asked) parley.Digest {
	same := c.Send
	same.Credentials = nil // neither credentials nor a digest of them is ever stored
	return digestOf(struct {
		parley.Send
		RetryOf parley.TurnID
	}{same, c.retryOf})
}

// send does the work of Send, Retry and CallTool. It is called with the lock held and
// releases it.
func (s *session) send(ctx context.Context, p parley.Principal, c asked) (parley.TurnInfo, error) {
	info, started, err := s.sendLocked(ctx, p, c)
	s.release()
	if err == nil && started != nil {
		err = started.durable(ctx)
	}
	if _, asks := errors.AsType[*askFirst](err); err != nil && !asks {
		return perhaps(ctx, info, err, c.again || c.Key != "")
	}
	return info, err
}

func (s *session) sendLocked(ctx context.Context, p parley.Principal, c asked) (info parley.TurnInfo, started *run, err error) {
	none := parley.TurnInfo{}
	defer func() {
		switch {
		case c.free == nil:
		case started == nil:
			c.free()
		default:
			started.reserved(c.free)
		}
	}()
	if s.e.isClosing() {
		return none, nil, errShutdown
	}
	c.Key = s.e.aliasOf(c.Key)
	v := s.view
	var body parley.Digest
	if c.Key != "" {
		body = bodyOf(c)
		info, found, err := s.byKey(ctx, p, c.Key, body)
		if err != nil {
			return info, nil, err
		}
		if found {
			if err := s.resupply(ctx, p, info.ID, c.Credentials, c.Client); err != nil {
				return info, nil, err
			}
		}
		if found && s.run != nil && s.run.turn == info.ID {
			return info, s.run, nil // it may not be durable yet: both callers get the same result
		}
		if found {
			return info, nil, nil
		}
	}
	if v.Status != parley.Active {
		return none, nil, parley.Errorf(parley.CodeConflict, "the session has %s", v.Status).WithHint("start a new session, or fork this one")
	}
	if c.ExpectedVersion != 0 && c.ExpectedVersion != v.Seq {
		return none, nil, stale(c.ExpectedVersion, v.Seq)
	}
	if v.Rewinding != nil {
		return none, nil, rewinding()
	}
	request, err := s.request(ctx, p, c)
	if err != nil {
		return none, nil, err
	}
	if c.free == nil {
		if c.free, err = s.e.keep(ctx, s.view.Principal(), 0, int64(len(c.Message)+c.commandSize()+c.readSize()+offeredSize(request.Tools))); err != nil {
			return none, nil, err
		}
	}
	if c.call == nil && c.heard == nil { // otherwise it was admitted before the hooks were asked
		if c.pass, err = s.e.admit(ctx, s.view.Principal()); err != nil {
			return none, nil, err
		}
	}
	defer func() {
		if ask, ok := errors.AsType[*askFirst](err); ok {
			ask.pass = c.pass // it is decided later
			return
		}
		c.pass.settle(err == nil)
	}()
	turn := c.turn
	if turn == "" {
		turn = parley.TurnID(s.e.newID())
	}
	if c.Key != "" {
		s.index.Keys = append(s.index.Keys, seam.Key{Session: s.id, Key: c.Key, Body: body, Made: s.id, Turn: turn})
		defer func() {
			if s.staged.Len() == 0 || s.run != nil && s.run.turn != turn {
				s.dropKey(c.Key) // refused: otherwise a commit would include the index row
			}
		}()
	}
	// Put the credentials first, so that they are redacted from the message too.
	back, err := s.e.credentials.put(s.view.Principal(), s.id, turn, c.Credentials, s.e.now())
	if err != nil {
		return none, nil, err
	}
	info, started, err = s.place(ctx, p, c, turn, request)
	switch {
	case err == nil && info.ID != turn: // the message joined the open turn
		s.e.credentials.move(s.id, turn, info.ID, false)
	case err != nil && s.doubt == nil && (s.run == nil || s.run.turn != turn):
		back()
	}
	if err != nil && s.run == nil {
		s.discard() // nothing of a refused command may stay in view
	}
	return info, started, err
}

// request checks a message against the app and the session.
func (s *session) request(ctx context.Context, p parley.Principal, c asked) (parley.TurnRequest, error) {
	app, err := s.e.appOf(s.view.App)
	if err != nil {
		return parley.TurnRequest{}, err
	}
	budgets, err := s.view.Budgets.Narrow(c.Budgets)
	if err != nil {
		return parley.TurnRequest{}, err
	}
	if c.Model != "" {
		if err := fixedModel(app.App(), s.view.Policy); err != nil {
			return parley.TurnRequest{}, err
		}
		if _, err := s.e.o.Models.Model(c.Model); err != nil {
			return parley.TurnRequest{}, err
		}
	}
	origin := parley.OriginUser
	if c.call != nil {
		if err := hasTool(s.box(), c.call.Name); err != nil && c.retryOf == "" {
			return parley.TurnRequest{}, err
		}
		origin = parley.OriginCall
	}
	if c.wrong != nil {
		return parley.TurnRequest{}, c.wrong
	}
	if c.Schedule != nil {
		if err := hasAgent(app.App(), c.Schedule.Agent); err != nil {
			return parley.TurnRequest{}, err
		}
		if c.retryOf == "" && !c.Again { // else a person retries
			origin = parley.OriginSchedule
		}
	}
	if c.origin != "" {
		origin = c.origin
	}
	var tools []parley.ToolDecl
	if len(c.Tools) > 0 {
		if tools, err = offers(app.App(), s.tools.Tools(), c.Tools); err != nil {
			return parley.TurnRequest{}, err
		}
	}
	message := parley.Text(parley.RoleUser, c.Message)
	if c.command != nil {
		message.Parts = append(message.Parts, *c.command)
	}
	if err := s.again(ctx, p, c); err != nil {
		return parley.TurnRequest{}, err
	}
	message.Parts = append(message.Parts, c.read...)
	for i, id := range c.Attachments {
		part, err := s.attached(ctx, p, id, c.Send)
		if err != nil {
			return parley.TurnRequest{}, err.WithField(fmt.Sprintf("attachments[%d]", i))
		}
		message.Parts = append(message.Parts, part)
	}
	return parley.TurnRequest{
		Origin: origin, Call: c.call, Message: message, Model: c.Model, Hints: c.Hints,
		Budgets: budgets, Key: c.Key, Client: c.Client, By: c.by(p), RetryOf: c.retryOf, NoTools: c.NoTools, Tools: tools, Schedule: c.Schedule,
	}, nil
}

const (
	maxAttachments = parley.MaxAttachments
	// maxAttachment is the largest picture or document, in bytes, that providers accept.
	maxAttachment = parley.MaxAttachment
)

// attached is the message part that points to an artifact of the session, for the model that answers
// a message.
func (s *session) attached(ctx context.Context, p parley.Principal, id parley.ArtifactID, c parley.Send) (parley.Part, *parley.Error) {
	a, err := s.e.artifactOf(ctx, p, s.id, id)
	switch {
	case isCode(err, parley.CodeNotFound):
		return parley.Part{}, notFound("artifact", id).WithHint("attach an artifact of this session")
	case err != nil:
		return parley.Part{}, parley.Errorf(parley.CodeOf(err), "%w", err)
	case a.Size > maxAttachment:
		return parley.Part{}, tooLong("artifact "+string(id), maxAttachment, "bytes")
	}
	if part, ok, err := s.given(ctx, p, a, c); err != nil {
		return parley.Part{}, parley.Errorf(parley.CodeOf(err), "%w", err)
	} else if ok {
		return part, nil
	}
	kind := parley.PartFile
	if strings.HasPrefix(a.MediaType, "image/") {
		kind = parley.PartImage
	}
	return parley.Part{Type: kind, Artifact: id, MediaType: a.MediaType, Name: a.Name, Size: a.Size}, nil
}

func (e *Engine) checkSend(c parley.Send) error {
	most := cmp.Or(e.o.Limits.MaxMessage, parley.MaxMessage)
	switch {
	case strings.TrimSpace(c.Message) == "":
		return parley.Errorf(parley.CodeInvalid, "message is empty").WithField("message").WithHint("say something")
	case len(c.Message) > most:
		return parley.Errorf(parley.CodeTooLarge, "message is longer than %s", sizeText(most)).WithField("message").WithHint("send less, or send it in several messages")
	case utf8.RuneCountInString(c.Key) > parley.MaxKey:
		return tooLong("Idempotency-Key", parley.MaxKey, "characters")
	case len(c.Attachments) > maxAttachments:
		return tooLong("attachments", maxAttachments, "entries")
	case len(c.Resources) > parley.MaxResources:
		return tooLong("resources", parley.MaxResources, "entries")
	case sizeOf(c.Hints) > maxSettings:
		return tooLong("hints", maxSettings, "bytes of JSON")
	case c.Busy != "":
		if err := checkBusy(c.Busy); err != nil {
			return err
		}
	}
	for i, r := range c.Resources {
		if err := r.Check(); err != nil {
			return err.WithField(fmt.Sprintf("resources[%d].%s", i, err.Field))
		}
	}
	return c.Credentials.Check()
}

// byKey finds the turn that a key made, committed or staged.
func (s *session) byKey(ctx context.Context, p parley.Principal, key string, body parley.Digest) (parley.TurnInfo, bool, error) {
	var k seam.Key
	for _, staged := range s.index.Keys {
		if staged.Key == key {
			k = staged
		}
	}
	if k.Key == "" {
		var err error
		k, err = s.e.o.Store.Key(ctx, p, s.id, key)
		if isCode(err, parley.CodeNotFound) {
			return parley.TurnInfo{}, false, nil
		}
		if err != nil {
			return parley.TurnInfo{}, false, err
		}
	}
	if k.Body != body {
		return parley.TurnInfo{}, true, keyReused(key)
	}
	if s.view.Turn != nil && s.view.Turn.ID == k.Turn {
		return s.info(k.Turn), true, nil
	}
	info, err := s.e.o.Store.Turn(ctx, p, k.Turn)
	return info, true, err
}

func (s *session) dropKey(key string) {
	for i, k := range s.index.Keys {
		if k.Key == key {
			s.index.Keys = append(s.index.Keys[:i:i], s.index.Keys[i+1:]...)
			return
		}
	}
}

// retarget makes a staged key name the turn that received the message.
func (s *session) retarget(key string, turn parley.TurnID) {
	for i := range s.index.Keys {
		if s.index.Keys[i].Key == key && key != "" {
			s.index.Keys[i].Turn = turn
		}
	}
}

// info is the row of a turn that is open or queued in view.
func (s *session) info(id parley.TurnID) parley.TurnInfo {
	if t := s.view.Turn; t != nil && t.ID == id {
		return *turnInfo(s.view)
	}
	for _, q := range s.view.Queue {
		if q.ID == id {
			row := queuedInfo(parley.Event{Session: s.id, Turn: id, Time: q.At, Seq: q.Seq}, q.Request)
			return row
		}
	}
	return parley.TurnInfo{ID: id, SessionID: s.id}
}

func stale(want, have int64) *parley.Error {
	return parley.Errorf(parley.CodeConflict, "the session is at version %d, not %d", have, want).
		WithField("expected_version").WithHint("read what happened since and decide again")
}

// hasAgent refuses an agent that the app does not have. Empty: its entry agent.
func hasAgent(app *parley.App, name string) error {
	if _, ok := app.Agents[name]; ok || name == "" {
		return nil
	}
	names := slices.Sorted(maps.Keys(app.Agents))
	return parley.Errorf(parley.CodeInvalid, "the app %s has no agent %q", app.Name, parley.Cut(name, 60)).WithField("agent").
		WithHint("its agents: %s", strings.Join(names, ", "))
}
