package home_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/home"
)

// shack is a house with one lamp.
type shack struct {
	feed home.Feed
	at   time.Time
	away error
	now  func() time.Time
}

func (s *shack) Changes() *home.Feed { return &s.feed }

func (s *shack) Listing(context.Context) (home.Listing, error) {
	lamp := home.NewEntity(home.HouseEntity{ID: "light.a", Name: "Lamp", State: "off", LastChanged: s.at})
	return home.Listing{Connected: true, Areas: []home.Area{{ID: "b", Name: "Bedroom", Entities: []home.HouseEntity{lamp}}}}, s.away
}

func (s *shack) Past(_ context.Context, id string, from, to time.Time) (home.History, error) {
	h := home.History{ID: id, Name: "A", From: from.UnixMilli(), To: to.UnixMilli(), Zone: "UTC", Points: []home.Point{}, States: []home.State{}, Marks: []home.Mark{}}
	if id == "light.a" {
		h.States = []home.State{{At: 7, State: "on"}}
		return h, nil
	}
	h.Unit, h.Marks = "V", []home.Mark{{At: 1, State: "190"}}
	h.Points = []home.Point{{At: 0, Value: 230}, {At: 1, Value: 190}, {At: 2, None: true}}
	return h, nil
}

func panelOf(s *shack, who error) http.Handler {
	return home.Entities(home.EntityOptions{
		House:     s,
		Principal: func(context.Context) (parley.Principal, error) { return parley.Local, who },
		Now:       s.now,
		Fail: func(w http.ResponseWriter, err error) {
			w.WriteHeader(400)
			fmt.Fprintf(w, "%s: %s", parley.CodeOf(err), err)
		},
	})
}

func TestEntities(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		house        *shack
		who          error
		method, path string
		want         string
	}{
		"list": {
			&shack{}, nil, "GET", "/apps/home/entities",
			`{"connected":true,"indexed_at":"0001-01-01T00:00:00Z","age_ms":0,"areas":[{"id":"b","name":"Bedroom","entities":[{"entity_id":"light.a","name":"Lamp","domain":"light","state":"off","available":true}]}]}`,
		},
		"history of a day":   {&shack{}, nil, "GET", "/apps/home/entities/light.a/history", `{"entity_id":"light.a","name":"A","from":3600000,"to":90000000,"zone":"UTC","points":[],"states":[[7,"on"]],"marks":[]}`},
		"history of an hour": {&shack{}, nil, "GET", "/apps/home/entities/light.a/history?hours=0.5", `{"entity_id":"light.a","name":"A","from":88200000,"to":90000000,"zone":"UTC","points":[],"states":[[7,"on"]],"marks":[]}`},
		"numbers": {
			&shack{}, nil, "GET", "/apps/home/entities/sensor.v/history?from=1970-01-02T00:00:00Z&to=1970-01-02T03:00:00%2b02:00",
			`{"entity_id":"sensor.v","name":"A","unit":"V","from":86400000,"to":90000000,"zone":"UTC","points":[[0,230],[1,190],[2,null]],"states":[],"marks":[{"at":1,"state":"190"}]}`,
		},
		"too long":           {&shack{}, nil, "GET", "/apps/home/entities/light.a/history?hours=745", "invalid: hours has to be a number up to 744"},
		"no number":          {&shack{}, nil, "GET", "/apps/home/entities/light.a/history?hours=NaN", "invalid: hours has to be a number up to 744"},
		"no time":            {&shack{}, nil, "GET", "/apps/home/entities/light.a/history?from=now&to=now", "invalid: from has to be a time"},
		"half a window":      {&shack{}, nil, "GET", "/apps/home/entities/light.a/history?from=1970-01-02T00:00:00Z", "invalid: to has to be a time"},
		"backwards":          {&shack{}, nil, "GET", "/apps/home/entities/light.a/history?from=1970-01-02T00:00:00Z&to=1970-01-01T00:00:00Z", "invalid: to has to be after from, by at most 744 hours"},
		"a long window":      {&shack{}, nil, "GET", "/apps/home/entities/light.a/history?from=1970-01-02T00:00:00Z&to=1970-03-01T00:00:00Z", "invalid: to has to be after from, by at most 744 hours"},
		"nobody":             {&shack{}, parley.Errorf(parley.CodeForbidden, "who are you"), "GET", "/apps/home/entities", "forbidden: who are you"},
		"away":               {&shack{away: parley.Errorf(parley.CodeUnavailable, "gone")}, nil, "GET", "/apps/home/entities", "unavailable: gone"},
		"away, and a stream": {&shack{away: parley.Errorf(parley.CodeUnavailable, "gone")}, nil, "GET", "/apps/home/entities/stream", "unavailable: gone"},
		"a change":           {&shack{}, nil, "POST", "/apps/home/entities", "invalid: entities can only be read"},
		"nothing":            {&shack{}, nil, "GET", "/apps/home/entities/light.a", "not_found: there is nothing at /apps/home/entities/light.a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			c.house.now = func() time.Time { return time.UnixMilli(90_000_000) }
			panelOf(c.house, c.who).ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
			if diff := cmp.Diff(c.want, w.Body.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestStream_tells_what_changes: the stream begins with the age of the house's data and the
// latest changes. Then it sends each change, the newest of those that come together, and
// regular signs that the house is still connected.
func TestStream_tells_what_changes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shack{at: time.Now().Add(-time.Second)}
		w := httptest.NewRecorder()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			panelOf(s, nil).ServeHTTP(w, httptest.NewRequest("GET", "/apps/home/entities/stream", nil).WithContext(ctx))
		}()
		synctest.Wait()
		at := time.Now().UTC()
		s.feed.Observe(home.Change{Entity: "light.a", State: "on", At: at})
		s.feed.Observe(home.Change{Entity: "light.b", State: "on", At: at})
		s.feed.Observe(home.Change{Entity: "light.a", State: "unavailable", At: at})
		s.feed.Observe(home.Change{Entity: "light.gone", At: at})
		time.Sleep(16 * time.Second)
		synctest.Wait()
		stop()
		<-done
		stamp := `"last_changed":"` + at.Format(time.RFC3339Nano) + `"`
		want := strings.Join([]string{
			`data: {"connected":true,"age_ms":0}`,
			`data: {"entity_id":"light.a","state":"off","last_changed":"` + at.Add(-time.Second).Format(time.RFC3339Nano) + `","available":true}`,
			`data: {"entity_id":"light.a","state":"unavailable",` + stamp + `,"available":false}`,
			`data: {"entity_id":"light.b","state":"on",` + stamp + `,"available":true}`,
			`data: {"connected":true,"age_ms":0}`, "",
		}, "\n\n")
		if diff := cmp.Diff(strings.ReplaceAll(want, "+00:00", "Z"), w.Body.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestFeed_waits_for_nobody: a slow reader is cut off, and a reader that is there when the feed
// ends is told.
func TestFeed_waits_for_nobody(t *testing.T) {
	t.Parallel()
	var f home.Feed
	slow, stopSlow := f.Follow()
	for range 2000 {
		f.Observe(home.Change{Entity: "light.a", State: "on"})
	}
	n := 0
	for range slow {
		n++
	}
	if n == 0 || n == 2000 {
		t.Errorf("the slow reader got %d of 2000", n)
	}
	stopSlow()
	other, stop := f.Follow()
	f.Close()
	if _, ok := <-other; ok {
		t.Error("a feed that ended goes on")
	}
	stop()
	late, _ := f.Follow()
	if _, ok := <-late; ok {
		t.Error("a feed that ended begins")
	}
}

// busyHouse takes a second for each history, and records their order.
type busyHouse struct {
	shack
	mu         sync.Mutex
	order      []string
	runs, most int // at once
}

func (b *busyHouse) Past(ctx context.Context, id string, from, to time.Time) (home.History, error) {
	b.mu.Lock()
	b.order = append(b.order, id)
	b.runs++
	b.most = max(b.most, b.runs)
	b.mu.Unlock()
	time.Sleep(time.Second)
	b.mu.Lock()
	b.runs--
	b.mu.Unlock()
	return b.shack.Past(ctx, id, from, to)
}

type userKey struct{}

// TestHistoriesGoByTurnsOfUsers: a user who requests many histories at once does not delay
// other users, and requests over the limit are refused.
func TestHistoriesGoByTurnsOfUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		house := &busyHouse{}
		h := home.Entities(home.EntityOptions{
			House: house,
			Principal: func(ctx context.Context) (parley.Principal, error) {
				return parley.Principal{User: ctx.Value(userKey{}).(string)}, nil
			},
			Fail: func(w http.ResponseWriter, err error) {
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, parley.CodeOf(err), parley.Info(err).Hint)
			},
		})
		var all sync.WaitGroup
		refused := 0
		ask := func(user string) {
			all.Go(func() {
				r := httptest.NewRequest(http.MethodGet, "/apps/home/entities/"+user+"/history", nil)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user))); w.Code != 200 {
					house.mu.Lock()
					defer house.mu.Unlock()
					if refused++; !strings.HasPrefix(w.Body.String(), "rate_limitedask") {
						t.Errorf("refused with %s", w.Body)
					}
				}
			})
			synctest.Wait()
		}
		for range 50 {
			ask("ann")
		}
		if len(house.order) != 4 || refused != 50-4-32 {
			t.Errorf("ann alone has %d at once, and %d are refused", len(house.order), refused)
		}
		ask("ben")
		ask("cleo")
		all.Wait()
		if next := house.order[4:8]; !slices.Contains(next, "ben") || !slices.Contains(next, "cleo") || len(house.order) != 38 {
			t.Errorf("the others wait behind ann: %v", house.order)
		}
		if house.most != 4 {
			t.Errorf("the house is asked for %d histories at once", house.most)
		}
	})
}
