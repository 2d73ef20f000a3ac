package program

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/model/modeltest"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

// TestServe_names_each_model_once: two apps with the same model have one.
func TestServe_names_each_model_once(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(sim.New(sim.Options{Models: []string{"small"}, Brain: modeltest.Brain(modeltest.Behaviour{})}))
	t.Cleanup(srv.Close)
	p := newProgram(t, "OPENAI_BASE_URL="+srv.URL+"/v1", "PARLEY_MODEL=openai/small")
	s := p.serve("demo")
	s.stop(t)
	if said := s.out.String(); !strings.Contains(said, "apps: chaos, home, leads, major, notes\n") || !strings.Contains(said, "models: openai/small\n") {
		t.Errorf("got\n%s", said)
	}
}

// TestDemo_says_where_the_CRM_is: what parley demo prints leads to the page of the simulated CRM, and a
// person who follows it can log in.
func TestDemo_says_where_the_CRM_is(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := newProgram(t).serve("demo", "--crm-addr", addr)
	page, err := http.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	login, err := http.Post("http://"+addr+"/api/login", "application/json", strings.NewReader(`{"email":"mara@fieldnote.example","password":"demo"}`))
	if err != nil {
		t.Fatal(err)
	}
	login.Body.Close()
	if page.StatusCode != http.StatusOK || login.StatusCode != http.StatusOK {
		t.Errorf("got %s and %s", page.Status, login.Status)
	}
	s.stop(t)
	if said := s.out.String(); !strings.Contains(said, "A page with the panel of the app leads: http://"+addr+" (log in as mara@fieldnote.example, password demo)\nOpen "+s.url+" in a browser.") {
		t.Errorf("got\n%s", said)
	}
}
