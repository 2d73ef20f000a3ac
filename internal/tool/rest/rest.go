// Package rest is a toolset with one tool, api_request, for a REST API that skills describe. It is
// called on behalf of the user, whose token comes with a message and is held in memory only.
//
// A call goes to one of the base URLs that the operator lists, which the turn's hints may choose
// from ([BaseHint]). The model chooses method, path, query and body, and nothing else: no host, no
// header. A path has only one form ([Parse]), and redirects are not followed.
//
// GET and HEAD read; the operator may list paths where they do not. Every other request is a write,
// which a human confirms as it is: the bytes of the body that are shown and kept are those that are
// sent, also by a server that was started again. Space between JSON tokens is in none of them. An Idempotency-Key is sent only to what the operator lists. After a lost answer such a request is
// made again with its key; the others are unknown then.
package rest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// Name is the tool's.
	Name = "api_request"
	// Credential is the name under which a client sends the user's bearer token.
	Credential = "API_TOKEN"
	// BaseHint is the hint of a message that chooses one of the base URLs.
	BaseHint = "api_base_url"
)

var (
	//go:embed api_request.json
	schema []byte
	//go:embed api_request.md
	description string
)

// Options say which API to use. BaseURLs is required.
type Options struct {
	BaseURLs   []string // where calls may go; the first is the default
	Private    []string // see dial.New
	PlainHTTP  bool     // tokens may leave the machine over http
	OrgHeader  string   // the header for the user's organisation; "": X-Org-Id
	Writes     []string // patterns of requests that change something although their method is GET
	Idempotent []string // patterns of requests that the API makes once for an Idempotency-Key
	KeyTTL     parley.Duration
	Timeout    parley.Duration
	// Identities says whose tokens are. Nil: the API has no such address.
	Identities *Identities
	Clean      func(text string) string // removes secrets from error texts of the API; nil: there are none
	Now        func() time.Time         // nil: time.Now
}

// Toolset implements [seam.Toolset]. It is safe for concurrent use.
type Toolset struct {
	o          Options
	bases      []*url.URL
	writes     []Pattern
	idempotent []Pattern
	call       *httpcall.Caller
	decl       parley.ToolDecl
}

var (
	_ seam.Effecter = (*Toolset)(nil)
	_ seam.Vetter   = (*Toolset)(nil)
	_ seam.Preparer = (*Toolset)(nil)
	_ seam.Worder   = (*Toolset)(nil)
)

// New makes a toolset. Its error joins a [parley.Error] for each mistake, with the option as its field.
func New(o Options) (*Toolset, error) {
	var wrong []error
	bad := func(field string, err error) {
		if err != nil {
			wrong = append(wrong, parley.Errorf(parley.CodeInvalid, "%w", err).WithField(field))
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OrgHeader == "" {
		o.OrgHeader = "X-Org-Id"
	}
	t := &Toolset{o: o}
	if len(o.BaseURLs) == 0 {
		bad("base_urls", errors.New("names no API"))
	}
	var hosts []string
	for i, raw := range o.BaseURLs {
		at := fmt.Sprintf("base_urls[%d]", i)
		u, err := Base(raw)
		if err != nil {
			bad(at, err)
			continue
		}
		_, err = httpcall.Auth{Bearer: httpcall.Secret{Credential: Credential}, PlainHTTP: o.PlainHTTP}.Needs(u)
		bad(at, err)
		t.bases = append(t.bases, u)
		if !slices.Contains(hosts, u.Hostname()) {
			hosts = append(hosts, u.Hostname())
		}
	}
	patterns := func(field string, texts []string) (list []Pattern) {
		for i, text := range texts {
			p, err := ParsePattern(text)
			bad(fmt.Sprintf("%s[%d]", field, i), err)
			list = append(list, p)
		}
		return list
	}
	t.writes, t.idempotent = patterns("writes", o.Writes), patterns("idempotent", o.Idempotent)
	if len(t.idempotent) > 0 && o.KeyTTL <= 0 {
		bad("key_ttl", errors.New("is missing; say how long the API recognises an Idempotency-Key, such as 24h"))
	}
	guard, err := dial.New(hosts, o.Private)
	bad("private", err)
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	t.call = httpcall.New(guard)
	t.decl = parley.ToolDecl{
		Name: Name, Description: strings.TrimSpace(description), InputSchema: schema, Effect: parley.EffectWrite, Reads: "GET and HEAD", Confirm: true,
		Subject: "{method} {path}", Credentials: []parley.CredentialDecl{{Name: Credential, Hosts: hosts}}, Timeout: o.Timeout, KeyTTL: o.KeyTTL,
	}
	return t, nil
}

// Base parses a base URL.
func Base(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" ||
		strings.Trim(u.Path, "/") != "" && wrongPath("/"+strings.Trim(u.Path, "/")) != "" {
		return nil, errors.New("is not the address of an API; write http:// or https://, a host and a path")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	u.Host = strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u, nil
}

// Allowed returns the base URL that a client names, in the form that the operator wrote; "" is the first. ok is
// false for one that is not listed.
func (t *Toolset) Allowed(raw string) (base string, ok bool) {
	u := t.base(raw)
	if u == nil {
		return "", false
	}
	return u.String(), true
}

func (t *Toolset) base(raw string) *url.URL {
	if raw == "" {
		return t.bases[0]
	}
	u, err := Base(raw)
	if err != nil {
		return nil
	}
	for _, b := range t.bases {
		if b.String() == u.String() {
			return b
		}
	}
	return nil
}

// Identities are those of the options, or nil.
func (t *Toolset) Identities() *Identities { return t.o.Identities }

// Close ends idle connections.
func (t *Toolset) Close() {
	t.call.Close()
	if t.o.Identities != nil {
		t.o.Identities.Close()
	}
}

// Tools implements [seam.Toolset].
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{t.decl}, nil
}

// EffectOf implements [seam.Effecter].
func (t *Toolset) EffectOf(_ string, input json.RawMessage) parley.Effect {
	r, err := Parse(input)
	if err != nil {
		return parley.EffectWrite
	}
	return t.effect(r)
}

func (t *Toolset) effect(r Request) parley.Effect {
	switch {
	case !r.changes() && !slices.ContainsFunc(t.writes, func(p Pattern) bool { return p.May(r) }):
		return parley.EffectRead
	case r.changes() && slices.ContainsFunc(t.idempotent, func(p Pattern) bool { return p.Matches(r) }):
		return parley.EffectIdempotent
	}
	return parley.EffectWrite
}

// Vet implements [seam.Vetter].
func (t *Toolset) Vet(_ string, input json.RawMessage) error {
	r, err := Parse(input)
	if err == nil {
		_, err = httpcall.ParseFields(r.Fields)
	}
	return err
}

// Words implements [seam.Worder].
func (t *Toolset) Words(_ string, input json.RawMessage) string {
	r, err := Parse(input)
	if err != nil {
		return ""
	}
	return r.Method + " " + r.Path
}

// Prepare implements [seam.Preparer]: a token that is known to be expired is asked for again, before
// anything is sent. Before a write the API is asked about the token anew.
func (t *Toolset) Prepare(ctx context.Context, r seam.Run) (*parley.Interaction, error) {
	if r.Credential == nil {
		return nil, nil
	}
	base := t.baseOf(r)
	if base == nil {
		return nil, nil // Run says so
	}
	token, err := r.Credential(Credential, base.Hostname())
	if err != nil {
		return nil, nil //nolint:nilerr // it is asked for already
	}
	ask := &parley.Interaction{Kind: parley.KindCredential, Credentials: []string{Credential}, Title: "The login has expired"}
	if exp, ok := expiry(token); ok && !t.o.Now().Before(exp) {
		return ask, nil
	}
	if t.o.Identities == nil {
		return nil, nil
	}
	valid := t.o.Identities.Valid
	if in, err := Parse(r.Input); err == nil && t.effect(in) != parley.EffectRead {
		valid = t.o.Identities.Still // a confirmation counts once, and must not be lost to a token that has ended within the last minute
	}
	if ok, err := valid(ctx, token); err == nil && !ok {
		return ask, nil
	}
	return nil, nil
}

// expiry returns when a JSON web token says that it expires. It is not verified: only the API does
// that, and whoever changes it can only be asked earlier.
func expiry(token string) (time.Time, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Exp), 0), true
}

// baseOf is the base URL of a call; nil: its message names one that is not listed.
func (t *Toolset) baseOf(r seam.Run) *url.URL {
	raw, ok := r.Hints[BaseHint]
	if !ok {
		return t.bases[0]
	}
	if text, _ := raw.(string); text != "" {
		return t.base(text)
	}
	return nil
}

// request makes the HTTP request of a call.
func (t *Toolset) request(ctx context.Context, r seam.Run, in Request) (*http.Request, error) {
	base := t.baseOf(r)
	if base == nil {
		return nil, parley.Errorf(parley.CodeForbidden, "the message names an API that is not listed")
	}
	address := base.Scheme + "://" + base.Host + base.EscapedPath() + in.target()
	req, err := http.NewRequestWithContext(ctx, in.Method, address, bytes.NewReader(in.Body))
	if err != nil || req.URL.Host != base.Host || req.URL.EscapedPath() != base.EscapedPath()+in.Path {
		return nil, parley.Errorf(parley.CodeInvalid, "the path makes no valid URL")
	}
	if in.Body == nil {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, */*;q=0.5")
	token, err := r.Credential(Credential, base.Hostname())
	if err != nil {
		return nil, err
	}
	if r.Hide != nil {
		if err := r.Hide(forms(token)...); err != nil {
			return nil, err
		}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if r.Principal.Org != "" {
		req.Header.Set(t.o.OrgHeader, OwnOrg(r.Principal.Org))
	}
	return req, nil
}

// OwnOrg is an organisation in the words of whoever issued the token: its name here begins with a
// name for the issuer.
func OwnOrg(org string) string {
	if _, own, ok := strings.Cut(org, ":"); ok {
		return own
	}
	return org
}

// KeptOrg names an organisation that no issuer has named, so that [OwnOrg] returns it as it is.
func KeptOrg(org string) string {
	if strings.Contains(org, ":") {
		return ":" + org
	}
	return org
}

// forms are other forms in which a service may repeat a token.
func forms(token string) (list []string) {
	for _, f := range []string{url.QueryEscape(token), url.PathEscape(token), strings.ReplaceAll(token, "/", `\/`), base64.StdEncoding.EncodeToString([]byte(token)), base64.RawURLEncoding.EncodeToString([]byte(token))} {
		if f != token && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// Run implements [seam.Toolset].
func (t *Toolset) Run(ctx context.Context, r seam.Run) (res parley.ToolResult, err error) {
	in, err := Parse(r.Input)
	if err != nil {
		return res, seam.NotSent(err)
	}
	fields, err := httpcall.ParseFields(in.Fields)
	if err != nil {
		return res, seam.NotSent(err)
	}
	effect := t.effect(in)
	if r.Effect == parley.EffectRead && effect != parley.EffectRead { // what it was begun as is what it was asked as
		return res, seam.NotSent(parley.Errorf(parley.CodeForbidden, "this request changes something, and was not confirmed"))
	}
	req, err := t.request(ctx, r, in)
	if err != nil {
		return res, seam.NotSent(err)
	}
	if r.Effect == parley.EffectIdempotent {
		req.Header.Set("Idempotency-Key", string(r.Call))
	}
	resp, err := t.call.Do(ctx, r.Effect, req)
	if err != nil {
		return res, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized && t.o.Identities != nil {
		t.o.Identities.Forget(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))
	}
	if r.Effect == parley.EffectIdempotent && resp.StatusCode == http.StatusConflict && r.Attempt > 1 {
		return res, httpcall.Unclear(resp) // the API knows the key: the earlier attempt may still be running
	}
	if resp.StatusCode/100 == 3 && r.Effect == parley.EffectRead {
		return res, parley.Errorf(parley.CodeTool, "%w; redirects are not followed", httpcall.Unclear(resp))
	}
	res, body, err := httpcall.Answer(ctx, r, resp, t.o.Clean)
	switch {
	case err != nil || res.Outcome != parley.OutcomeOK:
	case in.Method == http.MethodHead:
		res.Output = fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case body != nil:
		res.Output = cut(r, body, fields, in.Entries)
	}
	return res, err
}

// cut returns what was asked for of an answer, and keeps the whole as an artifact.
func cut(r seam.Run, body json.RawMessage, fields []httpcall.Field, entries int) string {
	part, all := body, true
	if len(fields) > 0 {
		part, all = httpcall.Choose(body, fields)
	}
	part, left := httpcall.Entries(part, entries)
	if all && left == 0 {
		return string(part)
	}
	what := "the answer has more fields"
	if left > 0 {
		what = fmt.Sprintf("the answer has %d more entries", left)
	}
	f := seam.File{Name: Name + "-" + string(r.Call) + ".json", MediaType: "application/json", Body: body}
	if err := r.Keep(f); err != nil {
		return fmt.Sprintf("%s\n[%s, and was not kept: %s]", part, what, err)
	}
	return fmt.Sprintf("%s\n[%s; the whole, %d bytes, is in the artifact %s]", part, what, len(body), f.Name)
}
