package program_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
)

// TestSession_why_names_commands: each command that session why suggests exists and works.
func TestSession_why_names_commands(t *testing.T) {
	t.Parallel()
	p, _ := atHome(t, "", mayTurn)
	s := p.serve()
	id := s.session("home")
	turn := s.waiting(s.send(id, which).ID)

	if code, out, errs := p.run("session", "cancel", string(turn.ID)); code != 0 || out != "The turn is cancelled.\n" {
		t.Errorf("cancel: %d\n%s%s", code, out, errs)
	}
	if code, out, _ := p.run("session", "cancel", string(turn.ID)); code != 0 || out != "The turn is cancelled.\n" {
		t.Errorf("cancel again: %d\n%s", code, out)
	}
	_, why, _ := p.run("session", "why", string(id))
	named := regexp.MustCompile(`parley (session retry \S+)`).FindStringSubmatch(why)
	if named == nil || strings.Contains(why, "/v1/") {
		t.Fatalf("why:\n%s", why)
	}
	code, out, errs := p.run(strings.Fields(named[1])...)
	if code != 4 || out != "" || !strings.Contains(errs, "the turn waits for an answer: "+whichOne) {
		t.Errorf("retry: %d\n%s%s", code, out, errs)
	}
	if code, _, errs := p.run("session", "resume", string(turn.ID)); code == 0 || !strings.Contains(errs, "cancelled") {
		t.Errorf("a turn that was not interrupted: %d\n%s", code, errs)
	}
	if info := must[parley.SessionInfo](s, "GET", "/v1/sessions/"+string(id), ""); info.Turn == nil || info.Turn.ID == turn.ID || info.Turn.Status != parley.StatusWaiting {
		t.Errorf("afterwards the turn is %+v", info.Turn)
	}
}

// TestSession_resume_follows_the_turn: the command that resumes an interrupted turn ends with
// the turn's answer, not with the earlier interruption in its log.
func TestSession_resume_follows_the_turn(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, "", "")
	s := p.serve()
	id := s.session("home")
	s.settle(s.send(id, flicker).ID) // the index is there, so that no search of it waits for the house
	house.SetFaults(sim.Faults{Delay: time.Hour})
	turn := s.send(id, flicker) // it reads the history, and that takes an hour now
	hangs := regexp.MustCompile(`"tool\.started".*"name":"ha_`)
	s.until("the house is asked", func() bool {
		log := strings.Join(s.log(id), "\n")
		return hangs.MatchString(log[strings.LastIndex(log, `"turn.started"`):])
	})
	s.kill()
	_, why, _ := p.run("session", "why", string(id))
	if strings.Contains(why, "is running") || !strings.Contains(why, "To go on: parley session resume "+string(turn.ID)) || !strings.Contains(why, "  was under way: ") {
		t.Errorf("why, without a server:\n%s", why)
	}
	// The list and the session say the same as long as no server has the folder.
	if _, out, _ := p.run("session", "list"); !strings.Contains(out, "  interrupted  ") || strings.Contains(out, "running") {
		t.Errorf("list, without a server:\n%s", out)
	}
	if _, out, _ := p.run("session", "list", "--json"); !strings.Contains(out, `"status": "interrupted"`) {
		t.Errorf("list --json, without a server:\n%s", out)
	}
	if _, out, _ := p.run("session", "show", string(id)); !strings.Contains(out, "\ninterrupted: the server stopped\n") {
		t.Errorf("show, without a server:\n%s", out)
	}
	house.SetFaults(sim.Faults{})
	s = p.serve()
	_, why, _ = p.run("session", "why", string(id))
	if !strings.Contains(why, "To go on: parley session resume "+string(turn.ID)) && !strings.Contains(why, "To go on from there: parley session resume "+string(turn.ID)) {
		t.Errorf("why:\n%s", why)
	}
	code, out, errs := p.run("session", "resume", string(turn.ID))
	if code != 0 || out != s.last(id)+"\n" {
		t.Errorf("resume: %d\n%s%s", code, out, errs)
	}
}

// TestSession_resume_without_a_server: the command also follows a turn that goes on by itself
// as soon as the command has opened the data folder.
func TestSession_resume_without_a_server(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	env := p.env
	p.env = append(env[:len(env):len(env)], "PARLEY_SCRIPTED_PACE=1s")
	s := p.serve()
	id := s.session("chaos")
	turn := s.send(id, "What is the final spec for the login?")
	s.until("an answer begins", func() bool { return strings.Contains(strings.Join(s.log(id), "\n"), `"model.started"`) })
	s.kill()
	p.env = append(env[:len(env):len(env)], "PARLEY_SCRIPTED_PACE=1ms")
	_, why, _ := p.run("session", "why", string(id))
	if !strings.Contains(why, "To go on: parley session resume "+string(turn.ID)) {
		t.Errorf("why:\n%s", why)
	}
	code, out, errs := p.run("session", "resume", string(turn.ID))
	if code != 0 || !strings.Contains(out, "Google OAuth") {
		t.Errorf("resume: %d\n%s%s", code, out, errs)
	}
	if code, _, errs := p.run("session", "resume", string(turn.ID)); code != 1 || !strings.Contains(errs, "completed, not interrupted") {
		t.Errorf("resume of a turn that is done: %d\n%s", code, errs)
	}
}

// TestSession_why_of_a_queue_that_is_held names a command that removes a turn from the queue.
func TestSession_why_of_a_queue_that_is_held(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}, 1), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	t.Cleanup(service.Close)
	t.Cleanup(func() { close(end) })
	p := newPlace(t)
	p.withDesk(service.URL, "0s")
	dir := filepath.Join(p.dir, "apps", "line")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "app.yaml"), "title: Line\nmodel: test/clerk\nagents:\n  clerk: {prompt: clerk.md}\nbusy: enqueue\n")
	p.env = append(p.env, "PARLEY_ENABLED=line")
	s := p.serve()
	id := s.session("line")
	first, queued := s.send(id, "hold"), s.send(id, "one")
	select {
	case <-began:
	case <-time.After(within):
		t.Fatal("the first message never ran")
	}
	_, why, _ := p.run("session", "why", string(id))
	if !strings.Contains(why, "1 turn waits behind it.") || strings.Contains(why, "held") {
		t.Errorf("why of a queue that goes on:\n%s", why)
	}
	for _, turn := range []parley.TurnInfo{first, queued} {
		_, why, _ := p.run("session", "why", string(id))
		named := regexp.MustCompile(`parley (session cancel ` + string(turn.ID) + `)\n`).FindStringSubmatch(why)
		if named == nil || strings.Contains(why, "/v1/") {
			t.Fatalf("why:\n%s", why)
		}
		if code, out, errs := p.run(strings.Fields(named[1])...); code != 0 || out != "The turn is cancelled.\n" {
			t.Errorf("%s: %d\n%s%s", named[1], code, out, errs)
		}
		info := must[parley.SessionInfo](s, "GET", "/v1/sessions/"+string(id), "")
		if held := turn.ID == first.ID; info.Held != held || (len(info.Queue) > 0) != held {
			t.Errorf("after %s the queue is %v, held: %t", named[1], info.Queue, info.Held)
		}
	}
}
