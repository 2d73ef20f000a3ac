package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// sketch is what people need to know of a schema.
type sketch struct {
	kind   string // in words
	values []string
	limits string
	about  string
	filled bool // the API fills it in
	secret bool // it is only sent
	props  []property
	items  *sketch
	open   bool // an object of any properties
	more   int  // properties that are left out
}

type property struct {
	name   string
	needed bool
	*sketch
}

func (s *sketch) prop(name string) *property {
	for i, p := range s.props {
		if p.name == name {
			return &s.props[i]
		}
	}
	return nil
}

// rawSchema is the part of a schema that is looked at. A part of another type is ignored.
type rawSchema struct {
	Ref         string            `json:"$ref"`
	Type        json.RawMessage   `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Default     json.RawMessage   `json:"default"`
	Properties  json.RawMessage   `json:"properties"`
	Required    []string          `json:"required"`
	Items       json.RawMessage   `json:"items"`
	AllOf       []json.RawMessage `json:"allOf"`
	OneOf       []json.RawMessage `json:"oneOf"`
	AnyOf       []json.RawMessage `json:"anyOf"`
	ReadOnly    bool              `json:"readOnly"`
	WriteOnly   bool              `json:"writeOnly"`
	Minimum     json.RawMessage   `json:"minimum"`
	Maximum     json.RawMessage   `json:"maximum"`
	MinLength   *int              `json:"minLength"`
	MaxLength   *int              `json:"maxLength"`
}

const (
	maxHops          = 20     // references from one to the next
	maxSketched      = 4      // levels of a value
	maxSketches      = 20_000 // schemas that are looked at for one operation
	maxSketchedProps = 60     // properties of an object
)

// outliner reads schemas.
type outliner struct {
	d     *document
	nodes int                   // that were read for the operation
	known map[reference]*sketch // which nobody changes
}

// reference is a schema that a value refers to at some level of it.
type reference struct {
	ref   string
	depth int
}

// part returns a part of the description behind its references.
func (o *outliner) part(raw json.RawMessage) json.RawMessage {
	for range maxHops {
		var to struct {
			Ref string `json:"$ref"`
		}
		_ = json.Unmarshal(raw, &to) // what is no object has none
		if to.Ref == "" {
			return raw
		}
		next, err := o.d.at(to.Ref)
		if err != nil {
			return nil
		}
		raw = next
	}
	return nil
}

// schema reads a schema. The caller may change what it returns, not what that contains.
func (o *outliner) schema(raw json.RawMessage, depth int) *sketch {
	var own rawSchema
	_ = json.Unmarshal(raw, &own) // a part of another type is ignored
	if own.Ref == "" {
		return o.read(raw, own, own, depth)
	}
	at := reference{own.Ref, depth}
	s := o.known[at]
	if s == nil {
		raw := o.part(raw)
		var there rawSchema
		_ = json.Unmarshal(raw, &there)
		if s = o.read(raw, rawSchema{}, there, depth); o.nodes <= maxSketches {
			o.known[at] = s
		}
	}
	out := *s
	out.props = slices.Clone(s.props)
	if own.Description != "" {
		out.about = own.Description
	}
	out.filled = out.filled || own.ReadOnly
	return &out
}

func (o *outliner) read(raw json.RawMessage, own, s rawSchema, depth int) *sketch {
	out := &sketch{kind: "any value", about: own.Description, filled: s.ReadOnly || own.ReadOnly, secret: s.WriteOnly}
	if out.about == "" {
		out.about = s.Description
	}
	if o.nodes++; o.nodes > maxSketches {
		return out
	}
	for _, part := range s.AllOf {
		if depth < maxSketched {
			out.merge(o.schema(part, depth+1))
		}
	}
	forms := slices.DeleteFunc(slices.Concat(s.OneOf, s.AnyOf), func(f json.RawMessage) bool { return kindOf(f) == "null" })
	if depth < maxSketched && len(s.AllOf) == 0 && s.Properties == nil {
		for i, form := range forms {
			f := o.schema(form, depth+1)
			if len(forms) > 1 {
				for j := range f.props {
					f.props[j].needed = false
				}
			}
			if i == 0 {
				about := out.about
				if *out = *f; about != "" {
					out.about = about
				}
				continue
			}
			if f.kind != out.kind {
				out.kind += " or " + f.kind
			}
			out.merge(f)
		}
		if len(out.kind) > 80 {
			out.kind = "one of several forms"
		}
	}
	switch kind := kindOf(raw); {
	case len(s.AllOf) > 0 && depth >= maxSketched:
		out.kind = "object"
	case len(forms) > 0 && kind == "":
	case kind == "object" || s.Properties != nil:
		out.kind = "object"
		o.object(out, s, depth)
		out.open = len(out.props) == 0
	case kind == "array" || s.Items != nil:
		out.items = &sketch{kind: "any value"}
		if depth < maxSketched && s.Items != nil {
			out.items = o.schema(s.Items, depth+1)
		}
		out.kind = "list of " + plural(out.items.kind)
	case kind == "string":
		out.kind = "text"
		switch s.Format {
		case "date":
			out.kind = "day such as 2026-05-31"
		case "date-time":
			out.kind = "time such as 2026-05-31T09:00:00Z"
		case "email":
			out.kind = "email address"
		case "uri", "url":
			out.kind = "URL"
		case "binary", "byte":
			out.kind = "file"
		case "password":
			out.secret = true
		}
	case kind == "boolean":
		out.kind = "true or false"
	case kind != "":
		out.kind = kind
	}
	for _, v := range s.Enum {
		if text := literal(v); text != "" {
			out.values = append(out.values, text)
		}
	}
	if v := literal(s.Const); v != "" {
		out.values = []string{v}
	}
	out.limits = s.span()
	return out
}

// merge adds the properties of another part of the same object.
func (s *sketch) merge(other *sketch) {
	if s.kind == "any value" {
		s.kind, s.items, s.values = other.kind, other.items, other.values
	}
	for _, p := range other.props {
		if s.prop(p.name) == nil && len(s.props) < maxSketchedProps {
			s.props = append(s.props, p)
		}
	}
	s.more += other.more
	if s.about == "" {
		s.about = other.about
	}
}

func (o *outliner) object(out *sketch, s rawSchema, depth int) {
	if depth >= maxSketched {
		return
	}
	members, _ := ordered(s.Properties)
	for _, m := range members {
		if len(out.props) >= maxSketchedProps {
			out.more++
			continue
		}
		if out.prop(m.name) == nil {
			out.props = append(out.props, property{m.name, slices.Contains(s.Required, m.name), o.schema(m.value, depth+1)})
		}
	}
	for _, name := range s.Required { // of a part of allOf
		if p := out.prop(name); p != nil {
			p.needed = true
		}
	}
}

// span says in words what a value is limited to.
func (s rawSchema) span() string {
	low, high := literal(s.Minimum), literal(s.Maximum)
	var list []string
	switch {
	case low != "" && high != "":
		list = append(list, low+" to "+high)
	case low != "":
		list = append(list, "at least "+low)
	case high != "":
		list = append(list, "at most "+high)
	}
	if s.MaxLength != nil {
		list = append(list, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	if v := literal(s.Default); v != "" && len(v) <= 60 {
		list = append(list, "otherwise "+v)
	}
	return strings.Join(list, ", ")
}

// kindOf is the type of a schema, other than null.
func kindOf(raw json.RawMessage) string {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	_ = json.Unmarshal(raw, &s)
	var one string
	var many []string
	if json.Unmarshal(s.Type, &one) == nil {
		return one
	}
	_ = json.Unmarshal(s.Type, &many)
	for _, t := range many {
		if t != "null" {
			return t
		}
	}
	return ""
}

// literal is a text, number or boolean; "" for everything else.
func literal(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number, bool:
		return fmt.Sprint(v)
	}
	return ""
}

func plural(kind string) string {
	switch kind {
	case "text", "integer", "number", "object", "file", "URL":
		return kind + "s"
	case "email address":
		return "email addresses"
	case "any value":
		return "values"
	}
	return kind
}

type keyed struct {
	name  string
	value json.RawMessage
}

// ordered are the members of an object in the order in which they are written.
func ordered(raw json.RawMessage) (list []keyed, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("no object: %w", err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := keyed{name: t.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}
