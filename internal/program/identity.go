package program

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/edge"
	answer "github.com/parley-server/parley/internal/wire"
)

const (
	unsafeVariable = "PARLEY_UNSAFE_NO_AUTH"

	// These are in the data folder, so that backups include them.
	keysFile, signInsFile = "keys.json", "signins.json"
	// keysEvery is how soon streams opened with a key end after the key is revoked.
	keysEvery = 2 * time.Second
)

// entrance identifies those who connect over the network.
type entrance struct {
	mode       auth.Mode
	supervisor netip.Addr
	keys       *auth.Keys
	issuers    *auth.Issuers // nil: tokens are not accepted
	apps       auth.Verifier // tokens that apps accept from their own clients; nil: there are none
	notices    []string      // what everybody should know
}

// newEntrance follows the settings. By default loopback needs no login and other addresses
// need a key. An address that others can reach is refused without a login.
func newEntrance(s config.Settings) (*entrance, error) {
	keys, err := openKeys(s)
	if err != nil {
		return nil, err
	}
	l := &entrance{mode: auth.Mode(s.Auth.Mode), keys: keys}
	if l.supervisor, err = netip.ParseAddr(s.Auth.Supervisor); err != nil {
		return nil, err // config has checked it
	}
	local, unsafe := isLoopback(s.Addr), os.Getenv(unsafeVariable) == "1"
	if l.mode == "" {
		list, err := keys.List()
		switch {
		case err != nil:
			return nil, err
		case len(s.Auth.Issuers) > 0:
			l.mode = auth.ModeKeys
		case local || unsafe || len(list) == 0:
			l.mode = auth.ModeNone
		default:
			l.mode = auth.ModeKeys
		}
	}
	if l.mode != auth.ModeNone || local {
		return l, nil
	}
	if !unsafe {
		return nil, parley.Errorf(parley.CodeForbidden, "%s can be reached from other machines, but no login is set up", s.Addr).
			WithHint("make a key with `parley keys create NAME`, name an issuer of tokens under auth.issuers, listen on 127.0.0.1, or set %s=1 if something else protects the server", unsafeVariable)
	}
	l.notices = append(l.notices, "No login is required: everybody who can reach this server can read and change every session.")
	return l, nil
}

func openKeys(s config.Settings) (*auth.Keys, error) {
	var fixed []auth.Fixed
	for _, name := range names(s.Keys) {
		k := s.Keys[name]
		f := auth.Fixed{Name: name, Secret: k.Key, User: k.User, Org: k.Org, Metrics: k.Metrics, App: k.App}
		f.Expires, _ = config.Until(k.Expires) // config has checked it
		for _, scope := range k.Scopes {
			f.Scopes = append(f.Scopes, auth.Scope(scope))
		}
		fixed = append(fixed, f)
	}
	return auth.OpenKeys(filepath.Join(s.Data, keysFile), fixed)
}

// newIssuers makes the verifier of tokens; nil when the settings name no issuer.
func newIssuers(s config.Settings, log *slog.Logger) (*auth.Issuers, error) {
	var list []auth.Issuer
	for _, name := range names(s.Auth.Issuers) {
		is := s.Auth.Issuers[name]
		list = append(list, auth.Issuer{
			Name: name, URL: is.Issuer, Clerk: is.Claims == "clerk", Audience: is.Audience, Parties: is.Parties, JWKS: is.JWKS,
			Org: is.Org, Orgs: is.Orgs, NeedsOrg: is.RequireOrg, Leeway: time.Duration(is.Leeway), Private: is.Private,
		})
		if in := is.Login; in.ClientID != "" {
			list[len(list)-1].Login = &auth.Login{ClientID: in.ClientID, Secret: in.ClientSecret, Scopes: in.Scopes, Title: in.Title, EndSession: in.EndSession}
		}
	}
	if list == nil {
		return nil, nil
	}
	return auth.NewIssuers(list, auth.IssuersOptions{Logger: log})
}

// bearer identifies the owner of a token that comes in a message of a wire.
func (p *plan) bearer(ctx context.Context, token string) (auth.Identity, error) {
	if p.issuers == nil {
		return auth.Bearer(ctx, token)
	}
	return auth.Bearer(ctx, token, p.issuers)
}

// doorOptions are those of the network.
func (l *entrance) doorOptions(own ownOf) auth.Options {
	verifiers := []auth.Verifier{l.keys}
	if l.issuers != nil {
		verifiers = append(verifiers, l.issuers)
	}
	if l.apps != nil {
		verifiers = append(verifiers, l.apps)
	}
	return auth.Options{Mode: l.mode, Supervisor: l.supervisor, Verifiers: verifiers, Own: own}
}

// hosts are the host names that requests may use. With a login, or if the operator chose
// to run without one, any name is allowed unless the settings list some.
func (l *entrance) hosts(s config.Settings) []string {
	if len(s.Hosts) > 0 || l.mode == auth.ModeNone && isLoopback(s.Addr) {
		return slices.Concat([]string{hostOf(s.Addr)}, s.Hosts, pageHosts(s))
	}
	return nil
}

// open reports whether everybody who reaches the server is let in.
func (l *entrance) open() bool { return l.mode == auth.ModeNone }

// says tells people at the start how to log in.
func (l *entrance) says() string {
	switch l.mode {
	case auth.ModeKeys:
		if l.issuers != nil {
			return "login: by a token or a sign-in of " + strings.Join(names(l.issuers.Names()), ", ") + ", or by key"
		}
		return "login: by key; `parley keys create NAME` makes one"
	case auth.ModeIngress:
		return "login: by Home Assistant, and by key from elsewhere"
	}
	return ""
}

// behind is the house behind a login: nothing that it serves can be reached without one.
func (h *house) behind(guard api.GuardOptions, o auth.Options) http.Handler {
	guard.Logger = h.log
	guard.Redact = func(body []byte) []byte {
		clean, _ := h.writer.RedactFile(body)
		return clean
	}
	guard.Detail = func(r *http.Request) bool { return h.table.HasDetail(r) }
	if o.Verifiers != nil && h.access.SignIns != nil { // the network
		o.SignIns, o.Cookie = h.access.SignIns, h.cookie
	}
	o.Scope, o.Known = scopeOf, edge.Known
	if o.Own == nil {
		o.Own = func(*http.Request) (string, bool) { return "", false }
	}
	o.Open, o.Metrics, o.Fail = func(r *http.Request) bool {
		if _, own := o.Own(r); own {
			return h.own.isOpen(r)
		}
		return h.table.IsOpen(r)
	}, func(r *http.Request) bool { return h.table.At(r) == "/metrics" }, api.WriteError
	doors := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if app, own := o.Own(r); own {
			h.own.serve(w, r, app)
			return
		}
		if err := h.within(r); err != nil {
			api.WriteError(w, err)
			return
		}
		h.table.ServeHTTP(w, r)
	})
	return api.Guard(auth.Door(answer.Bounded(doors, askedBy), o), guard)
}

// cookie is the name of the cookie of sign-ins.
func (h *house) cookie() string {
	base, err := h.plan.base()
	if err != nil {
		return ""
	}
	name, _ := auth.Cookie(base)
	return name
}

// newAccess opens what lets users in, besides the tokens of issuers. keys may be nil.
func (p *plan) newAccess(keys *auth.Keys, log *slog.Logger) (a *auth.Access, err error) {
	if keys == nil {
		if keys, err = openKeys(p.settings); err != nil {
			return nil, err
		}
	}
	a = &auth.Access{Keys: keys}
	signs := false
	for _, is := range p.settings.Auth.Issuers {
		signs = signs || is.Login.ClientID != ""
	}
	if !signs {
		return a, nil
	}
	last := p.settings.Auth.SignIns
	if a.SignIns, err = auth.OpenSignIns(filepath.Join(p.settings.Data, signInsFile), auth.SignInsOptions{Idle: time.Duration(last.Idle), Max: time.Duration(last.Max), Logger: log}); err != nil {
		return nil, err
	}
	a.Flow, err = auth.NewFlow(auth.FlowOptions{Issuers: p.issuers, SignIns: a.SignIns, Base: p.base, Fail: api.WriteError, Logger: log})
	return a, err
}

// scopeOf is what a request does. The wires of apps and MCP begin turns with a POST; a WebSocket
// also takes commands.
func scopeOf(r *http.Request) auth.Scope {
	path := r.URL.Path
	switch {
	case path == "/v1/me" && r.Method == http.MethodGet:
		return auth.ScopeRead
	case strings.HasPrefix(path, "/v1/me/"), path == "/v1/signout", strings.HasPrefix(path, "/v1/logins"):
		return auth.ScopeManage
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		return auth.ScopeSend
	case path == "/mcp" || strings.HasSuffix(path, "/mcp"):
		return auth.ScopeSend
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return auth.ScopeRead
	case strings.HasPrefix(path, "/v1/turns/") && strings.HasSuffix(path, "/await"):
		return auth.ScopeRead
	case r.Method == http.MethodPost, r.Method == http.MethodPut, r.Method == http.MethodPatch:
		return auth.ScopeSend
	case r.Method == http.MethodDelete && strings.Contains(path, "/queue/"): // a message that was sent
		return auth.ScopeSend
	}
	return auth.ScopeManage
}

// askedBy is the principal of a request; public data belongs to nobody.
func askedBy(ctx context.Context) parley.Principal {
	p, _ := auth.Principal(ctx)
	return p
}

// owner is the door of a socket or pipe that only the data folder's owner can open.
func (h *house) owner() http.Handler {
	return h.behind(api.GuardOptions{}, auth.Options{Mode: auth.ModeNone})
}

// metered stands before the metrics, which are of all users.
func metered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := auth.Metrics(r.Context()); err != nil {
			api.WriteError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
