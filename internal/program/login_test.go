package program_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// who returns the user whose sessions a request lists.
func (s *process) who(header ...string) string {
	s.t.Helper()
	a := s.ask("POST", "/v1/sessions", `{"app":"chaos"}`, header...)
	if a.status != http.StatusCreated {
		return a.String()
	}
	var info parley.SessionInfo
	if err := json.Unmarshal(a.body, &info); err != nil {
		s.t.Fatal(err)
	}
	return info.User
}

// TestKeys_from_the_command_to_the_door creates keys beside a running server, uses them on its
// wires, and revokes them.
func TestKeys_from_the_command_to_the_door(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_AUTH_MODE=keys", "FROM_SETTINGS=a-key-from-the-settings", "PARLEY_API_KEYS=watch@ana=another-key-from-outside")
	p.write(filepath.Join(p.dir, "parley.yaml"), "keys:\n  desk: {key: \"${FROM_SETTINGS}\", user: bea}\n")
	s := p.serve()
	run := func(args ...string) string {
		t.Helper()
		code, out, errs := p.run(args...)
		if code != 0 {
			t.Fatalf("parley %v: %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	if got := s.ask("GET", "/v1/sessions", ""); got.status != 401 || got.header.Get("WWW-Authenticate") != `Bearer realm="parley"` {
		t.Errorf("without a key: %s, %q", got, got.header.Get("WWW-Authenticate"))
	}
	key := strings.TrimSpace(run("keys", "create", "laptop", "--user", "ana"))
	for header, want := range map[string]string{"Bearer " + key: "ana", "Bearer a-key-from-the-settings": "bea", "bearer another-key-from-outside": "ana"} {
		if got := s.who("Authorization", header); got != want {
			t.Errorf("%s…: got %s, want %s", header[:12], got, want)
		}
	}
	if got := s.who("X-API-Key", key); got != "ana" {
		t.Errorf("X-API-Key: %s", got)
	}
	list := run("keys", "list")
	for _, want := range []string{"laptop", "desk", "watch", "bea", "by the settings", key[:7]} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	if strings.Contains(list+run("keys", "list", "--json"), key) {
		t.Error("the list shows a key")
	}
	// Commands on this machine need no key and act as the user local.
	if out := run("session", "list"); strings.Contains(out, "chaos") {
		t.Errorf("a command sees the sessions of others:\n%s", out)
	}

	// A stream that was opened with a key ends when the key does, even if no further request is
	// made.
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	info := must[parley.SessionInfo](s, "POST", "/v1/sessions", `{"app":"chaos"}`, "X-API-Key", key)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/sessions/"+string(info.ID)+"/events?format=sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	defer resp.Body.Close()
	run("keys", "revoke", "laptop")
	if _, err := io.ReadAll(resp.Body); ctx.Err() != nil {
		t.Errorf("the stream of a revoked key goes on: %v", err)
	}
	if got := s.ask("GET", "/v1/sessions", "", "X-API-Key", key); got.status != 401 {
		t.Errorf("a revoked key: %s", got)
	}
	if code, _, errs := p.run("keys", "revoke", "desk"); code != 1 || !strings.Contains(errs, "comes from the settings") {
		t.Errorf("revoke of a key of the settings: %d %s", code, errs)
	}
	if raw, err := os.ReadFile(filepath.Join(p.data, "keys.json")); err != nil || strings.Contains(string(raw), key[3:]) {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestKeys_open_an_address_to_others: once a key exists, other machines may reach the server,
// and they need the key.
func TestKeys_open_an_address_to_others(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	code, _, errs := p.run("serve", "--addr", "0.0.0.0:0")
	if code != 2 || !strings.Contains(errs, "parley keys create") {
		t.Fatalf("without a key: %d %s", code, errs)
	}
	code, key, errs := p.run("keys", "create", "phone")
	if code != 0 || !strings.HasPrefix(key, "pk_") || strings.Contains(errs, "pk_") {
		t.Fatalf("%d %q %s", code, key, errs)
	}
	if code, out, errs := p.run("doctor"); code != 0 {
		t.Errorf("doctor: %d\n%s%s", code, out, errs)
	}
	s := p.serve("--addr", "0.0.0.0:0")
	s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	if got := s.ask("GET", "/v1/sessions", "", "Host", "some.name.example"); got.status != 401 {
		t.Errorf("without a key: %s", got)
	}
	if got := s.who("Authorization", "Bearer "+strings.TrimSpace(key), "Host", "some.name.example"); got != "phone" {
		t.Errorf("with it: %s", got)
	}
}

// addonPlace is a place with the options of an add-on. The test acts as the Supervisor.
func addonPlace(t *testing.T, options string, env ...string) (*place, string) {
	t.Helper()
	p := newPlace(t, append([]string{"PARLEY_AUTH_SUPERVISOR=127.0.0.1", "PARLEY_SCRIPTED_PACE=0s"}, env...)...)
	file := filepath.Join(p.dir, "options.json")
	p.write(file, options)
	return p, file
}

func TestAddon_knows_its_users_by_the_Supervisor(t *testing.T) {
	t.Parallel()
	p, options := addonPlace(t, `{"logLevel":"debug","apiKeys":[{"name":"mcp","key":"a-key-of-some-20-characters","user":"6f1b2c3d"}]}`, "PARLEY_CORS_ORIGINS=")
	s := p.serve("--addon=" + options)
	if got := s.who(); got != "local" {
		t.Errorf("a Supervisor that names no user: %s", got)
	}
	as := func(user string) []string {
		return []string{"X-Remote-User-Id", user, "X-Remote-User-Name", "ana", "X-Ingress-Path", "/api/hassio_ingress/T0ken_"}
	}
	if got := s.who(as("6f1b2c3d")...); got != "6f1b2c3d" {
		t.Errorf("a user: %s", got)
	}
	// The browser sees another host than the server.
	page := []string{"Host", "ha.example:8123", "Origin", "https://ha.example:8123"}
	if got := s.who(append(page, as("6f1b2c3d")...)...); got != "6f1b2c3d" {
		t.Errorf("the page, by the name that the browser uses: %s", got)
	}
	if got := s.who(append([]string{"Origin", "https://evil.example", "Host", "ha.example:8123"}, as("6f1b2c3d")...)...); !strings.HasPrefix(got, "403") {
		t.Errorf("a page of elsewhere: %s", got)
	}
	// Absolute paths in the page are below the prefix.
	info := must[parley.SessionInfo](s, "POST", "/v1/sessions", `{"app":"chaos"}`, as("6f1b2c3d")...)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/apps/chaos", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := 0, as("6f1b2c3d"); i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if to := resp.Header.Get("Location"); resp.StatusCode/100 != 3 || to != "./chaos/" {
		t.Errorf("/apps/chaos: %d to %q", resp.StatusCode, to)
	}
	turn := s.ask("POST", "/v1/sessions/"+string(info.ID)+"/turns", `{"message":"hello"}`, as("6f1b2c3d")...)
	if to := turn.header.Get("Location"); turn.status != 202 || !strings.HasPrefix(to, "/api/hassio_ingress/T0ken_/v1/turns/") {
		t.Errorf("a turn: %s at %q", turn, to)
	}
	if got := s.ask("GET", "/v1/sessions/"+string(info.ID), "", as("7a8b9c")...); got.status != 404 {
		t.Errorf("another user: %s", got)
	}
}

func TestAddon_takes_nobody_elses_word(t *testing.T) {
	t.Parallel()
	p, options := addonPlace(t, `{"apiKeys":[{"name":"mcp","key":"a-key-of-some-20-characters","user":"6f1b2c3d"}]}`)
	p.env = append(p.env, "PARLEY_AUTH_SUPERVISOR=172.30.32.2") // the address of the real Supervisor, which is not here
	s := p.serve("--addon=" + options)
	if got := s.ask("GET", "/v1/sessions", "", "X-Remote-User-Id", "6f1b2c3d", "X-Forwarded-For", "172.30.32.2"); got.status != 401 {
		t.Errorf("got %s", got)
	}
	if got := s.who("Authorization", "Bearer a-key-of-some-20-characters", "X-Remote-User-Id", "other"); got != "6f1b2c3d" {
		t.Errorf("with a key: %s", got)
	}
	// An MCP host on another machine, with the key.
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	dial := func(key string) error {
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: s.url + "/apps/chaos/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: withKey(key)},
		}, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.ListTools(ctx, nil)
		return err
	}
	if err := dial("a-key-of-some-20-characters"); err != nil {
		t.Errorf("MCP with the key: %v", err)
	}
	if err := dial("another-key-of-20-characters"); err == nil {
		t.Error("MCP with another key works")
	}
}

type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// TestAddon_starts_as_its_image_does runs the add-on image's script with the files and
// variables that it finds there.
func TestAddon_starts_as_its_image_does(t *testing.T) {
	t.Parallel()
	p, options := addonPlace(t, `{"allowActuation":true,"allowlistedServices":["light.turn_on"],"apiKeys":[],"logLevel":"warn"}`,
		"SUPERVISOR_TOKEN=the-supervisors-token", "HOME_ASSISTANT_URL=http://127.0.0.1:9", "HOME_ASSISTANT_TOKEN=none")
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "parley")); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../addon/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+bin+":/usr/bin:/bin", "PARLEY_ENABLED=home")
	ctx, cancel := context.WithTimeout(t.Context(), lifetime)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, script, "--addon="+options, "--addr", "127.0.0.1:0", "--data", p.data)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.env, within
	s := p.start(cmd)
	apps := must[struct{ Apps []struct{ Name string } }](s, "GET", "/v1/apps", "")
	if len(apps.Apps) != 1 || apps.Apps[0].Name != "home" {
		t.Errorf("apps: %+v", apps)
	}
	first := s.ask("GET", "/", "")
	if first.status != 200 && first.status != 503 { // the page, if it was built
		t.Errorf("/: %s", first)
	}
}
