package push_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestFull: a message for which the outbox has no room is not lost in silence: the device counts it and says so,
// and the log and the metric have it.
func TestFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var metric atomic.Int64
		d := newDesk(t, store, enginetest.Echo, enginetest.App(), func(o *push.Options) { o.Dropped = func(n int) { metric.Add(int64(n)) } })
		to := newReceiver(t)
		device := d.webhook(to.url)
		for i := 0; ; i++ { // what somebody else waits for
			_, err := store.PutRow(t.Context(), enginetest.User, seam.Row{
				RowName: seam.RowName{Kind: seam.RowOutbox, ID: fmt.Sprintf("other-%06d", i)}, Due: parley.Now(time.Now().Add(1000 * time.Hour)), Open: true,
				Body: json.RawMessage(`"` + strings.Repeat("x", 60_000) + `"`),
			})
			if parley.CodeOf(err) == parley.CodeQuota {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; ; i++ {
			_, err := store.PutRow(t.Context(), enginetest.User, seam.Row{RowName: seam.RowName{Kind: seam.RowOutbox, ID: fmt.Sprintf("small-%06d", i)}, Due: parley.Now(time.Now().Add(1000 * time.Hour)), Open: true, Body: json.RawMessage(`1`)})
			if parley.CodeOf(err) == parley.CodeQuota {
				break
			}
		}
		s := d.Session()
		for range 3 {
			d.Await(d.Send(s.ID, "hello").ID)
		}
		d.advance(2 * time.Minute)
		got := d.p.Devices(enginetest.User)[0]
		if got.ID != device.ID || got.Dropped != 3 || !strings.Contains(got.LastError, "the outbox is full") || metric.Load() != 3 {
			t.Errorf("3 messages found no room: %+v, metric %d", got, metric.Load())
		}
		if n := strings.Count(d.log.String(), "messages to a device were dropped"); n < 1 || n > 2 {
			t.Errorf("the log says it %d times: %s", n, d.log.String())
		}
		again, err := push.Open(t.Context(), store, options(push.Options{}))
		if err != nil || again.Devices(enginetest.User)[0].Dropped != 3 {
			t.Errorf("after a restart: %+v, %v", again.Devices(enginetest.User), err)
		}
		select {
		case m := <-to.got:
			t.Errorf("it was sent all the same: %s", m.body)
		default:
		}
	})
}

// absent is a store that does not answer for a while.
type absent struct {
	seam.Store
	gone  atomic.Bool
	looks atomic.Int64
}

func (a *absent) Rows(ctx context.Context, p parley.Principal, q seam.RowQuery) ([]seam.Row, error) {
	if a.gone.Load() {
		a.looks.Add(1)
		return nil, errors.New("the database is away")
	}
	return a.Store.Rows(ctx, p, q)
}

// TestOutage: a database that is away for hours is in the log twice: when it went and when it came back.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &absent{Store: mem.New()}
		to := newReceiver(t)
		d := newDesk(t, store, enginetest.Echo, enginetest.App())
		d.webhook(to.url)
		for range 2 {
			store.gone.Store(true)
			d.advance(3 * time.Hour)
			d.Await(d.Send(d.Session().ID, "hello").ID)
			store.gone.Store(false)
			d.advance(time.Minute)
			to.next()
		}
		log := d.log.String()
		if store.looks.Load() < 100 || strings.Count(log, "cannot be read") != 2 || strings.Count(log, "can be read again") != 2 {
			t.Errorf("after %d looks in vain the log is:\n%s", store.looks.Load(), log)
		}
	})
}

// TestLongPermission: what a notification does not show whole cannot be allowed there, only opened.
func TestLongPermission(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("rm -rf x; ", 50)
	all := []string{parley.ChoiceAllow, parley.ChoiceAllowSession, parley.ChoiceDeny}
	for name, c := range map[string]struct {
		in    parley.Interaction
		whole bool
	}{
		"short":                {parley.Interaction{Title: "Allow Bash: make test?"}, true},
		"with its reason":      {parley.Interaction{Title: "Allow Bash: make test?", Text: "It runs a program.\n\nIn the workspace."}, true},
		"a subject cut short":  {parley.Interaction{Title: "Allow Bash: " + parley.Cut(long, 80) + "?"}, false},
		"a long text":          {parley.Interaction{Title: "Send this?", Text: long}, false},
		"a text that is cut":   {parley.Interaction{Title: "Send this?", Text: strings.Repeat(long, 20)}, false},
		"a title that is cut":  {parley.Interaction{Title: strings.Repeat(long, 2)}, false},
		"many things":          {parley.Interaction{Title: "Allow turn_off on a, b, c and 1 more?", Reaches: []string{"a", "b", "c", "d"}}, false},
		"of letters with much": {parley.Interaction{Title: strings.Repeat("漢", 60)}, false},
	} {
		c.in.ID, c.in.Kind, c.in.Choices = "i", parley.KindPermission, all
		want := all
		if !c.whole {
			want = nil
		}
		if got := push.Offers(c.in); !slices.Equal(got, want) {
			t.Errorf("%s: %q are offered", name, got)
		}
		c.in.Kind = parley.KindQuestion
		if got := push.Offers(c.in); !slices.Equal(got, all) {
			t.Errorf("%s: of a question %q are offered", name, got)
		}
	}
}
