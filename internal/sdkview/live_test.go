package sdkview_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/sdkview"
	"github.com/parley-server/parley/internal/wire"
)

// viewer is a client that follows a session live, over connections that break.
type viewer struct {
	t      *testing.T
	r      *enginetest.Rig
	o      sdkview.Options
	view   string
	at     string // its cursor
	uuid   bool   // it has no ids, only uuids
	have   []string
	text   map[string]string // by message, what stream_event says
	said   map[string]string // by message, what assistant messages say
	simple string
	ends   int
}

// connect follows until it has had n messages, or the turns have ended. It returns how many it had.
func (v *viewer) connect(n, turns int) int {
	v.t.Helper()
	o := v.o
	var err error
	if o.From, err = sdkview.ParseCursor("after", v.at, o.Session); err != nil {
		v.t.Fatal(err)
	}
	e, err := sdkview.New(v.view, o)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, ev := range v.r.Log(o.Session) {
		if ev.Seq <= o.From.Seq {
			e.Prime(ev)
		}
	}
	ctx, stop := context.WithCancel(v.t.Context())
	defer stop()
	had := 0
	for f, err := range v.r.Reader.Follow(ctx, enginetest.User, o.Session, o.From.Seq) {
		if err != nil {
			v.t.Fatal(err)
		}
		e.Encode(f, func(m wire.Message) {
			if had == n { // the connection broke before this message
				return
			}
			had++
			v.message(m)
		})
		if had == n || v.ends == turns {
			return had
		}
	}
	return had
}

func (v *viewer) message(w wire.Message) {
	m := decoded(v.t, w.Data)
	if w.ID != "" {
		v.at = w.ID
		if u, ok := m["uuid"].(string); ok && v.uuid {
			v.at = u
		}
	}
	if v.view == sdkview.ViewSimple {
		if m["type"] == "TextDelta" {
			v.simple += m["text"].(string)
			return
		}
		v.have = append(v.have, string(w.Data))
		if m["type"] == "Done" {
			v.ends++
		}
		return
	}
	event, _ := m["event"].(map[string]any)
	switch m["type"] {
	case "stream_event":
		call := v.text[""]
		switch event["type"] {
		case "message_start":
			call = event["message"].(map[string]any)["id"].(string)
			v.text[""], v.text[call] = call, ""
		case "content_block_delta":
			for _, kind := range []string{"text", "thinking"} {
				if s, ok := event["delta"].(map[string]any)[kind].(string); ok {
					v.text[call] += s
				}
			}
		}
		return
	case "assistant":
		message := m["message"].(map[string]any)
		b := message["content"].([]any)[0].(map[string]any)
		for _, kind := range []string{"text", "thinking"} {
			if s, ok := b[kind].(string); ok {
				v.said[message["id"].(string)] += s
			}
		}
	case "system":
		if m["state"] == "idle" {
			v.ends++
		}
	}
	v.have = append(v.have, string(w.Data))
}

// TestLive follows turns while they go on, over connections that break after every so many messages.
// However often, the client has each message once, and the text of each reply is what it streamed.
func TestLive(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"01-simple-partial", "06-ask-user-question", "07-interrupt-stream"} {
		for _, view := range []string{sdkview.ViewSDK, sdkview.ViewSimple} {
			var whole, text string
			for _, n := range []int{100000, 1, 2, 3, 5, 8} {
				synctest.Test(t, func(t *testing.T) {
					r := rig(t, app())
					defer r.Close()
					done := make(chan parley.SessionID)
					begun := make(chan parley.SessionID, 1)
					go func() {
						defer close(done)
						driveFrom(t, r, name, func(id parley.SessionID) { begun <- id })
					}()
					id := <-begun
					turns := strings.Count(name+turnsOf(t, name), "\x00")
					v := &viewer{t: t, r: r, o: options(t, r, id), view: view, uuid: n == 2, text: map[string]string{}, said: map[string]string{}}
					next := n
					for rounds := 0; v.ends < turns; rounds++ {
						if rounds > 2000 {
							t.Fatalf("%s, %s, cut after %d: it does not come to an end: %v", name, view, n, v.have)
						}
						before := v.at
						v.connect(next, turns)
						if next++; v.at != before { // else it would never get any further
							next = n
						}
					}
					<-done
					have := strings.NewReplacer(string(id), "SESSION").Replace(strings.Join(shape(v.have), "\n"))
					if whole == "" {
						whole, text = have, v.simple
					}
					if diff := cmp.Diff(whole, have); diff != "" || v.simple != text {
						t.Errorf("%s, %s, cut after %d: text %q, want %q (-whole +cut):\n%s", name, view, n, v.simple, text, diff)
					}
					delete(v.text, "")
					maps.DeleteFunc(v.text, func(call, s string) bool { return s == "" && v.said[call] == "" })
					maps.DeleteFunc(v.said, func(call, s string) bool { return s == "" })
					for call, s := range v.said {
						if streamed, ok := v.text[call]; ok && !strings.HasPrefix(s, streamed) || n == 100000 && streamed != s {
							t.Errorf("%s, cut after %d: %s streamed %q and says %q", name, n, call, v.text[call], s)
						}
					}
				})
			}
		}
	}
}

// shape is what of messages is the same in every run: their types, and what is said.
func shape(list []string) (out []string) {
	for _, raw := range list {
		m := map[string]any{}
		_ = jsonUnmarshal(raw, &m)
		line := nameOf(m)
		if line == "<nil>" {
			line = fmt.Sprint(m["type"])
		}
		if c, ok := m["message"].(map[string]any); ok {
			line += fmt.Sprint(" ", kindOf(c["content"]))
			if parts, ok := c["content"].([]any); ok {
				p := parts[0].(map[string]any)
				line += fmt.Sprint(" ", p["type"], " ", p["text"], p["thinking"])
			}
		}
		line += fmt.Sprint(" ", m["result"], m["state"], m["num_turns"], m["total_cost_usd"], m["name"])
		out = append(out, line)
	}
	return out
}
