package auth

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/strict"
)

// maxOrgs limits how many organisations of a token count.
const maxOrgs = 200

// claims are those of a token that we read.
type claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	Party    string   `json:"azp"`

	Expires   json.Number `json:"exp"`
	NotBefore json.Number `json:"nbf"`
	IssuedAt  json.Number `json:"iat"`

	Nonce  *string         `json:"nonce"`
	Events json.RawMessage `json:"events"` // of logout tokens
	SID    string          `json:"sid"`
	ID     string          `json:"jti"`

	typ                          string // of the header
	expires, notBefore, issuedAt time.Time
	all                          map[string]json.RawMessage
}

// audience is a string or several (RFC 7519, 4.1.3). It is nil only if the claim is absent.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil && string(raw) != "null" {
		*a = audience{one}
		return nil
	}
	list := []string{}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*a = append(audience{}, list...)
	return nil
}

// exact are the claims that decide. The decoder also accepts them in other case.
var exact = []string{"iss", "sub", "aud", "azp", "exp", "nbf", "iat", "nonce", "events", "sid", "jti", "act", "o", "org_id", "sts"}

// readClaims reads a payload whose signature was verified. It refuses what two readers could
// understand differently.
func readClaims(raw []byte) (c claims, err error) {
	if strict.JSON(raw) != nil {
		return c, refusedToken("it has a claim twice, or one that is not text in UTF-8")
	}
	if json.Unmarshal(raw, &c.all) != nil || c.all == nil {
		return c, refusedToken("its claims are no JSON object")
	}
	for name := range c.all {
		if i := slices.IndexFunc(exact, func(e string) bool { return strings.EqualFold(e, name) }); i >= 0 && exact[i] != name {
			return c, refusedToken("it has the claim %s in other letters", exact[i])
		}
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, refusedToken("a claim has the wrong type")
	}
	for _, t := range []struct {
		from json.Number
		to   *time.Time
	}{{c.Expires, &c.expires}, {c.NotBefore, &c.notBefore}, {c.IssuedAt, &c.issuedAt}} {
		if t.from == "" {
			continue
		}
		secs, err := t.from.Float64()
		if err != nil || secs < 0 || secs > 1<<40 { // in 36,000 years
			return c, refusedToken("a claim has no possible time")
		}
		whole, part := math.Modf(secs)
		*t.to = time.Unix(int64(whole), int64(part*1e9))
	}
	return c, nil
}

// text returns a claim that is a text, which may be in an object: name, or act and sub; "" for
// anything else.
func (c claims) text(path ...string) (s string) {
	at := c.all
	for _, name := range path[:len(path)-1] {
		var in map[string]json.RawMessage
		if json.Unmarshal(at[name], &in) != nil {
			return ""
		}
		at = in
	}
	if json.Unmarshal(at[path[len(path)-1]], &s) != nil {
		return ""
	}
	return s
}

// texts returns a claim as a list of texts: of a text, of a list, or the keys of an object, which
// is how Keycloak writes organisations. name may be a path with dots. Other values have none.
func (c claims) texts(name string) []string {
	raw, ok := c.all[name]
	for at := c.all; !ok; {
		first, rest, deeper := strings.Cut(name, ".")
		if !deeper {
			return nil
		}
		var in map[string]json.RawMessage
		if json.Unmarshal(at[first], &in) != nil {
			return nil
		}
		at, name = in, rest
		raw, ok = at[name]
	}
	var one string
	var list []string
	var object map[string]json.RawMessage
	switch {
	case json.Unmarshal(raw, &one) == nil:
		if one == "" {
			return nil
		}
		list = []string{one}
	case json.Unmarshal(raw, &list) == nil:
	case json.Unmarshal(raw, &object) == nil:
		list = slices.Sorted(maps.Keys(object))
	}
	return list[:min(len(list), maxOrgs)]
}
