//go:build unix

package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/pattern"
)

const (
	maxName        = 64       // bytes of a tool's name, by the rules of providers
	maxDescription = 8 << 10  // bytes of a tool's description
	maxSchema      = 64 << 10 // bytes of each schema
	maxTaken       = 200      // tools of one server in an app; among more, a model does not find the right one
)

var serverName = pattern.New(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// definition is a tool as it was accepted.
type definition struct {
	name   string // at the server
	print  string // its fingerprint
	decl   parley.ToolDecl
	logsIn bool // it is our own tool and not the server's, see loginTool
}

// fingerprint is equal for equal definitions only.
func fingerprint(t *sdk.Tool) string {
	raw, err := json.Marshal([]any{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err != nil { // never, since it came as JSON
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// define makes the app's tools from those that the server lists. It leaves out tools that the app
// does not allow, and tools that no app can have.
func (o Options) define(listed []*sdk.Tool) []definition {
	defs := []definition{}
	seen := map[string]bool{}
	leave := func(name string, why error) {
		o.Logger.Warn("a tool of an MCP server is left out", "server", o.Name, "tool", o.clean(name, 200), "why", why)
	}
	for _, t := range listed {
		allowed := len(o.Allow) == 0 || slices.ContainsFunc(o.Allow, func(p string) bool { return matches(p, t.Name) })
		if !allowed {
			continue
		}
		decl, err := o.declare(t)
		switch {
		case err != nil:
		case seen[t.Name]:
			err = fmt.Errorf("it is listed twice")
		case len(defs) == maxTaken:
			err = fmt.Errorf("there are more than %d; name those that the app needs under allow", maxTaken)
		}
		if err != nil {
			leave(t.Name, err)
			continue
		}
		seen[t.Name] = true
		defs = append(defs, definition{name: t.Name, print: fingerprint(t), decl: decl})
	}
	// Two names of the server may have become the same name here.
	count := map[string]int{}
	for _, d := range defs {
		count[d.decl.Name]++
	}
	for i, d := range defs {
		if count[d.decl.Name] > 1 && d.decl.Name != o.prefix()+d.name {
			defs[i].decl.Name = shortened(d.decl.Name, d.name)
		}
	}
	return defs
}

func (o Options) prefix() string { return "mcp__" + o.Name + "__" }

// toolName is the name of a tool here, made of characters that all providers accept.
func (o Options) toolName(name string) string {
	full := o.prefix() + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if len(full) > maxName {
		return shortened(full, name)
	}
	return full
}

// shortened shortens a long name and ends it in a digest of the tool's own name, so that it stays
// unique.
func shortened(full, name string) string {
	sum := sha256.Sum256([]byte(name))
	end := "_" + hex.EncodeToString(sum[:4])
	return full[:min(len(full), maxName-len(end))] + end
}

func (o Options) declare(t *sdk.Tool) (d parley.ToolDecl, err error) {
	own := o.Tools[t.Name]
	if t.Name == "" || !utf8.ValidString(t.Name) || len(t.Name) > 256 {
		return d, fmt.Errorf("its name is empty, too long or not text")
	}
	d = parley.ToolDecl{
		Name: o.toolName(t.Name), Description: own.Description, Effect: own.Effect, Subject: own.Subject,
		Timeout: parley.Duration(cmp.Or(own.Timeout, o.Timeout, time.Duration(0))), KeyTTL: parley.Duration(own.KeyTTL),
		Credentials: o.needs(), Web: own.Web, Outward: own.Outward,
	}
	if d.Description == "" {
		d.Description = o.describe(t)
	}
	if d.Effect == "" {
		d.Effect = parley.EffectWrite
		if !o.Distrust {
			d.Effect = effect(t.Annotations)
		}
	}
	d.Safety = safety(t.Annotations)
	if d.InputSchema, err = schema(t.InputSchema); err != nil {
		return d, fmt.Errorf("its input schema %w", err)
	}
	if d.InputSchema != nil && !ofObject(d.InputSchema) {
		return d, fmt.Errorf("its input schema is not that of an object")
	}
	if d.OutputSchema, err = schema(t.OutputSchema); err != nil {
		return d, fmt.Errorf("its output schema %w", err)
	}
	if o.Check == nil {
		return d, nil
	}
	if err := o.Check(d); err == nil || d.OutputSchema == nil {
		return d, err
	}
	d.OutputSchema = nil // a result is returned even if it cannot be checked
	return d, o.Check(d)
}

// describe puts our own words before the server's description, so that a model can tell who wrote
// it.
func (o Options) describe(t *sdk.Tool) string {
	words := o.clean(t.Description, maxDescription)
	title := t.Title
	if title == "" && t.Annotations != nil {
		title = t.Annotations.Title
	}
	if words == "" {
		words = o.clean(title, maxDescription)
	}
	return fmt.Sprintf("Tool %s of the MCP server %s, which describes it as follows: %s", o.clean(t.Name, 256), o.Name, cmp.Or(words, "(nothing)"))
}

// effect is the effect of a call as far as the server declares it. MCP's "idempotent" means that a
// second call with the same input changes nothing more. It does not mean that the server recognises
// a repeated call, so such a tool is a write unless the operator says otherwise.
func effect(a *sdk.ToolAnnotations) parley.Effect {
	if a != nil && a.ReadOnlyHint {
		return parley.EffectRead
	}
	return parley.EffectWrite
}

// safety describes for people what a tool may do.
func safety(a *sdk.ToolAnnotations) string {
	switch {
	case a == nil || a.ReadOnlyHint:
		return ""
	case a.DestructiveHint != nil && !*a.DestructiveHint:
		return "the server says that it only adds"
	case a.DestructiveHint != nil:
		return "the server says that it may destroy"
	}
	return ""
}

// schema returns a schema as JSON; nil if there is none.
func schema(s any) (json.RawMessage, error) {
	if s == nil {
		return nil, nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("cannot be written: %w", err)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("has %d bytes, more than %d", len(raw), maxSchema)
	}
	return raw, nil
}

func ofObject(schema json.RawMessage) bool {
	var s struct{ Type any }
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// clean prepares a server's text for people and models. It removes control characters, which could
// rewrite a terminal, then secrets, and cuts the rest to n bytes.
func (o Options) clean(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if o.Clean != nil {
		text = o.Clean(text)
	}
	return parley.Cut(strings.TrimSpace(text), n)
}

func changedError(server, tool string) error {
	return parley.Errorf(parley.CodeForbidden, "the MCP server %s has changed the definition of its tool %s since it was accepted, so the call was not made", server, tool).
		WithHint("the operator can look at what the server offers now, and restart Parley to accept it")
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func joined(names []string) string { return strings.Join(names, ", ") }

// auth is how calls are authorized, apart from a login.
func (o Options) auth() httpcall.Auth {
	return httpcall.Auth{Bearer: o.Bearer, PlainHTTP: o.PlainHTTP}
}

// needs declares the caller's credential that each call needs, if the server takes one.
func (o Options) needs() []parley.CredentialDecl {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil // New has checked it
	}
	list, _ := o.auth().Needs(u) // New has refused an error
	return list
}
