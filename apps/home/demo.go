package home

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
)

// demo is the simulated house of parley demo.
func demo(flags *pflag.FlagSet) func(*config.Settings, *slog.Logger) (func(), error) {
	var d Demo
	flags.StringSliceVar(&d.Allow, "allow", nil, "services that agents may call in the simulated house, after asking, such as light.turn_off or light.* (default none)")
	flags.StringVar(&d.Story, "story", "", "what happened in the simulated house last night: voltage_dip, zigbee_interference, automation_loop or quiet (default voltage_dip)")
	return func(s *config.Settings, log *slog.Logger) (func(), error) { return d.Furnish(s, log) }
}

// Demo is a simulated house. The zero value is a house with the usual story, in which agents may
// not act.
type Demo struct {
	Story string   // what happened in the house last night
	Allow []string // services that agents may call, after asking
}

// Furnish starts the house and gives it to the app. If the settings name a real house, it does
// nothing and stop is nil. Agents may act in the house as the settings and Allow permit. It listens
// on loopback, with a token that nobody else knows.
func (d Demo) Furnish(s *config.Settings, log *slog.Logger) (stop func(), err error) {
	known := sim.Stories()
	if d.Story != "" && !slices.Contains(known, sim.Story(d.Story)) {
		var list []string
		for _, k := range known {
			list = append(list, string(k))
		}
		return nil, parley.Errorf(parley.CodeInvalid, "there is no story %q", parley.Cut(d.Story, 60)).WithHint("stories: %s", strings.Join(list, ", "))
	}
	own := s.App[name]
	if url, _ := address(s.Env, own.URL, ""); url != "" {
		return nil, nil
	}
	own.Token = rand.Text()
	if own.URL, stop, err = simulate(sim.Options{Token: own.Token, Story: sim.Story(d.Story)}, log); err != nil {
		return nil, err
	}
	if len(d.Allow) > 0 {
		yes := true
		own.AllowActuation, own.AllowlistedServices = &yes, d.Allow
	}
	if s.App = maps.Clone(s.App); s.App == nil {
		s.App = map[string]config.AppSettings{}
	}
	s.App[name] = own
	return stop, nil
}

// simulate runs a simulated house until stop.
func simulate(o sim.Options, log *slog.Logger) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, parley.Errorf(parley.CodeUnavailable, "listen for the simulated house: %w", err)
	}
	house := sim.New(o)
	srv := &http.Server{Handler: house, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	life, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { house.Run(life, time.Second) })
	running.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the simulated house ended", "reason", err)
		}
	})
	return "http://" + l.Addr().String(), func() {
		end()
		house.Close()
		_ = srv.Close()
		running.Wait()
	}, nil
}
