package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// looker looks something up and says what it found.
func looker(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if res := enginetest.Results(r); len(res) > 0 {
		say("I found ")
		say(res[0])
		return seam.Reply{StopReason: "end_turn"}, nil
	}
	say("I look. ")
	return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "x"})}}, nil
}

// item is a message of a view: its id, if it has one, and its type.
type item struct {
	id, kind, uuid, data string
	passing              bool
}

// items reads messages until one of the last type has come so often.
func items(t *testing.T, r io.Reader, sse bool, last string, times int) (list []item) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	id := ""
	for times > 0 && lines.Scan() {
		data := lines.Text()
		if sse {
			if v, ok := strings.CutPrefix(data, "id: "); ok {
				id = v
			}
			var ok bool
			if data, ok = strings.CutPrefix(data, "data: "); !ok {
				continue
			}
		}
		var m struct {
			Type    string `json:"type"`
			Subtype string `json:"subtype"`
			State   string `json:"state"`
			UUID    string `json:"uuid"`
			Cursor  string `json:"cursor"`
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("%v: %q", err, data)
		}
		if m.Type == "ping" {
			continue
		}
		i := item{id: id, kind: strings.TrimSuffix(m.Type+"."+m.Subtype, "."), uuid: m.UUID + m.Cursor, data: data, passing: m.Type == "stream_event"}
		id = ""
		list = append(list, i)
		if i.kind == last || i.kind+" "+m.State == last {
			times--
		}
	}
	return list
}

// lasting are the messages that have a place.
func lasting(list []item) (data []string) {
	for _, i := range list {
		if !i.passing {
			data = append(data, i.data)
		}
	}
	return data
}

const idle = "system.session_state_changed idle"

// TestView_resumes_behind_every_message cuts the streams of a view after each message, and resumes
// from its id, or its uuid where messages have no id. Together the two parts are the whole.
func TestView_resumes_behind_every_message(t *testing.T) {
	t.Parallel()
	w := newWorld(t, looker, enginetest.App())
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "one")
	w.turn(s.ID, "two")
	path := "/v1/sessions/" + string(s.ID) + "/events"
	for view, last := range map[string]string{"sdk": idle, "simple": "Done"} {
		all := items(t, w.ask("GET", path+"?view="+view+"&format=sse", "").Body, true, last, 2)
		lines := items(t, w.ask("GET", path+"?view="+view+"&format=ndjson", "").Body, false, last, 2)
		whole := lasting(all)
		if diff := cmp.Diff(whole, lasting(lines)); diff != "" || len(whole) < 10 {
			t.Fatalf("%s: %d messages (-sse +ndjson):\n%s", view, len(whole), diff)
		}
		had := 0
		for n, m := range all[:len(all)-1] {
			if m.passing {
				continue
			}
			had++
			if m.id == "" {
				t.Fatalf("%s: message %d has no id: %s", view, n, m.data)
			}
			for _, form := range []string{"?format=sse&view=" + view + "&after=" + m.id, "?format=sse&view=" + view + "&after=" + m.uuid} {
				rest := items(t, w.ask("GET", path+form, "").Body, true, last, left(all[n+1:], last))
				if n%5 == 0 { // a connection of each kind would only show the same again
					l := w.line(s.ID, strings.Replace(form, "format=sse&", "", 1))
					for range rest {
						rest = append(rest[1:], items(t, strings.NewReader(l.raw()), false, last, 1)...)
					}
				}
				if diff := cmp.Diff(whole[had:], lasting(rest)); diff != "" {
					t.Fatalf("%s%s (-whole +rest):\n%s", path, form, diff)
				}
			}
		}
	}
}

// raw reads one message as it is.
func (l *line) raw() string {
	l.t.Helper()
	ctx, stop := context.WithTimeout(l.t.Context(), time.Minute)
	defer stop()
	_, b, err := l.Read(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(b)
}

func kinds(list []item) (all []string) {
	for _, i := range list {
		all = append(all, i.kind)
	}
	return all
}

// left is how often the last type is among messages.
func left(list []item, last string) (n int) {
	for _, i := range list {
		kind, state, _ := strings.Cut(last, " ")
		if i.kind == kind && strings.Contains(i.data, state) {
			n++
		}
	}
	return n
}

// TestView_of_a_turn is the answer to a message, from its beginning to its end.
func TestView_of_a_turn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, looker, enginetest.App())
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "before")
	path := "/v1/sessions/" + string(s.ID) + "/turns"
	ask := func(query string) []item {
		resp := w.ask("POST", path+query, `{"message":"go"}`, "Accept", "text/event-stream", "Content-Type", "application/json")
		if resp.StatusCode != 200 || resp.Header.Get("Parley-Turn") == "" {
			t.Fatalf("%s: %s", query, resp.Status)
		}
		return items(t, resp.Body, true, "never", 1)
	}
	want := []string{
		"system.session_state_changed", "system.init", "user", "system.status", "assistant", "assistant", "user", "system.status", "assistant", "result.success", "system.session_state_changed",
	}
	var got []string
	for _, i := range ask("?view=sdk") {
		if !i.passing {
			got = append(got, i.kind)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sdk (-want +got):\n%s", diff)
	}
	for _, query := range []string{"?view=sdk&deltas=false", "?view=simple&deltas=false", "?deltas=false"} {
		for _, i := range ask(query) {
			if i.kind == "stream_event" || i.kind == "delta" {
				t.Errorf("%s: %+v", query, i)
			}
		}
	}
	list := ask("?view=sdk&types=assistant,result")
	if diff := cmp.Diff([]string{"assistant", "assistant", "assistant", "result.success"}, kinds(list)); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	var result struct {
		Cost   float64 `json:"total_cost_usd"`
		Result string  `json:"result"`
		Turns  int     `json:"num_turns"`
	}
	if err := json.Unmarshal([]byte(list[3].data), &result); err != nil || !strings.HasPrefix(result.Result, "I found") || result.Turns != 2 {
		t.Errorf("the result is %s", list[3].data)
	}
	text := ""
	for _, i := range ask("?view=simple") {
		var d struct{ Text string }
		if i.kind == "TextDelta" && json.Unmarshal([]byte(i.data), &d) == nil {
			text += d.Text
		}
	}
	if !strings.HasPrefix(text, "I look. I found ") || strings.Count(text, "I look") != 1 {
		t.Errorf("the text is %q", text)
	}
}

// TestView_refuses what it does not know.
func TestView_refuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s, other := w.session(`{"app":"test"}`), w.session(`{"app":"test"}`)
	w.turn(s.ID, "one")
	w.turn(other.ID, "one")
	path := "/v1/sessions/" + string(s.ID)
	foreign := items(t, w.ask("GET", "/v1/sessions/"+string(other.ID)+"/events?view=sdk&format=ndjson", "").Body, false, "result.success", 1)[0].uuid
	for query, field := range map[string]string{
		"?format=sse&view=nice":                 "view",
		"?view=sdk":                             "view", // a page
		"?format=sse&view=sdk&types=turn.*":     "types",
		"?format=sse&view=simple&types=user":    "types",
		"?format=sse&view=sdk&after=x":          "after",
		"?format=sse&view=sdk&after=3-0":        "after",
		"?format=sse&view=sdk&after=999":        "after",
		"?format=sse&view=sdk&after=" + foreign: "after",
	} {
		var e struct{ Error parley.ErrorInfo }
		w.call(400, &e, "GET", path+"/events"+query, "")
		if e.Error.Field != field || e.Error.Hint == "" {
			t.Errorf("%s: %+v", query, e.Error)
		}
	}
	before := len(w.rig.Log(s.ID))
	for _, query := range []string{"?view=nice", "?view=sdk&types=x", "?types=result"} {
		w.call(400, nil, "POST", path+"/turns"+query, `{"message":"go"}`, "Accept", "text/event-stream", "Content-Type", "application/json")
	}
	if after := len(w.rig.Log(s.ID)); after != before {
		t.Errorf("what was refused has left %d events", after-before)
	}
	w.call(404, nil, "GET", path+"/events?format=sse&view=sdk&after=3", "", "Test-User", "bob")
}
