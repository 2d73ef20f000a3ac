package program

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
)

// issuers asks every provider of logins for its keys, and says what would keep people out.
func (d *doctor) issuers(ctx context.Context, s config.Settings) {
	all, err := newIssuers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		d.fail("login", err)
		return
	}
	if all == nil {
		return
	}
	defer all.Close()
	base := s.PublicURL
	if base == "" && isLoopback(s.Addr) {
		base = "http://" + s.Addr
	}
	for _, name := range names(s.Auth.Issuers) {
		warnings, wrong := all.Check(ctx, name, base)
		if wrong != nil {
			d.fail("login", parley.Errorf(parley.CodeOf(wrong), "the issuer %s: %w", name, wrong).WithHint("%s", parley.Info(wrong).Hint))
			continue
		}
		for _, text := range warnings {
			d.warn("login", "the issuer %s: %s", name, text)
		}
		says := "the issuer " + name + " answers, and has keys"
		if s.Auth.Issuers[name].Login.ClientID != "" {
			says += "; it has to know " + base + "/v1/signin/" + name + "/callback as an address to return to"
		}
		d.ok("login", "%s", says)
	}
}

func (d *doctor) address(ctx context.Context, s config.Settings) {
	who, err := newEntrance(s)
	if err != nil {
		d.fail("address", err)
		return
	}
	for _, n := range who.notices {
		d.warn("login", "%s (%s)", n, unsafeVariable)
	}
	if how := who.says(); how != "" {
		d.ok("login", "%s", strings.TrimPrefix(how, "login: "))
	}
	d.issuers(ctx, s)
	if d.report.Server != nil {
		d.ok("address", "%s", cmp.Or(d.report.Server.Address, s.Addr))
		return
	}
	l, err := listenTCP(s.Addr)
	if err == nil {
		_ = l.Close()
		d.ok("address", "%s is free", s.Addr)
		return
	}
	brief, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	other, oerr := client.New(client.Options{BaseURL: "http://" + s.Addr}).Server(brief)
	switch {
	case oerr == nil && other.Version != "":
		d.caution("address", parley.Errorf(parley.CodeConflict, "parley %s listens on %s, with another data folder", other.Version, s.Addr).
			WithHint("name its folder with --data, or another address with --addr"))
	case parley.CodeOf(oerr) == parley.CodeUnauthenticated:
		d.caution("address", parley.Errorf(parley.CodeConflict, "a server that asks for a key listens on %s, with another data folder", s.Addr).
			WithHint("if it is parley, name its folder with --data; or name another address with --addr"))
	default:
		d.caution("address", err)
	}
}
