package program

import (
	"fmt"

	"github.com/parley-server/parley"
)

// subAgents returns a line for each sub-agent of a turn: who started it and for what, how it
// ended, and what its own model calls used.
func subAgents(turn parley.TurnID, events []parley.Event) []string {
	type work struct {
		parley.AgentStarted
		state string
		ended bool
		calls int
		usage parley.Usage
	}
	var order []parley.AgentPath
	at := map[parley.AgentPath]*work{}
	for _, e := range events {
		p, err := e.Payload()
		if err != nil || e.Turn != turn || e.Agent.OfMemory() {
			continue
		}
		w := at[e.Agent]
		if p, ok := p.(parley.AgentStarted); ok && p.Parent != "" {
			order = append(order, e.Agent)
			at[e.Agent] = &work{AgentStarted: p, state: "at work"}
		}
		if w == nil {
			continue
		}
		switch p := p.(type) {
		case parley.ModelStarted:
			w.calls++
		case parley.ModelReplied:
			w.usage = w.usage.Add(p.Usage)
		case parley.ModelFailed:
			w.usage = w.usage.Add(p.Usage)
		case parley.InteractionOpened:
			w.state = "waits for a person"
			if p.Kind == parley.KindClient {
				w.state = "waits for a client program"
			}
		case parley.InteractionAnswered, parley.InteractionExpired:
			w.state = "at work"
		case parley.AgentEnded:
			for _, path := range order { // its sub-agents end with it
				if below := at[path]; path != e.Agent && path.Within(e.Agent) && !below.ended {
					below.state, below.ended = string(parley.OutcomeCancelled), true
				}
			}
			w.state, w.ended = string(p.Outcome), true
		}
	}
	var lines []string
	for _, path := range order {
		w := at[path]
		line := "agent " + began(path, w.Title)
		if w.Background {
			line += ", in the background"
		}
		line += fmt.Sprintf(": %s, %s, %d tokens", w.state, count(w.calls, "model call", "model calls"), w.usage.Tokens())
		if w.usage.USD > 0 {
			line += fmt.Sprintf(", %.4f US dollars", w.usage.USD)
		}
		lines = append(lines, line)
	}
	return lines
}
