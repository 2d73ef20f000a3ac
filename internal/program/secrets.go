package program

import (
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/config"
)

// knownSecrets are the secrets in the environment and the settings, which no text may
// contain. Ordinary words are left out, or every text with such a word would be redacted.
func knownSecrets(s config.Settings) []string {
	list := secrets(os.Environ(), isFile)
	if at, err := storeOf(s); err == nil {
		list = append(list, passwords(at.secret)...)
	}
	for _, v := range slices.Concat(s.Secrets(), s.Models.Secrets()) {
		list = append(list, keys(v)...)
	}
	for _, v := range s.Telemetry.Headers {
		list = append(list, keys(headerSecrets(v)...)...)
	}
	return list
}

var (
	// passwordNames are endings of variable names that hold a password and nothing else.
	// A person may have chosen it: a short number, a word.
	passwordNames = []string{"PASSWORD", "_PASSWD", "_PASSPHRASE"}
	// secretNames are endings of names that often hold a secret, but as often a mode:
	// SMTP_AUTH=enabled, SORT_KEY=created_at, TLS_PASS=none.
	secretNames = []string{"_KEY", "_TOKEN", "_SECRET", "_PASS", "_PAT", "_APIKEY", "_CREDENTIALS", "_AUTH"}
)

// secrets are the values of variables that are named like a secret, the passwords in
// URLs, and the headers that OpenTelemetry sends. A file path, as isFile reports, is not
// a secret: the secret is in the file.
func secrets(environ []string, isFile func(path string) bool) []string {
	var list []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		name = strings.ToUpper(name)
		ends := func(with string) bool { return strings.HasSuffix("_"+name, with) } // TOKEN alone, too
		switch {
		case slices.ContainsFunc(passwordNames, ends):
			if !isFile(value) {
				list = append(list, passwords(value)...)
			}
		case slices.ContainsFunc(secretNames, ends):
			if !isFile(value) {
				list = append(list, keys(value)...)
			}
		case strings.HasPrefix(name, "OTEL_") && strings.HasSuffix(name, "_HEADERS"):
			for _, pair := range strings.Split(value, ",") {
				_, v, _ := strings.Cut(pair, "=")
				if plain, err := url.PathUnescape(v); err == nil {
					v = plain
				}
				list = append(list, keys(headerSecrets(v)...)...)
			}
		case strings.Contains(value, "://"):
			if u, err := url.Parse(value); err == nil && u.User != nil {
				password, _ := u.User.Password()
				list = append(list, passwords(password)...)
			}
		}
	}
	return list
}

// referred are the secrets among values that a program gets from files and variables,
// whatever it calls them. Paths and the hosts of addresses are none.
func referred(values []string, isFile func(path string) bool) []string {
	var list []string
	for _, v := range values {
		if dir := path.Dir(v); isFile(v) || path.IsAbs(v) && dir != "/" && isFile(dir) {
			continue
		}
		u, err := url.Parse(v)
		if err != nil || u.Host == "" {
			list = append(list, keys(v)...)
			continue
		}
		password, _ := u.User.Password()
		list = append(list, passwords(password)...)
		list = append(list, keys(strings.FieldsFunc(u.EscapedPath()+"/"+u.RawQuery, func(r rune) bool { return strings.ContainsRune("/&=", r) })...)...)
	}
	return list
}

// passwords are the values that may be a password: all except those found in every
// manual.
func passwords(values ...string) []string {
	return slices.DeleteFunc(values, func(v string) bool {
		return slices.Contains(usual, strings.ToLower(strings.TrimSpace(v)))
	})
}

// usual are values that are not secret under any name: switches, and the default
// passwords of examples, images and packages. Shorter ones are too short to be searched
// for.
var usual = []string{
	"admin1", "adminadmin", "always", "anonymous", "changeit", "changeme", "default", "disable", "disabled", "dummy1",
	"enable", "enabled", "example", "external", "fallback", "insecure", "internal", "localhost", "lm-studio", "manual",
	"mariadb", "mongodb", "no-key", "not-needed", "nothing", "oauth2", "ollama", "optional", "parley", "password",
	"placeholder", "postgres", "postgresql", "prompt", "rabbitmq", "required", "sk-no-key-required", "secret", "static",
	"undefined", "unused", "username", "website",
}

const (
	// shortNumber is the length up to which a number is not a secret: a port, a count, a
	// time in ms.
	shortNumber = 7
	// shortWords is the same for words. From 16 letters on they may be a key: mail
	// providers issue such for programs.
	shortWords = 15
)

// keys are the values that may be a key or a token. Machines make these, so words in one
// case, with or without separators, and short numbers are left out.
func keys(values ...string) []string {
	return slices.DeleteFunc(passwords(values...), func(v string) bool {
		v = strings.TrimSpace(v)
		if strings.Trim(v, "0123456789") == "" {
			return len(v) <= shortNumber
		}
		return len(v) <= shortWords && words.MatchString(v)
	})
}

// words matches words in lower case, upper case or capitalized.
var words = regexp.MustCompile(`^([A-Z]?[a-z]+|[A-Z]+)([-_. ,]+([A-Z]?[a-z]+|[A-Z]+))*$`)

// isFile reports whether v is the path of an existing file.
func isFile(v string) bool {
	if !strings.ContainsAny(v, `/\`) {
		return false
	}
	_, err := os.Stat(v)
	return err == nil
}

// headerSecrets are a header's value and, for "Basic x", x.
func headerSecrets(v string) []string {
	v = strings.TrimSpace(v)
	_, credentials, _ := strings.Cut(v, " ")
	return []string{v, strings.TrimSpace(credentials)}
}
