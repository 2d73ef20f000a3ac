package program_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
)

const (
	which    = "Turn on the bedroom light."
	whichOne = "Which one shall I turn on?"
	mayTurn  = "app: {home: {allow_actuation: true, allowlisted_services: [light.*, switch.*]}}\n"
)

// interaction reads an open interaction.
func (s *process) interaction(id parley.InteractionID) parley.Interaction {
	s.t.Helper()
	got := must[struct {
		parley.Interaction
		Open bool
	}](s, "GET", "/v1/interactions/"+string(id), "")
	if !got.Open {
		s.t.Errorf("the %s %q is closed", got.Kind, got.Title)
	}
	return got.Interaction
}

func (s *process) answer(id parley.InteractionID, a parley.Answer) answer {
	s.t.Helper()
	body, err := json.Marshal(a)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.ask("POST", "/v1/interactions/"+string(id)+"/answer", string(body))
}

func labels(in parley.Interaction) []string {
	var out []string
	for _, q := range in.Questions {
		for _, o := range q.Options {
			out = append(out, o.Label)
		}
	}
	return out
}

// person is an MCP client whose user fills forms with fill, or dismisses them.
func (s *process) person(fill func(message string) (content map[string]any)) *mcp.ClientSession {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	s.t.Cleanup(cancel)
	c, err := mcp.NewClient(&mcp.Implementation{Name: "another", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if content := fill(r.Params.Message); content != nil {
				return &mcp.ElicitResult{Action: "accept", Content: content}, nil
			}
			return &mcp.ElicitResult{Action: "cancel"}, nil
		},
	}).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url + "/apps/home/mcp", MaxRetries: -1}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestHome_question_survives_a_kill: the agent's question, and then the permission for the
// chosen action, survive a kill of the server. Other clients than the sender of the message
// answer them: one over MCP, one over the native API. If two clients answer at once, one wins,
// and the other is told.
func TestHome_question_survives_a_kill(t *testing.T) {
	t.Parallel()
	onStores(t, questionSurvives)
}

func questionSurvives(t *testing.T, store string) {
	p, house := atHome(t, "", mayTurn)
	s := p.on(store).serve()
	id := s.session("home")
	turn := s.waiting(s.send(id, which).ID)
	s.kill()

	s = p.serve()
	asked := s.interaction(turn.Interactions[0])
	if diff := cmp.Diff([]string{"Bedroom lights", "Bedside left", "Bedside right", "Bedroom ceiling"}, labels(asked)); diff != "" || asked.Kind != parley.KindQuestion || asked.Title != whichOne {
		t.Errorf("it asks %q (-want +got):\n%s", asked.Title, diff)
	}
	// The form goes over MCP to the client that waits for the answer there. The permission goes
	// to the same client, which dismisses it.
	filled := make(chan struct{})
	once := sync.OnceFunc(func() { close(filled) })
	over := s.person(func(message string) map[string]any {
		if message == whichOne {
			return map[string]any{"q1": []any{"Bedside left", "Bedside right"}}
		}
		once()
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_, _ = over.CallTool(ctx, &mcp.CallToolParams{Name: "ha_agent.await_continuation", Arguments: map[string]any{"continuation_id": turn.ID, "timeout_ms": 60_000}})
	}()
	select {
	case <-filled:
	case <-ctx.Done():
		t.Fatal("over MCP no permission was asked for")
	}
	s.kill()
	<-waited

	s = p.serve()
	turn = s.waiting(turn.ID)
	permission := s.interaction(turn.Interactions[0])
	if permission.Kind != parley.KindPermission || permission.Tool != "ha_call_service" {
		t.Errorf("it asks for %+v", permission)
	}
	if calls := house.Calls(); len(calls) != 0 {
		t.Errorf("the house was changed before anybody allowed it: %v", calls)
	}
	won := s.race(permission.ID)
	end := s.settle(turn.ID)
	if end.Status != parley.StatusCompleted {
		t.Fatalf("it ended as %s: %+v", end.Status, end.Error)
	}
	done := map[sim.Call]int{}
	if won == parley.ChoiceAllow {
		done[sim.Call{Service: "light.turn_on", Entity: "light.bedroom_bedside_left"}] = 1
		done[sim.Call{Service: "light.turn_on", Entity: "light.bedroom_bedside_right"}] = 1
		holds(t, end.Response.Message, "Done: the bedside left is on now", "Done: the bedside right is on now")
	} else {
		holds(t, end.Response.Message, "Nothing was changed", "You did not allow me")
	}
	if diff := cmp.Diff(done, house.Calls()); diff != "" {
		t.Errorf("after %s, changes to the house (-want +got):\n%s", won, diff)
	}
	log := decode(t, s.log(id))
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("%v\n%s", err, enginetest.Types(log))
	}
	if diff := cmp.Diff([]string{"mcp", "api"}, answeredFrom(t, log)); diff != "" {
		t.Errorf("where the answers came from (-want +got):\n%s", diff)
	}
}

// race answers from two clients at once and returns the answer that counts.
func (s *process) race(id parley.InteractionID) (won string) {
	s.t.Helper()
	choices := []string{parley.ChoiceAllow, parley.ChoiceDeny}
	got, errs := make([]answer, len(choices)), make([]error, len(choices))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, choice := range choices {
		all.Go(func() {
			<-start
			got[i], errs[i] = s.try(s.t.Context(), "POST", "/v1/interactions/"+string(id)+"/answer", object("choice", choice))
		})
	}
	close(start)
	all.Wait()
	winner := slices.IndexFunc(got, func(a answer) bool { return a.status == 200 })
	if winner < 0 || errs[0] != nil || errs[1] != nil {
		s.t.Fatalf("nobody wins: %v, %v", got, errs)
	}
	won = choices[winner]
	loser := got[1-winner]
	var said struct{ Error parley.ErrorInfo }
	if err := json.Unmarshal(loser.body, &said); err != nil {
		s.t.Error(err)
	}
	want := parley.ErrorInfo{Code: parley.CodeConflict, Message: "interaction " + string(id) + " was answered by local with " + won, Hint: "the first answer counts"}
	if diff := cmp.Diff(want, said.Error); diff != "" || loser.status != 409 {
		s.t.Errorf("the other gets %d (-want +got):\n%s", loser.status, diff)
	}
	return won
}

func answeredFrom(t *testing.T, log []parley.Event) []string {
	t.Helper()
	var by []string
	for _, e := range log {
		pay, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := pay.(parley.InteractionAnswered); ok {
			by = append(by, a.Client)
		}
	}
	return by
}

// TestHome_question_has_its_time: an answer after the deadline is refused, also if the server
// was down at the deadline. The question is closed and nothing is done.
func TestHome_question_has_its_time(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, "", mayTurn)
	own := filepath.Join(p.dir, "apps", "home")
	if err := os.CopyFS(own, os.DirFS("../../apps/home")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(own, "app.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(own, "app.yaml"), strings.Replace(string(raw), "\npolicy:\n", "\npolicy:\n  answer_within: 1s\n", 1))
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(own))
	s := p.serve()
	id := s.session("home")
	turn := s.send(id, which).ID
	s.ask("POST", "/v1/turns/"+string(turn)+"/await", `{"timeout_ms":20000}`)
	var open parley.Interaction
	for _, e := range decode(t, s.log(id)) {
		if e.Type == "interaction.opened" {
			if err := json.Unmarshal(e.Data, &open); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.kill()
	<-time.After(time.Until(open.ExpiresAt))

	s = p.serve()
	late := s.answer(open.ID, parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{whichOne: "Bedroom ceiling"}})
	var said struct{ Error parley.ErrorInfo }
	if err := json.Unmarshal(late.body, &said); err != nil || late.status != 409 || said.Error.Code != parley.CodeConflict || !strings.Contains(said.Error.Message, "expired") || said.Error.Hint == "" {
		t.Errorf("a late answer gets %s", late)
	}
	end := s.settle(turn)
	if end.Status != parley.StatusCompleted || len(end.Interactions) != 0 {
		t.Fatalf("it is %s, and waits for %v: %+v", end.Status, end.Interactions, end.Error)
	}
	holds(t, end.Response.Message, "Nothing was changed")
	if list := string(s.ask("GET", "/v1/interactions", "").body); strings.Contains(list, string(open.ID)) {
		t.Errorf("it still waits in the inbox: %s", list)
	}
	log := s.log(id)
	if got := strings.Join(log, "\n"); !strings.Contains(got, "interaction.expired") || strings.Contains(got, "interaction.answered") || len(house.Calls()) != 0 {
		t.Errorf("the house has %v, and the log\n%s", house.Calls(), enginetest.Types(decode(t, log)))
	}
}

// TestHome_changes_what_is_meant: a request that fits one thing is carried out. If it fits
// several, the user is asked, and exactly the chosen one is changed.
func TestHome_changes_what_is_meant(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, "", mayTurn)
	s := p.serve()
	answered := func(text string) *parley.Answer {
		return &parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"": text}}
	}
	calls := func(service string, entities ...string) map[sim.Call]int {
		m := map[sim.Call]int{}
		for _, e := range entities {
			m[sim.Call{Service: service, Entity: e}]++
		}
		return m
	}
	for _, c := range []struct {
		wish   string
		offers []string // empty: nothing is asked
		answer *parley.Answer
		calls  map[sim.Call]int // each call is for one entity
		asked  int              // permissions
		says   []string
	}{
		{wish: "Turn on the bathroom mirror", calls: calls("light.turn_on", "light.bathroom_mirror"), asked: 1, says: []string{"Done: the bathroom mirror is on now, at 100 % (it was off)."}},
		{wish: "Switch on the bathroom mirror", says: []string{"Nothing to do: the bathroom mirror is already on."}},
		{wish: "Turn the light in the garden on", calls: calls("light.turn_on", "light.garden"), asked: 1, says: []string{"are on"}},
		{wish: "Turn on the bedroom lights.", calls: calls("light.turn_on", "light.bedroom", "light.bedroom_ceiling", "light.bedroom_bedside_left", "light.bedroom_bedside_right"), asked: 1},
		{wish: "Switch off the coffee machine, please", calls: calls("switch.turn_off", "switch.coffee_machine"), asked: 1, says: []string{"is off now"}},
		{wish: "Turn off light.bedroom", calls: calls("light.turn_off", "light.bedroom", "light.bedroom_ceiling", "light.bedroom_bedside_left", "light.bedroom_bedside_right"), asked: 1},
		{wish: "Turn on light.bedroom_ceiling.", calls: calls("light.turn_on", "light.bedroom_ceiling"), asked: 1, says: []string{"is on"}},
		{wish: "Turn switch.coffee_machine on, please", calls: calls("switch.turn_on", "switch.coffee_machine"), asked: 1},
		{wish: "Turn off the bedroom light.", calls: calls("light.turn_off", "light.bedroom_ceiling"), asked: 1, says: []string{"the bedroom ceiling is off now"}},
		{wish: "Turn on the bathroom fan.", says: []string{"Nothing was changed", "I am not allowed to turn on the bathroom fan from here"}},
		{
			wish: "Turn off the kitchen switch", offers: []string{"Coffee machine", "Fridge"}, answer: answered("Fridge"),
			calls: calls("switch.turn_off", "switch.kitchen_fridge"), asked: 1,
		},
		{
			wish: "Switch on the kitchen light", offers: []string{"Kitchen ceiling", "Kitchen counter"}, answer: answered("Kitchen ceiling, Kitchen counter"),
			calls: calls("light.turn_on", "light.kitchen_ceiling", "light.kitchen_counter"), asked: 1,
		},
		{
			wish: "Turn off the office desk", offers: []string{"Office desk", "Office desk lamp"}, answer: answered("Office desk lamp, Office desk"),
			calls: map[sim.Call]int{{Service: "light.turn_off", Entity: "light.office_desk"}: 1, {Service: "switch.turn_off", Entity: "switch.office_desk_plug"}: 1}, asked: 2,
		},
		{
			wish: which, offers: []string{"Bedroom lights", "Bedside left", "Bedside right", "Bedroom ceiling"}, answer: answered("Bedside left, but only tonight"),
			says: []string{"Nothing was changed", "> but only tonight"},
		},
		{
			wish: "Turn on the bedroom light", offers: []string{"Bedroom lights", "Bedside left", "Bedside right", "Bedroom ceiling"}, answer: answered("whatever burns"),
			says: []string{"Nothing was changed", "> whatever burns"},
		},
		{
			wish: which, offers: []string{"Bedroom lights", "Bedside left", "Bedside right", "Bedroom ceiling"}, answer: &parley.Answer{Choice: parley.ChoiceDeny, Text: "Leave it."},
			says: []string{"Nothing was changed", "> Leave it."},
		},
	} {
		t.Run(c.wish, func(t *testing.T) {
			before := house.Calls()
			turn := s.send(s.session("home"), c.wish).ID
			if len(c.offers) > 0 {
				in := s.interaction(s.waiting(turn).Interactions[0])
				if diff := cmp.Diff(c.offers, labels(in)); diff != "" || !in.Questions[0].MultiSelect {
					t.Errorf("it asks %q (-want +got):\n%s", in.Title, diff)
				}
				a := *c.answer
				if text, ok := a.Answers[""]; ok {
					a.Answers = map[string]string{in.Questions[0].Question: text}
				}
				if got := s.answer(in.ID, a); got.status != 200 {
					t.Fatalf("answer: %s", got)
				}
			}
			for range c.asked {
				in := s.interaction(s.waiting(turn).Interactions[0])
				if got := s.answer(in.ID, parley.Answer{Choice: parley.ChoiceAllow}); in.Tool != "ha_call_service" || got.status != 200 {
					t.Fatalf("%+v: %s", in, got)
				}
			}
			end := s.settle(turn)
			if end.Status != parley.StatusCompleted {
				t.Fatalf("it ended as %s: %+v", end.Status, end.Error)
			}
			holds(t, end.Response.Message, c.says...)
			done := map[sim.Call]int{}
			for call, n := range house.Calls() {
				if n -= before[call]; n > 0 {
					done[call] = n
				}
			}
			if c.calls == nil {
				c.calls = map[sim.Call]int{}
			}
			if diff := cmp.Diff(c.calls, done); diff != "" {
				t.Errorf("changes to the house (-want +got):\n%s\n%s", diff, end.Response.Message)
			}
		})
	}
}
