package api_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

type windowBody struct {
	Session      parley.SessionInfo
	After        int64
	Turns        int
	More         bool
	Mode         parley.PermissionMode
	MaxOpenTurns int `json:"max_open_turns"`
	Pins         []parley.Pin
	Rules        []parley.Rule
}

func talkative() enginetest.Model {
	return func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("yes")
		return seam.Reply{StopReason: "end_turn"}, nil
	}
}

// turnsFrom folds the events after a cursor, as a page without earlier events does.
func (w *world) turnsFrom(path string, after, to int64) []parley.TurnView {
	w.t.Helper()
	v := parley.Transcript{Seq: after}
	for more := true; more; {
		var page struct {
			Events []parley.Event
			Next   int64
			More   bool
		}
		w.call(200, &page, "GET", fmt.Sprintf("%s/events?after=%d", path, after), "")
		for _, e := range page.Events {
			if e.Seq <= to {
				v.Apply(e)
			}
		}
		after, more = page.Next, page.More
	}
	return v.Turns
}

func TestWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, talkative(), enginetest.App())
	s := w.session(`{"app":"test","mode":"acceptEdits"}`)
	path := "/v1/sessions/" + string(s.ID)
	var empty windowBody
	w.call(200, &empty, "GET", path+"/window", "")
	if empty.After != 0 || empty.More || empty.Turns != 0 || empty.Mode != parley.ModeAcceptEdits || empty.Session.ID != s.ID {
		t.Errorf("of a new session: got %+v", empty)
	}
	for i := range 8 {
		var turn parley.TurnInfo
		w.call(202, &turn, "POST", path+"/turns", fmt.Sprintf(`{"message":"%d"}`, i))
		w.call(200, nil, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	}
	w.call(200, nil, "PATCH", path, `{"pins":[{"label":"p","text":"north"}]}`)

	var got []string
	before, to := parley.TurnID(""), int64(1<<60)
	for more := true; more; {
		var win windowBody
		w.call(200, &win, "GET", fmt.Sprintf("%s/window?turns=3&before=%s", path, before), "")
		if len(win.Pins) != 1 || win.MaxOpenTurns != 1 {
			t.Errorf("how it is set: got %+v", win)
		}
		turns := w.turnsFrom(path, win.After, to)
		if len(turns) != win.Turns || len(turns) > 3 {
			t.Fatalf("got %d turns, said %d", len(turns), win.Turns)
		}
		var list []string
		for _, v := range turns {
			if v.Status != parley.StatusCompleted || v.Answer != "yes" {
				t.Errorf("turn %s is not whole: %+v", v.Message, v)
			}
			list = append(list, v.Message)
		}
		got = append(list, got...)
		before, to, more = turns[0].ID, win.After, win.More
	}
	if want := "[0 1 2 3 4 5 6 7]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestWindow_queued: the event of a queued turn lies among the events of the running turn, so the
// running turn is in the window too.
func TestWindow_queued(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, gated(gate), enginetest.App())
	s := w.session(`{"app":"test","busy":"enqueue","max_open_turns":5}`)
	path := "/v1/sessions/" + string(s.ID)
	var last parley.TurnInfo
	for _, m := range []string{"a", "b", "c"} {
		w.call(202, &last, "POST", path+"/turns", `{"message":"`+m+`"}`)
	}
	var win windowBody
	w.call(200, &win, "GET", path+"/window?turns=1", "")
	if turns := w.turnsFrom(path, win.After, 1<<60); len(turns) != 3 || turns[0].Message != "a" {
		t.Errorf("while the first runs: got %+v", turns)
	}
	close(gate)
	w.call(200, nil, "POST", "/v1/turns/"+string(last.ID)+"/await", "")
	w.call(200, &win, "GET", path+"/window?turns=1", "")
	turns := w.turnsFrom(path, win.After, 1<<60)
	if len(turns) != 1 || turns[0].Status != parley.StatusCompleted || turns[0].Message != "c" {
		t.Errorf("when all have ended: got %+v", turns)
	}
}

func TestWindow_of_a_fork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, talkative(), enginetest.App())
	s := w.session(`{"app":"test"}`)
	say := func(id parley.SessionID, message string) {
		var turn parley.TurnInfo
		w.call(202, &turn, "POST", "/v1/sessions/"+string(id)+"/turns", `{"message":"`+message+`"}`)
		w.call(200, nil, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	}
	for i := range 3 {
		say(s.ID, fmt.Sprint("parent ", i))
	}
	var fork, early parley.SessionInfo
	w.call(200, &early, "GET", "/v1/sessions/"+string(s.ID), "")
	at := early.Version
	say(s.ID, "parent 3")
	// The parent also went on before the fork was made.
	w.call(201, &early, "POST", "/v1/sessions/"+string(s.ID)+"/fork", fmt.Sprintf(`{"at":%d}`, at))
	var win windowBody
	w.call(200, &win, "GET", "/v1/sessions/"+string(early.ID)+"/window?turns=2", "")
	turns := w.turnsFrom("/v1/sessions/"+string(early.ID), win.After, 1<<60)
	if len(turns) != 2 || turns[0].Message != "parent 1" || turns[1].Message != "parent 2" || !win.More || win.Turns != 2 {
		t.Errorf("of a fork of the beginning: got %+v of %+v", turns, win)
	}
	var list struct{ Turns []parley.TurnInfo }
	w.call(200, &list, "GET", "/v1/sessions/"+string(early.ID)+"/turns", "")
	if len(list.Turns) != 3 || list.Turns[0].Message != "parent 2" || list.Turns[0].SessionID != early.ID {
		t.Errorf("turns of a fork of the beginning: got %+v", list.Turns)
	}
	w.call(201, &fork, "POST", "/v1/sessions/"+string(s.ID)+"/fork", `{}`)
	say(s.ID, "parent, later")
	say(fork.ID, "fork")
	path := "/v1/sessions/" + string(fork.ID)
	w.call(200, &win, "GET", path+"/window?turns=2", "")
	turns = w.turnsFrom(path, win.After, 1<<60)
	if len(turns) != 2 || turns[0].Message != "parent 3" || turns[1].Message != "fork" || !win.More {
		t.Errorf("got %+v of %+v", turns, win)
	}
	w.call(204, nil, "DELETE", "/v1/sessions/"+string(s.ID), "")
	w.call(200, &win, "GET", path+"/window?turns=2", "")
	if turns = w.turnsFrom(path, win.After, 1<<60); len(turns) != 2 || turns[0].Message != "parent 3" || !win.More {
		t.Errorf("without its parent: got %+v of %+v", turns, win)
	}
}
