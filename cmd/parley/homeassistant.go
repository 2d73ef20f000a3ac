package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// supervisor is the address at which an add-on finds Home Assistant.
const supervisor = "http://supervisor/core"

// homeAddress is the URL and token of an app's Home Assistant: from its settings, else
// from the usual variables, else the Supervisor of an add-on.
func homeAddress(s config.Settings, t config.Toolset) (url, token string) {
	if t.URL != "" {
		return t.URL, cmp.Or(t.Token, s.Env("HOME_ASSISTANT_TOKEN"))
	}
	if u := s.Env("HOME_ASSISTANT_URL"); u != "" {
		return u, cmp.Or(t.Token, s.Env("HOME_ASSISTANT_TOKEN"))
	}
	if token := s.Env("SUPERVISOR_TOKEN"); token != "" {
		return supervisor, token
	}
	return "", ""
}

// newHome makes the tools of a Home Assistant.
func newHome(d serviceDeps) (service, error) {
	url, token := homeAddress(d.settings, d.toolset)
	if url == "" {
		if !d.check {
			return service{}, &offError{"no Home Assistant is set up: set HOME_ASSISTANT_URL and HOME_ASSISTANT_TOKEN"}
		}
		url, token = supervisor, "none" // only its declarations are read
	}
	var allowed []string
	if p := d.app.Policy; p.AllowActuation != nil && *p.AllowActuation {
		allowed = p.AllowlistedServices
	}
	feed := &home.Feed{}
	var told atomic.Pointer[func(engine.Observation)]
	tools, err := homeassistant.New(homeassistant.Options{
		URL: url, Token: token, AllowServices: allowed, Later: true, Logger: d.log,
		Keep: func(_ context.Context, r seam.Run, f homeassistant.File) error { return r.Keep(seam.File(f)) },
		Observe: func(c homeassistant.Change) {
			feed.Observe(home.Change{Entity: c.Entity, State: d.clean(c.New), At: c.At})
			if tell := told.Load(); tell != nil && c.Old != c.New {
				(*tell)(engine.Observation{App: d.app.Name, Source: "homeassistant", Ref: c.Entity, Text: c.Old + " → " + c.New, At: c.At})
			}
		},
	})
	if err != nil {
		return service{}, parley.Errorf(parley.CodeInvalid, "app %s: %w", d.app.Name, err)
	}
	return service{
		Toolset: tools, secrets: []string{token}, start: tools.Start,
		close: func() { feed.Close(); tools.Close() },
		house: panel{tools, feed, d.clean},
		meta: func() any {
			if m, ok := tools.Index().Meta(); ok {
				return m
			}
			return nil
		},
		observe: func(tell func(engine.Observation)) { told.Store(&tell) },
	}, nil
}

// panel shows the index of the tools as the page wants it.
type panel struct {
	tools *homeassistant.Toolset
	feed  *home.Feed
	clean func(string) string
}

// maxListed is the most entities that a page gets.
const maxListed = 3000

func (p panel) Changes() *home.Feed { return p.feed }

// Listing omits what a house hides: disabled and hidden entities, and those for diagnosis
// and configuration.
func (p panel) Listing(context.Context) (home.Listing, error) {
	age := p.tools.Index().Age()
	if !age.Known {
		return home.Listing{}, parley.Errorf(parley.CodeUnavailable, "%s", cmp.Or(age.Why, "the house has not been read yet")).WithRetry(2 * time.Second)
	}
	l := home.Listing{Connected: age.Live, IndexedAt: time.Now().Add(-age.Old).UTC(), AgeMS: age.Old.Milliseconds(), Areas: []home.Area{}}
	at := map[string]int{}
	for _, a := range p.tools.Index().Areas() {
		at[a.ID] = len(l.Areas)
		l.Areas = append(l.Areas, home.Area{ID: a.ID, Name: a.Name, Entities: []home.Entity{}})
	}
	rest := home.Area{Entities: []home.Entity{}}
	n := 0
	for _, e := range p.tools.Index().Entities() {
		if e.Disabled || e.Hidden || e.Category != "" || n == maxListed {
			continue
		}
		n++
		into := &rest
		if i, ok := at[e.AreaID]; ok {
			into = &l.Areas[i]
		}
		into.Entities = append(into.Entities, home.NewEntity(home.Entity{
			ID: e.ID, Name: p.clean(e.Name), DeviceClass: e.DeviceClass, State: p.clean(e.State), Unit: e.Unit, LastChanged: e.Changed,
		}))
	}
	l.Areas = slices.DeleteFunc(append(l.Areas, rest), func(a home.Area) bool { return len(a.Entities) == 0 })
	return l, nil
}

func (p panel) Past(ctx context.Context, entity string, from, to time.Time) (home.History, error) {
	c, err := p.tools.Past(ctx, entity, from, to)
	if err != nil {
		return home.History{}, err
	}
	s := c.Series[0]
	h := home.History{
		ID: s.ID, Name: p.clean(s.Name), Unit: s.Unit, DeviceClass: s.DeviceClass, From: c.From, To: c.To, Zone: c.Zone,
		Points: []home.Point{}, States: []home.State{}, Marks: []home.Mark{}, Thinned: s.Thinned,
	}
	for _, v := range s.Points {
		h.Points = append(h.Points, home.Point{At: v.At.UnixMilli(), Value: v.Value, None: v.None})
	}
	for _, st := range s.States {
		h.States = append(h.States, home.State{At: st.At.UnixMilli(), State: p.clean(st.State)})
	}
	for _, m := range s.Marks {
		h.Marks = append(h.Marks, home.Mark(m))
	}
	return h, nil
}

// entityDoors mounts the panel of each app that has one.
func entityDoors(t *table, d wireDeps) {
	byApp := map[string]http.Handler{}
	for name, p := range d.houses {
		byApp[name] = home.Entities(home.EntityOptions{House: p, Principal: d.principal, Fail: api.WriteError, Open: d.api.Open})
	}
	serve := packed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("app")
		if h := byApp[name]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		if _, err := d.engine.App(name); err != nil {
			api.WriteError(w, err)
			return
		}
		api.WriteError(w, parley.Errorf(parley.CodeNotFound, "the app %q has no entities to show", name))
	}))
	t.Handle("/apps/{app}/entities", serve)
	t.Handle("/apps/{app}/entities/", serve)
}

// demoHouse is the simulated house of parley demo.
type demoHouse struct {
	url, token string
	close      func()
}

// startHouse runs a simulated house until close, at a local address whose token nobody
// else knows.
func startHouse(story sim.Story, log *slog.Logger) (*demoHouse, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "listen for the simulated house: %w", err)
	}
	d := &demoHouse{url: "http://" + l.Addr().String(), token: rand.Text()}
	house := sim.New(sim.Options{Token: d.token, Story: story})
	srv := newServer(house, config.Limits{}, log)
	life, end := context.WithCancel(context.Background())
	var done [2]chan struct{}
	for i, run := range []func(){
		func() { house.Run(life, time.Second) },
		func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				log.Error("the simulated house ended", "reason", err)
			}
		},
	} {
		done[i] = make(chan struct{})
		go func() { defer close(done[i]); run() }()
	}
	d.close = func() {
		end()
		house.Close()
		_ = srv.Close()
		<-done[0]
		<-done[1]
	}
	return d, nil
}

// furnish gives the demo a simulated house if no real one is configured. Agents may act
// in it as the settings and allow permit: services, after asking. The caller closes it;
// nil if there is none.
func furnish(s *config.Settings, story string, allow []string, log *slog.Logger) (*demoHouse, error) {
	known := sim.Stories()
	if story != "" && !slices.Contains(known, sim.Story(story)) {
		var list []string
		for _, k := range known {
			list = append(list, string(k))
		}
		return nil, usage(parley.Errorf(parley.CodeInvalid, "there is no story %q", parley.Cut(story, 60)).WithHint("stories: %s", strings.Join(list, ", ")))
	}
	own := s.App["home"]
	if url, _ := homeAddress(*s, config.Toolset{URL: own.URL}); url != "" {
		return nil, nil
	}
	d, err := startHouse(sim.Story(story), log)
	if err != nil {
		return nil, err
	}
	if len(allow) > 0 {
		yes := true
		own.AllowActuation, own.AllowlistedServices = &yes, allow
	}
	own.URL, own.Token = d.url, d.token
	list := map[string]config.AppSettings{"home": own}
	for name, a := range s.App {
		if name != "home" {
			list[name] = a
		}
	}
	s.App = list
	return d, nil
}

var _ seam.Retriever = (*homeassistant.Toolset)(nil)
