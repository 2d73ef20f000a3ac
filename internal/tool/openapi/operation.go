package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/httpcall"
)

// operation has the data needed to call one tool.
type operation struct {
	decl      parley.ToolDecl
	method    string
	path      string // with parameters in braces
	base      string // base URL, without a slash at the end
	args      []argument
	body      *body // nil: there is none
	fields    []httpcall.Field
	keyHeader string
}

// argument is a parameter outside the body.
type argument struct {
	prop
	in       string // path, query, header, cookie
	style    string
	explode  bool
	asJSON   bool
	reserved bool // some reserved characters are not escaped
	empty    bool // may be sent without a value
}

// body says how the body of a request is encoded.
type body struct {
	media    string // media type of the request
	required bool
	whole    *shape                // the body is one argument, called name; nil: its properties are the arguments
	name     string                // of that argument
	props    []prop                // if whole is nil
	encoding map[string]encodingOf // of a form, by property
}

// encodingOf says how a property of a form is encoded.
type encodingOf struct {
	style   string
	explode bool
}

// notSet lists headers that the model may not set. Some services take the method of a request from
// a header, which could make a write of a read.
var notSet = []string{
	"Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override",
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// textOnly is the number of levels of an input whose body is a single JSON text.
const textOnly = 1

// newOperation reads one operation. Its schema is as deep as the size limit permits.
func newOperation(e entry, item *openapi3.PathItem, op *openapi3.Operation, o Operation, auth httpcall.Auth) (*operation, error) {
	for _, levels := range []int{maxLevels, 8, 6, 5, 4, 3, 2, textOnly} {
		c := &converter{}
		out, err := c.operation(e, item, op, o, auth, levels)
		if err != nil {
			return nil, err
		}
		if n := len(out.decl.InputSchema); !c.over && n <= maxInput || levels <= 2 && n <= maxWidest {
			return out, nil
		}
	}
	return nil, fmt.Errorf("%s takes more than a tool's input can hold", e.called())
}

func (c *converter) operation(e entry, item *openapi3.PathItem, op *openapi3.Operation, o Operation, auth httpcall.Auth, levels int) (*operation, error) {
	if !strings.HasPrefix(e.path, "/") { // behind the base, it would change the host or the port
		return nil, fmt.Errorf("%s has the path %q, which does not begin with /", e.called(), parley.Cut(e.path, 100))
	}
	out := &operation{method: strings.ToUpper(e.method), path: e.path, keyHeader: o.KeyHeader}
	params := c.parameters(item, op, o, auth)
	props, required, names := schema{}, []string{}, namer{}

	// If a parameter and a body property share a name, the body keeps it.
	taken := map[string]bool{}
	var form *openapi3.MediaType
	var f *flat
	if op.RequestBody != nil && op.RequestBody.Value != nil {
		out.body, form = pick(op.RequestBody.Value)
	}
	if out.body != nil {
		f = flatten(form.Schema)
		if len(f.forms) > 0 {
			whole := *f
			if f.union(unitedDeep); len(f.props) == 0 {
				f = &whole
			}
		}
		switch {
		case len(f.props) > 0 && levels > textOnly:
			for name := range f.props {
				taken[name] = true
			}
		default:
			taken["body"] = true
		}
	}
	seen := map[string]bool{}
	for _, p := range params {
		a, sub, err := c.argument(p, max(levels-1, 1))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.called(), err)
		}
		wanted := p.Name
		if taken[p.Name] || seen[p.Name] {
			wanted += "__" + p.In
		}
		seen[p.Name] = true
		a.name = names.name(wanted)
		props[a.name] = sub
		if a.required {
			required = append(required, a.name)
		}
		out.args = append(out.args, a)
	}
	for _, m := range placeholder.FindAllStringSubmatch(e.path, -1) {
		if !slices.ContainsFunc(out.args, func(a argument) bool { return a.in == "path" && a.wire == m[1] }) {
			return nil, fmt.Errorf("%s has {%s} in its path and no parameter for it", e.called(), m[1])
		}
	}
	if b := out.body; b != nil {
		if len(f.props) > 0 && levels > textOnly {
			for _, wire := range slices.Sorted(maps.Keys(f.props)) {
				sub, sh := c.property(f.props[wire], levels-1)
				name := names.name(wire)
				props[name] = sub
				must := b.required && f.required[wire]
				if must {
					required = append(required, name)
				}
				b.props = append(b.props, prop{name, wire, must, sh})
			}
		} else {
			var sub schema
			b.name = names.name("body")
			sub, b.whole = c.convert(form.Schema, max(levels-1, 1))
			props[b.name] = sub
			if b.required {
				required = append(required, b.name)
			}
		}
	}
	input := schema{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		input["required"] = required
	}
	out.decl = declare(e, op, o, json.RawMessage(marshal(input)))
	var err error
	out.fields, err = httpcall.ParseFields(o.Fields)
	return out, err
}

const maxDescribed = 1000 // bytes of a tool's description

func declare(e entry, op *openapi3.Operation, o Operation, input json.RawMessage) parley.ToolDecl {
	words := o.Description
	if words == "" {
		words = strings.TrimSpace(op.Summary)
		if more := strings.TrimSpace(op.Description); more != "" && more != words {
			words = strings.TrimSpace(words + "\n" + more)
		}
		words = parley.Cut(cmp.Or(words, e.String()), maxDescribed)
	}
	effect := o.Effect
	if effect == "" {
		effect = parley.EffectWrite
		switch e.method {
		case "get", "head", "options", "trace", "query":
			effect = parley.EffectRead
		}
	}
	return parley.ToolDecl{
		Name: o.Name, Description: words, InputSchema: input, Effect: effect, Subject: o.Subject, KeyTTL: o.KeyTTL, Timeout: o.Timeout, Web: o.Web, Outward: o.Outward,
	}
}

// toolName is the name of an operation's tool.
func toolName(e entry) string {
	name := e.id
	if name == "" {
		name = e.method + e.path
	}
	name = strings.Trim(notFine.ReplaceAllString(name, "_"), "_-")
	if name == "" || !(name[0]|0x20 >= 'a' && name[0]|0x20 <= 'z') {
		name = "op_" + name
	}
	return name[:min(len(name), maxName)]
}

// parameters returns the operation's parameters, and those of its path that it does not
// redefine. Those that the model may not set are left out.
func (c *converter) parameters(item *openapi3.PathItem, op *openapi3.Operation, o Operation, auth httpcall.Auth) (list []*openapi3.Parameter) {
	has := map[[2]string]bool{}
	for _, ref := range slices.Concat(op.Parameters, item.Parameters) {
		p := ref.Value
		if p == nil || has[[2]string{p.In, p.Name}] {
			continue
		}
		has[[2]string{p.In, p.Name}] = true
		if p.In == "header" {
			name := textproto.CanonicalMIMEHeaderKey(p.Name)
			if slices.Contains(notSet, name) || strings.EqualFold(p.Name, o.KeyHeader) || strings.EqualFold(p.Name, auth.Header.Name) {
				continue
			}
		}
		if p.In == "query" && p.Name == auth.Query.Name && p.Name != "" {
			continue
		}
		list = append(list, p)
	}
	return list
}

func (c *converter) argument(p *openapi3.Parameter, levels int) (a argument, s schema, err error) {
	method, err := p.SerializationMethod()
	if err != nil || p.Name == "" {
		return a, nil, fmt.Errorf("the parameter %q is in %q, not in path, query, header or cookie", p.Name, p.In)
	}
	a = argument{
		prop: prop{wire: p.Name, required: p.Required || p.In == "path"},
		in:   p.In, style: method.Style, explode: method.Explode, reserved: p.AllowReserved, empty: p.AllowEmptyValue,
	}
	of := p.Schema
	for _, media := range slices.Sorted(maps.Keys(p.Content)) {
		if of = p.Content[media].Schema; isJSON(media) {
			a.asJSON = true
			break
		}
	}
	if of == nil {
		s, a.shape = freely(&flat{}, levels)
	} else {
		s, a.shape = c.convert(of, levels)
	}
	if p.Description != "" {
		note, _ := s["description"].(string)
		if of != nil && of.Value != nil && of.Value.Description != "" {
			note = "" // the description of the type already covers the parameter
		}
		described(s, p.Description, note)
	}
	return a, s, nil
}

func isJSON(media string) bool {
	kind, _, err := mime.ParseMediaType(media)
	return err == nil && (httpcall.IsJSON(kind) || kind == "*/*" || kind == "application/*")
}

const (
	urlencoded = "application/x-www-form-urlencoded"
	multipart  = "multipart/form-data"
)

// pick chooses the encoding of a body: JSON if offered, otherwise a form, otherwise text.
func pick(b *openapi3.RequestBody) (*body, *openapi3.MediaType) {
	rank := func(media string) int {
		kind, _, _ := mime.ParseMediaType(media)
		switch {
		case kind == "application/json":
			return 0
		case isJSON(media):
			return 1
		case kind == urlencoded:
			return 2
		case kind == multipart:
			return 3
		}
		return 4
	}
	all := slices.SortedFunc(maps.Keys(b.Content), func(x, y string) int { return cmp.Or(rank(x)-rank(y), strings.Compare(x, y)) })
	if len(all) == 0 || b.Content[all[0]] == nil {
		return nil, nil
	}
	out, form := &body{media: all[0], required: b.Required}, b.Content[all[0]]
	if strings.Contains(out.media, "*") {
		out.media = "application/json"
	}
	out.encoding = map[string]encodingOf{}
	for name, e := range form.Encoding {
		if e != nil && (e.Style != "" || e.Explode != nil) {
			style := cmp.Or(e.Style, "form")
			out.encoding[name] = encodingOf{style, e.Explode == nil && style != "spaceDelimited" && style != "pipeDelimited" || e.Explode != nil && *e.Explode}
		}
	}
	return out, form
}
