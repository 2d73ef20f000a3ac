package homeassistant_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/sim/homeassistant"
)

// within bounds every wait in a test: far more than it takes, even on a busy machine.
const within = 2 * time.Minute

// rest makes a request as Ana, unless the path begins with /core.
func rest(t *testing.T, srv *httptest.Server, method, path, body string) (int, string) {
	t.Helper()
	token := "tok"
	if strings.HasPrefix(path, "/core") {
		token = "sup"
	}
	return restAs(t, srv, token, method, path, body)
}

func restAs(t *testing.T, srv *httptest.Server, token, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := srv.Client().Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, strings.TrimSpace(string(raw))
}

func TestREST(t *testing.T) {
	t.Parallel()
	h, srv := house(t, homeassistant.Options{Token: "tok", LimitedToken: "guest", SupervisorToken: "sup", LogFile: true})
	night := h.Night()
	from := url.PathEscape(night.Add(22 * time.Hour).Format(time.RFC3339))
	end := "?end_time=" + url.QueryEscape(night.Add(25*time.Hour).Format("2006-01-02T15:04:05+00:00"))
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/api/", "", 200, `{"message":"API running."}`},
		{"GET", "/core/api/", "", 200, `{"message":"API running."}`},
		{"GET", "/api/config", "", 200, `"version":"2026.11.2"`},
		{"GET", "/api/core/state", "", 200, `"state":"RUNNING"`},
		{"GET", "/api/components", "", 200, `"zha"`},
		{"GET", "/api/events", "", 200, `"event":"state_changed"`},
		{"POST", "/api/events/my_event", `{"a":1}`, 200, `{"message":"Event my_event fired."}`},
		{"GET", "/api/services", "", 200, `{"domain":"climate","services":{"set_hvac_mode"`},
		{"GET", "/api/states", "", 200, `"entity_id":"weather.home"`},
		{"GET", "/api/states/light.bedroom_ceiling", "", 200, `"last_changed":"2026-11-21T07:`},
		{"GET", "/api/states/light.nope", "", 404, `{"message":"Entity not found."}`},
		{"POST", "/api/states/sensor.mine", `{"state":"7","attributes":{"unit_of_measurement":"m"}}`, 201, `"state":"7"`},
		{"POST", "/api/states/sensor.mine", `{"state":"8"}`, 200, `"state":"8"`},
		{"POST", "/api/states/sensor.mine", `{}`, 400, "No state attribute specified."},
		{"POST", "/api/states/mine", `{"state":"8"}`, 400, "Invalid entity ID specified."},
		{"DELETE", "/api/states/sensor.mine", "", 200, "Entity removed."},
		{"POST", "/api/services/light/turn_on", `{"entity_id":"light.garden"}`, 200, `"entity_id":"light.garden"`},
		{"POST", "/api/services/light/explode", `{}`, 400, "400: Bad Request"},
		{"POST", "/api/services/light/turn_on", `{"entity_id":"light.garden","nonsense":1}`, 400, "400: Bad Request"},
		{"POST", "/api/services/todo/get_items?return_response", `{"entity_id":"todo.shopping_list"}`, 200, `"summary":"Rye bread"`},
		{"POST", "/api/services/todo/get_items", `{"entity_id":"todo.shopping_list"}`, 400, "Service call requires responses"},
		{"POST", "/api/services/light/turn_on?return_response", `{"entity_id":"light.garden"}`, 400, "does not support responses"},
		{"GET", "/api/history/period/" + from + end + "&filter_entity_id=sensor.mains_voltage_l1&minimal_response", "", 200, `{"last_changed":"2026-11-20T23:17:05.000000+00:00","state":"196.3"}`},
		{"GET", "/api/history/period", "", 400, "filter_entity_id is missing"},
		{"GET", "/api/history/period/yesterday?filter_entity_id=a.b", "", 400, "Invalid datetime"},
		{"GET", "/api/history/period/2027-01-01T00:00:00Z?filter_entity_id=light.garden", "", 200, "[]"},
		{"GET", "/api/logbook/" + from + end + "&entity=light.bedroom_ceiling", "", 200, `"name":"Bedroom ceiling","state":"unavailable","when":"2026-11-20T22:34:10.700000+00:00"`},
		{"GET", "/api/error_log", "", 200, "fault U2"},
		{"POST", "/api/template", `{"template":"It is {{ states('lock.front_door') }}, {{ state_attr('climate.bedroom_radiator','temperature') }} {{ is_state('lock.front_door','locked') }}"}`, 200, "It is locked, 18 True"},
		{"POST", "/api/template", `{"template":"{{ nonsense }}"}`, 400, "Error rendering template"},
		{"POST", "/api/config/core/check_config", "", 200, `"result":"valid"`},
		{"GET", "/api/calendars", "", 200, "calendar.family"},
		{"GET", "/api/calendars/calendar.family?start=a&end=b", "", 200, "Heat pump service"},
	} {
		code, got := rest(t, srv, c.method, c.path, c.body)
		if code != c.code || !strings.Contains(got, c.says) {
			t.Errorf("%s %s: got %d %.300s, want %d %s", c.method, c.path, code, got, c.code, c.says)
		}
	}
	for _, c := range []struct{ token, path string }{{"wrong", "/api/"}, {"sup", "/api/"}, {"tok", "/core/api/"}, {"", "/api/"}, {"guest", "/api/error_log"}} {
		if code, got := restAs(t, srv, c.token, "GET", c.path, ""); code != 401 || got != "401: Unauthorized" {
			t.Errorf("%q on %s: got %d %s, want 401", c.token, c.path, code, got)
		}
	}
	_, without := house(t, homeassistant.Options{Token: "tok"})
	if code, _ := rest(t, without, "GET", "/api/error_log", ""); code != 404 {
		t.Errorf("a house without a log file: got %d, want 404", code)
	}
}

// TestTargets: floors and labels in a target are expanded, also if they are in a call's data.
// Groups pass a call on to their members.
func TestTargets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target  string
		on, off []string
	}{
		"a floor":                 {`{"floor_id":"upper"}`, []string{"light.bedroom_ceiling", "light.office_desk"}, []string{"light.kitchen_counter"}},
		"a label of an entity":    {`{"label_id":"warm"}`, []string{"light.garden"}, []string{"light.bedroom_ceiling"}},
		"a label of an area":      {`{"label_id":["sleep"]}`, []string{"light.bedroom_ceiling"}, []string{"light.garden"}},
		"a label that is unknown": {`{"label_id":"none"}`, nil, []string{"light.bedroom_ceiling", "light.garden"}},
		"a group":                 {`{"entity_id":"light.bedroom"}`, []string{"light.bedroom_ceiling", "light.bedroom_bedside_left"}, []string{"light.garden"}},
		"nothing":                 {`{"entity_id":"none"}`, nil, []string{"light.garden"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, srv := house(t, homeassistant.Options{Token: "tok"})
			h.Label("warm", "light.garden")
			h.Label("sleep", "bedroom")
			for _, id := range append(c.on, c.off...) {
				h.SetState(id, "off", nil)
			}
			if code, body := rest(t, srv, "POST", "/api/services/light/turn_on", c.target); code != 200 {
				t.Fatalf("%d %s", code, body)
			}
			for _, id := range c.on {
				if got := h.Reported(id); got != "on" {
					t.Errorf("%s is %s", id, got)
				}
			}
			for _, id := range c.off {
				if got := h.Reported(id); got != "off" {
					t.Errorf("%s is %s", id, got)
				}
			}
		})
	}
}

// TestSameSeed: the same seed, story and clock make the same house. A change of any of them makes
// another house.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	past := func(o homeassistant.Options) string {
		o.Token = "tok"
		_, srv := house(t, o)
		_, got := rest(t, srv, "GET", "/api/history/period/2026-11-20T00:00:00Z?filter_entity_id=sensor.mains_voltage_l1,light.bedroom_ceiling,person.ana&end_time=2026-11-21T08:00:00Z&no_attributes", "")
		return got
	}
	one := past(homeassistant.Options{Seed: 7})
	if d := cmp.Diff(one, past(homeassistant.Options{Seed: 7})); d != "" {
		t.Errorf("the same seed made another house:\n%.500s", d)
	}
	for _, o := range []homeassistant.Options{{Seed: 8}, {Seed: 7, Story: homeassistant.StoryQuiet}, {Seed: 7, Story: homeassistant.StoryZigbee}} {
		if past(o) == one {
			t.Errorf("%+v made the same house", o)
		}
	}
}

// TestAfternoon: the house's days follow the clock of its time zone. So it can be afternoon
// there at any hour of the real day, with the same habits.
func TestAfternoon(t *testing.T) {
	t.Parallel()
	for hour := range 24 {
		now := time.Date(2026, 11, 21, hour, 6, 0, 0, time.UTC)
		zone := homeassistant.Afternoon(now)
		z, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		h, _ := house(t, homeassistant.Options{Token: "tok", TimeZone: zone, Days: 2, Now: func() time.Time { return now }})
		if local := now.In(z); local.Hour() != 14 || h.Night().Day() != local.AddDate(0, 0, -1).Day() {
			t.Errorf("at %d it is %v there, and the story is of %v", hour, local, h.Night())
		}
		for id, want := range map[string]string{"light.bathroom_mirror": "off", "light.office_desk": "on", "switch.coffee_machine": "off", "person.ana": "not_home"} {
			if got := h.Reported(id); got != want {
				t.Errorf("at %d in %s: %s is %s, want %s", hour, zone, id, got, want)
			}
		}
	}
}

// TestUnlit: the bedroom is dark at whatever hour somebody begins to look, and stays dark, because
// the demo offers to turn its lights on. The evenings before are in its history.
func TestUnlit(t *testing.T) {
	t.Parallel()
	for _, hour := range []time.Duration{7, 12, 22, 23} {
		var at atomic.Pointer[time.Time]
		now := time.Date(2026, 11, 22, 0, 30, 0, 0, time.UTC).Add(hour * time.Hour)
		at.Store(&now)
		h, srv := house(t, homeassistant.Options{Token: "tok", Now: func() time.Time { return *at.Load() }})
		for range 2 {
			for _, id := range []string{"light.bedroom", "light.bedroom_ceiling", "light.bedroom_bedside_left", "light.bedroom_bedside_right"} {
				if _, text := rest(t, srv, "GET", "/api/states/"+id, ""); !strings.Contains(text, `"state":"off"`) {
					t.Errorf("at %s: %s", now, text)
				}
			}
			now := now.Add(30 * time.Minute)
			at.Store(&now)
			h.Advance()
		}
		if _, text := rest(t, srv, "GET", "/api/history/period/"+url.PathEscape(now.Add(-30*time.Hour).Format(time.RFC3339))+"?filter_entity_id=light.bedroom_bedside_right", ""); !strings.Contains(text, `"state":"on"`) {
			t.Errorf("the evening before %s is dark: %s", now, text)
		}
	}
}

// TestTimePasses: when the house is asked, its sensors report and its days go on. They do not
// go on by themselves.
func TestTimePasses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := morning
	h, srv := house(t, homeassistant.Options{Token: "tok", Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	if got := h.Reported("light.office_desk"); got != "off" {
		t.Fatalf("got %s at half past eight, want off", got)
	}
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	h.Advance()
	if got := h.Reported("light.office_desk"); got != "on" {
		t.Errorf("got %s at half past ten, want on", got)
	}
	_, raw := rest(t, srv, "GET", "/api/history/period/2026-11-21T08:30:00Z?filter_entity_id=sensor.mains_voltage_l1", "")
	if n := strings.Count(raw, `"state"`); n < 100 {
		t.Errorf("got %d values of two hours, want about 120", n)
	}
}

func TestBelievable(t *testing.T) {
	t.Parallel()
	_, srv := house(t, homeassistant.Options{Token: "tok"})
	var states []struct {
		ID         string         `json:"entity_id"`
		State      string         `json:"state"`
		Attributes map[string]any `json:"attributes"`
	}
	_, raw := rest(t, srv, "GET", "/api/states", "")
	if err := json.Unmarshal([]byte(raw), &states); err != nil {
		t.Fatal(err)
	}
	domains := map[string]int{}
	for _, s := range states {
		d, _, _ := strings.Cut(s.ID, ".")
		domains[d]++
		if s.State == "" || len(s.State) > 255 || s.Attributes["friendly_name"] == nil {
			t.Errorf("%s: got state %q, name %v", s.ID, s.State, s.Attributes["friendly_name"])
		}
	}
	if len(states) < 100 || len(domains) < 30 {
		t.Errorf("got %d entities of %d domains, want 100 of 30", len(states), len(domains))
	}
}

// TestZoneCountsPersons: the state of the zone of a house is how many persons are at home.
func TestZoneCountsPersons(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for hour := range 24 {
		now := midnight.Add(time.Duration(hour)*time.Hour + 59*time.Minute) // every change is over
		h, _ := house(t, homeassistant.Options{Token: "tok", Days: 2, Now: func() time.Time { return now }})
		home := 0
		for _, id := range []string{"person.ana", "person.bruno"} {
			if h.Reported(id) == "home" {
				home++
			}
		}
		if got := h.Reported("zone.home"); got != strconv.Itoa(home) {
			t.Errorf("at %d:59 the zone has %s, and %d persons are at home", hour, got, home)
		}
	}
}

func dial(t *testing.T, srv *httptest.Server, token string) (*websocket.Conn, string) {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/api/websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	say(t, ws, fmt.Sprintf(`{"type":"auth","access_token":%q}`, token))
	hear(t, ws)
	return ws, hear(t, ws)
}

func say(t *testing.T, ws *websocket.Conn, msg string) {
	t.Helper()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(msg)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, raw, err := ws.Read(ctx)
	if err != nil {
		return "! " + err.Error()
	}
	return string(raw)
}

func TestSocketRules(t *testing.T) {
	t.Parallel()
	h, srv := house(t, homeassistant.Options{Token: "tok", LimitedToken: "guest"})
	if _, got := dial(t, srv, "wrong"); got != `{"message":"Invalid access token or password","type":"auth_invalid"}` {
		t.Errorf("a wrong token: got %s", got)
	}
	ws, got := dial(t, srv, "tok")
	if got != `{"ha_version":"2026.11.2","type":"auth_ok"}` {
		t.Fatalf("got %s", got)
	}
	for _, c := range []struct{ say, hear string }{
		{`{"id":5,"type":"ping"}`, `{"id":5,"type":"pong"}`},
		{`{"id":5,"type":"ping"}`, `Identifier values have to increase.`},
		{`{"id":4,"type":"ping"}`, `"code":"id_reuse"`},
		{`{"id":6,"type":"nonsense"}`, `{"error":{"code":"unknown_command","message":"Unknown command."},"id":6,"success":false,"type":"result"}`},
		{`{"type":"ping"}`, `"code":"invalid_format"`},
		{`{"id":7,"type":"ping","x":1}`, `extra keys not allowed`},
		{`{"id":8,"type":"call_service","domain":"light"}`, `required key not provided`},
		{`{"id":9,"type":"history/history_during_period","start_time":"x","entity_ids":["a.b"]}`, `invalid_start_time`},
		{`{"id":10,"type":"unsubscribe_events","subscription":3}`, `Subscription not found.`},
		{`[{"id":11,"type":"ping"}]`, `{"id":11,"type":"pong"}`},
		{`{"id":12,"type":"call_service","domain":"light","service":"turn_on","target":{"entity_id":"light.garden"},"return_response":true}`, `service_validation_error`},
		{`{"id":13,"type":"subscribe_events","event_type":"state_changed"}`, `"result":null`},
	} {
		say(t, ws, c.say)
		if got := hear(t, ws); !strings.Contains(got, c.hear) {
			t.Errorf("%s: got %s, want %s", c.say, got, c.hear)
		}
	}
	// A change is announced before its call is answered.
	say(t, ws, `{"id":14,"type":"call_service","domain":"light","service":"turn_on","target":{"entity_id":"light.garden"}}`)
	first, second := hear(t, ws), hear(t, ws)
	if !strings.Contains(first, `"event_type":"state_changed"`) || !strings.Contains(second, `"id":14`) {
		t.Errorf("got %s then %s, want the event and then the result", first, second)
	}
	h.SetFaults(homeassistant.Faults{Malformed: 1})
	say(t, ws, `{"id":15,"type":"get_config"}`)
	if got := hear(t, ws); json.Valid([]byte(got)) {
		t.Errorf("got %s, want a message that is cut", got)
	}
	say(t, ws, `not json`)
	if got := hear(t, ws); !strings.HasPrefix(got, "!") {
		t.Errorf("got %s, want the end of the connection", got)
	}
	guest, _ := dial(t, srv, "guest")
	say(t, guest, `{"id":1,"type":"subscribe_events"}`)
	if got := hear(t, guest); !strings.Contains(got, `"unauthorized"`) {
		t.Errorf("a guest listens to everything: got %s", got)
	}
}

// TestSlowClient: a client that does not read is disconnected, and delays nobody.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	h, srv := house(t, homeassistant.Options{Token: "tok"})
	ws, _ := dial(t, srv, "tok")
	say(t, ws, `{"id":1,"type":"subscribe_events","event_type":"state_changed"}`)
	hear(t, ws)
	end := time.Now().Add(within)
	for i := 0; h.Sockets() > 0; i++ {
		h.SetState("sensor.flood", fmt.Sprint(i), m{"x": strings.Repeat("y", 2000)})
		if time.Now().After(end) {
			t.Fatalf("it was never cut off, in %d messages", i)
		}
	}
}

// TestNothingIsLeft: Close ends the sockets and all their goroutines.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	h := homeassistant.New(homeassistant.Options{Token: "tok"})
	srv := httptest.NewServer(h)
	defer srv.Close()
	for range 5 {
		ws, _ := dial(t, srv, "tok")
		say(t, ws, `{"id":1,"type":"subscribe_events"}`)
		hear(t, ws)
	}
	if got := h.Sockets(); got != 5 {
		t.Errorf("got %d sockets, want 5", got)
	}
	h.Close()
	if got := h.Sockets(); got != 0 {
		t.Errorf("got %d sockets after Close, want none", got)
	}
	// A goroutine signals its end just before it returns.
	end := time.Now().Add(within)
	stacks := make([]byte, 1<<20)
	for {
		now := stacks[:runtime.Stack(stacks, true)]
		if !strings.Contains(string(now), fmt.Sprintf("serveSocket(%p", h)) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("something is left:\n%s", now)
		}
		runtime.Gosched()
	}
	if code, _ := rest(t, srv, "GET", "/api/", ""); code != 0 {
		t.Errorf("got %d after Close, want a connection that is dropped", code)
	}
	h.Close()
}
