package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// kind says how a value is converted before it is sent.
type kind int

const (
	plain    kind = iota // sent as it is
	anything             // text that holds a JSON object or list is parsed
	asJSON               // text that must be JSON
	object               // its properties get their original names
	list                 // each item is converted
	pairs                // [{key, value}] becomes an object
	forms                // the first alternative that matches
)

// shape says how a model's value is converted to the one that the service accepts. The schemas
// that all providers accept can express less than descriptions: no recursion, no objects with
// arbitrary names, no names with brackets.
type shape struct {
	kind  kind
	props []prop
	item  *shape   // item of a list, or value of pairs
	forms []*shape // alternatives
	types []string // JSON types of a plain value
}

type prop struct {
	name, wire string
	required   bool
	shape      *shape
}

// fit converts a model's value to the one that is sent. Errors name the value by at.
func (s *shape) fit(at string, v any) (any, error) {
	switch s.kind {
	case anything, asJSON:
		text, ok := v.(string)
		if !ok {
			return v, nil
		}
		var out any
		if t := strings.TrimSpace(text); s.kind == asJSON || strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
			if err := number([]byte(t), &out); err == nil {
				return out, nil
			} else if s.kind == asJSON {
				return nil, parley.Errorf(parley.CodeInvalid, "%s is no JSON: %w", at, err).WithField(at)
			}
		}
	case list:
		items, ok := v.([]any)
		if !ok {
			break
		}
		out := make([]any, len(items))
		for i, e := range items {
			var err error
			if out[i], err = s.item.fit(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case pairs:
		items, ok := v.([]any)
		if !ok {
			break
		}
		out := map[string]any{}
		for _, e := range items {
			pair, _ := e.(map[string]any)
			key, _ := pair["key"].(string)
			value, err := s.item.fit(at+"."+key, pair["value"])
			if err != nil {
				return nil, err
			}
			out[key] = value
		}
		return out, nil
	case object:
		fields, ok := v.(map[string]any)
		if !ok {
			break
		}
		out := map[string]any{}
		for _, p := range s.props {
			e, ok := fields[p.name]
			if !ok {
				continue
			}
			var err error
			if out[p.wire], err = p.shape.fit(at+"."+p.name, e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case forms:
		for _, form := range s.forms {
			if form.takes(v) {
				return form.fit(at, v)
			}
		}
	}
	return v, nil
}

// takes reports whether a value has this form, as far as that affects what is sent.
func (s *shape) takes(v any) bool {
	switch s.kind {
	case plain:
		return slices.Contains(s.types, typeOf(v)) || typeOf(v) == "number" && slices.Contains(s.types, "integer")
	case asJSON:
		text, ok := v.(string)
		return ok && json.Valid([]byte(text))
	case list:
		items, ok := v.([]any)
		return ok && !slices.ContainsFunc(items, func(e any) bool { return !s.item.takes(e) })
	case pairs:
		items, ok := v.([]any)
		return ok && !slices.ContainsFunc(items, func(e any) bool {
			pair, _ := e.(map[string]any)
			_, key := pair["key"]
			_, value := pair["value"]
			return !key || !value || len(pair) != 2 || !s.item.takes(pair["value"])
		})
	case object:
		fields, ok := v.(map[string]any)
		if !ok {
			return false
		}
		known := 0
		for _, p := range s.props {
			e, there := fields[p.name]
			if there && !p.shape.takes(e) || !there && p.required {
				return false
			}
			if there {
				known++
			}
		}
		return known == len(fields)
	case forms:
		return slices.ContainsFunc(s.forms, func(f *shape) bool { return f.takes(v) })
	}
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func typeOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// number parses JSON and keeps numbers as they were written.
func number(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) { // More would miss a closing bracket
		return errors.New("there is more after the value")
	}
	return nil
}

// text formats a value for an address, a header or a form.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return string(marshal(v))
}

// marshal encodes a value that came out of JSON.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n")
}
