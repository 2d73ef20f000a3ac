package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// host is what a runtime sees of the engine: one turn of one session.
type host struct {
	s *session
	r *run
}

func (h *host) App() *parley.App          { return h.r.app }
func (h *host) Turn() parley.TurnID       { return h.r.turn }
func (h *host) Now() time.Time            { return h.s.e.now() }
func (h *host) NewCall() parley.CallID    { return parley.CallID(h.s.e.newID()) }
func (h *host) Commands() <-chan struct{} { return h.r.commands }

// Folder implements [seam.Host].
func (h *host) Folder() (dir string, readOnly bool, err error) {
	if space := h.r.tools.Space(); space != "" {
		dir, err = h.r.tools.Folders().Dir(h.r.owner, space)
	}
	return dir, h.r.readOnly, err
}

// with runs f with the session's lock, unless the turn no longer belongs to this run.
func (h *host) with(ctx context.Context, f func(s *session) error) error {
	s := h.s
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer s.unlock()
	if s.gone || s.run != h.r {
		return errNotHere
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if t := s.view.Turn; t == nil || t.ID != h.r.turn { // its start could not be stored
		return notKept(h.r.lost)
	}
	return f(s)
}

var errNotHere = parley.Errorf(parley.CodeFenced, "the turn is not driven here any more")

// step is with, for the beginning of a step. It stops if the store has refused what was
// staged for the turn.
func (h *host) step(ctx context.Context, f func(s *session) error) error {
	return h.with(ctx, func(s *session) error {
		if h.r.lost != nil {
			return h.r.lost
		}
		return f(s)
	})
}

func (h *host) State() *parley.Session {
	s := h.s
	s.lock <- struct{}{}
	defer s.unlock()
	if t := s.view.Turn; t == nil || t.ID != h.r.turn {
		h.r.unseen = true
	}
	return s.view
}

func (h *host) Emit(ctx context.Context, events ...parley.Event) error {
	events, err := h.allowed(events)
	if err != nil {
		return err
	}
	return h.lasting(ctx, func() error {
		free, err := h.s.e.afford(ctx, h.r.owner, events)
		if err != nil {
			return err
		}
		defer free()
		return h.step(ctx, func(s *session) error {
			// While the server shuts down, steps may end but none may begin.
			if s.e.isClosing() && slices.ContainsFunc(events, func(ev parley.Event) bool { return ev.Type == "model.started" }) {
				return errShutdown
			}
			return h.commit(ctx, s, s.fewer(s.unasked(events))...)
		})
	})
}

// unasked adds to events the ends of the questions whose agents end with them.
func (s *session) unasked(events []parley.Event) []parley.Event {
	var out []parley.Event
	for _, ev := range events {
		out = append(out, ev)
		if ev.Type != (parley.AgentEnded{}).EventType() {
			continue
		}
		for _, in := range s.askedBy(ev.Agent) {
			out = append(out, parley.NewEvent(ev.Turn, in.Agent, parley.InteractionExpired{ID: in.ID, Reason: "the agent that asked has ended"}))
		}
	}
	return out
}

func (h *host) Stage(events ...parley.Event) error {
	events, err := h.allowed(events)
	if err != nil {
		return err
	}
	return h.lasting(h.r.ctx, func() error {
		return h.step(context.Background(), func(s *session) error { return s.stageSoon(s.fewer(s.unasked(events))...) })
	})
}

// allowed refuses events that a runtime may not append, names the turn, and adds the tool
// requests of a reply right behind it.
func (h *host) allowed(events []parley.Event) ([]parley.Event, error) {
	out := make([]parley.Event, 0, len(events)+2)
	for _, ev := range events {
		kind, _, _ := strings.Cut(string(ev.Type), ".")
		switch kind {
		case "model", "agent", "context", "memory", "budget":
		case "hook", "files", "runtime":
			if ev.Type == (parley.HookRan{}).EventType() {
				// Only the engine's own hooks are obeyed.
				if p, err := ev.Payload(); err != nil || p.(parley.HookRan).From != "" {
					return nil, parley.Errorf(parley.CodeInternal, "a runtime may not append the decision of one of the engine's hooks")
				}
			}
			if len(ev.Data) > maxNote || ev.Type == (parley.RuntimeKept{}).EventType() { // runtime.kept is appended by Keep
				return nil, parley.Errorf(parley.CodeInternal, "a runtime may not append %s with %d bytes", ev.Type, len(ev.Data))
			}
		default:
			return nil, parley.Errorf(parley.CodeInternal, "a runtime may not append %s", ev.Type)
		}
		ev.Turn = h.r.turn
		out = append(out, ev)
		p, err := ev.Payload()
		if err != nil {
			return nil, err
		}
		reply, ok := p.(parley.ModelReplied)
		if !ok {
			continue
		}
		for _, part := range reply.Parts {
			if part.Type == parley.PartToolCall {
				input := part.Input
				if len(input) == 0 {
					input = []byte("{}")
				}
				out = append(out, parley.NewEvent(h.r.turn, ev.Agent, parley.ToolRequested{Call: part.Call, Name: part.Name, Input: input, Redacted: part.Redacted}))
			}
		}
	}
	return out, nil
}

const (
	// maxNote limits one hook.*, files.* or runtime.noted event, in bytes, and maxNotes all of
	// them in a turn. A program must not fill the log with notes, so further ones are dropped.
	// Only files are always announced.
	maxNote  = 32 << 10
	maxNotes = 1 << 20
)

// fewer returns the events without the notes that exceed maxNotes.
func (s *session) fewer(events []parley.Event) []parley.Event {
	room := maxNotes - s.view.Turn.Noted
	return slices.DeleteFunc(events, func(ev parley.Event) bool {
		switch ev.Type {
		case "hook.ran", "files.saved", "runtime.noted":
			room -= len(ev.Data)
			return room < 0
		}
		return false
	})
}

func (h *host) Publish(d parley.Delta) {
	d.Session, d.Turn = h.s.id, h.r.turn
	h.s.e.o.Log.Publish(d)
}

// Ask opens an interaction, once for each call and key.
func (h *host) Ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	if in.Kind != parley.KindUnknown { // which is asked about a call, not by it
		in.Key = in.AskedAs()
	}
	var answer parley.Answer
	ask := func(s *session) error {
		t := s.view.Turn
		if a := t.Agent(in.Agent); a != nil && a.Ended {
			return errAgentEnded
		}
		if c := t.Tool(in.Call); c != nil && in.Kind == parley.KindUnknown {
			switch {
			case c.Resolution != "":
				answer = parley.Answer{Choice: c.Resolution}
				return nil
			case c.AskedWhat != "":
				return seam.ErrParked
			}
		}
		if a, ok := t.AnswerTo(in.Call, in.AskedAs()); ok {
			answer = a
			return nil
		}
		if slices.ContainsFunc(s.view.Interactions, in.Same) {
			return seam.ErrParked
		}
		if in.Kind == parley.KindUnknown {
			h.wordUnknown(s, &in)
			if c := t.Tool(in.Call); c != nil && c.Late != "" {
				in.Text = strings.TrimPrefix(in.Text+"\n"+c.Late, "\n")
			}
			if c := t.Tool(in.Call); c != nil && c.Run == parley.RunRuntime { // only the runtime could repeat it
				in.Choices = slices.DeleteFunc(slices.Clone(in.Choices), func(choice string) bool { return choice == parley.ChoiceAgain })
			}
		}
		if err := h.commit(ctx, s, s.opening(h.r.app, in)); err != nil {
			return err
		}
		return seam.ErrParked
	}
	err := h.lasting(ctx, func() error { return h.step(ctx, ask) })
	return answer, err
}

// opening returns the event that opens in. It sets the id, and a deadline if there is none.
func (s *session) opening(app *parley.App, in parley.Interaction) parley.Event {
	now := s.e.now()
	in.ID, in.Session, in.Turn, in.OpenedAt = parley.InteractionID(s.e.newID()), s.id, s.view.Turn.ID, now
	if in.ExpiresAt.IsZero() {
		in.ExpiresAt = now.Add(answerWithin(app.Policy, s.view.Policy))
	}
	return parley.NewEvent(in.Turn, in.Agent, parley.InteractionOpened{Interaction: in})
}

func (e *Engine) isClosing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

// Open reads an artifact of the session.
func (h *host) Open(ctx context.Context, id parley.ArtifactID) (seam.File, error) {
	var a seam.Artifact
	var body []byte
	err := h.lasting(ctx, func() (err error) {
		if a, err = h.s.e.artifactOf(ctx, h.r.owner, h.s.id, id); err == nil {
			body, err = h.s.e.bytesOf(ctx, h.r.owner, a)
		}
		return err
	})
	if isCode(err, parley.CodeNotFound) {
		err = notFound("artifact", id)
	}
	if err != nil {
		return seam.File{}, err
	}
	return seam.File{Name: a.Name, MediaType: a.MediaType, Body: body}, nil
}

// retrieveWithin limits how long a turn waits for its snippets.
const retrieveWithin = 3 * time.Second

func (h *host) Retrieve(ctx context.Context, query string) (found parley.ContextRetrieved, err error) {
	st := h.State()
	found.Entities = h.attached(ctx, st.Attached)
	if h.r.app.Memory.Retrieve {
		brief, cancel := context.WithTimeout(ctx, retrieveWithin)
		defer cancel()
		if found.Snippets, err = h.r.box.Retrieve(brief, h.r.owner, query, st.About); err != nil {
			h.s.e.o.Logger.Warn("the lookup for a turn failed", "session", h.s.id, "err", err)
		}
	}
	return found, nil
}
