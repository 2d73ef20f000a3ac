package program

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/auth"
)

// somebody is who tries another user's ids: by a key of keyed.keys, or by headers.
type somebody struct {
	as     string
	header []string
}

// notAna furnishes the user a of an organisation, and returns everybody who is not a: by what
// they are to a. refused are those who are nobody any more.
func notAna(t *testing.T) (s *signed, a owned, others, refused map[string]somebody) {
	t.Helper()
	s = newSigned(t)
	mint := func(name, user, org string, change map[string]any) {
		c := s.as.Claims(user, audience)
		if org != "" {
			c["org_id"] = org
		}
		for k, v := range change {
			c[k] = v
		}
		s.keys[name] = s.as.Mint(c)
	}
	mint("a", "ana", "north", nil)
	mint("same org", "bea", "north", nil)
	mint("other org", "bea", "south", nil)
	mint("no org", "bea", "", nil)
	mint("herself in another org", "ana", "south", nil)
	mint("herself without an org", "ana", "", nil)
	mint("expired", "ana", "north", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	others = map[string]somebody{"a key's user": {as: "bea"}, "a key's user of her name": {as: "ana"}}
	for _, name := range []string{"same org", "other org", "no org", "herself in another org", "herself without an org"} {
		others[name] = somebody{as: name}
	}
	keys := s.house.access.Keys
	for name, user := range map[string]string{"north-phone-of-ana": "acme:ana", "revoked": "acme:ana", "north-phone-of-bea": "acme:bea"} {
		var err error
		if s.keys[name], _, err = keys.Create(auth.Key{Name: name, User: user, Org: "acme:north"}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	others["a key of another in the same org"] = somebody{as: "north-phone-of-bea"}
	bea := s.signIn("bea")
	others["a browser of another"] = somebody{header: []string{"Cookie", bea.cookie().Name + "=" + bea.cookie().Value, "Sec-Fetch-Site", "same-origin"}}
	if err := keys.Revoke("revoked"); err != nil {
		t.Fatal(err)
	}
	a = s.furnish("a")
	gone, stays := s.signIn("ana"), s.signIn("ana")
	cookie := gone.cookie()
	gone.own("POST", "/v1/signout", "")
	a.key, a.signIn = "north-phone-of-ana", read[auth.Me](t, stays.own("GET", "/v1/me", "")).SignIn
	refused = map[string]somebody{
		"an expired token": {as: "expired"}, "a revoked key": {as: "revoked"},
		"a browser that signed out": {header: []string{"Cookie", cookie.Name + "=" + cookie.Value, "Sec-Fetch-Site", "same-origin"}},
	}
	return s, a, others, refused
}

// TestIsolation_by_the_table_of_routes: everybody who is not Ana in her organisation tries every
// route with Ana's ids: others of the same organisation, of another, without one, by key, token and
// sign-in, and Ana herself in another. They get the answer for an id that never existed, and nothing
// changes. Whoever has expired or was revoked is refused everywhere.
func TestIsolation_by_the_table_of_routes(t *testing.T) {
	t.Parallel()
	s, ana, others, refused := notAna(t)
	k := s.keyed
	before := k.state("a", ana)
	for name, who := range others {
		t.Run(name, func(t *testing.T) {
			k := *k
			k.t = t
			k.tryRoutes(ana, who.as, http.StatusNotFound, who.header...)
			k.tryWires(ana, who.as, who.header...)
			for _, p := range []string{"/events/" + string(ana.session), "/events/" + string(ana.waiting), "/v1/sessions/" + string(ana.session) + "/events?format=sse", "/v1/sessions/" + string(ana.session) + "/events?format=ndjson"} {
				if status, text, _ := k.ask(who.as, "GET", p, "", who.header...); status != http.StatusNotFound {
					t.Errorf("GET %s: got %d %s", p, status, text)
				}
			}
			k.unchanged("a", ana, before)
		})
	}
	for name, who := range refused {
		t.Run(name, func(t *testing.T) {
			k := *k
			k.t = t
			k.tryRefused(ana, who)
			k.unchanged("a", ana, before)
		})
	}
	// Each user has their own outside ids.
	his, hers := k.chat("bea", ana.outside, "hello"), k.chat("a", ana.outside, "hello")
	if his == hers || his == "" || slices.Contains(ana.ids(), his) {
		t.Errorf("one outside id of two users led to %s and %s", his, hers)
	}
	if status, text, _ := k.ask("bea", "GET", "/v1/sessions/"+his+"/events", ""); status != 200 || strings.Contains(text, marker) {
		t.Errorf("Bea's own session: %d %s", status, text)
	}
	k.must(nil, "a", "POST", "/v1/interactions/"+string(ana.interaction)+"/answer", `{"choice":"deny"}`)
	k.must(nil, "a", "DELETE", "/v1/me/keys/"+ana.key, "")
	k.must(nil, "a", "DELETE", "/v1/me/signins/"+ana.signIn, "")
}

// resources says what the ids in the paths of the API are, by how the paths begin. A route with an
// id and without a row here fails the test.
var resources = map[string]func(o owned) string{
	"/v1/apps/{app}":         func(owned) string { return "home" }, // nobody's
	"/v1/sessions/{id}":      func(o owned) string { return string(o.session) },
	"/v1/turns/{id}":         func(o owned) string { return string(o.turn) },
	"/v1/interactions/{id}":  func(o owned) string { return string(o.interaction) },
	"/v1/artifacts/{id}":     func(o owned) string { return o.artifact },
	"/v1/logins/{id}":        func(o owned) string { return string(o.session) }, // of the vault, which is not set up: see TestLogins
	"/v1/devices/{id}":       func(o owned) string { return o.device },
	"/v1/proposals/{id}":     func(o owned) string { return string(o.session) }, // of a lake, which others do not find
	"/v1/schedules/{id}":     func(o owned) string { return o.schedule },
	"/v1/deliveries/{id}":    func(o owned) string { return o.delivery },
	"/v1/me/signins/{id}":    func(o owned) string { return o.signIn },
	"/v1/me/keys/{name}":     func(o owned) string { return o.key },
	"/v1/conversations/{id}": func(o owned) string { return string(o.session) },
}

// public are routes of the API whose answers are the same for everybody.
var public = []string{"/healthz", "/readyz", "/v1/apps", "/v1/models", "/v1/providers", "/v1/server"}

// idIn fills the first id of a path.
func (k *keyed) idIn(path string, o owned) string {
	k.t.Helper()
	if !strings.Contains(path, "{") {
		return path
	}
	for prefix, id := range resources {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			_, rest, _ := strings.Cut(prefix, "{")
			param, _, _ := strings.Cut(rest, "}")
			return strings.Replace(path, "{"+param+"}", id(o), 1)
		}
	}
	k.t.Errorf("%s has an id, and no row in resources says whose it is", path)
	return path
}

// wireIDs are what the ids in the paths of the apps' wires are. A path with one and without a row
// fails the test.
var wireIDs = map[string]func(o owned) string{
	"/apps/{app}/mcp":       nil, // tried by the list of tools
	"/apps/{app}/":          nil, // a page
	"/apps/{app}/entities":  nil, // of the house
	"/apps/{app}/entities/": nil,
	"/v1/signin/{issuer}":   nil, // see TestSignIn
	auth.CallbackPath:       nil,
	"/events/{session_id}":  func(o owned) string { return string(o.session) },

	leads.ConversationsPath + "/{id}": func(o owned) string { return o.conversation },
}

// tryWires tries all paths that the apps bring with Ana's ids, in every place where a wire could look
// for one.
func (k *keyed) tryWires(ana owned, as string, header ...string) {
	t := k.t
	t.Helper()
	var ids []string
	for _, name := range []string{"session_id", "sessionId", "session", "id", "conversation_id", "conversationId", "thread_id", "threadId"} {
		ids = append(ids, `"`+name+`":"`+string(ana.session)+`"`)
	}
	body := `{"message":"mine now","messages":[{"role":"user","content":"mine now"}],` + strings.Join(ids, ",") + `}`
	tried := 0
	for _, pattern := range k.house.table.Patterns() {
		_, path, ok := strings.Cut(pattern, " ")
		if !ok {
			path = pattern
		}
		if slices.Contains(api.Patterns(), path) || slices.Contains(k.house.table.Public(), pattern) {
			continue
		}
		if strings.Contains(path, "{") {
			id, known := wireIDs[path]
			if !known {
				t.Errorf("%s has an id, and no row in wireIDs says whose it is", path)
			}
			if id == nil {
				continue
			}
			before, rest, _ := strings.Cut(path, "{")
			_, after, _ := strings.Cut(rest, "}")
			path = before + id(ana) + after
		}
		tried++
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			for _, query := range []string{"", "?session_id=" + string(ana.session), "?sessionId=" + string(ana.session), "?id=" + string(ana.session)} {
				sent := body
				if method == "GET" {
					sent = ""
				}
				status, text, h := k.ask(as, method, path+query, sent, header...)
				if strings.Contains(text, marker) || slices.Contains(ana.ids(), h.Get("Parley-Session")) || status >= 500 {
					t.Errorf("%s %s%s: %d of %s: %.300s", method, path, query, status, h.Get("Parley-Session"), text)
				}
			}
		}
	}
	if tried < 8 {
		t.Errorf("only %d wires were tried", tried)
	}
}

// tryRefused tries every route and wire as somebody who is nobody any more.
func (k *keyed) tryRefused(ana owned, who somebody) {
	k.t.Helper()
	try := func(method, path string) {
		status, text, _ := k.ask(who.as, method, path, "{}", who.header...)
		if status != http.StatusUnauthorized && status != http.StatusTooManyRequests || strings.Contains(text, marker) {
			k.t.Errorf("%s %s: got %d %.200s, want 401", method, path, status, text)
		}
	}
	for _, r := range k.house.api.Routes() {
		if r.Path != "/healthz" && r.Path != "/readyz" {
			try(r.Method, strings.NewReplacer("{turn}", string(ana.turn), "{digest}", "x").Replace(k.idIn(r.Path, ana)))
		}
	}
	for _, pattern := range k.house.table.Patterns() {
		if slices.Contains(k.house.table.Public(), pattern) || slices.Contains(api.Open(), pattern) {
			continue
		}
		_, path, ok := strings.Cut(pattern, " ")
		if !ok {
			path = pattern
		}
		try("POST", strings.NewReplacer("{app}", "home", "{session_id}", string(ana.session), "{id}", string(ana.session)).Replace(path))
	}
}

// tryRoutes tries every route with Ana's ids as the user of the key as, who may not see them. Each
// answer is the one for an id that never existed. many is the expected status of routes that belong
// to no single app.
func (k *keyed) tryRoutes(ana owned, as string, many int, header ...string) {
	t := k.t
	t.Helper()
	bodies := map[string]string{
		"PATCH /v1/conversations/{id}":              `{"title":"mine now"}`,
		"POST /v1/sessions":                         `{"app":"home","outside_id":"` + ana.outside + `"}`,
		"POST /v1/sessions/{id}/turns":              `{"message":"mine now"}`,
		"POST /v1/sessions/{id}/approvals/{digest}": `{"state":"allowed"}`,
		"POST /v1/sessions/{id}/turns/stream":       `{"message":"mine now"}`,
		"POST /v1/sessions/{id}/rewind":             `{"turn":"` + string(ana.turn) + `"}`,
		"PATCH /v1/sessions/{id}":                   `{"title":"mine now"}`,
		"POST /v1/devices":                          `{"kind":"webhook","url":"https://example.com/"}`,
		"PATCH /v1/devices/{id}":                    `{"name":"mine now","new_secret":true}`,
		"POST /v1/schedules":                        `{"app":"home","cron":"0 0 29 2 *","message":"mine now"}`,
		"PATCH /v1/schedules/{id}":                  `{"message":"mine now"}`,
		"POST /v1/proposals/{id}/apply":             `{"all":true}`,
		"POST /v1/proposals/{id}/reject":            `{"all":true}`,
		"PUT /v1/notifications":                     `{"waits":false,"ends":false,"after_seconds":0}`,
		"POST /v1/interactions/{id}/answer":         `{"choice":"allow"}`,
		"POST /v1/interactions/{id}/report":         `{"token":"x"}`,
		"POST /v1/turns/{id}/await":                 `{"timeout_ms":1}`,
		"POST /v1/sessions/import":                  `no archive`,
		"POST /v1/sessions/{id}/attachments":        `a text of mine`,
		"POST /v1/workspaces":                       `{"app":"desk","name":"of-bea"}`,
		"PUT /v1/workspaces/file":                   `{"text":"mine now"}`,
		"POST /v1/workspaces/file/move":             `{"to":"mine.md","version":"x"}`,
	}
	none := owned{}
	none.session, none.waiting, none.turn, none.waits, none.interaction, none.artifact = "01ARZ3NDEKTSV4RRFFQ69G5FAA", "01ARZ3NDEKTSV4RRFFQ69G5FAB",
		"01ARZ3NDEKTSV4RRFFQ69G5FAC", "01ARZ3NDEKTSV4RRFFQ69G5FAD", "01ARZ3NDEKTSV4RRFFQ69G5FAE", "01ARZ3NDEKTSV4RRFFQ69G5FAF"
	none.workspace, none.key, none.signIn = "never", "nothing", "abcdefghijklmnop"
	none.schedule, none.device, none.delivery, none.conversation = "01ARZ3NDEKTSV4RRFFQ69G5FAH", "01ARZ3NDEKTSV4RRFFQ69G5FAG", "test-never", "00000000-0000-4000-8000-000000000000"
	file := func(r api.Route) bool { return strings.HasPrefix(r.Path, "/v1/workspaces/") }
	lake := func(r api.Route) bool { return strings.HasPrefix(r.Path, "/v1/proposals/") }
	path := func(r api.Route, o owned) string {
		turn := o.turn
		if strings.Contains(r.Path, "/queue") || strings.HasSuffix(r.Path, "/answer") {
			o.session, turn = o.waiting, o.waits
		}
		p := strings.NewReplacer("{turn}", string(turn), "{app}", "home").Replace(k.idIn(r.Path, o))
		if r.Path == "/v1/stream" {
			p += "?sessions=" + string(o.session)
		}
		if lake(r) {
			p += "?app=desk&workspace=" + o.workspace
		}
		if file(r) {
			p += "?app=desk&path=note.md&workspace=" + o.workspace
		}
		if strings.HasSuffix(r.Path, "/history/file") {
			p += "&id=x"
		}
		return p
	}
	// plain removes the ids from an answer, so that two answers can be compared.
	plain := func(text string, o owned) string {
		for _, id := range o.ids() {
			text = strings.ReplaceAll(text, id, "ID")
		}
		return text
	}
	tried := 0
	for _, r := range k.house.api.Routes() {
		if r.Path == "/v1/signout" {
			continue // it names nothing, and would sign out the browser that tries the rest
		}
		body := bodies[r.Method+" "+r.Path]
		status, text, _ := k.ask(as, r.Method, path(r, ana), body, header...)
		if strings.Contains(text, marker) {
			t.Errorf("%s %s: shows what Ana said: %s", r.Method, r.Path, text)
		}
		if !strings.Contains(r.Path, "{") && r.Path != "/v1/stream" && !file(r) || strings.HasPrefix(r.Path, "/v1/apps/{app}") {
			for _, id := range ana.ids() { // no list has her things
				if strings.Contains(text, id) && !slices.Contains(public, r.Path) {
					t.Errorf("%s %s: names %s of Ana: %s", r.Method, r.Path, id, text)
				}
			}
			continue
		}
		tried++
		want, never, _ := k.ask(as, r.Method, path(r, none), body, header...)
		expected := http.StatusNotFound
		if r.Path == "/v1/stream" || r.Path == "/v1/logins/{id}" || strings.HasPrefix(r.Path, "/v1/me/") || strings.HasPrefix(r.Path, "/v1/devices/") || strings.HasPrefix(r.Path, "/v1/deliveries/") || strings.HasPrefix(r.Path, "/v1/schedules/") || lake(r) || file(r) { // these routes belong to no app, or to another
			expected = many
		}
		if status != expected || status != want || plain(text, ana) != plain(never, none) {
			t.Errorf("%s %s: got %d %s\nand of an id that never was %d %s", r.Method, r.Path, status, text, want, never)
		}
	}
	if tried < 35 {
		t.Errorf("only %d routes were tried", tried)
	}
}
