package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/config"
)

// addon loads the settings of an add-on that has these options.
func addon(t *testing.T, options, file string, flags map[string]string, vars ...string) (config.Settings, error) {
	t.Helper()
	dir := t.TempDir()
	name, settings := filepath.Join(dir, "options.json"), filepath.Join(dir, "parley.yaml")
	for at, body := range map[string]string{name: options, settings: file} {
		if err := os.WriteFile(at, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load(config.From{File: settings, Flags: flags, Env: env(vars...), Addon: name})
}

func TestAddonWithoutOptions(t *testing.T) {
	t.Parallel()
	got, err := addon(t, `{}`, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Load(config.From{Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	want.Addr, want.Data, want.Enabled, want.Auth.Mode = "0.0.0.0:8099", "/data", []string{"home"}, "ingress"
	want.App = map[string]config.AppSettings{"home": {}}
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAddonOptionsBecomeSettings(t *testing.T) {
	t.Parallel()
	got, err := addon(t, `{
  "model": "anthropic/best", "anthropicApiKey": "sk-ant-1", "openaiApiKey": "sk-2", "openaiBaseUrl": "http://ollama:11434/v1",
  "geminiApiKey": "g3", "usdPerDay": 1.5, "mistralApiKey": "m4", "allowActuation": true, "allowlistedServices": ["light.turn_on", "switch.*"],
  "apiKeys": [{"name": "laptop", "key": "pk_0123456789abcdefghij", "user": "ana"}, {"name": "phone", "key": "pk_abcdefghij0123456789"}],
  "logLevel": "debug"
}`, "limits: {max_streams: 7}\napp: {home: {token: t}, chaos: {model: m}}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	wantApp := map[string]config.AppSettings{
		"home":  {Token: "t", AllowActuation: &yes, AllowlistedServices: []string{"light.turn_on", "switch.*"}},
		"chaos": {Model: "m"},
	}
	wantKeys := map[string]config.Key{"laptop": {Key: "pk_0123456789abcdefghij", User: "ana"}, "phone": {Key: "pk_abcdefghij0123456789"}}
	if diff := cmp.Diff(wantApp, got.App) + cmp.Diff(wantKeys, got.Keys); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Model != "anthropic/best" || got.Log.Level != "debug" || got.Limits.MaxStreams != 7 || got.Limits.USDPerDay != 1.5 {
		t.Errorf("%+v", got)
	}
	for name, want := range map[string]string{
		"ANTHROPIC_API_KEY": "sk-ant-1", "OPENAI_API_KEY": "sk-2", "OPENAI_BASE_URL": "http://ollama:11434/v1", "GEMINI_API_KEY": "g3", "MISTRAL_API_KEY": "m4", "NOTHING": "",
	} {
		if v := got.Env(name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	wantProviders := map[string]config.Provider{
		"anthropic": {Kind: "anthropic", Key: "sk-ant-1"}, "gemini": {Kind: "gemini", Key: "g3"}, "mistral": {Kind: "mistral", Key: "m4"},
		"openai": {Kind: "openai", Key: "sk-2", BaseURL: "http://ollama:11434/v1"},
	}
	if diff := cmp.Diff(wantProviders, got.Models.Providers); diff != "" {
		t.Errorf("providers: -want +got:\n%s", diff)
	}
	secrets := got.Secrets()
	slices.Sort(secrets)
	if diff := cmp.Diff([]string{"g3", "m4", "pk_0123456789abcdefghij", "pk_abcdefghij0123456789", "sk-2", "sk-ant-1"}, secrets); diff != "" {
		t.Errorf("secrets: -want +got:\n%s", diff)
	}
}

func TestAddonOptionsStandBetweenFileAndEnvironment(t *testing.T) {
	t.Parallel()
	got, err := addon(t, `{"logLevel": "warn", "model": "of-options", "mistralApiKey": "of-options", "allowActuation": false}`,
		"log: {level: error}\nmodel: of-file\naddr: 127.0.0.1:1\nenabled: [home, chaos]\napp: {home: {allow_actuation: true}}\n",
		map[string]string{"data": "/elsewhere"}, "PARLEY_MODEL=of-env", "MISTRAL_API_KEY=of-env", "PARLEY_AUTH_SUPERVISOR=127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := got
	want.Log.Level, want.Model, want.Addr, want.Data, want.Enabled = "warn", "of-env", "127.0.0.1:1", "/elsewhere", []string{"home", "chaos"}
	want.App = map[string]config.AppSettings{"home": {AllowActuation: &no}}
	want.Auth = config.Auth{Mode: "ingress", Supervisor: "127.0.0.1"}
	want.Models.Providers = map[string]config.Provider{"mistral": {Kind: "mistral", Key: "of-env"}}
	if diff := cmp.Diff(want, got, plain); diff != "" || got.Env("MISTRAL_API_KEY") != "of-env" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAddonOptionsRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ options, want string }{
		"unknown":     {`{"alowActuation": true}`, `alowActuation: unknown key; did you mean allowActuation?`},
		"less than 0": {`{"usdPerDay": -1}`, "options.json: cannot be less than 0"},
		"wrong type":  {`{"allowlistedServices": "light.turn_on"}`, "allowlistedServices: is text, expected a list"},
		"level":       {`{"logLevel": "loud"}`, `options.json: "loud" is not one of debug, info, warn, error`},
		"not JSON":    {`{"model": `, "options.json:"},
		"half a key":  {`{"apiKeys": [{"name": "laptop"}]}`, "apiKeys[0]: a key has a name and a key"},
		"a key twice": {`{"apiKeys": [{"name": "a", "key": "pk_1"}, {"name": "a", "key": "pk_2"}]}`, "apiKeys[1]: there are two keys named"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := addon(t, c.options, "", nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pk_") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := config.Load(config.From{Env: env(), Addon: filepath.Join(t.TempDir(), "none.json")}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("no options: %v", err)
	}
}

func TestKeysOfSettings(t *testing.T) {
	t.Parallel()
	got, _, err := settings(t, "keys:\n  laptop: {key: \"${LAPTOP}\", user: ana, org: acme}\n", nil, "LAPTOP=pk_1", "PARLEY_API_KEYS=phone=pk_2, watch@bea=pk_3==,")
	want := map[string]config.Key{"laptop": {Key: "pk_1", User: "ana", Org: "acme"}, "phone": {Key: "pk_2"}, "watch": {Key: "pk_3==", User: "bea"}}
	if diff := cmp.Diff(want, got.Keys); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	for vars, want := range map[string]string{
		"PARLEY_API_KEYS=pk_secret":               "PARLEY_API_KEYS: the 1. key: a key has a name and a key",
		"PARLEY_API_KEYS=a=pk_secret,a=pk_secret": "PARLEY_API_KEYS: the 2. key: there are two keys named",
		"PARLEY_AUTH_MODE=maybe":                  `PARLEY_AUTH_MODE: "maybe" is not one of none, keys, ingress`,
		"PARLEY_AUTH_SUPERVISOR=ha":               "PARLEY_AUTH_SUPERVISOR: expected an address",
	} {
		if _, _, err := settings(t, "", nil, vars); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pk_secret") {
			t.Errorf("%s: got %v", vars, err)
		}
	}
	if _, file, err := settings(t, "keys:\n  laptop: {user: ana}\n", nil); err == nil || !strings.Contains(err.Error(), file+":2: keys.laptop: the key is empty") {
		t.Errorf("got %v", err)
	}
}
