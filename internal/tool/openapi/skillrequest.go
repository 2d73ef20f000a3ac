package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strconv"
	"strings"
)

// request is an operation as a skill describes it.
type request struct {
	entry
	file    string
	block   string // everything about it
	about   string
	verb    string // in our words
	write   bool
	keyed   bool
	unfit   string
	example string // a body with what is needed
	headers []string
}

func (r *request) title() string { return strings.ToUpper(r.method) + " " + r.path }

func (r *request) verbOr() string {
	if r.verb == "" {
		return "Change"
	}
	return strings.ToUpper(r.verb[:1]) + r.verb[1:]
}

// line is the entry of an index.
func (r *request) line() string {
	text := "- `" + r.title() + "`"
	if r.about != "" {
		text += ": " + r.about
	}
	return text + " (references/" + r.file + ".md)\n"
}

// rawOperation is what is looked at of an operation.
type rawOperation struct {
	Summary     string                     `json:"summary"`
	Description string                     `json:"description"`
	Deprecated  bool                       `json:"deprecated"`
	Effect      string                     `json:"x-effect"`
	Parameters  []json.RawMessage          `json:"parameters"`
	Body        json.RawMessage            `json:"requestBody"`
	Responses   map[string]json.RawMessage `json:"responses"`
}

// param is a parameter as a skill describes it.
type param struct {
	name, in, about string
	needed          bool
	*sketch
}

// request reads an operation.
func (b *skillBook) request(e entry) *request {
	r := &request{entry: e}
	if !plainPath(e.path) {
		r.path = "/…"
		r.unfit = "its path has characters that no request may have"
	}
	b.o.nodes = 0
	var op rawOperation
	_ = json.Unmarshal(b.d.paths[e.path][e.method], &op)
	r.write = e.method != "get" && e.method != "head" || op.Effect == "write"
	r.about = quoted(op.Summary, maxSummary)
	params, body, result := b.o.params(e, op), b.o.sent(op), b.o.result(op)
	collection := !strings.HasSuffix(e.path, "}")
	r.verb = verbOf(e.method, collection, params, b.d.paths[strings.TrimRight(e.path, "/")], r.write)

	for detail := 2; ; detail-- { // less of it, if it is too much
		var t strings.Builder
		fmt.Fprintf(&t, "### `%s`\n\n", r.title())
		if r.unfit != "" {
			fmt.Fprintf(&t, "`api_request` cannot make it: %s.\n", r.unfit)
		}
		b.words(&t, op, r)
		r.parameters(&t, params, detail)
		r.body(&t, body, detail)
		r.answer(&t, result, params)
		if r.write {
			b.lost(&t, r, body.sketch)
		}
		if r.block = t.String() + "\n"; len(r.block) <= maxBlock || detail == 0 {
			break
		}
	}
	if len(r.block) > maxBlock {
		keep := strings.LastIndex(r.block[:maxBlock], "\n") + 1
		r.block = r.block[:keep] + "- and more, which did not fit here.\n\n"
	}
	return r
}

// verbOf names what a request does, where its form says so.
func verbOf(method string, collection bool, params []param, item map[string]json.RawMessage, write bool) string {
	if method == "get" && write {
		return ""
	}
	switch method {
	case "get":
		paged := slices.ContainsFunc(params, func(p param) bool { return p.in == "query" && slices.Contains(pageSizes, p.name) })
		switch {
		case collection && (paged || item["post"] != nil):
			return "list"
		case !collection:
			return "look up"
		}
	case "post":
		if collection && item["get"] != nil {
			return "create"
		}
	case "put", "patch":
		return "change"
	case "delete":
		return "delete"
	}
	return ""
}

func (b *skillBook) words(t *strings.Builder, op rawOperation, r *request) {
	about := r.about
	if more := quoted(op.Description, maxText); more != "" && op.Description != op.Summary {
		about = strings.TrimSpace(about + " " + more)
	}
	if op.Deprecated {
		about = strings.TrimSpace("Deprecated. " + about)
	}
	if r.write && r.method == "get" {
		about = strings.TrimSpace("A write, although it is a GET. " + about)
	}
	if about != "" {
		t.WriteString(about + "\n")
	}
}

// params are an operation's parameters, and those of its path.
func (o *outliner) params(e entry, op rawOperation) (list []param) {
	var shared []json.RawMessage
	_ = json.Unmarshal(o.d.paths[e.path]["parameters"], &shared)
	for _, raw := range slices.Concat(op.Parameters, shared) {
		var p struct {
			Name, In, Description string
			Required, Deprecated  bool
			Explode               *bool
			Schema                json.RawMessage
			Content               map[string]struct{ Schema json.RawMessage }
		}
		_ = json.Unmarshal(o.part(raw), &p)
		if p.Name == "" || p.Deprecated || slices.ContainsFunc(list, func(q param) bool { return q.name == p.Name && q.in == p.In }) {
			continue
		}
		if p.Schema == nil {
			for _, c := range p.Content {
				p.Schema = c.Schema
			}
		}
		s := o.schema(p.Schema, 1)
		if s.items != nil && p.In == "query" {
			if s.values = s.items.values; p.Explode != nil && !*p.Explode {
				s.kind += ", separated by commas"
			}
		}
		about := p.Description
		if about == "" {
			about = s.about
		}
		list = append(list, param{p.Name, p.In, about, p.Required || p.In == "path", s})
	}
	return list
}

func (r *request) parameters(t *strings.Builder, params []param, detail int) {
	r.headers = nil
	for _, in := range []struct{ in, title string }{{"path", "Path"}, {"query", "Query"}} {
		n, left := 0, 0
		for _, p := range params {
			if p.in != in.in {
				continue
			}
			line, ok := bullet(p.name, p.needed && p.in != "path", p.about, p.sketch, detail)
			if !ok || n == maxParams {
				left++
				continue
			}
			if n++; n == 1 {
				t.WriteString(in.title + ":\n")
			}
			t.WriteString(line)
		}
		if left > 0 {
			fmt.Fprintf(t, "- and %d more.\n", left)
		}
	}
	for _, p := range params {
		name, ok := code(p.name)
		if p.in != "header" || !ok {
			continue
		}
		r.headers = append(r.headers, name)
		switch {
		case strings.EqualFold(p.name, "Idempotency-Key"):
			r.keyed = true
		case p.needed && !strings.EqualFold(p.name, "X-Org-Id") && !strings.EqualFold(p.name, "Authorization") && !strings.EqualFold(p.name, "Accept") && r.unfit == "":
			fmt.Fprintf(t, "It needs the header %s, which `api_request` does not send.\n", name)
			r.unfit = "it needs the header " + name
		}
	}
}

// bullet is a line about a value. ok is false if its name cannot be shown.
func bullet(name string, needed bool, about string, s *sketch, detail int) (line string, ok bool) {
	shown, ok := code(name)
	if !ok {
		return "", false
	}
	line = "- " + shown + " " + s.kind
	if needed {
		line += ", needed"
	}
	if s.limits != "" && detail > 0 {
		if limits := plainly(s.limits, maxWord); limits != "" {
			line += ", " + limits
		}
	}
	if list := valuesOf(s.values); list != "" {
		line += ", one of " + list
	}
	if detail == 2 {
		if text := quoted(about, maxText); text != "" {
			line += ": " + text
		}
	}
	return line + "\n", true
}

func valuesOf(values []string) string {
	var list []string
	for _, v := range values {
		if text, ok := code(v); ok {
			list = append(list, text)
		}
	}
	if len(list) > maxShown {
		return strings.Join(list[:maxShown], ", ") + fmt.Sprintf(" and %d more", len(list)-maxShown)
	}
	return strings.Join(list, ", ")
}

// sent is the body of a request.
type sent struct {
	*sketch        // nil: there is none in JSON
	other   string // the media type that it has instead
}

func (o *outliner) sent(op rawOperation) sent {
	if op.Body == nil {
		return sent{}
	}
	var in struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
	_ = json.Unmarshal(o.part(op.Body), &in)
	media := slices.Sorted(maps.Keys(in.Content))
	switch i := slices.IndexFunc(media, isJSON); {
	case i >= 0:
		return sent{sketch: o.schema(in.Content[media[i]].Schema, 1)}
	case len(media) > 0:
		return sent{other: media[0]}
	}
	return sent{}
}

// body writes what a request sends.
func (r *request) body(t *strings.Builder, s sent, detail int) {
	r.example = ""
	cannot := func(why string) {
		if r.unfit == "" {
			r.unfit = why
		}
		fmt.Fprintf(t, "`api_request` cannot make it: %s.\n", why)
	}
	switch {
	case s.other != "":
		kind, _, _ := mime.ParseMediaType(s.other)
		shown, ok := code(kind)
		if !ok {
			shown = "another form"
		}
		cannot("its body is " + shown + ", and `api_request` sends JSON")
		return
	case s.sketch == nil:
		return
	case s.kind != "object" && len(s.props) == 0 && s.kind != "any value":
		cannot("its body is no object")
		return
	}
	t.WriteString("Body:")
	if about := quoted(s.about, maxText); about != "" && detail == 2 {
		t.WriteString(" " + about)
	}
	t.WriteString("\n")
	properties(t, s.sketch, "", detail)
	r.example = exampleOf(s.sketch)
}

// properties writes the properties of an object, those that are needed first.
func properties(t *strings.Builder, s *sketch, indent string, detail int) {
	list := slices.Clone(s.props)
	slices.SortStableFunc(list, func(a, b property) int {
		switch {
		case a.needed == b.needed:
			return 0
		case a.needed:
			return -1
		}
		return 1
	})
	left := s.more
	for _, p := range list {
		if p.filled {
			continue
		}
		line, ok := bullet(p.name, p.needed, p.about, p.sketch, detail)
		if !ok {
			left++
			continue
		}
		t.WriteString(indent + line)
		inner := p.sketch
		if inner.items != nil {
			inner = inner.items
		}
		if len(inner.props) > 0 && detail > 0 && len(indent) < 4 {
			properties(t, inner, indent+"  ", detail)
		}
	}
	if left > 0 {
		fmt.Fprintf(t, "%s- and %d more.\n", indent, left)
	}
	if s.open && indent == "" {
		t.WriteString("- any properties\n")
	}
}

// exampleOf is a body with what is needed, or with the first property.
func exampleOf(s *sketch) string {
	var list []string
	for _, p := range s.props {
		if _, ok := code(p.name); !ok || p.filled || !p.needed && len(list) > 0 || len(list) == 5 {
			continue
		}
		value := `"…"`
		switch {
		case len(p.values) > 0 && p.kind == "text" && len(p.values[0]) < 40:
			value = strconv.Quote(plainly(p.values[0], maxWord))
		case strings.HasPrefix(p.kind, "integer"), strings.HasPrefix(p.kind, "number"):
			value = "0"
		case p.kind == "true or false":
			value = "true"
		case p.kind == "object":
			value = "{…}"
		case strings.HasPrefix(p.kind, "list"):
			value = "[…]"
		}
		if !p.needed && len(s.props) > 1 && slices.ContainsFunc(s.props, func(q property) bool { return q.needed && !q.filled }) {
			continue
		}
		list = append(list, strconv.Quote(p.name)+":"+value)
	}
	return "{" + strings.Join(list, ",") + "}"
}
