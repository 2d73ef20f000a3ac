package program_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestWeb_of_an_app: an app that lists the web reads a page of a host that it allows, and says
// what to set when it cannot search.
func TestWeb_of_an_app(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<p>The tide turns at noon.</p>")) }))
	defer site.Close()
	p := newPlace(t)
	dir := filepath.Join(p.dir, "apps", "reader")
	p.write(filepath.Join(dir, "lead.md"), "You read.")
	p.write(filepath.Join(dir, "script.yaml"), `agents:
  lead:
    - when: .Results
      say: "{{ (index .Results 0).Output }}"
    - when: has .Question "search"
      call: [{tool: WebSearch, input: {query: the tides}}]
    - call: [{tool: WebFetch, input: {url: "{{.Question}}"}}]
`)
	p.write(filepath.Join(dir, "app.yaml"), `script: script.yaml
agents: {lead: {prompt: lead.md, tools: [WebFetch, WebSearch]}}
tools: {web: {allow: ["`+strings.TrimPrefix(site.URL, "http://")+`"]}}
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=reader")
	if code, out, errs := p.run("app", "check"); code != 0 || !strings.Contains(out, "reader: 1 agent, 2 tools") {
		t.Fatalf("app check: exit %d\n%s%s", code, out, errs)
	}
	s := p.serve()
	id := s.session("reader")
	for message, want := range map[string]string{
		site.URL:                   "The tide turns at noon.",
		"http://127.0.0.1:8001/":   "127.0.0.1 is not a public address",
		"search for the tides":     "set BRAVE_API_KEY, TAVILY_API_KEY or SEARXNG_URL",
		"file:///etc/passwd":       "only http and https can be fetched",
		"http://[::1]:8001/secret": "::1 is not a public address",
	} {
		if turn := s.settle(s.send(id, message).ID); turn.Status != parley.StatusCompleted || !strings.Contains(turn.Response.Message, want) {
			t.Errorf("%s: %+v", message, turn.Response)
		}
	}
}
