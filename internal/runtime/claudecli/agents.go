package claudecli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// startAgent records that a call of Task starts an agent.
func (t *turn) startAgent(u *use, c parley.ToolCall) {
	now := t.h.State().Turn
	if now == nil || now.Sub(u.call) != nil {
		return
	}
	var in struct {
		Description string `json:"description"`
		Prompt      string `json:"prompt"`
		Agent       string `json:"subagent_type"`
		Background  *bool  `json:"run_in_background"`
	}
	_ = json.Unmarshal(c.Input, &in) // the CLI has checked it
	name := in.Agent
	if def, ok := t.app.Agents[name]; !ok || !def.AsTool {
		name = helper
	}
	path := u.agent + "/" + parley.AgentPath(name)
	for n := 2; now.Agent(path) != nil; n++ {
		path = u.agent + "/" + parley.AgentPath(fmt.Sprintf("%s#%d", name, n))
	}
	t.note(path, parley.AgentStarted{
		Name: name, Parent: u.agent, Call: u.call, Input: parley.Cut(in.Prompt, 64<<10), Title: parley.Cut(in.Description, 200),
		Background: in.Background == nil || *in.Background,
	})
}

// endAgent records the end of an agent that worked while its call waited.
func (t *turn) endAgent(now *parley.Turn, u *use, r parley.ToolResult) {
	sub := now.Sub(u.call)
	if sub == nil || sub.Ended {
		return
	}
	t.p.mu.Lock()
	background := false
	for _, j := range t.p.tasks {
		background = background || !j.over && j.useID == u.id
	}
	t.p.mu.Unlock()
	t.mu.Lock()
	u.returned = true
	background = background && !u.agentDone
	t.mu.Unlock()
	if !background || r.Outcome != parley.OutcomeOK {
		t.note(sub.Path, parley.AgentEnded{Result: parley.Cut(r.Output, 32<<10), Outcome: r.Outcome, Told: true})
	}
}

// handle gets a line of the CLI that asks nothing. It must not block.
func (p *process) handle(m message) {
	p.mu.Lock()
	t := p.turn
	if m.Type == "system" {
		switch m.Subtype {
		case "task_started":
			p.tasks[m.TaskID] = &job{id: m.TaskID, kind: m.TaskType, useID: m.ToolUseID, agent: m.AgentType, about: m.Description}
		case "task_notification":
			if j := p.tasks[m.TaskID]; j != nil {
				j.over = true
			}
		case "background_tasks_changed":
			live := map[string]bool{}
			for _, task := range m.Tasks {
				live[task.ID] = true
			}
			for id, j := range p.tasks {
				j.over = j.over || !live[id] && j.kind != "local_agent"
			}
		}
		if len(p.tasks) > 1000 {
			for id, j := range p.tasks {
				if j.over {
					delete(p.tasks, id)
				}
			}
		}
	}
	p.mu.Unlock()
	if t != nil && (m.Type == "user" || m.Type == "system" || m.Type == "result") {
		t.take(m)
	}
}

// system handles a system line.
func (t *turn) system(m message) {
	switch m.Subtype {
	case "task_started":
		if m.TaskType != "local_agent" {
			return
		}
		now := t.h.State().Turn
		if u := t.calls.get(m.ToolUseID); u != nil && now != nil {
			if sub := now.Sub(u.call); sub != nil {
				t.calls.begins(m.TaskID, sub.Path)
			}
		}
	case "task_notification":
		now := t.h.State().Turn
		path := t.calls.agent(m.TaskID)
		if now == nil || path == "" {
			return
		}
		sub := now.Agent(path)
		if sub == nil {
			return
		}
		returned := false
		if u := t.calls.get(m.ToolUseID); u != nil {
			t.mu.Lock()
			u.agentDone, returned = true, u.returned
			t.mu.Unlock()
		}
		if !sub.Ended && (sub.Background || returned) {
			outcome := parley.OutcomeOK
			if m.Status != "completed" {
				outcome = parley.OutcomeError
			}
			t.note(path, parley.AgentEnded{Result: parley.Cut(t.inside(m.Summary), 32<<10), Outcome: outcome})
		}
	case "compact_boundary":
		s := t.h.State()
		if s.Turn == nil {
			return
		}
		t.note(t.entry, parley.RuntimeNoted{
			Kind: "compacted", Text: fmt.Sprintf("The Claude CLI has summarized its conversation (%s): %d tokens before, %d after.", m.Compact.Trigger, m.Compact.Pre, m.Compact.Post),
		})
		t.note(t.entry, parley.ContextCompacted{TokensBefore: m.Compact.Pre, TokensAfter: m.Compact.Post})
	case "api_retry", "informational":
		if text := strings.TrimSpace(m.Content); text != "" {
			t.note(t.entry, parley.RuntimeNoted{Kind: m.Subtype, Text: parley.Cut(t.inside(text), 500)})
		}
	}
}

// beginOwn begins a turn for what the CLI does by itself, once.
func (p *process) beginOwn(ctx context.Context) error {
	p.mu.Lock()
	if p.begun || p.turn != nil || p.held {
		p.mu.Unlock()
		return nil
	}
	p.begun = true
	var about []string
	key := ""
	for _, j := range p.tasks {
		if j.over {
			about = append(about, firstNonEmpty(j.about, j.id))
			key = max(key, j.id)
		}
	}
	p.mu.Unlock()
	message := "Background work has ended."
	if len(about) > 0 {
		message = "Background work has ended: " + parley.Cut(strings.Join(about, "; "), 500)
	}
	begin := p.rt.starts()
	if begin == nil {
		return errClosed
	}
	_, err := begin(ctx, p.spec.session, seam.OwnTurn{Message: message, Key: fmt.Sprintf("%s.%s.%d", p.spec.cli, key, time.Now().UnixNano())})
	if err != nil {
		p.mu.Lock()
		p.begun = false
		p.mu.Unlock()
	}
	return err
}
