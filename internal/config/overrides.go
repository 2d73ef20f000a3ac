package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
)

// overrides are the settings from outside of the file. They have a name instead of a line.
type overrides struct {
	d     *decoder
	s     *Settings
	from  map[string]string // path → who set it
	wrong []string
}

func (o *overrides) set(path, value, who string) {
	v := reflect.ValueOf(o.s).Elem()
	for key := range strings.SplitSeq(path, ".") {
		f, _, ok := reflect.Value{}, false, false
		if v.Kind() == reflect.Struct {
			f, _, ok = field(v, key)
		}
		if !ok {
			o.wrong = append(o.wrong, fmt.Sprintf("%s: there is no setting %s%s", who, path, nearest.Hint(path, paths(reflect.TypeFor[Settings](), ""))))
			return
		}
		v = f
	}
	o.from[path] = who
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = value
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil {
			o.wrong = append(o.wrong, who+": expected a whole number")
		}
		*p = n
	case *float64:
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			o.wrong = append(o.wrong, who+": expected a number")
		}
		*p = f
	case *bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			o.wrong = append(o.wrong, who+": expected true or false")
		}
		*p = b
	case *[]string:
		*p = slices.DeleteFunc(strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }), func(s string) bool { return s == "" })
	case interface{ UnmarshalText([]byte) error }:
		if err := p.UnmarshalText([]byte(value)); err != nil {
			o.wrong = append(o.wrong, who+": "+says(err))
		}
	}
}

// bad reports a mistake and names where the value came from.
func (o *overrides) bad(path, format string, args ...any) {
	if who, ok := o.from[path]; ok {
		o.wrong = append(o.wrong, who+": "+fmt.Sprintf(format, args...))
		return
	}
	o.d.at(path, format, args...)
}

func (o *overrides) check() {
	s := o.s
	if _, port, err := net.SplitHostPort(s.Addr); err != nil || port == "" {
		o.bad("addr", "expected host:port, such as 127.0.0.1:8000")
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		o.bad("addr", "the port must be a number up to 65535, and is %q", port)
	}
	o.oneOf("log.level", s.Log.Level, "debug", "info", "warn", "error")
	o.oneOf("log.format", s.Log.Format, "text", "json")
	o.oneOf("claude.shell", s.Claude.Shell, "app", "cli")
	if s.Claude.Processes < 1 || s.Claude.Idle <= 0 || s.Claude.Wait <= 0 {
		o.bad("claude", "processes, idle and wait have to be more than 0")
	}
	o.pages()
	for i, origin := range s.CORSOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			o.bad("cors_origins", "%q is not an origin; write it like https://app.example.com", origin)
			continue
		}
		s.CORSOrigins[i] = u.Scheme + "://" + u.Host
	}
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())) || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			o.bad("public_url", "is not a URL that browsers can be redirected to; write it like https://parley.example.com; http:// is only allowed for this machine")
		}
		s.PublicURL = strings.TrimRight(s.PublicURL, "/")
	}
	for _, host := range s.Hosts {
		if host == "" || strings.ContainsAny(host, "/:* ") && net.ParseIP(host) == nil {
			o.bad("hosts", "%q is not a name of a host; write it like parley.example.com, without a port", host)
		}
	}
	_, outside := o.from["limits.max_body"]
	if _, inFile := o.d.lines["limits.max_body"]; !outside && !inFile {
		s.Limits.MaxBody = max(s.Limits.MaxBody, 4*s.Limits.MaxMessage)
	}
	for path, n := range map[string]int64{
		"limits.max_body": int64(s.Limits.MaxBody), "limits.max_message": int64(s.Limits.MaxMessage), "limits.max_streams": int64(s.Limits.MaxStreams),
		"limits.max_connections_per_address": int64(s.Limits.MaxConnectionsPerAddress), "limits.min_upload_rate": int64(s.Limits.MinUploadRate),
		"limits.sessions_per_user": int64(s.Limits.SessionsPerUser), "limits.bytes_per_user": int64(s.Limits.BytesPerUser),
		"limits.patience": int64(s.Limits.Patience),
	} {
		if n <= 0 {
			o.bad(path, "has to be more than 0")
		}
	}
	if s.Limits.MaxConnections < 0 {
		o.bad("limits.max_connections", "cannot be less than 0")
	}
	if s.Limits.MaxMessage > parley.MaxMessageSetting {
		o.bad("limits.max_message", "cannot be more than %dMiB", parley.MaxMessageSetting>>20)
	}
	if s.Limits.MaxMessage > s.Limits.MaxBody {
		o.bad("limits.max_message", "is more than limits.max_body, which holds the message")
	}
	if s.Schedules.PerUser < 0 {
		o.bad("schedules.per_user", "cannot be less than 0")
	}
	if s.Schedules.Shortest < 60e9 {
		o.bad("schedules.shortest", "has to be a minute at least, such as 5m")
	}
	if s.Schedules.Org != "" && s.Schedules.User == "" {
		o.bad("schedules.org", "goes with schedules.user, which is not set")
	}
	o.models()
	if s.Scripted.Pace < 0 {
		o.bad("scripted.pace", "cannot be negative")
	}
	if s.Events.PartialEvery < 0 {
		o.bad("events.partial_every", "cannot be negative")
	}
	if len(s.Telemetry.Headers) > 0 && s.Telemetry.OTLPEndpoint == "" {
		o.bad("telemetry.headers", "go to telemetry.otlp_endpoint, which is not set")
	}
	if s.Auth.Mode != "" {
		o.oneOf("auth.mode", s.Auth.Mode, "none", "keys", "ingress")
	}
	if _, err := netip.ParseAddr(s.Auth.Supervisor); err != nil {
		o.bad("auth.supervisor", "expected an address, such as 172.30.32.2")
	}
	o.issuers()
	o.signIns()
	for name, k := range s.Keys {
		if k.Key == "" {
			o.bad("keys."+name, "the key is empty; refer to one, such as ${NAME}")
		}
	}
	for name, own := range s.App {
		for i, m := range own.Modes {
			o.oneOf(fmt.Sprintf("app.%s.modes[%d]", name, i), string(m), permissionModes...)
		}
	}
	if s.Data == "" {
		o.bad("data", "no folder is set, and the user has no home folder to put it in")
	}
}

// apiKeys adds the keys of PARLEY_API_KEYS. An error names only the position of a key,
// because the whole list is secret.
func (o *overrides) apiKeys(list string) {
	n := 0
	for item := range strings.SplitSeq(list, ",") {
		n++
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, key, _ := strings.Cut(item, "=")
		name, user, _ := strings.Cut(name, "@")
		o.s.addKey(name, Key{Key: key, User: user}, func(format string, args ...any) {
			o.wrong = append(o.wrong, fmt.Sprintf("PARLEY_API_KEYS: the %d. key: ", n)+fmt.Sprintf(format, args...))
		})
	}
}

func (o *overrides) oneOf(path, got string, known ...string) {
	if !slices.Contains(known, got) {
		o.bad(path, "%q is not one of %s", got, strings.Join(known, ", "))
	}
}
