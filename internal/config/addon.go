package config

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
)

// AddonOptions is the file in which the Supervisor of a Home Assistant stores an add-on's
// options.
const AddonOptions = "/data/options.json"

// addonOptions are these options, under the names in the add-on's config.yaml. The policy
// options have the names that the API uses for them in sessions.
type addonOptions struct {
	Model               string        `yaml:"model"`
	AnthropicAPIKey     string        `yaml:"anthropicApiKey"`
	OpenAIAPIKey        string        `yaml:"openaiApiKey"`
	OpenAIBaseURL       string        `yaml:"openaiBaseUrl"`
	GeminiAPIKey        string        `yaml:"geminiApiKey"`
	MistralAPIKey       string        `yaml:"mistralApiKey"`
	USDPerDay           *float64      `yaml:"usdPerDay"`
	AllowActuation      *bool         `yaml:"allowActuation"`
	AllowlistedServices []string      `yaml:"allowlistedServices"`
	APIKeys             []addonAPIKey `yaml:"apiKeys"`
	LogLevel            string        `yaml:"logLevel"`
}

type addonAPIKey struct {
	Name string `yaml:"name"`
	Key  string `yaml:"key"`
	User string `yaml:"user"`
}

// addonApp is the app that the add-on's options apply to.
const addonApp = "home"

// addon sets the defaults for an add-on: everything in /data, reached only through Home
// Assistant.
func (s *Settings) addon() {
	s.Addr = "0.0.0.0:8099"
	s.Data = "/data"
	s.Enabled = []string{addonApp}
	s.Auth.Mode = "ingress"
}

// addonOptions reads the options set in Home Assistant. It returns the paths of settings
// that still have to be checked.
func (s *Settings) addonOptions(d *decoder) (set []string) {
	raw, err := os.ReadFile(d.file)
	if err != nil {
		d.bad(1, "", "the add-on's options cannot be read: %s", says(err))
		return nil
	}
	var o addonOptions
	d.parse(raw, &o)
	if o.Model != "" {
		s.Model = o.Model
	}
	if o.USDPerDay != nil {
		s.Limits.USDPerDay = *o.USDPerDay
		set = append(set, "limits.usd_per_day")
	}
	if o.LogLevel != "" {
		s.Log.Level = o.LogLevel
		set = append(set, "log.level")
	}
	s.keep(map[string]string{
		"ANTHROPIC_API_KEY": o.AnthropicAPIKey,
		"OPENAI_API_KEY":    o.OpenAIAPIKey,
		"OPENAI_BASE_URL":   o.OpenAIBaseURL,
		"GEMINI_API_KEY":    o.GeminiAPIKey,
		"MISTRAL_API_KEY":   o.MistralAPIKey,
	})
	app := s.App[addonApp]
	if o.AllowActuation != nil {
		app.AllowActuation = o.AllowActuation
	}
	if o.AllowlistedServices != nil {
		app.AllowlistedServices = slices.Clone(o.AllowlistedServices)
	}
	if s.App == nil {
		s.App = map[string]AppSettings{}
	}
	s.App[addonApp] = app
	for i, k := range o.APIKeys {
		s.addKey(k.Name, Key{Key: k.Key, User: k.User}, func(format string, args ...any) {
			d.bad(d.lines["apiKeys"], "apiKeys["+strconv.Itoa(i)+"]", format, args...)
		})
	}
	return set
}

// keep makes options available as variables, for code that reads them from the
// environment. A real environment variable wins.
func (s *Settings) keep(vars map[string]string) {
	outer := s.env
	s.env = func(name string) (string, bool) {
		if v, ok := outer(name); ok && v != "" {
			return v, true
		}
		v := vars[name]
		return v, v != ""
	}
}

// Secrets are the values among the settings that must never appear in any text.
func (s Settings) Secrets() []string {
	list := s.Models.Secrets()
	for _, k := range s.Keys {
		list = append(list, k.Key)
	}
	list = append(list, strings.Fields(s.Vault.Keys)...)
	return slices.DeleteFunc(list, func(v string) bool { return v == "" })
}

// addKey adds a key that does not come from the settings file.
func (s *Settings) addKey(name string, k Key, bad func(format string, args ...any)) {
	switch _, twice := s.Keys[name]; {
	case name == "" || k.Key == "":
		bad("a key has a name and a key")
	case twice:
		bad("there are two keys named %q", parley.Cut(name, 60))
	default:
		if s.Keys == nil {
			s.Keys = map[string]Key{}
		}
		s.Keys[name] = k
	}
}
