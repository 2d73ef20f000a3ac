package program

import (
	"encoding/json"
	"fmt"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley/internal/config"
)

const addonDir = "../../addon"

// rule reports whether the Supervisor accepts a value in an add-on's config.yaml. The rules are
// those of the Supervisor's own schema
// (https://github.com/home-assistant/supervisor/blob/main/supervisor/addons/validate.py). That
// schema ignores unknown keys; here they are a mistake. The keys are described at
// https://developers.home-assistant.io/docs/add-ons/configuration.
type rule func(v any) bool

func text(v any) bool { _, ok := v.(string); return ok }
func yes(v any) bool  { _, ok := v.(bool); return ok }

func match(pattern string) rule {
	re := regexp.MustCompile("^(?:" + pattern + ")$")
	return func(v any) bool { s, ok := v.(string); return ok && re.MatchString(s) }
}

func oneOf(known ...string) rule {
	return func(v any) bool { s, ok := v.(string); return ok && slices.Contains(known, s) }
}

func between(low, high int) rule {
	return func(v any) bool { n, ok := v.(int); return ok && n >= low && n <= high }
}

func listOf(each rule) rule {
	return func(v any) bool {
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(v any) bool { return !each(v) })
	}
}

func mapOf(key, value rule) rule {
	return func(v any) bool {
		m, ok := v.(map[string]any)
		for k, v := range m {
			ok = ok && key(k) && value(v)
		}
		return ok
	}
}

func either(rules ...rule) rule {
	return func(v any) bool { return slices.ContainsFunc(rules, func(r rule) bool { return r(v) }) }
}

func webAddress(v any) bool {
	s, _ := v.(string)
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

var (
	null rule = func(v any) bool { return v == nil }
	port rule = match(`\d+(/tcp|/udp)?`)

	// element is one type of an option
	// (https://github.com/home-assistant/supervisor/blob/main/supervisor/addons/options.py).
	element = match(`(bool|email|url|port|device(\(subsystem=[a-z]+\))?|str(\(\d*,\d*\))?|password(\(\d*,\d*\))?|int(\(\d*,\d*\))?` +
		`|float(\([\d.]*,[\d.]*\))?|match\(.*\)|list\(.+\))\??`)

	mapping rule = func(v any) bool {
		m, ok := v.(map[string]any)
		for k, v := range m {
			switch k {
			case "type":
				ok = ok && oneOf("data", "ssl", "addons", "backup", "share", "media", "homeassistant_config", "all_addon_configs", "addon_config")(v)
			case "read_only":
				ok = ok && yes(v)
			case "path":
				ok = ok && match(`/.+`)(v)
			default:
				ok = false
			}
		}
		return ok && m["type"] != nil
	}

	required = []string{"name", "version", "slug", "description", "arch"}
	known    = map[string]rule{
		"name": text, "description": text, "url": webAddress,
		"version":           match(`\d+\.\d+\.\d+`),
		"slug":              match(`[-_.A-Za-z0-9]+`),
		"arch":              listOf(oneOf("amd64", "aarch64")), // the others are no longer supported
		"stage":             oneOf("stable", "experimental", "deprecated"),
		"startup":           oneOf("initialize", "system", "services", "application", "once"),
		"boot":              oneOf("auto", "manual", "manual_only"),
		"timeout":           between(10, 300),
		"watchdog":          match(`(https?|\[PROTO:\w+\]|tcp)://\[HOST\]:(\[PORT:\d+\]|\d+).*`),
		"homeassistant_api": yes,
		"hassio_api":        yes,
		"hassio_role":       oneOf("default", "homeassistant", "backup", "manager", "admin"),
		"ingress":           yes,
		"ingress_port":      between(0, 65535),
		"ingress_entry":     text,
		"ingress_stream":    yes,
		"panel_title":       text,
		"panel_icon":        match(`mdi:[a-z0-9-]+`),
		"panel_admin":       yes,
		"ports":             mapOf(port, either(null, between(1, 65535))),
		"ports_description": mapOf(port, text),
		"map":               listOf(mapping),
		"tmpfs":             yes,
		"backup":            oneOf("hot", "cold"),
		"backup_exclude":    listOf(text),
		"options":           mapOf(text, func(any) bool { return true }),
		"schema":            mapOf(text, either(element, listOf(either(element, mapOf(text, element))), mapOf(text, element))),
	}
)

func addonFile(t *testing.T, name string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(addonDir, name))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := yaml.Load(raw, &m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

func TestAddon_is_as_the_Supervisor_takes_it(t *testing.T) {
	t.Parallel()
	c := addonFile(t, "config.yaml")
	for _, key := range required {
		if c[key] == nil {
			t.Errorf("%s is missing", key)
		}
	}
	for key, v := range c {
		if r, ok := known[key]; !ok || !r(v) {
			t.Errorf("%s: the Supervisor does not take %v", key, v)
		}
	}
	if c["version"] != version {
		t.Errorf("the add-on is %v, and the program %s", c["version"], version)
	}
	// The defaults must pass the schema, and an option without a default must be optional.
	schema, options := c["schema"].(map[string]any), c["options"].(map[string]any)
	for key, typ := range schema {
		if s, ok := typ.(string); ok && options[key] == nil && !strings.HasSuffix(s, "?") {
			t.Errorf("the option %s has no default, so the add-on could not start", key)
		}
	}
	for key, v := range options {
		if schema[key] == nil || !fits(schema[key], v) {
			t.Errorf("the default of %s is %v, which is not %v", key, v, schema[key])
		}
	}
}

// fits reports whether an option's value is of its type.
func fits(typ, v any) bool {
	switch typ := typ.(type) {
	case []any:
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(v any) bool { return !fits(typ[0], v) })
	case map[string]any:
		m, ok := v.(map[string]any)
		for k, v := range m {
			ok = ok && typ[k] != nil && fits(typ[k], v)
		}
		return ok
	}
	s := strings.TrimSuffix(typ.(string), "?")
	if inner, ok := strings.CutPrefix(s, "list("); ok {
		return oneOf(strings.Split(strings.TrimSuffix(inner, ")"), "|")...)(v)
	}
	if inner, ok := strings.CutPrefix(s, "match("); ok {
		return match(strings.TrimSuffix(inner, ")"))(v)
	}
	switch s {
	case "bool":
		return yes(v)
	case "url":
		return webAddress(v)
	case "float(0,)":
		n, ok := v.(float64)
		return ok && n >= 0
	}
	return text(v)
}

// sample returns a value of the type.
func sample(typ any) any {
	switch typ := typ.(type) {
	case []any:
		return []any{sample(typ[0])}
	case map[string]any:
		m := map[string]any{}
		for k, t := range typ {
			m[k] = sample(t)
		}
		return m
	}
	s := strings.TrimSuffix(typ.(string), "?")
	if inner, ok := strings.CutPrefix(s, "list("); ok {
		return strings.Split(strings.TrimSuffix(inner, ")"), "|")[0]
	}
	switch {
	case s == "bool":
		return true
	case s == "url":
		return "http://ollama.local:11434/v1"
	case strings.HasPrefix(s, "match("):
		return "light.turn_on"
	case s == "float(0,)":
		return 1.5
	}
	return "some-text-of-20-characters"
}

// TestAddon_options_are_known_to_the_server: the server reads every option, the translations
// describe it, and the defaults are the server's own.
func TestAddon_options_are_known_to_the_server(t *testing.T) {
	t.Parallel()
	c := addonFile(t, "config.yaml")
	schema := c["schema"].(map[string]any)
	load := func(options any) (config.Settings, error) {
		raw, err := json.Marshal(options)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "options.json")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Load(config.From{Addon: file, Env: func(string) (string, bool) { return "", false }})
	}
	all := map[string]any{}
	for key, typ := range schema {
		all[key] = sample(typ)
		if !fits(typ, all[key]) {
			t.Fatalf("%s: the sample %v is not of type %v", key, all[key], typ)
		}
	}
	if _, err := load(all); err != nil {
		t.Errorf("all options: %v", err)
	}
	plain, err := load(map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	for key := range schema {
		one, err := load(map[string]any{key: all[key]})
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if fmt.Sprintf("%+v", one.Keys)+fmt.Sprint(one.Secrets(), one.Env("OPENAI_BASE_URL")) == fmt.Sprintf("%+v", plain.Keys)+fmt.Sprint(plain.Secrets(), plain.Env("OPENAI_BASE_URL")) &&
			one.Model == plain.Model && one.Log == plain.Log && cmp.Equal(one.App, plain.App) && cmp.Equal(one.Limits, plain.Limits) {
			t.Errorf("the option %s changes nothing", key)
		}
	}
	standard, err := load(c["options"])
	if err != nil {
		t.Fatal(err)
	}
	no := false
	plain.App["home"] = config.AppSettings{AllowActuation: &no, AllowlistedServices: []string{}}
	if diff := cmp.Diff(plain.App, standard.App); diff != "" || standard.Log != plain.Log || len(standard.Keys) > 0 {
		t.Errorf("the defaults of the add-on are not the server's: %s", diff)
	}
	if want := "0.0.0.0:" + strconv.Itoa(c["ingress_port"].(int)); standard.Addr != want {
		t.Errorf("ingress looks for %s, the server listens on %s", want, standard.Addr)
	}

	words := addonFile(t, "translations/en.yaml")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(schema)), slices.Sorted(maps.Keys(words["configuration"].(map[string]any)))); diff != "" {
		t.Errorf("options and translations: -want +got:\n%s", diff)
	}
	for key, v := range words["configuration"].(map[string]any) {
		if w, ok := v.(map[string]any); !ok || !text(w["name"]) || !text(w["description"]) || len(w) != 2 {
			t.Errorf("the translation of %s is %v", key, v)
		}
	}
	if diff := cmp.Diff(c["ports_description"], words["network"]); diff != "" {
		t.Errorf("ports: -want +got:\n%s", diff)
	}
	docs, err := os.ReadFile(filepath.Join(addonDir, "DOCS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for key := range schema {
		if !strings.Contains(string(docs), "`"+key+"`") {
			t.Errorf("DOCS.md does not speak of %s", key)
		}
	}
}

// TestAddon_folder_is_whole: the folder has the other files that Home Assistant looks for
// (https://developers.home-assistant.io/docs/add-ons/presentation).
func TestAddon_folder_is_whole(t *testing.T) {
	t.Parallel()
	for name, size := range map[string][2]int{"icon.png": {128, 128}, "logo.png": {250, 100}} {
		f, err := os.Open(filepath.Join(addonDir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if c, err := png.DecodeConfig(f); err != nil || c.Width != size[0] || c.Height != size[1] {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	log, err := os.ReadFile(filepath.Join(addonDir, "CHANGELOG.md"))
	if err != nil || !strings.Contains(string(log), "## "+version+"\n") {
		t.Errorf("the changelog does not know version %s: %v", version, err)
	}
	info, err := os.Stat(filepath.Join(addonDir, "run.sh"))
	if err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("run.sh cannot be run: %v", err)
	}
	docker, err := os.ReadFile(filepath.Join(addonDir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range addonFile(t, "config.yaml")["arch"].([]any) {
		if !strings.Contains(string(makefile), fmt.Sprintf("bin/addon/parley-%s:", arch)) {
			t.Errorf("`make addon` does not build for %s", arch)
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^COPY (\S+) `).FindAllStringSubmatch(string(docker), -1) {
		if line[1] == "parley-${BUILD_ARCH}" {
			continue // made by `make addon`
		}
		if _, err := os.Stat(filepath.Join(addonDir, line[1])); err != nil {
			t.Errorf("the Dockerfile copies %s: %v", line[1], err)
		}
	}
}
