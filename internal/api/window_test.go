package api_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
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
	Begun        []parley.Event
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
	for _, e := range w.events(path, after) {
		if e.Seq <= to {
			v.Apply(e)
		}
	}
	return v.Turns
}

// events reads the events after a cursor.
func (w *world) events(path string, after int64) (list []parley.Event) {
	w.t.Helper()
	for more := true; more; {
		var page struct {
			Events []parley.Event
			Next   int64
			More   bool
		}
		w.call(200, &page, "GET", fmt.Sprintf("%s/events?after=%d", path, after), "")
		list = append(list, page.Events...)
		after, more = page.Next, page.More
	}
	return list
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

// TestWindow_of_events: a window of so many events begins within a turn that has more, and says how it began.
func TestWindow_of_events(t *testing.T) {
	t.Parallel()
	begin, gate, reached := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	model := enginetest.Model(func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		<-begin
		switch n := calls.Add(1); {
		case n <= 80:
			return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]any{"key": fmt.Sprint(n)})}, StopReason: "tool_use"}, nil
		case n == 81:
			close(reached)
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return seam.Reply{}, context.Cause(ctx)
		}
		say("done")
		return seam.Reply{StopReason: "end_turn"}, nil
	})
	w := newWorld(t, model, enginetest.App(func(a *parley.App) { a.Budgets = parley.Budgets{MaxSteps: 100, MaxToolCalls: 100} }))
	s := w.session(`{"app":"test","busy":"enqueue","max_open_turns":5}`)
	path := "/v1/sessions/" + string(s.ID)
	turns := make([]parley.TurnInfo, 3)
	for i, m := range []string{"long", "cancelled", "queued"} {
		w.call(202, &turns[i], "POST", path+"/turns", `{"message":"`+m+`"}`)
	}
	w.call(200, nil, "POST", "/v1/turns/"+string(turns[1].ID)+"/cancel", `{}`)
	close(begin)
	<-reached
	// fold is a transcript of a window.
	fold := func(win windowBody) parley.Transcript {
		t.Helper()
		v := parley.Transcript{}
		for _, e := range win.Begun {
			v.Apply(e)
		}
		v.Seq = win.After
		for _, e := range w.events(path, win.After) {
			v.Apply(e)
		}
		return v
	}
	check := func(when, query, want string) windowBody {
		t.Helper()
		var win windowBody
		w.call(200, &win, "GET", path+"/window?"+query, "")
		whole := map[parley.TurnID]parley.TurnView{}
		for _, v := range fold(windowBody{}).Turns {
			whole[v.ID] = v
		}
		var got []string
		for _, v := range fold(win).Turns[:win.Turns] { // behind them are those that were taken before
			got = append(got, fmt.Sprint(v.Message, " ", v.Status))
			all := whole[v.ID]
			if len(v.Steps) > len(all.Steps) || !reflect.DeepEqual(v.Steps[min(1, len(v.Steps)):], all.Steps[len(all.Steps)-max(len(v.Steps)-1, 0):]) {
				t.Errorf("%s: of %q got the steps %+v, want the last of %+v", when, v.Message, v.Steps, all.Steps)
			}
			if v.Entry != all.Entry || v.Answer != all.Answer {
				t.Errorf("%s: of %q got %q by %q, want %q by %q", when, v.Message, v.Answer, v.Entry, all.Answer, all.Entry)
			}
		}
		if fmt.Sprint(got) != want || !win.More || win.Turns == 0 {
			t.Errorf("%s: got %v with %d events of before, want %s; %d turns", when, got, len(win.Begun), want, win.Turns)
		}
		return win
	}
	win := check("while it runs", "events=100", "[long running queued pending]")
	if win.Session.Version-win.After != 100 {
		t.Errorf("got the events after %d of %d, want the last 100", win.After, win.Session.Version)
	}
	win = windowBody{}
	w.call(200, &win, "GET", path+"/window?events=10000", "")
	if win.After != 0 || win.More || win.Begun != nil {
		t.Errorf("with room for all: got %+v", win)
	}
	close(gate)
	w.call(200, nil, "POST", "/v1/turns/"+string(turns[2].ID)+"/await", "")
	check("when all have ended", "events=100", "[queued completed]")
	win = check("before the newest", "events=100&before="+string(turns[2].ID), "[long completed]")
	if len(win.Begun) != 2 || win.Begun[0].Seq != 2 {
		t.Errorf("how the long one began: got %+v", win.Begun)
	}
}

// TestWindow_after_a_long_message: a message that fills a page of the log does not hide which agent began.
func TestWindow_after_a_long_message(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	model := enginetest.Model(func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		if n := calls.Add(1); n <= 25 {
			return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]any{"key": fmt.Sprint(n)})}, StopReason: "tool_use"}, nil
		}
		say("done")
		return seam.Reply{StopReason: "end_turn"}, nil
	})
	w := newWorld(t, model, enginetest.App(func(a *parley.App) { a.Budgets = parley.Budgets{MaxSteps: 30, MaxToolCalls: 30} }))
	s := w.session(`{"app":"test"}`)
	turn := w.turn(s.ID, strings.Repeat("long ", 20<<10))
	var win windowBody
	w.call(200, &win, "GET", "/v1/sessions/"+string(s.ID)+"/window?events=100", "")
	if len(win.Begun) != 2 || win.Begun[0].Seq != turn.FirstSeq || win.Begun[1].Type != (parley.AgentStarted{}).EventType() || win.After < win.Begun[1].Seq {
		t.Errorf("got the events after %d, and of before %.200v", win.After, win.Begun)
	}
}
