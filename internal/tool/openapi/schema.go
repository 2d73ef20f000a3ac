package openapi

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/parley-server/parley"
)

const (
	maxLevels = 10       // of a tool's input: the limit of OpenAI's strict mode
	maxInput  = 24 << 10 // bytes of a tool's input schema; deeper values become JSON text
	maxWidest = 64 << 10 // bytes of a schema without deep values
	maxNodes  = 2_000    // of a schema while it is made
	maxMerged = 64       // parts of one allOf, including nested ones
	maxForms  = 8        // alternatives that are kept
	maxUnited = 16       // alternatives whose properties are merged
	maxValues = 200      // of an enum
	maxWords  = 300      // bytes of a description in a schema
)

// unitedDeep is how deeply nested alternatives are followed.
const unitedDeep = 2

// converter makes one schema. It gives up if the schema grows too large.
type converter struct {
	nodes int
	over  bool
}

func (c *converter) count() bool {
	c.nodes++
	c.over = c.over || c.nodes > maxNodes
	return !c.over
}

// flat is a schema with its allOf merged.
type flat struct {
	types    []string
	words    string
	format   string
	enum     []any
	preset   any
	min, max *float64
	props    map[string][]*openapi3.SchemaRef // each with its possible forms
	required map[string]bool
	items    *openapi3.SchemaRef
	more     *openapi3.SchemaRef // schema of properties that are not listed
	forms    []*openapi3.SchemaRef
	parts    int
}

func flatten(ref *openapi3.SchemaRef) *flat {
	f := &flat{props: map[string][]*openapi3.SchemaRef{}, required: map[string]bool{}}
	f.merge(ref)
	return f
}

func (f *flat) merge(ref *openapi3.SchemaRef) {
	if f.parts++; ref == nil || ref.Value == nil || f.parts > maxMerged {
		return
	}
	s := ref.Value
	for _, part := range s.AllOf {
		f.merge(part)
	}
	if s.Description != "" {
		f.words = s.Description
	} else if f.words == "" {
		f.words = s.Title
	}
	if len(f.types) == 0 && s.Type != nil {
		for _, t := range s.Type.Slice() {
			if t != "null" {
				f.types = append(f.types, t)
			}
		}
	}
	if f.format == "" {
		f.format = s.Format
	}
	if len(s.Enum) > 0 {
		f.enum = s.Enum
	}
	if s.Const != nil {
		f.enum = []any{s.Const}
	}
	if s.Default != nil {
		f.preset = s.Default
	}
	if s.Min != nil {
		f.min = s.Min
	}
	if s.Max != nil {
		f.max = s.Max
	}
	for name, p := range s.Properties {
		if p.Value != nil && p.Value.ReadOnly {
			continue
		}
		f.props[name] = []*openapi3.SchemaRef{p} // the last definition wins
	}
	for _, name := range s.Required {
		if p := s.Properties[name]; p == nil || p.Value == nil || !p.Value.ReadOnly { // otherwise it is required only in answers
			f.required[name] = true
		}
	}
	if s.Items != nil {
		f.items = s.Items
	}
	if s.AdditionalProperties.Schema != nil {
		f.more = s.AdditionalProperties.Schema
	}
	alternatives := slices.Concat(s.AnyOf, s.OneOf)
	alternatives = slices.DeleteFunc(alternatives, func(a *openapi3.SchemaRef) bool { return a == nil || a.Value == nil || saysNothing(a.Value) })
	switch {
	case len(alternatives) == 1:
		f.merge(alternatives[0])
	case len(alternatives) > 1 && len(f.forms) == 0:
		f.forms = alternatives
	}
}

// saysNothing reports whether an alternative only excludes a value, or names properties that are
// described elsewhere.
func saysNothing(s *openapi3.Schema) bool {
	if s.Type != nil && len(s.Type.Slice()) == 1 && s.Type.IncludesNull() {
		return true
	}
	only := len(s.Enum) > 0
	for _, v := range s.Enum {
		only = only && (v == nil || v == "")
	}
	return only || s.Type == nil && len(s.Properties)+len(s.AllOf)+len(s.AnyOf)+len(s.OneOf)+len(s.Enum) == 0 && s.Const == nil && s.Items == nil && s.AdditionalProperties.Schema == nil
}

// kinds returns the types that a value may have. An empty list means any.
func (f *flat) kinds() []string {
	switch {
	case len(f.types) > 0:
		return f.types
	case len(f.props) > 0 || f.more != nil:
		return []string{"object"}
	case f.items != nil:
		return []string{"array"}
	}
	var kinds []string
	for _, v := range f.enum {
		kind := ""
		switch v.(type) {
		case string:
			kind = "string"
		case bool:
			kind = "boolean"
		case float64:
			kind = "number"
		}
		if kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// union merges the properties of the alternatives that are objects, and of nested alternatives
// down to a depth. A property is required if all alternatives require it.
func (f *flat) union(depth int) {
	var common map[string]bool
	for _, ref := range f.forms[:min(len(f.forms), maxUnited)] {
		form := flatten(ref)
		if form.forms != nil && depth > 1 {
			form.union(depth - 1)
		}
		if k := form.kinds(); len(k) != 1 || k[0] != "object" {
			continue
		}
		for name, p := range form.props {
			f.props[name] = append(f.props[name], p...)
		}
		if common == nil {
			common = form.required
			continue
		}
		maps.DeleteFunc(common, func(name string, _ bool) bool { return !form.required[name] })
	}
	maps.Copy(f.required, common)
	f.forms = nil
}

type schema = map[string]any

// convert makes the schema of one value with at most the given number of levels (1 or more).
func (c *converter) convert(ref *openapi3.SchemaRef, levels int) (schema, *shape) {
	if !c.count() {
		return schema{"type": "string"}, &shape{}
	}
	f := flatten(ref)
	if len(f.forms) > 0 && len(f.props) > 0 {
		f.union(unitedDeep)
	}
	if len(f.forms) > 0 {
		return c.alternatives(f, f.forms, levels)
	}
	return c.typed(f, levels)
}

func (c *converter) typed(f *flat, levels int) (schema, *shape) {
	types := f.kinds()
	if len(types) != 1 {
		if len(types) == 0 || levels < 2 {
			return freely(f, levels)
		}
		out, s := []any{}, &shape{kind: forms}
		for _, t := range types {
			one := *f
			one.types, one.words = []string{t}, ""
			sub, sh := c.typed(&one, levels-1)
			out, s.forms = append(out, sub), append(s.forms, sh)
		}
		return described(schema{"anyOf": out}, f.words, ""), s
	}
	switch types[0] {
	case "object":
		if len(f.props) > 0 && levels > 1 {
			return c.object(f, levels)
		}
		if len(f.props) == 0 && levels > 3 {
			value, sh := schema(nil), &shape{}
			if f.more != nil {
				value, sh = c.convert(f.more, levels-2)
			} else {
				value, sh = freely(&flat{}, levels-2)
			}
			item := schema{"type": "object", "additionalProperties": false, "required": []string{"key", "value"}, "properties": schema{"key": schema{"type": "string"}, "value": value}}
			return described(schema{"type": "array", "items": item}, f.words, ""), &shape{kind: pairs, item: sh}
		}
		what := "An object as JSON text."
		if len(f.props) > 0 {
			what = "An object as JSON text, with " + parley.Cut(strings.Join(slices.Sorted(maps.Keys(f.props)), ", "), maxWords) + "."
		}
		return described(schema{"type": "string"}, f.words, what), &shape{kind: asJSON}
	case "array":
		if levels < 2 {
			return described(schema{"type": "string"}, f.words, "A list as JSON text."), &shape{kind: asJSON}
		}
		items, sh := freely(&flat{}, levels-1)
		if f.items != nil {
			items, sh = c.convert(f.items, levels-1)
		}
		return described(schema{"type": "array", "items": items}, f.words, ""), &shape{kind: list, item: sh}
	case "string", "integer", "number", "boolean":
		return scalar(f, types[0]), &shape{types: types}
	}
	return freely(f, levels)
}

// freely is the schema of a value of unknown type.
func freely(f *flat, levels int) (schema, *shape) {
	const how = "An object or a list is given as JSON text."
	if levels < 2 {
		return described(schema{"type": "string"}, f.words, how), &shape{kind: anything}
	}
	return described(schema{"anyOf": []any{schema{"type": "string"}, schema{"type": "number"}, schema{"type": "boolean"}}}, f.words, how), &shape{kind: anything}
}

// scalar uses the keywords that all providers know. Others are left to the service or put into
// the description.
func scalar(f *flat, t string) schema {
	out := schema{"type": t}
	var notes []string
	if t == "string" {
		var values []any
		for _, v := range f.enum {
			if s, ok := v.(string); ok && s != "" && len(s) <= maxWords {
				values = append(values, s)
			}
		}
		if len(values) > 0 && len(values) <= maxValues {
			out["enum"] = values
		} else if len(values) > 0 {
			notes = append(notes, "Such as "+text(values[0])+".")
		}
	} else if len(f.enum) > 0 && t != "boolean" {
		notes = append(notes, "One of "+parley.Cut(strings.Trim(string(marshal(f.enum)), "[]"), maxWords)+".")
	}
	switch {
	case t == "string" && f.format == "date-time":
		out["format"] = f.format
	case t == "string" && f.format != "":
		notes = append(notes, "Format: "+parley.Cut(f.format, 40)+".")
	}
	if t == "integer" || t == "number" {
		if f.min != nil {
			out["minimum"] = *f.min
		}
		if f.max != nil {
			out["maximum"] = *f.max
		}
	}
	switch f.preset.(type) {
	case string, float64, bool:
		notes = append(notes, "Default: "+parley.Cut(text(f.preset), 100)+".")
	}
	return described(out, f.words, strings.Join(notes, " "))
}

func described(s schema, words, note string) schema {
	words = parley.Cut(strings.TrimSpace(strings.Join(strings.Fields(words), " ")), maxWords)
	if words != "" && note != "" && !strings.HasSuffix(words, ".") {
		words += "."
	}
	if words = strings.TrimSpace(words + " " + note); words != "" {
		s["description"] = words
	}
	return s
}

// alternatives makes the schema of a value with several possible forms.
func (c *converter) alternatives(f *flat, refs []*openapi3.SchemaRef, levels int) (schema, *shape) {
	if levels < 2 || len(refs) > maxForms {
		return freely(f, levels)
	}
	out, s := []any{}, &shape{kind: forms}
	var seen [][]byte
	for _, ref := range refs {
		one, sh := c.convert(ref, levels-1)
		raw := marshal(one)
		if slices.ContainsFunc(seen, func(other []byte) bool { return bytes.Equal(other, raw) }) {
			continue
		}
		out, s.forms, seen = append(out, one), append(s.forms, sh), append(seen, raw)
	}
	if len(out) == 1 {
		one := out[0].(schema)
		if one["description"] == nil {
			described(one, f.words, "")
		}
		return one, s.forms[0]
	}
	return described(schema{"anyOf": out}, f.words, ""), s
}

func (c *converter) object(f *flat, levels int) (schema, *shape) {
	props, required, s := schema{}, []string{}, &shape{kind: object}
	names := namer{}
	for _, wire := range slices.Sorted(maps.Keys(f.props)) {
		name := names.name(wire)
		sub, sh := c.property(f.props[wire], levels-1)
		props[name] = sub
		if f.required[wire] {
			required = append(required, name)
		}
		s.props = append(s.props, prop{name, wire, f.required[wire], sh})
	}
	out := schema{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return described(out, f.words, ""), s
}

func (c *converter) property(refs []*openapi3.SchemaRef, levels int) (schema, *shape) {
	if len(refs) == 1 {
		return c.convert(refs[0], levels)
	}
	return c.alternatives(&flat{}, refs, levels)
}

// namer makes unique names that all providers accept.
type namer map[string]bool

var (
	fineName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	notFine  = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// maxName leaves room for a suffix that makes a name unique.
const maxName = 56

func (n namer) name(wire string) string {
	name := wire
	if !fineName.MatchString(name) {
		name = strings.Trim(notFine.ReplaceAllString(name, "_"), "_")
		if name == "" || name[0] >= '0' && name[0] <= '9' || name[0] == '-' {
			name = "_" + name
		}
		name = name[:min(len(name), maxName)]
	}
	base := name[:min(len(name), maxName)]
	for i := 2; n[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	n[name] = true
	return name
}
