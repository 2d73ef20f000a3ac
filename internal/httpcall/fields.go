package httpcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Field is the path of a part of an answer, such as items[].name. Lists on the way are walked,
// also without [].
type Field []string

// ParseFields reads paths, several in a text separated by commas.
func ParseFields(texts []string) (list []Field, err error) {
	for _, t := range texts {
		for one := range strings.SplitSeq(t, ",") {
			path := strings.TrimPrefix(strings.ReplaceAll(strings.TrimSpace(one), "[]", ""), ".")
			f := Field(strings.Split(path, "."))
			for _, name := range f {
				if name == "" || strings.ContainsAny(name, "[]*$") {
					return nil, fmt.Errorf("%q is not a path in an answer; write names with dots, and [] after the name of a list: items[].name", strings.TrimSpace(one))
				}
			}
			list = append(list, f)
		}
	}
	return list, nil
}

// Choose returns the chosen parts of an answer, nested as they are there. all says that these are
// all parts.
func Choose(answer json.RawMessage, fields []Field) (part json.RawMessage, all bool) {
	var v any
	if number(answer, &v) != nil {
		return answer, true
	}
	part = marshal(some(v, fields))
	return part, string(part) == string(marshal(v))
}

func some(v any, fields []Field) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			out = append(out, some(e, fields))
		}
		return out
	case map[string]any:
		below := map[string][]Field{}
		whole := map[string]bool{}
		for _, f := range fields {
			if len(f) == 1 {
				whole[f[0]] = true
			} else {
				below[f[0]] = append(below[f[0]], f[1:])
			}
		}
		out := map[string]any{}
		for k, e := range v {
			if whole[k] {
				out[k] = e
			} else if below[k] != nil {
				out[k] = some(e, below[k])
			}
		}
		return out
	}
	return v
}

// number parses JSON and keeps numbers as they were written.
func number(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the value")
	}
	return nil
}

func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // it was JSON
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Entries returns the first entries of the lists of an answer: of the answer itself if it is a
// list, and of those that are members of an object. left is how many entries are left out.
func Entries(answer json.RawMessage, most int) (part json.RawMessage, left int) {
	var v any
	if most <= 0 || number(answer, &v) != nil {
		return answer, 0
	}
	first := func(list []any) []any {
		if len(list) <= most {
			return list
		}
		left += len(list) - most
		return list[:most]
	}
	switch top := v.(type) {
	case []any:
		v = first(top)
	case map[string]any:
		for k, e := range top {
			if list, ok := e.([]any); ok {
				top[k] = first(list)
			}
		}
	}
	if left == 0 {
		return answer, 0
	}
	return marshal(v), left
}
