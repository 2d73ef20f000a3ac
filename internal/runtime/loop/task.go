package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/task"
)

const (
	// maxNesting is how deep sub-agents may start others, whatever the budget: deeper
	// ones repeat what is above them.
	maxNesting = 4
	// maxAgents limits the sub-agents of a turn. Each that works keeps its branch in
	// memory.
	maxAgents = 64
	// maxResult limits what a sub-agent returns, in bytes.
	maxResult = 32 << 10
)

// task says what is to be done for a call that starts a sub-agent or asks for its result.
// nothing: the sub-agent works.
func (g given) task(t *parley.Turn, c *parley.Tool, call parley.ToolCall) []action {
	say := func(o parley.Outcome, text string) []action {
		return []action{report{ToolCall: call, Result: parley.ToolResult{Call: c.Call, Outcome: o, Output: text}}}
	}
	sub := t.Sub(c.Call)
	if sub == nil && (c.Status == parley.ToolIsRequested || c.Cut && c.Name != task.OutputTool) {
		return []action{beginTask{call}}
	}
	if c.Name == task.OutputTool {
		return g.output(t, c, call, say)
	}
	if sub != nil {
		switch {
		case sub.Background:
			return say(parley.OutcomeOK, inBackground(sub.Path))
		case sub.Ended:
			return say(sub.Outcome, sub.Result)
		}
		return nil
	}
	job, err := task.Parse(g.app, c.Name, c.Input)
	if err != nil {
		return say(parley.OutcomeError, err.Error())
	}
	path := c.Agent + "/" + parley.AgentPath(job.Agent)
	deep, subs, same := maxNesting, 0, 1
	if most := t.Request.Budgets.MaxDepth; most > 0 {
		deep = min(deep, most)
	}
	for i := range t.Agents {
		a := &t.Agents[i]
		if a.IsSub() {
			subs++
		}
		if o := t.Tool(a.Call); (a.Path == path || strings.HasPrefix(string(a.Path), string(path)+"#")) && (o == nil || o.Seq < c.Seq) {
			same++
		}
	}
	for _, o := range t.Tools.Open() { // earlier calls that are being checked also have their names reserved
		if o.Seq < c.Seq && g.begins(t, o, c.Agent) {
			if other, err := task.Parse(g.app, o.Name, o.Input); err == nil && other.Agent == job.Agent {
				same++
			}
		}
	}
	switch {
	case c.Agent.Depth() >= deep:
		return say(parley.OutcomeError, fmt.Sprintf("agents may not start others more than %d deep; do it yourself", deep))
	case subs >= maxAgents:
		return say(parley.OutcomeError, fmt.Sprintf("the turn has started %d agents, which is its limit; do it yourself", subs))
	}
	at := path
	for ; same > 1 || t.Agent(at) != nil; same++ {
		if at = path + parley.AgentPath(fmt.Sprintf("#%d", max(same, 2))); t.Agent(at) == nil {
			break
		}
	}
	return []action{startTask{ToolCall: call, Path: at, Job: job}}
}

// output answers a question for the result of a task.
func (g given) output(t *parley.Turn, c *parley.Tool, call parley.ToolCall, say func(parley.Outcome, string) []action) []action {
	want, err := task.ParseOutput(c.Input)
	if err != nil {
		return say(parley.OutcomeError, err.Error())
	}
	sub := t.Agent(want.Agent)
	switch {
	case sub == nil && g.starting(t, c):
		return nil
	case sub == nil || sub.Parent != c.Agent || !sub.Background || !sub.IsSub():
		return say(parley.OutcomeError, fmt.Sprintf("you have no task %q in the background", parley.Cut(string(want.Agent), 120)))
	case sub.Ended:
		return say(parley.OutcomeOK, "status: "+state(sub)+"\n\n"+sub.Result)
	case blocked(t, sub):
		return say(parley.OutcomeOK, waitsForPerson)
	}
	return []action{awaitTask{ToolCall: call, Until: c.StartedAt.Add(want.Wait)}}
}

// starting reports whether the agent of call c has asked for a sub-agent in an earlier call
// that is still being checked.
func (g given) starting(t *parley.Turn, c *parley.Tool) bool {
	for _, o := range t.Tools.Open() {
		if o.Seq < c.Seq && g.begins(t, o, c.Agent) {
			return true
		}
	}
	return false
}

// begins reports whether an open call will start a sub-agent of the given agent but has not
// done so yet.
func (g given) begins(t *parley.Turn, c *parley.Tool, of parley.AgentPath) bool {
	d := g.decl(c.Name)
	return c.Agent == of && c.Status != parley.ToolIsEnded && c.Name != task.OutputTool && d != nil && d.Run == parley.RunRuntime && t.Sub(c.Call) == nil
}

// Results of a call that asks for a task's result before it is finished. A model may ask again
// and get the same text; repeats does not count that as going round in circles.
const (
	stillWorks     = "status: running"
	waitsForPerson = "status: waiting for a person's answer. Go on with something else, or end your reply: the result is told to you when it is there."
)

// blocked reports whether neither the agent nor any below it can go on before a human
// answers.
func blocked(t *parley.Turn, a *parley.Agent) bool {
	if !t.Idle(a) {
		return false
	}
	for i := range t.Agents {
		if b := &t.Agents[i]; b.Parent == a.Path && t.Live(b) && !blocked(t, b) {
			return false
		}
	}
	return true
}

func state(a *parley.Agent) string {
	if a.Outcome == parley.OutcomeOK {
		return "completed"
	}
	return "failed"
}

func inBackground(path parley.AgentPath) string {
	return "The agent works in the background. Its result is told to you when it is there.\nagentId: " + string(path)
}

// taskEnded is what an agent reads when a sub-agent of its own has ended in the
// background.
func taskEnded(t *parley.Turn, it parley.Item) string {
	text, a := "[the task "+string(it.From), t.Agent(it.From)
	if a == nil {
		return text + " has ended]"
	}
	if a.Title != "" {
		text += " (" + a.Title + ")"
	}
	return joinLines(text+" has ended: "+state(a)+"]", a.Result)
}

// endOf is the end of a sub-agent with a result.
func endOf(t *parley.Turn, a *parley.Agent, o parley.Outcome, result string) endAgent {
	if len(result) > maxResult {
		result = strings.ToValidUTF8(result[:maxResult], "") + "\n[cut off]"
	}
	end := endAgent{Path: a.Path, AgentEnded: parley.AgentEnded{Outcome: o, Result: result}}
	for _, c := range t.Tools.Open() {
		if c.Name != task.OutputTool || c.Agent != a.Parent || c.Status != parley.ToolIsStarted {
			continue
		}
		want, err := task.ParseOutput(c.Input)
		end.Told = end.Told || err == nil && want.Agent == a.Path
	}
	return end
}

// withSources is a sub-agent's answer with what it cites.
func withSources(r parley.Response) string {
	text := r.Message
	for i, c := range r.Citations {
		if i == 0 {
			text += "\n\nSources:"
		}
		text += "\n- " + c.Source + " " + c.Ref
	}
	return text
}

// startTask starts the sub-agent for a call that has begun. A person or a hook may have changed
// which agent it is.
func (f *flight) startTask(ctx context.Context, s *parley.Session, a startTask) error {
	if err := f.host.Stage(parley.NewEvent(s.Turn.ID, a.Path, parley.AgentStarted{
		Name: a.Job.Agent, Parent: a.Agent, Call: a.Call, Input: a.Job.Prompt, Title: a.Job.Title, Background: a.Job.Background,
	})); err != nil || !a.Job.Background {
		return err
	}
	return f.host.End(ctx, parley.ToolResult{Call: a.Call, Outcome: parley.OutcomeOK, Output: inBackground(a.Path)})
}

// report journals what a call came to that started a sub-agent or asked for its result.
func (f *flight) report(ctx context.Context, a report) error { return f.host.End(ctx, a.Result) }

// endAgent ends a sub-agent. What its caller's call returns follows from that.
func (f *flight) endAgent(s *parley.Session, a endAgent) error {
	return f.host.Stage(parley.NewEvent(s.Turn.ID, a.Path, a.AgentEnded))
}

// parked is err, unless a human is being asked, which the state tells as well.
func parked(err error) error {
	if errors.Is(err, seam.ErrParked) {
		return nil
	}
	return err
}
