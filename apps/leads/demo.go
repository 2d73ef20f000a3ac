package leads

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/sim/crm"
)

// crmAddress is where the demo's CRM is, if that is free, so that its page can be found again.
const crmAddress = "127.0.0.1:8090"

// Demo is the simulated CRM of parley demo, with a page of its own. The page's sidecar speaks to the
// server that the demo is part of, whose address is known once it listens.
type Demo struct {
	crm atomic.Pointer[crm.Server] // nil: it is not simulated
	url atomic.Pointer[string]     // where its page is, likewise
}

// Listening is [app.App.Listening].
func (d *Demo) Listening(url string) {
	if s := d.crm.Load(); s != nil {
		s.Connect(url)
	}
}

// Look is [app.App.Look].
func (d *Demo) Look() string {
	url := d.url.Load()
	if url == nil {
		return ""
	}
	u := crm.Users()[0]
	return fmt.Sprintf("A page with the panel of the app leads: %s (log in as %s, password %s)", *url, u.Email, u.Password)
}

// prepare is [app.App.Demo].
func (d *Demo) prepare(flags *pflag.FlagSet) func(*config.Settings, *slog.Logger) (func(), error) {
	addr := flags.String("crm-addr", crmAddress, "`address` of the simulated CRM; another port of this machine if it is taken")
	return func(s *config.Settings, log *slog.Logger) (func(), error) { return d.Furnish(s, *addr, log) }
}

// Furnish starts the CRM and gives it to the app. Its data is in the folder demo of the data folder,
// and stays. If the settings or variables name a real API, it does nothing and stop is nil.
func (d *Demo) Furnish(s *config.Settings, addr string, log *slog.Logger) (stop func(), err error) {
	own := s.App[name]
	if own.URL != "" || s.Env("PLG_API_BASE_URL") != "" {
		return nil, nil
	}
	folder, err := filepath.Abs(filepath.Join(s.Data, "demo"))
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "make the demo's folder: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "listen for the simulated CRM: %w", err)
		}
	}
	service := crm.New(crm.Options{File: filepath.Join(folder, "crm.db")})
	d.crm.Store(service)
	srv := &http.Server{Handler: service, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	var running sync.WaitGroup
	running.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the simulated CRM ended", "reason", err)
		}
	})
	own.URL = "http://" + l.Addr().String()
	own.IdentityURL = own.URL + "/api/me"
	if s.App = maps.Clone(s.App); s.App == nil {
		s.App = map[string]config.AppSettings{}
	}
	s.App[name] = own
	d.url.Store(&own.URL)
	return func() {
		_ = srv.Close()
		running.Wait()
		if err := service.Close(); err != nil {
			log.Warn("the simulated CRM was not closed", "reason", err)
		}
	}, nil
}
