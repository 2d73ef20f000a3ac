package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

// stream says text while it arrives, a paragraph when the next one begins.
func (p *plain) stream(d parley.Delta) {
	t := p.conv.turn(d.Turn)
	if t == nil || d.Kind != parley.DeltaText || d.Agent.Depth() > 0 {
		return
	}
	if it := t.texts[textKey{d.Call, parley.DeltaText}]; it != nil {
		p.text(it, false)
	}
}

// text says what is new of a text; last says that no more comes.
func (p *plain) text(it *item, last bool) {
	if p.saying != it {
		p.endText()
		p.saying, p.said, p.answer = it, 0, nil
	}
	text, _, _ := strings.Cut(it.text, endNotes)
	if p.answer == nil && strings.TrimSpace(text) != "" {
		if p.prompt && p.person {
			fmt.Fprintln(p.o.Out)
			p.prompt = false
		}
		fmt.Fprintln(p.o.Out, "Agent:")
		p.answer = p.t.Answer()
	}
	if p.answer != nil && len(text) > p.said {
		_ = p.answer.Add(text[p.said:])
		p.said = len(text)
	}
	if last {
		p.endText()
	}
}

func (p *plain) endText() {
	if p.answer != nil {
		_ = p.answer.End()
	}
	p.saying, p.answer, p.said = nil, nil, 0
}

// event says what an event means to the person.
func (p *plain) event(e parley.Event, queued int) {
	pay, err := e.Payload()
	if err != nil {
		return
	}
	t := p.conv.turn(e.Turn)
	who := ""
	if e.Agent.Depth() > 0 {
		who = oneLine(string(e.Agent)) + ": "
	}
	switch v := pay.(type) {
	case parley.SessionUpdated:
		if v.Mode != nil {
			p.say("Mode: %s.", modeName(p.conv.mode))
		}
		if v.Model != nil {
			p.say("Model: %s.", oneLine(*v.Model))
		}
		if v.Runtime != nil {
			p.say("Runtime: %s.", runtimeName(runtimeOf(p.app(), *v.Runtime)))
		}
	case parley.SessionRewound:
		p.say("The conversation was taken back.")
	case parley.TurnQueued:
		p.say("Queued: %s", oneLine(v.Message.Text()))
	case parley.TurnStarted:
		if !p.person || queued > len(p.conv.queue) || v.Origin != parley.OriginUser || v.Client != "" && v.Client != "api" {
			p.say("Message: %s", oneLine(v.Message.Text()))
		}
		p.sayFiles(filesOf(v.Message))
	case parley.TurnSteered:
		p.say("Told to the agent: %s", oneLine(v.Message.Text()))
		p.sayFiles(filesOf(v.Message))
	case parley.AgentStarted:
		if e.Agent.Depth() > 0 && v.Name != parley.MemoryAgent {
			p.say("%sbegins: %s", who, oneLine(v.Title))
		}
	case parley.AgentEnded:
		if v.Outcome != parley.OutcomeOK {
			p.say("%sended: %s", who, v.Outcome)
		}
	case parley.AgentHandoff:
		p.say("%s hands over to %s", v.From, v.To)
	case parley.ModelReplied:
		if t == nil {
			return
		}
		if it := t.texts[textKey{v.Call, parley.DeltaText}]; it != nil && e.Agent.Depth() == 0 && !e.Agent.OfMemory() {
			p.text(it, true)
		}
		if v.Warning != "" {
			p.say("Warning: %s", oneLine(v.Warning))
		}
	case parley.ModelFailed:
		p.endText()
		p.say("%sThe model call failed: %s", who, oneLine(v.Error.Message))
	case parley.ToolStarted:
		p.endText()
		if v.Attempt > 1 || t == nil {
			return
		}
		if v.Effect == parley.EffectRead {
			return // said when it has ended: most take no time
		}
		p.say("%sCalls %s", who, p.call(t, v.Call))
	case parley.ToolEnded:
		p.endText()
		if t != nil {
			p.tool(who, t.calls[v.Call])
		}
	case parley.InteractionOpened:
		p.endText()
		p.nextQuestion()
	case parley.InteractionAnswered:
		by := ""
		if v.By != "" && v.By != parley.Local.User {
			by = " by " + oneLine(v.By)
		}
		if p.asking != nil && p.asking.in.ID == v.ID {
			in := p.asking.in
			if !p.asking.sent {
				p.say("Answered elsewhere%s: %s", by, tui.Said(in, v.Answer))
			}
			p.closeAsking()
		}
		p.nextQuestion()
	case parley.InteractionExpired:
		if p.asking != nil && p.asking.in.ID == v.ID {
			p.say("The question is closed.")
			p.closeAsking()
		}
		p.nextQuestion()
	case parley.FilesSaved:
		for _, f := range v.Files {
			p.say("%s", drawing{look: newLook(true, false, 0)}.changed(f, 1000))
		}
	case parley.TurnInterrupted:
		p.endText()
		if v.Resumes {
			p.say("The turn was interrupted%s. It goes on by itself.", because(oneLine(v.Reason)))
		} else {
			p.say("The turn was interrupted%s. /resume goes on with it, /retry asks again.", because(oneLine(v.Reason)))
		}
	case parley.TurnResumed:
		p.say("The turn goes on.")
	case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired:
		p.endText()
		p.closeAsking()
		if t != nil {
			p.end(t)
		}
	case parley.HookRan, parley.RuntimeNoted:
		if text := parley.NoteOf(v); text != "" {
			p.say("%s%s", who, oneLine(text))
		}
	case parley.BudgetReached:
		p.say("Budget reached: %s", oneLine(v.Name))
	case parley.ContextObserved:
		p.say("%s", oneLine(v.Text))
	}
}

func (p *plain) call(t *turn, id parley.CallID) string {
	it := t.calls[id]
	if it == nil {
		return ""
	}
	return oneLine(it.name) + " " + parley.Cut(oneLine(it.about()), 120)
}

// tool says what a call was about and what came of it.
func (p *plain) tool(who string, it *item) {
	if it == nil {
		return
	}
	line := who + "Called " + oneLine(it.name)
	if about := parley.Cut(oneLine(it.about()), 120); about != "" {
		line += " " + about
	}
	if it.outcome != parley.OutcomeOK {
		line += ": " + string(it.outcome)
		if it.output != "" {
			line += ": " + parley.Cut(oneLine(it.output), 200)
		}
	} else if r := oneLine(it.result()); r != "" {
		line += ": " + strings.ReplaceAll(r, "−", "-")
	}
	if it.took >= time.Second {
		line += ", " + took(it.took)
	}
	p.say("%s.", strings.TrimRight(line, "."))
	for _, a := range it.images {
		p.say("Image: %s, %s, %s", oneLine(a.Name), oneLine(a.MediaType), size(a.Size))
	}
}

// end says how a turn ended.
func (p *plain) end(t *turn) {
	if n := len(t.items); n > 0 {
		if it := t.items[n-1]; it.kind == kindText && it.call == "" && it.rev == 0 { // an answer that no model call said
			p.text(it, true)
		}
	}
	switch t.status {
	case parley.StatusFailed:
		if t.err != nil {
			text := oneLine(t.err.Message)
			if t.err.Hint != "" {
				text += "; " + oneLine(t.err.Hint)
			}
			p.say("The turn failed: %s", text)
		}
	case parley.StatusCancelled:
		p.say("Stopped%s.", because(oneLine(t.reason)))
	case parley.StatusExpired:
		p.say("The turn expired%s.", because(oneLine(t.reason)))
	case parley.StatusCompleted:
		if t.end != nil && t.end.text != "" {
			p.say("Sources: %s", oneLine(t.end.text))
		}
		for _, f := range t.follow {
			p.say("You may ask: %s", oneLine(f))
		}
	}
}

func (p *plain) sayFiles(files []parley.Part) {
	for _, f := range files {
		p.say("Attached: %s", partText(f))
	}
}

// recall says how the session stands when it is opened: its last turn, and what waits.
func (p *plain) recall() {
	t := p.conv.last()
	if t == nil {
		return
	}
	p.say("Last message: %s", oneLine(t.message))
	p.sayFiles(t.files)
	for _, it := range t.items {
		switch {
		case it.kind == kindTool && it.status == parley.ToolIsEnded:
			p.tool("", it)
		case it.kind == kindText && it.agent.Depth() == 0 && !it.live:
			p.text(it, true)
		}
	}
	if t.status.Ended() {
		p.end(t)
	} else if t.status == parley.StatusInterrupted {
		p.say("That turn was interrupted%s. /resume goes on with it, /retry asks again.", because(oneLine(t.reason)))
	} else {
		p.say("That turn still runs.")
	}
	for _, q := range p.conv.queue {
		p.say("Queued: %s", oneLine(q.message))
	}
	p.nextQuestion()
}
