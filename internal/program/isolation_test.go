package program

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/api/apitest"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/login"
)

// keyed is a whole server over a simulated house. It knows only Ana and Bea, by their keys.
type keyed struct {
	t     *testing.T
	house *house
	url   string
	keys  map[string]string // by user
}

func newKeyed(t *testing.T, change ...func(*config.Settings)) *keyed {
	t.Helper()
	apps := t.TempDir()
	desk := fstest.MapFS{
		"app.yaml": {Data: []byte("name: desk\nscript: script.yaml\nagents: {clerk: {prompt: clerk.md}}\nworkspaces: {default: main}\ntools: {lake: {}}\n")},
		"clerk.md": {Data: []byte("Keep the notes.")}, "script.yaml": {Data: []byte("agents: {clerk: [{say: yes}]}\n")},
	}
	if err := os.CopyFS(filepath.Join(apps, "desk"), desk); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load(config.From{Flags: map[string]string{"data": t.TempDir(), "store": "mem", "scripted.pace": "0s", "apps": apps}, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&s)
	}
	if s.App == nil {
		s.App = map[string]config.AppSettings{}
	}
	s.App["leads"] = config.AppSettings{URL: "http://127.0.0.1:9"} // an API that is not there
	log := slog.New(slog.DiscardHandler)
	stop, err := home.Demo{Allow: []string{"light.turn_on", "light.turn_off", "switch.turn_off"}}.Furnish(&s, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	p, err := builtin().plan(s, log)
	if err != nil {
		t.Fatal(err)
	}
	own, err := takeLock(s.Data, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.release)
	p.took(own)
	h, err := p.build(t.Context(), nil, log)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := openKeys(s)
	if err != nil {
		t.Fatal(err)
	}
	k := &keyed{t: t, house: h, keys: map[string]string{}}
	if k.keys["prometheus"], _, err = keys.Create(auth.Key{Name: "prometheus", Metrics: true}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if k.keys[pageKey], _, err = keys.Create(auth.Key{Name: "page", User: "ana", App: "chaos"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ana", "bea"} {
		if k.keys[user], _, err = keys.Create(auth.Key{Name: user + "-laptop", User: user}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	l := &entrance{mode: auth.ModeKeys, keys: keys, issuers: p.issuers, supervisor: auth.Supervisor}
	srv := httptest.NewServer(apitest.Of(t, h.api).Handler(t, h.behind(api.GuardOptions{Hosts: l.hosts(config.Settings{Addr: "0.0.0.0:1"})}, l.doorOptions(ownNames(s)))))
	k.url = srv.URL
	p.listens(srv.Listener.Addr())
	t.Cleanup(func() {
		_ = h.close(context.Background(), 0) // ends the streams
		srv.Close()
	})
	return k
}

// ask makes a request as a user, or without a key if user is empty. It reads only the beginning
// of a stream.
func (k *keyed) ask(user, method, path, body string, header ...string) (status int, text string, h http.Header) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, k.url+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if user != "" {
		req.Header.Set("Authorization", "Bearer "+k.keys[user])
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		k.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.StatusCode, "", resp.Header
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		k.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(raw), resp.Header
}

// must makes a request that has to succeed, and decodes the answer.
func (k *keyed) must(into any, user, method, path, body string) {
	k.t.Helper()
	status, text, _ := k.ask(user, method, path, body)
	if status/100 != 2 {
		k.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		k.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
}

// pageKey is Ana's key for the page that the app chaos could bring.
const pageKey = "page"

// marker is a word that Ana says. No other user may ever read it.
const marker = "heliotrope"

// owned has the ids of one user's things: a session with an artifact, one that waits for an
// answer, and one under an outside id.
type owned struct {
	session, waiting parley.SessionID
	turn, waits      parley.TurnID
	interaction      parley.InteractionID
	artifact         string
	outside          string
	workspace        string // of the app desk, with note.md
	key, signIn      string // a key's name, and the id of a sign-in
	device           string // a webhook
	schedule         string
	delivery         string // to it
	conversation     string // that a client of leads keeps
}

func (o owned) ids() []string {
	return []string{string(o.session), string(o.waiting), string(o.turn), string(o.waits), string(o.interaction), o.artifact, o.workspace, o.key, o.signIn, o.device, o.schedule, o.delivery, o.conversation}
}

func (k *keyed) furnish(user string) owned {
	k.t.Helper()
	o := owned{outside: "shared-by-both", workspace: "diary", key: "no-key-yet", signIn: "no-sign-in-yet"}
	k.must(nil, user, "POST", "/v1/workspaces", `{"app":"desk","name":"`+o.workspace+`"}`)
	k.must(nil, user, "PUT", "/v1/workspaces/file?app=desk&path=note.md&workspace="+o.workspace, `{"text":"`+marker+`"}`)
	var device parley.Device
	k.must(&device, user, "POST", "/v1/devices", `{"kind":"webhook","name":"`+marker+`","url":"https://127.0.0.1:9/`+marker+`"}`)
	o.device = string(device.ID)
	var schedule parley.Schedule
	k.must(&schedule, user, "POST", "/v1/schedules", `{"app":"home","cron":"0 0 29 2 *","message":"`+marker+`"}`)
	o.schedule = string(schedule.ID)
	k.must(nil, user, "POST", "/v1/devices/"+o.device+"/test", "")
	var list struct{ Deliveries []parley.Delivery }
	if k.must(&list, user, "GET", "/v1/deliveries", ""); len(list.Deliveries) != 1 { // nothing is sent in this test
		k.t.Fatalf("deliveries: %+v", list)
	}
	o.delivery = string(list.Deliveries[0].ID)
	var kept struct{ ID string }
	k.must(&kept, user, "POST", leads.ConversationsPath, `{"title":"`+marker+`","messages":["`+marker+`"]}`)
	o.conversation = kept.ID
	session := func(body string) parley.SessionID {
		var s parley.SessionInfo
		k.must(&s, user, "POST", "/v1/sessions", body)
		return s.ID
	}
	turn := func(s parley.SessionID, message string) parley.TurnInfo {
		var t parley.TurnInfo
		k.must(&t, user, "POST", "/v1/sessions/"+string(s)+"/turns", `{"message":"`+message+`"}`)
		k.must(&t, user, "POST", "/v1/turns/"+string(t.ID)+"/await", `{"timeout_ms":60000}`)
		return t
	}
	o.session = session(`{"app":"home","title":"` + marker + `"}`)
	o.turn = turn(o.session, "Why did the bedroom lights flicker last night? "+marker).ID
	o.waiting = session(`{"app":"home","title":"` + marker + `"}`)
	o.waits = turn(o.waiting, "Turn on the bedroom ceiling light. "+marker).ID
	var inbox struct{ Interactions []parley.Interaction }
	k.must(&inbox, user, "GET", "/v1/interactions", "")
	if len(inbox.Interactions) != 1 {
		k.t.Fatalf("%d interactions wait", len(inbox.Interactions))
	}
	o.interaction = inbox.Interactions[0].ID
	var page struct{ Events []parley.Event }
	k.must(&page, user, "GET", "/v1/sessions/"+string(o.session)+"/events?types=artifact.stored", "")
	for _, e := range page.Events {
		var a struct{ ID string }
		if err := json.Unmarshal(e.Data, &a); err != nil {
			k.t.Fatal(err)
		}
		o.artifact = a.ID
	}
	if o.artifact == "" {
		k.t.Fatal("the story has no artifact")
	}
	k.chat(user, o.outside, "What was decided last? "+marker)
	return o
}

// chat sends one message on the wire of chaos and reads to the end.
func (k *keyed) chat(user, session, message string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", k.url+"/chat", strings.NewReader(`{"session_id":"`+session+`","message":"`+message+`"}`))
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", k.keys[user])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		k.t.Fatalf("/chat: %d %s %v", resp.StatusCode, raw, err)
	}
	return resp.Header.Get("Parley-Session")
}

// state returns everything that a user can see of their own, by path. It must be the same
// before and after an attack.
func (k *keyed) state(user string, o owned) map[string]string {
	k.t.Helper()
	all := map[string]string{}
	for _, path := range []string{
		"/v1/sessions", "/v1/interactions", "/v1/interactions/" + string(o.interaction), "/v1/sessions/" + string(o.session) + "/events", "/v1/sessions/" + string(o.waiting) + "/events",
		"/v1/workspaces?app=desk", "/v1/workspaces/tree?app=desk&workspace=" + o.workspace, "/v1/workspaces/file?app=desk&path=note.md&workspace=" + o.workspace,
		"/v1/devices", "/v1/schedules", "/v1/deliveries", "/v1/notifications", leads.ConversationsPath, leads.ConversationsPath + "/" + o.conversation,
	} {
		status, text, _ := k.ask(user, "GET", path, "")
		if status != 200 {
			k.t.Errorf("GET %s: %d %s", path, status, text)
		}
		all[path] = text
	}
	return all
}

func (k *keyed) unchanged(user string, o owned, before map[string]string) {
	k.t.Helper()
	for path, after := range k.state(user, o) {
		if before[path] != after {
			k.t.Errorf("%s was changed by another user", path)
		}
	}
}

// TestDoors_ask_who_it_is: without a key, no pattern of the table admits a request, except
// where no user's data is served.
func TestDoors_ask_who_it_is(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	open := []string{"/healthz", "/readyz", "/openapi.json", "/docs", login.Document, auth.WaysPath, auth.BeginPath, auth.CallbackPath, "/apps/{app}/", "/", leads.Path}
	if got := k.house.table.Public(); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(open))) {
		t.Errorf("open are %v, and should be %v", got, open)
	}
	tried := 0
	try := func(method, path string, free bool) {
		tried++
		for _, credential := range [][]string{nil, {"Authorization", "Bearer pk_wrong"}, {"X-API-Key", "wrong"}, {"Authorization", "Basic YTpi"}, {"X-Remote-User-Id", "ana"}} {
			status, text, h := k.ask("", method, path, "{}", credential...)
			if free {
				if status == http.StatusUnauthorized {
					t.Errorf("%s %s asks for a key", method, path)
				}
				continue
			}
			var body struct{ Error parley.ErrorInfo }
			err := json.Unmarshal([]byte(text), &body)
			if len(credential) > 0 && tried > 2 && status == http.StatusTooManyRequests && body.Error.Code == parley.CodeRateLimited {
				continue // after too many wrong keys, keys are not checked
			}
			if err != nil || status != http.StatusUnauthorized || body.Error.Code != parley.CodeUnauthenticated || h.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %v: got %d %s, want 401", method, path, credential, status, text)
			}
		}
	}
	fill := strings.NewReplacer("{app}", "home", "{session_id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{turn}", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	for _, pattern := range k.house.table.Patterns() {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = http.MethodGet, pattern
		}
		try(method, fill.Replace(path), slices.Contains(open, pattern))
	}
	for _, r := range k.house.api.Routes() {
		try(r.Method, fill.Replace(r.Path), slices.Contains(open, r.Path))
	}
	if tried < 40 {
		t.Errorf("only %d doors were tried", tried)
	}
	// Metrics cover all users, so a user's key is not enough.
	for _, zip := range []string{"", "gzip"} {
		if status, text, _ := k.ask("ana", "GET", "/metrics", "", "Accept-Encoding", zip); status != http.StatusForbidden || !strings.Contains(text, "--metrics") || strings.Contains(text, "parley_") {
			t.Errorf("/metrics with a user's key: %d %s", status, text)
		}
		status, text, h := k.ask("prometheus", "GET", "/metrics", "", "Accept-Encoding", zip)
		if h.Get("Content-Encoding") != zip {
			t.Errorf("/metrics as %q comes as %q", zip, h.Values("Content-Encoding"))
		}
		if zip != "" {
			text = unzip(t, text) // once: promhttp does it, and no layer of ours
		}
		if status != http.StatusOK || !strings.Contains(text, "parley_") {
			t.Errorf("/metrics with its key: %d", status)
		}
	}
	// Without a key, the list of apps is not revealed.
	for _, path := range []string{"/apps/nothing/", "/apps/nothing/x", "/apps/nothing"} {
		if status, text, _ := k.ask("", "GET", path, ""); status == http.StatusOK || strings.Contains(text, "chaos") || strings.Contains(text, "apps here") {
			t.Errorf("%s without a key: %d %s", path, status, text)
		}
		if status, text, _ := k.ask("ana", "GET", "/apps/nothing/", ""); status != http.StatusNotFound || !strings.Contains(text, "chaos") {
			t.Errorf("%s with a key: %d %s", path, status, text)
		}
	}
	// The key for the metrics opens no other door.
	shut := func(method, path string) {
		t.Helper()
		if status, text, _ := k.ask("prometheus", method, path, "{}"); status != http.StatusForbidden || !strings.Contains(text, "keys create") {
			t.Errorf("%s %s with the key of the metrics: got %d %.300s, want 403", method, path, status, text)
		}
	}
	for _, pattern := range k.house.table.Patterns() {
		if method, path, ok := strings.Cut(pattern, " "); ok && pattern != "GET /metrics" {
			shut(method, fill.Replace(path))
		} else if !slices.Contains(open, pattern) && pattern != "/metrics" {
			shut(http.MethodGet, fill.Replace(pattern))
		}
	}
	for _, r := range k.house.api.Routes() {
		if !slices.Contains(open, r.Path) {
			shut(r.Method, fill.Replace(r.Path))
		}
	}
}
