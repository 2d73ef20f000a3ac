package mcpserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// wait waits until the turn has ended or waits to be resumed, or until over, which it extends
// by the time that a person takes. While the store is unavailable it waits for that. If
// the turn waits for a human whom the host can ask, it asks: in the older era by a
// request of ours, in the newer one by the returned result, with which the host calls
// again.
//
// If the host cannot ask, it returns at once; otherwise the host would hang until its own
// timeout and cancel. The host has already been told of the interactions in known: for
// these it waits until somebody else answers.
func (a *App) wait(ctx context.Context, r request, id parley.TurnID, over *time.Time, known ...parley.InteractionID) (parley.TurnInfo, *mcp.CallToolResult, error) {
	var skip []parley.InteractionID
	err := a.lasting(ctx, *over, func() (err error) {
		skip, err = a.answers(ctx, r, id)
		return err
	})
	if err != nil {
		return parley.TurnInfo{}, nil, err
	}
	say := a.progress(ctx, r)
	for {
		var t parley.TurnInfo
		err := a.lasting(ctx, *over, func() (err error) {
			t, err = a.watch(ctx, r.who, id, *over, func(t parley.TurnInfo) bool { return news(t, known) }, say)
			return err
		})
		if err != nil || t.Status != parley.StatusWaiting || !canAsk(r) {
			return t, nil, err
		}
		var open []parley.Interaction
		err = a.lasting(ctx, *over, func() (err error) {
			open, skip, err = a.open(ctx, r.who, t, skip)
			return err
		})
		if err != nil {
			return t, nil, err
		}
		if len(open) == 0 {
			if time.Until(*over) <= 0 || !slices.ContainsFunc(t.Interactions, func(in parley.InteractionID) bool { return !slices.Contains(skip, in) }) {
				return t, nil, nil // nothing is left that this host can ask
			}
			continue // answered meanwhile
		}
		if modern(r) {
			return t, a.inputRequired(r, t, open, skip), nil
		}
		asked, err := a.elicit(ctx, r, t, open[0], over)
		if err != nil {
			return t, nil, err
		}
		if !asked {
			skip = append(skip, open[0].ID)
		}
	}
}

// watch follows a turn until it is over, or waits for a human and stop says so;
// the waiting turn may be one that it is queued behind. At until it returns the turn as
// it is then.
func (a *App) watch(ctx context.Context, p parley.Principal, id parley.TurnID, until time.Time, stop func(parley.TurnInfo) bool, say *progress) (parley.TurnInfo, error) {
	look := func() (parley.TurnInfo, bool, error) {
		t, err := a.o.Engine.Turn(ctx, p, id)
		if err != nil {
			return t, true, err
		}
		if t.Status == parley.StatusWaiting && len(t.Interactions) > 0 {
			say.waits(ctx, t)
		}
		by, err := a.holder(ctx, p, t)
		if err != nil {
			return t, true, err
		}
		return t, t.Over() || by.Status == parley.StatusWaiting && stop(by), nil
	}
	t, done, err := look()
	if done || err != nil {
		return t, err
	}
	timed, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	follow := func(ctx context.Context) wire.Frames { return a.o.Reader.Follow(ctx, p, t.SessionID, t.LastSeq) }
	frames := follow(timed)
	if say != nil {
		frames = wire.Gathered(timed, a.o.ProgressEvery, follow)
	}
	for f, err := range frames {
		switch {
		case ctx.Err() != nil:
			return t, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			return a.o.Engine.Turn(ctx, p, id)
		case err != nil:
			return t, err
		}
		f.Taken() // what follows may wait for the client
		if f.Delta != nil && f.Delta.Turn == id {
			say.delta(*f.Delta, f.Partial)
		}
		if f.Event == nil || f.Event.Turn != id && (t.Status != parley.StatusPending || f.Event.Type != "interaction.opened") {
			continue
		}
		if f.Event.Turn == id {
			say.event(*f.Event)
		}
		switch f.Event.Type {
		case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired", "turn.interrupted", "interaction.opened":
			if t, done, err = look(); done || err != nil {
				return t, err
			}
		}
	}
	return t, parley.Errorf(parley.CodeUnavailable, "the log ended") // cannot happen without an error
}

// artifacts returns links to the artifacts of a turn.
func (a *App) artifacts(ctx context.Context, p parley.Principal, t parley.TurnInfo) (links []mcp.Content, refs []ArtifactRef, err error) {
	if !t.Status.Ended() {
		return nil, nil, nil
	}
	for after := t.FirstSeq - 1; after < t.LastSeq; {
		events, err := a.o.Reader.Read(ctx, p, t.SessionID, after, 0)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range events {
			after = e.Seq
			if e.Turn != t.ID || e.Type != "artifact.stored" {
				continue
			}
			if pay, err := e.Payload(); err == nil {
				ref := pay.(parley.ArtifactStored).ArtifactRef
				refs = append(refs, artifactOf(ref))
				links = append(links, link(ref))
			}
		}
		if len(events) == 0 {
			break
		}
	}
	return links, refs, nil
}

// maxShown limits the text of a progress notification, in bytes: its end is what is new.
const maxShown = 2000

// progress tells the host how a turn proceeds, if the host asked for that. A nil progress does
// nothing. The goroutine of the request uses it.
type progress struct {
	session *mcp.ServerSession
	token   any
	waiting func(ctx context.Context, t parley.TurnInfo) string
	ctx     context.Context // of the request, which outlives the progress

	n    float64
	text wire.Text
	said parley.InteractionID
}

func (a *App) progress(ctx context.Context, r request) *progress {
	token := r.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return &progress{session: r.Session, token: token, ctx: ctx, waiting: func(ctx context.Context, t parley.TurnInfo) string {
		return a.waitsFor(ctx, r.who, t)
	}}
}

func (p *progress) delta(d parley.Delta, whole bool) {
	if p == nil || d.Kind != parley.DeltaText && d.Kind != parley.DeltaProgress || d.Agent.OfMemory() {
		return
	}
	if d.Kind == parley.DeltaProgress {
		p.tell(by(d.Agent) + lastOf([]byte(d.Text)))
		return
	}
	if d.Agent.Depth() > 0 {
		return // its words are for another agent, and mix with those of others
	}
	p.text.Begin(d.Call)
	p.text.Add(d.Text, whole)
	p.tell(lastOf(p.text.Seen()))
	if seen := p.text.Seen(); len(seen) > 2*maxShown {
		p.text.Add(string(seen[len(seen)-maxShown:]), true)
	}
}

// by names a sub-agent before what it does.
func by(agent parley.AgentPath) string {
	if agent.Depth() == 0 {
		return ""
	}
	return string(agent) + " "
}

// lastOf is the end of a text.
func lastOf(text []byte) string {
	return strings.ToValidUTF8(string(text[max(0, len(text)-maxShown):]), "")
}

func (p *progress) tell(message string) {
	if message == "" {
		return
	}
	p.n++
	// A host that disconnects does not stop the turn.
	_ = p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: p.n, Message: message})
}

func (p *progress) event(e parley.Event) {
	if p == nil || e.Agent.OfMemory() {
		return
	}
	pay, err := e.Payload()
	if err != nil {
		return
	}
	switch v := pay.(type) {
	case parley.TurnStarted:
		p.tell("gathers what the question is about")
	case parley.AgentHandoff:
		p.tell(string(v.From) + " hands over to " + string(v.To))
	case parley.ToolStarted:
		p.tell(by(e.Agent) + "calls " + v.Name + " " + parley.Cut(string(v.Input), 300))
	case parley.ToolEnded:
		p.tell(by(e.Agent) + v.Name + ": " + string(v.Outcome) + " " + parley.Cut(v.Output, 300))
	case parley.ModelFailed:
		p.tell(by(e.Agent) + "the model call failed: " + v.Error.Message)
	case parley.InteractionAnswered:
		p.tell("answered: " + v.Answer.Choice)
	}
}

// waits names what the turn waits for, once.
func (p *progress) waits(ctx context.Context, t parley.TurnInfo) {
	if p == nil || p.said == t.Interactions[0] {
		return
	}
	p.said = t.Interactions[0]
	p.tell(p.waiting(ctx, t))
}
