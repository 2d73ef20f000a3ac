package engine

import "github.com/parley-server/parley"

// scripted reports whether all models that wrote the turn's answer follow a script. The answer
// consists of the replies of the turn's own agents and of the model calls that are being cut
// off now. What sub-agents write is not part of the answer, and neither is the result of a
// direct call.
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
