package edge

// Phases counts the connections by their phase.
func (s *Server) Phases() map[string]int {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	out := map[string]int{}
	for c := range s.conns.open {
		switch {
		case c.known:
			out["known"]++
		case c.phase == idle:
			out["idle"]++
		case c.phase == fresh:
			out["fresh"]++
		default:
			out["asking"]++
		}
	}
	return out
}
