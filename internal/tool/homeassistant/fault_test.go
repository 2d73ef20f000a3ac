package homeassistant_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

func TestAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	r.house.SetFaults(sim.Faults{Down: true})
	r.when("the connection is gone", func() bool { return !r.tools.Index().Age().Live })
	night := with(lastNight, m{"entities": []string{"light.bedroom_ceiling"}})
	r.refused("ha_history", night, parley.CodeUnavailable, "cannot be reached", "reconnects by itself")
	r.refused("ha_logbook", night, parley.CodeUnavailable, "cannot be reached")
	r.refused("analyze_errors", m{}, parley.CodeUnavailable, "cannot be reached")
	r.refused("diagnose_entity", m{"entity": "light.bedroom_ceiling"}, parley.CodeUnavailable, "cannot be reached")
	r.refused("ha_call_service", m{"service": "light.turn_on", "target": m{"entity_id": "light.bedroom_ceiling"}}, parley.CodeUnavailable, "cannot be reached")
	text, _ := r.ok("ha_state_query", m{"entities": []string{"light.bedroom_ceiling"}})
	has(t, text, "could not be asked now", "last known states", "light.bedroom_ceiling = off", "old and may be out of date")
	text, _ = r.ok("index_search", m{"query": "bedroom ceiling"})
	has(t, text, "light.bedroom_ceiling", "old and may be out of date", "cannot be reached")
	text, _ = r.ok("ha_analyze", m{"sql": "SELECT count(*) FROM states"})
	has(t, text, "old and may be out of date")

	r.house.SetFaults(sim.Faults{})
	text, _ = r.ok("ha_history", night) // the call itself has the connection made
	has(t, text, "light.bedroom_ceiling")
	r.live()
}

func TestNeverThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.URL = "http://127.0.0.1:1" })
	r.refused("index_search", m{"query": "light"}, parley.CodeUnavailable, "http://127.0.0.1:1", "refused")
	if a := r.tools.Index().Age(); a.Known || a.Live {
		t.Errorf("got %+v, want an index that was never filled", a)
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.Timeout = time.Second })
	r.live()
	r.house.SetFaults(sim.Faults{Delay: time.Minute})
	in := m{"entities": []string{"light.bedroom_ceiling"}}
	r.refused("ha_history", in, parley.CodeTimeout, "did not answer")
	r.refused("ha_logbook", in, parley.CodeTimeout, "did not answer")
	r.house.SetFaults(sim.Faults{})
	r.house.Disconnect() // a command that hangs holds up those behind it
	r.when("it works again", func() bool { return r.run("ha_history", in).Outcome == parley.OutcomeOK })
}

// TestRevoked: a rejected token is reported, is not tried in a loop, and works again without a
// restart once it is valid.
func TestRevoked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	r.house.SetFaults(sim.Faults{Unauthorized: true})
	r.when("the token is refused", func() bool {
		why := r.tools.Index().Age().Why
		return why != "" && r.run("analyze_errors", m{}).Error.Code == parley.CodeUnauthenticated
	})
	r.refused("ha_history", m{"entities": []string{"light.bedroom_ceiling"}}, parley.CodeUnauthenticated, "refuses the token", "revoked", "HOME_ASSISTANT_TOKEN")
	r.refused("ha_logbook", m{}, parley.CodeUnauthenticated, "refuses the token")
	text, _ := r.ok("index_search", m{"query": "bedroom ceiling"})
	has(t, text, "refuses the token")
	r.house.SetFaults(sim.Faults{})
	r.live()
	r.ok("ha_history", m{"entities": []string{"light.bedroom_ceiling"}})
}

func TestWrongTokenFromTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.Token = "nonsense-token" })
	r.refused("index_search", m{}, parley.CodeUnauthenticated, "refuses the token")
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	r.house.SetFaults(sim.Faults{Malformed: 2}) // the first answer, and the first on the next connection
	res := r.run("ha_history", m{"entities": []string{"light.bedroom_ceiling"}})
	if res.Outcome == parley.OutcomeError {
		has(t, res.Output, "violates its protocol")
	}
	r.when("it works again", func() bool {
		return r.run("ha_history", m{"entities": []string{"light.bedroom_ceiling"}}).Outcome == parley.OutcomeOK
	})
	has(t, r.logged(), "violates its protocol")
}

func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 5 {
		r.live()
		r.house.Restart()
		r.ok("ha_history", m{"entities": []string{"light.bedroom_ceiling"}})
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(so *sim.Options, o *homeassistant.Options) { so.Days, o.MaxMessage = 8, 300_000 })
	r.live()
	res := r.run("ha_history", m{"entities": []string{"sensor.mains_*"}, "hours": 190})
	if res.Outcome != parley.OutcomeError || res.Error.Code != parley.CodeTooLarge {
		t.Fatalf("got %s %s, want too_large", res.Outcome, res.Output)
	}
	has(t, res.Output, "300000 bytes", "shorter time")
	r.ok("ha_history", m{"entities": []string{"lock.front_door"}})
}

// TestSupervisor: in an add-on everything goes by the Supervisor's proxy.
func TestSupervisor(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.URL, o.Token = "/core", "supervisor" })
	text, _ := r.ok("diagnose_entity", with(lastNight, m{"entity": "light.bedroom_ceiling"}))
	has(t, text, "heat_pump_compressor")
	r.house.SetFaults(sim.Faults{Down: true})
	r.when("the proxy says so", func() bool { return r.run("analyze_errors", m{}).Error != nil })
	r.refused("ha_logbook", m{}, parley.CodeUnavailable, "its proxy answered with status 502")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, o := range []homeassistant.Options{
		{URL: "homeassistant.local:8123", Token: "t"},
		{URL: "ftp://host", Token: "t"},
		{URL: "http://", Token: "t"},
		{URL: "http://ana:hunter2@host:8123", Token: "t"},
		{URL: "http://host:8123/?token=hunter2", Token: "t"},
		{URL: "http://host:8123"},
		{URL: "http://host:8123", Token: "t", AllowServices: []string{"light"}},
	} {
		_, err := homeassistant.New(o)
		if !errors.Is(err, &parley.Error{Code: parley.CodeInvalid}) {
			t.Errorf("%+v: got %v, want invalid", o, err)
			continue
		}
		hasNot(t, err.Error()+parley.Info(err).Hint, "hunter2")
	}
}

// TestManyAtOnce: one socket carries the commands of many, whose ids have to
// increase on the wire.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			in := m{"entities": []string{"light.bedroom_ceiling"}}
			if i%4 == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
				defer cancel()
				r.box.Run(ctx, seam.Run{Call: r.call(), Name: "ha_history", Input: []byte(`{"entities":["light.bedroom_ceiling"]}`)}, time.Time{})
				return
			}
			r.ok("ha_history", in)
		})
	}
	all.Wait()
	hasNot(t, r.logged(), "no connection") // one that gives up takes no other with it
}

// TestHeartbeat: a connection that is silent is asked, and lives on.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.Heartbeat = 5 * time.Millisecond })
	r.live()
	wait := time.NewTimer(60 * time.Millisecond)
	defer wait.Stop()
	<-wait.C
	if !r.tools.Index().Age().Live {
		t.Error("the connection was given up")
	}
	hasNot(t, r.logged(), "no connection")
}

func TestClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	r.tools.Close()
	r.refused("ha_history", m{"entities": []string{"light.bedroom_ceiling"}}, parley.CodeUnavailable, "Parley is stopping")
	r.tools.Close()
}
