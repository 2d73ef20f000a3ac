package notes

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	simlinkedin "github.com/parley-server/parley/internal/sim/linkedin"
	"github.com/parley-server/parley/internal/sim/website"
	"github.com/parley-server/parley/internal/tool/linkedin"
)

// demo prepares what parley demo has for the app: a vault of two persons, a LinkedIn, and a few
// pages of the web.
func demo(*pflag.FlagSet) func(*config.Settings, *slog.Logger) (func(), error) {
	return func(s *config.Settings, log *slog.Logger) (func(), error) {
		git, err := exec.LookPath("git")
		if err != nil {
			git = ""
		}
		return Demo{Git: git}.Furnish(context.Background(), s, log)
	}
}

// Demo is the demo of the app.
type Demo struct {
	Git string           // the git program; "": there is none
	Now func() time.Time // nil: time.Now
}

// Furnish makes everything in the folder demo of the data folder, where it stays, and gives it to
// the app. What the settings or the variables of the server name is not simulated.
func (d Demo) Furnish(ctx context.Context, s *config.Settings, log *slog.Logger) (stop func(), err error) {
	own := s.App[name]
	if d.Now == nil {
		d.Now = time.Now
	}
	folder, err := filepath.Abs(filepath.Join(s.Data, "demo"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "make the demo's folder: %w", err)
	}
	h := host{folder: folder, log: log}
	defer func() {
		if err != nil {
			h.stop()
		}
	}()
	if own.Granted.Dir == "" {
		own.Granted.Dir = filepath.Join(folder, "notes")
		if d.Git == "" {
			log.Info("there is no git program, so the demo's notes have no history")
		}
		if err := LayVault(ctx, own.Granted.Dir, d.Git, d.Now()); err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "make the demo's notes: %w", err)
		}
		log.Info("the demo's notes", "folder", own.Granted.Dir)
	}
	if s.Vault.Keys == "" {
		if s.Vault.Keys, err = key(filepath.Join(folder, "vault.key")); err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "make the key of the demo's vault: %w", err)
		}
	}
	if s.Env("LINKEDIN_CLIENT_ID") == "" && own.URL == "" {
		o := Network(d.Now())
		o.ClientID, o.ClientSecret, o.File = "parley-demo", rand.Text(), filepath.Join(folder, "linkedin.json")
		url, err := h.serve("linkedin", simlinkedin.New(o))
		if err != nil {
			return nil, err
		}
		for name, value := range map[string]string{
			"LINKEDIN_CLIENT_ID": o.ClientID, "LINKEDIN_CLIENT_SECRET": o.ClientSecret, "LINKEDIN_URL": url,
			"LINKEDIN_SCOPES": "openid profile w_member_social r_member_social",
		} {
			s.Setenv(name, value)
		}
	}
	web, err := h.serve("web", website.New())
	if err != nil {
		return nil, err
	}
	log.Info("the demo's pages of the web", "url", web)
	own.WebAllow = append(slices.Clone(own.WebAllow), web[len("http://"):])
	if len(s.Models.Providers) == 0 && s.Env("BRAVE_API_KEY") == "" && s.Env("TAVILY_API_KEY") == "" {
		s.Setenv("SEARXNG_URL", web) // what a provider's model searches is the web
	}
	if s.App = maps.Clone(s.App); s.App == nil {
		s.App = map[string]config.AppSettings{}
	}
	s.App[name] = own
	return h.stop, nil
}

// Network is the LinkedIn of the demo: its two members, and what they have posted.
func Network(now time.Time) simlinkedin.Options {
	o := simlinkedin.Options{
		Back:     linkedin.CallbackPath,
		Settings: simlinkedin.Settings{Reading: true, Refreshing: true},
		Chatter: [][2]string{
			{"amira-haddad", "Thank you for sharing this. How many people are involved by now?"},
			{"tomasz-nowak", "Proud to be a part of it!"},
			{"nele-christiansen", "This should be read by more people. May I quote it in our newsletter?"},
			{"ilse-marquardt", "What was the hardest part?"},
			{"karl-winter", "We are planning something similar. Could we talk about it next week?"},
		},
	}
	for _, p := range people {
		o.Members = append(o.Members, simlinkedin.Member{ID: p.name, Name: p.full, Email: p.mail})
	}
	at := func(days int) time.Time { return now.AddDate(0, 0, days).Truncate(time.Second) }
	o.Posts = []simlinkedin.Post{
		{
			URN: "urn:li:share:7012345678000000101", Activity: "urn:li:activity:7012345678000000102", Author: "urn:li:person:petra", At: at(-12),
			Text: "We asked 260 children what their schoolyard should be. Nobody drew asphalt. 41 drew a place to hide. What would you have drawn?",
		},
		{
			URN: "urn:li:share:7012345678000000202", Activity: "urn:li:activity:7012345678000000203", Author: "urn:li:person:sebastian", At: at(-13),
			Text: "I speak at the Nordic Mobility Days in Copenhagen: what 40 bikes told us, and a dashboard did not. Who will be there?",
		},
	}
	for i, p := range o.Posts {
		o.Posts[i].Commentary = p.Text
	}
	say := func(post int, id, who, text string, days int) {
		on := o.Posts[post].Activity
		o.Comments = append(o.Comments, simlinkedin.Comment{
			ID: id, URN: "urn:li:comment:(" + on + "," + id + ")", Actor: "urn:li:person:" + who, Object: on, Text: text, At: at(days),
		})
	}
	say(0, "7012345678000000111", "amira-haddad", "A tree that one may climb. And a place where nobody says: careful!", -11)
	say(0, "7012345678000000112", "karl-winter", "Can you show some of the drawings?", -10)
	say(1, "7012345678000000211", "nele-christiansen", "We will be there with half of the team.", -12)
	say(1, "7012345678000000212", "ilse-marquardt", "Will there be a recording?", -9)
	return o
}

// key returns the key in a file, which is made if it is missing.
func key(file string) (string, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // in the data folder
	if errors.Is(err, fs.ErrNotExist) {
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails
		raw = []byte(base64.StdEncoding.EncodeToString(b[:]) + "\n")
		err = os.WriteFile(file, raw, 0o600)
	}
	return string(raw), err
}

// host serves what is simulated, on loopback. Each has the port of the last time if it is free, so
// that links that are in a log or a note still lead there.
type host struct {
	folder  string
	log     *slog.Logger
	servers []*http.Server
	running sync.WaitGroup
}

func (h *host) serve(name string, to http.Handler) (url string, err error) {
	file := filepath.Join(h.folder, "addresses.json")
	known := map[string]string{}
	if raw, err := os.ReadFile(file); err == nil { //nolint:gosec // in the data folder
		_ = json.Unmarshal(raw, &known) // else a port is chosen
	}
	var l net.Listener
	if at, err := netip.ParseAddrPort(known[name]); err == nil && at.Addr().IsLoopback() {
		l, _ = net.Listen("tcp", known[name])
	}
	if l == nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", parley.Errorf(parley.CodeUnavailable, "listen for the demo's %s: %w", name, err)
		}
		known[name] = l.Addr().String()
		raw, err := json.Marshal(known)
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			h.log.Warn("the demo's addresses cannot be kept", "err", err)
		}
	}
	srv := &http.Server{Handler: to, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug)}
	h.servers = append(h.servers, srv)
	h.running.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.log.Error("what the demo simulates ended", "name", name, "reason", err)
		}
	})
	return "http://" + l.Addr().String(), nil
}

func (h *host) stop() {
	for _, srv := range h.servers {
		_ = srv.Close()
	}
	h.running.Wait()
}
