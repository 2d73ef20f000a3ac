package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// place handles the request as the session's state and the busy mode require. If it
// returns a run, that run's first commit makes the turn durable.
func (s *session) place(ctx context.Context, p parley.Principal, c asked, turn parley.TurnID, r parley.TurnRequest) (parley.TurnInfo, *run, error) {
	none := parley.TurnInfo{}
	busy := s.view.Busy
	if c.Busy != "" {
		busy = c.Busy
	}
	t := s.view.Turn
	if t != nil && t.Status == parley.StatusInterrupted && !s.e.goesOn(s.id) {
		const reason, by = "a new message arrived instead", "superseded"
		if s.asks() {
			return s.interruptWith(ctx, parley.TurnStopRequested{Reason: reason, By: by}, turn, r, c.files)
		}
		if err := s.stage(s.closingTurn(parley.TurnCancelled{Reason: reason, By: by})...); err != nil {
			return none, nil, err
		}
		t = nil
	}
	if err := s.names(c.Agent, busy); err != nil {
		return none, nil, err
	}
	steers := busy == parley.BusySteer && c.call == nil && c.retryOf == "" // only words can be added to a running turn
	switch {
	case t == nil && (busy == parley.BusyInterrupt || len(s.view.Queue) == 0):
		started, err := s.start(turn, r, false, c.files...)
		return s.info(turn), started, err
	case t == nil:
		// The first queued turn begins, so the limit is unchanged, unless that is about
		// to happen anyway.
		return s.enqueue(ctx, turn, r, c.files, s.e.goesOn(s.id))
	case busy == parley.BusyInterrupt:
		return s.interruptWith(ctx, parley.TurnStopRequested{Reason: "interrupted by a new message", By: p.User}, turn, r, c.files)
	case steers && s.stopping() == nil && len(r.Tools) > 0:
		return none, nil, parley.Errorf(parley.CodeInvalid, "tools can only be offered with a message that begins a turn, and a turn is already open").
			WithField("tools").WithHint("send the message without tools, or with busy=enqueue or busy=interrupt")
	case steers && s.stopping() == nil:
		if err := s.roomToSteer(c, r.Message); err != nil {
			return none, nil, err
		}
		if ask := s.askFirst(c, r.Message); ask != nil {
			return none, nil, ask
		}
		if asked := s.askedBy(c.Agent); len(asked) > 0 {
			s.e.credentials.move(s.id, turn, t.ID, false)
			return s.declineWith(ctx, p, c, r, asked)
		}
		own := t.ID
		s.retarget(c.Key, own)
		s.e.credentials.move(s.id, turn, own, false)
		events := append(s.satisfied(p, c.Client, ""), parley.NewEvent(own, c.Agent, parley.TurnSteered{Message: r.Message, Key: c.Key, By: p.User}))
		events = append(events, stored(own, c.Agent, c.files)...)
		events = append(events, c.heard.events(s)...)
		err := s.commit(ctx, events...)
		if err == nil && s.run != nil {
			s.run.wake()
		}
		return s.info(own), nil, err
	case busy == parley.BusyReject:
		return none, nil, s.busy(c)
	}
	return s.enqueue(ctx, turn, r, c.files, true)
}

// names refuses a message for a sub-agent that is not at work.
func (s *session) names(agent parley.AgentPath, busy parley.BusyMode) error {
	if agent == "" {
		return nil
	}
	if busy != parley.BusySteer {
		return parley.Errorf(parley.CodeInvalid, "agent is set, but busy is %q", busy).WithField("agent").
			WithHint("only a message with busy=steer goes to one agent of the turn")
	}
	var at []string
	if t := s.view.Turn; t != nil {
		for i := range t.Agents {
			if a := &t.Agents[i]; a.IsSub() && t.Live(a) {
				if a.Path == agent {
					return nil
				}
				at = append(at, string(a.Path))
			}
		}
	}
	hint := "no sub-agent is at work; leave agent out"
	if at != nil {
		hint = "at work: " + strings.Join(at, ", ")
	}
	return parley.Errorf(parley.CodeConflict, "the agent %q is not at work", agent).WithField("agent").WithHint("%s", hint)
}

// humanPause is after what time a client may check again whether a person has answered.
const humanPause = 5 * time.Second

// busy says what the session is busy with, and what the sender can do about it.
func (s *session) busy(c asked) error {
	t := s.view.Turn
	switch {
	case t.Status == parley.StatusInterrupted:
		return parley.Errorf(parley.CodeBusy, "turn %s was interrupted and is about to be resumed", t.ID).
			WithHint("wait for it to end, or cancel it%s", s.orSend(c, "busy=enqueue")).WithRetry(time.Second)
	case t.Status == parley.StatusWaiting && len(s.view.Interactions) > 0:
		in := s.view.Interactions[0]
		more := ""
		if n := len(s.view.Interactions) - 1; n > 0 {
			more = fmt.Sprintf(" and to %d more", n)
		}
		return parley.Errorf(parley.CodeBusy, "turn %s waits for an answer to interaction %s%s: %s", t.ID, in.ID, more, in.Title).
			WithHint("answer it%s", s.orSend(c, "busy=steer to decline it with this message", "busy=enqueue to wait for its turn", "busy=interrupt to end that")).
			WithRetry(humanPause)
	}
	return parley.Errorf(parley.CodeBusy, "a turn is running in this session").
		WithHint("wait for turn %s to end, or cancel it%s", t.ID, s.orSend(c, "busy=enqueue")).WithRetry(time.Second)
}

// orSend lists those of the ways that the sender can use. A retry, a call and some doors
// have no busy modes, and a session may have no room for a queue.
func (s *session) orSend(c asked, ways ...string) string {
	if c.Fixed || c.call != nil || c.retryOf != "" {
		return ""
	}
	text, sep := "", "; or send with "
	for _, way := range ways {
		if strings.HasPrefix(way, "busy=enqueue") && s.view.OpenTurns() >= s.view.MaxOpenTurns {
			continue
		}
		text += sep + way
		sep = ", or "
	}
	return text
}

// stopping returns the request to stop the open turn, or nil. A turn that is stopping
// accepts no more messages.
func (s *session) stopping() *parley.TurnStopRequested {
	if t := s.view.Turn; t.Stop != nil || s.run == nil {
		return t.Stop
	}
	if why, ok := context.Cause(s.run.ctx).(*stopped); ok {
		return &parley.TurnStopRequested{Reason: why.reason, By: why.by}
	}
	return nil
}

// enqueue puts the request at the end of the queue, within the session's limit if limited
// is set. It releases a held queue if nothing runs before it.
func (s *session) enqueue(ctx context.Context, turn parley.TurnID, r parley.TurnRequest, files []parley.ArtifactRef, limited bool) (parley.TurnInfo, *run, error) {
	if open, limit := s.view.OpenTurns(), s.view.MaxOpenTurns; limited && open >= limit {
		return parley.TurnInfo{}, nil, parley.Errorf(parley.CodeBusy, "the session already has %d open turns", open).
			WithHint("its limit is %d; wait for one to end", limit).WithRetry(2 * time.Second)
	}
	if err := s.roomInQueue(r); err != nil {
		return parley.TurnInfo{}, nil, err
	}
	var events []parley.Event
	if s.view.Turn != nil && s.view.Turn.Stop == nil {
		if stop := s.stopping(); stop != nil {
			// The log must show that this message came after the stop request and was not
			// stopped by it.
			events = append(events, parley.NewEvent(s.view.Turn.ID, "", *stop))
		}
	}
	events = append(events, parley.NewEvent(turn, "", parley.TurnQueued{TurnRequest: r}))
	events = append(events, stored(turn, "", files)...)
	if err := s.commit(ctx, events...); err != nil {
		return s.info(turn), nil, err
	}
	info := s.info(turn)
	s.startNext()
	return info, nil, nil
}

// interruptWith ends the open turn and runs the request next. A turn running here ends by
// itself, after the writes that it has started; so does an interrupted turn whose writes
// can be asked about.
func (s *session) interruptWith(ctx context.Context, stop parley.TurnStopRequested, turn parley.TurnID, r parley.TurnRequest, files []parley.ArtifactRef) (parley.TurnInfo, *run, error) {
	asks := s.asks()
	if s.run == nil && !asks {
		if err := s.stage(s.closingTurn(cancelled(stop))...); err != nil {
			return parley.TurnInfo{}, nil, err
		}
		started, err := s.start(turn, r, false, files...)
		return s.info(turn), started, err
	}
	if open, limit := s.view.OpenTurns(), s.view.MaxOpenTurns; open > limit { // the open turn is about to end
		return parley.TurnInfo{}, nil, parley.Errorf(parley.CodeBusy, "turn %s is being stopped, and %d more wait", s.view.Turn.ID, open-1).
			WithHint("the session's limit is %d open turns; wait for one to end", limit).WithRetry(time.Second)
	}
	if err := s.roomInQueue(r); err != nil {
		return parley.TurnInfo{}, nil, err
	}
	queued := append([]parley.Event{parley.NewEvent(turn, "", parley.TurnQueued{TurnRequest: r, Next: true})}, stored(turn, "", files)...)
	if asks {
		err := s.stopAsking(ctx, stop, queued...)
		return s.info(turn), nil, err
	}
	if err := s.commit(ctx, append([]parley.Event{parley.NewEvent(s.view.Turn.ID, "", stop)}, queued...)...); err != nil {
		return s.info(turn), nil, err
	}
	s.run.cancel(&stopped{by: stop.By, reason: stop.Reason})
	return s.info(turn), nil, nil
}

// askedBy returns the open interactions of an agent and its sub-agents, or of the whole turn if
// agent is empty.
func (s *session) askedBy(agent parley.AgentPath) []parley.Interaction {
	var list []parley.Interaction
	for _, in := range s.view.Interactions {
		if agent == "" || in.Agent.Within(agent) {
			list = append(list, in)
		}
	}
	return list
}

// answers reports whether ev is the answer to an interaction.
func answers(ev parley.Event, id parley.InteractionID) bool {
	p, err := ev.Payload()
	a, ok := p.(parley.InteractionAnswered)
	return err == nil && ok && a.ID == id
}

// declineWith declines the open interactions and gives the message to the agent that it is for,
// which then continues. An interaction that asks for credentials is answered instead if they
// came with the message.
func (s *session) declineWith(ctx context.Context, p parley.Principal, c asked, r parley.TurnRequest, open []parley.Interaction) (parley.TurnInfo, *run, error) {
	t := s.view.Turn
	s.retarget(c.Key, t.ID)
	events := s.satisfied(p, c.Client, "")
	for _, in := range open {
		if slices.ContainsFunc(events, func(ev parley.Event) bool { return answers(ev, in.ID) }) {
			continue
		}
		choice := parley.ChoiceDeny
		if in.Kind == parley.KindUnknown {
			choice = parley.ChoiceLeave
		}
		events = append(events, parley.NewEvent(t.ID, in.Agent, parley.InteractionAnswered{
			ID: in.ID, Answer: parley.Answer{Choice: choice, Text: r.Message.Text()}, By: p.User, Client: c.Client,
		}))
	}
	events = append(events, parley.NewEvent(t.ID, c.Agent, parley.TurnSteered{Message: r.Message, Key: c.Key, By: p.User}))
	events = append(events, stored(t.ID, c.Agent, c.files)...)
	events = append(events, c.heard.events(s)...)
	if err := s.commit(ctx, events...); err != nil {
		return s.info(t.ID), nil, err
	}
	info := s.info(t.ID)
	s.logged("go on after a message", s.goOn())
	return info, nil, nil
}

// startsNext reports whether the first queued turn is due: no turn is open, and the queue
// is not held.
func (s *session) startsNext() bool {
	v := s.view
	return v.Turn == nil && s.run == nil && v.Rewinding == nil && len(v.Queue) > 0 && !v.Held && v.Status == parley.Active
}

// startNext begins the first queued turn if it is due. If the turn cannot begin because
// the store is unavailable, it is tried again, since it was acknowledged. If it is
// refused, it fails, and the next one is due. The caller holds the lock.
func (s *session) startNext() {
	for s.startsNext() {
		if !s.resolves() {
			s.e.goOnLater(s.id, 0) // which waits for its tools without the lock
			return
		}
		q := s.view.Queue[0]
		_, err := s.start(q.ID, q.Request, true)
		if err == nil {
			return
		}
		s.discard()
		if refused(err) {
			err = s.endQueued(s.e.boot, q.ID, parley.TurnFailed{Error: parley.Info(err)})
		}
		if err != nil {
			s.startLater(err)
			return
		}
	}
}

func (s *session) startLater(err error) {
	if s.gone || len(s.view.Queue) == 0 {
		return
	}
	s.waits("a queued turn could not begin and is tried again", err)
	s.e.goOnLater(s.id, longestPause)
}

// refused reports whether another attempt would be refused, too: the cause is neither an
// outage of the store nor the server stopping.
func refused(err error) bool {
	e, ok := errors.AsType[*parley.Error](err)
	return ok && e.Code != parley.CodeUnavailable && e.Code != parley.CodeCancelled && e.Code != parley.CodeFenced
}

// notBegun ends a run whose turn.started could not be stored, for the given reason. A
// queued turn stays queued and begins later, unless it was stopped or would be refused
// again. notBegun returns true if the store cannot record that now.
func (s *session) notBegun(r *run, err, cause error) (again bool) {
	r.kept(notKept(err))
	var last parley.Payload
	why, wasStopped := errors.AsType[*stopped](cause)
	switch {
	case !s.isQueued(r.turn) || r.last || s.e.boot.Err() != nil:
	case wasStopped:
		last = parley.TurnCancelled{Reason: why.reason, By: why.by}
	case refused(err):
		last = parley.TurnFailed{Error: parley.Info(err)}
	}
	if !s.isQueued(r.turn) {
		s.e.credentials.drop(s.id, r.turn)
	}
	if last != nil {
		if cerr := s.endQueued(s.e.boot, r.turn, last); cerr != nil && !s.gone {
			s.waits("a turn's end could not be kept and is tried again", cerr)
			return true
		}
	}
	s.dropRun(r)
	switch {
	case s.gone || r.last || s.e.boot.Err() != nil || !s.startsNext():
	case last != nil:
		s.startNext()
	default:
		s.startLater(err)
	}
	return false
}

// endQueued ends a queued turn, and a temporary session with its last turn.
func (s *session) endQueued(ctx context.Context, turn parley.TurnID, last parley.Payload) error {
	s.keepRow(s.info(turn))
	events := []parley.Event{parley.NewEvent(turn, "", last)}
	if s.view.Temporary && s.view.Turn == nil && len(s.view.Queue) == 1 {
		events = append(events, temporaryEnd())
	}
	return s.commit(ctx, events...)
}

// closeAll stages the end of the open turn and of all queued turns, including messages
// that the open one had not read yet.
func (s *session) closeAll(last parley.Payload) error {
	if s.view.Turn != nil {
		if err := s.stage(s.closingTurn(last)...); err != nil {
			return err
		}
	}
	for _, q := range s.view.Queue {
		s.keepRow(s.info(q.ID))
		if err := s.stage(parley.NewEvent(q.ID, "", last)); err != nil {
			return err
		}
	}
	return nil
}

// keepRow records the row of a queued turn, for the event that ends it.
func (s *session) keepRow(row parley.TurnInfo) {
	if !slices.ContainsFunc(s.index.Turns, func(t parley.TurnInfo) bool { return t.ID == row.ID }) {
		s.index.Turns = append(s.index.Turns, row)
	}
}
