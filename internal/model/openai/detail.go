package openai

import (
	"bytes"
	"encoding/json"
)

// detail is an entry of OpenRouter's reasoning_details. It is sent back as it came; if it came
// in pieces, their texts are joined.
type detail struct {
	raw     json.RawMessage
	Type    string          `json:"type"`
	Index   json.RawMessage `json:"index"`
	Text    text            `json:"text"`
	Summary text            `json:"summary"`

	pieces []json.RawMessage // after raw
}

func (d *detail) UnmarshalJSON(raw []byte) error {
	type fields detail
	var f fields
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &f); err != nil {
			return err
		}
	}
	*d = detail(f)
	d.raw = bytes.Clone(raw)
	return nil
}

// join adds a piece to its entry, or appends a new entry.
func join(all []*detail, d *detail) []*detail {
	if len(d.Index) > 0 && string(d.Index) != "null" {
		for i := len(all) - 1; i >= 0; i-- {
			if x := all[i]; x.Type == d.Type && bytes.Equal(x.Index, d.Index) {
				x.pieces = append(x.pieces, d.raw)
				return all
			}
		}
	}
	return append(all, d)
}

// whole returns the entry: growing strings are joined, and for other fields the last value that
// is not null counts.
func (d *detail) whole() json.RawMessage {
	if len(d.pieces) == 0 {
		return d.raw
	}
	var first map[string]json.RawMessage
	if json.Unmarshal(d.raw, &first) != nil {
		return d.raw
	}
	grown := map[string][]byte{}
	for _, k := range []string{"text", "summary", "data"} {
		if s := first[k]; len(s) > 0 && s[0] == '"' {
			grown[k] = unquote(nil, s[1:len(s)-1])
		}
	}
	for _, raw := range d.pieces {
		var piece map[string]json.RawMessage
		if json.Unmarshal(raw, &piece) != nil {
			continue
		}
		for k, v := range piece {
			switch {
			case string(v) == "null":
			case (k == "text" || k == "summary" || k == "data") && v[0] == '"':
				grown[k] = unquote(grown[k], v[1:len(v)-1])
			default:
				first[k] = v
			}
		}
	}
	for k, s := range grown {
		var j joiner
		v, err := encode(j.add(s) + j.end())
		if err != nil {
			return d.raw
		}
		first[k] = v
	}
	raw, err := encode(first)
	if err != nil {
		return d.raw
	}
	return raw
}
