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

// Credentials are secrets, by name, that come with a command for the tools of its turn. The
// server that drives the turn holds them in memory until the turn ends. They are never stored.
// After a restart the turn has lost them and asks for them again with an [Interaction] of kind
// credential. Formatting or logging them shows only the names. Their JSON contains the values,
// because that is what clients send.
type Credentials map[string]string

// Names returns the sorted names.
func (c Credentials) Names() []string { return slices.Sorted(maps.Keys(c)) }

// Format implements fmt.Formatter. It writes no value.
func (c Credentials) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "credentials ["+strings.Join(c.Names(), " ")+"]")
}

// LogValue implements slog.LogValuer. It contains only the names.
func (c Credentials) LogValue() slog.Value { return slog.AnyValue(c.Names()) }

// Check returns an error if the credentials are too many, or if a name or value is not allowed. The error contains no value.
func (c Credentials) Check() error {
	if len(c) > MaxCredentials {
		return Errorf(CodeTooLarge, "there are %d credentials; the limit is %d", len(c), MaxCredentials).WithField("credentials")
	}
	for _, name := range c.Names() {
		v := c[name]
		wrong := func(code Code, format string, args ...any) error {
			return Errorf(code, "the credential %s "+format, append([]any{name}, args...)...).WithField("credentials." + name)
		}
		switch {
		case !CredentialName(name):
			// The name is not repeated in the error: somebody may have put the value there.
			return Errorf(CodeInvalid, "one of the credentials has an invalid name").WithField("credentials").
				WithHint("use at most 64 letters, digits and _, and begin with a letter")
		case len(v) < MinCredential:
			// A value this short also occurs in ordinary text, so it could not be redacted from the log.
			return wrong(CodeInvalid, "has fewer than %d bytes", MinCredential)
		case len(v) > MaxCredential:
			return wrong(CodeTooLarge, "has more than %d bytes", MaxCredential)
		case !utf8.ValidString(v) || strings.TrimSpace(v) != v || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return wrong(CodeInvalid, "contains a control character such as a line break, or begins or ends with a space")
		}
	}
	return nil
}

var credentialName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// CredentialName reports whether s is a valid name for a credential.
func CredentialName(s string) bool { return credentialName.MatchString(s) }

// CredentialDecl is a credential that a tool needs for each of its calls.
type CredentialDecl struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"` // the only hosts that it may be sent to, without ports
}

// CredentialsHeader is the HTTP header for credentials on wires whose request bodies have no
// field for them. Its value is a JSON object that maps each name to a string.
const CredentialsHeader = "Parley-Credentials"

// ParseCredentials parses the values of [CredentialsHeader]. No values mean no credentials. An
// error never contains what was sent.
func ParseCredentials(header []string) (Credentials, error) {
	var c Credentials
	for _, text := range header {
		var more map[string]string
		if err := json.Unmarshal([]byte(text), &more); err != nil || more == nil {
			return nil, Errorf(CodeInvalid, "the header %s is not a JSON object with string values", CredentialsHeader).WithField(CredentialsHeader).
				WithHint(`send it like {"NAME": "value"}`)
		}
		if c == nil {
			c = Credentials{}
		}
		maps.Copy(c, more)
	}
	return c, c.Check()
}
