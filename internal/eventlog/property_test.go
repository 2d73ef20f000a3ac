package eventlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// view is a client. It checks the promises that every client may rely on, and keeps the text that a
// client would show.
type view struct {
	at     int64
	events []parley.Event
	open   map[parley.CallID]bool
	text   map[string]string // shown of a call, by call and kind; unchanged after the call's end
	old    map[string]string // shown before the last cut
	n      map[string]int64
	wrong  []string
}

func newView() *view {
	return &view{open: map[parley.CallID]bool{}, text: map[string]string{}, old: map[string]string{}, n: map[string]int64{}}
}

func (v *view) complain(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (v *view) see(f eventlog.Frame) {
	switch {
	case f.Reset != nil:
		v.cut()
	case f.Event != nil:
		e := *f.Event
		if e.Seq != v.at+1 {
			v.complain("event %d after %d", e.Seq, v.at)
		}
		v.at = e.Seq
		v.events = append(v.events, e)
		p, err := e.Payload()
		if err != nil {
			v.complain("event %d: %v", e.Seq, err)
		}
		switch p := p.(type) {
		case parley.ModelStarted:
			v.open[p.Call] = true
		case parley.ModelReplied:
			v.close(p.Call, parley.PartsText(p.Parts))
		case parley.ModelFailed:
			v.close(p.Call, p.Partial)
		}
	case f.Delta != nil:
		d := f.Delta
		key := string(d.Call) + "/" + string(d.Kind)
		if !v.open[d.Call] {
			v.complain("a delta of %s, which is not open, after event %d", d.Call, v.at)
		}
		if f.Partial {
			if !strings.HasPrefix(d.Text, v.old[key]) || !strings.HasPrefix(d.Text, v.text[key]) {
				v.complain("the partial of %s is no longer text of what was shown", key)
			}
			v.text[key] = ""
		} else if d.N <= v.n[key] {
			v.complain("delta %d of %s after %d", d.N, key, v.n[key])
		}
		v.text[key] += d.Text
		v.n[key] = d.N
	}
}

// cut handles the end of a client's connection. The client may still show its text, but must wait for
// a partial or the call's end before the text continues.
func (v *view) cut() {
	for k, t := range v.text {
		v.old[k] = t
	}
	clear(v.text)
}

// close compares the text shown since the last cut with the event's text. The client must have been
// shown all of it or nothing.
func (v *view) close(id parley.CallID, whole string) {
	delete(v.open, id)
	if shown := v.text[string(id)+"/"]; shown != "" && shown != whole {
		v.complain("call %s showed %q and is %q", id, shown, whole)
	}
}

// life runs a random session: calls that overlap, text of two kinds, replies, failures. It calls
// between after each step.
func life(d *desk, rnd *rand.Rand, steps int, between func(step int)) {
	type running struct {
		id   parley.CallID
		text strings.Builder
	}
	var calls []*running
	made := 0
	end := func(i int) parley.Event {
		c := calls[i]
		calls = append(calls[:i:i], calls[i+1:]...)
		if rnd.IntN(3) == 0 {
			shown, _, _ := d.w.Partial(d.id, c.id)
			return failed(c.id, shown)
		}
		return replied(c.id, c.text.String())
	}
	for step := range steps {
		switch k := rnd.IntN(10); {
		case k == 0 && len(calls) < 4 || len(calls) == 0:
			made++
			c := &running{id: parley.CallID(fmt.Sprintf("c%d", made))}
			d.append(started(c.id))
			calls = append(calls, c)
		case k == 1:
			d.append(end(rnd.IntN(len(calls))))
		case k == 2:
			made++
			c := &running{id: parley.CallID(fmt.Sprintf("c%d", made))}
			d.append(end(rnd.IntN(len(calls))), steered("x"), started(c.id))
			calls = append(calls, c)
		default:
			c := calls[rnd.IntN(len(calls))]
			text := fmt.Sprintf("%d.", rnd.IntN(1000))
			kind := parley.DeltaText
			if k == 3 {
				kind = parley.DeltaThinking
			} else {
				c.text.WriteString(text)
			}
			d.w.Publish(parley.Delta{Session: d.id, Turn: turn, Call: c.id, Kind: kind, Text: text})
		}
		between(step)
	}
	for len(calls) > 0 {
		d.append(end(0))
	}
	d.append(steered("end"))
}

func (d *desk) isEnd(f eventlog.Frame) bool {
	return f.Event != nil && strings.Contains(string(f.Event.Data), `"end"`)
}

func TestFollow_cut_at_any_point_and_resumed_equals_uncut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			d := newDesk(t, eventlog.Options{Page: 1 + rnd.IntN(5)})
			whole := newView()
			var wg sync.WaitGroup
			wg.Go(func() {
				for f, err := range d.r.Follow(t.Context(), parley.Local, d.id, 0) {
					if err != nil {
						whole.complain("%v", err)
						return
					}
					if whole.see(f); d.isEnd(f) {
						return
					}
				}
			})
			// The first client is cut after every frame, the second after every second frame, and so on.
			cuts := make([]*view, 4)
			for i := range cuts {
				v := newView()
				cuts[i] = v
				wg.Go(func() {
					for ; ; v.cut() {
						seen := 0
						for f, err := range d.r.Follow(t.Context(), parley.Local, d.id, v.at) {
							if err != nil {
								v.complain("%v", err)
								return
							}
							if v.see(f); d.isEnd(f) {
								return
							}
							// A cut right after a partial would give the same partial for ever.
							if seen++; seen > i && !f.Partial {
								break
							}
						}
					}
				})
			}
			life(d, rnd, 60, func(int) {
				if rnd.IntN(2) == 0 {
					synctest.Wait()
				}
			})
			wg.Wait()
			for i, v := range append(cuts, whole) {
				for _, w := range v.wrong {
					t.Errorf("seed %d, client %d: %s", seed, i, w)
				}
				if diff := cmp.Diff(whole.events, v.events, cmp.Comparer(parley.Event.Equal)); diff != "" {
					t.Errorf("seed %d, client %d, events (-uncut +cut):\n%s", seed, i, diff)
				}
			}
		})
	}
}

func TestFollow_with_many_hands(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{Page: 7, MaxQueue: 8, MaxCalls: 2})
	const sessions, followers = 8, 8
	var wg sync.WaitGroup
	for s := range sessions {
		d := d.another(parley.SessionID(fmt.Sprintf("many-%d", s)))
		for i := range followers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(s), uint64(i)))
				v := newView()
				for done := false; !done; v.cut() {
					left := 1 + rnd.IntN(100)
					for f, err := range d.r.Follow(context.Background(), parley.Local, d.id, v.at) {
						if err != nil {
							t.Error(err)
							return
						}
						v.see(f)
						if done = d.isEnd(f); done {
							break
						}
						if left--; left < 0 && !f.Partial {
							break
						}
						if rnd.IntN(4) == 0 {
							runtime.Gosched()
						}
					}
				}
				for _, w := range v.wrong {
					t.Errorf("session %d, follower %d: %s", s, i, w)
				}
			})
		}
		wg.Go(func() { life(d, rand.New(rand.NewPCG(uint64(s), 99)), 500, func(int) {}) })
	}
	wg.Wait()
	if n := d.w.Hubs(); n != 0 {
		t.Errorf("%d hubs are left, want 0", n)
	}
}

func TestFollow_joins_for_a_slow_reader_and_then_resets_it(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{MaxQueue: 4, MaxCalls: 1})
		d.append(started("c1"))
		var got []string
		hold, held := make(chan struct{}), true
		var wg sync.WaitGroup
		wg.Go(func() {
			for f, err := range d.r.Follow(t.Context(), parley.Local, d.id, 2) {
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, told(f))
				if held {
					held = false
					<-hold
				}
				if d.isEnd(f) {
					return
				}
			}
		})
		synctest.Wait()
		d.say("c1", "a")
		synctest.Wait()
		for _, s := range []string{"b", "c", "d"} { // these are joined into one frame
			d.say("c1", s)
		}
		hold <- struct{}{}
		synctest.Wait()
		held = true
		d.say("c1", "e")
		synctest.Wait()
		for range 3 { // more than the follower can hold
			d.append(steered("x"))
			d.say("c1", "f")
		}
		d.append(steered("x"))
		hold <- struct{}{}
		synctest.Wait()
		d.append(replied("c1", "abcdefff"), steered("end"))
		wg.Wait()
		want := []string{
			`delta c1 n=1 "a"`, `delta c1 n=4 "bcd"`, `delta c1 n=5 "e"`, "reset 2",
			"3 turn.steered", "4 turn.steered", "5 turn.steered", "6 turn.steered", `partial c1 n=8 "abcdefff"`,
			"7 model.replied", "8 turn.steered",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	})
}

func TestFollow_reads_from_the_log_what_another_process_appended(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	tp := d.follow(0)
	tp.until("1 ")
	d.append(steered("ours"))
	if err := d.store.Append(t.Context(), parley.Local, d.batch(steered("theirs"))); err != nil {
		t.Fatal(err)
	}
	d.seq++
	d.append(steered("ours again"))
	want := []string{"2 turn.steered", "3 turn.steered", "4 turn.steered"}
	if diff := cmp.Diff(want, tp.until("4 ")); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestFollowEvents_has_no_deltas(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{MaxQueue: 1, MaxCalls: 1})
	d.append(started("c1"))
	d.say("c1", "a")
	var got []string
	for f, err := range d.r.FollowEvents(t.Context(), parley.Local, d.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, told(f))
		if f.Event != nil && f.Event.Seq == 2 {
			for range 10 {
				d.say("c1", "b")
				d.append(steered("x"))
			}
			d.append(steered("end"))
		}
		if d.isEnd(f) {
			break
		}
	}
	if len(got) != 13 || strings.Contains(strings.Join(got, " "), "delta") {
		t.Errorf("got %q, want 13 events", got)
	}
}

func TestHub_lives_as_long_as_somebody_needs_it(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	var got []int
	count := func() { got = append(got, d.w.Hubs()) }
	count() // only a log
	d.append(parley.NewEvent(turn, "lead", parley.ToolRequested{Call: "t1", Name: "x", Input: []byte("{}")}))
	count() // a requested call may wait for a human for ever, so it needs no hub
	d.append(started("c1"))
	count() // a running call
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range d.r.Follow(ctx, parley.Local, d.id, 3) {
	}
	count()
	d.append(parley.NewEvent(turn, "", parley.TurnCancelled{}))
	count() // nothing in the turn is open any more
	if diff := cmp.Diff([]int{0, 0, 1, 1, 0}, got); diff != "" {
		t.Errorf("hubs (-want +got):\n%s", diff)
	}
}

func TestFollowMany_merges_and_survives_one_that_ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newDesk(t, eventlog.Options{Page: 2})
		b := a.another("s2")
		a.append(started("c1"))
		a.say("c1", "half")
		ctx, stop := context.WithCancel(t.Context())
		var got []string
		var wg sync.WaitGroup
		wg.Go(func() {
			places := []eventlog.Place{{Session: "s1"}, {Session: "s2", After: 1}}
			frames, err := a.r.FollowMany(ctx, parley.Local, places, true)
			if err != nil {
				t.Error(err)
				return
			}
			for f, err := range frames(ctx) {
				if err != nil {
					got = append(got, err.Error())
				} else {
					got = append(got, told(f))
				}
			}
		})
		synctest.Wait()
		b.append(steered("b"))
		synctest.Wait()
		a.say("c1", " done")
		synctest.Wait()
		if err := a.store.Delete(t.Context(), parley.Local, "s1"); err != nil {
			t.Error(err)
		}
		a.w.Forget("s1")
		synctest.Wait()
		b.append(steered("still"))
		synctest.Wait()
		stop()
		wg.Wait()
		want := []string{
			"1 session.created", "2 model.started", `partial c1 n=1 "half"`, "2 turn.steered", `delta c1 n=2 " done"`,
			"session s1: session s1 does not exist", "3 turn.steered", "context canceled",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
		if n := a.w.Hubs(); n != 0 {
			t.Errorf("%d hubs are left, want 0", n)
		}
	})
}

func TestFollowMany_begins_with_all_places_or_none(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	places := []eventlog.Place{{Session: "s1"}, {Session: "nope"}}
	frames, err := d.r.FollowMany(t.Context(), parley.Local, places, true)
	if frames != nil || parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("got frames: %t, and %v", frames != nil, err)
	}
}
