package crm

import "net/http"

var page http.Handler = http.NotFoundHandler()

func (s *Server) proxied(string) bool                            { return false }
func (s *Server) forward(w http.ResponseWriter, r *http.Request) {}

// Connect says where the Parley server is that the page's sidecar speaks to.
func (s *Server) Connect(url string) { s.mu.Lock(); s.parley = url; s.mu.Unlock() }
