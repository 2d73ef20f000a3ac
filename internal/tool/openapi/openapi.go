// Package openapi is a toolset over an API that has an OpenAPI description (3.0, 3.1): each
// chosen operation becomes a tool.
//
// The description says what a call looks like, but never where it goes: that is the operator's
// base_url, or a server of the description whose host the operator has named. References out of
// the description are rejected. Only the parts that the chosen operations refer to are read,
// within limits on bytes, parts and depth.
//
// An input is one flat object, with a schema that all providers accept. Its properties are the
// parameters and the properties of a JSON object or form in the body; a parameter with the same
// name as a property of the body is called name__in. An object with arbitrary names becomes a
// list of {key, value}. Values that are nested too deeply or recursive are given as JSON text.
//
// Package httpcall says what the answers mean for the state of the service.
package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
)

// Options say which API to use, and which of its operations.
type Options struct {
	Name        string // of the description, for error messages: its file or its address
	Description []byte // JSON or YAML
	URL         string // where the description was fetched from; empty: it is a file
	BaseURL     string // where calls go; empty: to the description's server, if its host is that of URL or one of Hosts
	Hosts       []string
	Private     []string // see dial.New
	Auth        httpcall.Auth
	Operations  []Operation
	Clean       func(text string) string // removes secrets from error texts of the service; nil: there are none
}

// Operation is one operation that becomes a tool. For empty fields, the description decides.
type Operation struct {
	Operation   string // its operationId, or METHOD /path
	Name        string // of the tool
	Description string
	Effect      parley.Effect // empty: read for GET, HEAD and the like, otherwise write
	Fields      []string      // parts of the answer that the model gets; empty: all
	KeyHeader   string        // header that carries the call's id; empty: none
	KeyTTL      parley.Duration
	Subject     string
	Timeout     parley.Duration
	Web         bool // see parley.ToolDecl
	Outward     bool // see parley.ToolDecl
}

// Toolset implements [seam.Toolset]. It is safe for concurrent use.
type Toolset struct {
	auth  httpcall.Auth
	clean func(text string) string
	call  *httpcall.Caller
	list  []parley.ToolDecl
	tools map[string]*operation
}

// New makes a toolset. Its error joins a [parley.Error] for each mistake, with the option as its
// field.
func New(o Options) (*Toolset, error) {
	var wrong []error
	bad := func(field string, err error) {
		if err != nil {
			wrong = append(wrong, parley.Errorf(parley.CodeInvalid, "%w", err).WithField(field))
		}
	}
	source := "file"
	if o.URL != "" {
		source = "url"
	}
	bad("auth", o.Auth.Check())
	d, err := read(o.Name, o.Description)
	if err != nil {
		bad(source, err)
		return nil, errors.Join(wrong...)
	}
	var base *url.URL
	if o.BaseURL != "" {
		base, err = address(o.BaseURL)
		bad("base_url", err)
	}
	if len(o.Operations) == 0 {
		bad("operations", fmt.Errorf("lists no operation; each listed operation becomes a tool; %s has %s", o.Name, d.list("", maxListed)))
	}
	chosen := make([]entry, len(o.Operations))
	var found []entry
	for i, op := range o.Operations {
		chosen[i], err = d.find(op.Operation)
		bad(at(i, ""), err)
		if err == nil {
			found = append(found, chosen[i])
		}
	}
	doc, err := d.load(found)
	if err != nil {
		bad(source, err)
		return nil, errors.Join(wrong...)
	}
	t := &Toolset{auth: o.Auth, clean: o.Clean, tools: map[string]*operation{}}
	var hosts []string
	var exposed error
	for i, op := range o.Operations {
		e := chosen[i]
		if e.path == "" {
			continue
		}
		if op.Name == "" {
			op.Name = toolName(e)
			for n := 2; t.tools[op.Name] != nil; n++ {
				op.Name = toolName(e) + "_" + strconv.Itoa(n)
			}
		}
		if t.tools[op.Name] != nil {
			bad(at(i, "name"), fmt.Errorf("%q is the name of another operation here", op.Name))
			continue
		}
		if op.Effect == parley.EffectIdempotent && op.KeyHeader == "" && e.method != "put" && e.method != "delete" {
			bad(at(i, "effect"), fmt.Errorf("a %s can be repeated only with a key; name the header for it under key_header", strings.ToUpper(e.method)))
			continue
		}
		item := doc.Paths.Value(e.path)
		made, err := newOperation(e, item, item.GetOperation(strings.ToUpper(e.method)), op, o.Auth)
		if err != nil {
			bad(at(i, ""), err)
			continue
		}
		where := base
		if where == nil && o.BaseURL == "" {
			if where, err = o.server(doc, item, item.GetOperation(strings.ToUpper(e.method))); err != nil {
				bad(at(i, ""), fmt.Errorf("%s %w", e.called(), err))
				continue
			}
		}
		if where != nil {
			made.base = strings.TrimSuffix(where.String(), "/")
			hosts = append(hosts, where.Hostname())
			if made.decl.Credentials, err = o.Auth.Needs(where); err != nil {
				exposed = err
			}
		}
		t.tools[op.Name] = made
		t.list = append(t.list, made.decl)
	}
	bad("auth", exposed)
	guard, err := dial.New(hosts, o.Private)
	bad("private", err)
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	t.call = httpcall.New(guard)
	return t, nil
}

func at(i int, key string) string {
	s := fmt.Sprintf("operations[%d]", i)
	if key != "" {
		s += "." + key
	}
	return s
}

// address parses the URL that calls go to.
func address(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("is not the address of an API; write http:// or https://, a host and a path; passwords and keys go into auth")
	}
	return u, nil
}

// server returns the most specific server of the description that the operator allows.
func (o Options) server(doc *openapi3.T, item *openapi3.PathItem, op *openapi3.Operation) (*url.URL, error) {
	list := doc.Servers
	if len(item.Servers) > 0 {
		list = item.Servers
	}
	if op.Servers != nil && len(*op.Servers) > 0 {
		list = *op.Servers
	}
	if len(list) == 0 {
		list = openapi3.Servers{{URL: "/"}}
	}
	from, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("cannot be called: the description's server has no valid address")
	}
	allowed := slices.Clone(o.Hosts)
	if o.URL != "" {
		allowed = append(allowed, from.Hostname())
	}
	var strange []string
	for _, s := range list {
		raw := s.URL
		for name, v := range s.Variables {
			if v != nil {
				raw = strings.ReplaceAll(raw, "{"+name+"}", v.Default)
			}
		}
		u, err := url.Parse(raw)
		if err == nil && o.URL != "" {
			u = from.ResolveReference(u)
		}
		if err == nil {
			u, err = address(u.String())
		}
		if err != nil {
			strange = append(strange, parley.Cut(raw, 100))
			continue
		}
		named := slices.ContainsFunc(allowed, func(h string) bool { return strings.EqualFold(h, u.Hostname()) })
		// Requests may carry a key, so a description cannot turn https off.
		if named && (u.Scheme == "https" || from.Scheme == "http") {
			return u, nil
		}
		strange = append(strange, parley.Cut(u.String(), 100))
	}
	return nil, fmt.Errorf("has its server at %s, and the description does not decide where calls go; set base_url, or name the host under hosts", strings.Join(strange, ", "))
}

// Close ends idle connections.
func (t *Toolset) Close() { t.call.Close() }

// Tools implements [seam.Toolset].
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) { return slices.Clone(t.list), nil }

// Run implements [seam.Toolset].
func (t *Toolset) Run(ctx context.Context, r seam.Run) (res parley.ToolResult, err error) {
	op := t.tools[r.Name]
	if op == nil {
		return res, seam.NotSent(parley.Errorf(parley.CodeNotFound, "there is no tool %q", r.Name))
	}
	req, err := op.request(ctx, r.Input, string(r.Call))
	if err != nil {
		return res, seam.NotSent(err)
	}
	if err := t.auth.Apply(req, r); err != nil {
		return res, seam.NotSent(err)
	}
	resp, err := t.call.Do(ctx, r.Effect, req)
	if err != nil {
		return res, err
	}
	defer resp.Body.Close()
	if op.keyHeader != "" && resp.StatusCode == http.StatusConflict && r.Attempt > 1 {
		// The service knows the key, so the previous attempt may still be running.
		return res, httpcall.Unclear(resp)
	}
	res, body, err := httpcall.Answer(ctx, r, resp, t.clean)
	if err == nil && body != nil && len(op.fields) > 0 {
		res.Output = op.cut(r, body)
	}
	return res, err
}

// cut returns the chosen fields of an answer for the model, and keeps the whole as an artifact.
func (o *operation) cut(r seam.Run, body json.RawMessage) string {
	part, all := httpcall.Choose(body, o.fields)
	if all {
		return string(part)
	}
	f := seam.File{Name: r.Name + "-" + string(r.Call) + ".json", MediaType: "application/json", Body: body}
	if err := r.Keep(f); err != nil {
		return string(part) + "\n[the answer had more fields, and was not kept: " + err.Error() + "]"
	}
	return fmt.Sprintf("%s\n[the whole answer, %d bytes, is in the artifact %s]", part, len(body), f.Name)
}

// fetchTimeout limits fetching a description.
const fetchTimeout = 30 * time.Second

// Fetch downloads a description, without credentials.
func Fetch(ctx context.Context, from string, private []string) ([]byte, error) {
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "is not the address of a description; write http:// or https:// and a host").WithField("url")
	}
	guard, err := dial.New([]string{u.Hostname()}, private)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("private")
	}
	ctx, stop := context.WithTimeout(ctx, fetchTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "is not the address of a description").WithField("url")
	}
	req.Header.Set("Accept", "application/json, application/yaml;q=0.9, */*;q=0.5")
	caller := httpcall.New(guard)
	defer caller.Close()
	resp, err := caller.Do(ctx, parley.EffectRead, req)
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "the description could not be fetched: %w", err).WithField("url")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		e := parley.Errorf(parley.CodeUnavailable, "the description could not be fetched: %w", httpcall.Unclear(resp)).WithField("url")
		if to := resp.Header.Get("Location"); to != "" {
			e = e.WithHint("redirects are not followed; this one leads to %s", parley.Cut(to, 200))
		}
		return nil, e
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, parley.MaxDescription+1))
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "the description could not be fetched completely: %w", err).WithField("url")
	}
	return raw, nil
}
