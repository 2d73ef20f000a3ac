package program_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
)

const (
	flicker = "Why did the bedroom lights flicker last night?"
	plan2   = "Create a mitigation plan and simulate impact."
	turnOn  = "Turn on the bedroom ceiling light."
	ceiling = "light.bedroom_ceiling"
)

// atHome returns a place whose app home is connected over loopback to a simulated house. The
// house counts the calls that changed it.
func atHome(t *testing.T, story sim.Story, settings string) (*place, *sim.House) {
	t.Helper()
	house := sim.New(sim.Options{Token: "a-long-lived-token", Story: story, TimeZone: sim.Afternoon(time.Now())})
	dark(house)
	srv := httptest.NewServer(house)
	t.Cleanup(func() { house.Close(); srv.Close() })
	p := newPlace(t, "PARLEY_ENABLED=home", "PARLEY_SCRIPTED_PACE=0s", "HOME_ASSISTANT_URL="+srv.URL, "HOME_ASSISTANT_TOKEN=a-long-lived-token")
	if settings != "" {
		p.write(p.dir+"/parley.yaml", settings)
	}
	return p, house
}

// dark turns off everything that a test may turn on, and turns on what it may turn off.
func dark(house *sim.House) {
	for _, id := range []string{ceiling, "light.bedroom_bedside_left", "light.bedroom_bedside_right", "light.bedroom", "light.bathroom_mirror", "light.garden", "light.kitchen_ceiling", "light.kitchen_counter", "fan.bathroom"} {
		house.SetState(id, "off", nil)
	}
	for _, id := range []string{"light.office_desk", "switch.office_desk_plug", "switch.coffee_machine", "switch.kitchen_fridge"} {
		house.SetState(id, "on", nil)
	}
}

const mayAct = "app: {home: {allow_actuation: true, allowlisted_services: [light.turn_on]}}\n"

// answered runs one turn to its end.
func (s *process) answered(id parley.SessionID, message string) parley.Response {
	s.t.Helper()
	end := s.settle(s.send(id, message).ID)
	if end.Status != parley.StatusCompleted || end.Response == nil {
		s.t.Fatalf("%q ended as %s: %+v", message, end.Status, end.Error)
	}
	return *end.Response
}

// TestHome_says_what_the_house_went_through plays the story of the flickering lights. The
// answer has the recorded values, and another night gives another answer.
func TestHome_says_what_the_house_went_through(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, sim.StoryVoltageDip, "")
	s := p.serve()
	id := s.session("home")
	first := s.answered(id, flicker)
	holds(t, first.Message, "Five times the mains voltage dipped, each time when the heat pump compressor had just started", "started once without a dip", "196.3 V", "at 23:17", "fault U2", "> **Evidence**")
	lacks(t, first.Message, "```parley", "LQI", "not live", "sensor.", house.Night().Format(time.DateOnly))
	cited := map[string]bool{}
	for _, c := range first.Citations {
		cited[c.Ref] = c.Quote != ""
	}
	if !cited["sensor.mains_voltage_l1"] || !cited["binary_sensor.heat_pump_compressor"] {
		t.Errorf("it cites %+v", first.Citations)
	}
	if len(first.FollowUps) == 0 || first.FollowUps[0] != plan2 {
		t.Errorf("it proposes %q", first.FollowUps)
	}
	holds(t, s.answered(id, plan2).Message, "A plan for the bedroom lights", "Simulated: if this had been in place, it would have taken away what came with 5 of the 5 moments", "nothing has been changed")

	for story, want := range map[sim.Story]string{
		sim.StoryZigbee: "The radio link was weak", sim.StoryAutomation: "The automation Bedroom night light did it", sim.StoryQuiet: "nothing unusual",
	} {
		house.SetStory(story)
		got := s.answered(s.session("home"), flicker).Message
		holds(t, got, want)
		lacks(t, got, "mains voltage dipped", "196.3 V")
	}
	if calls := house.Calls(); len(calls) != 0 {
		t.Errorf("questions changed the house: %v", calls)
	}
}

// TestHome_acts_only_as_allowed: a call that the policy refuses reaches no house. A tool that
// can never run is not offered, and the prompt says why. The log has the reason for every other
// refusal.
func TestHome_acts_only_as_allowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ settings, says string }{
		"off":        {"", "ctuation is off in this app"},
		"not listed": {"app: {home: {allow_actuation: true, allowlisted_services: [switch.turn_off]}}\n", "light.turn_on is not in the app's list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, house := atHome(t, "", c.settings)
			s := p.serve()
			id := s.session("home")
			holds(t, s.answered(id, turnOn).Message, "Nothing was changed", "I am not allowed to turn on the bedroom ceiling", c.says)
			log := s.log(id)
			got := strings.Join(log, "\n")
			if asked := strings.Contains(got, `"name":"ha_call_service"`); asked == (name == "off") {
				t.Errorf("ha_call_service was called: %v", asked)
			}
			if !strings.Contains(got, c.says) || name != "off" && !strings.Contains(got, `"denied"`) {
				t.Errorf("the log does not say why:\n%s", enginetest.Types(decode(t, log)))
			}
			if calls := house.Calls(); len(calls) != 0 {
				t.Errorf("the house was changed: %v", calls)
			}
		})
	}
}

// TestHome_permission_survives_a_kill: a permission can be answered after the server died, from
// another client. The call then runs once, and the new state is reported.
func TestHome_permission_survives_a_kill(t *testing.T) {
	t.Parallel()
	onStores(t, permissionSurvives)
}

func permissionSurvives(t *testing.T, store string) {
	p, house := atHome(t, "", mayAct)
	s := p.on(store).serve()
	id := s.session("home")
	turn := s.waiting(s.send(id, turnOn).ID)
	if calls := house.Calls(); len(calls) != 0 {
		t.Errorf("the house was changed before anybody allowed it: %v", calls)
	}
	s.kill()
	s = p.serve()
	path := "/v1/interactions/" + string(turn.Interactions[0])
	if got := s.ask("GET", path, ""); !strings.Contains(string(got.body), "light.turn_on") {
		t.Errorf("the question is %s", got)
	}
	if got := s.ask("POST", path+"/answer", object("choice", parley.ChoiceAllow), "Parley-Client", "another"); got.status != 200 {
		t.Fatalf("answer: %s", got)
	}
	if got := s.ask("POST", path+"/answer", object("choice", parley.ChoiceDeny)); got.status != 409 {
		t.Errorf("a second answer gets %s", got)
	}
	end := s.settle(turn.ID)
	if end.Status != parley.StatusCompleted {
		t.Fatalf("it ended as %s: %+v", end.Status, end.Error)
	}
	holds(t, end.Response.Message, "Done: the bedroom ceiling is on now")
	if diff := cmp.Diff(map[sim.Call]int{{Service: "light.turn_on", Entity: ceiling}: 1}, house.Calls()); diff != "" {
		t.Errorf("changes to the house (-want +got):\n%s", diff)
	}
}

// sees waits until the server knows a state of an entity. The house reports changes as events.
func (s *process) sees(entity, state string) {
	s.t.Helper()
	s.until(entity+" is "+state, func() bool {
		var list struct {
			Areas []struct {
				Entities []struct {
					Entity string `json:"entity_id"`
					State  string
				}
			}
		}
		got := s.ask("GET", "/apps/home/entities", "")
		if got.status != http.StatusOK { // the index is not filled yet
			return false
		}
		if err := json.Unmarshal(got.body, &list); err != nil {
			s.t.Fatal(err)
		}
		for _, a := range list.Areas {
			for _, e := range a.Entities {
				if e.Entity == entity {
					return e.State == state
				}
			}
		}
		return false
	})
}

// waiting follows a turn until it waits for a human.
func (s *process) waiting(id parley.TurnID) parley.TurnInfo {
	s.t.Helper()
	t := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(id)+"/await", `{"timeout_ms":20000}`)
	if t.Status != parley.StatusWaiting || len(t.Interactions) != 1 {
		s.t.Fatalf("the turn is %s with %v: %+v", t.Status, t.Interactions, t.Error)
	}
	return t
}

// TestHome_killed_anywhere: whenever the server dies, the resumed turn gives the same answer,
// its log is complete, and no service is called twice.
func TestHome_killed_anywhere(t *testing.T) {
	t.Parallel()
	onStores(t, homeKilledAnywhere)
}

func homeKilledAnywhere(t *testing.T, store string) {
	p, house := atHome(t, "", mayAct)
	random := rand.New(rand.NewPCG(1, 2))
	s := p.on(store).serve()
	begun := time.Now()
	s.answered(s.session("home"), flicker)
	long := int64(time.Since(begun))
	for round := range 4 {
		id := s.session("home")
		turn := s.send(id, flicker).ID
		<-time.After(time.Duration(random.Int64N(long)))
		s.kill()
		s = p.serve()
		end := s.settle(turn)
		if end.Status != parley.StatusCompleted {
			t.Fatalf("round %d ended as %s: %+v", round, end.Status, end.Error)
		}
		holds(t, end.Response.Message, "the mains voltage dipped", "196.3 V")

		turn = s.send(id, plan2).ID
		<-time.After(time.Duration(random.Int64N(long)))
		s.kill()
		s = p.serve()
		if end := s.settle(turn); end.Status != parley.StatusCompleted {
			t.Fatalf("round %d: the plan ended as %s: %+v", round, end.Status, end.Error)
		} else {
			holds(t, end.Response.Message, "A plan for", "nothing has been changed")
		}

		dark(house)
		s.sees(ceiling, "off")
		before := maps.Clone(house.Calls())
		act := s.send(id, turnOn).ID
		in := s.waiting(act).Interactions[0]
		if got := s.ask("POST", "/v1/interactions/"+string(in)+"/answer", object("choice", parley.ChoiceAllow)); got.status != 200 {
			t.Fatalf("answer: %s", got)
		}
		<-time.After(time.Duration(random.Int64N(int64(30 * time.Millisecond))))
		s.kill()
		s = p.serve()
		if end := s.settle(act); end.Status != parley.StatusCompleted {
			t.Fatalf("round %d: the call ended as %s: %+v", round, end.Status, end.Error)
		}
		on := sim.Call{Service: "light.turn_on", Entity: ceiling}
		log := decode(t, s.log(id))
		did := house.Calls()[on] - before[on]
		outcome := fmt.Sprint(enginetest.Outcomes(log))
		if did > 1 || did == 0 && !strings.Contains(outcome, "ha_call_service unknown") && !strings.Contains(outcome, "ha_call_service error") {
			t.Errorf("round %d: the service was called %d times: %s", round, did, outcome)
		}
		if err := enginetest.CheckLog(log); err != nil {
			t.Errorf("round %d: %v\n%s", round, err, enginetest.Types(log))
		}
	}
}

// TestHome_shows_its_entities as the page reads them: by area, their history, and changes while
// the page follows.
func TestHome_shows_its_entities(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, "", "")
	s := p.serve()
	s.answered(s.session("home"), "What is unavailable right now?") // now the house has been read
	list := must[struct {
		Connected bool
		Areas     []struct {
			ID, Name string
			Entities []struct {
				Entity    string `json:"entity_id"`
				Domain    string
				State     string
				Available bool
			}
		}
	}](s, "GET", "/apps/home/entities", "")
	found := false
	for _, a := range list.Areas {
		for _, e := range a.Entities {
			found = found || a.Name == "Bedroom" && e.Entity == ceiling && e.Domain == "light" && e.Available
		}
	}
	if !list.Connected || !found {
		t.Errorf("got %+v", list)
	}
	past := must[struct{ Points [][2]float64 }](s, "GET", "/apps/home/entities/sensor.mains_voltage_l1/history?hours=36", "")
	low := 1000.0
	for _, at := range past.Points {
		low = min(low, at[1])
	}
	if low != 196.3 {
		t.Errorf("of %d voltages the lowest is %v", len(past.Points), low)
	}
	for path, want := range map[string]int{
		"/apps/home/entities/light.nosuch/history": 404, "/apps/home/entities/" + ceiling + "/history?hours=x": 400,
		"/apps/home/entities/" + ceiling: 404, "/apps/chaos/entities": 404,
	} {
		if got := s.ask("GET", path, ""); got.status != want {
			t.Errorf("GET %s: %s, want %d", path, got, want)
		}
	}

	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/apps/home/entities/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() map[string]any {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var v map[string]any
				if err := json.Unmarshal([]byte(data), &v); err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
		t.Fatal("the stream ended")
		return nil
	}
	if first := next(); first["connected"] != true {
		t.Errorf("it begins with %v", first)
	}
	house.SetState(ceiling, "unavailable", nil)
	for v := next(); ; v = next() {
		if v["entity_id"] == ceiling {
			if v["state"] != "unavailable" || v["available"] != false {
				t.Errorf("got %v", v)
			}
			return
		}
	}
}

// TestHome_is_off_without_a_house: other apps are served, and every door of home reports which
// setting is missing.
func TestHome_is_off_without_a_house(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_ENABLED=chaos,home", "HOME_ASSISTANT_URL=", "SUPERVISOR_TOKEN=")
	s := p.serve()
	for _, path := range []string{"/apps/home/", "/apps/home/entities", "/apps/home/entities/stream", "/apps/home/mcp", "/mcp", "/events/01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		if got := s.ask("GET", path, ""); got.status != 404 || !strings.Contains(string(got.body), "HOME_ASSISTANT_URL") {
			t.Errorf("GET %s: %s", path, got)
		}
	}
	alone := newPlace(t, "PARLEY_ENABLED=home", "HOME_ASSISTANT_URL=", "SUPERVISOR_TOKEN=")
	if code, _, errs := alone.run("serve", "--addr", "127.0.0.1:0"); code != 2 || !strings.Contains(errs, "HOME_ASSISTANT_URL") {
		t.Errorf("with nothing to serve it ends with %d: %s", code, errs)
	}
}

func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("got\n%s\nwant it to hold %q", text, p)
		}
	}
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("got\n%s\nwant it not to hold %q", text, p)
		}
	}
}
