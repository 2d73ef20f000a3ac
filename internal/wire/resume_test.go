package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
	"github.com/parley-server/parley/internal/wire"
)

// session is the state of a stream's client.
type session struct {
	events []string
	last   string
	text   map[parley.CallID]string
}

// take follows until n frames or the end event have come, and reports whether the end came.
func (h *house) take(path string, s *session, n int) (done bool) {
	h.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	resp := h.get(ctx, path, s.last)
	defer resp.Body.Close()
	for f, err := range sse.Decode(resp.Body, 1<<20) {
		if err != nil {
			h.t.Errorf("%v", err)
			return true
		}
		switch f.Event {
		case "reset":
			continue
		case "model.delta", "model.partial":
			var d parley.Delta
			if err := json.Unmarshal(f.Data, &d); err != nil {
				h.t.Error(err)
			}
			if f.Event == "model.partial" {
				s.text[d.Call] = ""
			}
			s.text[d.Call] += d.Text
			continue // not counted: a cut here is the same as one before or in the next event
		case "model.replied":
			var e parley.Event
			if err := json.Unmarshal(f.Data, &e); err != nil {
				h.t.Error(err)
			}
			p, err := e.Payload()
			if err != nil {
				h.t.Error(err)
			}
			r := p.(parley.ModelReplied)
			s.text[r.Call] = parley.PartsText(r.Parts)
		}
		s.last = f.ID
		s.events = append(s.events, string(f.Data))
		if strings.Contains(string(f.Data), `"end"`) {
			return true
		}
		if n--; n == 0 {
			return false
		}
	}
	h.t.Error("the stream ended early")
	return true
}

func TestStreams_cut_after_every_frame_and_resumed_equal_uncut(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/one?session=s1", "/many?sessions=s1:0"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, wire.Options{})
			whole := &session{text: map[parley.CallID]string{}}
			cut := &session{text: map[parley.CallID]string{}}
			var wg sync.WaitGroup
			wg.Go(func() { h.take(path, whole, 0) })
			wg.Go(func() {
				for !h.take(path, cut, 1) {
				}
			})
			for i := range 40 {
				call := parley.CallID(fmt.Sprintf("c%d", i))
				h.append(started(call))
				for range 5 {
					h.say(string(call), "word ")
				}
				h.append(replied(call, "word word word word word "), steered("next"))
			}
			h.append(steered("end"))
			wg.Wait()
			if diff := cmp.Diff(whole.events, cut.events); diff != "" || len(whole.events) != 122 {
				t.Errorf("%d events (-uncut +cut):\n%s", len(whole.events), diff)
			}
			if diff := cmp.Diff(whole.text, cut.text); diff != "" {
				t.Errorf("text (-uncut +cut):\n%s", diff)
			}
		})
	}
}

func TestServeMany_carries_each_session_and_names_where_it_is_in_all(t *testing.T) {
	t.Parallel()
	h := newHouse(t, wire.Options{})
	h.open("s2")
	resp := h.get(t.Context(), "/many?sessions=s1:1,s2:1", "")
	defer resp.Body.Close()
	var got []string
	steps := []func(){
		func() { h.send("s2", seam.Batch{}, steered("x")) },
		func() { h.append(steered("y")) },
		func() { h.w.Forget("s1") },
		func() { h.send("s2", seam.Batch{}, steered("z")) },
	}
	next := func() {
		if len(steps) > 0 {
			steps[0]()
			steps = steps[1:]
		}
	}
	next()
	for f, err := range sse.Decode(resp.Body, 1<<20) {
		if err != nil {
			t.Fatal(err)
		}
		line := f.Event + " " + f.ID
		if f.Event == "error" {
			line = string(f.Data)
		}
		if got = append(got, line); len(got) == 4 {
			break
		}
		next()
	}
	want := []string{
		"turn.steered s1:1,s2:2", "turn.steered s1:2,s2:2",
		`{"session":"s1","error":{"code":"not_found","message":"session s1 does not exist","hint":"it was deleted, or is another user's; do not ask for it again"}}`,
		"turn.steered s2:3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
