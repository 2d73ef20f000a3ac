package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
)

func env(vars ...string) func(string) (string, bool) {
	m := map[string]string{"HOME": "/home/ana"}
	for _, v := range vars {
		name, val, _ := strings.Cut(v, "=")
		m[name] = val
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

// settings writes a settings file and loads it.
func settings(t *testing.T, body string, flags map[string]string, vars ...string) (config.Settings, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load(config.From{File: file, Flags: flags, Env: env(vars...)})
	return s, file, err
}

var plain = cmpopts.IgnoreUnexported(config.Settings{})

func TestNothingSetIsEnough(t *testing.T) {
	t.Parallel()
	got, _, err := settings(t, "", nil, "XDG_DATA_HOME=/xdg")
	want := config.Settings{
		Addr:      "127.0.0.1:8000",
		Data:      "/xdg/parley",
		Store:     "sqlite",
		Log:       config.Log{Level: "info", Format: "text"},
		Limits:    config.Limits{MaxBody: 1 << 20, MaxMessage: 256 << 10, MaxStreams: 1000, MaxConnectionsPerAddress: 256, MinUploadRate: 4 << 10, SessionsPerUser: 10_000, BytesPerUser: 4 << 30, Patience: parley.Duration(5 * time.Minute)},
		Scripted:  config.Scripted{Pace: parley.Duration(25 * time.Millisecond)},
		Schedules: config.Schedules{PerUser: 50, Shortest: parley.Duration(5 * time.Minute)},
		Claude:    config.Claude{Shell: "app", Processes: 8, Idle: parley.Duration(5 * time.Minute), Wait: parley.Duration(time.Minute), Memory: 4 << 30},
		Auth:      config.Auth{Supervisor: "172.30.32.2"},
	}
	if diff := cmp.Diff(want, got, plain); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}

func TestNearerSourcesWin(t *testing.T) {
	t.Parallel()
	body := `
addr: 127.0.0.1:1
data: here
store: ${STORE}
model: a/file
enabled: [chaos]
limits: {max_body: 2MiB}
scripted: {pace: 1ms}
mcp: {underscores: true, approvals: true}
events: {partial_every: 50ms}
telemetry:
  otlp_endpoint: https://collector.example/otel
  headers: {Authorization: "Basic ${MODEL}"}
app:
  chaos: {data: "~/x", model: "${MODEL}"}
`
	got, file, err := settings(t, body, map[string]string{"addr": "127.0.0.1:3", "log.level": "debug"},
		"PARLEY_ADDR=127.0.0.1:2", "PARLEY_MODEL=a/env", "PARLEY_CORS_ORIGINS=https://a.example, https://b.example/", "MODEL=a/b", "STORE=postgres://ana:pw@db/parley", "PARLEY_LIMITS_MAX_STREAMS=7", "PARLEY_SCRIPTED_PACE=0s", "PARLEY_TELEMETRY_CONTENT=true")
	want := config.Settings{
		Addr:        "127.0.0.1:3",
		Data:        filepath.Join(filepath.Dir(file), "here"),
		Store:       "postgres://ana:pw@db/parley",
		Model:       "a/env",
		Enabled:     []string{"chaos"},
		CORSOrigins: []string{"https://a.example", "https://b.example"},
		Log:         config.Log{Level: "debug", Format: "text"},
		Limits:      config.Limits{MaxBody: 2 << 20, MaxMessage: 256 << 10, MaxStreams: 7, MaxConnectionsPerAddress: 256, MinUploadRate: 4 << 10, SessionsPerUser: 10_000, BytesPerUser: 4 << 30, Patience: parley.Duration(5 * time.Minute)},
		Telemetry: config.Telemetry{
			OTLPEndpoint: "https://collector.example/otel", Headers: map[string]string{"Authorization": "Basic a/b"}, Content: true,
		},
		MCP:       config.MCP{Underscores: true, Approvals: true},
		Schedules: config.Schedules{PerUser: 50, Shortest: parley.Duration(5 * time.Minute)},
		Claude:    config.Claude{Shell: "app", Processes: 8, Idle: parley.Duration(5 * time.Minute), Wait: parley.Duration(time.Minute), Memory: 4 << 30},
		Events:    config.Events{PartialEvery: parley.Duration(50 * time.Millisecond)},
		Auth:      config.Auth{Supervisor: "172.30.32.2"},
		App:       map[string]config.AppSettings{"chaos": {Data: "/home/ana/x", Model: "a/b"}},
	}
	if diff := cmp.Diff(want, got, plain); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}

func TestMistakesHaveLinesAndComeTogether(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	for name, c := range map[string]struct {
		body  string
		flags map[string]string
		vars  []string
		want  []string // FILE stands for the file
	}{
		"unknown keys": {"adr: x\nlog:\n  levle: info\nzzzzz: 1\n", nil, nil, []string{
			"FILE:1: adr: unknown key; did you mean addr?",
			"FILE:3: log.levle: unknown key; did you mean level?",
			"FILE:4: zzzzz: unknown key; known are addr, app, apps, auth, bash, claude, cors_origins, data, enabled, events, hosts, keys, limits, log, mcp, model, models, pages, platform_dir, public_url, push, schedules, scripted, store, telemetry, vault",
		}},
		"wrong types": {"enabled: chaos\nlimits:\n  max_body: lots\n  max_streams: 1.5\nlog: text\nscripted: {pace: 5}\n", nil, nil, []string{
			"FILE:1: enabled: is text, expected a list",
			`FILE:3: limits.max_body: "lots" is not a size; write it like 4096, 256KiB or 1MiB`,
			"FILE:4: limits.max_streams: is the number 1.5, expected a whole number",
			"FILE:5: log: is text, expected keys and values",
			`FILE:6: scripted.pace: "5" is not a duration; write it like 90s, 15m or 24h`,
		}},
		"wrong values": {"addr: localhost\nlog:\n  level: loud\ncors_origins: ['*']\nlimits: {max_body: 1MiB, max_message: 2MiB, patience: -1s}\nhosts: ['https://a.example']\n", nil, nil, []string{
			"FILE:1: addr: expected host:port, such as 127.0.0.1:8000",
			`FILE:3: log.level: "loud" is not one of debug, info, warn, error`,
			`FILE:4: cors_origins: "*" is not an origin; write it like https://app.example.com`,
			`FILE:6: hosts: "https://a.example" is not a name of a host; write it like parley.example.com, without a port`,
			"FILE:5: limits.patience: has to be more than 0",
			"FILE:5: limits.max_message: is more than limits.max_body, which holds the message",
		}},
		"issuers": {"auth:\n  issuers:\n    A: {issuer: 'https://a.example', audience: [x]}\n    b: {issuer: 'http://b.example', audience: [x], claims: jwt, leeway: 6m}\n    c: {claims: clerk}\n    d: {issuer: 'https://a.example', audiense: [x]}\n    e: {issuer: 'http://127.0.0.1:9'}\n", nil, nil, []string{
			"FILE:3: auth.issuers.A: is no name for an issuer; begin with a letter, and use small letters, digits and -",
			`FILE:4: auth.issuers.b.claims: "jwt" is not one of oidc, clerk`,
			`FILE:4: auth.issuers.b.issuer: "http://b.example" is no URL of an issuer; write it like https://login.example.com; http:// is only allowed for localhost and for addresses`,
			"FILE:4: auth.issuers.b.leeway: cannot be negative or more than 5m",
			"FILE:5: auth.issuers.c: it has no issuer; name its URL, exactly as its tokens have it in iss",
			"FILE:5: auth.issuers.c: it has no parties, so a token for any page would be accepted; name the origins of the pages, such as https://app.example.com",
			"FILE:6: auth.issuers.d.audiense: unknown key; did you mean audience?",
			"FILE:6: auth.issuers.d.issuer: is that of A, too",
			"FILE:7: auth.issuers.e: it has no audience, so a token for any application would be accepted; name what the issuer writes into aud for this server",
		}},
		"keys that go nowhere": {"telemetry:\n  headers: {A: b}\n", nil, []string{"PARLEY_TELEMETRY_CONTENT=often"}, []string{
			"FILE:2: telemetry.headers: go to telemetry.otlp_endpoint, which is not set",
			"PARLEY_TELEMETRY_CONTENT: expected true or false",
		}},
		"twice":                {"addr: a:1\naddr: b:1\n", nil, nil, []string{"FILE:2: addr: is set twice, first in line 1"}},
		"not YAML":             {"addr: [\n", nil, nil, []string{"FILE:2: not YAML: did not find expected node content"}},
		"a tab":                {"log:\n\tlevel: info\n", nil, nil, []string{"FILE:2: not YAML: found character that cannot start any token; the line is indented with a tab, use spaces"}},
		"an open quote":        {"log: {}\naddr: 'x\ndata: y\n", nil, nil, []string{"FILE:2: not YAML: found unexpected end of stream; a text that begins here has no closing quote"}},
		"an open bracket":      {"log: {}\nenabled: [a, b\ndata: y\n", nil, nil, []string{"FILE:2: not YAML: did not find expected ',' or ']'"}},
		"too far to the left":  {"log:\n  level: info\n format: text\n", nil, nil, []string{"FILE:3: not YAML: did not find expected key; compare its indentation with the line above"}},
		"too far to the right": {"log:\n  level: info\n\n   # so\n   format: text\n", nil, nil, []string{"FILE:5: not YAML: did not find expected key; compare its indentation with the line above"}},
		"a colon":              {"model: a: b\n", nil, nil, []string{"FILE:1: not YAML: mapping values are not allowed in this context; a text that contains a colon needs quotes"}},
		"references": {"data: ${NOPE}/x\nmodel: file:" + secret + "\n", nil, nil, []string{
			"FILE:1: data: refers to ${NOPE}, which is not set in the environment",
			"FILE:2: model: the file that it refers to cannot be read: ",
		}},
		"flags and variables": {"", map[string]string{"adr": "x", "addr": "y"}, []string{"PARLEY_LOG_FORMAT=xml", "PARLEY_LIMITS_MAX_BODY=-1"}, []string{
			"--addr: expected host:port, such as 127.0.0.1:8000",
			"--adr: there is no setting adr; did you mean addr?",
			`PARLEY_LIMITS_MAX_BODY: "-1" is not a size`,
			`PARLEY_LOG_FORMAT: "xml" is not one of text, json`,
		}},
		"a bomb": {"a: &a [x,x,x,x,x,x,x,x,x]\nenabled: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n", nil, nil, []string{"FILE:1: a: unknown key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, file, err := settings(t, c.body, c.flags, c.vars...)
			if err == nil {
				t.Fatal("got no error")
			}
			got := strings.ReplaceAll(err.Error(), file, "FILE")
			for _, w := range c.want {
				if !strings.Contains("\n"+got, "\n"+w) {
					t.Errorf("got\n%s\nwant a line\n%s", got, w)
				}
			}
			if n := strings.Count(got, "\n") + 1; n != len(c.want) && name != "a bomb" {
				t.Errorf("got %d lines, want %d:\n%s", n, len(c.want), got)
			}
			if parley.CodeOf(err) != parley.CodeInvalid {
				t.Errorf("got code %s", parley.CodeOf(err))
			}
		})
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	_, _, err := settings(t, "addr: ${TOKEN}\ndata: ${NOT_SET}\n", nil, "TOKEN=hunter2")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestReferencesAreResolved(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a/b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, _, err := settings(t, "model: file:"+key+"\ndata: /${A}/$${B}\n", nil, "A=x")
	if err != nil || got.Model != "a/b" || got.Data != "/x/${B}" {
		t.Errorf("got %q, %q, %v", got.Model, got.Data, err)
	}
}

func TestASettingsFileThatIsNamedHasToExist(t *testing.T) {
	t.Parallel()
	if _, err := config.Load(config.From{File: filepath.Join(t.TempDir(), "x.yaml"), Env: env()}); err == nil {
		t.Error("got no error")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("addr: 127.0.0.1:1\nlog: {level: debug}\n")
	f.Add("a: &a [*a]\n")
	f.Add("? [x]\n: y\n<<: {a: b}\n")
	file := filepath.Join(f.TempDir(), "parley.yaml")
	f.Fuzz(func(t *testing.T, body string) {
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.From{File: file, Env: env()})
		if err != nil && parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
}

// TestProviders: the providers are those of the file and those of the environment, each with
// its key, and no others.
func TestProviders(t *testing.T) {
	t.Parallel()
	load := func(file string, env map[string]string) (config.Settings, error) {
		path := filepath.Join(t.TempDir(), "parley.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		env["HOME"] = "/home/ana"
		return config.Load(config.From{File: path, Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	}
	s, err := load("", map[string]string{"MISTRAL_API_KEY": " m ", "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "GEMINI_API_KEY": ""})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]config.Provider{"mistral": {Kind: "mistral", Key: "m"}, "openai": {Kind: "openai", BaseURL: "http://127.0.0.1:11434/v1"}}
	if diff := cmp.Diff(want, s.Models.Providers); diff != "" || s.Models.First() != "mistral" {
		t.Errorf("first is %s (-want +got):\n%s", s.Models.First(), diff)
	}
	s, err = load(`models:
  providers:
    anthropic: {cache_hour: true}
    local: {kind: openai, base_url: "http://127.0.0.1:1/v1", model: qwen3}
  known:
    local/qwen3: {context_tokens: 40960, output_usd: 0}
  calls_per_minute: {local/qwen3: 6}
limits: {usd_per_day: 2.5, user_usd_per_day: {ana: 9}, turns_per_minute: 30}
`, map[string]string{"ANTHROPIC_API_KEY": "a"})
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]config.Provider{"anthropic": {Kind: "anthropic", Key: "a", CacheHour: true}, "local": {Kind: "openai", BaseURL: "http://127.0.0.1:1/v1", Model: "qwen3"}}
	if diff := cmp.Diff(want, s.Models.Providers); diff != "" || *s.Models.Known["local/qwen3"].ContextTokens != 40960 || s.Limits.USDPerDay != 2.5 {
		t.Errorf("%+v (-want +got):\n%s", s.Limits, diff)
	}
	_, err = load(`models:
  providers:
    anthropic: {}
    other: {key: x}
    local: {kind: openai, base_url: "localhost:1", hosted: true}
  known: {qwen: {}}
  calls_per_minute: {a/b: 0}
limits: {usd_per_day: -1}
`, map[string]string{})
	if err == nil {
		t.Fatal("it is taken")
	}
	_, more := load(`models:
  providers:
    local:
      kind: openai
      base_url: http://u:p@127.0.0.1:1/v1
      key: "sk secret"
      dialect: olama
      headers: {"X Team": a, X-Line: "a\nb"}
  known:
    local/a: {input_usd: -1}
    local/b: {context_tokens: 3}
    local/c: {max_output_tokens: 9223372036854775807}
    local/d: {server_tools: [web_serch]}
`, map[string]string{"OPENAI_BASE_URL": "openai.example", "MISTRAL_API_KEY": "a\nsecret"})
	err = errors.Join(err, more)
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "u:p") {
		t.Errorf("it tells a secret: %v", err)
	}
	for _, want := range []string{
		":5: models.providers.local.base_url: has a user, a query or a fragment", ":6: models.providers.local.key: has a space", `:7: models.providers.local.dialect: "olama" is not a dialect; did you mean ollama?`,
		`:8: models.providers.local.headers: "X Team" cannot be`, ":8: models.providers.local.headers.X-Line: has a line break",
		":10: models.known.local/a.input_usd: is -1", ":11: models.known.local/b.context_tokens: is 3", ":12: models.known.local/c.max_output_tokens: is 9223372036854775807",
		`:13: models.known.local/d.server_tools: "web_serch" is not a provider's tool; did you mean web_search?`,
		"OPENAI_BASE_URL: is not an address", "MISTRAL_API_KEY: has a space",
		":3: models.providers.anthropic: has no key: set key, or the variable ANTHROPIC_API_KEY", `:4: models.providers.other.kind: "other" is not one of`,
		":5: models.providers.local.base_url: is not an address", ":5: models.providers.local.hosted: is only for providers", `:6: models.known.qwen: "qwen" is not the full name`,
		":7: models.calls_per_minute.a/b: is 0", ":8: limits.usd_per_day: cannot be less than 0",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
