package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
)

// field is the path of a part of an answer, such as items[].name. Lists on the way are walked,
// also without [].
type field []string

func parseFields(texts []string) (list []field, err error) {
	for _, t := range texts {
		for one := range strings.SplitSeq(t, ",") {
			path := strings.TrimPrefix(strings.ReplaceAll(strings.TrimSpace(one), "[]", ""), ".")
			f := field(strings.Split(path, "."))
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

// choose returns the chosen parts of an answer, nested as they are there.
func choose(answer json.RawMessage, fields []field) (part json.RawMessage, all bool) {
	var v any
	if number(answer, &v) != nil {
		return answer, true
	}
	part = marshal(some(v, fields))
	return part, string(part) == string(marshal(v))
}

func some(v any, fields []field) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			out = append(out, some(e, fields))
		}
		return out
	case map[string]any:
		below := map[string][]field{}
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
