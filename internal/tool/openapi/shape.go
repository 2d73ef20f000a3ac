package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// kind is what has to be done with a value before it is sent.
type kind int

const (
	plain    kind = iota // nothing
	anything             // text that is an object or a list as JSON becomes that
	asJSON               // text that has to be JSON
	object               // its properties get their own names
	list                 // each item by itself
	pairs                // [{key, value}] becomes an object
	forms                // as the first alternative that fits
)

// shape says how a model's value becomes the one that the service takes. The schemas
// that all providers take are fewer than those of descriptions: no recursion, no object
// with names that are not known, no name with a bracket.
type shape struct {
	kind  kind
	props []prop
	item  *shape   // of a list, and the value of pairs
	forms []*shape // alternatives
	types []string // JSON types of a plain value
}

type prop struct {
	name, wire string
	required   bool
	shape      *shape
}

// fit turns a model's value into the one that is sent. at names it in mistakes.
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

// takes reports whether a value has the form, as far as that makes a difference to what
// is sent.
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

// number reads JSON and leaves numbers as they were written.
func number(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("there is more behind it")
	}
	return nil
}

// text is a value as it stands in an address, a header or a form.
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

// marshal writes what came out of JSON, or is made of it.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n")
}
