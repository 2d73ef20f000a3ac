package crm

import (
	"embed"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

//go:embed web
var files embed.FS

// policy is the page's: it loads nothing from elsewhere, and neither does the sidecar on it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// shown serves the page.
func (s *Server) shown(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == "/demo.json" {
		list := []any{}
		for _, u := range users {
			list = append(list, map[string]any{"name": u.Name, "email": u.Email, "title": u.Title, "orgs": u.Orgs})
		}
		s.mu.Lock()
		parley := s.parley != ""
		s.mu.Unlock()
		reply(w, http.StatusOK, map[string]any{"users": list, "parley": parley})
		return
	}
	sub, err := fs.Sub(files, "web")
	if err != nil {
		panic(err) // it is part of the program
	}
	http.FileServerFS(sub).ServeHTTP(w, r)
}

// Connect says where the Parley server is that the page's sidecar speaks to, such as
// http://127.0.0.1:8000. Empty: there is none. It panics if it is no address.
func (s *Server) Connect(address string) {
	var proxy http.Handler
	if address != "" {
		to, err := url.Parse(address)
		if err != nil || to.Host == "" {
			panic("crm: " + address + " is not the address of a Parley server")
		}
		proxy = &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.Out.Host = r.In.Host // so that the Origin of the page is that of the request
			},
			FlushInterval: -1, // streams
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
				refuse(w, http.StatusBadGateway, "Parley does not answer.")
			},
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parley, s.proxy = address, proxy
}

// proxied reports whether a path is Parley's: its chats, its sidecar, and the API by which the
// sidecar goes on.
func proxied(path string) bool {
	return path == "/ws/codex" || path == "/sidecar.js" || strings.HasPrefix(path, "/api/chat/") || strings.HasPrefix(path, "/v1/")
}

func (s *Server) forward(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	proxy := s.proxy
	s.mu.Unlock()
	if proxy == nil {
		refuse(w, http.StatusBadGateway, "There is no Parley here.")
		return
	}
	proxy.ServeHTTP(w, r)
}
