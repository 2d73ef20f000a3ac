package parley

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Credentials are secrets by name that come with a command, for the tools of its turn. They
// are held in the memory of the server that drives the turn, until the turn has ended, and
// are never stored: a turn that has lost them, as after a restart, asks for them again by an
// [Interaction] of the kind credential. Formatting or logging them shows only their names;
// their JSON has the values, since it is what clients send.
type Credentials map[string]string

// Names are the names, sorted.
func (c Credentials) Names() []string { return slices.Sorted(maps.Keys(c)) }

// Format implements fmt.Formatter. It writes no value.
func (c Credentials) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "credentials ["+strings.Join(c.Names(), " ")+"]")
}

// LogValue implements slog.LogValuer. It has no value.
func (c Credentials) LogValue() slog.Value { return slog.AnyValue(c.Names()) }

// Check returns what is wrong with the credentials, without their values.
func (c Credentials) Check() error {
	if len(c) > MaxCredentials {
		return Errorf(CodeTooLarge, "there are %d credentials; %d are the most", len(c), MaxCredentials).WithField("credentials")
	}
	for _, name := range c.Names() {
		v := c[name]
		wrong := func(code Code, format string, args ...any) error {
			return Errorf(code, "the credential %s "+format, append([]any{name}, args...)...).WithField("credentials." + name)
		}
		switch {
		case !CredentialName(name):
			// It is not repeated: somebody may have put the value in the name's place.
			return Errorf(CodeInvalid, "one of the credentials has a name that it cannot have").WithField("credentials").
				WithHint("use letters, digits and _, at most 64, and begin with a letter")
		case len(v) < MinCredential:
			// Its few bytes would be found in ordinary words, so it could not be kept out of the log.
			return wrong(CodeInvalid, "has fewer than %d bytes", MinCredential)
		case len(v) > MaxCredential:
			return wrong(CodeTooLarge, "has more than %d bytes", MaxCredential)
		case !utf8.ValidString(v) || strings.TrimSpace(v) != v || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return wrong(CodeInvalid, "has a character that it cannot have, such as the end of a line, or a space around it")
		}
	}
	return nil
}

var credentialName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// CredentialName reports whether a credential may have the name.
func CredentialName(s string) bool { return credentialName.MatchString(s) }

// CredentialDecl is a credential that a tool needs for each of its calls.
type CredentialDecl struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"` // the only hosts that it is sent to, without ports
}

// CredentialsHeader is the HTTP header in which wires take credentials whose bodies have no
// place for them: a JSON object with a text for each name.
const CredentialsHeader = "Parley-Credentials"

// ParseCredentials reads the values of [CredentialsHeader]; without any, there are none. An
// error does not have what was sent.
func ParseCredentials(header []string) (Credentials, error) {
	var c Credentials
	for _, text := range header {
		var more map[string]string
		if err := json.Unmarshal([]byte(text), &more); err != nil || more == nil {
			return nil, Errorf(CodeInvalid, "the header %s is not a JSON object of texts", CredentialsHeader).WithField(CredentialsHeader).
				WithHint(`send it like {"NAME": "value"}`)
		}
		if c == nil {
			c = Credentials{}
		}
		maps.Copy(c, more)
	}
	return c, c.Check()
}
