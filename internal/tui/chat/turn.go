package chat

import (
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

func (t *turn) apply(e parley.Event, p parley.Payload) {
	switch p := p.(type) {
	case parley.AgentStarted:
		t.began(e, p)
	case parley.AgentHandoff:
		t.note(e, "handed over from "+string(p.From)+" to "+string(p.To)+because(p.Why))
	case parley.AgentEnded:
		if it := t.agents[e.Agent]; it != nil {
			it.live = false
			if it.kind == kindAgent {
				it.outcome, it.took = p.Outcome, e.Time.Sub(it.at)
			}
			it.rev++
		}
	case parley.ModelStarted:
		if p.For != nil {
			t.note(e, p.For.Note(p.Model))
		}
	case parley.ModelReplied:
		t.replied(e, p)
	case parley.ModelFailed:
		t.modelFailed(e, p)
	case parley.ToolRequested, parley.ToolStarted, parley.ToolEnded, parley.FilesSaved, parley.ArtifactStored:
		t.tool(e, p)
	case parley.TurnSteered:
		t.add(&item{kind: kindMessage, at: e.Time, text: p.Message.Text(), label: "told while it ran", attached: filesOf(p.Message)})
	case parley.TurnStopRequested:
		t.stopping = true
	case parley.TurnInterrupted:
		t.status, t.reason, t.resumes = parley.StatusInterrupted, p.Reason, p.Resumes
		text := "interrupted" + because(p.Reason)
		if p.Resumes {
			text += "; it goes on by itself"
		}
		t.shut()
		t.note(e, text)
	case parley.TurnResumed:
		t.status, t.reason, t.resumes = parley.StatusRunning, "", false
		t.note(e, "resumed")
	case parley.MemoryUpdated:
		if p.Dropped > 0 {
			t.note(e, "earlier turns were summed up")
		}
	case parley.BudgetReached:
		t.note(e, "budget reached: "+p.Name)
	case parley.ContextObserved:
		t.note(e, p.Text)
	case parley.HookRan, parley.RuntimeNoted:
		t.note(e, parley.NoteOf(p))
	case parley.TurnCompleted:
		t.follow = p.Response.FollowUps
		t.finish(e, parley.StatusCompleted, p.Usage, &p.Response)
	case parley.TurnFailed:
		t.err = &p.Error
		t.finish(e, parley.StatusFailed, p.Usage, p.Response)
	case parley.TurnCancelled:
		t.reason = p.Reason
		t.finish(e, parley.StatusCancelled, p.Usage, p.Response)
	case parley.TurnExpired:
		t.reason = p.Reason
		t.finish(e, parley.StatusExpired, p.Usage, nil)
	}
}

// began opens a sub-agent. The call that began it shows what it does.
func (t *turn) began(e parley.Event, p parley.AgentStarted) {
	if p.Name == parley.MemoryAgent || e.Agent.OfSampling() {
		return
	}
	if e.Agent.Depth() == 0 {
		if t.entry == "" {
			t.entry = e.Agent
		}
		return
	}
	it := t.calls[p.Call]
	if it == nil || p.Background && it.status == parley.ToolIsEnded {
		it = &item{kind: kindAgent, agent: p.Parent, at: e.Time, name: p.Name, call: p.Call}
		t.add(it)
	}
	it.live, it.title = true, p.Title
	if it.title == "" {
		it.title = parley.Cut(p.Input, 120)
	}
	it.rev++
	t.agents[e.Agent] = it
}

// endNotes begins the part of an answer that is for programs.
const endNotes = "```parley\n"

func (t *turn) replied(e parley.Event, p parley.ModelReplied) {
	if e.Agent.OfMemory() || e.Agent.OfSampling() {
		return
	}
	if p.Model != "" && !slices.Contains(t.models, p.Model) {
		t.models = append(t.models, p.Model)
	}
	var thought strings.Builder
	for _, part := range p.Parts {
		if part.Type == parley.PartThinking {
			thought.WriteString(part.Text)
		}
	}
	text, _, _ := strings.Cut(parley.PartsText(p.Parts), endNotes)
	t.settle(e, p.Call, parley.DeltaThinking, thought.String())
	t.settle(e, p.Call, parley.DeltaText, text)
	if e.Agent.Depth() == 0 && strings.TrimSpace(text) != "" {
		t.said = text
	}
	if p.Warning != "" {
		t.note(e, p.Warning)
	}
	if t.status == parley.StatusStreaming {
		t.status = parley.StatusRunning
	}
}

// settle replaces what was shown of a call by what the log says.
func (t *turn) settle(e parley.Event, call parley.CallID, kind parley.DeltaKind, text string) {
	it := t.texts[textKey{call, kind}]
	if it == nil {
		if strings.TrimSpace(text) == "" {
			return
		}
		it = t.textOf(call, kind, e.Agent, e.Time)
	}
	if text != "" || kind == parley.DeltaText {
		it.text = text
		it.buf.Reset()
	}
	it.live = false
	if kind == parley.DeltaThinking && it.at.Before(e.Time) {
		it.took = e.Time.Sub(it.at)
	}
	it.rev++
}

func (t *turn) modelFailed(e parley.Event, p parley.ModelFailed) {
	t.settle(e, p.Call, parley.DeltaThinking, "")
	if it := t.texts[textKey{p.Call, parley.DeltaText}]; it != nil || p.Partial != "" {
		t.settle(e, p.Call, parley.DeltaText, p.Partial)
		if it = t.texts[textKey{p.Call, parley.DeltaText}]; it != nil {
			it.cut = true
		}
		if e.Agent.Depth() == 0 && p.Partial != "" { // a turn that is stopped ends with it as its answer
			t.said = p.Partial
		}
	}
	switch {
	case e.Agent.OfSampling():
		t.note(e, "the server got no reply: "+p.Error.Message)
	case p.Fallback != "":
		t.note(e, "the model failed: "+p.Error.Message+"; "+p.Fallback+" goes on")
	case p.Retry:
		t.note(e, "the model call failed and is tried again: "+p.Error.Message)
	}
}

// shut ends what is in flight.
func (t *turn) shut() {
	for _, it := range t.texts {
		if it.live {
			it.live = false
			it.rev++
		}
	}
	for _, it := range t.agents {
		it.live = false
		it.rev++
	}
}

func (t *turn) finish(e parley.Event, status parley.TurnStatus, u parley.Usage, r *parley.Response) {
	t.shut()
	if r != nil && strings.TrimSpace(r.Message) != "" && strings.TrimSpace(t.said) != strings.TrimSpace(r.Message) {
		t.add(&item{kind: kindText, at: e.Time, text: r.Message})
		t.said = r.Message
	}
	t.status, t.usage, t.ended, t.stopping, t.resumes = status, u, e.Time, false, false
	t.end = &item{kind: kindEnd, turn: t, at: e.Time}
	if r != nil && len(r.Citations) > 0 {
		t.end.text = citations(r.Citations)
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
