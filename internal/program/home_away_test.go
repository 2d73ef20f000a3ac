package program_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
)

// TestHome_away asks while Home Assistant cannot be reached. The answer gives what was known
// before, with its age. It claims nothing about a past that could not be read and names no source
// for it. It shows no internal address, id or time.
func TestHome_away(t *testing.T) {
	t.Parallel()
	house := sim.New(sim.Options{Token: "a-long-lived-token", TimeZone: sim.Afternoon(time.Now())})
	srv := httptest.NewServer(house)
	t.Cleanup(func() { house.Close(); srv.Close() })
	at := func(url string) *process {
		return newPlace(t, "PARLEY_ENABLED=home", "PARLEY_SCRIPTED_PACE=0s", "HOME_ASSISTANT_URL="+url, "HOME_ASSISTANT_TOKEN=a-long-lived-token").serve()
	}
	s := at(srv.URL)
	s.answered(s.session("home"), "Is the bedroom ceiling light on?") // the states are known now
	house.Close()
	srv.Close()
	never := at("http://127.0.0.1:9")

	const (
		known  = "Home Assistant cannot be reached, so this is as it was "
		unread = "I cannot tell: what the house recorded could not be read. Home Assistant cannot be reached."
		blind  = "I cannot look at the house now: Home Assistant cannot be reached."
	)
	machine := regexp.MustCompile(`https?:|127\.0\.0\.1|\d{4}-\d\d-\d\dT|refused|\b(?:light|sensor|binary_sensor|switch|person)\.[a-z_]+`)
	for _, c := range []struct {
		server *process
		ask    string
		says   string
		cites  bool
	}{
		{s, "Why did the bedroom lights flicker last night?", unread, false},
		{s, "How much energy did we use yesterday?", unread, false},
		{s, "What happened yesterday evening in the kitchen?", unread, false},
		{s, "When was the front door opened last?", unread, false},
		{s, "Are there any errors?", unread, false},
		{s, "Is anyone home?", known, true},
		{s, "How warm is it in the bedroom?", known, true},
		{never, "Is the bedroom ceiling light on?", blind, false},
		{never, "Why did the bedroom lights flicker last night?", blind, false},
	} {
		var r parley.Response
		// It takes a moment until the server notices that the connection is lost.
		s.until("an answer with the age of the data to "+c.ask, func() bool {
			r = c.server.answered(c.server.session("home"), c.ask)
			return strings.Contains(r.Message, "cannot be reached")
		})
		if strings.Count(r.Message, c.says) != 1 || machine.MatchString(r.Message) || len(r.Citations) > 0 != c.cites {
			t.Errorf("%s\n%s\n%v", c.ask, r.Message, r.Citations)
		}
		if c.says == unread && (strings.Contains(r.Message, "Evidence") || strings.Contains(r.Message, "Not all")) {
			t.Errorf("%s\n%s", c.ask, r.Message)
		}
	}
}
