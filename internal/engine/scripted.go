package engine

import "github.com/parley-server/parley"

// scripted reports whether only models that follow a script wrote the answer of the session's
// turn: those of its own agents' replies, and of the calls that are cut off now. What sub-agents
// write is no answer, and neither is the result of a direct call.
func (e *Engine) scripted(s *parley.Session, cut []parley.ModelCall) bool {
	var models []string
	for _, a := range s.Turn.Agents {
		if a.Path.Depth() == 0 && a.Replied() {
			models = append(models, s.Answered[a.Name])
		}
	}
	for _, c := range cut {
		if c.Agent.Depth() == 0 && !c.Agent.OfMemory() {
			models = append(models, c.Model)
		}
	}
	for _, name := range models {
		if m, err := e.Model(name); err != nil || !m.Scripted {
			return false
		}
	}
	return len(models) > 0
}
