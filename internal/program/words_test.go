package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// TestHome_asks_in_the_names_of_the_house: the text that a person approves uses the house's
// name for a thing, with its ids beside the name, on every wire.
func TestHome_asks_in_the_names_of_the_house(t *testing.T) {
	t.Parallel()
	const title, detail = "Set Bedroom radiator to 21 °C?", "climate.set_temperature on climate.bedroom_radiator"
	p, _ := atHome(t, "", "app: {home: {allow_actuation: true, allowlisted_services: [climate.*]}}\n")
	s := p.serve()
	id := s.session("home")
	turn := s.waiting(s.send(id, "Set the bedroom radiator to 21.").ID)

	in := s.interaction(turn.Interactions[0])
	if in.Title != title || in.Detail != detail || in.Tool != "ha_call_service" || len(in.Reaches) != 1 || in.Reaches[0] != "climate.bedroom_radiator" {
		t.Errorf("over the native API it asks %+v", in)
	}

	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events/"+string(id), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	frame := "waiting for a permission: " + title + " (" + detail + "; interaction "
	for lines := bufio.NewScanner(resp.Body); ; {
		if !lines.Scan() {
			t.Fatalf("/events never says %q: %v", frame, lines.Err())
		}
		if strings.Contains(lines.Text(), frame) {
			break
		}
	}

	await := func() *mcp.CallToolParams { // the client stores its capabilities in the parameters
		return &mcp.CallToolParams{Name: "ha_agent.await_continuation", Arguments: map[string]any{"continuation_id": turn.ID, "timeout_ms": 100}}
	}
	forms := make(chan string, 1)
	person := s.person(func(message string) map[string]any {
		select {
		case forms <- message:
		default:
		}
		return nil
	})
	if _, err := person.CallTool(ctx, await()); err != nil {
		t.Fatal(err)
	}
	if form := <-forms; !strings.HasPrefix(form, title+"\n"+detail+"\n\n") {
		t.Errorf("over MCP the form asks %q", form)
	}
	bare, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: s.url + "/apps/home/mcp", MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	res, err := bare.CallTool(ctx, await())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		WaitingFor []struct{ Title, Detail string } `json:"waiting_for"`
	}
	if err := json.Unmarshal(raw, &told); err != nil || len(told.WaitingFor) != 1 || told.WaitingFor[0].Title != title || told.WaitingFor[0].Detail != detail {
		t.Errorf("over MCP a host without forms is told %s (%v)", raw, err)
	}

	if _, out, _ := p.run("session", "questions"); !strings.Contains(out, title) {
		t.Errorf("session questions:\n%s", out)
	}
	at := p.sit(false, "session", "answer", string(in.ID))
	at.sees("? " + title + "\n  " + detail + "\n")
	at.sees(allowMenu)
	at.types("3\n")
	at.sees("for no reason): ")
	at.types("\n")
	at.ends(0)
	if in := must[parley.Interaction](s, "GET", "/v1/interactions/"+string(in.ID), ""); in.Title != title {
		t.Errorf("afterwards it is %q", in.Title)
	}
}
