package loop

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/task"
)

// TestRequestsAreValid folds random turns in any order that a log may have, and further cases: appends
// that were cut in two, and calls without an outcome. Every request of the loop is valid. next neither
// panics nor runs a write that has started.
func TestRequestsAreValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &dice{T: t, g: testGiven(team)}
		d.add("", parley.SessionCreated{App: "test", User: "u"})
		for range rapid.IntRange(1, 3).Draw(t, "turns") {
			d.turn()
		}
	})
}

// dice makes random events that can come next.
type dice struct {
	*rapid.T
	g     given
	s     parley.Session
	ids   int
	turns int
}

func (d *dice) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(d.T, what) }

func (d *dice) id() parley.CallID {
	d.ids++
	return parley.CallID(fmt.Sprint("c", d.ids))
}

func (d *dice) add(agent parley.AgentPath, p parley.Payload) {
	e := parley.NewEvent(parley.TurnID(fmt.Sprint("t", d.turns)), agent, p)
	e.Session, e.Seq = "s", d.s.Seq+1
	if err := d.s.Apply(e.WithData(e.Data)); err != nil {
		d.Fatal(err)
	}
	d.check()
}

// check checks the next actions of the loop.
func (d *dice) check() {
	if d.s.Turn == nil {
		return
	}
	acts := next(d.g, &d.s)
	if t := d.s.Turn; acts == nil && len(t.Calls) == 0 && t.Status == parley.StatusRunning {
		d.Fatalf("nothing is ready or under way, and the turn does not wait: %+v", t.Agents)
	}
	for _, a := range acts {
		switch a := a.(type) {
		case callModel:
			if err := runtimetest.Validate(a.Request.Messages); err != nil {
				d.Fatalf("%v:\n%s", err, show(a.Request.Messages))
			}
		case runTool:
			if c := d.s.Turn.Tool(a.Call); c.Status != parley.ToolIsRequested && writes(c) {
				d.Fatalf("runs %s again, which is %s", a.Call, c.Status)
			}
		}
	}
	// A branch can be shown even in the middle of a step.
	for i := range d.s.Turn.Agents {
		var th thread
		d.g.branch(&th, &d.s, &d.s.Turn.Agents[i], d.g.app.Agents[d.s.Turn.Agents[i].Name])
		if err := runtimetest.Validate(th); err != nil {
			d.Fatalf("%v:\n%s", err, show(th))
		}
	}
}

var texts = []string{"", " ", "Looking.", "It is Google.", "Zeichen ü\n"}

func (d *dice) text() string { return rapid.SampledFrom(texts).Draw(d.T, "text") }

func (d *dice) turn() {
	d.turns++
	d.add("", parley.TurnStarted{TurnRequest: parley.TurnRequest{Origin: parley.OriginUser, Message: parley.Text(parley.RoleUser, d.text())}})
	d.add("front", parley.AgentStarted{Name: "front"})
	for range rapid.IntRange(0, 12).Draw(d.T, "events") {
		d.step()
	}
	r := &parley.Response{Message: d.text()}
	d.add("", rapid.SampledFrom([]parley.Payload{
		parley.TurnCompleted{Response: *r}, parley.TurnFailed{Response: r}, parley.TurnFailed{}, parley.TurnCancelled{Response: r}, parley.TurnExpired{},
	}).Draw(d.T, "ending"))
}

// step adds one event that can happen in a turn.
func (d *dice) step() {
	t := d.s.Turn
	switch d.pick("step", 14) {
	case 0, 1, 2:
		d.reply()
	case 3:
		agent, call := d.agent(), d.id()
		d.add(agent, parley.ModelStarted{Call: call})
		d.add(agent, parley.ModelFailed{Call: call, Retry: d.pick("retry", 2) == 0, Partial: d.text()})
	case 10:
		d.start()
	case 11:
		if a := d.agent(); a != t.Active {
			d.add(a, parley.AgentEnded{Outcome: parley.OutcomeOK, Result: d.text(), Told: d.pick("told", 2) == 0})
		}
	case 12:
		d.add(d.agent(), parley.TurnSteered{Message: parley.Text(parley.RoleUser, d.text())})
	case 13:
		d.question()
	case 4:
		if _, open := d.g.tools(&d.s, t.Agent(t.Active)); open {
			return // the loop hands a turn over when the agent's calls have ended
		}
		to := []parley.AgentPath{"front", "finder"}[d.pick("to", 2)]
		d.add(t.Active, parley.AgentHandoff{From: t.Active, To: to, Name: string(to), Why: d.text()})
	case 5:
		d.add("", parley.TurnSteered{Message: parley.Text(parley.RoleUser, d.text())})
	case 6:
		d.add("", parley.TurnInterrupted{Reason: "crash"})
		d.add("", parley.TurnResumed{Attempt: 1})
	default:
		d.tool()
	}
}

// team lets front have others work for it, and these each other.
func team(app *parley.App) {
	app.Agents["worker"] = parley.AgentDef{Name: "worker", Prompt: "You work.", Tools: []string{"look", "add", "worker"}, AsTool: true}
	front := app.Agents["front"]
	front.Tools = append(front.Tools, "Task", "AgentOutputTool")
	app.Agents["front"] = front
	app.Tools = append(app.Tools, task.Decls(*app)...)
}

// agent is an agent that may do something.
func (d *dice) agent() parley.AgentPath {
	var live []parley.AgentPath
	for i := range d.s.Turn.Agents {
		if a := &d.s.Turn.Agents[i]; d.s.Turn.Live(a) {
			live = append(live, a.Path)
		}
	}
	return live[d.pick("agent", len(live))]
}

// start starts a sub-agent that some agent has asked for.
func (d *dice) start() {
	for _, a := range next(d.g, &d.s) {
		if a, ok := a.(startTask); ok {
			job, err := task.Parse(d.g.app, a.Name, a.Input)
			if err != nil {
				d.Fatal(err)
			}
			d.add(a.Path, parley.AgentStarted{Name: job.Agent, Parent: a.Agent, Call: a.Call, Input: job.Prompt, Background: job.Background})
			return
		}
	}
}

// question asks a human something about an open call, or answers what is asked.
func (d *dice) question() {
	if ins := d.s.Interactions; len(ins) > 0 {
		d.add(ins[0].Agent, parley.InteractionAnswered{ID: ins[0].ID, Answer: parley.Answer{Choice: parley.ChoiceAllow}})
		return
	}
	for _, c := range d.s.Turn.Tools.Open() {
		if c.Status == parley.ToolIsRequested {
			id := parley.InteractionID(d.id())
			d.add(c.Agent, parley.InteractionOpened{Interaction: parley.Interaction{ID: id, Agent: c.Agent, Kind: parley.KindPermission, Call: c.Call}})
			return
		}
	}
}

func (d *dice) reply() {
	agent := d.agent()
	var parts []parley.Part
	for range d.pick("parts", 4) {
		p := parley.Part{Type: parley.PartText, Text: d.text()}
		switch d.pick("part", 6) {
		case 4:
			p = parley.Part{Type: parley.PartToolCall, Call: d.id(), Name: "worker", Input: []byte(`{"prompt":"work"}`)}
			if agent.Depth() == 0 {
				p.Name, p.Input = "Task", []byte(fmt.Sprintf(`{"description":"work","prompt":"work","subagent_type":"worker","run_in_background":%v}`, d.pick("background", 2) == 0))
			}
		case 0:
			p = parley.Part{Type: parley.PartToolCall, Call: d.id(), Name: []string{"look", "put", "add", "fly"}[d.pick("tool", 4)], Input: []byte(`{}`)}
		case 1:
			p = parley.Part{Type: parley.PartHandoff, Call: d.id(), Name: []string{"front", "finder", "judge"}[d.pick("agent", 3)]}
		case 2:
			p = parley.Part{Type: parley.PartThinking, Text: "hm"}
		}
		parts = append(parts, p)
	}
	call := d.id()
	d.add(agent, parley.ModelStarted{Call: call})
	d.add(agent, parley.ModelReplied{Call: call, Parts: parts})
	for _, p := range parts {
		// A log that was cut within an append lacks some requests.
		if p.Type == parley.PartToolCall && d.pick("requested", 8) > 0 {
			d.add(agent, parley.ToolRequested{Call: p.Call, Name: p.Name, Input: p.Input})
		}
	}
}

// tool advances a random call of the turn.
func (d *dice) tool() {
	t := d.s.Turn
	if t.Tools.Len() == 0 {
		return
	}
	pick := d.pick("call", t.Tools.Len())
	var c *parley.Tool
	for i, each := range t.Tools.All() {
		if i == pick {
			c = each
		}
	}
	outcomes := []parley.Outcome{parley.OutcomeOK, parley.OutcomeError, parley.OutcomeDenied, parley.OutcomeCancelled, parley.OutcomeUnknown}
	switch {
	case c.Status == parley.ToolIsRequested && d.pick("start", 3) > 0:
		d.add(c.Agent, parley.ToolStarted{Call: c.Call, Name: c.Name, Input: c.Input, Effect: d.g.effect(c), Attempt: 1})
	case c.Status != parley.ToolIsEnded:
		d.add(c.Agent, parley.ToolEnded{Name: c.Name, ToolResult: parley.ToolResult{
			Call: c.Call, Outcome: outcomes[d.pick("outcome", len(outcomes))], Output: d.text(),
		}})
	case c.Outcome == parley.OutcomeUnknown && c.AskedWhat == "":
		id := parley.InteractionID(d.id())
		d.add(c.Agent, parley.InteractionOpened{Interaction: parley.Interaction{ID: id, Kind: parley.KindUnknown, Call: c.Call}})
		choice := []string{parley.ChoiceHappened, parley.ChoiceDidNot, parley.ChoiceLeave, parley.ChoiceAgain}[d.pick("choice", 4)]
		d.add("", parley.InteractionAnswered{ID: id, Answer: parley.Answer{Choice: choice}})
		if choice == parley.ChoiceAgain {
			d.add(c.Agent, parley.ToolRequested{Call: d.id(), Name: c.Name, Input: c.Input, Redo: c.Call})
		}
	}
}
