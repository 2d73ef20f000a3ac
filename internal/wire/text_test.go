package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

// TestText_cut_anywhere: any fragments may be lost, and a whole text may come in their place
// anywhere. What is sent of a call still adds up to its text.
func TestText_cut_anywhere(t *testing.T) {
	t.Parallel()
	const said = "The mains voltage dipped, each time the compressor started."
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var text wire.Text
		text.Begin("before")
		text.Add("of another call", false)
		text.Rest(text.Seen())
		got := ""
		if !text.Begin("c") || text.Begin("c") {
			t.Fatal("a call is another one once")
		}
		for at := 0; at < len(said); {
			n := min(1+r.IntN(9), len(said)-at)
			switch r.IntN(4) {
			case 0: // fragments were dropped, and a partial takes their place
				at += n
				text.Add(said[:at], true)
			case 1: // a partial with less text than was sent already; what follows is sent again
				at = r.IntN(at + 1)
				text.Add(said[:at], true)
			default:
				text.Add(said[at:at+n], false)
				at += n
			}
			if !text.Begins(said) {
				t.Fatalf("seed %d: %q does not begin %q", seed, text.Seen(), said)
			}
			got += text.Rest(text.Seen())
		}
		text.Add(said, true)
		if got += text.Rest(text.Seen()); got != said {
			t.Errorf("seed %d: got %q", seed, got)
		}
	}
	var text wire.Text
	text.Add("abc", false)
	text.Rest(text.Seen())
	for _, other := range []string{"ab", "abd", ""} {
		if text.Begins(other) {
			t.Errorf("abc was sent, and %q is taken for its continuation", other)
		}
	}
}

// TestGathered: the first fragment goes on at once. Fragments that come within the time go on
// together. Everything else is not delayed by that.
func TestGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type at struct {
			ms int
			f  eventlog.Frame
		}
		said := func(call string, n int64, text string) eventlog.Frame {
			return eventlog.Frame{Delta: &parley.Delta{Call: parley.CallID(call), N: n, Text: text}}
		}
		step := func(text string) eventlog.Frame {
			return eventlog.Frame{Delta: &parley.Delta{Call: "tool", Kind: parley.DeltaProgress, Text: text}}
		}
		list := []at{
			{0, said("a", 1, "x")},
			{10, said("a", 2, "y")},
			{20, said("a", 3, "z")},
			{150, eventlog.Frame{Event: &parley.Event{Seq: 7}}},
			{160, said("a", 4, "1")},
			{170, said("b", 1, "2")},
			{180, step("10%")},
			{190, step("20%")},
			{195, step("30%")},
		}
		var got []string
		began := time.Now()
		for f, err := range wire.Gathered(t.Context(), 100*time.Millisecond, func(context.Context) wire.Frames {
			return func(yield func(eventlog.Frame, error) bool) {
				for _, a := range list {
					time.Sleep(time.Until(began.Add(time.Duration(a.ms) * time.Millisecond)))
					if !yield(a.f, nil) {
						return
					}
				}
				time.Sleep(time.Second)
				yield(eventlog.Frame{}, errors.New("over"))
			}
		}) {
			what := fmt.Sprint(time.Since(began).Milliseconds(), " ")
			switch {
			case err != nil:
				what += err.Error()
			case f.Event != nil:
				what += fmt.Sprint("event ", f.Event.Seq)
			default:
				what += fmt.Sprint(f.Delta.Call, f.Delta.N, " ", f.Delta.Text)
			}
			got = append(got, what)
		}
		want := []string{"0 a1 x", "100 a3 yz", "150 event 7", "170 a4 1", "180 b1 2", "200 tool0 30%", "1195 over"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestGathered_ends_with_its_context: when the context's time is up, the sequence ends with that
// error.
func TestGathered_ends_with_its_context(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var last error
		for _, err := range wire.Gathered(ctx, time.Millisecond, func(ctx context.Context) wire.Frames {
			return func(func(eventlog.Frame, error) bool) { <-ctx.Done() }
		}) {
			last = err
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("got %v", last)
		}
	})
}

// TestCarriers_carry_any_wire: an encoder does not know its carrier. Where messages have no names,
// a message whose data does not name its type gets the type added.
func TestCarriers_carry_any_wire(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		carrier *wire.Carrier
		want    string
	}{
		"sse":    {wire.SSE, "id: 7\nevent: done\ndata: {}\n\nevent: token\ndata: {\"text\":\"a\"}\n\nid: 8\ndata: {\"type\":\"own\"}\n\n"},
		"ndjson": {wire.NDJSON, `{"type":"done"}` + "\n" + `{"type":"token","text":"a"}` + "\n" + `{"type":"own"}` + "\n"},
	} {
		w := &sink{head: http.Header{}}
		err := wire.Serve(w, httptest.NewRequest("GET", "/", nil), func(yield func(eventlog.Frame, error) bool) { yield(eventlog.Frame{}, nil) }, c.carrier, three{}, &wire.Options{Retry: -1, Heartbeat: -1})
		if got := w.got.String(); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// three is a wire of three messages.
type three struct{}

func (three) Encode(_ eventlog.Frame, send func(wire.Message)) {
	send(wire.Message{ID: "7", Event: "done", Data: []byte(`{}`)})
	send(wire.Message{Event: "token", Data: []byte(`{"text":"a"}`)})
	send(wire.Message{ID: "8", Data: []byte(`{"type":"own"}`), Typed: true})
}

func (three) Failed(error, func(wire.Message)) {}

// TestLimits_bound_bodies: a body over the limit is refused. If the request says how long its body
// is, it is refused before the body is read.
func TestLimits_bound_bodies(t *testing.T) {
	t.Parallel()
	l := wire.Limits{MaxBody: 10}.Defaults()
	for _, c := range []struct {
		body     io.Reader
		declared int64
		want     parley.Code
	}{
		{strings.NewReader("0123456789"), 10, ""},
		{strings.NewReader("0123456789"), -1, ""},
		{strings.NewReader("0123456789a"), -1, parley.CodeTooLarge},
		{iotest.ErrReader(errors.New("its bytes were waited for")), 11, parley.CodeTooLarge},
	} {
		r := httptest.NewRequest("POST", "/", c.body)
		r.ContentLength = c.declared
		raw, err := l.ReadBody(httptest.NewRecorder(), r)
		if parley.CodeOf(err) != c.want || err == nil && len(raw) != 10 {
			t.Errorf("%d declared: got %q, %v; want %s", c.declared, raw, err, c.want)
		}
	}
	if d := (wire.Limits{MaxStreams: 2}).Defaults(); d.MaxUserStreams != 1 || d.MaxBody != 1<<20 || d.MaxMessage != parley.MaxMessage {
		t.Errorf("defaults: %+v", d)
	}
}
